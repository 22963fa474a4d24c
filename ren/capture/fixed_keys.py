"""Keys of values that are part of a plan: different wherever two need programs of their own."""

from __future__ import annotations

import dataclasses
import hashlib
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache, partial
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import attrs
import jax
import numpy as np

from ren.core.errors import JitError
from ren.poly import Poly
from ren.poly.symbolic import Symbolic

_ATOMS = frozenset({int, bool, str, bytes, type(None)})
_LIBRARIES = ("ren.", "jax.", "jaxlib.", "numpy.random.")  # whose objects do not change, or draw
_VIEWS: dict[type, Callable[[Any], Any]] = {
    MappingProxyType: dict,
    type({}.keys()): list,
    type({}.values()): list,
    type({}.items()): list,
    memoryview: bytes,
}
_DEFAULT = (object.__reduce__, object.__reduce_ex__)


def fixed_key(value: Any) -> Hashable:
    """Key of a fixed value among the arguments, which is hashable: see `content_key`.

    Raises:
        JitError: it is not hashable.
    """
    if type(value) in _ATOMS:
        return (type(value), value)
    if isinstance(value, jax.Array):
        return content_key(np.asarray(value))
    if isinstance(value, tuple | frozenset):
        parts = map(fixed_key, value)
        return (type(value), frozenset(parts) if isinstance(value, frozenset) else tuple(parts))
    if isinstance(value, slice):
        return (slice, *map(fixed_key, (value.start, value.stop, value.step)))
    try:
        hash(None if isinstance(value, np.ndarray) else value)
    except TypeError:
        raise JitError(
            f"A function under ren.jit got an argument of type {type(value).__name__}.",
            "Arguments that hold no polynomial are part of a plan's key and must be hashable.",
            _remedy(type(value)),
        ) from None
    return content_key(value)


def content_key(value: Any, seen: dict[int, tuple[int, Any]] | None = None) -> Hashable:
    """Key of all that a value holds now, as it may change in place.

    Containers and arrays count by their contents, objects by their attributes, and functions by
    what they are bound to. An object that compares by identity counts as itself too. Polynomials
    and arrays of JAX, which never change, count as themselves. Python's `==` is too coarse:
    1 equals 1.0 and True, also in fields.

    Args:
        seen: what a walk met before, by its id, in the order in which that came.
    """
    kind = type(value)
    if kind in _ATOMS:
        return (kind, value)
    if kind is float or kind is complex:
        return (kind, repr(value))  # 0.0 is not -0.0, and NaN is NaN
    if isinstance(value, np.generic):
        return (kind, value.dtype.str, value.tobytes())
    if kind is np.ndarray and not value.dtype.hasobject:
        array = np.ascontiguousarray(value)
        return (value.shape, str(array.dtype), hashlib.sha256(array.tobytes()).digest())
    seen = {} if seen is None else seen
    if id(value) in seen:
        return (Same, seen[id(value)][0])
    seen[id(value)] = len(seen), value
    if kind is set or kind is frozenset:
        return (kind, frozenset([content_key(part, seen) for part in value]))
    head, parts = _taken_apart(kind, value)
    return (kind, head, *[content_key(part, seen) for part in parts])


def _taken_apart(kind: type, value: Any) -> tuple[Any, Iterable[Any]]:
    """The key of a value by itself, and the parts that it holds."""
    if kind is tuple or kind is list:
        return None, value
    if kind is dict:
        return None, (*value, *value.values())
    if kind in _VIEWS:
        return None, (_VIEWS[kind](value),)
    if isinstance(value, FunctionType | MethodType | partial):
        return Same(value) if isinstance(value, FunctionType) else None, held_by(value)
    if is_polynomial(kind) or isinstance(value, jax.Array | Symbolic | type | ModuleType):
        return Same(value), ()
    by_identity = kind.__hash__ in (None, object.__hash__)
    if f"{kind.__module__}.".startswith(_LIBRARIES):
        inside = getattr(value, "__wrapped__", None)
        return Same(value) if by_identity else value, () if inside is None else (inside,)
    if names := _fields(kind):  # those too that do not count for `==`
        held = getattr(value, "__dict__", None)
        return None, [getattr(value, name) for name in names] if held is None else (held,)
    head = Same(value) if kind.__eq__ is object.__eq__ else None
    if (kind.__reduce__, kind.__reduce_ex__) == _DEFAULT:
        items = value.items() if isinstance(value, dict) else value
        items = list(items) if isinstance(value, dict | list | tuple | set | frozenset) else None
        return head, (object.__getstate__(value), items)
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # it cannot be copied: its own equality is all that there is
        return Same(value) if by_identity else value, ()
    if isinstance(reduced, str):
        return head, (reduced,)
    return head, [list(part) if isinstance(part, Iterator) else part for part in reduced]


def is_object_key(key: Any) -> bool:
    """True for the key of an object that counts as itself, by `key[:2]`, and by what it holds."""
    return isinstance(key, tuple) and len(key) > 2 and isinstance(key[1], Same)


def held_by(function: Any) -> Iterator[Any]:
    """Values that a function is bound to now: `self`, arguments, defaults, closure.

    Polynomials, ciphertexts and contexts in cells are left out: a plan keeps those of its capture.
    """
    if isinstance(function, MethodType):
        yield function.__self__
        yield from held_by(function.__func__)
    elif isinstance(function, partial):
        yield from held_by(function.func)
        yield from (function.args, function.keywords)
    elif isinstance(function, FunctionType):
        yield from (function.__defaults__, function.__kwdefaults__, vars(function) or None)
        for cell in function.__closure__ or ():
            try:
                contents = cell.cell_contents
            except ValueError:  # nothing is in it yet
                contents = None
            yield None if is_polynomial(type(contents)) else contents
    else:
        yield function


def is_polynomial(kind: type) -> bool:
    """True for the class of polynomials and those of what is made of them, as ciphertexts are."""
    return kind is Poly or hasattr(kind, "__ren_parts__")


class Same:
    """Key of an object that equals itself alone; the object may go, and another take its place."""

    __slots__ = ("_hash", "_reference")

    def __init__(self, value: Any) -> None:
        self._hash = id(value)
        try:
            self._reference: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self._reference = lambda: value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same) or self._hash != other._hash:
            return False
        if self._reference is other._reference:  # an object has one weak reference, also when gone
            return True
        value = self._reference()
        return value is not None and value is other._reference()

    def __hash__(self) -> int:
        return self._hash


def _remedy(kind: type) -> str:
    """Code to write in place of a value of a class without a hash."""
    if hasattr(kind, "to_numpy"):  # a table of pandas, or a column of one
        return "Pass the array of its numbers: frame.to_numpy()."
    if hasattr(kind, "toarray"):  # a sparse matrix
        return "Pass the array of its numbers: matrix.toarray()."
    if kind in (list, bytearray):
        return f"Pass a tuple, tuple(values), in place of the {kind.__name__}."
    return "Pass a tuple or a frozen dataclass, or close over the value."


@lru_cache(maxsize=1 << 10)
def _fields(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass or an attrs class whose instances are equal by them."""
    if kind.__eq__ is object.__eq__:
        return ()
    if dataclasses.is_dataclass(kind):
        return tuple(f.name for f in dataclasses.fields(kind))
    return tuple(f.name for f in attrs.fields(kind)) if attrs.has(kind) else ()
