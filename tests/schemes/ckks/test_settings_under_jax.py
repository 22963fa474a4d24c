"""Settings that a traced program depends on, in every transformation of JAX."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import ren
from ren.schemes import ckks
from ren.schemes.ckks.arithmetic.operation_hooks import settings

A, B = np.array([0.5, -0.25]), np.array([0.125, 1.0])
SETTINGS: dict[str, Callable[[], Any]] = {
    "manual": ckks.manual,
    "interval": lambda: ckks.intervals((-1, 1)),
    "another": lambda: ckks.intervals((-2, 2)),
    "precision": lambda: ckks.intervals(precision=12),
    "gap": lambda: ckks.intervals(gap=0.1),
    "named": lambda: ckks.intervals(exp=(-1, 1)),
}


@pytest.fixture(scope="module")
def ctx() -> ckks.Context:
    return ckks.context(params=ckks.Parameters.for_depth(2, n=2**10, security=None))


def compiled(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: jax.jit(g).lower(x).compile()(x)


def by_scan(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def body(carry: Any, _: Any) -> Any:
        return carry, g(carry)

    return lambda x: jax.tree.map(lambda leaf: leaf[0], lax.scan(body, x, None, length=1)[1])


def by_cond(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.cond(jnp.array(True), g, g, x)


def by_custom_vjp(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    f = jax.custom_vjp(g)
    f.defvjp(lambda x: (g(x), None), lambda _, d: (d,))
    return f


def by_vmap(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
    mapped = jax.vmap(g)
    return lambda x: jax.tree.map(lambda leaf: leaf[1], mapped(ckks.stack([x, x])))


# Each is made once of a function, and called in several modes.
TRANSFORMATIONS: dict[str, Callable[[Callable], Callable]] = {
    "jit": jax.jit, "checkpoint": jax.checkpoint, "lower": compiled, "scan": by_scan,
    "cond": by_cond, "custom_vjp": by_custom_vjp, "vmap": by_vmap, "ren.jit": ren.jit,
    "jit of jit": lambda g: jax.jit(jax.jit(g)), "jit of checkpoint":
    lambda g: jax.jit(jax.checkpoint(g)),
}  # fmt: skip


@pytest.mark.parametrize("of", TRANSFORMATIONS)
@pytest.mark.parametrize("name", SETTINGS)
def test_a_function_is_traced_in_the_settings_of_its_call(ctx, of: str, name: str):
    x, seen = ctx.encrypt(A), []

    def g(x: Any) -> Any:
        seen.append(settings())
        return x + x

    f = TRANSFORMATIONS[of](g)
    outside = settings()
    for mode in (contextlib.nullcontext, SETTINGS[name], contextlib.nullcontext):
        with mode():
            seen.clear()
            assert np.abs(f(x).decrypt() - 2 * A).max() < 1e-6
            # Outside again it may be there already.
            assert set(seen) == {settings()} or (mode is contextlib.nullcontext and not seen)
    assert settings() == outside


@pytest.mark.parametrize("of", TRANSFORMATIONS)
@pytest.mark.parametrize("is_first", [False, True])
def test_a_product_in_manual_mode(ctx, of: str, is_first: bool):
    """In manual mode a product has three components and the square of the scale."""
    x = ctx.encrypt(A)
    f = TRANSFORMATIONS[of](lambda x: x * x)
    for is_manual in (is_first, not is_first, is_first):
        with ckks.manual() if is_manual else contextlib.nullcontext():
            y = f(x)
            assert len(y.polys) == 2 + is_manual
            assert y.level == x.level - (not is_manual)
            assert np.abs(y.decrypt() - A * A).max() < 1e-5


def test_a_ciphertext_that_a_traced_function_closes_over(ctx):
    x, w = ctx.encrypt(A), jnp.float32(2)
    f = jax.jit(lambda w: (x * x, w))
    for is_manual in (False, True, False):
        with ckks.manual() if is_manual else contextlib.nullcontext():
            assert len(f(w)[0].polys) == 2 + is_manual


def test_intervals_of_a_compiled_function(ctx):
    x = ctx.encrypt(A)
    f = jax.jit(lambda x: x + x).lower(x).compile()
    assert np.abs(f(x).decrypt() - 2 * A).max() < 1e-6
    with ckks.intervals((-1, 1)), pytest.raises(TypeError, match=r"1 mismatch.*\n.*Intervals"):
        f(x)
    with ckks.manual(), pytest.raises(TypeError, match=r"1 mismatch.*\n.*manual=True"):
        f(x)
    assert np.abs(f(x).decrypt() - 2 * A).max() < 1e-6


@pytest.mark.long
def test_functions_on_the_intervals_of_the_call():
    deep = ckks.context(params=ckks.Parameters.for_depth(3, n=2**10, security=None))
    x = deep.encrypt(np.array([0.25, 0.75]))
    f = jax.jit(lambda x: np.exp(x))
    found = []
    for precision in (4, 16):
        with ckks.intervals((0, 1), precision=precision):
            y = f(x)
        assert np.abs(y.decrypt() - np.exp([0.25, 0.75])).max() < 2.0 ** (2 - precision)
        found.append(y.level)
    assert found[0] > found[1]
