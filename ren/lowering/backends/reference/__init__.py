"""The NumPy backend: the device "python", exact and independent of XLA."""
