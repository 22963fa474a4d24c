"""Modular arithmetic, transforms and base conversion as jax.numpy, with their tables."""
