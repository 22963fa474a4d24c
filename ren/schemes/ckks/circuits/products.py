"""Products as `numpy.matmul` and `numpy.dot`, of vectors, batches and tables in each packing."""

from __future__ import annotations

from functools import reduce
from typing import Any

import attrs
import numpy as np

from ren.core.errors import ParameterError
from ren.lowering.devices.devices import is_tracer
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.arithmetic.automatic import add
from ren.schemes.ckks.arithmetic.evolve import evolve_layout, fills_slots, need_level
from ren.schemes.ckks.arithmetic.manual import normal
from ren.schemes.ckks.arithmetic.number_types import arithmetic, of_result, with_type
from ren.schemes.ckks.arithmetic.operation_hooks import circuit, numbers_of_user
from ren.schemes.ckks.arithmetic.shapes import axis_of, batch_axes, described_shape, shapes_of
from ren.schemes.ckks.circuits import linear, matmul, mixing, reductions, tables
from ren.schemes.ckks.circuits.matrix_checks import numbers_of, of_symbols
from ren.schemes.ckks.circuits.shaping import reshaped
from ren.schemes.ckks.circuits.stacking import stack, stacked_at, unstack
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    is_columns,
    known_length,
    with_fields,
)
from ren.schemes.ckks.encoding.encoder import as_numbers, rank_of
from ren.schemes.ckks.encoding.plaintext import Plaintext


def dot(ct: CiphertextT, w: Any, axis: int | None) -> CiphertextT:
    """ct @ w; along an axis sum_i x_i w_i: one level.

    Args:
        ct: x; a vector, a batch of them, or a table.
        w: as many numbers as there are along the axis: an array, a plaintext or a ciphertext.
        axis: of x.
    """
    place = axis_of(ct, axis, "dot()")
    if place not in (None, len(ct.shape) - 1):
        return _contracted(ct, w, place)
    rank = len(_shape(w)) if _is_encoded(w) else rank_of(w)
    return multiplied(ct, w) if rank else reductions.dot(ct, w)


def multiplied(a: Any, b: Any) -> Any:
    """a @ b as numpy.matmul, of which one at least is encrypted: one level.

    It sums over numbers in slots, or over ciphertexts side by side in the batch axis of numbers.

    Raises:
        ParameterError: shapes that NumPy refuses, or that it multiplies where these cannot be.
        DepthError: no level for the product, or for the sum along the axis.
    """
    if _is_encoded(a) and _is_encoded(b):
        return _of_encoded(a, b)
    a, b = (x if _is_encoded(x) else of_symbols(x) for x in (a, b))
    if _is_encoded(a):
        if _lies_across(a, -1):
            return _weighted(a, b, len(a.shape) - 1)
        if a.layout.has_shape and rank_of(b) == 1:
            result = linear.product(numbers_of(b)[:, None], a, is_transposed=True)
            return reshaped(result, (result.layout.shape or ())[:-1])
        return reductions.dot(a, b) if rank_of(b) == 1 else linear.product(b, a, is_transposed=True)
    if _lies_across(b, -2):
        return _weighted(b, a.T if hasattr(a, "T") else np.transpose(a), max(0, len(b.shape) - 2))
    if rank_of(a) != 1:
        return linear.product(a, b)
    if is_columns(b):
        return _contracted(b, a, len(b.shape) - 2)
    if not b.layout.has_shape:
        return reductions.dot(b, a)
    result = linear.product(numbers_of(a)[None], b)
    return result.reshape(result.shape[-1])


def _is_encoded(x: Any) -> bool:
    return isinstance(x, CiphertextData | Plaintext)


