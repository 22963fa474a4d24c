"""Rings Z_q[X]/(X^n + 1) in RNS form, their domains, and the algebra of their bases."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import attrs

from ren.core import html
from ren.core.errors import RingError
from ren.core.numtheory import is_prime, ntt_primes_below, ntt_primes_from

MIN_DEGREE, MAX_DEGREE = 4, 1 << 17
_DEGREES = "The degree n is a power of two from 4 to 131072."
MODULUS_BOUND = 1 << 30  # lazy sums inside kernels reach 4q, which must stay below 2^32
LIMB_DTYPE = "uint32"


class Domain(enum.Enum):
    """Meaning of the n numbers of a limb: coefficients, or values at the 2n-th roots."""

    COEFF = "coeff"
    NTT = "ntt"

    def __repr__(self) -> str:
        return f"Domain.{self.name}"


@attrs.frozen
class RingSpec:
    """The ring Z_q[X]/(X^n + 1) with q the product of `moduli`, one limb for each modulus.

    Args:
        n: the degree, a power of two from 4 to 2^17.
        moduli: distinct primes q_i = 1 (mod 2n), q_i < 2^30; their order is the order of the limbs.

    Raises:
        RingError: names the parameter, the rule that it breaks and the nearest valid value.

    Example:
        >>> RingSpec(n=8, moduli=(17, 97)).q
        1649
    """

    n: int = attrs.field(converter=lambda n: _as_degree(n))
    moduli: tuple[int, ...] = attrs.field(converter=lambda m: _as_moduli(m))
    _hash: int = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        _check_degree(self.n)
        _check_moduli(self.n, self.moduli)
        object.__setattr__(self, "_hash", hash((self.n, self.moduli)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, RingSpec):
            return NotImplemented
        return self._hash == other._hash and self.n == other.n and self.moduli == other.moduli

    @property
    def q(self) -> int:
        """The modulus of the ring: the product of the limb moduli."""
        return _product(self.moduli)

    @property
    def limbs(self) -> int:
        """Number of limbs (moduli) of the ring."""
        return len(self.moduli)

    @property
    def dtype(self) -> str:
        """Element type of the limbs: "uint32", for residues below 2^30."""
        return LIMB_DTYPE

    @property
    def log2_q(self) -> float:
        """log2 of q, in bits."""
        return math.log2(self.q)

    @property
    def _title(self) -> str:
        """The ring as it is written: Z_q[X]/(X^8 + 1)."""
        return f"Z_q[X]/(X^{self.n} + 1)"

    @property
    def _size_in_words(self) -> str:
        """Number of limbs and bits, as text for messages."""
        return f"{self.limbs} limb{'s' * (self.limbs > 1)}, log2 q = {self.log2_q:.1f}"

    def _repr_html_(self) -> str:
        bits = [(str(i), str(m), f"{math.log2(m):.2f}") for i, m in enumerate(self.moduli)]
        return html.card(
            f"Ring {self._title}",
            html.facts([("n", str(self.n)), ("q", self._size_in_words)]),
            html.table([("limb", "modulus", "log2"), *bits], left=()),
        )

    def with_moduli(self, moduli: Iterable[int]) -> RingSpec:
        """The ring of the same degree over other moduli."""
        return _ring(self.n, moduli) if isinstance(moduli, tuple) else RingSpec(self.n, moduli)


@lru_cache(maxsize=1 << 12)
def _ring(n: int, moduli: tuple[int, ...]) -> RingSpec:
    return RingSpec(n, moduli)


@lru_cache(maxsize=1 << 12)
def _product(moduli: tuple[int, ...]) -> int:
    return math.prod(moduli)


def intersection(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The moduli of `a` that are in `b`, in the order of `a`."""
    inside = set(b)
    return tuple(m for m in a if m in inside)


