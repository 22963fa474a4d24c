"""Keys of values that are part of a plan: different wherever two need programs of their own."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Hashable
from decimal import Decimal
from functools import lru_cache
from typing import Any

import attrs
import jax
import numpy as np

from ren.core.errors import JitError


def fixed_key(value: Any) -> Hashable:
    """Key of a fixed value. Python's `==` is too coarse: 1 equals 1.0 and True, also in fields.

    Raises:
        JitError: it is not hashable.
    """
    if isinstance(value, np.ndarray | jax.Array):
        array = np.ascontiguousarray(value)
        return (array.shape, str(array.dtype), hashlib.sha256(array.tobytes()).digest())
    if isinstance(value, np.generic):
        return (type(value), value.dtype.str, value.tobytes())
    if isinstance(value, float | complex | Decimal):
        return (type(value), repr(value))  # 0.0 is not -0.0, and NaN is NaN
    if isinstance(value, tuple | frozenset):
        parts = map(fixed_key, value)
        return (type(value), frozenset(parts) if isinstance(value, frozenset) else tuple(parts))
    if isinstance(value, slice):
        return (slice, *map(fixed_key, (value.start, value.stop, value.step)))
    try:
        hash(value)
    except TypeError:
        raise JitError(
            f"A function under ren.jit got an argument of type {type(value).__name__}.",
            "Arguments that hold no polynomial are part of a plan's key and must be hashable.",
            _remedy(type(value)),
        ) from None
    names = _compared_fields(type(value))
    return (type(value), value, *[fixed_key(getattr(value, name)) for name in names])


def _remedy(kind: type) -> str:
    """Code to write in place of a value of a class without a hash."""
    if hasattr(kind, "to_numpy"):  # a table of pandas, or a column of one
        return "Pass the array of its numbers: frame.to_numpy()."
    if hasattr(kind, "toarray"):  # a sparse matrix
        return "Pass the array of its numbers: matrix.toarray()."
    if kind in (list, bytearray):
        return f"Pass a tuple, tuple(values), in place of the {kind.__name__}."
    return "Pass a tuple or a frozen dataclass, or close over the value."


def static_key(static: Any) -> Hashable:
    """Key of the static data of a pytree, beside its structure, which compares by `==`."""
    if static is None or isinstance(static, type):
        return None
    try:
        return fixed_key(static)
    except JitError:  # its own equality is all that there is
        return None


@lru_cache(maxsize=1 << 10)
def _compared_fields(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass or an attrs class that tell whether two instances are equal."""
    if kind.__eq__ is object.__eq__:
        return ()
    if dataclasses.is_dataclass(kind):
        return tuple(f.name for f in dataclasses.fields(kind) if f.compare)
    return tuple(f.name for f in attrs.fields(kind) if f.eq) if attrs.has(kind) else ()
