"""Rings Z_q[X]/(X^n + 1) in RNS form, their domains, and the algebra of their bases."""

from __future__ import annotations

import enum
import itertools
import math
import operator
from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from typing import Any

import attrs

from ren.core import html
from ren.core.attributes import closed
from ren.core.errors import RingError, shown
from ren.core.numtheory import (
    crt,
    factors,
    is_prime,
    is_prime_power,
    ntt_primes_below,
    ntt_primes_from,
    primitive_root_of_unity,
)

MIN_DEGREE, MAX_DEGREE = 2, 1 << 17
_DEGREES = "The degree n is a power of two from 2 to 131072."
MODULUS_BOUND = 1 << 30  # lazy sums inside kernels reach 4q, which must stay below 2^32
WIDE_BOUND = 1 << 61  # of a wide modulus m: residues in (-m, 2m) fit 64 bits with a sign
LIMB_DTYPE = "uint32"


class Domain(enum.Enum):
    """Meaning of the n numbers of a limb: coefficients, or values at the 2n-th roots."""

    COEFF = "coeff"
    NTT = "ntt"

    __hash__ = object.__hash__  # that of an enumeration is Python's, and hashes the name

    def __repr__(self) -> str:
        return f"Domain.{self.name}"


_INSTEAD = {
    "modulus": "ring.q", "degree": "ring.n", "N": "ring.n",
    "uniform": "ren.Poly.uniform(ring)", "random": "ren.Poly.uniform(ring)",
    "random_element": "ren.Poly.uniform(ring)", "zero": "ren.Poly.zeros(ring)",
    "one": "ren.Poly.const(1, ring)", "gen": "ren.Poly([0, 1], ring)",
}  # fmt: skip


