"""Ren's main job: a second process classifies handwritten digits that it never sees in the clear.

Read in this order: `model` (training, in the clear), `packing` (images to slots, weights to
diagonals), `scorer` (computes on ciphertexts). Then `wire` (the bytes between the two processes),
`__main__` (the owner of images and secret key) and `report` (the table).
"""
