"""Context variables that have a value while something runs, or a record with other fields."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ContextValue(Generic[T]):
    """Context manager: inside, a context variable has a value, which `with` gives too."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[Any], value: T) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> T:
        self._token = self._variable.set(self._value)
        return self._value

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


class Changed(ContextValue[T]):
    """Context manager: inside, the record that a context variable has is one with other fields."""

    __slots__ = ()

    def __init__(self, variable: ContextVar[T], **fields: Any) -> None:
        held = variable.get()
        made = object.__new__(type(held))
        vars(made).update(vars(held), **fields)  # attrs.evolve, in a third of its time
        super().__init__(variable, made)
