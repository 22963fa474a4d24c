"""Arithmetic of ciphertexts: automatic and manual operations, rotations, tails and blocks."""
