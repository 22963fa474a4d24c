"""The call of a user that runs, and the rotations that it announces: for errors about keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import attrs


@attrs.frozen
class _Call:
    """A method or function as the user wrote it, and sources of the steps that it rotates by."""

    name: str
    steps: list[Callable[[], Iterable[int]]] = attrs.field(factory=list)


_call: ContextVar[_Call | None] = ContextVar("ren_call", default=None)


@contextmanager
def called(name: str) -> Iterator[None]:
    """Name what the user called; calls inside of it keep its name."""
    if _call.get() is not None:
        yield
        return
    token = _call.set(_Call(name))
    try:
        yield
    finally:
        _call.reset(token)


def announce(steps: Callable[[], Iterable[int]]) -> None:
    """State the steps that the call that runs will rotate by; they are asked for only in errors."""
    if (call := _call.get()) is not None:
        call.steps.append(steps)


def call_name(otherwise: str) -> str:
    """The name of the call that runs."""
    call = _call.get()
    return otherwise if call is None else call.name


def announced() -> set[int]:
    """All steps that the call that runs has announced."""
    call = _call.get()
    return set() if call is None else {k for steps in call.steps for k in steps()}
