"""Packing and diagonals against the layer as plain linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from ren.demo import packing
from ren.demo.model import Layer

SLOTS = 128


def layer(outputs: int, inputs: int) -> Layer:
    rng = np.random.default_rng(outputs * 100 + inputs)
    return Layer(rng.normal(size=(outputs, inputs)), rng.normal(size=outputs))


@pytest.mark.parametrize(("outputs", "inputs"), [(10, 64), (16, 64), (10, 16), (1, 1), (3, 20)])
@pytest.mark.parametrize("count", [1, 5, 8])
def test_the_sum_over_diagonals_is_the_layer(outputs: int, inputs: int, count: int) -> None:
    """Horner's rule over the diagonals, with numpy.roll for the rotation by one segment."""
    made = layer(outputs, inputs)
    x = np.random.default_rng(count).normal(size=(count, inputs))
    vectors = packing.pack(x, SLOTS)
    total = np.zeros(SLOTS)
    for row in reversed(packing.diagonals(made, SLOTS)):
        total = np.roll(total, -packing.segment_length(SLOTS))
        total = total + sum(v * d for v, d in zip(vectors, row, strict=True))
    total = total + packing.bias(made, SLOTS)
    np.testing.assert_allclose(packing.unpack(total, count, outputs), made(x), atol=1e-12)


def test_packing_is_reversible() -> None:
    x = np.arange(8 * 16, dtype=float).reshape(8, 16)
    (vector,) = packing.pack(x, SLOTS)
    np.testing.assert_array_equal(packing.unpack(vector, 8, 16), x)
