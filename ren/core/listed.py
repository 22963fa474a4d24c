"""Names of user objects that only Ren's own rooms use: `dir()` and the reference leave them out."""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from ren.core.attributes import unknown_attribute

KindT = TypeVar("KindT", bound=type)
_FIELDS = "__dataclass_fields__"


def undivided(kind: KindT) -> KindT:
    """Hide the fields of a dataclass: `dataclasses.asdict` of what holds an instance keeps it."""
    delattr(kind, _FIELDS)
    return kind


class Listed(ABCMeta):
    """Metaclass of classes with internal names, which each lists in `__internal__`.

    It is below that of abstract classes, so that a class of the user can have both as bases. Checks
    of instances are those of `type`, which are faster: no class can be registered as a subclass.

    `dir()` of the class and of its instances leaves these names out. So do tab completion, `help()`
    and the site's reference (`docs/docstrings.py`). The names stay attributes, and Ren's own rooms
    read them. A subclass leaves out what its bases do. Names of attrs fields may be among them.

    A name that the class lacks raises UnknownAttributeError. The class may say in a mapping
    `__instead__` what to write.

    Example:
        >>> class Box(metaclass=Listed):
        ...     __internal__ = ("seal",)
        ...     def open(self): ...
        ...     def seal(self): ...
        >>> [name for name in dir(Box()) if not name.startswith("_")]
        ['open']
    """

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> None:
        super().__init__(name, bases, body)
        cls.__dir__ = lambda self: cls._listed(object.__dir__(self))  # type: ignore[method-assign]

    def __dir__(cls) -> list[str]:
        return cls._listed(super().__dir__())

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            is_replaced = name == _FIELDS and sys._getframe(2).f_code.co_name == "replace"
            if is_replaced and hasattr(cls, "__dataclass_params__"):
                return {}  # `dataclasses.replace` goes on to the instance, which says why not
            if name.startswith("_"):  # a protocol that Python or a library probes for
                raise AttributeError(name, name=name, obj=cls)
            instead = vars(cls).get("__instead__", {})
            raise unknown_attribute(f"the class {cls.__name__}", name, dir(cls), instead)

    def _listed(cls, names: Iterable[str]) -> list[str]:
        internal = {name for c in cls.__mro__ for name in vars(c).get("__internal__", ())}
        return [name for name in names if name not in internal]
