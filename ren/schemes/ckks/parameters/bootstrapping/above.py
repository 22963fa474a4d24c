"""The levels above the user's, as a field of parameters: moduli, digits, and the sine.

    user's levels        level f ----> 0: SlotToCoeff, one level for each of its matrices.
                         The ciphertext goes to the sparse secret and is raised to all moduli.
    levels above         CoeffToSlot, then the sine: down to the user's highest level.

Reference: Bossuat, Troncoso-Pastoriza and Hubaux, eprint 2022/024 (sparse-secret encapsulation).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import attrs

from ren.core.errors import ParameterError
from ren.core.ring import RingSpec
from ren.schemes.ckks.parameters import checks
from ren.schemes.ckks.parameters.bootstrapping.sine import Sine
from ren.schemes.rlwe import security as bounds

WEIGHT = 32  # nonzero coefficients of the sparse secret
MOST_OF_ONE = 20.0  # bits that are right after one run; for more a second run takes the error away
_MOST_FLOOR = 4
_REMEDY = "Make such parameters with ckks.context(bootstrapping=True)."


@attrs.frozen(cache_hash=True)
class Above:
    """The part of parameters that is for bootstrapping alone.

    Args:
        floor: the level that a bootstrap takes; SlotToCoeff uses that many levels.
        primes: the moduli that each level above the user's adds, lowest first: those of the sine,
            then those of CoeffToSlot.
        digits: of keys over all moduli: contiguous parts of union and primes.
        overflow: K of the `Sine`.
        ratio_bits: r of the `Sine`.
        first_bits: log2 of the scale at which CoeffToSlot ends.
        precision: the bits that were asked for.
        bound: of the real and of the imaginary part of the messages.
        is_automatic: whether an operation that lacks levels bootstraps its operands. It is a wish:
            the digest leaves it out.
    """

    floor: int = attrs.field(converter=checks.as_python_int)
    primes: tuple[tuple[int, ...], ...] = attrs.field(converter=checks.as_tuples)
    digits: tuple[tuple[int, ...], ...] = attrs.field(converter=checks.as_tuples)
    overflow: int = attrs.field(converter=checks.as_python_int)
    ratio_bits: int = attrs.field(converter=checks.as_python_int)
    first_bits: float = attrs.field(converter=checks.as_real)
    precision: float = attrs.field(converter=checks.as_real)
    bound: float = attrs.field(converter=checks.as_real)
    is_automatic: bool = False

    @cached_property
    def sine(self) -> Sine:
        """The sine that a bootstrap evaluates."""
        return Sine(self.overflow, self.ratio_bits)

    @property
    def runs(self) -> int:
        """Runs of the pipeline in a bootstrap."""
        return runs_for(self.precision)

    @property
    def moduli(self) -> tuple[int, ...]:
        """All moduli above the user's."""
        return tuple(q for level in self.primes for q in level)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON holds them."""
        return {f.name: checks.as_lists(getattr(self, f.name)) for f in attrs.fields(Above)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Above:
        """The levels that `to_dict` wrote.

        Raises:
            ParameterError: fields that are missing or unknown.
        """
        names = {f.name for f in attrs.fields(cls)}
        if set(fields) != names:
            raise ParameterError(
                f"The levels above of parameters are {fields!r:.80}.",
                f"Their fields are {', '.join(sorted(names))}.",
                "Pass what Parameters.to_dict() gave.",
            )
        return cls(**fields)


def is_sparse(p: Any) -> bool:
    """Whether messages fill less than all slots, so that they repeat in these."""
    return p.slots < p.n // 2


def runs_for(precision: float) -> int:
    """One run of the pipeline, or two: the second one bootstraps the error of the first."""
    return 1 if precision <= MOST_OF_ONE else 2


def as_above(value: Any) -> Any:
    """An `Above` from its fields; other values as they are."""
    return Above.from_dict(value) if isinstance(value, Mapping) else value


def check_above(p: Any) -> None:
    """Raise ParameterError unless the levels above fit to the other fields of parameters `p`."""
    above = p.above
    if above is None:
        return
    if not isinstance(above, Above):
        raise _refused(f"it is a {type(above).__name__}")
    is_listed = all(isinstance(level, tuple) and level for level in above.primes)
    if not is_listed or len(above.primes) <= above.sine.depth:
        raise _refused(f"they are {len(above.primes)} levels of primes")
    matrices = max(above.floor, len(above.primes) - above.sine.depth)
    if p.slots < 1 << matrices:
        raise ParameterError(
            f"Parameters for bootstrapping got slots={p.slots}.",
            f"A transform of so few slots is no product of {matrices} matrices.",
            f"Ask for the slots at once, at least 2: ckks.context(bootstrapping=True, "
            f"slots={max(p.slots, 2)}).",
        )
    most = p.depth - above.runs - is_sparse(p)
    if not 1 <= above.floor <= min(most, _MOST_FLOOR):
        raise _refused(f"the floor is {above.floor} at depth {p.depth}")
    if not (1 <= above.overflow <= 64 and 2 <= above.ratio_bits <= 30):
        raise _refused(f"the sine is {above.sine}")
    if not 20 <= above.first_bits <= 80 or not 0 < above.bound <= 1 << 20:
        raise _refused("a scale or the bound is out of range")
    checks.check_primes(RingSpec(p.n, (*p.union, *above.moduli, *p.specials)))
    checks.check_digits(above.digits, (*p.union, *above.moduli), p.special_product)
    bounds.require_sparse_security(p.n, p.ring(0).log2_q + math.log2(p.specials[0]), p.security)


def _refused(what: str) -> ParameterError:
    return ParameterError(
        f"The levels above of parameters cannot be: {what}.",
        "They hold what a bootstrap takes, from the floor to the levels of its sine.",
        _REMEDY,
    )
