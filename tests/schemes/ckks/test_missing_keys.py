"""One error names every rotation key that an operation lacks: with these it runs."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ren.schemes import ckks

pytestmark = pytest.mark.usefixtures("interpreted")

MATRIX = np.random.default_rng(1).uniform(-1, 1, (5, 5))
# The name in the error, and the operation: on a vector of five and on a matrix of 3 x 3, 16 slots.
OPERATIONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "rotate": ("rotate(-1)", lambda x, m: x.rotate(-1)),
    "roll": ("roll(2)", lambda x, m: x.roll(2)),
    "slice": ("ct[3:]", lambda x, m: x[3:]),
    "sum": ("sum()", lambda x, m: x.sum()),
    "mean": ("mean()", lambda x, m: x.mean()),
    "dot": ("dot()", lambda x, m: x.dot(np.ones(5))),
    "cumsum": ("cumsum()", lambda x, m: x.cumsum()),
    "long cumsum": ("cumsum()", lambda x, m: ckks.pad(x, 16).cumsum()),
    "matrix": ("A product with a matrix", lambda x, m: MATRIX @ x),
    "wide matrix": ("A product with a matrix", lambda x, m: MATRIX[:2] @ x),
    "rows": ("A product with a matrix", lambda x, m: m @ np.ones(3)),
    "matmul": ("matmul()", lambda x, m: m @ m),
    "conv1d": ("conv1d()", lambda x, m: ckks.conv1d(x, [1.0, 2.0, 3.0])),
    "conv2d": ("conv2d()", lambda x, m: ckks.conv2d(m, [[1.0, 2.0]])),
    "tile": ("tile()", lambda x, m: x.tile(3)),
    "concat": ("concat()", lambda x, m: ckks.concat([x, x, x])),
    "strided_sum": ("strided_sum()", lambda x, m: ckks.strided_sum(x, 7, -1)),
    "any": ("any", lambda x, m: ckks.math.any(x * 0.0 + 1.0)),
    "broadcast": ("A broadcast", lambda x, m: m + m[:1].reshape(3)),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")
@pytest.mark.filterwarnings("ignore::ren.core.errors.MessageBoundWarning")
def test_one_error_names_all_rotations(name: str) -> None:
    told, operation = OPERATIONS[name]
    ctx = ckks.context(depth=5, n=64, slots=16, security=None)
    x = ctx.encrypt(np.arange(5) / 5)
    m = ctx.encrypt(np.arange(9) / 9).reshape(3, 3)
    given = [3] if name == "broadcast" else []
    with ctx.server(rotations=given), pytest.raises(ckks.MissingKeyError) as caught:
        operation(x, m)
    assert caught.value.given.startswith(f"{told} needs the key")
    assert "ckks.plan(f, ...).rotations" in caught.value.do
    steps = ast.literal_eval(caught.value.do.partition("rotation_keys(")[2].partition(")")[0])
    with ctx.server(rotations=[*given, *steps]):
        got = operation(x, m)
    want = operation(x, m)
    np.testing.assert_allclose(got.decrypt(), want.decrypt(), atol=1e-3)


def test_keys_that_are_held_are_not_named(ctx: ckks.Context) -> None:
    x = ctx.encrypt([1.0])
    with ctx.server(rotations=[1, 2, 4]), pytest.raises(ckks.MissingKeyError) as caught:
        x.sum()
    assert "rotation_keys([8, 16" in caught.value.do


def test_many_rotations_are_counted(ctx: ckks.Context) -> None:
    x = ctx.encrypt(np.ones(400))
    many = np.random.default_rng(2).uniform(-1, 1, (400, 400))
    with ctx.server(rotations=[]), pytest.raises(ckks.MissingKeyError, match=r"keys for \d\d "):
        many @ x
