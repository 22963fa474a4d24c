"""Homomorphic encryption schemes."""
