"""Sums, products and level alignment of ciphertexts, as programs over polynomials.

Results are in normal form: two components, degree 1, at the canonical scale of their level, so a
scale is the level's exact rational and is never multiplied along. A product is tensor, key switch,
rescale; all of it stays lazy in the graph.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ren.core.errors import DepthError, ParameterError
from ren.core.ring import Domain
from ren.poly import Poly
from ren.schemes.ckks import encoder
from ren.schemes.ckks.active import context_for, same_key
from ren.schemes.ckks.gadget import gadget_of
from ren.schemes.ckks.parameters import Parameters
from ren.schemes.ckks.plaintext import Layout, Plaintext
from ren.schemes.rlwe.keys import from_residues
from ren.schemes.rlwe.keyswitch import key_switch

if TYPE_CHECKING:
    from ren.schemes.ckks.ciphertext import Ciphertext

Pair = tuple[Poly, Poly]


def evolve(
    x: Ciphertext, polys: Pair, level: int | None = None, layout: Layout | None = None
) -> Ciphertext:
    """`x` with other polynomials; what is not given stays. The seed of fresh data is dropped."""
    return dataclasses.replace(
        x,
        polys=polys,
        level=x.level if level is None else level,
        layout=layout or x.layout,
        seed=None,
    )


# ------------------------------------------------------------------- levels


@lru_cache(maxsize=1 << 10)
def drop_factor(params: Parameters, level: int, target: int) -> int:
    """round(s_j Q_i / (s_i Q_j)): what takes scale s_i to s_j once Q_i / Q_j is divided away.

    It is about 2^scale_bits a level dropped, so rounding it costs a relative 2^-(scale_bits + 1).
    """
    ratio = Fraction(params.ring(level).q, params.ring(target).q)
    return round(params.scale(target) * ratio / params.scale(level))


def drop_polys(polys: tuple[Poly, ...], params: Parameters, level: int, target: int) -> tuple:
    """Polynomials at the scale of `level`, at the scale and ring of `target` <= `level`."""
    if level == target:
        return polys
    factor, ring = drop_factor(params, level, target), params.ring(target)
    return tuple((p * factor).rescale(ring) for p in polys)


def drop_to(x: Ciphertext, target: int) -> Ciphertext:
    """The same message at a lower level, at that level's canonical scale.

    Raises:
        DepthError: when `target` is above the level of `x`, or below 0.
    """
    if not 0 <= target <= x.level:
        raise DepthError(
            f"drop_to({target}) was asked of a ciphertext at level {x.level}.",
            f"The target lies between 0 and {x.level}: levels only go down.",
            f"Pass a level up to {x.level}, or encrypt with a bigger depth.",
        )
    if target == x.level:
        return x
    return evolve(x, drop_polys(x.polys, x.params, x.level, target), target)


def need_level(x: Ciphertext, needed: int, what: str) -> None:
    """Raises DepthError when `x` is below level `needed`, which `what` takes."""
    if x.level < needed:
        raise DepthError(
            f"{what} takes {needed} level{'s' * (needed > 1)}, and the ciphertext is at level "
            f"{x.level} of {x.params.depth}.",
            "Each product, other than by an integer, divides one level away.",
            f"Make the context with more depth, ckks.context(depth={x.params.depth + needed}) or "
            "more, or use fewer multiplications in a row.",
        )


def aligned(x: Ciphertext, y: Ciphertext, what: str) -> tuple[Ciphertext, Ciphertext, Layout]:
    """Both ciphertexts at the lower of their levels, and the layout of their sum or product."""
    same_key(x.key_id, y.key_id, what)
    level = min(x.level, y.level)
    return drop_to(x, level), drop_to(y, level), x.layout.joined(y.layout)


def _aligned_plain(x: Ciphertext, p: Plaintext, what: str) -> tuple[Ciphertext, Poly, Layout]:
    if p.params != x.params:
        raise ParameterError(
            f"{what} got a plaintext of other parameters, {p.params.slots} slots at "
            f"n={p.params.n}.",
            f"The ciphertext has {x.slots} slots at n={x.params.n}.",
            "Encode with the context that made the ciphertext.",
        )
    level = min(x.level, p.level)
    (poly,) = drop_polys((p.poly,), p.params, p.level, level)
    return drop_to(x, level), poly, x.layout.joined(p.layout)


# ------------------------------------------------------------------- sums


def negate(x: Ciphertext) -> Ciphertext:
    """-x."""
    return evolve(x, (-x.polys[0], -x.polys[1]))


def add(x: Ciphertext, y: Ciphertext) -> Ciphertext:
    """x + y, at the lower of the two levels."""
    x, y, layout = aligned(x, y, "A sum")
    return evolve(x, (x.polys[0] + y.polys[0], x.polys[1] + y.polys[1]), layout=layout)


def subtract(x: Ciphertext, y: Ciphertext) -> Ciphertext:
    """x - y, at the lower of the two levels."""
    x, y, layout = aligned(x, y, "A difference")
    return evolve(x, (x.polys[0] - y.polys[0], x.polys[1] - y.polys[1]), layout=layout)


def add_plain(x: Ciphertext, p: Plaintext) -> Ciphertext:
    """x + p, at the lower of the two levels."""
    x, poly, layout = _aligned_plain(x, p, "A sum")
    return evolve(x, (x.polys[0] + poly, x.polys[1]), layout=layout)


def subtract_plain(x: Ciphertext, p: Plaintext) -> Ciphertext:
    """x - p, at the lower of the two levels."""
    x, poly, layout = _aligned_plain(x, p, "A difference")
    return evolve(x, (x.polys[0] - poly, x.polys[1]), layout=layout)


def add_scalar(x: Ciphertext, value: complex) -> Ciphertext:
    """x + value in every slot, encoded at the exact scale of `x`, rounded once."""
    polys = (x.polys[0] + _constant_poly(x, value), x.polys[1])
    return evolve(x, polys, layout=_scalar_layout(x, value))


# ------------------------------------------------------------------- products


def multiply(x: Ciphertext, y: Ciphertext) -> Ciphertext:
    """x * y: tensor, relinearize, rescale. One level below the lower of the two.

    Raises:
        DepthError: when that would be below level 0.
    """
    x, y, layout = aligned(x, y, "A product")
    need_level(x, 1, "A product of ciphertexts")
    key = context_for(x.key_id, "A product of ciphertexts").relinearization_key()
    c0 = x.polys[0] * y.polys[0]
    c1 = x.polys[0] * y.polys[1] + x.polys[1] * y.polys[0]
    k0, k1 = key_switch(x.polys[1] * y.polys[1], key, gadget_of(x.params))
    return _rescaled(x, (c0 + k0, c1 + k1), layout)


def multiply_plain(x: Ciphertext, p: Plaintext) -> Ciphertext:
    """x * p slot by slot, one level below the lower of the two."""
    x, poly, layout = _aligned_plain(x, p, "A product")
    need_level(x, 1, "A product with a plaintext")
    return _rescaled(x, (x.polys[0] * poly, x.polys[1] * poly), layout)


def multiply_integer(x: Ciphertext, value: int) -> Ciphertext:
    """x * value for an integer, exact, at the same level."""
    return evolve(x, (x.polys[0] * value, x.polys[1] * value))


def multiply_scalar(x: Ciphertext, value: complex) -> Ciphertext:
    """x * value in every slot, one level down."""
    need_level(x, 1, "A product with a number that is no integer")
    factor = _constant_poly(x, value)
    polys = (x.polys[0] * factor, x.polys[1] * factor)
    return _rescaled(x, polys, _scalar_layout(x, value))


def power(x: Ciphertext, exponent: int) -> Ciphertext:
    """x^exponent in ceil(log2(exponent)) levels, each power that is needed made once.

    Raises:
        ParameterError: for a negative exponent.
        DepthError: when there are too few levels.
    """
    if exponent < 0:
        raise ParameterError(
            f"A ciphertext was raised to the power {exponent}.",
            "Exponents are integers from 0 on: encrypted division needs an approximation.",
            "Use a polynomial that approximates the inverse on your interval.",
        )
    if exponent == 0:
        return add_scalar(multiply_integer(x, 0), 1)
    need_level(x, (exponent - 1).bit_length(), f"The power {exponent}")
    return _powers(x, exponent, {1: x})


def _powers(x: Ciphertext, exponent: int, known: dict[int, Ciphertext]) -> Ciphertext:
    if exponent not in known:
        half = 1 << ((exponent - 1).bit_length() - 1)  # halves of depth one less, largest first
        low, high = _powers(x, exponent - half, known), _powers(x, half, known)
        known[exponent] = multiply(low, high)
    return known[exponent]


def _rescaled(x: Ciphertext, polys: Pair, layout: Layout) -> Ciphertext:
    """Polynomials at scale s_l^2 over Q_l, divided by Q_l / Q_(l-1): at scale s_(l-1)."""
    ring = x.params.ring(x.level - 1)
    return evolve(x, (polys[0].rescale(ring), polys[1].rescale(ring)), x.level - 1, layout)


# ------------------------------------------------------------------- scalars


def _constant_poly(x: Ciphertext, value: complex) -> Poly | int:
    """round(value s_l) as an integer, or for a complex value as a polynomial of two terms."""
    parts = encoder.encode_constant(value, x.n, x.params.scale(x.level))
    if parts.keys() <= {0}:
        return parts.get(0, 0)
    coefficients = np.zeros(x.n, object)
    for position, c in parts.items():
        coefficients[position] = c
    ring = x.params.ring(x.level)
    return from_residues(encoder.residues(coefficients, ring.moduli), ring, Domain.COEFF).ntt()


def _scalar_layout(x: Ciphertext, value: complex) -> Layout:
    return x.layout.joined(Layout(None, isinstance(value, complex)))
