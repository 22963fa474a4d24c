"""Polynomials inside structures: containers, pytrees, dataclasses and attrs classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import attrs
import jax

from ren.capturing import collecting
from ren.poly import Poly, realize_polys

Rebuild = Callable[[Iterator[Poly]], Any]


@attrs.frozen(eq=False)
class Structure:
    """A value taken apart.

    Attributes:
        polys: the polynomials inside, in order.
        key: what is left: containers, field names and static data; equal for equal structures.
        others: the leaves that are not polynomials, in order.
        rebuild: makes the value anew around an iterator of as many polynomials.
    """

    polys: list[Poly]
    key: Hashable
    others: list[Any]
    rebuild: Rebuild


def take_apart(value: Any) -> Structure:
    """The polynomials of `value` and what surrounds them; nothing is realized."""
    polys: list[Poly] = []
    others: list[Any] = []
    with collecting():
        key, rebuild = _take_apart(value, polys, others)
    return Structure(polys, key, others, rebuild)


def _take_apart(value: Any, polys: list[Poly], others: list[Any]) -> tuple[Hashable, Rebuild]:
    leaves, treedef = jax.tree.flatten(value, is_leaf=_is_poly)
    parts = [_leaf(leaf, polys, others) for leaf in leaves]
    keys = tuple(key for key, _ in parts)

    def rebuild(supply: Iterator[Poly]) -> Any:
        return jax.tree.unflatten(treedef, [make(supply) for _, make in parts])

    return (treedef, keys), rebuild


def _is_poly(value: Any) -> bool:
    return isinstance(value, Poly)


def _leaf(leaf: Any, polys: list[Poly], others: list[Any]) -> tuple[Hashable, Rebuild]:
    if isinstance(leaf, Poly):
        polys.append(leaf)
        return "poly", next
    names = _field_names(leaf)
    if names is None:
        others.append(leaf)
        return "other", lambda supply: leaf
    fields = {name: getattr(leaf, name) for name in names}
    inner_polys: list[Poly] = []
    inner_others: list[Any] = []
    key, rebuild = _take_apart(fields, inner_polys, inner_others)
    if not inner_polys:
        others.append(leaf)
        return "other", lambda supply: leaf
    polys += inner_polys
    others += inner_others

    def remake(supply: Iterator[Poly]) -> Any:
        copy = object.__new__(type(leaf))
        for name, part in rebuild(supply).items():
            object.__setattr__(copy, name, part)
        return copy

    return (type(leaf), key), remake


def _field_names(value: Any) -> list[str] | None:
    """The fields of a dataclass or attrs instance that JAX does not take apart by itself."""
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return [f.name for f in dataclasses.fields(value)]
    if attrs.has(type(value)):
        return [f.name for f in attrs.fields(type(value))]
    return None


def realize(*values: Any) -> Any:
    """Runs every lazy polynomial inside `values`, all as one program.

    Args:
        values: polynomials, ciphertexts, or any structure of them.

    Returns:
        The realized value, or a tuple of them when several were given. The polynomials passed in
        are realized too, unless a JAX trace is active.
    """
    apart = take_apart(values)
    done = apart.rebuild(iter(realize_polys(apart.polys)))
    return done[0] if len(values) == 1 else done
