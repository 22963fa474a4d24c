"""Random rings and operands for the property tests. Nothing here imports ren.

A shape is (n, limbs). Shapes come from a fixed table, because each new one compiles its kernels;
moduli and coefficients, which are data to those kernels, are drawn freely.
"""

from __future__ import annotations

import random
from functools import cache

from flint import fmpz
from hypothesis import strategies as st

SHAPES = (
    *((4, limbs) for limbs in (1, 2, 8)),
    *((8, limbs) for limbs in (2, 5)),
    *((16, limbs) for limbs in (1, 4)),
    *((32, limbs) for limbs in (3, 7)),
    *((64, limbs) for limbs in (2, 6)),
    *((128, limbs) for limbs in (1, 5)),
    *((256, limbs) for limbs in (2, 8)),
    *((512, limbs) for limbs in (3, 6)),
    *((1024, limbs) for limbs in (4, 7)),
    *((2048, limbs) for limbs in (2, 5)),
    *((4096, limbs) for limbs in (1, 3, 8)),
)
LARGE_SHAPES = tuple((n, limbs) for n, limbs in SHAPES if n >= 256 and limbs >= 2)


@cache
def primes(n: int) -> tuple[int, ...]:
    """The 16 smallest NTT primes of degree n, 8 near 2^24 and the 16 largest under 2^30."""
    step = 2 * n
    small = _search(step + 1, step, 16)
    middle = _search((1 << 24) // step * step + 1, step, 8)
    large = _search(((1 << 30) - 2) // step * step + 1, -step, 16)
    return tuple(sorted({*small, *middle, *large}))


def _search(start: int, step: int, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        if fmpz(start).is_prime():
            found.append(start)
        start += step
    return found


def moduli(n: int, limbs: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Distinct NTT primes in any order: all small, all just under 2^30, or mixed."""
    pool = primes(n)
    kinds = [pool[:16], pool[-16:], pool]
    return st.sampled_from(kinds).flatmap(
        lambda kind: st.permutations(kind).map(lambda p: tuple(p[:limbs]))
    )


def _uniform(n: int, q: int, rng: random.Random) -> list[int]:
    return [rng.randrange(q) for _ in range(n)]


def _extreme(n: int, q: int, rng: random.Random) -> list[int]:
    return rng.choices([0, 1, q - 1, q // 2, q // 2 + 1, -1, q, -q], k=n)


def _largest(n: int, q: int, rng: random.Random) -> list[int]:
    return [q - 1] * n


def _small(n: int, q: int, rng: random.Random) -> list[int]:
    return [rng.randint(-3, 3) for _ in range(n)]


def _monomial(n: int, q: int, rng: random.Random) -> list[int]:
    out = [0] * n
    out[rng.randrange(n)] = rng.randrange(q)
    return out


def _huge(n: int, q: int, rng: random.Random) -> list[int]:
    return [rng.randint(-(q**3), q**3) for _ in range(n)]


_KINDS = (_uniform, _extreme, _largest, _small, _monomial, _huge)


def operands(n: int, q: int) -> st.SearchStrategy[list[int]]:
    """n coefficients: uniform, at the edges of [0, q), constant q - 1, small, sparse or huge."""
    return st.builds(
        lambda kind, seed: kind(n, q, random.Random(seed)),
        st.sampled_from(_KINDS),
        st.integers(0, 2**32 - 1),
    )


def integers(q: int) -> st.SearchStrategy[int]:
    """Python ints as constants: small, negative, at the edges of [0, q), and huge."""
    edges = st.sampled_from([0, 1, -1, 2, q - 1, q, q + 1, q // 2, q // 2 + 1, -q])
    return st.one_of(edges, st.integers(-(2**40), 2**40), st.integers(-(q**2), q**2))
