"""Images to slots and weights to diagonals, so that few ciphertexts and one rotation key do.

The slots of a ciphertext are 16 segments. A segment holds one number of each image of a batch: a
pixel, a hidden unit or a class score. With 8192 slots that is 512 images. The 64 pixels of a batch
are 4 ciphertexts; up to 16 outputs of a layer are one.

A layer y_o = sum_i w[o, i] x_i is summed by diagonals (Halevi and Shoup, CRYPTO 2014): segment o of
`rotate(x, r segments)` holds x_(o + r mod 16), so with D_(r, c)[o] = w[o, 16 c + (o + r mod 16)]

    y = sum_r sum_c D_(r, c) * rotate(x_c, r segments).

The rotation is taken out of the inner sum, for which each D turns by r segments the other way. Then
Horner's rule in "rotate by one segment" needs one key and, for any number of images, 15 rotations.
"""

from __future__ import annotations

import numpy as np

from ren.demo.model import Layer

SEGMENTS = 16


def segment_length(slots: int) -> int:
    """Number of images that fit: the slots of one segment."""
    return slots // SEGMENTS


def pack(values: np.ndarray, slots: int) -> list[np.ndarray]:
    """[count, features] -> one slot vector for each 16 features; count <= `segment_length`."""
    count, features = values.shape
    wide = np.zeros((-(-features // SEGMENTS) * SEGMENTS, segment_length(slots)))
    wide[:features, :count] = values.T
    return list(wide.reshape(-1, slots))


def unpack(vector: np.ndarray, count: int, features: int) -> np.ndarray:
    """A slot vector -> [count, features], features <= 16."""
    return np.real(vector).reshape(SEGMENTS, -1)[:features, :count].T


def diagonals(layer: Layer, slots: int) -> list[list[np.ndarray]]:
    """D_(r, c) for each rotation r and each input ciphertext c, turned back by r segments."""
    outputs, inputs = layer.weights.shape
    chunks = -(-inputs // SEGMENTS)
    wide = np.zeros((SEGMENTS, chunks * SEGMENTS))
    wide[:outputs, :inputs] = layer.weights
    o = np.arange(SEGMENTS)
    return [
        [
            spread(np.roll(wide[o, SEGMENTS * c + (o + r) % SEGMENTS], r), slots)
            for c in range(chunks)
        ]
        for r in range(SEGMENTS)
    ]


def bias(layer: Layer, slots: int) -> np.ndarray:
    """The bias of output o in every slot of segment o."""
    return spread(np.pad(layer.bias, (0, SEGMENTS - len(layer.bias))), slots)


def spread(values: np.ndarray, slots: int) -> np.ndarray:
    """16 numbers -> a slot vector with each of them all over its segment."""
    return np.repeat(values, segment_length(slots))
