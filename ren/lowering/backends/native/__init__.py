"""Kernels in C++ for the CPU, built by the system's compiler at first use and called by XLA.

`overrides` says which ops have one, `library` builds, checks and registers them, `build` calls the
compiler. What they compute is defined by `ren.lowering.kernels`; without them, XLA runs that.
"""
