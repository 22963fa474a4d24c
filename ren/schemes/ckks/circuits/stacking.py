"""`ckks.stack` and `ckks.unstack`: requests side by side along a batch axis, and apart again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from ren.core.errors import ParameterError
from ren.poly import Poly
from ren.poly.batching import item, stacked, unstacked
from ren.schemes.ckks.arithmetic.argument_checks import as_ciphertexts, check_ciphertext
from ren.schemes.ckks.arithmetic.evolve import drop_to, evolve, evolve_layout
from ren.schemes.ckks.arithmetic.manual import normal
from ren.schemes.ckks.arithmetic.number_types import of_operands, same
from ren.schemes.ckks.arithmetic.operation_hooks import operation
from ren.schemes.ckks.arithmetic.shapes import shape_text
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    batch_of,
    is_columns,
    known_length,
)
from ren.schemes.ckks.encoding.layout import Layout, Tail
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise import spans
from ren.schemes.rlwe.active_context import same_key


def stack(ciphertexts: Sequence[CiphertextT], *others: Any) -> CiphertextT:
    """One ciphertext with a new leading batch axis, at the lowest of the levels.

    Operators work on the whole batch at once, and so does `jax.vmap(f)`, with the keys shared.

    Args:
        ciphertexts: a list, under one key, of one length and batch shape: at least one.
        others: none: two ciphertexts are a list, too.

    Raises:
        OperandError: what is not a ciphertext, or is not in the list.
        ParameterError: none, or shapes that differ.
        ContextError: two keys.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1, n=2**13)
        >>> both = ckks.stack([ctx.encrypt([1.0, 2.0]), ctx.encrypt([3.0, 4.0])])
        >>> (both + 1).decrypt().round(3)
        array([[2., 3.],
               [4., 5.]])
    """
    parts = as_ciphertexts(ciphertexts, "ckks.stack()", *others)
    _check(parts)
    parts = list(map(normal, parts))
    level = min(x.level for x in parts)
    return _stacked(*(drop_to(x, level) for x in parts))


@operation("stack()", lambda *slots: np.stack(slots))
def _stacked(first: CiphertextT, *others: CiphertextT) -> CiphertextT:
    """Stack ciphertexts of one level, in normal form."""
    parts, layout = (first, *others), first.layout
    for x in others:
        layout = layout.joined(x.layout, _common_tail(layout, x.layout))
    c0, c1 = (stacked([x.polys[i].ntt() for x in parts]) for i in (0, 1))
    batch = batch_of(first)
    if not is_columns(first):
        layout = attrs.evolve(layout, columns=False)
    noise = noises.stacked([x.noise for x in parts], batch)
    span = spans.hull(*(x.span for x in parts))
    dtype = of_operands(same, *parts)
    return evolve(first, (c0, c1), noise, layout=layout, span=span, dtype=dtype)


def _common_tail(a: Layout, b: Layout) -> Tail:
    """Common tail of two layouts: one value, or leftovers in its place."""
    same = a.tail.value is b.tail.value or not (a.tail.has_value or b.tail.has_value)
    left, right = (a.tail, b.tail) if same else (a.tail.settled, b.tail.settled)
    return attrs.evolve(left.plus(right), value=left.value)


def unstack(x: CiphertextT) -> list[CiphertextT]:
    """The ciphertexts along the first batch axis: `unstack(stack([a, b]))` is [a, b].

    Raises:
        OperandError: `x` is not a ciphertext.
        ParameterError: there is no batch axis.
    """
    check_ciphertext(x, "ckks.unstack()")
    x = normal(x)
    batch = batch_of(x)
    if len(batch) <= (x.layout.blocks > 1):
        raise ParameterError(
            "ckks.unstack got a ciphertext of one vector.",
            "It takes apart the first batch axis, as ckks.stack or an array [batch, k] made it.",
            "Pass a stacked ciphertext.",
        )
    parts = zip(*(_items(p.ntt(), batch) for p in x.polys), strict=True)
    return [_part(x, i, pair) for i, pair in enumerate(parts)]


def beside_blocks(numbers: CiphertextT, x: CiphertextData) -> CiphertextT:
    """A batch of numbers with a last axis of size 1, where `x` has its blocks there."""
    return numbers if x.layout.blocks == 1 else with_last_axis(numbers)


def with_last_axis(numbers: CiphertextT) -> CiphertextT:
    """A batch with a last axis of size 1."""
    return stacked_at([numbers], len(batch_of(numbers)))


def stacked_at(parts: Sequence[CiphertextT], place: int) -> CiphertextT:
    """The ciphertexts along a new batch axis at any place."""
    if not place:
        return stack(parts)
    rows = zip(*map(unstack, parts), strict=True)
    return stack([stacked_at(row, place - 1) for row in rows])


@operation("unstack()", lambda x, i, pair: x[i])
def _part(x: CiphertextT, i: int, pair: tuple[Poly, ...]) -> CiphertextT:
    noise, batch = noises.broadcast(x.noise, batch_of(x)), batch_of(x)
    columns = x.layout.columns and len(batch) > 1 + (x.layout.blocks > 1)
    layout = attrs.evolve(x.layout, columns=columns)
    return evolve(x, pair, noise[i], layout=layout, span=x.span, dtype=x.stated_dtype)


def _items(p: Poly, batch: tuple[int, ...]) -> list[Poly]:
    """The parts along the first of the batch axes; a polynomial without it is that of all parts."""
    if len(p.shape) - 2 < len(batch):
        return [p] * batch[0]
    parts = unstacked(p)
    return parts if len(parts) == batch[0] else parts * batch[0]


def _check(parts: Sequence[CiphertextData]) -> None:
    first = parts[0]
    for x in parts[1:]:
        same_key(first.key_id, x.key_id, "ckks.stack")
        if x.slots != first.slots:
            raise ParameterError(
                f"ckks.stack got ciphertexts of {first.slots} and of {x.slots} slots.",
                "Stacked ciphertexts have one set of parameters.",
                "Encrypt both with one context.",
            )
        if _shape(first) != _shape(x):
            raise ParameterError(
                f"ckks.stack got ciphertexts of shapes {shape_text(first)}, and {shape_text(x)}.",
                "Stacked ciphertexts have one shape, as in numpy.stack.",
                "Pad the shorter ones, ckks.pad(x, length), or take a batch apart: ckks.unstack.",
            )


def _shape(x: CiphertextData) -> tuple[int | bool | None, ...]:
    """The batch axes, the length, None for a scalar, and whether these are columns."""
    batch = batch_of(x)
    axes = batch[:-1] if x.layout.blocks > 1 else batch
    return (*axes, known_length(x), is_columns(x))


# ------------------------------------------------------------------- blocks

# Vectors longer than the slots are cut; blocks are the last batch axis. Steps of programs take them
# apart and put them together: in captured functions, and under JAX's transformations too.


def blocks_of(x: CiphertextT) -> list[CiphertextT]:
    """One ciphertext for each block, all slots in use; `x` itself where it is not cut."""
    if x.layout.blocks == 1:
        return [x]
    x = normal(x)
    return [_block(x, i) for i in range(x.layout.blocks)]


@operation("a block", lambda x, index: x[..., index, :])
def _block(x: CiphertextT, index: int) -> CiphertextT:
    def block(p: Poly) -> Poly:
        """One without the axis, or of size 1 there, is that of all blocks."""
        if len(p.shape) < rank:
            return p
        return item(p, index if p.shape[-3] > 1 else 0)

    rank = max(len(p.shape) for p in x.polys)
    layout = Layout(x.slots, x.layout.is_complex)  # what the last one holds beyond is data here
    noise = noises.item(x.noise, index)
    return evolve(x, tuple(map(block, x.polys)), noise, layout=layout)


def as_blocks(parts: Sequence[CiphertextT], **layout: Any) -> CiphertextT:
    """The blocks, all at one level, as one ciphertext of this layout; one block stays as it is."""
    result = parts[0] if len(parts) == 1 else _beside(*parts)
    return evolve_layout(result, blocks=len(parts), **layout)


@operation("blocks", lambda *parts: np.stack(parts, -2))
def _beside(first: CiphertextT, *rest: CiphertextT) -> CiphertextT:
    normals = [normal(x) for x in (first, *rest)]
    polys = tuple(stacked(halves, -1) for halves in zip(*(x.polys for x in normals), strict=True))
    noise = noises.side_by_side([x.noise for x in normals])
    count = len(normals)
    layout = Layout(count * first.slots, first.layout.is_complex, count)
    return evolve(normals[0], polys, noise, layout=layout)
