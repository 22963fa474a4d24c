"""Ciphertexts that share a half: in whatever order and programs halves are computed, they fit.

`y` and `y + 0.5` have their second polynomial in common. A program that computes one of two
polynomials rounds otherwise than one that computes both. Digits of numbers that differ by one have
nothing in common. So all programs have to cut the same value.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

import ren
from ren.schemes import ckks
from tests.properties.cases import EXAMPLES

SIZE = 7
BOUND = 2.0**-16


class Setting:
    def __init__(self) -> None:
        params = ckks.Parameters.for_depth(4, n=1 << 9, security=None)
        self.ctx = ckks.context(params=params, slots=64)
        rng = np.random.default_rng(0)
        self.matrix = rng.uniform(-1, 1, (SIZE, SIZE)) / 3
        self.vector = rng.uniform(-1, 1, SIZE)
        self.map = ckks.linear(self.matrix, self.ctx)
        self.ctx.rotation_keys(self.map.rotations)

    def encrypted(self) -> ckks.Ciphertext:
        return self.ctx.encrypt(self.vector)

    def check(self, found: ckks.Ciphertext, want: np.ndarray) -> None:
        assert np.abs(found.decrypt()[: len(want)] - want).max() < BOUND


@pytest.fixture(scope="module")
def given_() -> Setting:
    return Setting()


def test_a_result_and_its_sum_with_a_number(given_):
    """The sum is decrypted first, and shares its second half with the result."""
    y = given_.map @ given_.encrypted()
    z = y + 0.5
    given_.check(z, given_.matrix @ given_.vector + 0.5)
    given_.check(y, given_.matrix @ given_.vector)


def test_products_of_two_ciphertexts_that_share_a_half(given_):
    x = given_.encrypted()
    a, b = given_.map @ x, given_.map @ (x + 0.5)
    given_.check(a, given_.matrix @ given_.vector)
    given_.check(b, given_.matrix @ (given_.vector + 0.5))


@pytest.mark.parametrize("half", [0, 1])
def test_one_half_alone(given_, half):
    y = given_.map @ given_.encrypted()
    assert y.polys[half].tolist()
    given_.check(y, given_.matrix @ given_.vector)


def test_threads_that_compute_a_half_each(given_):
    for _ in range(10):
        y = given_.map @ given_.encrypted()
        start = threading.Barrier(2)

        def read(half: ren.Poly, start: threading.Barrier = start) -> None:
            start.wait()
            assert half.limbs.size

        with ThreadPoolExecutor(2) as threads:
            list(threads.map(read, y.polys))
        given_.check(y, given_.matrix @ given_.vector)


def both(given_: Setting, x: ckks.Ciphertext) -> tuple[ckks.Ciphertext, ckks.Ciphertext]:
    y = given_.map @ x
    return y + 0.5, y


def scanned(given_: Setting, x: ckks.Ciphertext) -> Any:
    made = lax.scan(lambda carry, _: (carry, both(given_, x)), 0, None, length=2)[1]
    return jax.tree.map(lambda leaf: leaf[1], made)


@pytest.mark.long
@pytest.mark.once
@pytest.mark.parametrize("f", [both, scanned])
@pytest.mark.parametrize("jit", [jax.jit, ren.jit])
def test_in_traces(given_, f: Callable[..., Any], jit: Callable[..., Any]):
    z, y = jit(lambda x: f(given_, x))(given_.encrypted())
    given_.check(z, given_.matrix @ given_.vector + 0.5)
    given_.check(y, given_.matrix @ given_.vector)


@pytest.mark.long
@pytest.mark.once
def test_halves_taken_apart_in_a_trace(given_):
    @jax.jit
    def f(x):
        y = given_.map @ x
        return *[jax.tree.leaves(p)[0] for p in y.polys], y

    *halves, y = f(given_.encrypted())
    given_.check(y, given_.matrix @ given_.vector)
    assert all(np.array_equal(a, p.limbs) for a, p in zip(halves, y.polys, strict=True))


STEPS: dict[str, Callable[[Setting, Any, Any], Any]] = {
    "map": lambda s, x, _: s.map @ x if isinstance(x, ckks.Ciphertext) else s.matrix @ x,
    "number": lambda s, x, _: x + 0.5,
    "double": lambda s, x, _: x * 2,
    "sum": lambda s, x, y: x + y,
    "difference": lambda s, x, y: x - y * 3,
    "turned": lambda s, x, _: (
        x.rotate(1) + x.rotate(2) * 0.5
        if isinstance(x, ckks.Ciphertext)
        else np.append(x[1:], 0) + 0.5 * np.append(x[2:], [0, 0])
    ),
    "product": lambda s, x, y: x * y * 0.25,
}
READ = {
    "decrypt": lambda y: y.decrypt(),
    "realize": lambda y: ren.realize(y),
    "first": lambda y: y.polys[0].limbs,
    "second": lambda y: y.polys[1].tolist(),
    "bytes": lambda y: y.to_bytes(),
}


@pytest.mark.long
@pytest.mark.once
@pytest.mark.parametrize("jit", [jax.jit, jax.vmap])
def test_traces_that_close_over_what_is_lazy(given_, jit: Callable[..., Any]):
    """The first half reads a tracer, the second none."""
    y = given_.map @ given_.encrypted()
    z = jit(lambda t: y + t)(np.array([0.5] * (1 + SIZE)) if jit is jax.vmap else 0.5)
    z = jax.tree.map(lambda leaf: leaf[1], z) if jit is jax.vmap else z
    given_.check(z, given_.matrix @ given_.vector + 0.5)
    given_.check(y, given_.matrix @ given_.vector)


@pytest.mark.parametrize("prune", [False, True])
def test_loops_that_close_over_ciphertexts(given_, prune):
    x, steps = given_.encrypted(), np.array([0.5, 0.25])

    def f(carry, steps):
        def step(carry, t):
            y = given_.map @ x
            return carry + 1, (y + t, y)

        return lax.scan(step, carry, steps)[1]

    z, y = ren.jit(f, prune=prune)(given_.encrypted(), steps)
    want = given_.matrix @ given_.vector
    for i, t in enumerate(steps):
        given_.check(jax.tree.map(lambda leaf, i=i: leaf[i], z), want + t)
        given_.check(jax.tree.map(lambda leaf, i=i: leaf[i], y), want)


@pytest.mark.long
@pytest.mark.once
@given(data=st.data())
@settings(max_examples=EXAMPLES if EXAMPLES >= 500 else 25)
def test_any_programs_computed_in_any_order(given_, data):
    values: list[tuple[ckks.Ciphertext, np.ndarray]] = [(given_.encrypted(), given_.vector)]
    for _ in range(data.draw(st.integers(2, 7))):
        name = data.draw(st.sampled_from(sorted(STEPS)))
        (x, a), (y, b) = (values[data.draw(st.integers(0, len(values) - 1))] for _ in range(2))
        cleared = x.layout.tail.has_leftovers  # the map replicates: it clears them, at a level more
        costs = {"map": 1 + cleared, "turned": 1, "product": 2}.get(name, 0)
        if min(x.level, y.level) >= costs and max(np.abs(a).max(), np.abs(b).max()) < 8:
            values.append((STEPS[name](given_, x, y), STEPS[name](given_, a, b)))
    order = data.draw(st.permutations(range(len(values))))
    for i in order:
        READ[data.draw(st.sampled_from(sorted(READ)))](values[i][0])
    for x, a in values:
        given_.check(x, a)
