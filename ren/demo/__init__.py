"""Ren's main job: a second process classifies handwritten digits that it never sees in the clear.

Read in this order: `model` (training, in the clear), `packing` (images to slots, weights to
diagonals), `scorer` (the process that computes on ciphertexts), `wire` (the bytes between the
two), `__main__` (the owner of the images and of the secret key) and `report` (the table).
"""
