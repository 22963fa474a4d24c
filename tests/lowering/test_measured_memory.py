"""Peaks as XLA states them: planned ones agree, donations are usable, deep programs stay small."""

from __future__ import annotations

import re

import attrs
import pytest

import ren
from ren import Domain, Poly, RingSpec
from ren.config import config
from ren.core.errors import VerificationError
from ren.lowering.inspect.memory_report import memory_of
from ren.lowering.plan.plan import Plan
from ren.schemes import ckks
from tests.lowering.measured import measure
from tests.lowering.plans import RING, plan, poly, with_units, without_donations
from tests.rings import primes


def rescaled_powers(ring: RingSpec) -> Poly:
    """x^8 with a rescale after each product; x in the NTT domain."""
    x = poly(1, ring, Domain.NTT)
    for _ in range(3):
        x = x * x + 1
        x = x.rescale(x.ring.moduli[:-1])
    return x


def key_switch(ring: RingSpec) -> Poly:
    """Mod up, products with two keys, mod down."""
    base = ring.with_moduli(ring.moduli[:2])
    lifted = poly(1, base, Domain.NTT).mod_up(base.moduli, ring)
    keys = [poly(seed, ring, Domain.NTT) for seed in (2, 3)]
    return (lifted * keys[0]).mod_down(base) * (lifted * keys[1]).mod_down(base)


@pytest.mark.long
@pytest.mark.parametrize("program", [rescaled_powers, key_switch])
def test_planned_peaks_agree_with_xla(program):
    p = plan(program(RingSpec(256, primes(256)[-4:])))
    assert memory_of(p).measured_bytes is None
    for version in (p, without_donations(p)):
        with config.update(native=False):  # what runs in place needs less than is planned
            report = measure(version)
        assert abs(report.peak_bytes - report.measured_bytes) <= 0.15 * report.measured_bytes
        assert report.lower_bound_bytes <= report.measured_bytes


def test_a_donation_that_xla_cannot_use_is_found():
    p = plan(poly(1).to_ring(RING.with_moduli(RING.moduli[:2])) + 1)
    (unit,) = p.units
    wrong = with_units(p, [attrs.evolve(unit, donate=((0, 0),))])
    with pytest.warns(UserWarning, match="not usable"), pytest.raises(VerificationError):
        measure(wrong)


def paterson_stockmeyer(x: Poly, moduli: tuple[int, ...], steps: int = 4, log2: int = 6) -> Poly:
    """sum of (i + 1) x^i for i < 2^log2, of depth log2: a rescale after each product.

    Powers below `steps` are baby steps; a power of two is the square of the one before.
    """
    powers = {1: x}

    def at(p: Poly, limbs: int) -> Poly:
        return p.to_ring(RingSpec(x.ring.n, moduli[:limbs]))

    def times(a: Poly, b: Poly) -> Poly:
        limbs = min(a.ring.limbs, b.ring.limbs)
        return (at(a, limbs) * at(b, limbs)).rescale(moduli[: limbs - 1])

    def power(k: int) -> Poly:
        if k not in powers:
            high = 1 << ((k - 1).bit_length() - 1)
            powers[k] = times(power(high), power(k - high))
        return powers[k]

    def part(low: int, size: int) -> Poly:
        if size <= steps:
            limbs = min(power(i).ring.limbs for i in range(1, size))
            terms = [at(powers[i], limbs) * (low + i + 1) for i in range(1, size)]
            return sum(terms[1:], terms[0]) + (low + 1)
        rest, top = part(low, size // 2), part(low + size // 2, size // 2)
        product = times(top, power(size // 2))
        return at(rest, product.ring.limbs) + product

    return part(0, 1 << log2)


def squarings(x: Poly, moduli: tuple[int, ...]) -> Poly:
    """x^64 of depth 6: a rescale after each square."""
    for limbs in range(len(moduli) - 1, 0, -1):
        x = (x * x).rescale(moduli[:limbs])
    return x


@pytest.mark.slow
@pytest.mark.parametrize("program", [paterson_stockmeyer, squarings])
def test_a_polynomial_of_depth_six_stays_near_what_lifetimes_force(program):
    n = 1 << 14
    moduli = primes(n)[-7:]
    check_depth_six(plan(program(poly(1, RingSpec(n, moduli), Domain.NTT), moduli)))


@pytest.mark.slow
def test_an_encrypted_power_of_depth_six_stays_near_what_lifetimes_force():
    ctx = ckks.context(depth=6, n=1 << 14)
    power = ren.jit(lambda x: x**64)
    power(ctx.encrypt([0.5, 0.25]))
    check_depth_six(power.plans[0].plan)


def check_depth_six(p: Plan) -> None:
    with config.update(native=False):  # what runs in place needs less than is planned
        report, bare = measure(p), measure(without_donations(p))
    print(report)
    assert abs(report.peak_bytes - report.measured_bytes) <= 0.15 * report.measured_bytes
    assert abs(bare.peak_bytes - bare.measured_bytes) <= 0.15 * bare.measured_bytes
    assert (
        report.measured_bytes <= 0.6 * bare.measured_bytes
        or report.measured_bytes <= 1.1 * report.lower_bound_bytes
    )


def test_the_report_prints_every_number():
    report = memory_of(plan((poly(1) + 1).ntt()))
    text = str(report)
    assert re.search(r"peak, measured +-", text)
    assert text.count("\n") == 10
    assert "512 B" in str(attrs.evolve(report, measured_bytes=512))
