"""Loops of jax.lax over ciphertexts inside ren.jit: the unrolled loop, and the clear result."""

from __future__ import annotations

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import ren
from ren.core.errors import LoopError, RandomnessError
from ren.schemes import ckks

STEPS = 4
HALF = np.full(8, 0.5)
WEIGHTS = np.linspace(-1.0, 1.0, 8)
INPUTS = np.random.default_rng(0).uniform(-1, 1, (STEPS, 8))


@pytest.fixture(scope="module")
def owners():
    """Two tenants at n = 2^8, insecure: what is tested does not depend on the degree."""
    params = ckks.Parameters.for_depth(3, n=1 << 8, security=None)
    return [ckks.context(params=params) for _ in range(2)]


def cell(h, x):
    """A gate that the input opens, times a candidate; the state keeps its level."""
    h = h + (HALF + 0.25 * x) * (WEIGHTS * x.rotate(1))
    return h, h


@ren.jit
def recurrent(h, xs):
    return lax.scan(cell, h.drop_to(1), xs)


def clear() -> np.ndarray:
    turned = np.roll(np.pad(INPUTS, ((0, 0), (0, 120))), -1, axis=1)[:, :8]
    return np.cumsum((0.5 + 0.25 * INPUTS) * WEIGHTS * turned, axis=0)


def limbs(x) -> list[np.ndarray]:
    return [np.asarray(p.ntt().limbs) for p in x.polys]


def same(a, b) -> bool:
    return a.level == b.level and all(map(np.array_equal, limbs(a), limbs(b)))


def gru(h, x, weights, f):
    """A GRU cell with a diagonal recurrence; f evaluates a polynomial."""
    wr, ur, wz, uz, wh, uh = weights
    reset, update = (f(w * x + u * h, [0.5, 0.25, 0, -1 / 48]) for w, u in ((wr, ur), (wz, uz)))
    candidate = f(wh * x + reset * (uh * h), [0, 0.95, 0, -0.17])
    return h + update * (candidate - h)


@pytest.mark.once
@pytest.mark.parametrize(
    ("log_n", "steps"),
    [pytest.param(8, 2, marks=pytest.mark.long), pytest.param(12, 8, marks=pytest.mark.slow)],
)
def test_a_gru_cell_bootstraps_its_state_at_each_step(log_n, steps) -> None:
    """Steps whose gates read the encrypted state: bits of the unrolled loop, clear values."""
    params = ckks.Parameters.for_bootstrapping(7, n=1 << log_n, security=None)
    ctx = ckks.testing.context(b"a cell", params=params)
    inputs, *weights = np.random.default_rng(0).uniform(-1, 1, (7, 8, 8))
    inputs, weights = inputs[:steps], [w[0] for w in weights]
    evaluated = lambda u, c: ckks.poly(u.within(2), c).within(1)  # noqa: E731
    body = lambda h, x: [gru(h, x, weights, evaluated).within(1).bootstrap()] * 2  # noqa: E731
    xs, h = ctx.encrypt(inputs, pack="rows"), ctx.encrypt(np.zeros(8), bound=1.0)
    last, states = ren.jit(lambda h, xs: lax.scan(lambda h, x: tuple(body(h, x)), h, xs))(h, xs)
    assert last.level == h.level == params.depth
    clear, got = np.zeros(8), states.decrypt()
    for x, row, state in zip(inputs, ckks.unstack(xs), got, strict=True):
        clear, h = gru(clear, x, weights, np.polynomial.polynomial.polyval), body(h, row)[0]
        assert np.abs(state - clear).max() < 1e-5
    assert same(h, last)
    assert states.estimate.error_bound < 2


@pytest.mark.long
def test_a_cell_by_scan_for_two_owners(owners) -> None:
    recurrent.clear()
    for ctx in owners:
        xs, h = ctx.encrypt(INPUTS, pack="rows"), ctx.encrypt(np.zeros(8))
        last, states = recurrent(h, xs)
        assert np.abs(states.decrypt() - clear()).max() < 1e-6
        eager, trail = lax.scan(cell, h.drop_to(1), xs)
        assert same(last, eager) and same(states, trail)
        state = h.drop_to(1)
        for x in ckks.unstack(xs):
            state = cell(state, x)[0].realize()
        assert same(last, state)
        assert np.allclose(last.noise, state.noise, rtol=1e-4)
    assert recurrent.cache_info().plans == 1
    assert "loop, 4 steps" in recurrent.plans[0].explain()
    assert "keys, read at each call" in recurrent.plans[0].explain()