@closed(_INSTEAD, "Make another ring, ren.RingSpec(n=8, moduli=(17, 97)).")
@attrs.frozen
class RingSpec:
    """The ring Z_q[X]/(X^n + 1) with q the product of `moduli`, one limb for each modulus.

    Args:
        n: the degree, a power of two from 2 to 2^17.
        moduli: odd primes or prime powers below 2^61 without common factors. Their order is the
            order of the limbs. A modulus below 2^30 has one limb. A wide one has two, its low and
            its high 32 bits.

    A ring of NTT primes, which are q_i = 1 (mod 2n) below 2^30, multiplies by transforms modulo
    them. Any other ring is general: its elements stay in the coefficient domain. Products take the
    exact integer product, modulo NTT primes that the compiler chooses, and reduce it. `is_general`
    tells the two kinds apart.

    Raises:
        RingError: names the parameter, the rule that it breaks and the nearest valid value.

    Example:
        >>> RingSpec(n=8, moduli=(17, 97)).q
        1649
        >>> RingSpec(n=256, moduli=3329)
        RingSpec(n=256, moduli=(3329,), products through 2 exact primes)
    """

    n: int = attrs.field(converter=lambda n: _as_degree(n))
    moduli: tuple[int, ...] = attrs.field(converter=lambda m: _as_moduli(m))
    is_general: bool = attrs.field(init=False, repr=False, eq=False)
    """True unless each modulus is an NTT prime: then there is no NTT domain."""
    limbs: int = attrs.field(init=False, repr=False, eq=False)
    """Number of limbs: one for each modulus below 2^30, two for a wide one."""
    _hash: int = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        _check_degree(self.n)
        is_general = _check_moduli(self.n, self.moduli)
        object.__setattr__(self, "is_general", is_general)
        object.__setattr__(self, "limbs", sum(map(width, self.moduli)))
        object.__setattr__(self, "_hash", hash((self.n, self.moduli)))

    def __repr__(self) -> str:
        way = f", {self.products}" if self.is_general else ""
        return f"RingSpec(n={self.n}, moduli={self.moduli}{way})"

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, RingSpec):
            return NotImplemented
        return self._hash == other._hash and self.n == other.n and self.moduli == other.moduli

    @staticmethod
    def primes(n: int, bits: int, count: int = 1) -> tuple[int, ...]:
        """The largest NTT primes of so many bits: q = 1 (mod 2n), 2^(bits - 1) < q < 2^bits.

        Args:
            n: the degree of the ring.
            bits: 2 to 30.
            count: how many.

        Raises:
            RingError: there are fewer, or an argument out of range.

        Example:
            >>> RingSpec.primes(8192, bits=30, count=2)
            (1073692673, 1073643521)
        """
        n = _as_degree(n)
        _check_degree(n)
        for name, value, most in (("bits", bits, 30), ("count", count, math.inf)):
            least = 2 if name == "bits" else 1
            if not hasattr(value, "__index__") or not least <= operator.index(value) <= most:
                raise RingError(
                    f"RingSpec.primes() got {name}={shown(value)}.",
                    f"It is an integer from {least} on{', up to 30' if name == 'bits' else ''}.",
                    "Write for example RingSpec.primes(8192, bits=30, count=2).",
                )
        below = itertools.takewhile(lambda q: q >> (bits - 1), ntt_primes_below(n, 1 << bits))
        found = tuple(itertools.islice(below, count))
        if len(found) < count:
            raise RingError(
                f"RingSpec.primes() was asked for {count} primes of {bits} bits at n={n}.",
                f"There are {len(found)} primes q = 1 (mod {2 * n}) of that size.",
                "Ask for fewer, for more bits, or for a smaller degree.",
            )
        return found

    @property
    def root(self) -> int:
        """The primitive 2n-th root of unity psi mod q, at whose odd powers values are.

        Modulo each prime it is x^((q_i - 1) / 2n) for the least x >= 2 that has order 2n there. See
        `Poly.values`.

        Raises:
            RingError: a modulus that is not an NTT prime.
        """
        if self.is_general:
            raise RingError(
                f"The values of polynomials over {self!r:.60} were asked for.",
                f"They are at 2n-th roots of unity, which primes q = 1 (mod {2 * self.n}) have.",
                f"Take such primes: RingSpec({self.n}, RingSpec.primes({self.n}, bits=30)).",
            )
        return crt([primitive_root_of_unity(self.n, q) for q in self.moduli], self.moduli)

    @property
    def q(self) -> int:
        """The modulus of the ring: the product of the limb moduli."""
        return _product(self.moduli)

    @property
    def has_wide(self) -> bool:
        """True when a modulus is 2^30 or more, which takes two limbs."""
        return self.limbs != len(self.moduli)

    @property
    def products(self) -> str:
        """Text that says through how many NTT primes products go."""
        if not self.is_general:
            return "products through transforms of the limbs"
        others = [m for m in self.moduli if not is_ntt_prime(self.n, m)]
        counts = sorted({len(exact_basis(self.n, m)) for m in others})
        primes = " or ".join(map(str, counts))
        each = " for each modulus" if len(self.moduli) > 1 else ""
        if len(others) < len(self.moduli):
            each = f" for {len(others)} of the moduli"
        return f"products through {primes} exact prime{'s' * (counts[-1] > 1)}{each}"

    @property
    def dtype(self) -> str:
        """Element type of the limbs: "uint32"."""
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
            html.facts(
                [("n", str(self.n)), ("q", self._size_in_words), ("products", self.products[9:])]
                if self.is_general
                else [("n", str(self.n)), ("q", self._size_in_words)]
            ),
            html.table([("limb", "modulus", "log2"), *bits], left=()),
        )

    def with_moduli(self, moduli: Iterable[int]) -> RingSpec:
        """The ring of the same degree over other moduli."""
        if isinstance(moduli, tuple) and all([type(m) is int for m in moduli]):
            return _ring(self.n, moduli)  # 17.0 has the key of 17 there
        return RingSpec(self.n, moduli)


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


def start_in(part: Sequence[int], whole: Sequence[int]) -> int | None:
    """The place in `whole` from which on the moduli `part` stand side by side; None for none."""
    start = whole.index(part[0]) if part[0] in whole else 0
    return start if tuple(whole[start : start + len(part)]) == tuple(part) else None


def is_subset(a: Sequence[int], b: Sequence[int]) -> bool:
    """True when every modulus of `a` is one of `b`."""
    return set(a) <= set(b)


def width(modulus: int) -> int:
    """Number of limbs of a modulus: 1 below 2^30, else 2."""
    return 1 if modulus < MODULUS_BOUND else 2


def limbs_by_modulus(moduli: Sequence[int]) -> dict[int, range]:
    """The positions of the limbs of each modulus."""
    ends = itertools.accumulate(map(width, moduli))
    return {m: range(end - width(m), end) for m, end in zip(moduli, ends, strict=True)}


def limb_positions(part: Sequence[int], whole: Sequence[int]) -> tuple[int, ...]:
    """Position in `whole` of each limb of `part`."""
    position = limbs_by_modulus(whole)
    return tuple(i for m in part for i in position[m])


def contiguous_run(part: Sequence[int], whole: Sequence[int]) -> tuple[int, int] | None:
    """(start, length) of the limbs of `part` in `whole` when they are one run, else None."""
    at = whole.index(part[0])
    if tuple(whole[at : at + len(part)]) != tuple(part):
        return None
    return sum(map(width, whole[:at])), sum(map(width, part))