def difference(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The moduli of `a` that are not in `b`, in the order of `a`."""
    outside = set(b)
    return tuple(m for m in a if m not in outside)


def is_subset(a: Sequence[int], b: Sequence[int]) -> bool:
    """True when every modulus of `a` is one of `b`."""
    return set(a) <= set(b)


def limb_positions(part: Sequence[int], whole: Sequence[int]) -> tuple[int, ...]:
    """Position in `whole` of each modulus of `part`."""
    position = {m: i for i, m in enumerate(whole)}
    return tuple(position[m] for m in part)


def contiguous_run(part: Sequence[int], whole: Sequence[int]) -> tuple[int, int] | None:
    """(start, length) of `part` in `whole` when it is one run of it, else None."""
    start = whole.index(part[0])
    return (start, len(part)) if tuple(whole[start : start + len(part)]) == tuple(part) else None


def _as_moduli(moduli: Any) -> tuple[int, ...]:
    if isinstance(moduli, int):
        return (moduli,)
    if not isinstance(moduli, Iterable):
        raise _wrong_type("moduli", moduli, "moduli is a tuple of primes, one for each limb.")
    try:
        return tuple(map(_as_index, moduli))
    except TypeError:
        raise _wrong_type("moduli", moduli, "Each modulus is a Python int.") from None


def _as_degree(n: Any) -> int:
    try:
        return _as_index(n)
    except TypeError:
        raise _wrong_type("n", n, _DEGREES) from None


def _as_index(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


def _wrong_type(name: str, value: object, rule: str) -> RingError:
    return RingError(
        f"RingSpec got {name}={value!r}.",
        rule,
        "Write for example RingSpec(n=8, moduli=(17, 97)).",
    )


def _check_degree(n: int) -> None:
    if MIN_DEGREE <= n <= MAX_DEGREE and n & (n - 1) == 0:
        return
    clamped = min(max(n, MIN_DEGREE), MAX_DEGREE)
    below = 1 << (clamped.bit_length() - 1)
    nearest = [below] if clamped == below else [below, 2 * below]
    raise RingError(
        f"RingSpec got n={n!r}.",
        _DEGREES,
        f"The nearest valid degree is {' or '.join(map(str, nearest))}.",
    )


def _check_moduli(n: int, moduli: tuple[int, ...]) -> None:
    if not moduli:
        raise RingError(
            "RingSpec got no moduli.",
            f"At least one prime q = 1 (mod {2 * n}), q < 2^30, is needed.",
            f"The smallest is {next(ntt_primes_from(n, 2, MODULUS_BOUND))}.",
        )
    if len(set(moduli)) != len(moduli):
        twice = sorted({m for m in moduli if moduli.count(m) > 1})
        raise RingError(
            f"RingSpec got the modulus {twice[0]} more than once.",
            "The moduli of a ring are distinct, so that the Chinese remainder theorem holds.",
            f"Replace one by another prime q = 1 (mod {2 * n}), for example "
            f"{_nearest_primes(n, twice[0], exclude=moduli)}.",
        )
    for m in moduli:
        if not is_ntt_prime(n, m):
            raise RingError(
                f"RingSpec got the modulus {m} for n={n}.",
                f"Each modulus is a prime q = 1 (mod {2 * n}) with q < 2^30; {_fault(n, m)}.",
                f"The nearest valid primes are {_nearest_primes(n, m)}.",
            )


@lru_cache(maxsize=1 << 14)
def is_ntt_prime(n: int, modulus: int) -> bool:
    """True when `modulus` is a prime under 2^30 with 2n-th roots of unity."""
    return 2 < modulus < MODULUS_BOUND and modulus % (2 * n) == 1 and is_prime(modulus)


def _fault(n: int, m: int) -> str:
    if m < 2:
        return f"{m} is not a prime"
    if m >= MODULUS_BOUND:
        return f"{m} is not below 2^30 = {MODULUS_BOUND}"
    if not is_prime(m):
        return f"{m} is not prime"
    return f"{m} = {m % (2 * n)} (mod {2 * n})"


def _nearest_primes(n: int, m: int, exclude: Sequence[int] = ()) -> str:
    m = min(max(m, 2), MODULUS_BOUND)
    candidates = (ntt_primes_below(n, m), ntt_primes_from(n, m, MODULUS_BOUND))
    nearest = (next((p for p in primes if p not in exclude), None) for primes in candidates)
    return " and ".join(str(p) for p in nearest if p is not None)