def _shape(x: Any) -> tuple[int, ...]:
    """The shape of an operand, as NumPy tells it."""
    if isinstance(x, Plaintext):
        batch, core = shapes_of(x)
        return (*batch[:-1], *core, batch[-1]) if is_columns(x) else batch + core
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def _lies_across(x: Any, axis: int) -> bool:
    """True where a batch axis is the axis of a product: -1 the last, -2 the one before if any."""
    batch, core = shapes_of(x)
    if is_columns(x):
        return axis == -1
    return bool(batch) and (not core or (axis == -2 and len(core) == 1))


def _of_encoded(a: Any, b: Any) -> Any:
    """The same of two ciphertexts, or of one and a plaintext."""
    ct, other = (a, b) if isinstance(a, CiphertextData) else (b, a)
    one, two = _shape(a), _shape(b)
    if a.layout.shape and b.layout.shape and isinstance(other, CiphertextData):
        return matmul.matmul(a, b)
    if (a.layout.shape and len(two) == 1) or (b.layout.shape and len(one) == 1):
        return _with_vector(a, b)
    across = _lies_across(a, -1), _lies_across(b, -2)
    in_slots = not any(across)
    if len(two) == 1 and in_slots:
        return reductions.dot(ct, other)
    if len(one) == 1 < len(two) and in_slots and isinstance(b, CiphertextData):
        return _contracted(b, a, len(two) - 2)
    if one == two and len(one) == 1 and across == (True, True):
        return tables.total(ct * other, 0, False)
    if across[0] and len(two) == 1 and a is ct:
        return _contracted(a, b, len(one) - 1)
    rows = "(x * y).sum(axis=-1) for the products of the rows of two batches, "
    raise ParameterError(
        f"A matrix product got {described_shape(*shapes_of(a))}, and "
        f"{described_shape(*shapes_of(b))}, encoded or encrypted: of shapes {one} and {two}.",
        "NumPy sums over the last axis of the first and the last but one of the second, if these "
        "have one size. A program sums over numbers that are in slots, or that fill them, in both.",
        f"Write {rows if min(len(one), len(two)) > 1 else ''}batch.dot(vector) for each vector of "
        "a batch, x.dot(y) for one column y of a matrix. Or keep one in the clear: ct @ matrix, "
        "matrix @ ct.",
    )


def _with_vector(a: Any, b: Any) -> Any:
    """a @ b of a matrix packed flat and a vector, as numpy.matmul; one of them is encrypted.

    Raises:
        ParameterError: another number of rows or columns, or a batch of vectors.
        DepthError: no level for the product, or for the sum along the axis.
    """
    m, v, axis = (a, b, -1) if a.layout.shape else (b, a, -2)
    shape, length = m.layout.shape, known_length(v)
    if v.layout.shape or is_columns(v) or batch_axes(v) or shape[axis] != length:
        raise ParameterError(
            f"A matrix of shape {shape}, packed flat, met {described_shape(*shapes_of(v))}.",
            f"Their product takes a vector of {shape[axis]} numbers here.",
            "Encrypt the vector alone, of that length.",
        )
    column = v if axis == -1 else with_fields(v, layout=attrs.evolve(v.layout, shape=(length, 1)))
    return tables.total(m * column if isinstance(m, CiphertextData) else column * m, axis, False)


