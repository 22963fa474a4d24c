"""Polynomials inside structures: containers, pytrees, dataclasses and attrs classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import attrs
import jax

from ren.capture.fixed_keys import content_key
from ren.core.errors import JitError
from ren.poly import Poly
from ren.poly.key_ids import KeyId
from ren.poly.poly import realize_polys
from ren.poly.realization import with_capture
from ren.poly.symbolic import Aside, Length, Symbolic, key_of

Rebuild = Callable[[Iterator[Poly], Iterator[Any]], Any]

_PLAIN = frozenset({
    int, float, bool, complex, str, bytes, type(None), Length, Aside, KeyId,
})  # fmt: skip


@attrs.frozen(eq=False)
class Structure:
    """A value taken apart.

    Attributes:
        polys: the polynomials inside, in order.
        key: what is left: containers, field names and static data; equal for equal structures.
        others: the leaves that are not polynomials, in order.
        rebuild: makes the value anew around iterators of as many polynomials and others.
    """

    polys: list[Poly]
    key: Hashable
    others: list[Any]
    rebuild: Rebuild


def take_apart(value: Any) -> Structure:
    """The polynomials of `value` and what surrounds them; nothing is realized."""
    polys: list[Poly] = []
    others: list[Any] = []
    key = collect(value, polys, others)
    return Structure(polys, key, others, rebuilder(value))


def collect(value: Any, polys: list[Poly], others: list[Any]) -> Hashable:
    """Appends the polynomials and the other leaves of `value` in order; returns its key."""
    kind = type(value)
    if kind is Poly:
        polys.append(value)
        return Poly
    if kind in _PLAIN:
        others.append(value)
        return None
    if kind is tuple or kind is list:
        return (kind, *_keys(value, polys, others))
    if kind is dict:
        names = (*value, *map(type, value)) if value else ()
        return (dict, *names, *_keys(value.values(), polys, others))
    if hasattr(kind, "__ren_parts__"):
        parts, static = value.__ren_parts__()
    elif (node := _opened(value)) is not None:
        parts, static, _ = node
    else:
        others.append(value)
        return None
    return (kind, static, *_keys(parts, polys, others))


def _keys(values: Iterable[Any], polys: list[Poly], others: list[Any]) -> list[Hashable]:
    """`collect` of each; at each replay, so that leaves take no call."""
    keys: list[Hashable] = []
    for value in values:
        kind = type(value)
        if kind is Poly:
            polys.append(value)
            keys.append(Poly)
        elif kind in _PLAIN:
            others.append(value)
            keys.append(None)
        else:
            keys.append(collect(value, polys, others))
    return keys


def rebuilder(
    value: Any, polys: list[Poly] | None = None, others: list[Any] | None = None
) -> Rebuild:
    """Function that rebuilds `value` around other polynomials and leaves, in `collect`'s order.

    Those of `value` itself are appended to `polys` and `others`, where these are given.
    """
    kind = type(value)
    if kind is Poly:
        if polys is not None:
            polys.append(value)
        return _next_poly
    if kind is tuple or kind is list:
        return _joined(value, kind, polys, others)
    if kind is dict:
        names = tuple(value)
        made = lambda v: dict(zip(names, v))  # noqa: B905, E731
        return _joined(value.values(), made, polys, others)
    node = None if kind in _PLAIN else _opened(value)
    if node is None:
        if others is not None:
            others.append(value)
        return _next_other
    parts, _, join = node
    return _joined(parts, join, polys, others)


def _next_poly(polys: Iterator[Poly], _others: Iterator[Any]) -> Poly:
    return next(polys)


def _next_other(_polys: Iterator[Poly], others: Iterator[Any]) -> Any:
    return next(others)


def _joined(
    values: Iterable[Any],
    join: Callable[[list[Any]], Any],
    polys: list[Poly] | None,
    others: list[Any] | None,
) -> Rebuild:
    parts = [rebuilder(v, polys, others) for v in values]
    if all([part is _next_poly or part is _next_other for part in parts]):  # as a rule
        are_polys = [part is _next_poly for part in parts]
        return lambda polys, others: join(
            [next(polys if is_poly else others) for is_poly in are_polys]
        )
    return lambda polys, others: join([part(polys, others) for part in parts])


Opened = tuple[Sequence[Any], Hashable, Callable[[list[Any]], Any]]


def _opened(value: Any) -> Opened | None:
    """The parts of a value, what is static of it, and how to join it again; None for a leaf.

    A class of a scheme may define the parts itself, as far as programs depend on it.
    `__ren_parts__()` gives parts and static data, the class method `__ren_whole__(parts, static)`
    the object. `__ren_realized__(run)`, if there is one, is the object with its polynomials run.
    """
    kind = type(value)
    if hasattr(kind, "__ren_parts__"):
        parts, static = value.__ren_parts__()
        return parts, static, lambda parts: kind.__ren_whole__(parts, static)
    if isinstance(value, Poly | Symbolic):
        return None
    if isinstance(value, Iterator):
        raise JitError(
            f"A function under ren.jit was given or returned a {kind.__name__}.",
            "What is taken from it is gone, so that a plan could not be replayed.",
            "Pass or return a list: list(...).",
        )
    with with_capture(is_collecting=True):
        leaves, treedef = jax.tree.flatten(value, is_leaf=lambda v: v is not value)
    if not (len(leaves) == 1 and leaves[0] is value):
        _, data = treedef.node_data() or (None, None)
        return leaves, content_key(data), partial(jax.tree.unflatten, treedef)
    return _opened_fields(value)


def _opened_fields(value: Any) -> Opened | None:
    """A dataclass or attrs instance that JAX does not take apart, if it holds what a plan reads."""
    names = _field_names(type(value))
    if names is None:
        return None
    parts = [getattr(value, name) for name in names]
    polys: list[Poly] = []
    others: list[Any] = []
    collect(parts, polys, others)
    if not polys and not any(map(_is_input, others)):
        return None

    def join(parts: list[Any]) -> Any:
        copy = object.__new__(type(value))
        for name, part in zip(names, parts, strict=True):
            object.__setattr__(copy, name, part)
        return copy

    return parts, names, join


def _is_input(leaf: Any) -> bool:
    """True for arrays and what is symbolic; numbers alone make no input."""
    return isinstance(leaf, Symbolic) or (hasattr(leaf, "shape") and key_of(leaf) is not None)


@lru_cache(maxsize=1 << 10)
def _field_names(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass or an attrs class."""
    if dataclasses.is_dataclass(kind):
        return tuple(f.name for f in dataclasses.fields(kind))
    return tuple(f.name for f in attrs.fields(kind)) if attrs.has(kind) else None


def realize(*values: Any) -> Any:
    """Runs every lazy polynomial inside `values`, all as one program.

    Args:
        values: polynomials, ciphertexts, or any structure of them.

    Returns:
        The realized value, or a tuple of them when several were given. The polynomials passed in
        are realized too, unless a JAX trace is active.
    """
    if len(values) == 1 and hasattr(kind := type(values[0]), "__ren_parts__"):  # as a rule
        if hasattr(kind, "__ren_realized__"):
            return values[0].__ren_realized__(realize_polys)
        parts, static = values[0].__ren_parts__()
        if all([type(part) is Poly or type(part) in _PLAIN for part in parts]):
            computed = iter(realize_polys([part for part in parts if type(part) is Poly]))
            made = [next(computed) if type(part) is Poly else part for part in parts]
            return kind.__ren_whole__(made, static)
    polys: list[Poly] = []
    others: list[Any] = []
    rebuild = rebuilder(values, polys, others)
    done = rebuild(iter(realize_polys(polys)), iter(others))
    return done[0] if len(values) == 1 else done
