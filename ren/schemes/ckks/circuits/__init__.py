"""Encrypted functions and linear algebra, composed of the operators of ciphertexts alone.

All of it is lazy. Sums of products are relinearized and rescaled once. Rotations of one ciphertext
share their ModUp, and a sum of rotated plaintext products is divided by P once. The compiler does
that, and nothing here is written for it by hand.
"""
