"""The stages of a bootstrap, as programs of polynomials: each is planned once for a chain.

    StC      the slots become coefficients, at the lowest level
    raise    to the sparse secret, then to all moduli: the coefficients get multiples of q_0
    CtS      the coefficients become slots; back under the secret
    trace    of a message that repeats: a sum of rotations
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

from ren.core.ring import RingSpec, intersection, is_subset
from ren.poly import Poly
from ren.poly.batching import multiply_accumulate
from ren.schemes.ckks.functions.basis import Basis
from ren.schemes.ckks.functions.paterson_stockmeyer import Combination, schedule
from ren.schemes.ckks.parameters.bootstrapping.chain import Chain
from ren.schemes.ckks.parameters.bootstrapping.sine import DOUBLINGS
from ren.schemes.rlwe.keyswitch import Gadget, conjugation_element

Pair = tuple[Poly, Poly]
Halves = tuple[tuple[Poly, ...], tuple[Poly, ...]]  # of a key, b and a


# ------------------------------------------------------------------- matrices


@attrs.frozen
class Rotations:
    """Rotations over the moduli of a level and the special primes.

    Args:
        level: of what comes in.
        gadget: of the keys.
        babies: for each baby the galois elements whose rotations it is the sum of.
        is_raised: whether what comes in was raised, its babies under the sparse secret.
        bases: number of bases, each with its babies: what comes in, and rotations of it.
        base: the galois element from one base to the next.
    """

    level: int
    gadget: Gadget
    babies: tuple[tuple[int, ...], ...]
    is_raised: bool = False
    bases: int = 1
    base: int = 1


@attrs.frozen
class Giants:
    """The sums of a matrix.

    Args:
        factors: for each giant, the rotations that it has factors for.
        giant: the galois element from one giant to the next.
        end: the level of the result: that of what comes in, or the next one.
    """

    factors: tuple[tuple[int, ...], ...]
    giant: int
    end: int


def transformed(
    given: tuple[Chain, Rotations, Giants],
    c: Pair,
    factors: Sequence[Poly],
    keys: Sequence[Halves | None],
    base_key: Halves | None,
    giant_key: Halves | None,
) -> Pair:
    """A matrix times a ciphertext.

    Rotations stay over Q P, as do their sums: c0 of the running sum is never divided by P between
    giants. It is rotated on, giant by giant, from the last to the first.
    """
    chain, r, giants = given
    ring, extended = chain.rings[r.level], r.gadget.extended(chain.rings[r.level])
    rotations = _rotations(chain, r, c, keys, base_key)
    total: Pair | None = None
    for w, indices in zip(reversed(factors), reversed(giants.factors), strict=True):
        w, places = _over(w, extended), range(len(indices))
        inner = tuple(
            multiply_accumulate(w, [rotations[j][half] for j in indices], places) for half in (0, 1)
        )
        if total is not None:
            assert giant_key is not None, "a matrix of several giants has the key from one to next"
            _check(giant_key, extended)
            b, a = total
            k0, k1 = _switched(r.gadget, a.mod_down(ring), giant_key, extended)
            moved = (b + k0).automorphism(giants.giant), k1.automorphism(giants.giant)
            inner = inner[0] + moved[0], inner[1] + moved[1]
        total = inner[0], inner[1]
    assert total is not None, "a matrix has a diagonal"
    b, a = (half.mod_down(ring) for half in total)
    return (b, a) if giants.end == r.level else _rescaled((b, a), chain.rings[giants.end])


def _over(w: Poly, ring: RingSpec) -> Poly:
    """Factors over a ring, of polynomials in X^k of a smaller one, and without other limbs."""
    whole = w if w.ring.n == ring.n else w.embed(RingSpec(ring.n, w.ring.moduli))
    return whole if whole.ring == ring else whole.to_ring(ring)


def _rotations(
    chain: Chain,
    r: Rotations,
    c: Pair,
    keys: Sequence[Halves | None],
    base_key: Halves | None = None,
) -> list[Pair]:
    """The babies of all bases, times P, over Q P; those of one base share its decomposition.

    The first baby of all bases comes first: a key is read once, and stays in the cache meanwhile.

    Args:
        keys: of all galois elements, baby after baby; None for the rotation that changes nothing.
    """
    b, a = c
    ring = chain.rings[r.level]
    extended = r.gadget.extended(ring)
    p = extended.q // ring.q
    base, made = (b.to_ring(extended) * p, a.to_ring(extended) * p), list[list[Pair]]()
    for i in range(r.bases):
        if i > 0:
            assert base_key is not None, "a matrix of several bases has the key from one to next"
            base = _rotated(r, base, a, r.base, base_key)
            a = base[1].mod_down(ring)
        left = iter(keys)
        made.append([])
        for elements in r.babies:
            parts = [_rotated(r, base, a, element, next(left)) for element in elements]
            b_sum, a_sum = (reduce(operator.add, halves) for halves in zip(*parts, strict=True))
            made[-1].append((b_sum, a_sum))
    return [pair for baby in zip(*made, strict=True) for pair in baby]


def _rotated(r: Rotations, wide: Pair, a: Poly, element: int, key: Halves | None) -> Pair:
    """A rotation of a pair over Q P, whose second polynomial is P a."""
    if key is None:
        return wide
    b, extended = wide[0], wide[0].ring
    _check(key, extended)
    if r.is_raised:  # short, so that it is its only digit
        k0, k1 = (a * half.to_ring(extended) for (half,) in key)
    else:
        k0, k1 = _switched(r.gadget, a, key, extended)
    return (b + k0).automorphism(element), k1.automorphism(element)


def _switched(gadget: Gadget, c: Poly, key: Halves, extended: Any) -> Pair:
    """A key switch that is not yet divided by P. A key may lack digits that `c` does not meet."""
    terms = []
    for digit, b, a in zip(gadget.digits, *key, strict=False):
        if part := intersection(digit, c.ring.moduli):
            lifted = c.mod_up(part, extended)
            terms.append((lifted * b.to_ring(extended), lifted * a.to_ring(extended)))
    k0, k1 = (reduce(operator.add, halves) for halves in zip(*terms, strict=True))
    return k0, k1


def _check(key: Halves, ring: RingSpec) -> None:
    moduli = key[0][0].ring.moduli
    assert is_subset(ring.moduli, moduli), "a key covers the moduli of all levels that it serves at"


def _key_switch(gadget: Gadget, c: Poly, key: Halves) -> Pair:
    ring = c.ring
    _check(key, gadget.extended(ring))
    k0, k1 = _switched(gadget, c, key, gadget.extended(ring))
    return k0.mod_down(ring), k1.mod_down(ring)


def _rescaled(c: Pair, ring: RingSpec) -> Pair:
    b, a = c
    return b.rescale(ring), a.rescale(ring)


# ------------------------------------------------------------------- between the matrices


def raised(chain: Chain, c: Pair, key: Halves) -> Pair:
    """Under the sparse secret, over all moduli; the second polynomial over P too.

    The lift is exact and centred. Another one would add multiples of q_0 to the second polynomial,
    and so multiples of q_0 s to the message.
    """
    b, a = c
    k0, k1 = _key_switch(chain.sparse, a, key)
    top = chain.rings[chain.top]
    return (b + k0).to_ring(top), k1.to_ring(chain.full.extended(top))


def summed(given: tuple[Chain, Rotations], c: Pair, keys: Sequence[Halves | None]) -> Pair:
    """A part of the trace: the sum of rotations of a ciphertext, at its level."""
    chain, r = given
    ring = chain.rings[r.level]
    halves = zip(*_rotations(chain, r, c, keys), strict=True)
    b, a = (reduce(operator.add, half).mod_down(ring) for half in halves)
    return b, a


def gathered(given: tuple[Chain, Rotations], c: Pair, keys: Sequence[Halves | None]) -> Pair:
    """y: the last part of the trace, of rotations and their conjugates, at the first level."""
    chain, _ = given
    b, a = _rescaled(summed(given, c, keys), chain.rings[chain.first])
    return b - _quarter(chain), a


def halved(given: tuple[Chain, bool], c: Pair, key: Halves, turn: Poly | None) -> tuple[Poly, ...]:
    """y of the real part, and that of the imaginary part where the message has one.

    The rescale comes after the key switch, whose noise would else be that of y.
    """
    chain, is_complex = given
    (b, a), ring = c, chain.rings[chain.first]
    k0, k1 = _key_switch(chain.full, a, key)
    element = conjugation_element(chain.params.n)
    conj_b, conj_a = (b + k0).automorphism(element), k1.automorphism(element)
    quarter = _quarter(chain)
    real_b, real_a = _rescaled((b + conj_b, a + conj_a), ring)
    if not is_complex:
        return real_b - quarter, real_a
    assert turn is not None, "X^(n/2) comes with complex messages"
    b, a = _rescaled((conj_b - b, conj_a - a), ring)
    return real_b - quarter, real_a, b * turn - quarter, a * turn


def _quarter(chain: Chain) -> int:
    """A quarter of the cosine's period, at the scale of y: with it a cosine is a sine."""
    return round(chain.scales[chain.first] / (4 * chain.above.sine.reach))


def joined(_: Chain, real: Pair, imaginary: Pair, turn: Poly) -> Pair:
    """real + i imaginary."""
    return real[0] + imaginary[0] * turn, real[1] + imaginary[1] * turn


def unpacked(given: tuple[Chain, int], c: Pair, mask: Poly, key: Halves) -> Pair:
    """Both parts of a message that repeats, one level lower: times their factors, and added.

    The rescale comes last, and divides the noise of the key switch.
    """
    chain, element = given
    mask = _over(mask, chain.rings[chain.user])
    b, a = (half * mask for half in c)
    k0, k1 = _key_switch(chain.full, a, key)
    both = b + (b + k0).automorphism(element), a + k1.automorphism(element)
    return _rescaled(both, chain.rings[chain.end])


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
        self._chain, self._key = chain, key
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
            k0, k1 = _key_switch(self._chain.full, polys[2], self._key)
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
