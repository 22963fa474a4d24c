"""The XLA backend: executables, their tables on devices, and JAX's runtime, called directly."""
