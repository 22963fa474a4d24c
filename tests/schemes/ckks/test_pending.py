"""Late relinearization and rescaling: how often they run, and that values and forms are right."""

from __future__ import annotations

import gc
import operator
import pickle
import weakref
from collections import Counter
from functools import reduce

import jax
import numpy as np
import pytest

import ren
from ren.core.errors import DepthError
from ren.core.node import toposort
from ren.core.op import MODDOWN, MODUP, MUL, RESCALE
from ren.schemes import ckks

BAR = 2.0**-22


def error(x, want) -> float:
    return float(np.abs(x.decrypt() - want).max())


def counts(x: ckks.Ciphertext) -> Counter:
    """How often each op stands in the program of a ciphertext."""
    return Counter(node.op for node in toposort(*(p.node for p in x.polys)))


@pytest.fixture(scope="module")
def vectors(ctx):
    return np.random.default_rng(11).uniform(-1, 1, (8, ctx.slots))


@pytest.fixture(scope="module")
def fresh(ctx, vectors):
    made = [ctx.encrypt(v) for v in vectors]
    ren.realize(made)
    return made


@pytest.fixture(scope="module")
def digits(ctx):
    """How many digits meet the ring of the top level."""
    top = set(ctx.params.ring(ctx.params.depth).moduli)
    return sum(1 for digit in ctx.params.digits if top & set(digit))


# ------------------------------------------------------------------- counting


def test_a_sum_of_eight_products_relinearizes_and_rescales_once(fresh, vectors, digits):
    products = [x * y for x, y in zip(fresh, reversed(fresh), strict=True)]
    z = reduce(operator.add, products)
    found = counts(z)
    assert (found[MODUP], found[MODDOWN], found[RESCALE]) == (digits, 2, 2)
    assert z.level == 2 and error(z, sum(vectors * vectors[::-1])) < BAR
    one = ren.jit(lambda x, y: x * y)
    eight = ren.jit(lambda xs, ys: reduce(operator.add, map(operator.mul, xs, ys)))
    assert error(one(fresh[0], fresh[1]), vectors[0] * vectors[1]) < BAR
    assert error(eight(fresh, fresh[::-1]), sum(vectors * vectors[::-1])) < BAR
    assert eight.plans[0].cost.limb_ntts == one.plans[0].cost.limb_ntts


def test_a_sum_of_sixteen_plaintext_products_rescales_once(ctx, fresh, vectors):
    factors = np.random.default_rng(5).uniform(-1, 1, (16, ctx.slots))
    terms = [fresh[i % 8] * ctx.encode(f) for i, f in enumerate(factors)]
    found = counts(reduce(operator.sub, terms[1:], terms[0]))
    assert (found[MODUP], found[MODDOWN], found[RESCALE]) == (0, 0, 2)
    assert error(sum(terms), sum(factors * vectors[[*range(8)] * 2])) < BAR


def test_rotated_plaintext_products_rescale_once(ctx, fresh, vectors):
    ctx.rotation_keys(range(1, 5))
    factors = np.random.default_rng(6).uniform(-1, 1, (4, ctx.slots))
    terms = [fresh[0].rotate(k + 1) * ctx.encode(f) for k, f in enumerate(factors)]
    z = reduce(operator.add, terms)
    assert counts(z)[RESCALE] == 2
    want = sum(f * np.roll(vectors[0], -k - 1) for k, f in enumerate(factors))
    assert error(z, want) < BAR


def test_what_joins_a_product_costs_no_key_switch_and_no_transform(ctx, fresh, vectors, digits):
    a, b, c, d = vectors[:4]
    x, y, u, v = fresh[:4]
    low, p = u.drop_to(2).realize(), ctx.encode(b, level=2)
    top, bottom = ctx.encode(d), ctx.encrypt(c, level=2)
    ren.realize(p.poly, top.poly, bottom)
    z = 3 * (x * y) - x + u * d + 0.25 + p - (1.5 - low) - v * y + bottom + (a - x * 0.5) - top
    found = counts(z)
    assert (found[MODUP], found[MODDOWN], found[RESCALE]) == (digits, 2, 2)
    want = 3 * a * b - a + c * d + 0.25 + b - 1.5 + c - d * b + c + a - a * 0.5 - d
    assert z.level == 2 and error(z, want) < 4 * BAR


def test_a_second_product_settles_the_first(fresh, vectors, digits):
    x, y = fresh[:2]
    z = (x * y) * x
    found = counts(z)
    assert found[RESCALE] == 2 + 2 + 2  # (x y), x dropped to its level, and the whole
    assert found[MODDOWN] == 4
    assert z.level == 1 and error(z, vectors[0] ** 2 * vectors[1]) < BAR


