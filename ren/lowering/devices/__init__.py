"""Devices: where arrays are, what is donated, how many threads compute, and JAX's own traces."""