@circuit("dot()", arithmetic, 2)
def _contracted(ct: CiphertextT, w: Any, place: int) -> CiphertextT:
    size, rank = ct.shape[place], len(ct.shape)
    given = _shape(w)
    if given != (size,) or isinstance(w, Plaintext):
        raise ParameterError(
            f"dot() got a table of shape {ct.shape}, and what it meets along axis {place} has the "
            f"shape {given}.",
            f"It takes one number for each of the {size} places there, as an array or a "
            "ciphertext.",
            f"Write x.dot(w, axis={rank - 2}) for one number for each row, or w @ x."
            if is_columns(ct) and place == rank - 1 and given == (ct.shape[rank - 2],)
            else "Pass a vector of that length; tables are multiplied by `x @ matrix`.",
        )
    if not isinstance(w, CiphertextData):
        is_beside = place != rank - 2 if is_columns(ct) else place < len(batch_axes(ct))
        result = _mixed(ct, w, place) if is_beside else None
        if result is None:
            need_level(ct, 1, "dot()")
            # Those of the last axis may be known later.
            last = place == rank - 1
            result = ct * (w if last else numbers_of(w).reshape(size, *(1,) * (rank - 1 - place)))
        return tables.total(result, place, False)
    need_level(ct, 1, "dot()")
    if is_columns(ct) and place == rank - 2:  # an encrypted column
        return reductions.total(ct * evolve_layout(stack([w]), columns=True))
    if is_columns(ct) and rank == 2 and w.layout.length is None:
        return reduce(add, (x * y for x, y in zip(unstack(ct), unstack(w), strict=True)))
    if is_columns(ct) and ct.shape[-2] == size:
        raise ParameterError(
            f"dot() got a square table of shape {ct.shape} and an encrypted vector.",
            "It is by its columns: the product takes an encrypted number for each of them.",
            "Write w @ x, which is x.T @ w: the same for a symmetric table.",
        )
    raise ParameterError(
        f"dot() got a table of shape {ct.shape} and an encrypted vector along axis {place}.",
        "Of a table by its columns it takes an encrypted column, or a number for each column.",
        "Encrypt the table with pack='columns', and each number, ckks.stack([ctx.encrypt(v) for v "
        "in w]); or multiply by a vector in the clear.",
    )


def _weighted(ct: CiphertextT, matrix: Any, place: int) -> CiphertextT:
    """Sums over a batch axis times each column of a matrix, or times a vector: no rotation."""
    m = matrix if is_tracer(matrix) else numbers_of(matrix)
    if m.ndim == 1:
        return _contracted(ct, m, place)
    if m.ndim != 2 or m.shape[0] != ct.shape[place]:
        raise ParameterError(
            f"A table of shape {ct.shape} was multiplied by an array of shape {m.shape}.",
            f"The sum is over its axis {place}, of {ct.shape[place]}: as many rows of the array.",
            "Write batch @ matrix.T for a product with each vector, or transpose the array."
            if m.ndim == 2 and m.shape[0] == known_length(ct) and not is_columns(ct)
            else "Transpose the array, or pass a vector for each column of the result.",
        )
    result = _mixed(ct, m.T, place)
    if result is None:
        sums = [_contracted(ct, m[:, j], place) for j in range(m.shape[1])]
        result = stacked_at(sums, _batch_axis(ct, place))
    return with_type(evolve_layout(result, columns=is_columns(ct)), of_result(ct, matrix))


def _batch_axis(ct: CiphertextData, place: int) -> int:
    """The batch axis that an axis of the shape is; that of columns is the last of both."""
    return min(place, len(batch_axes(ct)) - 1)


def _mixed(ct: CiphertextT, matrix: Any, place: int) -> CiphertextT | None:
    """The rows of a matrix, or one row, times a batch axis; zeros stay beyond the length.

    None for numbers that are known later or are complex. None for leftovers too: products with
    arrays clear them, where a later operation would take a level for that.
    """
    tail, is_clear = ct.layout.tail, ct.layout.tail.is_zero or fills_slots(ct)
    if isinstance(matrix, Symbolic) or is_tracer(matrix) or (tail.has_leftovers and not is_clear):
        return None
    w = np.atleast_2d(as_numbers(matrix))
    if w.dtype.kind not in "biuf" or not w.size or not np.isfinite(w).all():
        return None
    rows = mixing.Rows(w, _batch_axis(ct, place))
    if is_clear:
        return mixing.mixed(normal(ct), rows)
    with numbers_of_user():  # the number there goes, and comes back where the numbers are
        sums = w.sum(1).reshape(-1, *(1,) * (len(ct.shape) - 1 - place))
        return mixing.mixed(normal(ct - tail.value), rows) + tail.value * sums
