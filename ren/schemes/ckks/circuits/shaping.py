"""Slices, masks, tiles and parts of encrypted vectors: what moves slots or clears them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ren.core.errors import ParameterError
from ren.poly.key_ids import called
from ren.schemes.ckks.arithmetic.argument_checks import as_ciphertexts, as_integer
from ren.schemes.ckks.arithmetic.automatic import add
from ren.schemes.ckks.arithmetic.evolve import (
    evolve_layout,
    need_level,
    relabelled,
    with_span,
    within_that_of,
)
from ren.schemes.ckks.arithmetic.manual import normal
from ren.schemes.ckks.arithmetic.number_types import arithmetic, of_operands, same, with_type
from ren.schemes.ckks.arithmetic.operation_hooks import circuit
from ren.schemes.ckks.arithmetic.rotation import cleared, cyclic
from ren.schemes.ckks.arithmetic.shapes import (
    batch_axes,
    count_text,
    refuse_columns,
    reshape_text,
    shape_text,
    shapes_of,
)
from ren.schemes.ckks.circuits.moves import moved
from ren.schemes.ckks.circuits.stacking import as_blocks, blocks_of
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    is_columns,
    known_length,
)
from ren.schemes.ckks.encoding.encoder import as_numbers
from ren.schemes.ckks.encoding.layout import LEFTOVERS, ZEROS
from ren.schemes.ckks.encoding.table_advice import affordable
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.spans import Span, hull
from ren.schemes.slots.planner import gather


@circuit("mask()")
def mask(ct: CiphertextT, m: ArrayLike | None = None) -> CiphertextT:
    """The slots times m, of any numbers: one level.

    Args:
        m: [length], or [rows, 1] for a table by its columns; of a table packed flat also its shape.
            Ones by default, which clear leftovers beyond the length. That takes no level where none
            stand there.
    """
    length = known_length(ct)
    if m is None:
        return cleared(ct, "mask()")
    factors = as_numbers(m)
    if is_columns(ct):
        if factors.ndim != 2 or factors.shape[1] != 1:
            raise ParameterError(
                f"mask() of a table of shape {ct.shape}, by its columns, got an array of shape "
                f"{factors.shape}.",
                "It is one factor for each row there, of shape (rows, 1).",
                "Write ct.mask(m.reshape(-1, 1)), or ct * m for a factor of each column.",
            )
        factors = factors[:, 0]
    if ct.layout.has_shape and factors.shape == ct.layout.shape:
        factors = factors.reshape(-1)
    if factors.ndim != 1 or len(factors) != (ct.slots if length is None else length):
        raise ParameterError(
            f"mask() got an array of shape {factors.shape}.",
            f"The ciphertext holds {count_text(length)}.",
            "Pass one factor for each number.",
        )
    need_level(ct, 1, "mask()")
    shape = (-1, 1) if is_columns(ct) else ct.layout.shape if ct.layout.has_shape else (-1,)
    rule = same if factors.dtype.kind == "b" else arithmetic
    dtype = of_operands(rule, ct, factors)
    factors = factors if factors.dtype.kind == "c" else factors.astype(np.float64)
    return with_type(ct * factors.reshape(shape or -1), dtype)


def item(ct: CiphertextT, index: Any) -> CiphertextT:
    """ct[i:j]: one rotation, no level. The other numbers are leftovers, which count as zeros.

    Of a vector that is cut into blocks a slice across two of them takes a level.
    """
    length = known_length(ct)
    is_last = isinstance(index, tuple) and len(index) == 2 and index[0] is Ellipsis
    if is_last:
        index = index[1]  # ct[..., i:j] of a batch
    if length is None or not isinstance(index, slice) or index.step not in (None, 1):
        raise ParameterError(
            f"A ciphertext of {count_text(length)} was indexed by {index!r:.40}.",
            "Slices with step 1 are cut out: they are rotations.",
            _instead_of(ct, index, is_last and not is_columns(ct)),
        )
    ends = (k if k is None else as_integer(k, "A slice") for k in (index.start, index.stop))
    shape = (ct.layout.has_shape and ct.layout.shape) or (length,)
    start, stop, _ = (index := slice(*ends)).indices(shape[0])
    if len(shape) > 1 and (is_last or stop <= start):
        raise ParameterError(
            f"A ciphertext of shape {shape} was indexed by {index!r:.40}"
            f"{' along its last axis' if is_last else ''}.",
            "Rows that follow one another are cut out, one at least: ct[i:j].",
            _last_axis(ct)
            if is_last
            else f"Make it a vector for other numbers: {reshape_text(ct)}.",
        )
    if stop <= start:
        raise ParameterError(
            f"The slice [{start}:{stop}] of a ciphertext of {length} numbers is empty.",
            "A ciphertext holds one number at least.",
            f"Choose bounds from 0 to {length}, the second above the first.",
        )
    width = math.prod(shape[1:])
    with called(f"ct[{'..., ' * is_last}{_text(index)}]"):
        result = _cut(ct, start * width, stop * width)
    result = with_type(with_span(result, ct.span), ct.stated_dtype)
    return reshaped(result, (stop - start, *shape[1:])) if len(shape) > 1 else result


def _cut(ct: CiphertextT, start: int, stop: int) -> CiphertextT:
    """The numbers from one place to another. Those across blocks are moved by a matrix."""
    length, (first, offset) = known_length(ct) or 1, divmod(start, ct.slots)
    if ct.layout.blocks == 1:
        return relabelled(cyclic(ct, start), stop - start, ct.layout.tail.cut(start, length - stop))
    parts = slice(first, -(-stop // ct.slots))
    if offset and parts.stop - first > 1:
        what = "A slice of a vector across the blocks that it is cut into"
        return moved(ct, gather(np.arange(start, stop), length), what)
    turned = [cyclic(part, offset) for part in blocks_of(ct)[parts]]
    return as_blocks(turned, length=stop - start, shape=None, tail=LEFTOVERS)


def _instead_of(ct: CiphertextData, index: Any, is_last: bool) -> str:
    """The code in place of ct[index], or of ct[..., index]."""
    is_strided = isinstance(index, slice) and index.step is not None
    text = f"{_text(index)}:{index.step}" if is_strided else "order"
    if index is None or (isinstance(index, tuple) and None in index and len(ct.shape) == 1):
        column = "ct.reshape(-1, 1) for ct[:, None]"
        return f"Write ct.reshape(1, -1) for ct[None], {column}, ct[i:j] for a part."
    if is_last and ct.layout.has_shape:
        return _last_axis(ct)
    if is_last:
        others = f" ct @ np.eye(ct.shape[-1])[:, {text}] takes others." * is_strided
        others *= affordable(others, ct.shape) == others
        return f"Write ct[..., i:j], or ct[..., i : i + 1] for one number of each vector.{others}"
    if isinstance(index, int | np.integer) and type(index) is not bool and len(ct.shape) == 1:
        if not -len(ct) <= index < len(ct):
            return f"Write ct[i : i + 1] for one number, with i from 0 to {len(ct) - 1}."
        return f"Write {f'ct[{index}:{index + 1}]' if index != -1 else 'ct[-1:]'} for one number."
    if isinstance(index, tuple | float):
        return (
            "Write ct[i:j] along its one axis; i and j are integers. ct[i : i + 1] has one number."
        )
    others = "" if isinstance(index, int) else f" np.eye(len(ct))[{text}] @ ct takes others."
    others *= affordable(others, ct.shape) == others
    return f"Write ct[i:j], or ct[i : i + 1] for one number.{others * (len(ct.shape) < 3)}"


def _last_axis(ct: CiphertextData) -> str:
    """The code for columns of a table packed flat, or of an array of more axes."""
    if len(ct.shape) > 2:
        return f"Encrypt it with pack='rows' for ct[..., i:j]; {reshape_text(ct)} is a vector."
    code = "ct @ np.eye(c)[:, i:j], or ct @ np.eye(c)[j] for one column, with c = ct.shape[-1]"
    return f"Write {affordable(code, ct.shape)}; {reshape_text(ct)} is a vector."


def _text(index: slice) -> str:
    """A slice as it is written."""
    return ":".join("" if k is None else str(k) for k in (index.start, index.stop))


def reshape(ct: CiphertextT, shape: tuple[Any, ...]) -> CiphertextT:
    """The same numbers in another shape, as numpy.reshape, of a batch those of all its vectors."""
    batch, core = shapes_of(ct)
    if not (batch and core) or is_columns(ct):
        return reshaped(ct, shape)
    result = _of_shape((*batch, *core), sizes := _sizes(shape))
    if not result:
        raise ParameterError(
            f"A ciphertext of shape {shape_text(ct)}, was to have the shape {sizes}.",
            f"A shape is one or more sizes whose product is the count of the numbers, {ct.size}.",
            f"Write {reshape_text(ct)} for a vector in each ciphertext.",
        )
    if result[: len(batch)] != batch or len(result) == len(batch):
        raise ParameterError(
            f"A ciphertext of shape {shape_text(ct)}, was to have the shape {sizes}.",
            "Its vectors are in different ciphertexts, so that the axes of the batch stay the "
            f"first ones: {batch} here.",
            "Write ckks.concat(ckks.unstack(ct)) for one vector, which .reshape(...) shapes."
            if len(batch) == 1
            else "Write ckks.concat(ckks.unstack(part)) for one vector of a part.",
        )
    return reshaped(ct, result[len(batch) :])


def _sizes(shape: tuple[Any, ...]) -> Any:
    return shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape


def _of_shape(shape: tuple[int, ...], sizes: Any) -> tuple[int, ...]:
    """The shape that an array has when it is reshaped; () where it is not."""
    try:
        return np.broadcast_to(np.True_, shape).reshape(sizes).shape
    except (TypeError, ValueError):
        return ()


def reshaped(ct: CiphertextT, shape: tuple[Any, ...]) -> CiphertextT:
    """The same slots, which decrypt in another shape; of a batch each vector."""
    refuse_columns(ct, "reshape()")
    length, sizes = known_length(ct), _sizes(shape)
    result = _of_shape((0 if length is None else length,), sizes)
    if length is None and batch_axes(ct):
        raise ParameterError(
            f"Ciphertexts of one number each, of shape {ct.shape}, were to have the shape {sizes}.",
            "Their numbers are in different ciphertexts; a shape is that of numbers in slots.",
            "Write ckks.stack(ckks.unstack(ct)[i:j]) for some; number * np.eye(k)[i] puts one in a "
            "slot of a vector.",
        )
    if length is None or not result:
        raise ParameterError(
            f"A ciphertext of {count_text(length)} was to have the shape {sizes}.",
            "A shape is one or more sizes whose product is the count of the numbers.",
            "Write ct + np.zeros(shape), of a shape without -1, which broadcasts it."
            if length is None
            else f"One size may be -1: it is worked out. For a vector write {reshape_text(ct)}.",
        )
    return evolve_layout(ct, shape=result if len(result) > 1 else None)


@circuit("tile()", same)
def tile(ct: CiphertextT, count: int) -> CiphertextT:
    """`count` copies one after another, as numpy.tile: one level, none where the slots are full."""
    length, count = _vector_length(ct, "tile()"), as_integer(count, "tile()")
    if count < 1 or count * length > ct.slots:
        raise ParameterError(
            f"{count} copies of {length} numbers were asked for.",
            f"There are {ct.slots} slots.",
            f"Pass a count from 1 to {ct.slots // length}."
            if length <= ct.slots
            else "Vectors that are cut into blocks are not tiled: choose more slots.",
        )
    shape = ct.layout.shape if ct.layout.has_shape else None
    if shape is not None and math.prod(shape[:-1]) > 1:
        raise ParameterError(
            f"tile() got a ciphertext of shape {shape}.",
            "Copies along its last axis do not stand one after another.",
            f"Make it a vector, {reshape_text(ct)}, or broadcast it against an array of ones.",
        )
    result = moved(ct, gather(np.arange(count * length) % length, length), "tile()")
    return result if shape is None else reshaped(result, (*shape[:-1], count * length))


def pad(x: Any, length: int) -> Any:
    """The vector with zeros behind it, up to `length` numbers: said aloud, since nothing pads.

    Args:
        x: a ciphertext of a vector; or an array, whose last axis is padded.
        length: of the result, at least that of `x`. Of a ciphertext as many as its slots, or its
            blocks, hold.

    Returns:
        A ciphertext at the same level, or one below where leftovers have to be cleared; an array
        for an array.

    Raises:
        ParameterError: a scalar, a length below that of `x`, or one beyond its slots.
        DepthError: no level is left to clear leftovers.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1, n=2**13)
        >>> x = ckks.pad(ctx.encrypt([1.0, 2.0]), 4) + [1.0, 1.0, 1.0, 1.0]
        >>> x.decrypt().round(3)
        array([2., 3., 1., 1.])
    """
    size = as_integer(length, "pad()")
    if not hasattr(x, "polys"):
        return _padded_array(x, size)
    refuse_columns(x, "pad()")
    held, room = _vector_length(x, "pad()"), x.slots * x.layout.blocks
    if x.layout.has_shape:
        raise ParameterError(
            f"pad() got a ciphertext of shape {x.shape}.",
            "It puts zeros behind a vector.",
            f"Make it a vector: {reshape_text(x)}.",
        )
    if not held <= size <= room:
        raise ParameterError(
            f"pad() was asked for {size} numbers, of a ciphertext of {held}.",
            f"It adds zeros behind them, up to the {room} slots that there are.",
            "Choose a length in between, or pad the values before they are encrypted.",
        )
    return x if held == size else _padded(x, size)


@circuit("pad()", same)
def _padded(ct: CiphertextT, length: int) -> CiphertextT:
    padded = evolve_layout(cleared(normal(ct), "pad()"), length=length)
    return with_span(padded, hull(ct.span, Span(0.0, 0.0)))


def _padded_array(x: Any, size: int) -> NDArray:
    values = np.asarray(x)
    if values.ndim == 0 or values.shape[-1] > size:
        raise ParameterError(
            f"pad() was asked for {size} numbers, of an array of shape {values.shape}.",
            "It adds zeros behind the last axis.",
            "Choose a length that is at least as large.",
        )
    behind = [(0, 0)] * (values.ndim - 1) + [(0, size - values.shape[-1])]
    return np.pad(values, behind)


@circuit("concat()")
def concat(ciphertexts: Sequence[CiphertextT], *others: Any) -> CiphertextT:
    """The vectors one after another, as numpy.concatenate: a rotation each.

    One level where leftovers stand beyond the length of one of them.

    Args:
        ciphertexts: a list of vectors, at least one.
        others: none: two ciphertexts are a list, too.

    Raises:
        OperandError: what is not a ciphertext, or is not in the list.
        ParameterError: none, a scalar, or more numbers than slots.
    """
    parts, what = as_ciphertexts(ciphertexts, "ckks.concat()", *others), "concat()"
    for ct in parts:
        refuse_columns(ct, what)
    lengths = [_vector_length(ct, what) for ct in parts]
    if sum(lengths) > parts[0].slots:
        raise ParameterError(
            f"{len(parts)} ciphertexts of {sum(lengths)} numbers in all were to be joined.",
            f"Together they fit into the slots, {parts[0].slots}.",
            "Join fewer, or choose more slots, by n= or slots=.",
        )
    if len(parts) == 1:
        return parts[0]
    shapes = [shapes_of(ct) for ct in parts]
    if len({(batch, core[1:]) for batch, core in shapes}) > 1:
        raise ParameterError(
            f"Ciphertexts of shapes {'; '.join(map(shape_text, parts))} were to be joined.",
            "Their numbers are joined along the first axis; all other axes are equal.",
            f"Make them vectors: {reshape_text(parts[0])}.",
        )
    is_complex, places = any(ct.layout.is_complex for ct in parts), itertools.accumulate(lengths)
    each = zip(parts, lengths, places, strict=True)
    placed = [cyclic(cleared(normal(ct), what), count - end) for ct, count, end in each]
    result = within_that_of(reduce(add, placed), reduce(noises.larger, (ct.noise for ct in placed)))
    result = relabelled(result, sum(lengths), ZEROS, is_complex)
    result = with_type(result, of_operands(same, *parts))
    _, core = shapes[0]
    return reshaped(result, (-1, *core[1:])) if len(core) > 1 else result


def _vector_length(ct: CiphertextData, what: str) -> int:
    length = known_length(ct)
    if length is None:
        raise ParameterError(
            f"{what} got a batch of shape {ct.shape}, of one number each."
            if ct.shape
            else f"{what} got a scalar, which fills all slots.",
            "It takes vectors.",
            "Encrypt an array of one number or more."
            if not ct.shape
            else "Join them as ciphertexts: ckks.stack([*ckks.unstack(x), *ckks.unstack(y)]). "
            "ct[i] + np.zeros(1) is a vector of one.",
        )
    return length
