"""Surroundings of an operation in a thread or task: a circuit, a plan that is made, a debugger."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import attrs

from ren.core.context_values import Changed


@attrs.define
class Circuit:
    """A function of many operations that runs.

    Attributes:
        cleared: the ciphertexts that it has cleared of leftovers.
        is_reported: whether a step of it reports a bound: the circuit does not do so again.
    """

    cleared: list[Any] = attrs.field(factory=list)
    is_reported: bool = False


@attrs.frozen(slots=False)
class Around:
    """Surroundings of an operation.

    Attributes:
        circuit: the one that it is a part of, if any.
        is_of_user: numbers in the clear are operands of the user there, and not public.
        is_asked: a bootstrap that runs was asked for, and not inserted.
        bits: for a plan, the integer bits that each operation needs.
        bootstraps: likewise, those that run: whether of complex numbers, and how many runs.
        watcher: observes operations: a name, the same function of slots, operands, result.
    """

    circuit: Circuit | None = None
    is_of_user: bool = False
    is_asked: bool = True
    bits: list[float] | None = None
    bootstraps: list[tuple[bool, int]] | None = None
    watcher: Callable[[str, Callable[..., Any], tuple[Any, ...], Any], None] | None = None


_around = ContextVar("ren_ckks_around", default=Around())  # noqa: B039 - it is frozen


def around() -> Around:
    """The surroundings of an operation here."""
    return _around.get()


def with_around(**fields: Any) -> Changed[Around]:
    """Change fields of `around` for what runs inside."""
    return Changed(_around, **fields)
