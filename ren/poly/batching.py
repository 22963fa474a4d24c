"""Polynomials side by side along a new batch axis, and apart again, as programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ren.core import op as ops
from ren.core.node import make
from ren.core.spec import MacArg, PartArg, StackArg
from ren.lowering.devices.devices import is_tracer
from ren.poly.poly import Poly, from_node


def stacked(polys: Sequence[Poly], axis: int = 0) -> Poly:
    """The polynomials, of one ring, along a new batch axis: 0, the first, or -1, the last."""
    return from_node(make(ops.STACK, [p.node for p in polys], StackArg(axis)))


def item(p: Poly, index: int, axis: int = -1) -> Poly:
    """The polynomial at a place, counted from 0, of the last batch axis, or of the first, 0."""
    return from_node(make(ops.PART, (p.node,), PartArg(index, axis)))


def unstacked(p: Poly) -> list[Poly]:
    """The parts of a polynomial along its leading axis."""
    return [item(p, i, 0) for i in range(p.shape[0])]


def multiply_accumulate(w: Poly, terms: Sequence[Poly], indices: Sequence[int]) -> Poly:
    """w[i_1] x_1 + w[i_2] x_2 + ...: one product for each term, with indices along the first axis.

    Args:
        w: the factors, with a batch axis of them in front.
        terms: polynomials of one ring, in which w is too.
        indices: of each term the index of its factor.
    """
    src = (w.node, *(x.node for x in terms))
    return from_node(make(ops.MAC, src, MacArg(tuple(indices))))


def stacked_arrays(*arrays: Any, axis: int = 0) -> Any:
    """Arrays of one shape along a new axis: on the host where all of them are."""
    on_host = all(isinstance(a, np.ndarray) for a in arrays)
    return np.stack(arrays, axis) if on_host else jnp.stack(arrays, axis)


def joined_arrays(*arrays: Any, axis: int = 0) -> Any:
    """Arrays one after another along an axis: on the host where all of them are."""
    on_host = all(isinstance(a, np.ndarray) for a in arrays)
    return np.concatenate(arrays, axis) if on_host else jnp.concatenate(arrays, axis)


def repeated(p: Poly, batch: tuple[int, ...]) -> Poly:
    """The polynomial with all these batch axes, as a program: repeated along those it lacks."""
    axes = p.shape[:-2]
    if axes == batch:
        return p
    if len(axes) < len(batch):
        return stacked([repeated(p, batch[1:])] * batch[0])
    parts = unstacked(p)
    parts = parts if len(parts) > 1 else parts * batch[0]
    return stacked([repeated(q, batch[1:]) for q in parts])


def traced_array(values: Any) -> Any:
    """The array of a list with a tracer in it; anything else as it is."""
    if isinstance(values, list | tuple) and any(map(is_tracer, values)):
        return jnp.stack(values)
    return values


def bit_counts(words: Any) -> Any:
    """The number of ones among the bits of unsigned integers, in their dtype."""
    count = np.bitwise_count if isinstance(words, np.ndarray) else jnp.bitwise_count
    return count(words).astype(words.dtype)


def chosen(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`: on the host where the condition is there."""
    where = np.where if isinstance(condition, np.ndarray) else jnp.where
    return where(condition, a, b)
