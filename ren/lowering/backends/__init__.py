"""Backends: programs and graphs become executables of XLA, of native code or of NumPy."""
