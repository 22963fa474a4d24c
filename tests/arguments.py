"""Random structures of arguments: drawn, built anew from a seed, and taken apart.

A structure is drawn once and built for every call: of equal structure, with other values in it.
"""

from __future__ import annotations

import dataclasses
import random
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import attrs
import jax
import numpy as np
from hypothesis import strategies as st

from ren import Poly, RingSpec

N = 8


class Named(NamedTuple):
    """A named tuple of two."""

    p: Any
    q: Any


@dataclasses.dataclass(frozen=True)
class Pair:
    """A dataclass that JAX does not know."""

    left: Any
    right: Any


@attrs.frozen
class Box:
    """An attrs class that JAX does not know."""

    inner: Any
    note: Any


@jax.tree_util.register_pytree_node_class
class Bag:
    """A registered pytree class with static data."""

    def __init__(self, *parts: Any, tag: str = "bag") -> None:
        self.parts, self.tag = parts, tag

    def tree_flatten(self) -> tuple[tuple[Any, ...], str]:
        return self.parts, self.tag

    @classmethod
    def tree_unflatten(cls, tag: str, parts: Sequence[Any]) -> Bag:
        return cls(*parts, tag=tag)


@attrs.frozen
class Leaf:
    """What is no container.

    Attributes:
        kind: "poly", "again" (a polynomial that stands elsewhere too, the same object), "constant",
            "int", "bool", "array", or "fixed".
        value: which of the others "again" is, the value of what is fixed or constant.
        domain, is_lazy, batch: of a polynomial.
    """

    kind: str
    value: Any = None
    domain: str = "coeff"
    is_lazy: bool = False
    batch: tuple[int, ...] = ()


@attrs.frozen
class Group:
    """A container: its kind, what is inside, and for a dict the keys in order."""

    kind: str
    parts: tuple[Any, ...]
    keys: tuple[str, ...] = ()


Spec = Leaf | Group

_JOIN: dict[str, Callable[[Sequence[Any], Sequence[str]], Any]] = {
    "list": lambda parts, keys: list(parts),
    "tuple": lambda parts, keys: tuple(parts),
    "dict": lambda parts, keys: dict(zip(keys, parts, strict=True)),
    "ordered": lambda parts, keys: OrderedDict(zip(keys, parts, strict=True)),
    "bag": lambda parts, keys: Bag(*parts),
    "named": lambda parts, keys: Named(*parts),
    "pair": lambda parts, keys: Pair(*parts),
    "box": lambda parts, keys: Box(*parts),
}

POLYS = st.builds(
    Leaf,
    st.just("poly"),
    st.none(),
    st.sampled_from(("coeff", "ntt")),
    st.booleans(),
    st.sampled_from(((), (), (2,))),
)
_AGAIN = st.builds(Leaf, st.just("again"), st.integers(0, 5))
_CONSTANTS = st.builds(Leaf, st.just("constant"), st.sampled_from((0, 1, -3, 10**6)))
_ARRAYS = st.just(Leaf("array"))
_FIXED = st.builds(Leaf, st.just("fixed"), st.sampled_from((None, "text", b"bytes", ..., (1, 2))))
_NUMBERS = st.sampled_from((Leaf("int"), Leaf("bool")))
_LEAVES = st.one_of(POLYS, POLYS, _AGAIN, _CONSTANTS, _ARRAYS, _FIXED, _NUMBERS)


def groups(inside: st.SearchStrategy[Spec]) -> st.SearchStrategy[Group]:
    """Containers of what is drawn from `inside`.

    A dataclass that JAX does not know is looked into for the sake of a polynomial or an array.
    """
    many = st.lists(inside, max_size=3).map(tuple)
    keys = st.permutations(("a", "b", "c"))
    return st.one_of(
        st.builds(Group, st.sampled_from(("list", "tuple", "bag")), many),
        st.builds(_keyed, st.sampled_from(("dict", "ordered")), many, keys),
        st.builds(Group, st.just("named"), st.tuples(inside, inside)),
        st.builds(
            Group, st.sampled_from(("pair", "box")), st.tuples(st.one_of(POLYS, _ARRAYS), inside)
        ),
    )


def _keyed(kind: str, parts: tuple[Spec, ...], keys: Sequence[str]) -> Group:
    return Group(kind, parts, tuple(keys[: len(parts)]))


SPECS: st.SearchStrategy[Spec] = st.recursive(_LEAVES, groups, max_leaves=4)


def join(group: Group, parts: Sequence[Any]) -> Any:
    """The container of a kind around `parts`."""
    return _JOIN[group.kind](parts, group.keys)


class Builder:
    """Builds structures: equal seeds give equal values, and every object is a new one."""

    def __init__(self, seed: int, ring: RingSpec, device: str | None = None) -> None:
        self._rng, self._ring, self._device = random.Random(seed), ring, device
        self._polys: list[Poly] = []

    def build(self, spec: Spec) -> Any:
        """A value of the structure `spec`."""
        if isinstance(spec, Group):
            return join(spec, [self.build(part) for part in spec.parts])
        return self.leaf(spec)

    def leaf(self, spec: Leaf) -> Any:
        """The value of a leaf."""
        if spec.kind == "again" and self._polys:
            return self._polys[spec.value % len(self._polys)]
        if spec.kind in ("poly", "again"):
            self._polys.append(self._poly(spec))
            return self._polys[-1]
        if spec.kind == "constant":
            return Poly.const(spec.value, self._ring)
        if spec.kind == "array":
            return self._coefficients(())
        return {"int": self._rng.randint(-9, 10**12), "bool": self._rng.random() < 0.5}.get(
            spec.kind, spec.value
        )

    def _poly(self, spec: Leaf) -> Poly:
        p = Poly(self._coefficients(spec.batch), self._ring, device=self._device)
        p = p.ntt() if spec.domain == "ntt" else p
        return p + self._rng.randrange(2, 9) if spec.is_lazy else p.realize()

    def _coefficients(self, batch: tuple[int, ...]) -> np.ndarray:
        count = int(np.prod(batch, dtype=int)) * N
        drawn = [self._rng.randrange(self._ring.q) for _ in range(count)]
        return np.array(drawn).reshape(*batch, N)


def opened(value: Any) -> tuple[tuple[Any, ...], list[Any]] | None:
    """The keys or static data of a container and what is inside, in order; None for a leaf."""
    if isinstance(value, dict):
        return tuple(value), list(value.values())
    if isinstance(value, Pair):
        return (), [value.left, value.right]
    if isinstance(value, Box):
        return (), [value.inner, value.note]
    if isinstance(value, Bag):
        return (value.tag,), list(value.parts)
    return ((), list(value)) if isinstance(value, list | tuple) else None


def paired(spec: Spec, value: Any) -> Iterator[tuple[Leaf, Any]]:
    """Each leaf with its value."""
    if isinstance(spec, Leaf):
        yield spec, value
        return
    for part, inner in zip(spec.parts, opened(value)[1], strict=True):
        yield from paired(part, inner)
