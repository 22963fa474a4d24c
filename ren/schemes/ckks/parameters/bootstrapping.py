"""What bootstrapping adds to parameters: levels above the user's, gadgets, the sparse secret.

    user's levels        level f ----> 0: SlotToCoeff, one level for each of its matrices.
                         The ciphertext goes to the sparse secret and is raised to all moduli.
    levels above         CoeffToSlot, then the sine: down to the user's highest level.

Keys for levels up to f, and for the raised ciphertext, have gadgets of their own: see `gadget_of`
in `ckks.bootstrapping.keys`.

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
from ren.schemes.ckks.parameters.sine import DEGREE, Sine, failure_log2
from ren.schemes.rlwe import security as bounds

WEIGHT = 32  # of the sparse secret
_FIELDS = ("levels", "digits")
_MOST_FLOOR = 4


def _levels(rows: Any) -> Any:
    return checks.as_tuples(rows)


@attrs.frozen(cache_hash=True)
class Bootstrapping:
    """The part of parameters that bootstrapping needs; see `ckks.context(bootstrapping=True)`.

    Args:
        floor: the level that a bootstrap takes; SlotToCoeff uses that many levels.
        levels: the moduli that each level above the user's adds, lowest first: those of the sine,
            then those of CoeffToSlot.
        digits: of keys over all moduli: contiguous parts of union and levels.
        overflow: K of the `Sine`.
        ratio_bits: r of the `Sine`.
        first_bits: log2 of the scale at which CoeffToSlot ends.
        precision: the bits that were asked for.
        bound: of the real and of the imaginary part of the messages.
    """

    floor: int = attrs.field(converter=checks.as_python_int)
    levels: tuple[tuple[int, ...], ...] = attrs.field(converter=_levels)
    digits: tuple[tuple[int, ...], ...] = attrs.field(converter=_levels)
    overflow: int = attrs.field(converter=checks.as_python_int)
    ratio_bits: int = attrs.field(converter=checks.as_python_int)
    first_bits: float = attrs.field(converter=checks.as_real)
    precision: float = attrs.field(converter=checks.as_real)
    bound: float = attrs.field(converter=checks.as_real, default=1.0)

    @cached_property
    def sine(self) -> Sine:
        """The sine that it evaluates."""
        return Sine(self.overflow, self.ratio_bits)

    @property
    def sine_levels(self) -> int:
        """Levels of the sine."""
        return self.sine.depth

    @property
    def moduli(self) -> tuple[int, ...]:
        """All moduli above the user's."""
        return tuple(q for level in self.levels for q in level)

    @property
    def weight(self) -> int:
        """Nonzero coefficients of the sparse secret."""
        return WEIGHT

    def failure_log2(self, n: int) -> float:
        """log2 of the probability that a bootstrap destroys its ciphertext."""
        return failure_log2(self.weight, self.overflow, self.ratio_bits, n)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON holds them."""
        return {f.name: checks.as_lists(getattr(self, f.name)) for f in attrs.fields(Bootstrapping)}

    @classmethod
    def from_dict(cls, fields: Any) -> Bootstrapping:
        """What `to_dict` wrote.

        Raises:
            ParameterError: fields that are missing or unknown.
        """
        names = {f.name for f in attrs.fields(cls)}
        if not isinstance(fields, Mapping) or set(fields) != names:
            raise ParameterError(
                f"The bootstrapping of parameters is {fields!r:.80}.",
                f"Its fields are {', '.join(sorted(names))}.",
                "Pass what Parameters.to_dict() gave.",
            )
        return cls(**fields)


def as_bootstrapping(value: Any) -> Any:
    """A `Bootstrapping` from its fields; other values as they are."""
    return Bootstrapping.from_dict(value) if isinstance(value, Mapping) else value


def check_bootstrapping(
    given: Any,
    n: int,
    slots: int,
    lowest: RingSpec,
    union: tuple[int, ...],
    specials: tuple[int, ...],
    depth: int,
    security: int | None,
) -> None:
    """Raise ParameterError unless the values fit together and to the rest of the parameters."""
    if given is None:
        return
    if not isinstance(given, Bootstrapping):
        raise _refused(f"it is a {type(given).__name__}", "Use ckks.context(bootstrapping=True).")
    made = "Make it with ckks.context(bootstrapping=True)."
    if slots != n // 2:
        raise ParameterError(
            f"Parameters for bootstrapping got slots={slots}.",
            f"A bootstrap refreshes all n/2 = {n // 2} slots.",
            "Leave slots out.",
        )
    if not 1 <= given.floor <= min(depth - 1, _MOST_FLOOR):
        raise _refused(f"its floor is {given.floor} at depth {depth}", made)
    if not all(isinstance(level, tuple) and level for level in given.levels):
        raise _refused("a level adds no moduli", made)
    if len(given.levels) <= given.sine_levels:
        raise _refused(f"it has {len(given.levels)} levels above the user's", made)
    if not (1 <= given.overflow <= 64 and 2 <= given.ratio_bits <= 30):
        raise _refused(f"its sine is {given.sine}", made)
    if not 20 <= given.first_bits <= 80 or not 0 < given.bound <= 1 << 20:
        raise _refused("its scale or its bound is out of range", made)
    checks.check_primes(RingSpec(n, union + given.moduli + specials))
    checks.check_digits(given.digits, union + given.moduli, math.prod(specials))
    bounds.require_sparse_security(n, lowest.log2_q + math.log2(specials[0]), security)


def _refused(what: str, remedy: str) -> ParameterError:
    return ParameterError(
        f"The bootstrapping of these parameters cannot be: {what}.",
        f"The sine has degree {DEGREE} and its levels; StC uses those from the floor down.",
        remedy,
    )
