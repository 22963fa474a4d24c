"""INSECURE toy: BFV, arithmetic on encrypted integers mod t, on Ren's polynomials alone.

Reference: Fan and Vercauteren, "Somewhat practical fully homomorphic encryption" (2012). Its
parameters are small, and nothing is done against attacks on implementations. For encrypted numbers
write `ren.schemes.ckks`.
"""

from __future__ import annotations

from functools import cached_property

import attrs

import ren
from ren import Poly, RingSpec

T = 257  # of plaintexts: polynomials mod T
BASE = 1 << 20  # of the digits of relinearization
RING = RingSpec(n=64, moduli=(1073741441, 1073739649, 1073738753))
WIDE = RING.with_moduli((*RING.moduli, 1073736449, 1073735297, 1073734913, 1073732993))

Pair = tuple[Poly, Poly]


@attrs.frozen(slots=False)
class Key:
    """A secret s, with small coefficients."""

    s: Poly = attrs.field(factory=lambda: Poly.ternary(RING).realize(), repr=False)

    def zero(self, *batch: int) -> Pair:
        """Encryptions (b, a) of 0: b + a s is small."""
        a, e = Poly.uniform(RING, batch=batch), Poly.gaussian(RING, batch=batch)
        return (e - a * self.s).realize(), a.realize()

    @cached_property
    def relinearization(self) -> Pair:
        """Encryptions of BASE^i s^2: what takes a product back to two polynomials."""
        gadget = Poly.gadget(BASE, RING, centered=True)
        b, a = self.zero(len(gadget))
        return (b + gadget * (self.s * self.s)).realize(), a

    def encrypt(self, m: Poly) -> Pair:
        """(b, a) with b + a s = round(q m / T) + a small error."""
        b, a = self.zero()
        return b + m.round_div(RING.q, T), a

    def decrypt(self, x: Pair) -> list[int]:
        """round(T (b + a s) / q) mod T."""
        b, a = x
        rounded = (b + a * self.s).round_div(T, RING.q)
        return [c % T for c in rounded.tolist(centered=True)]


@ren.jit
def add(x: Pair, y: Pair) -> Pair:
    """The sum of two encrypted polynomials."""
    return x[0] + y[0], x[1] + y[1]


@ren.jit
def multiply(x: Pair, y: Pair, key: Pair) -> Pair:
    """The product: exact over a wider ring, times T / q, and back to two polynomials."""
    (b, a), (d, c) = ([p.to_ring(WIDE) for p in z] for z in (x, y))
    low, middle, high = (p.round_div(T, RING.q, ring=RING) for p in (b * d, b * c + a * d, a * c))
    gained, lost = (high.gadget_product(rows, BASE, centered=True) for rows in key)
    return low + gained, middle + lost


def main() -> None:
    """Encrypts two polynomials, and decrypts their sum and their product."""
    print(f"INSECURE toy: BFV with {RING}, plaintexts mod {T}")
    key = Key()
    x, y = (key.encrypt(Poly(m, RING)) for m in ([1, 2, 3], [5, 7]))
    print("sum    ", key.decrypt(add(x, y))[:5])
    print("product", key.decrypt(multiply(x, y, key.relinearization))[:5])


if __name__ == "__main__":
    main()
