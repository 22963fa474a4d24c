"""One error names every key that an operation, or a captured function, lacks."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ren
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
        operation(x, m).realize()  # what is recorded needs keys where it is read
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


def of_many_keys(x: Any) -> Any:
    return x.rotate(1) + x.rotate(3).conj() * x.rotate(-2) + x.roll(1) * 0.5


@pytest.mark.long
@pytest.mark.parametrize("wrapped", [ren.jit, ren.djit, lambda f: lambda x: ren.xpr(f, x)])
def test_one_error_names_all_keys_of_a_captured_function(wrapped: Any) -> None:
    ctx = ckks.context(depth=2, n=64, security=None)
    x = ctx.encrypt(np.arange(5) / 5)
    bare, f = ctx.server(rotations=[-2], relinearization=False), wrapped(of_many_keys)
    for _ in range(2):
        with bare, pytest.raises(ckks.MissingKeyError) as caught:
            f(x)
        assert caught.value.given == (
            "rotate(1), rotate(3), conj(), a product of ciphertexts and 1 more need the keys for "
            "rotation by -1, 1, 3 and 4, conjugation and relinearization, which this context lacks."
        )
    call = "ctx.rotation_keys([-1, 1, 3, 4]).conjugation_key()"
    assert f"call {call} before ctx.server(), which holds the relin" in caught.value.do
    bare.adopt(eval(call).server())
    with bare:
        f(x), f(x)
        got = ren.jit(of_many_keys)(x)
    np.testing.assert_allclose(got.decrypt(), of_many_keys(x).decrypt(), atol=1e-3)


def test_one_error_names_all_keys_of_a_call_and_nothing_else_hides_it() -> None:
    ctx = ckks.context(depth=3, n=64, slots=16, security=None)
    m = ctx.encrypt(np.arange(9) / 9).reshape(3, 3)
    bare = ctx.server(rotations=[], relinearization=False)
    with bare, pytest.raises(ckks.MissingKeyError, match=r"matmul\(\) needs the keys .* and relin"):
        m @ m
    deep = ren.jit(lambda x: x.rotate(1) * x * x * x * x * x)
    for ended in (ckks.MissingKeyError, ckks.DepthError):
        with bare, pytest.raises(ended):
            deep(m)
        bare.adopt(ctx.rotation_keys([1]).server())

    def of_a_user(x: Any) -> Any:
        x.rotate(2)
        raise KeyError("mine")

    with bare, pytest.raises(KeyError, match="mine"):
        ren.jit(of_a_user)(m)


def test_a_key_that_another_live_context_holds_is_said_to_be_there() -> None:
    """Outside of `with` the context that was read last computes."""
    ctx = ckks.context(depth=1, n=64, security=None).rotation_keys([1, 2])
    data = ctx.encrypt([1.0, 2.0, 3.0]).to_bytes()
    first, second = (ctx.server(rotations=[step]).to_bytes() for step in (1, 2))
    del ctx
    holder = ckks.load_server(first)
    x = ckks.Ciphertext.from_bytes(data)
    other = ckks.load_server(second)
    for f in (lambda x: x.rotate(1), ren.jit(lambda x: x.rotate(1))):
        with pytest.raises(ckks.MissingKeyError, match=r"Another live context .*\n.*`with other:`"):
            f(x)
    with pytest.raises(ckks.MissingKeyError, match="Only the owner"):
        x.rotate(3)
    with holder:
        x.rotate(1)
    other.adopt(holder)
    x.rotate(1)
