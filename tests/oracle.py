"""Arithmetic in Z_q[X]/(X^n + 1) on big integers: what every result of Ren is compared with.

A polynomial is a list of n Python ints in [0, q). Nothing here imports ren. Long products go
through python-flint's fmpz_poly; `mul_schoolbook` checks those (tests/test_oracle.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from flint import fmpz, fmpz_poly

Coefficients = list[int]


def reduce(a: Sequence[int], q: int) -> Coefficients:
    """Every coefficient mod q, in [0, q)."""
    return [x % q for x in a]


def centred(x: int, q: int) -> int:
    """The representative of x mod q in (-q/2, q/2]."""
    x %= q
    return x - q if 2 * x > q else x


def add(a: Coefficients, b: Coefficients, q: int) -> Coefficients:
    """a + b."""
    return [(x + y) % q for x, y in zip(a, b, strict=True)]


def sub(a: Coefficients, b: Coefficients, q: int) -> Coefficients:
    """a - b."""
    return [(x - y) % q for x, y in zip(a, b, strict=True)]


def neg(a: Coefficients, q: int) -> Coefficients:
    """-a."""
    return [-x % q for x in a]


def constant(c: int, n: int, q: int) -> Coefficients:
    """The polynomial c X^0."""
    return [c % q] + [0] * (n - 1)


def mul(a: Coefficients, b: Coefficients, q: int) -> Coefficients:
    """a b, with X^n = -1."""
    n = len(a)
    product = (fmpz_poly(a) * fmpz_poly(b)).coeffs()
    product += [fmpz(0)] * (2 * n - len(product))
    return [int(low - high) % q for low, high in zip(product[:n], product[n:], strict=True)]


def mul_schoolbook(a: Coefficients, b: Coefficients, q: int) -> Coefficients:
    """a b by the definition, in n^2 steps of Python."""
    n = len(a)
    out = [0] * n
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            sign, k = (1, i + j) if i + j < n else (-1, i + j - n)
            out[k] += sign * x * y
    return reduce(out, q)


def power(a: Coefficients, exponent: int, q: int) -> Coefficients:
    """a^exponent, exponent >= 0, one factor after the other."""
    out = constant(1, len(a), q)
    for _ in range(exponent):
        out = mul(out, a, q)
    return out


def automorphism(a: Coefficients, g: int, q: int) -> Coefficients:
    """a(X^g) for odd g of any sign."""
    n = len(a)
    out = [0] * n
    for i, x in enumerate(a):
        k = i * g % (2 * n)
        out[k % n] = x % q if k < n else -x % q
    return out


def rotate(a: Coefficients, k: int, q: int) -> Coefficients:
    """a(X^(5^k)) for k of any sign; 5 has order n/2 modulo 2n."""
    n = len(a)
    return automorphism(a, pow(5, k % (n // 2), 2 * n), q)


def shift(a: Coefficients, k: int, q: int) -> Coefficients:
    """X^k a, for any integer k."""
    n, out = len(a), [0] * len(a)
    for i, x in enumerate(a):
        turns, place = divmod(i + k, n)
        out[place] = (-x if turns % 2 else x) % q
    return out


def embed(a: Coefficients, n: int) -> Coefficients:
    """a(X^k) of degree n = k len(a)."""
    out = [0] * n
    for i, x in enumerate(a):
        out[i * (n // len(a))] = x
    return out


def to_ring(a: Coefficients, q: int, new_q: int) -> Coefficients:
    """The centred lift of a from modulus q, read modulo new_q."""
    return [centred(x, q) % new_q for x in a]


def rescale(a: Coefficients, old: Sequence[int], new: Sequence[int]) -> Coefficients:
    """round(a prod(new \\ old) / prod(old \\ new)) modulo prod(new)."""
    dropped = math.prod(set(old) - set(new))
    added = math.prod(set(new) - set(old))
    wide = math.prod(old) * added
    scaled = [x * added % wide for x in a]
    return [(x - centred(x, dropped)) // dropped % math.prod(new) for x in scaled]


def approximate_lift(x: int, digit: Sequence[int]) -> int:
    """sum_i y_i D/d_i with y_i = [x (D/d_i)^-1 mod d_i] centred: x mod D, up to multiples of D."""
    product = math.prod(digit)
    total = 0
    for d in digit:
        rest = product // d
        total += centred(x * pow(rest, -1, d), d) * rest
    return total


def mod_up(a: Coefficients, digit: Sequence[int], new: Sequence[int]) -> Coefficients:
    """The approximate centred lift of a mod prod(digit), read modulo prod(new)."""
    q = math.prod(new)
    return [approximate_lift(x, digit) % q for x in a]


def mod_down(a: Coefficients, old: Sequence[int], new: Sequence[int]) -> Coefficients:
    """(a - lift(a mod P)) / P modulo prod(new), P the product of what `new` lacks of `old`."""
    dropped = [m for m in old if m not in set(new)]
    p = math.prod(dropped)
    return [(x - approximate_lift(x, dropped)) // p % math.prod(new) for x in a]
