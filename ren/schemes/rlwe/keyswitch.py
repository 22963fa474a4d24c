"""Hybrid key switching with digits, the gadget that cuts polynomials, and Galois elements.

Key switching takes c under one secret to two polynomials under another. It is written once, in ring
operations. Several switches of one polynomial share their ModUp because equal programs are the same
node. So there is no hoisted variant here.

Reference: Han and Ki, "Better bootstrapping for approximate homomorphic encryption", 2020, 3.1.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from functools import cached_property, lru_cache, reduce

import attrs
import numpy as np

from ren.core.ring import Domain, RingSpec, intersection
from ren.poly import Poly
from ren.poly.poly import from_array
from ren.schemes.rlwe.keys import Part, SwitchingKey
from ren.schemes.rlwe.parameters import RlweParameters


@attrs.frozen
class Gadget:
    """Cut of a polynomial for a switch: digits of the union of all bases, special primes.

    Args:
        n: the degree of the ring.
        digits: disjoint parts D_j of the union of the level bases, in its order.
        specials: the special primes, P their product; P >= each product D_j keeps the noise small.
    """

    n: int
    digits: tuple[tuple[int, ...], ...]
    specials: tuple[int, ...]

    @cached_property
    def ring(self) -> RingSpec:
        """The ring of the keys: the union of the level bases, then the special primes."""
        return RingSpec(self.n, (*self.union, *self.specials))

    @cached_property
    def public_ring(self) -> RingSpec:
        """The ring of the public key: the union of the level bases, and one special prime."""
        return RingSpec(self.n, (*self.union, self.specials[0]))

    @property
    def union(self) -> tuple[int, ...]:
        """The moduli of all digits."""
        return tuple(m for digit in self.digits for m in digit)

    @cached_property
    def factors(self) -> tuple[int, ...]:
        """For each digit j, P g_j: P mod the limbs of the digit and 0 mod every other limb."""
        p, products = math.prod(self.specials), [math.prod(digit) for digit in self.digits]
        rests = [self.ring.q // d for d in products]
        return tuple(r * (p * pow(r, -1, d) % d) for r, d in zip(rests, products, strict=True))

    def extended(self, ring: RingSpec) -> RingSpec:
        """`ring`, then the special primes: where the products with the key are summed."""
        return _joined(ring, self.specials)

    def part(self, moduli: Iterable[int]) -> Part:
        """The digits that meet some moduli, by number, and the ring of a key for these moduli."""
        held = set(moduli)
        digits = [j for j, digit in enumerate(self.digits) if not held.isdisjoint(digit)]
        return digits, self.cut(held).ring

    def cut(self, moduli: Iterable[int]) -> Gadget:
        """The gadget for polynomials over `moduli` alone: a key over it is a part of one here."""
        return _cut(self, tuple(moduli))


@lru_cache(maxsize=1 << 10)
def _cut(gadget: Gadget, moduli: tuple[int, ...]) -> Gadget:
    digits = (intersection(digit, moduli) for digit in gadget.digits)
    return Gadget(gadget.n, tuple(d for d in digits if d), gadget.specials)


@lru_cache(maxsize=1 << 10)
def _joined(ring: RingSpec, specials: tuple[int, ...]) -> RingSpec:
    return ring.with_moduli((*ring.moduli, *specials))


@lru_cache(maxsize=64)
def gadget_of(params: RlweParameters) -> Gadget:
    """The gadget of `params`, cached."""
    return Gadget(params.n, params.digits, params.specials)


def reaches(key: SwitchingKey, moduli: Iterable[int]) -> bool:
    """Whether polynomials over `moduli` can be switched with a key: it has limbs for them."""
    return set(moduli).issubset(key.ring.moduli)


def cut(key: SwitchingKey, gadget: Gadget, moduli: Iterable[int]) -> SwitchingKey:
    """The part of a key that switches polynomials over `moduli`.

    The equation of a key holds modulo each prime, so that some of its limbs are a key too. What is
    computed with them has the same bits.

    Args:
        key: over `gadget`, or a part of such a key, which `reaches` the moduli.
        moduli: of the union, in any order.
    """
    part = gadget.cut(moduli)
    if part.ring == key.ring:
        return key
    ring, held = key.ring, gadget.cut(key.ring.moduli).digits
    rows = np.array([ring.moduli.index(m) for m in part.ring.moduli])
    digits = [j for j, digit in enumerate(held) if not set(digit).isdisjoint(part.union)]

    def some(halves: tuple[Poly, ...]) -> tuple[Poly, ...]:
        limbs = (halves[j].limbs[..., rows, :] for j in digits)
        return tuple(from_array(array, part.ring, Domain.NTT) for array in limbs)

    return SwitchingKey(some(key.b), some(key.a), key.seed)


def key_switch(c: Poly, key: SwitchingKey, gadget: Gadget) -> tuple[Poly, Poly]:
    """(k0, k1) with k0 + k1 t = c s' + noise, for a key that encrypts s' under t.

    Args:
        c: in the NTT domain, over a ring whose moduli are limbs of `gadget`.
        key: made for the same gadget, or the part of such a key for these moduli at least.

    Returns:
        Two polynomials over the ring of `c`, NTT domain. The noise is at most about
        sum_j n D_j / P (gaussian) + n / 2 (rounding) in each coefficient, far less on average.

    Cost: with L limbs of `c`, k special primes and d digits that meet them: L + d (L + k) - L
    + 2 (L + k) limb-NTTs, 2 d (L + k) n multiply-adds.
    """
    ring, extended = c.ring, gadget.extended(c.ring)
    if key.ring != gadget.ring:
        gadget = gadget.cut(key.ring.moduli)
    terms: list[tuple[Poly, Poly]] = []  # never empty: the digits cover every level basis
    for digit, b, a in zip(gadget.digits, key.b, key.a, strict=True):
        if part := intersection(digit, ring.moduli):
            lifted = c.mod_up(part, extended)
            terms.append((lifted * b.to_ring(extended), lifted * a.to_ring(extended)))
    k0, k1 = (reduce(operator.add, halves).mod_down(ring) for halves in zip(*terms, strict=True))
    return k0, k1


def galois_element(steps: int, n: int) -> int:
    """5^steps mod 2n: the automorphism X -> X^g that moves slot i + steps to slot i."""
    return pow(5, steps % (n // 2), 2 * n)


@lru_cache(maxsize=8)
def steps_by_element(n: int, slots: int) -> dict[int, int]:
    """Fewest steps, of either sign, of each rotation over `slots`, by its galois element."""
    found: dict[int, int] = {}
    for j in range(slots // 2 + 1):
        for k in (j, -j):
            found.setdefault(galois_element(k % slots, n), k)
    return found


def conjugation_element(n: int) -> int:
    """2n - 1: X -> X^-1 conjugates every slot."""
    return 2 * n - 1