def test_rotations_settle(ctx, fresh, vectors, digits):
    ctx.rotation_keys([1, 2])
    a, b = vectors[:2]
    z = fresh[0] * fresh[1] + fresh[0]
    turned = z.rotate(1) + z.rotate(2) + z.conj()
    want = np.roll(a * b + a, -1) + np.roll(a * b + a, -2) + a * b + a
    assert turned.pending is None
    assert counts(turned)[RESCALE] == 2 and counts(turned)[MODUP] <= 2 * digits
    assert error(turned, want) < BAR
    assert error(z.roll(3), np.roll(a * b + a, 3)) < BAR


def test_products_at_two_levels_meet_at_the_lower_one(fresh, vectors):
    a, b, c = vectors[:3]
    x, y, u = fresh[:3]
    low = (x * y) * u
    for z, want, level in (
        (low + x * y, a * b * c + a * b, 1),
        (x * y - low, a * b - a * b * c, 1),
        (low - u, a * b * c - c, 1),
        (u.drop_to(0) + low, c + a * b * c, 0),
    ):
        assert z.level == level and error(z, want) < BAR
    assert counts(low + x * y)[MODDOWN] == 4  # x y is in normal form inside low: found again
    assert counts(low + u)[MODDOWN] == counts(low)[MODDOWN]


# ------------------------------------------------------------------- forms


def test_levels_and_scales_are_those_after_settling(ctx, fresh):
    x, y = fresh[:2]
    for z in (x * y, x * 0.5, x * ctx.encode([1.0]), -(x * y), 2 * (x * y) + 1):
        assert z.pending is not None and z.level == 2 and z.scale == ctx.params.scale(2)
        for settled in (z.rescale(), z.relinearize(), z.realize()):
            assert settled.pending is None and settled.level == 2
            assert [p.node for p in settled.polys] == [p.node for p in z.polys]
        assert z.drop_to(2) is z and z.drop_to(1).pending is None
    assert all(z.pending is None for z in (x + y, -x, 2 * x, x + 1, x.rotate(0)))


def test_every_exit_gives_one_and_the_same_normal_form(ctx, fresh, vectors):
    x, y = fresh[:2]
    z = x * y + x
    want = [np.asarray(p.limbs) for p in ren.jit(lambda x, y: x * y + x)(x, y).polys]
    assert z.pending is not None
    exits = [
        ren.realize(x * y + x),
        jax.tree.map(lambda leaf: leaf, x * y + x),
        ckks.Ciphertext.from_bytes((x * y + x).to_bytes()),
        pickle.loads(pickle.dumps(x * y + x)),
        jax.jit(lambda x, y: x * y + x)(x, y),
        jax.lax.scan(lambda z, _: (z, None), x * y + x, None, length=2)[0],
    ]
    for out in (z, *exits):
        for p, limbs in zip(out.polys, want, strict=True):
            assert np.array_equal(p.limbs, limbs)
        assert np.array_equal(out.decrypt(), z.decrypt())
    assert all(out.pending is None and out.level == 2 for out in exits)
    structures = {jax.tree.structure(out) for out in (z, *exits)}
    assert structures == {jax.tree.structure(x.drop_to(2))} and len(jax.tree.leaves(z)) == 3
    assert repr(z) == repr(z.rescale()) and z.nbytes == x.drop_to(2).nbytes


def test_flattening_twice_computes_once(fresh):
    z = fresh[0] * fresh[1] + fresh[2] * fresh[3]
    first, second = jax.tree.leaves(z), jax.tree.leaves(z)
    assert all(a is b for a, b in zip(first, second, strict=True))


@pytest.mark.long
def test_what_has_run_is_in_normal_form_and_lets_its_operands_go(ctx, vectors):
    a, b, c = vectors[:3]
    x, y, u = (ctx.encrypt(v).realize() for v in (a, b, c))
    z = (x * y).rescale() + u * 0.5
    z = z + x * y
    nodes = [weakref.ref(p.node) for p in (*x.polys, *y.polys)]
    jax.tree.leaves(z)
    del x, y
    gc.collect()
    assert not any(ref() for ref in nodes)
    later = z + u * 0.5
    assert counts(later)[MUL] == 2  # those of u alone
    assert error(later, 2 * a * b + c) < BAR and error(-z * 2, -4 * a * b - c) < 2 * BAR


def test_sums_go_on_outside_the_block_that_activated_the_keys(small_params):
    owner = ckks.context(params=small_params)
    a, b = np.random.default_rng(0).uniform(-1, 1, (2, owner.slots))
    x, y = owner.encrypt(a), owner.encrypt(b)

    @jax.jit
    def run(server, x, y):
        with server:
            left, right = x * y, y * y
        return left + right + x

    with jax.checking_leaks():
        z = run(owner.server(), x, y)
    assert error(z, a * b + b * b + a) < BAR


