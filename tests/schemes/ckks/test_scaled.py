"""Target scales: levels dropped by views, polynomials that need no rescale to align, exact ends."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from numpy.polynomial.chebyshev import chebval
from numpy.polynomial.polynomial import polyval

import ren
from ren.core.node import toposort
from ren.core.op import MODDOWN, RESCALE
from ren.schemes import ckks
from ren.schemes.ckks.arithmetic.evolve import drop_source, is_view
from ren.schemes.ckks.arithmetic.scaled import SCALED, lowered, scale_above, settled
from ren.schemes.ckks.functions.basis import Basis
from ren.schemes.ckks.functions.paterson_stockmeyer import Schedule, schedule

PAIRS = [(a, b) for a in range(4) for b in range(a)]


def error(x: ckks.Ciphertext, want) -> float:
    return float(np.abs(x.decrypt() - want).max())


def counts(*ciphertexts: ckks.Ciphertext) -> Counter:
    return Counter(node.op for node in toposort(*(p.node for x in ciphertexts for p in x.polys)))


def limb_ntts(f, x) -> int:
    program = ren.jit(f, tier="eager")
    with ren.config.update(native=False):
        program(x)
    return program.plans[0].cost.limb_ntts


@pytest.fixture(scope="module")
def single() -> ckks.Context:
    """n = 2^10, depth 5, scale 2^30: each level has one prime more: all drops are views."""
    return ckks.context(
        params=ckks.Parameters.for_depth(5, n=1 << 10, scale_bits=30, security=None)
    )


@pytest.fixture(scope="module")
def mixed() -> ckks.Context:
    """n = 2^10, depth 5, scale 2^40: terminals come and go, so that some drops are rescales."""
    ctx = ckks.context(params=ckks.Parameters.for_depth(5, n=1 << 10, security=None))
    views = {is_view(ctx.params, a, b) for a in range(6) for b in range(a)}
    assert views == {True, False}
    return ctx


# ------------------------------------------------------------------- one operation


@pytest.mark.parametrize(("high", "low"), PAIRS)
@pytest.mark.usefixtures("interpreted")
def test_a_drop_keeps_message_and_knows_its_scale_exactly(mixed, slots, high, low):
    values = slots(mixed.slots)
    x = mixed.encrypt(values, level=high)
    y, params = lowered(x, low), mixed.params
    assert y.level == low and y.ring == params.ring(low)
    ratio = Fraction(params.ring(low).q, params.ring(high).q)
    if is_view(params, high, low):
        assert y.scale == x.scale and counts(y)[RESCALE] == 0
        assert np.array_equal(y.noise, x.noise)
        assert np.array_equal(y.polys[1].limbs, x.polys[1].to_ring(y.ring).limbs)
    else:
        assert counts(y)[RESCALE] == 2
        assert (y.scale / (x.scale * ratio)).denominator == 1
    assert error(y, values) <= y.estimate.error_bound


@pytest.mark.parametrize(("high", "low"), [(1, 0), (3, 2), (4, 2), (5, 4), (5, 1), (5, 0)])
def test_a_drop_by_several_levels_divides_few_limbs(mixed, slots, high, low):
    params, values = mixed.params, slots(mixed.slots)
    (above, ring), bits = map(params.ring, (high, low)), params.scale_bits - 1
    source = drop_source(params, high, low, bits)
    divided = sorted(set(source.moduli) - set(ring.moduli))
    made = math.prod(set(ring.moduli) - set(above.moduli))
    assert set(source.moduli) <= set(above.moduli) and source.q > ring.q
    if set(source.moduli) != set(above.moduli):
        assert math.prod(divided[:-1]) < made << bits <= math.prod(divided)
    x = mixed.encrypt(values, level=high, bound=1.0)
    assert limb_ntts(lambda x: x.drop_to(low), x) == 2 * (len(divided) + ring.limbs)
    z = x.drop_to(low)
    assert z.scale == params.scale(low)
    assert error(z, values) <= z.estimate.error_bound < 2.0**-25


def test_products_of_any_scales_settle_at_their_own(mixed, slots):
    params = mixed.params
    a, b = slots(mixed.slots), slots(mixed.slots, 1)
    x, y = mixed.encrypt(a), lowered(mixed.encrypt(b, level=5), 3)
    x = lowered(x, 3)
    product = SCALED.multiply(x, y)
    assert product.scale == x.scale * y.scale and len(product.polys) == 3
    z = settled(product)
    assert z.level == 2 and z.scale * params.ring(3).q == product.scale * params.ring(2).q
    assert error(z, a * b) <= z.estimate.error_bound < 2.0**-20


def test_a_constant_brings_a_term_to_the_scale_of_its_sum(mixed, slots):
    params, values = mixed.params, slots(mixed.slots)
    x = lowered(mixed.encrypt(values), 2)
    assert x.own_scale is not None
    above = scale_above(params, 1, params.scale(1))
    z = settled(SCALED.multiply_onto(x, 0.3, above))
    assert z.own_scale is None and z.scale == params.scale(1)
    assert error(z, 0.3 * values) <= z.estimate.error_bound


# ------------------------------------------------------------------- sums of users


@pytest.mark.parametrize("level", [2, 3, 4, 5])
@pytest.mark.usefixtures("interpreted")
def test_addends_from_above_take_no_rescale_where_they_are_views(single, mixed, slots, level):
    for ctx in (single, mixed):
        a, b, c = (slots(ctx.slots, seed) for seed in range(3))
        x, y = (ctx.encrypt(v, bound=1.0, level=2) for v in (a, b))
        higher = ctx.encrypt(c, bound=1.0, level=level), ctx.encode(c, level=level)
        for addend, components in zip(higher, (2, 1), strict=True):
            z = x * y + addend
            rescales = 0 if is_view(ctx.params, level, 2) else components
            assert counts(z)[RESCALE] == 2 + rescales  # two of the product
            assert z.level == 1 and error(z, a * b + c) <= z.estimate.error_bound
            assert error(z - addend, a * b) < 4 * z.estimate.error_bound


# ------------------------------------------------------------------- polynomials

BASES = {
    "chebyshev": (ckks.chebyshev, chebval),
    "power": (ckks.poly, polyval),
}


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("degree", [5, 11, 27])
@pytest.mark.usefixtures("interpreted")
def test_polynomials_end_at_the_canonical_scale_within_their_estimate(mixed, slots, name, degree):
    f, clear = BASES[name]
    values, c = slots(mixed.slots), np.random.default_rng(degree).normal(size=degree + 1)
    want, z = clear(values, c), f(mixed.encrypt(values, bound=1.0), c)
    assert z.own_scale is None and z.level == 5 - degree.bit_length()
    assert error(z, want) <= z.estimate.error_bound < 2.0**-15
    assert error(z * 2 - z.rotate(1), 2 * want - np.roll(want, -1)) < 2.0**-13


def test_a_sum_goes_on_from_the_last_terms_of_a_polynomial(mixed, slots):
    values = slots(mixed.slots)
    x = mixed.encrypt(values)
    c = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    alone, both = ckks.poly(x, c), ckks.poly(x, c) + x.drop_to(3) * x.drop_to(3)
    assert counts(both)[MODDOWN] == counts(alone)[MODDOWN]
    assert error(both, polyval(values, c) + values**2) <= both.estimate.error_bound


@pytest.mark.long
@pytest.mark.parametrize("degree", [7, 27])
def test_scales_take_the_place_of_transforms(single, mixed, monkeypatch, degree):
    """The same schedules with canonical scales everywhere drop each level by a rescale."""
    c = np.random.default_rng(degree).normal(size=degree + 1)

    def count(ctx: ckks.Context) -> int:
        return limb_ntts(lambda x: ckks.chebyshev(x, c), ctx.encrypt([0.5]))

    free = [count(ctx) for ctx in (single, mixed)]
    monkeypatch.setattr(Schedule, "has_free_scales", False)
    rescaled = [count(ctx) for ctx in (single, mixed)]
    assert free[0] <= 0.85 * rescaled[0] and free[1] <= 0.9 * rescaled[1]


@pytest.mark.usefixtures("interpreted")
def test_single_primes_leave_rescales_to_sums_alone(single):
    """Where all drops are views, the pairs of rescales are those of products and of the root."""
    c = np.random.default_rng(4).normal(size=28)
    z = ckks.chebyshev(single.encrypt([0.5]), c)
    plan = schedule(tuple(complex(v) for v in c), Basis(True))
    sums = len(plan.elements) + len(list(plan.root.parts()))
    assert counts(z)[RESCALE] == 2 * sums


# Integer multiples of B_j at the level of their sum take no constant that is encoded.
WHOLE = [
    (Basis(False), (0, 0, 1), True),
    (Basis(False), (1, 0, 0, 0, 2), True),
    (Basis(False), (0, 0, 0, 1), True),
    (Basis(False), (0.5, 0, 0, 1, 0, 0, 3), False),
    (Basis(True), (0.5, 0, 1, 0.5, 0, 0, 3), False),
    (Basis(True), (0.5, 0.25, 0, 0, 3), True),
]


@pytest.mark.parametrize(("basis", "c", "is_free"), WHOLE)
def test_integer_multiples_at_the_level_of_their_sum(mixed, slots, basis, c, is_free):
    values = slots(mixed.slots)
    assert schedule(tuple(complex(v) for v in c), basis).has_free_scales == is_free
    f, clear = BASES["chebyshev" if basis.is_chebyshev else "power"]
    z = f(mixed.encrypt(values, bound=1.0), c)
    assert z.own_scale is None
    assert error(z, clear(values, np.array(c))) <= z.estimate.error_bound


def test_a_quotient_that_rounds_to_a_constant(mixed):
    """A coefficient that is tiny once it is divided by the size of its element."""
    values, c = np.linspace(-8, 8, mixed.slots), (0.25, 0.5, 1.0, 2.0**-40.5)
    z = ckks.chebyshev(mixed.encrypt(values, bound=8.0), c, (-8, 8))
    assert error(z, chebval(values / 8, c)) <= z.estimate.error_bound < 2.0**-15


@pytest.mark.long
def test_debug_sees_each_step(mixed):
    values = np.linspace(-1, 1, 32)
    z = ckks.debug(lambda x: ckks.chebyshev(x, [0.1, 0.2, 0.3, 0.4, 0.5]), mixed.encrypt(values))
    assert error(z, chebval(values, [0.1, 0.2, 0.3, 0.4, 0.5])) < 2.0**-20
