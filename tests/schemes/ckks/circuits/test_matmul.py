"""Products of encrypted matrices: routes in the clear, values, levels, keys."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import ren
from ren.schemes import ckks
from ren.schemes.ckks.circuits import matmul
from ren.schemes.ckks.circuits.matmul import Ladder, route
from tests.schemes.ckks.keys import keys_of

BAR = 2.0**-17


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).uniform(-1, 1, shape)


@pytest.mark.parametrize("radix", [0, 1, 2, 3, 4, 8])
@pytest.mark.parametrize(("unit", "low", "high"), [(1, -6, 6), (3, 0, 15), (2, -8, 0), (1, 0, 0)])
def test_ladders_reach_every_step_with_the_keys_that_they_name(unit, low, high, radix, monkeypatch):
    ladder, x, steps = Ladder(unit, low, high, radix), np.arange(64), []

    def rotate(slots: np.ndarray, step: int) -> np.ndarray:
        steps.extend([step] * (step != 0))
        return np.roll(slots, -step)

    monkeypatch.setattr(matmul, "rotate", rotate)
    rotated: dict = ladder.climb(x)  # type: ignore[type-var]
    assert list(rotated) == list(range(low, high + 1, unit))
    assert all(np.array_equal(y, np.roll(x, -step)) for step, y in rotated.items())
    assert set(steps) == ladder.keys and len(steps) <= ladder.rotations


@pytest.mark.parametrize(("d", "slots"), [(1, 8), (4, 16), (4, 32), (5, 64), (7, 64), (13, 512)])
def test_a_key_budget_is_kept(d, slots):
    free = route(d, slots, None)
    assert len(free.keys) <= 4 * d + 8 * d**0.5
    for keys in (8, 12, 20):
        assert len(route(d, slots, keys).keys) <= keys
        assert route(d, slots, keys).rotations >= route(d, slots, 2 * keys).rotations
    if d > 1:
        with pytest.raises(ckks.ParameterError, match=r"keys=1(.|\n)*rotation keys at least"):
            route(d, slots, 1)


def check(y: ckks.Ciphertext, want: np.ndarray, level: int = 1) -> None:
    got = y.decrypt()
    assert got.shape == want.shape and y.level == level
    assert np.abs(got - want).max() < min(BAR, y.estimate.error_bound)
    assert np.abs(want).max() <= y.estimate.message_bound


def test_a_product_on_slots_that_are_not_clean(ctx64):
    a, b = drawn(2, 2), drawn(2, 2, 2)[1]
    x, y = ctx64.encrypt(a.ravel()) + 0.5, ctx64.encrypt(b.ravel())
    made = ckks.matmul(x, y)
    check(made, (a + 0.5) @ b)
    assert made.estimate.message_bound <= 2 * 1.5 * 1.001


@pytest.mark.slow
@pytest.mark.parametrize(
    ("d", "keys"), [(1, None), (3, None), (7, None), (8, None), (5, 9), (7, 9)]
)
def test_sizes_and_budgets(ctx64, d, keys):
    owner = ckks.context(params=ctx64.params)
    a, b = drawn(d, d), drawn(2, d, d)[1]
    x, y = (owner.encrypt(m.ravel()).reshape(d, d) for m in (a, b))
    made = ckks.matmul(x, y, keys=keys)
    check(made, a @ b, 2 if d == 1 else 1)
    assert len(keys_of(owner).galois) == len(route(d, 64, keys).keys) <= (keys or 4 * d + 8)
    if keys is None:
        check(x @ y, a @ b, 2 if d == 1 else 1)


@pytest.mark.slow
def test_under_jit_vmap_and_in_batches(ctx64):
    a, b = drawn(2, 2, 2), drawn(3, 2, 2)[1:]
    x, y = (ctx64.encrypt(m.reshape(2, 4), pack="rows") for m in (a, b))
    check(ckks.matmul(x, y), a @ b)
    check(jax.vmap(ckks.matmul)(x, y), a @ b)
    f = ren.jit(lambda x, y: ckks.matmul(x, y) + 1)
    for _ in range(2):
        check(f(ctx64.encrypt(a[0].ravel()), ctx64.encrypt(b[0].ravel())), a[0] @ b[0] + 1)
    assert f.cache_info().hits == 1


def test_a_plan_knows_the_rotations():
    plan = ren.plan(ckks.matmul, ckks.spec(9), ckks.spec(9), n=1 << 8, security=None)
    assert plan.depth == 3 and plan.needs_products
    steps = {k % plan.params.slots for k in plan.rotations}
    assert steps == route(3, plan.params.slots, None).keys


@pytest.mark.long
@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (4, 1), (7, 7)])
def test_a_flat_matrix_and_a_vector(ctx64, shape):
    a, w, u = drawn(*shape), drawn(shape[1]), drawn(shape[0])
    m, right, left = map(ctx64.encrypt, (a, w, u))
    p, q, r = map(ctx64.encode, (a, w, u))
    for y in (m @ right, p @ right, m @ q, np.matmul(m, right), m.dot(right), m.dot(q, axis=-1)):
        assert y.shape == shape[:1] and np.abs(y.decrypt() - a @ w).max() < BAR
    for y in (left @ m, left @ p, r @ m, ren.jit(lambda v, m: v @ m)(left, m)):
        assert y.shape == shape[1:] and np.abs(y.decrypt() - u @ a).max() < BAR
    with pytest.raises(ckks.ParameterError, match=f"takes a vector of {shape[1]} numbers"):
        m @ ctx64.encrypt(drawn(shape[1] + 1))
    with pytest.raises(ckks.ParameterError, match=r"A matrix product got(.|\n)*x\.dot\(y\)"):
        m @ ctx64.encrypt(drawn(2, shape[1]), pack="rows")


def test_what_is_no_square(ctx64):
    x, y, z = (ctx64.encrypt(drawn(count)) for count in (9, 4, 16))
    long, scalar = ctx64.encrypt(drawn(81)), ctx64.encrypt(1.0)
    for bad in ((x, y), (x[:8], x[:8]), (long, long), (z.reshape(2, 8), z), (scalar, y)):
        with pytest.raises(ckks.ParameterError, match="square"):
            ckks.matmul(*bad)
    with pytest.raises(ckks.DepthError, match="takes 3 levels"):
        ckks.matmul(x.drop_to(2), x)