def test_vmap_over_sums_of_products(ctx, vectors):
    b = vectors[1]
    xs, y = ctx.encrypt(vectors[2:4], pack="rows"), ctx.encrypt(b)
    mapped = jax.vmap(lambda x, y: x * y + x * x + y - 0.5, in_axes=(0, None))(xs, y)
    assert error(mapped, vectors[2:4] * b + vectors[2:4] ** 2 + b - 0.5) < BAR


@pytest.mark.slow
def test_scan_carries_normal_form(ctx, vectors):
    def body(total, x):
        return total + x * 0.25 - x * x, x * 0.5

    pair = ctx.encrypt(vectors[2:4], pack="rows")
    total, trail = jax.lax.scan(body, ctx.encrypt(vectors[0], level=2), pair)
    want = vectors[0] + np.sum(vectors[2:4] * (0.25 - vectors[2:4]), 0)
    assert total.level == 2 and error(total, want) < BAR
    assert error(trail, vectors[2:4] * 0.5) < BAR


def test_branches_of_a_cond_match_in_normal_form(ctx, vectors):
    x = ctx.encrypt(vectors[0])
    half, more = jax.jit(
        lambda p, x: jax.lax.cond(p, lambda x: (x * 0.5, x), lambda x: (x * 2 + x * 0.1, x), x)
    )(True, x)
    assert half.level == 2 and more.level == 3 and error(half, vectors[0] / 2) < BAR


def test_a_pending_result_that_is_closed_over_runs_once_at_capture(fresh, vectors):
    x, y, u = fresh[:3]
    z = x * y
    jitted = ren.jit(lambda u: u.drop_to(2) - z)
    for _ in range(2):
        assert error(jitted(u), vectors[2] - vectors[0] * vectors[1]) < BAR
    dropped = ren.jit(lambda u: u.drop_to(2))
    dropped(u)
    assert jitted.plans[0].cost.limb_ntts == dropped.plans[0].cost.limb_ntts


# ------------------------------------------------------------------- precision and depth


@pytest.mark.slow
def test_late_rescaling_loses_no_precision(ctx13, slots):
    """Eight products rescaled at the end are at least as exact as eight rescaled one by one."""
    left, right = (np.stack([slots(ctx13.slots, i + s) for i in range(8)]) for s in (0, 8))
    xs, ys = ([ctx13.encrypt(v) for v in half] for half in (left, right))
    want = np.sum(left * right, 0)
    late = error(sum(x * y for x, y in zip(xs, ys, strict=True)), want)
    early = error(sum((x * y).rescale() for x, y in zip(xs, ys, strict=True)), want)
    assert late < 2.0**-20 and late < 1.25 * early
    mixed = xs[0] * ys[0] + xs[1] + right[2] - 0.3 + ctx13.encode(left[3])
    assert error(mixed, left[0] * right[0] + left[1] + right[2] - 0.3 + left[3]) < 2.0**-20


@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")
def test_products_at_level_zero_are_refused_as_ever(fresh):
    x, y = fresh[:2]
    low = (x * y).drop_to(1) * x
    assert low.level == 0 and low.pending is not None
    for product in (lambda: low * x, lambda: low * 0.5, lambda: low * [1.0], lambda: low**2):
        with pytest.raises(DepthError, match="at level 0 of 3"):
            product()
    assert error(low + 1 - low, np.ones(low.slots)) < BAR


@pytest.mark.long
def test_a_sum_of_rotated_plaintext_products_has_one_pair_of_mod_downs(ctx13):
    """Sixteen rotations, each times a plaintext: one ModUp, and P is divided away once."""
    rng = np.random.default_rng(5)
    values, weights = rng.uniform(-1, 1, ctx13.slots), rng.uniform(-1, 1, (16, ctx13.slots))
    x, encoded = ctx13.encrypt(values), [ctx13.encode(w) for w in weights]

    def weighted(x):
        total = x.rotate(0) * encoded[0]
        for k in range(1, 16):
            total = total + x.rotate(k) * encoded[k]
        return total

    shown = ren.stages(weighted, x)
    assert shown["capture"].count("= MODDOWN") == 30
    assert shown["sink_mod_down"].count("= MODDOWN") == 2
    assert shown["sink_mod_down"].count("= RESCALE") == 2
    jitted = ren.jit(weighted)
    expected = sum(np.roll(values, -k) * w for k, w in enumerate(weights))
    assert np.abs(jitted(x).decrypt() - expected).max() < 2.0**-20
    single = ren.jit(lambda x: x.rotate(1) * encoded[1])
    single(x)
    # Fewer: its ModDown and its rescale divide once, while the single one has a product between.
    assert jitted.plans[0].cost.limb_ntts < single.plans[0].cost.limb_ntts
