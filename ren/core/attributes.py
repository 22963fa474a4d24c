"""Errors for attributes that an object, a class or a module lacks, and for their assignment."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, Self, TypeVar

from ren.core.errors import FrozenError, UnknownAttributeError, kind_of
from ren.core.user_frame import user_line

KindT = TypeVar("KindT", bound=type)
_NOTHING: Mapping[str, str] = {}


class Unchanging:
    """Base of classes whose instances never change: a copy is the object itself."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self


def unknown_attribute(
    owner: str, name: str, known: Iterable[str], instead: Mapping[str, str]
) -> UnknownAttributeError:
    """The error for a name that `owner` lacks: what to write, or the names that are close."""
    known = [k for k in known if not k.startswith("_")]
    close = difflib.get_close_matches(name, known, n=3)
    remedy = f"Perhaps you mean {' or '.join(map(repr, close))}."
    if name in instead:
        remedy = f"Write {instead[name]}."
    elif not close:
        remedy = f"It has {', '.join(known)}."
    return UnknownAttributeError(
        f"{user_line()} asks for the attribute {name!r} of {owner}.",
        "It has no attribute of that name.",
        remedy,
    )


def lacking(instead: Mapping[str, str] = _NOTHING) -> Callable[[Any, str], Any]:
    """The `__getattr__` of a class: a name that it lacks, and what to write instead.

    Names with a leading underscore are those of protocols, which Python and libraries probe for:
    they get Python's own error. So does a property that raises AttributeError itself.
    """

    def refuse(x: Any, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name, name=name, obj=x)
        if any(name in vars(kind) for kind in type(x).__mro__):
            return object.__getattribute__(x, name)  # raises once more
        raise unknown_attribute(kind_of(x), name, dir(x), instead)

    return refuse


def frozen(
    instead: Mapping[str, str] = _NOTHING, otherwise: str = "Make another one."
) -> Callable[..., NoReturn]:
    """The `__setattr__` and `__delattr__` of a class whose instances never change.

    Args:
        instead: what to write for an attribute.
        otherwise: what to write for any other.
    """

    def refuse(x: Any, name: str, *_: Any) -> NoReturn:
        raise FrozenError(
            f"{user_line()} assigns to, or deletes, the attribute {name!r} of {kind_of(x)}.",
            "It never changes, so that programs can share it.",
            instead.get(name, otherwise),
        )

    return refuse


def fix_properties(kind: type, instead: Mapping[str, str], otherwise: str) -> None:
    """Has assignments to the properties of a class refused as those of `frozen` are.

    Other attributes are set as quickly as before.
    """
    refuse = frozen(instead, otherwise)
    for name, found in list(vars(kind).items()):
        if isinstance(found, property) and found.fset is None and not name.startswith("_"):

            def refused(x: Any, *value: Any, name: str = name) -> NoReturn:
                refuse(x, name)

            setattr(kind, name, found.setter(refused).deleter(refused))


def closed(
    instead: Mapping[str, str] = _NOTHING, otherwise: str = "Make another one."
) -> Callable[[KindT], KindT]:
    """Decorate a class of attrs: its instances refuse names that they lack, and assignments.

    A class with cached properties has a `__getattr__` of attrs; `lacking` belongs into its body.

    Args:
        instead: what to write for a name that is asked for.
        otherwise: what to write for an assignment.
    """

    def decorate(kind: KindT) -> KindT:
        refuse = frozen(otherwise=otherwise)
        for name, method in (
            ("__getattr__", lacking(instead)), ("__setattr__", refuse), ("__delattr__", refuse),
        ):  # fmt: skip
            setattr(kind, name, method)
        return kind

    return decorate
