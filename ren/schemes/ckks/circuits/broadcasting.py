"""Broadcasting: the shapes of two operands brought together as numpy.broadcast does.

An operand has batch axes, then the axes of the numbers in its slots. Batch axes broadcast in the
program. Axes of numbers broadcast by rotations. Where copies do not stand one after another, they
broadcast by a matrix of zeros and ones.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError
from ren.lowering.devices.devices import is_tracer
from ren.lowering.kernels import embedding
from ren.poly.symbolic import SymbolicLength, as_symbol
from ren.schemes.ckks.arithmetic.automatic import check_plain
from ren.schemes.ckks.arithmetic.evolve import evolve_layout
from ren.schemes.ckks.arithmetic.operation_hooks import circuit
from ren.schemes.ckks.arithmetic.shapes import (
    Shape,
    batch_axes,
    described_shape,
    shape_text,
    shapes_of,
)
from ren.schemes.ckks.circuits.moves import moved
from ren.schemes.ckks.circuits.shaping import tile
from ren.schemes.ckks.circuits.stacking import beside_blocks, with_last_axis
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    is_columns,
    with_fields,
)
from ren.schemes.ckks.encoding.encoder import as_numbers, check_rows
from ren.schemes.ckks.encoding.layout import LEFTOVERS
from ren.schemes.ckks.encoding.packing import on_columns
from ren.schemes.ckks.encoding.plaintext import Plaintext, decoded, encode
from ren.schemes.rlwe.active_context import same_key
from ren.schemes.slots.planner import LinearIndexMap, gather


def broadcast_pair(x: CiphertextT, y: CiphertextT, what: str) -> tuple[CiphertextT, CiphertextT]:
    """Two ciphertexts with their numbers in one shape.

    Args:
        what: the operation, for errors.

    Raises:
        ParameterError: shapes that NumPy does not broadcast, or that would move batches to slots.
        DepthError: no level is left for a matrix of zeros and ones, or to clear leftovers.
    """
    same_key(x.key_id, y.key_id, what)
    if _are_alike(x, y):
        return x, y
    if is_columns(x) != is_columns(y):
        return _beside_columns(x, y, what)
    (batch_x, core_x), (batch_y, core_y) = shapes_of(x), shapes_of(y)
    _check_broadcast((*batch_x, *core_x), (*batch_y, *core_y), what)
    if not (core_x and core_y):  # a scalar fills all slots
        batch, core = (batch_y, core_x) if core_x else (batch_x, core_y)
        if batch and core:  # NumPy pairs a batch of scalars with the numbers of a vector
            raise _across(batch, core, what)
        return x, y
    rank = max(len(core_x), len(core_y))
    if (len(core_x) < rank and batch_x) or (len(core_y) < rank and batch_y):
        raise _across(described_shape(batch_x, core_x), described_shape(batch_y, core_y), what)
    left, right = ((1,) * (rank - len(core)) + core for core in (core_x, core_y))
    target = np.broadcast_shapes(left, right)
    return repeated(x, left, target), repeated(y, right, target)


def _are_alike(x: Any, y: Any) -> bool:
    """Whether two operands surely have numbers of one shape, or one is a scalar without batches."""
    a, b = x.layout, y.layout
    if (a.length is None and not batch_axes(x)) or (b.length is None and not batch_axes(y)):
        return True
    if None in (a.length, b.length) or a.shape != b.shape:
        return False
    if (a.columns or b.columns) and is_columns(x) != is_columns(y):
        return False
    # In a capture a length is that of the call that is captured; plans check it each time.
    counts = {n.sample if isinstance(n, SymbolicLength) else n for n in (a.length, b.length)}
    return len(counts) == 1


def _beside_columns(x: CiphertextT, y: CiphertextT, what: str) -> tuple[CiphertextT, CiphertextT]:
    """A table by its columns, and a number for each column or for all."""
    _check_broadcast(x.shape, y.shape, what)
    table, other = (x, y) if is_columns(x) else (y, x)
    if other.layout.tail.is_copies and not batch_axes(other):
        number = evolve_layout(other, length=None, shape=None)
        return (x, number) if other is y else (number, y)
    if other.layout.length is not None or len(batch_axes(other)) > 1:
        raise ParameterError(
            f"{what} got operands of shapes {shape_text(x)}, and {shape_text(y)}.",
            "A table by its columns meets another one, or an encrypted number for each column.",
            "Encrypt both with pack='columns'; write keepdims=True for sums of rows, and "
            "ctx.encrypt(w[None], pack='columns') for one row.",
        )
    other = beside_blocks(other, table)
    return (x, other) if table is x else (other, y)


def array_operand(x: CiphertextT, values: Any, what: str) -> tuple[CiphertextT, Any]:
    """A ciphertext and an array with the numbers of both in one shape; errors as `broadcast_pair`.

    Args:
        values: an array, a list, or a symbol that stands for one: of any shape that broadcasts.
        what: the operation, for errors.

    Returns:
        The ciphertext, and the array or symbol [*batch, length] to be encoded.
    """
    symbol = as_symbol(values)
    if is_tracer(values):
        array = embedding.as_floats(values)
    else:
        check_rows(values)
        array = as_numbers(values) if symbol is None else np.empty(symbol.shape, np.bool)
    if is_columns(x) and array.ndim:
        _check_broadcast(x.shape, array.shape, what)
        symbol = None if symbol is None else symbol.map(on_columns)
        array = on_columns(array)
    given, length = array if symbol is None else symbol, x.layout.length
    is_free = isinstance(length, SymbolicLength) and x.layout.shape is None
    if is_free and array.shape and array.shape[-1] == length.sample:  # type: ignore[attr-defined]
        return x, given
    batch, core = shapes_of(x)
    result = _check_broadcast((*batch, *core), array.shape, what)
    if not core:
        if not batch:
            return x, given
        if result[len(result) - len(batch) :] != batch:
            raise _across(batch, array.shape, what)
        target: Shape = (*result, x.slots)  # a number of each batch, in all slots

        def flat(values: Any) -> NDArray:
            numbers = _broadcast(values, result)
            return _broadcast(numbers[..., None], target)

    else:
        axes, inner = array.shape[: -len(core)], result[-len(core) :]
        x = repeated(x, core, inner)

        def flat(values: Any) -> NDArray:
            wide = _broadcast(values, axes + inner)
            return wide.reshape(*axes, math.prod(inner))

    return x, flat(array) if symbol is None else symbol.map(flat)


def _broadcast(values: Any, shape: Shape) -> Any:
    if is_tracer(values):
        return embedding.filled(values, shape)
    return np.broadcast_to(np.asarray(values), shape)


def encoded_operand(
    x: CiphertextT, values: Any, what: str, highest: int | None = None
) -> tuple[CiphertextT, Plaintext]:
    """A ciphertext and the plaintext of an array for it; arguments as of `array_operand`.

    The plaintext is at the level of the ciphertext, or at `highest` where that is lower.
    """
    by_columns = is_columns(x)
    x, flat = array_operand(x, values, what)
    level = x.level if highest is None else min(x.level, highest)
    return x, encoded_for(x, flat, level, by_columns)


def encoded_for(x: CiphertextData, flat: Any, level: int, by_columns: bool) -> Plaintext:
    """The plaintext of an array that `array_operand` gave for a ciphertext.

    `by_columns` says whether that was a table by its columns before.
    """
    p = encode(flat, x.params, level, x.layout.blocks)
    if x.layout.length is not None or not batch_axes(x):
        return p
    if p.layout.blocks == 1:
        # One scalar has no batch: there, an array that fills the slots is a vector.
        layout = attrs.evolve(x.layout, is_complex=p.layout.is_complex)
    else:  # each number of a batch stands in all slots, and meets more numbers than slots
        layout = attrs.evolve(p.layout, columns=by_columns)
    return with_fields(p, layout=layout)


def plain_operand(x: CiphertextT, p: Plaintext, what: str) -> tuple[CiphertextT, Plaintext]:
    """A ciphertext and a plaintext with their numbers in one shape; errors as `broadcast_pair`.

    A plaintext of another shape is decoded and encoded again, which rounds it once more.
    """
    check_plain(x, p, what)
    if _are_alike(x, p):
        return x, p
    if is_columns(x) != is_columns(p):
        return encoded_operand(x, p.layout.unpacked(decoded(p)), what, highest=p.level)
    (batch_x, core_x), (batch_p, core_p) = shapes_of(x), shapes_of(p)
    _check_broadcast((*batch_x, *core_x), (*batch_p, *core_p), what)
    if (core_x and core_x == core_p) or not (core_x or batch_x):
        return x, p
    return encoded_operand(x, p.layout.unpacked(decoded(p)), what, highest=p.level)


# ------------------------------------------------------------------- shapes


def _check_broadcast(a: Shape, b: Shape, what: str) -> Shape:
    """The shape that NumPy gives; ParameterError where it gives none."""
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        raise ParameterError(
            f"{what} got operands of shapes {a} and {b}.",
            "They broadcast as in NumPy: sizes along an axis are equal, or one of them is 1.",
            "Slice the longer one, or put zeros behind the shorter one: ckks.pad(x, length).",
        ) from None


def _across(a: Shape | str, b: Shape | str, what: str) -> ParameterError:
    met = f"{a}{',' * isinstance(a, str)} and {b}"
    return ParameterError(
        f"{what} got operands of shapes {met}, where a batch axis meets numbers in slots.",
        "Batch axes broadcast with batch axes; numbers stay in their slots.",
        "Take the batch apart with ckks.unstack, or give both the same axes of numbers.",
    )


@circuit("a broadcast")
def repeated(x: CiphertextT, shape: Shape, target: Shape) -> CiphertextT:
    """The numbers of an array of one shape as those of a larger one, as numpy.broadcast_to.

    Whole copies one after another are rotations, at no level where the tail is known. Others are a
    matrix of zeros and ones: one level.
    """
    length, size, label = math.prod(shape), math.prod(target), target if len(target) > 1 else None
    if shape == target:  # but for axes of size 1 in front
        return x if x.layout.shape == label else evolve_layout(x, shape=label)
    columns = x.layout.columns
    if length == 1 and (x.layout.tail.is_copies or size > x.slots):
        x = x if x.layout.tail.is_copies else tile(x, x.slots)
        count = size if size <= x.slots else None
        made = evolve_layout(
            x, length=count, blocks=1, shape=label, tail=LEFTOVERS, columns=columns
        )
        return with_last_axis(made) if count is None and batch_axes(made) else made
    what = f"A broadcast from {shape} to {target}"
    result = x if length == size else moved(x, _copies(shape, target), what)
    return evolve_layout(result, shape=label, columns=columns)


@lru_cache(maxsize=64)
def _copies(shape: Shape, target: Shape) -> LinearIndexMap:
    """The numbers of an array of one shape as those of a larger one."""
    length = math.prod(shape)
    return gather(np.broadcast_to(np.arange(length).reshape(shape), target).ravel(), length)
