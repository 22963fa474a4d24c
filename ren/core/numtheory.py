"""Primes, roots of unity and the Chinese remainder theorem on Python integers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

# Deterministic Miller-Rabin witnesses for every integer below 3.3e24
# (Sorenson and Webster, "Strong pseudoprimes to twelve prime bases", 2015).
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
# Those that suffice below a bound (Jaeschke, "On strong pseudoprimes to several bases", 1993).
_FEW, _FEW_SUFFICE = (2, 7, 61), 4_759_123_141


@lru_cache(maxsize=1 << 16)
def is_prime(candidate: int) -> bool:
    """True when `candidate` is prime; exact below 3.3e24."""
    if candidate < 2:
        return False
    for p in _WITNESSES:
        if candidate % p == 0:
            return candidate == p
    if candidate < _WITNESSES[-1] ** 2:
        return True
    odd, twos = candidate - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    bases = _FEW if candidate < _FEW_SUFFICE else _WITNESSES
    return not any(_is_composite_witness(w, odd, twos, candidate) for w in bases)


def _is_composite_witness(base: int, odd: int, twos: int, candidate: int) -> bool:
    x = pow(base, odd, candidate)
    if x in (1, candidate - 1):
        return False
    for _ in range(twos - 1):
        x = x * x % candidate
        if x == candidate - 1:
            return False
    return True


def is_prime_power(candidate: int) -> bool:
    """True for p^k with a prime p and k >= 1; exact below 2^80."""
    if is_prime(candidate):
        return True
    roots = ((round(candidate ** (1 / k)), k) for k in range(2, candidate.bit_length()))
    return any(
        r**k == candidate and is_prime(r) for root, k in roots for r in (root - 1, root, root + 1)
    )


def factors(number: int) -> list[int]:
    """The prime factors of a number from 1 on, smallest first, each as often as it divides.

    Cost: the fourth root of the number (Pollard, "A Monte Carlo method for factorization", 1975).
    """
    found, rest = [], [number]
    while rest:
        m = rest.pop()
        if m == 1:
            continue
        if is_prime(m):
            found.append(m)
            continue
        divisor = next((p for p in _WITNESSES if m % p == 0), None) or _divisor(m)
        rest += [divisor, m // divisor]
    return sorted(found)


def _divisor(composite: int) -> int:
    """A proper divisor of an odd composite number: a cycle of x -> x^2 + c modulo it."""
    for c in range(1, composite):
        slow = fast = 2
        divisor = 1
        while divisor == 1:
            slow = (slow * slow + c) % composite
            fast = (fast * fast + c) % composite
            fast = (fast * fast + c) % composite
            divisor = math.gcd(slow - fast, composite)
        if divisor < composite:
            return divisor
    raise ArithmeticError(f"{composite} is prime")


def ntt_primes_below(n: int, bound: int) -> Iterator[int]:
    """Primes q = 1 (mod 2n) with q < `bound`, largest first."""
    step = 2 * n
    candidate = (bound - 2) // step * step + 1
    while candidate > step:
        if is_prime(candidate):
            yield candidate
        candidate -= step


def ntt_primes_from(n: int, bound: int, stop: int) -> Iterator[int]:
    """Primes q = 1 (mod 2n) with `bound` <= q < `stop`, smallest first."""
    step = 2 * n
    candidate = max(step + 1, -(-(bound - 1) // step) * step + 1)
    while candidate < stop:
        if is_prime(candidate):
            yield candidate
        candidate += step


@lru_cache(maxsize=1 << 12)
def primitive_root_of_unity(n: int, q: int) -> int:
    """The psi with psi^n = -1 (mod q) that Ren uses for the prime q = 1 (mod 2n).

    It is x^((q-1)/2n) for the least x >= 2 that gives order 2n, so it depends on (n, q) alone.
    """
    exponent = (q - 1) // (2 * n)
    x = 2
    while pow(psi := pow(x, exponent, q), n, q) != q - 1:
        x += 1
    return psi


def crt(residues: Sequence[int], moduli: Sequence[int]) -> int:
    """The x in [0, prod(moduli)) with x = residues[i] (mod moduli[i]); moduli pairwise coprime."""
    product = math.prod(moduli)
    total = 0
    for r, m in zip(residues, moduli, strict=True):
        rest = product // m
        total += r * rest * pow(rest, -1, m)
    return total % product


def length(value: int) -> int:
    """The bits of |value|, rounded up to a multiple of 8: numbers of one length share a plan."""
    return -(-value.bit_length() // 8) * 8


def centered(value: int, modulus: int) -> int:
    """The representative of `value` mod `modulus` in (-modulus/2, modulus/2]."""
    value %= modulus
    return value - modulus if 2 * value > modulus else value