@pytest.mark.long
def test_a_plan_with_loops_holds_no_keys_and_no_arguments() -> None:
    params = ckks.Parameters.for_depth(1, n=1 << 8, security=None)
    jitted = ren.jit(lambda x: lax.fori_loop(0, 2, lambda i, c: c + c.rotate(1), x))
    owner = ckks.context(params=params)
    x = ren.realize(owner.encrypt(np.linspace(-1, 1, params.slots)))
    jitted(x)
    jitted(x)
    key = next(iter(owner._keys.galois.values()))
    gone = [weakref.ref(owner), weakref.ref(key.b[0].limbs), weakref.ref(x.polys[0].limbs)]
    del owner, x, key
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3
    assert len(jitted.plans) == 1


def test_stacked_inside(owners) -> None:
    @ren.jit
    def f(h, *xs):
        rows = jax.tree.map(lambda *leaves: jnp.stack(leaves), *xs)
        weight = (h * h).realize()
        return lax.scan(lambda h, x: (h + x * WEIGHTS + weight, None), h.drop_to(2), rows)[0]

    for ctx in owners:
        got = f(*map(ctx.encrypt, INPUTS))
        want = INPUTS[0] + sum(v * WEIGHTS + INPUTS[0] ** 2 for v in INPUTS[1:])
        assert np.abs(got.decrypt() - want).max() < 1e-6
    assert f.cache_info().plans == 1
    lines = f.plans[0].explain().splitlines()
    loop = next(i for i, line in enumerate(lines) if line.startswith("loop, 3 steps"))
    assert any("CONVERT" in line for line in lines[:loop])
    assert not any("CONVERT" in line for line in lines[loop:])


def test_numbers_and_flags_that_are_arguments(owners) -> None:
    ctx = owners[0]
    x, v = ctx.encrypt(INPUTS[0]), INPUTS[0]

    @ren.jit
    def f(x, steps, scale, offset, w, flag):
        x = lax.fori_loop(0, steps, lambda i, c: c * scale + offset - w + i, x)
        return lax.cond(flag, lambda c: c + c, lambda c: -c, x)

    for steps, scale, offset, flag in ((3, 2, 0.5, True), (1, -1, 0.25, False), (0, 1, 0.5, True)):
        want = v
        for i in range(steps):
            want = want * scale + offset - WEIGHTS + i
        want = 2 * want if flag else -want
        assert np.abs(f(x, steps, scale, offset, WEIGHTS, flag).decrypt() - want).max() < 1e-6
    assert f.cache_info().misses == 1


def test_encryption_before_a_loop_and_lengths(owners) -> None:
    ctx = owners[0]

    @ren.jit
    def f(x, values):
        e = ctx.encrypt(values)
        return lax.fori_loop(0, 2, lambda i, c: c + e, x)

    for count in (4, 8):
        x = ctx.encrypt(INPUTS[0][:count])
        first, second = (f(x, INPUTS[1][:count]) for _ in range(2))
        for got in (first, second):
            assert np.abs(got.decrypt() - (INPUTS[0] + 2 * INPUTS[1])[:count]).max() < 1e-6
        assert not same(first, second)
    assert f.cache_info().plans == 2


def test_within_a_server_that_is_active(owners) -> None:
    ctx = owners[0]
    xs, h = ctx.encrypt(INPUTS, pack="rows"), ctx.encrypt(np.zeros(8))
    ctx.rotation_keys(1)
    with ctx.server():
        last, _ = recurrent(h, xs)
    assert np.abs(last.decrypt() - clear()[-1]).max() < 1e-6


