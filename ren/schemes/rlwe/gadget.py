"""Gadget of a set of parameters: digits and special primes, and the rings of keys over them."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import attrs

from ren.core.ring import RingSpec
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
        return RingSpec(self.n, (*self._union, *self.specials))

    @cached_property
    def public_ring(self) -> RingSpec:
        """The ring of the public key: the union of the level bases, and one special prime."""
        return RingSpec(self.n, (*self._union, self.specials[0]))

    @property
    def _union(self) -> tuple[int, ...]:
        return tuple(m for digit in self.digits for m in digit)

    @cached_property
    def factors(self) -> tuple[int, ...]:
        """For each digit j, P g_j: P mod the limbs of the digit and 0 mod every other limb."""
        return tuple(self._factor(digit) for digit in self.digits)

    def _factor(self, digit: tuple[int, ...]) -> int:
        product = math.prod(digit)
        rest = self.ring.q // product
        return rest * (math.prod(self.specials) * pow(rest, -1, product) % product)

    def extended(self, ring: RingSpec) -> RingSpec:
        """`ring`, then the special primes: where the products with the key are summed."""
        return _joined(ring, self.specials)


@lru_cache(maxsize=1 << 10)
def _joined(ring: RingSpec, specials: tuple[int, ...]) -> RingSpec:
    return ring.with_moduli((*ring.moduli, *specials))


@lru_cache(maxsize=64)
def gadget_of(params: RlweParameters) -> Gadget:
    """The gadget of `params`, cached."""
    return Gadget(params.n, params.digits, params.specials)
