"""Base conversions against big integers: congruence, centring, exactness, odd symmetry."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from ren.core.numtheory import crt
from ren.lowering.backends.reference import arithmetic as exact
from ren.lowering.kernels import convert
from tests import oracle
from tests.lowering.kernels.residues import (
    all_residues,
    basis,
    large_basis,
    montgomery,
    plain,
    run,
)
from tests.rings import primes

N = 16
POOL = primes(4)  # 16 small, 8 near 2^24, 16 just under 2^30; the kernels never ask for psi
SMALL, LARGE = POOL[:16], POOL[-16:]

# (source, target): one limb and many, small targets beside large sources and the reverse, more
# sources than one reduction takes, and the largest shapes that a ring of forty limbs asks for.
BASES = {
    "1 to 1": (LARGE[:1], LARGE[1:2]),
    "1 to 17": (LARGE[:1], (17,)),
    "17 to 1": ((17,), LARGE[:1]),
    "2 to small": (LARGE[:2], SMALL[:3]),
    "3 to 12": (LARGE[:3], LARGE[4:]),
    "small to large": (SMALL[:5], LARGE[:4]),
    "16 to small": (LARGE, SMALL),
    "17 to 2": ((*LARGE[1:], *SMALL[:2]), (LARGE[0], SMALL[3])),
    "mixed": (basis(N, 9), basis(N, 14)[9:]),
    "24 to 16": (POOL[16:], SMALL),
    "39 to 1": (POOL[:20] + POOL[21:], POOL[20:21]),
}
CASES = [pytest.param(*bases, id=name) for name, bases in BASES.items()]
Moduli = tuple[int, ...]


def _values(x: np.ndarray, moduli: Moduli) -> list[int]:
    columns = zip(*(plain(row, q) for row, q in zip(x, moduli, strict=True)), strict=True)
    return [crt(c, moduli) for c in columns]


def _rows(values: list[int], moduli: Moduli) -> list[list[int]]:
    return [montgomery(values, q) for q in moduli]


def _edges(moduli: Moduli) -> np.ndarray:
    # Where the centred lift changes its sign, and where its terms are largest.
    product = math.prod(moduli)
    half = product // 2
    values = [0, 1, -1, half, half + 1, half - 1, -half, 2 * half // 3, *range(2, N - 6)]
    return np.array(_rows(values, moduli), np.uint32)


@pytest.mark.parametrize(("source", "target"), CASES)
def test_convert_is_the_approximate_centred_lift(source: Moduli, target: Moduli) -> None:
    x = np.concatenate([all_residues(source, N), _edges(source)[None]])
    out = run(convert.convert, x, *convert.convert_tables(source, target))
    assert (out == exact.convert(x, source, target)).all()
    product = math.prod(source)
    for polynomial, result in zip(x, out, strict=True):
        lifts = [oracle.approximate_lift(v, source) for v in _values(polynomial, source)]
        assert result.tolist() == _rows(lifts, target)
        assert all(abs(Fraction(u, product)) <= Fraction(len(source), 2) for u in lifts)


@pytest.mark.parametrize(("source", "target"), CASES)
def test_lift_is_the_exact_centred_lift(source: Moduli, target: Moduli) -> None:
    x = np.concatenate([all_residues(source, N), _edges(source)[None]])
    out = run(convert.lift, x, *convert.lift_tables(source, target))
    assert (out == exact.lift(x, source, target)).all()
    product = math.prod(source)
    for polynomial, result in zip(x, out, strict=True):
        lifts = [oracle.centred(v, product) for v in _values(polynomial, source)]
        assert result.tolist() == _rows(lifts, target)


def test_convert_of_one_limb_is_exact() -> None:
    source, target = LARGE[:1], LARGE[1:4]
    x = all_residues(source, N)
    tables = convert.convert_tables(source, target)
    lifted = run(convert.lift, x, *convert.lift_tables(source, target))
    assert (run(convert.convert, x, *tables) == lifted).all()


@pytest.mark.parametrize("function", [exact.convert, exact.lift])
def test_conversions_are_odd(function: object) -> None:
    # So that an automorphism before equals one after, bit for bit.
    source, target = LARGE[:4], (*LARGE[5:8], 17)
    x = all_residues(source, N)
    out = function(x, source, target)  # type: ignore[operator]
    negated = function(exact.neg(x, source), source, target)  # type: ignore[operator]
    assert (negated == exact.neg(out, target)).all()


@pytest.mark.parametrize("batch", [(), (1,), (2, 3)])
def test_batch_axes_lead(batch: tuple[int, ...]) -> None:
    source, target = large_basis(N, 9)[:6], large_basis(N, 9)[6:]
    x = np.resize(all_residues(source, N), (*batch, 6, N))
    for kernel, tables, reference in (
        (convert.convert, convert.convert_tables, exact.convert),
        (convert.lift, convert.lift_tables, exact.lift),
    ):
        out = run(kernel, x, *tables(source, target))
        assert out.shape == (*batch, 3, N)
        assert (out == reference(x, source, target)).all()


@pytest.mark.parametrize("n", [4, 1 << 13])
def test_every_coefficient_is_converted(n: int) -> None:
    source, target = LARGE[:5], (*LARGE[6:8], SMALL[0])
    x = all_residues(source, n)
    converted = run(convert.convert, x, *convert.convert_tables(source, target))
    lifted = run(convert.lift, x, *convert.lift_tables(source, target))
    assert (converted == exact.convert(x, source, target)).all()
    assert (lifted == exact.lift(x, source, target)).all()