def test_vmap_around_and_jit_within(owners) -> None:
    ctx = owners[0]
    xs = ctx.encrypt(INPUTS, pack="rows")
    doubled = ren.jit(lambda x: lax.fori_loop(0, 2, lambda i, c: c + c.rotate(0), x))
    assert np.abs(jax.vmap(doubled)(xs).decrypt() - 4 * INPUTS).max() < 1e-6
    assert np.abs(ren.jit(lambda x: doubled(x) + 1)(xs).decrypt() - 4 * INPUTS - 1).max() < 1e-6


def test_what_raises(owners) -> None:
    ctx = owners[0]
    x, y = (ctx.encrypt(v) for v in INPUTS[:2])
    with pytest.raises(LoopError, match="level 3 and 2") as raised:
        ren.jit(lambda x, y: lax.fori_loop(0, 2, lambda i, c: c * y, x))(x, y)
    assert "loop_carry[1]" in raised.value.given and "unrolled" in raised.value.do
    with pytest.raises(LoopError, match="zeros and leftovers"):
        ren.jit(lambda x, y: lax.fori_loop(0, 2, lambda i, c: c + y.sum(), x))(x, y)
    with pytest.raises(RandomnessError, match="Encrypt outside"):
        ren.jit(lambda x: lax.fori_loop(0, 2, lambda i, c: c + ctx.encrypt([1.0]), x))(x)
    with pytest.raises(LoopError, match=r"level \d and \d"):
        ren.plan(lambda x: lax.fori_loop(0, 2, lambda i, c: c * c, x), ckks.spec(8))


@pytest.mark.long
def test_a_plan_of_a_function_with_loops() -> None:
    """Depth, keys and work of all steps; a carry whose level is named fits at its depth."""

    def summed(x, xs, start: int = 0):
        return lax.scan(lambda h, v: (h + v * v.rotate(1) * HALF, h), x.drop_to(start), xs)[0]

    specs = ckks.spec(8), ckks.spec((STEPS, 8), pack="rows")
    small = {"n": 1 << 10, "security": None}
    plan = ren.plan(summed, *specs, **small)
    assert (plan.depth, plan.rotations, plan.needs_conjugation) == (2, (1,), False)
    assert plan.needs_products and plan.peak_bytes > 0 and plan.seconds > 0
    unrolled = ren.plan(lambda x, y: x + y * y.rotate(1) * HALF, specs[0], specs[0], **small)
    assert plan.limb_ntts >= STEPS * unrolled.limb_ntts / 2 > 0
    ctx = ckks.context(plan)
    got = ren.jit(summed)(ctx.encrypt(np.zeros(8)), ctx.encrypt(INPUTS, pack="rows"))
    turned = np.pad(INPUTS, ((0, 0), (0, 1)))[:, 1:]
    assert got.level == 0 and np.abs(got.decrypt() - (INPUTS * turned).sum(0) / 2).max() < 1e-5
    assert ren.plan(lambda x, xs: summed(x, xs, 1), *specs, **small).depth == 3
    assert ren.plan(lambda xs: jax.vmap(lambda x: x * x)(xs), specs[1], **small).depth == 1
    shown = ren.xpr(summed, *specs)
    assert f"loop, {STEPS} steps" in shown and "program 0" in shown
    assert list(ren.stages(summed, *specs)) == ["capture", "jaxpr"]


def test_a_plan_of_a_jitted_function_with_loops_is_replayed() -> None:
    double = ren.jit(lambda x: lax.fori_loop(0, 2, lambda i, c: c + x * x, x.drop_to(0)))
    plan = ren.plan(double, ckks.spec(8), n=1 << 10, security=None)
    assert plan.depth == 1 and double.cache_info()[:2] == (0, 1)
    x = ckks.context(plan).encrypt(INPUTS[0])
    assert np.abs(double(x).decrypt() - INPUTS[0] - 2 * INPUTS[0] ** 2).max() < 1e-5
    assert double.cache_info()[:2] == (1, 1)


@pytest.mark.long
def test_maps_and_jits_of_jax_inside(owners) -> None:
    xs = owners[0].encrypt(INPUTS, pack="rows")
    wanted = INPUTS**2 + 2 * INPUTS
    for function in (
        lambda v: jax.vmap(lambda x: x * x + 2 * x)(v),
        lambda v: jax.vmap(lambda x: lax.fori_loop(0, 2, lambda i, c: c + x, x * x))(v),
        lambda v: jax.jit(lambda x: x * x)(v) + 2 * v,
    ):
        jitted = ren.jit(function)
        for _ in range(2):
            result = jitted(xs)
            assert np.abs(result.decrypt() - wanted).max() < result.estimate.error_bound < 1e-4
        assert jitted.cache_info()[:2] == (1, 1)


