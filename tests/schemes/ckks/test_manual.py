"""Manual mode: nothing is inserted, true scales and levels, and the way back to normal form."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

import ren
from ren.schemes import ckks
from ren.schemes.ckks.arithmetic import automatic as arithmetic
from ren.schemes.ckks.noise.range_checks import largest_message, limit_of

BAR = 2.0**-20
A, B = np.array([1.0, 2.0, -0.5]), np.array([0.5, -1.0, 3.0])


def error(values, want) -> float:
    assert np.shape(values) == np.shape(want)
    return float(np.abs(values - want).max())


@pytest.fixture(scope="module")
def x(ctx):
    return ctx.encrypt(A)


@pytest.fixture(scope="module")
def y(ctx):
    return ctx.encrypt(B)


def nodes(*ciphertexts) -> str:
    return "".join(str(p.node) for z in ciphertexts for p in z.polys)


def test_a_product_has_three_components_at_the_product_of_the_scales(ctx, x, y):
    params = ctx.params
    with ckks.manual():
        z = x * y + x * x
        assert len(z.polys) == 3 and z.level == 3 and z.scale == params.scale(3) ** 2
        assert "MODDOWN" not in nodes(z) and "RESCALE" not in nodes(z)
        assert "3 components" in repr(z) and "2^79.9" in repr(z)
        assert error(z.decrypt(), A * B + A * A) < BAR
        two = z.relinearize()
        assert len(two.polys) == 2 and two.scale == z.scale and "RESCALE" not in nodes(two)
        assert two.relinearize() is two
        done = two.rescale()
    assert done.level == 2 and done.scale == params.scale(2) and done.own_scale is None
    assert error(done.decrypt(), A * B + A * A) < BAR


def test_a_number_multiplies_three_components_at_any_scale(ctx, x, y):
    with ckks.manual():
        z = (x * y).rescale() * 0.25
        assert len(z.polys) == 3 and z.scale == ctx.params.scale(2) ** 2
        assert error(z.relinearize().rescale().decrypt(), A * B / 4) < BAR


def test_components_and_constants_mix(x, y):
    with ckks.manual():
        z = x * y
        raised = x * np.ones(3)  # the scale of a product, two components
        assert len(raised.polys) == 2
        total = -(raised - z) + 1 - np.array([1.0, 2.0, 3.0]) + 0.5j
        assert len(total.polys) == 3 and total.scale == z.scale
        assert error(total.decrypt(), A * B - A + 0.5j - [0, 1, 2]) < BAR
        assert error((3 * x * 0.5).rescale().decrypt(), 1.5 * A) < BAR
        assert error((x**2).decrypt(), A**2) < BAR


def test_what_is_not_aligned_raises(ctx, x, y):
    with ckks.manual():
        z = x * y
        for wrong in (lambda: z + x, lambda: x - z, lambda: z + ctx.encode(A)):
            with pytest.raises(ckks.ScaleError, match=r"scales 2\^.* met in a sum"):
                wrong()
        low = x.drop_to(2)
        for wrong in (lambda: x + low, lambda: low * x, lambda: x * ctx.encode(A, level=2)):
            with pytest.raises(ckks.ScaleError, match=r"levels .*\n.*\n.*drop_to\(2\)"):
                wrong()
        for wrong in (lambda: z * x, lambda: z.rotate(1), lambda: z.conj()):
            with pytest.raises(ckks.ScaleError, match=r"\.relinearize\(\) first"):
                wrong()
        with pytest.raises(ckks.ScaleError, match="message would be lost"):
            x.rescale()
        with pytest.raises(ckks.DepthError, match="rescale"):
            x.drop_to(0).rescale()
        with pytest.raises(ckks.DepthError, match="wrap around"):
            low.drop_to(0) * y.drop_to(0)
        with pytest.raises(ckks.ScaleError, match="power 3"):
            x**3
        with pytest.raises(ckks.ScaleError, match="roll"):
            x.roll(1)


def test_levels_are_dropped_at_any_scale(ctx, x, y):
    with ckks.manual():
        z = (x * y).drop_to(2)
        low = x.drop_to(2)
        assert z.scale == ctx.params.scale(2) ** 2 and len(z.polys) == 3
        assert error((z + low * low).decrypt(), A * B + A * A) < BAR


def test_rotations_take_two_components_at_any_scale(ctx, x):
    ctx.rotation_keys([1])
    with ckks.manual():
        z = (x * B).rotate(1)
        assert z.scale == ctx.params.scale(3) ** 2
    assert error(z.decrypt(), [-2, -1.5, 0]) < BAR


def test_outside_all_is_brought_to_normal_form(ctx, x, y):
    with ckks.manual():
        z, odd = x * y, (x * B) * B
    assert math.log2(odd.scale) > 115
    for got, want in (
        (z + x, A * B + A), (z * 2, 2 * A * B), (-z, -A * B), (odd, A * B * B),
        (odd + x, A * B * B + A), (z.rescale(), A * B), (z.drop_to(1), A * B), (z**1, A * B),
    ):  # fmt: skip
        assert error(got.decrypt(), want) < BAR
    settled = ckks.Ciphertext.from_bytes(z.to_bytes())
    assert len(settled.polys) == 2 and settled.level == 2
    assert len(jax.tree.leaves(z)) == 3 and ren.jit(lambda z: z + 0)(z).own_scale is None
    assert len(ckks.stack([z, z]).polys) == 2
    with ckks.manual():
        z = x.drop_to(0)
        z = z * 2 + 1
        assert len((x * y).polys) == 3
    assert error(z.decrypt(), 2 * A + 1) < BAR


def test_no_level_left_for_normal_form(x):
    with ckks.manual():
        z = (x.drop_to(2) * A * A).rescale().rescale()
    assert z.level == 0 and z.own_scale is not None
    assert error(z.decrypt(), A**3) < BAR
    with pytest.raises(ckks.DepthError, match="from manual mode"):
        z + 1


def test_a_captured_function_may_work_by_hand(x, y):
    @ren.jit
    def f(x, y, k, v):
        with ckks.manual():
            z = x * y + k + v
            return z.relinearize().rescale()

    for k in (0.5, -2.0):
        assert error(f(x, y, k, A).decrypt(), A * B + k + A) < BAR
    assert f.cache_info().misses == 1


def test_plans_of_both_modes_are_kept_apart(x, y):
    f = ren.jit(lambda x, y: x * y)
    for _ in range(2):
        assert len(f(x, y).polys) == 2
        with ckks.manual():
            assert len(f(x, y).polys) == 3
    assert f.cache_info()[:2] == (2, 2)


def test_no_operation_takes_a_third_component_for_none(x, y):
    with ckks.manual():
        z = x * y
    for operation in (
        lambda: arithmetic.add(z, x), lambda: arithmetic.negate(z), lambda: arithmetic.add(x, z),
        lambda: arithmetic.multiply_scalar(z, 0.5), lambda: arithmetic.multiply(x, z),
    ):  # fmt: skip
        with pytest.raises(ckks.ScaleError, match="3 components"):
            operation()


@pytest.mark.parametrize(
    "circuit",
    [
        lambda x: ckks.poly(x, [1, 2, 3]),
        lambda x: ckks.chebyshev(x, np.exp, (-1, 1), 3),
        lambda x: ckks.math.exp(x, interval=(-1, 1), degree=3),
    ],
)
def test_polynomials_are_not_made_by_hand(x, circuit):
    x = x.within(1)
    with ckks.manual(), pytest.raises(ckks.ScaleError, match="in manual mode") as info:
        circuit(x)
    assert "Leave ckks.manual()" in info.value.do
    assert circuit(x).level < x.level


def test_a_message_that_the_modulus_cannot_hold_is_refused_or_told(x, y):
    """At a scale of its own the room of a level is smaller."""
    with ckks.manual():
        for loose in (x * y, x * B):
            for drop in (loose.compress, lambda loose=loose: loose.drop_to(0)):
                with pytest.raises(ckks.DepthError, match="would wrap around"):
                    drop()
        low = (x * y).drop_to(1)
        with pytest.warns(ckks.MessageBoundWarning, match="level 1 at scale 2"):
            wrapped = low * 2**40
    assert np.isinf(wrapped.estimate.error_bound)


def test_the_range_of_a_scale_of_its_own_is_that_of_the_modulus(x):
    """The bound of a message and its true room, half the modulus over the scale."""
    with ckks.manual():
        z = (x * x).drop_to(1)
    q, scale = z.params.ring(1).q, z.scale
    assert limit_of(z) <= q / (2 * scale) < 2**20 * limit_of(z)
    assert limit_of(x) == largest_message(x.params, x.level)


def test_a_dot_product_is_written_out(x, y):
    with ckks.manual():
        for w in (y, B):
            with pytest.raises(ckks.ScaleError, match="In manual mode") as info:
                x.dot(w)
        assert "relinearize()" in info.value.do
        found = (x * y).relinearize().rescale().sum()
        plain = (x * B).rescale().sum()
    assert error(found.decrypt(), A @ B) < BAR and error(plain.decrypt(), A @ B) < BAR


def test_the_degree_in_the_secret_is_that_of_the_components(ctx):
    x = ctx.encrypt([1.0, 2.0])
    assert x.degree == (x * x).degree == 1
    with ckks.manual():
        product = x * x
        assert (product.degree, product.relinearize().degree) == (2, 1)


LEFT = np.linspace(-1, 1, 16)
DENSE = np.random.default_rng(0).normal(size=(16, 16))


def test_a_mean_is_rescaled_and_a_variance_says_what_it_takes(ctx):
    x = ctx.encrypt(LEFT)
    outside = x.mean()
    with ckks.manual():
        inside = x.mean()
        assert (inside.level, inside.scale) == (outside.level, outside.scale)
        for moment in (x.var, lambda: ckks.stats.cov(x, x)):
            with pytest.raises(ckks.ScaleError, match=r"Leave ckks\.manual"):
                moment()
    assert error(inside.decrypt(), LEFT.mean()) <= inside.estimate.error_bound


MADE = {  # in manual mode, and not rescaled
    "product with a number": (lambda x: x * 0.5, LEFT * 0.5),
    "product": (lambda x: x * x, LEFT * LEFT),
    "relinearized": (lambda x: (x * x).relinearize(), LEFT * LEFT),
}
USES = {
    "tile": (lambda h: h.tile(2), lambda v: np.tile(v, 2)),
    "matrix @": (lambda h: DENSE @ h, lambda v: DENSE @ v),
    "@ matrix": (lambda h: h @ DENSE, lambda v: v @ DENSE),
    "linear": (lambda h: ckks.linear(DENSE[::-1]) @ h, lambda v: DENSE[::-1] @ v),
    "columns": (lambda h: h.reshape(4, 4).sum(axis=0), lambda v: v.reshape(4, 4).sum(axis=0)),
    "sum": (lambda h: h.sum(), np.sum),
    "mean": (lambda h: h.mean(), np.mean),
    "var": (lambda h: h.var(), np.var),
    "cumsum": (lambda h: h.cumsum(), np.cumsum),
    "dot": (lambda h: h.dot(h), lambda v: v @ v),
    "roll": (lambda h: h.roll(1), lambda v: np.roll(v, 1)),
    "slice": (lambda h: h[2:5], lambda v: v[2:5]),
    "power": (lambda h: h**3, lambda v: v**3),
    "poly": (lambda h: ckks.poly(h, [1, 2, 3.0]), lambda v: 1 + 2 * v + 3 * v * v),
    "conv1d": (lambda h: ckks.conv1d(h, [1.0, 2]), lambda v: np.correlate(v, [1.0, 2])),
    "sum with one above": (lambda h: h.drop_to(5) + h, lambda v: 2 * v),
    "strided": (lambda h: ckks.strided_sum(h, 4, 4)[:4], lambda v: v.reshape(4, 4).sum(0)),
    "jit": (lambda h: ren.jit(lambda v: v.tile(2) * 1.0)(h), lambda v: np.tile(v, 2)),
    "closure": (lambda h: ren.jit(lambda v: v + h.tile(1))(h), lambda v: 2 * v),
}


@pytest.fixture(scope="module")
def deep() -> ckks.Context:
    return ckks.context(depth=6, n=1 << 9, security=None)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("made", MADE)
def test_what_left_manual_mode_computes_as_after_a_rescale(deep, made, use):
    """The property of all that takes a ciphertext: no use mixes two scales."""
    (make, clear), (f, want) = MADE[made], USES[use]
    with ckks.manual():
        h = make(deep.encrypt(LEFT))
    with deep:
        y, settled = f(h), f(h.rescale())
    assert error(y.decrypt(), want(clear)) <= y.estimate.error_bound
    assert y.estimate.error_bound < BAR and y.level == settled.level
