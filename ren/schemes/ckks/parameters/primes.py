"""The primes among which the planner walks: terminals, mains and special primes at a degree."""

from __future__ import annotations

import math
from functools import lru_cache
from heapq import merge
from itertools import islice, zip_longest

import attrs
import numpy as np

from ren.core.numtheory import ntt_primes_below, ntt_primes_from
from ren.core.ring import MODULUS_BOUND

MAX_TERMINALS = 8
TERMINAL_WIDTHS = tuple(19 + 0.25 * i for i in range(43))  # 19 to 29.5 bits

# Mains, tried in this order until one gives a plan. "largest": the largest primes, falling.
# "balanced": the same primes, large and small in turn. At n >= 2^16 they lie so far apart that a
# falling order drifts. A number: primes nearest to that width. It is for scales such as 2^27 that
# terminals beside 30-bit mains cannot keep up for many levels.
MAX_MAIN_BITS = 29.75  # of mains of one width
MAIN_LAYOUTS = ("largest", "balanced", *(MAX_MAIN_BITS - 0.25 * i for i in range(44)))
# Tried beside the first layout with a plan, where its digits are over two, and over four.
MANY_DIGITS = ("balanced", 29.25, 27.75, 27.25)
VERY_MANY_DIGITS = (*MANY_DIGITS, *(29.5 - 0.5 * i for i in range(7)))

_GUARD = 1 << 16  # a guard prime is at least this: 16 bits of noise less for 16 bits of modulus


@attrs.frozen(eq=False)
class Primes:
    """The ground walked on: primes, and the logarithms of their running products."""

    n: int
    sets: tuple[tuple[int, ...], ...]  # terminals T_0, T_1, .., nearest to their width first
    terminal_bits: np.ndarray  # [set, 9] log2(T_0 .. T_(t-1)); NaN where there are fewer
    specials: tuple[int, ...]
    mains: tuple[int, ...]
    main_bits: np.ndarray  # [m] log2(q_0 .. q_(m-1))

    @property
    def special_bits(self) -> float:
        return math.log2(math.prod(self.specials))

    def bits(self, sets: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """log2 of the modulus of each pair (t, m)."""
        return self.terminal_bits[sets, pairs[:, 0]] + self.main_bits[pairs[:, 1]]


def primes_for(n: int, k: int, layout: str | float, q_bits: float, guard: bool = False) -> Primes:
    """Primes for moduli of `q_bits`, with k large special primes and perhaps a guard prime."""
    sets, terminal_bits = _terminal_sets(n)
    mains = _mains(n, layout, k, q_bits)
    main_bits = np.concatenate([[0.0], np.cumsum(np.log2(mains))])
    specials = largest_primes(n, k) + ((guard_prime(n),) if guard else ())
    return Primes(n, sets, terminal_bits, specials, mains, main_bits)


def _mains(n: int, layout: str | float, k: int, bits: float) -> tuple[int, ...]:
    """Enough primes for `bits` in the order of their limbs; the `k` largest are the specials."""
    if layout == "balanced":
        # As few as will do, for every further one lowers their mean.
        count = math.ceil(bits / 29.8) + 1
        falling = largest_primes(n, k + count)[k:]
        middle = -(-count // 2)
        pairs = zip_longest(falling[:middle], falling[: middle - 1 : -1])
        return tuple(p for pair in pairs for p in pair if p)
    width = 29.0 if isinstance(layout, str) else layout - 0.1
    count = math.ceil(bits / width / 32) * 32 + MAX_TERMINALS  # in steps, so that caches serve
    if isinstance(layout, str):
        return largest_primes(n, k + count)[k:]
    return nearest_primes(n, layout, count, largest_primes(n, k)[-1])


@lru_cache(maxsize=64)
def largest_primes(n: int, count: int) -> tuple[int, ...]:
    """The `count` largest primes under 2^30 that serve degree `n`, falling."""
    return tuple(islice(ntt_primes_below(n, MODULUS_BOUND), count))


@lru_cache(maxsize=64)
def guard_prime(n: int) -> int:
    """The small special prime that makes a plan quiet."""
    return next(ntt_primes_from(n, _GUARD, MODULUS_BOUND))


@lru_cache(maxsize=256)
def nearest_primes(n: int, width: float, count: int, stop: int) -> tuple[int, ...]:
    """The `count` primes below `stop` nearest to 2^`width`, in bits; nearest first."""
    centre = min(round(2**width), stop)
    sides = ntt_primes_below(n, centre), ntt_primes_from(n, centre, stop)
    return tuple(islice(merge(*sides, key=lambda p: abs(math.log2(p) - width)), count))


@lru_cache(maxsize=16)
def _terminal_sets(n: int) -> tuple[tuple[tuple[int, ...], ...], np.ndarray]:
    """For each width and K, the K primes nearest to it, and their running logarithms."""
    sets: dict[tuple[int, ...], None] = {(): None}
    for width in TERMINAL_WIDTHS:
        near = nearest_primes(n, width, MAX_TERMINALS, MODULUS_BOUND)
        sets |= {near[:count]: None for count in range(1, MAX_TERMINALS + 1)}
    bits = np.full((len(sets), MAX_TERMINALS + 1), np.nan)
    for row, primes in zip(bits, sets, strict=True):
        row[0] = 0.0
        row[1 : len(primes) + 1] = np.cumsum(np.log2(primes))
    return tuple(sets), bits