def test_functions_of_jax_numpy_of_numbers(owners) -> None:
    """Traced with the function: an array of JAX, as without ren.jit."""
    x = owners[0].encrypt(INPUTS[0])
    jitted = ren.jit(lambda x, w, k: x * jax.nn.softmax(w) + jnp.where(k > 0, jnp.exp(k), 0.0))
    for w, k in ((INPUTS[1], 0.5), (INPUTS[2], -1.0)):
        softmax = np.exp(w) / np.exp(w).sum()
        wanted = INPUTS[0] * softmax + (np.exp(k) if k > 0 else 0)
        assert np.abs(jitted(x, w, k).decrypt() - wanted).max() < 1e-6
    assert jitted.cache_info()[:2] == (1, 1)


@pytest.mark.parametrize("shape", [(5, 20), (7, 20), (7, 7)])
def test_maps_in_a_loop_read_their_own_arrays(shape):
    """A loop is traced twice, and inputs of one type may change places between the traces."""
    ctx = ckks.context(params=ckks.Parameters.for_depth(2, n=1 << 9, security=None), slots=64)
    matrix = np.random.default_rng(shape).uniform(-1, 1, shape) / 3
    vector = np.random.default_rng(1).uniform(-1, 1, shape[1])
    m = ckks.linear(matrix, ctx)
    ctx.rotation_keys(m.rotations)

    @ren.jit
    def f(x):
        made = lax.scan(lambda carry, _: (carry, (m @ x + 0.5, m @ x)), 0, None, length=2)[1]
        return jax.tree.map(lambda leaf: leaf[1], made)

    for _ in range(2):
        z, y = f(ctx.encrypt(vector))
        assert np.abs(y.decrypt() - matrix @ vector).max() < 2.0**-16
        assert np.abs(z.decrypt() - matrix @ vector - 0.5).max() < 2.0**-16


def test_jax_tells_of_types_that_differ_in_words_of_ren(ctx) -> None:
    """Loops and branches outside of `ren.jit`, and what JAX tells of other types by itself."""
    x, ring = ctx.encrypt([0.5, 0.25]), ren.RingSpec(8, (17, 97))
    rows, p = ren.Poly(np.arange(24).reshape(3, 8), ring), ren.Poly([1, 2], ring)
    (x * x).realize()
    square = lambda c: c * c  # noqa: E731
    for run, said in (
        (lambda: lax.fori_loop(0, 2, lambda i, c: square(c), x), r"level \d and \d"),
        (lambda: lax.scan(lambda c, v: (square(c), v), x, np.arange(2.0)), r"level \d and \d"),
        (lambda: lax.while_loop(lambda s: s[1] < 2, lambda s: (square(s[0]), s[1] + 1), (x, 0)),
         r"in s\[0\]: level"),
        (lambda: lax.cond(True, square, lambda c: c, x), "branches differ: level"),
        (lambda: jax.jit(lambda v: lax.fori_loop(0, 2, lambda i, c: square(c), v))(x), "level"),
        (lambda: lax.fori_loop(0, 3, lambda i, c: c + c, (x, x)), "lengths do not match"),
        (lambda: lax.scan(lambda c, q: (c + q, None), ren.Poly.zeros(ring).realize(), rows),
         "contiguous"),
        (lambda: lax.fori_loop(0, 3, lambda i, c: c * c + c, p), "domain COEFF and NTT"),
    ):  # fmt: skip
        with pytest.raises(LoopError, match=said) as caught:
            run()
        assert "test_loops.py" in str(caught.value)
    assert lax.fori_loop(0, 3, lambda i, c: c + p.ntt(), p.ntt()).tolist()[:2] == [4, 8]
    with pytest.raises(TypeError, match="carry"):
        lax.fori_loop(0, 3, lambda i, c: (c, c), np.ones(2))
