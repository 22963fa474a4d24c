"""The stages of a bootstrap, as programs of polynomials: each is planned once for a chain.

    StC      the slots become coefficients, at the lowest level
    raise    to the sparse secret, then to all moduli: the coefficients get multiples of q_0
    CtS      the coefficients become slots; back under the secret
    split    real and imaginary parts apart, by the conjugate
    sine     the multiples of q_0 go; once for each part
    join     the parts together

A stage takes and gives pairs of polynomials; its keys and diagonals come as arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import attrs

from ren.core.ring import RingSpec, intersection
from ren.poly import Poly
from ren.poly.batching import multiply_accumulate
from ren.schemes.ckks.functions.basis import Basis
from ren.schemes.ckks.functions.paterson_stockmeyer import Combination, schedule
from ren.schemes.ckks.parameters.bootstrapping.chain import Chain
from ren.schemes.ckks.parameters.bootstrapping.sine import DOUBLINGS
from ren.schemes.rlwe.keys import SwitchingKey
from ren.schemes.rlwe.keyswitch import (
    Gadget,
    conjugation_element,
    key_switch,
)

Pair = tuple[Poly, Poly]
Halves = tuple[tuple[Poly, ...], tuple[Poly, ...]]  # of a key, b and a


def _key(halves: Halves) -> SwitchingKey:
    return SwitchingKey(*halves, b"")


# ------------------------------------------------------------------- matrices


@attrs.frozen
class Rotations:
    """The rotations of a matrix over the moduli of a level and the special primes.

    Args:
        level: of what comes in.
        gadget: of the keys.
        elements: the galois element of each baby.
        babies: for each giant, the babies that it has factors for.
        giant: the galois element from one giant to the next.
        is_raised: whether what comes in was raised, its babies under the sparse secret.
    """

    level: int
    gadget: Gadget
    elements: tuple[int, ...]
    babies: tuple[tuple[int, ...], ...]
    giant: int
    is_raised: bool


def transformed(
    given: tuple[Chain, Rotations],
    c: Pair,
    factors: Sequence[Poly],
    keys: Sequence[Halves | None],
    giant_key: Halves | None,
) -> Pair:
    """A matrix times a ciphertext, one level lower.

    Babies stay over Q P, as do the sums of babies: c0 of the running sum is never divided by P
    between giants. It is rotated on, giant by giant, from the last to the first.
    """
    chain, r = given
    ring, extended = chain.rings[r.level], r.gadget.extended(chain.rings[r.level])
    babies = _raised_babies(chain, r, c, keys) if r.is_raised else _babies(chain, r, c, keys)
    total: Pair | None = None
    for w, indices in zip(reversed(factors), reversed(r.babies), strict=True):
        w, places = _over(w, extended), range(len(indices))
        inner = tuple(
            multiply_accumulate(w, [babies[j][half] for j in indices], places) for half in (0, 1)
        )
        if total is not None:
            assert giant_key is not None, "a matrix of several giants has the key from one to next"
            b, a = total
            k0, k1 = _switched(r.gadget, a.mod_down(ring), giant_key, extended)
            moved = (b + k0).automorphism(r.giant), k1.automorphism(r.giant)
            inner = inner[0] + moved[0], inner[1] + moved[1]
        total = inner[0], inner[1]
    assert total is not None, "a matrix has a diagonal"
    b, a = (half.mod_down(ring).rescale(chain.rings[r.level - 1]) for half in total)
    return b, a


def _over(w: Poly, ring: RingSpec) -> Poly:
    """Factors over a ring, of polynomials in X^k of a smaller one, and without other limbs."""
    whole = w if w.ring.n == ring.n else w.embed(RingSpec(ring.n, w.ring.moduli))
    return whole if whole.ring == ring else whole.to_ring(ring)


def summed(given: tuple[Chain, Rotations], c: Pair, keys: Sequence[Halves | None]) -> Pair:
    """The sum of the rotations of a ciphertext, at its level."""
    chain, r = given
    ring = chain.rings[r.level]
    babies = _raised_babies(chain, r, c, keys) if r.is_raised else _babies(chain, r, c, keys)
    b, a = (reduce(operator.add, halves).mod_down(ring) for halves in zip(*babies, strict=True))
    return b, a


def _babies(chain: Chain, r: Rotations, c: Pair, keys: Sequence[Halves | None]) -> list[Pair]:
    """The rotations of a ciphertext, times P, over Q P; they share one decomposition."""
    b, a = c
    extended = r.gadget.extended(chain.rings[r.level])
    p = extended.q // chain.rings[r.level].q
    wide = b.to_ring(extended) * p
    made = []
    for element, key in zip(r.elements, keys, strict=True):
        if key is None:
            made.append((wide, a.to_ring(extended) * p))
            continue
        k0, k1 = _switched(r.gadget, a, key, extended)
        made.append(((wide + k0).automorphism(element), k1.automorphism(element)))
    return made


def _raised_babies(
    chain: Chain, r: Rotations, c: Pair, keys: Sequence[Halves | None]
) -> list[Pair]:
    """The same of what was raised: short, so that it is its only digit."""
    b, a = c
    extended = r.gadget.extended(chain.rings[r.level])
    wide = b.to_ring(extended) * (extended.q // chain.rings[r.level].q)
    made = []
    for element, key in zip(r.elements, keys, strict=True):
        assert key is not None, "each baby of what was raised comes back from the sparse secret"
        b_key, a_key = (half.to_ring(extended) for (half,) in key)
        made.append(((wide + a * b_key).automorphism(element), (a * a_key).automorphism(element)))
    return made


def _switched(gadget: Gadget, c: Poly, key: Halves, extended: Any) -> Pair:
    """A key switch that is not yet divided by P."""
    terms = []
    for digit, b, a in zip(gadget.digits, *key, strict=True):
        if part := intersection(digit, c.ring.moduli):
            lifted = c.mod_up(part, extended)
            terms.append((lifted * b.to_ring(extended), lifted * a.to_ring(extended)))
    k0, k1 = (reduce(operator.add, halves) for halves in zip(*terms, strict=True))
    return k0, k1


# ------------------------------------------------------------------- between the matrices


def raised(chain: Chain, c: Pair, key: Halves) -> Pair:
    """Under the sparse secret, over all moduli; the second polynomial over P too.

    The lift is exact and centred. Another one would add multiples of q_0 to the second polynomial,
    and so multiples of q_0 s to the message.
    """
    b, a = c
    k0, k1 = key_switch(a, _key(key), chain.sparse)
    top = chain.rings[chain.top]
    return (b + k0).to_ring(top), k1.to_ring(chain.full.extended(top))


def halved(given: tuple[Chain, bool], c: Pair, key: Halves, turn: Poly | None) -> tuple[Poly, ...]:
    """y of the real part, and that of the imaginary part where the message has one."""
    chain, is_complex = given
    b, a = c
    k0, k1 = key_switch(a, _key(key), chain.full)
    element = conjugation_element(chain.params.n)
    conj_b, conj_a = (b + k0).automorphism(element), k1.automorphism(element)
    quarter = round(chain.scales[chain.first] / (4 * chain.above.sine.reach))
    real = b + conj_b - quarter, a + conj_a
    if not is_complex:
        return real
    assert turn is not None, "X^(n/2) comes with complex messages"
    return (*real, (conj_b - b) * turn - quarter, (conj_a - a) * turn)


def joined(_: Chain, real: Pair, imaginary: Pair, turn: Poly) -> Pair:
    """real + i imaginary."""
    return real[0] + imaginary[0] * turn, real[1] + imaginary[1] * turn


def unpacked(given: tuple[Chain, int], c: Pair, mask: Poly, key: Halves) -> Pair:
    """Both parts of a message that repeats, one level lower: times their factors, and added."""
    chain, element = given
    ring = chain.rings[chain.end]
    mask = _over(mask, chain.rings[chain.user])
    b, a = ((half * mask).rescale(ring) for half in c)
    k0, k1 = key_switch(a, _key(key), chain.full)
    return b + (b + k0).automorphism(element), a + k1.automorphism(element)


# ------------------------------------------------------------------- the sine


def sine(chain: Chain, c: Pair, key: Halves) -> Pair:
    """The message at the user's highest level and its canonical scale, of y at the first level."""
    return _Sine(chain, key).message(_Value(c, chain.first, chain.scales[chain.first]))