def _as_moduli(moduli: Any) -> tuple[int, ...]:
    if hasattr(moduli, "__index__") and not hasattr(moduli, "__iter__"):
        return (operator.index(moduli),)
    if not isinstance(moduli, Iterable) or isinstance(moduli, Set):
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
        f"RingSpec got {name}={shown(value)}.",
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
        f"RingSpec got n={shown(n)}.",
        _DEGREES,
        f"The nearest valid degree is {' or '.join(map(str, nearest))}.",
    )


def _check_moduli(n: int, moduli: tuple[int, ...]) -> bool:
    """Raises RingError, or says whether the ring is a general one."""
    if not moduli:
        raise RingError(
            "RingSpec got no moduli.",
            "At least one odd prime or prime power below 2^61 is needed.",
            f"The smallest prime q = 1 (mod {2 * n}), for which products are fastest, is "
            f"{next(ntt_primes_from(n, 2, MODULUS_BOUND))}.",
        )
    if len(set(moduli)) != len(moduli):
        twice = sorted({m for m in moduli if moduli.count(m) > 1})
        raise RingError(
            f"RingSpec got the modulus {twice[0]} more than once.",
            "The moduli of a ring are distinct, so that the Chinese remainder theorem holds.",
            f"Replace one by another prime q = 1 (mod {2 * n}), for example "
            f"{_nearest_primes(n, twice[0], exclude=moduli)}.",
        )
    if all([is_ntt_prime(n, m) for m in moduli]):
        return False
    product = 1
    for m in moduli:
        if not 2 < m < WIDE_BOUND or m % 2 == 0 or not is_prime_power(m):
            raise RingError(
                f"RingSpec got the modulus {shown(m)} for n={n}.",
                f"Each modulus is an odd prime or prime power below 2^61; {_fault(m)}.",
                f"{_split(moduli, m)}The nearest valid primes q = 1 (mod {2 * n}), for which "
                f"products are fastest, are {_nearest_primes(n, m)}.",
            )
        if math.gcd(product, m) > 1:
            other = next(o for o in moduli if math.gcd(o, m) > 1)
            raise RingError(
                f"RingSpec got the moduli {other} and {m}, powers of one prime.",
                "The moduli of a ring have no common factor (Chinese remainder theorem).",
                f"Keep the one of them that is meant: {other} or {m}.",
            )
        product *= m
    return True


@lru_cache(maxsize=1 << 12)
def exact_basis(n: int, modulus: int) -> tuple[int, ...]:
    """The NTT primes through which a product modulo `modulus` is exact: the largest below 2^30.

    Their product is over twice the absolute value of each coefficient of a product of integers
    (`product_bound`).
    """
    return _basis_over(n, 2 * product_bound(n, modulus))


def product_bound(n: int, modulus: int) -> int:
    """The bound of the coefficients of a product, of factors in (-m/2, m/2)."""
    return n * (modulus // 2) ** 2


@lru_cache(maxsize=1 << 12)
def _basis_over(n: int, bound: int) -> tuple[int, ...]:
    found, product = [], 1
    for p in ntt_primes_below(n, MODULUS_BOUND):
        found.append(p)
        product *= p
        if product > bound:
            break
    return tuple(found)


def basis_over(n: int, bound: int) -> RingSpec:
    """The ring of the largest NTT primes below 2^30 whose product exceeds `bound`."""
    return _ring(n, _basis_over(n, bound))


@lru_cache(maxsize=1 << 14)
def is_ntt_prime(n: int, modulus: int) -> bool:
    """True when `modulus` is a prime under 2^30 with 2n-th roots of unity."""
    return 2 < modulus < MODULUS_BOUND and modulus % (2 * n) == 1 and is_prime(modulus)


def _fault(m: int) -> str:
    if m < 3:
        return f"{shown(m)} is too small"
    if m >= WIDE_BOUND:
        return f"{shown(m)} is not below 2^61 = {WIDE_BOUND}"
    if m % 2 == 0:
        return f"{shown(m)} is even"
    return f"{shown(m)} is not prime"


def _split(moduli: tuple[int, ...], m: int) -> str:
    """The same ring by the factors of m, where these are valid."""
    if not 2 < m < WIDE_BOUND or m % 2 == 0:
        return ""
    powers = [math.prod(list(same)) for _, same in itertools.groupby(factors(m))]
    own = [p for o in moduli for p in (powers if o == m else [o])]
    return f"The same ring is moduli={tuple(own)}, by the Chinese remainder theorem. "


def _nearest_primes(n: int, m: int, exclude: Sequence[int] = ()) -> str:
    m = min(max(m, 2), MODULUS_BOUND)
    candidates = (ntt_primes_below(n, m), ntt_primes_from(n, m, MODULUS_BOUND))
    nearest = (next((p for p in primes if p not in exclude), None) for primes in candidates)
    return " and ".join(str(p) for p in nearest if p is not None)
