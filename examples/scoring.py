"""What client and server agree on: how samples stand in the slots, and what is computed.

A sample has up to 16 features. The slots are a matrix [16, 128], read row by row: column i is
sample i, row j is feature j of all samples. With weights w_j all along row j, the score of sample i
is

    sum_j w_j x_ji + bias,

one product with an array and a sum over the rows: one level, four rotations, for all 128 samples.

The data are the diabetes set that scikit-learn has: 442 patients, ten measurements of each, and how
far the disease went on within a year. The first 342 are the server's, the others the client's.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes

from ren.schemes import ckks
from ren.schemes.ckks import Ciphertext

Floats = NDArray[np.float64]

ROWS, SAMPLES = 16, 128
SLOTS = ROWS * SAMPLES
DEPTH = 1
ROTATIONS = (128, 256, 512, 1024)  # those of a sum over 16 rows
LARGEST = 0.25  # no feature is beyond
INTEGER_BITS = 14  # tracked, with weights below 2^10: sums of 16 products and the bias, below 2^13
_SERVERS = 342


@attrs.frozen(eq=False)
class LinearModel:
    """x -> weights . x + bias; the server's own."""

    weights: Floats
    bias: float

    def __call__(self, x: Floats) -> Floats:
        """The scores in the clear: [samples, features] -> [samples]."""
        return x @ self.weights + self.bias


def patients(*, of_the_server: bool) -> tuple[Floats, Floats]:
    """One side's part of the data: features [samples, 10] and the true progression [samples]."""
    x, y = load_diabetes(return_X_y=True)
    part = slice(None, _SERVERS) if of_the_server else slice(_SERVERS, None)
    return np.asarray(x)[part], np.asarray(y)[part]


def fitted() -> LinearModel:
    """Least squares on the server's patients, in the clear."""
    x, y = patients(of_the_server=True)
    *weights, bias = np.linalg.lstsq(np.c_[x, np.ones(len(x))], y, rcond=None)[0]
    return LinearModel(np.array(weights), float(bias))


def packed(x: Floats) -> Floats:
    """Samples [samples, features] as the vector to encrypt."""
    matrix = np.zeros((ROWS, SAMPLES))
    matrix[: x.shape[1], : x.shape[0]] = x.T
    return matrix.ravel()


def spread(model: LinearModel) -> Floats:
    """Each weight all along its row."""
    weights = np.zeros(ROWS)
    weights[: len(model.weights)] = model.weights
    return np.repeat(weights, SAMPLES)


def scores(samples: Ciphertext, weights: Floats, bias: float) -> Ciphertext:
    """The score of sample i in slot i, and again in every row."""
    return ckks.strided_sum(samples * weights, ROWS, SAMPLES) + bias