@attrs.frozen(eq=False)
class _Value:
    """Polynomials of a ciphertext, or of a product, at a level and an exact scale."""

    polys: tuple[Poly, ...]
    level: int
    scale: Fraction

    def times(self, factor: int) -> _Value:
        return attrs.evolve(self, polys=tuple(p * factor for p in self.polys))

    def plus(self, value: float | Fraction) -> _Value:
        first, *rest = self.polys
        return attrs.evolve(self, polys=(first + round(Fraction(value) * self.scale), *rest))


class _Sine:
    """One evaluation: the polynomial of the cosine in u = T_2(y), then the double angles.

    Operands drop levels by leaving out limbs, at their own scale. Each sum fixes the scale of its
    terms, from the last one on, whose scale is given.
    """

    def __init__(self, chain: Chain, key: Halves) -> None:
        self._chain, self._key = chain, _key(key)
        coefficients = tuple(complex(c) for c in chain.above.sine.coefficients)
        self._basis = Basis(is_chebyshev=True)
        self._schedule = schedule(coefficients, self._basis)
        self._elements: dict[int, _Value] = {}

    def message(self, y: _Value) -> Pair:
        self._elements[1] = self._settled(_product(y, y).times(2).plus(-1))
        w = self._sum(self._schedule.root, self._schedule.depth, self._end(DOUBLINGS))
        for _ in range(DOUBLINGS):
            w = self._settled(_product(w, w).times(2).plus(-1))
        b, a = w.polys
        return b, a

    def _end(self, doublings: int) -> Fraction:
        return self._chain.ends[self._chain.user + doublings]

    def _ratio(self, level: int) -> Fraction:
        rings = self._chain.rings
        return Fraction(rings[level].q, rings[level - 1].q)

    def _settled(self, x: _Value) -> _Value:
        """One level lower, of two polynomials."""
        polys = x.polys
        if len(polys) > 2:
            k0, k1 = key_switch(polys[2], self._key, self._chain.full)
            polys = polys[0] + k0, polys[1] + k1
        ring = self._chain.rings[x.level - 1]
        scale = x.scale / self._ratio(x.level)
        return _Value(tuple(p.rescale(ring) for p in polys), x.level - 1, scale)

    def _at(self, j: int, level: int) -> _Value:
        """T_j(u) at a level."""
        x, ring = self._element(j), self._chain.rings[level]
        if x.level == level:
            return x
        return attrs.evolve(x, polys=tuple(p.to_ring(ring) for p in x.polys), level=level)

    def _element(self, j: int) -> _Value:
        if j not in self._elements:
            how = self._basis.element(j)
            level = self._elements[1].level - (j - 1).bit_length() + 1
            product = _product(self._at(how.high, level), self._at(how.low, level))
            product = product.times(how.factor)
            if how.high == how.low:
                product = product.plus(-how.correction)
            else:
                less = self._at(how.high - how.low, level)
                factor = round(Fraction(how.correction) * product.scale / less.scale)
                product = _sum(product, attrs.evolve(less.times(-factor), scale=product.scale))
            self._elements[j] = self._settled(product)
        return self._elements[j]

    def _sum(self, s: Combination, depth: int, scale: Fraction) -> _Value:
        level = self._elements[1].level - depth + 1
        above = scale * self._ratio(level)
        addends = []
        for j, inner in s.products:
            element = self._at(j, level)
            addends.append(_product(element, self._sum(inner, depth - 1, above / element.scale)))
        for j, c in s.terms:
            assert isinstance(c, complex), "one polynomial for all slots"
            element = self._at(j, level)
            factor = round(Fraction(c.real) * above / element.scale)
            addends.append(attrs.evolve(element.times(factor), scale=above))
        constant = s.constant
        assert isinstance(constant, complex), "one polynomial for all slots"
        addends = [attrs.evolve(x, scale=above) for x in addends]
        return self._settled(reduce(_sum, addends).plus(constant.real))


def _product(x: _Value, y: _Value) -> _Value:
    (a0, a1), (b0, b1) = x.polys, y.polys
    return _Value((a0 * b0, a0 * b1 + a1 * b0, a1 * b1), x.level, x.scale * y.scale)


def _sum(x: _Value, y: _Value) -> _Value:
    longer, shorter = (x, y) if len(x.polys) >= len(y.polys) else (y, x)
    both = [p + q for p, q in zip(longer.polys, shorter.polys, strict=False)]
    return attrs.evolve(longer, polys=(*both, *longer.polys[len(both) :]))
