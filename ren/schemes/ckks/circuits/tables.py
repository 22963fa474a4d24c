"""Sums, means and products along one axis of a table, in each of its packings.

The axes of a ciphertext are its batch axes, then those of the numbers in its slots. In a table by
its columns the last batch axis comes last. Along a batch axis ciphertexts are added, with no
rotation. Along the axis of a vector it is a sum over the slots. Of a table packed flat, the first
axis is a sum of rotations. Others are a product with a matrix of zeros and ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import attrs
import numpy as np

from ren.core.errors import ParameterError
from ren.schemes.ckks.arithmetic.argument_checks import as_integer
from ren.schemes.ckks.arithmetic.automatic import add, multiply_plain
from ren.schemes.ckks.arithmetic.evolve import (
    evolve_layout,
    need_level,
    relabelled,
    within_that_of,
)
from ren.schemes.ckks.arithmetic.number_types import arithmetic, floating, with_type
from ren.schemes.ckks.arithmetic.operation_hooks import circuit
from ren.schemes.ckks.arithmetic.rotation import cleared, cyclic, has_to_be_cleared
from ren.schemes.ckks.arithmetic.shapes import axis_of, batch_axes, described_shape, shapes_of
from ren.schemes.ckks.circuits import linear, mixing, reductions, shaping
from ren.schemes.ckks.circuits.entries import Entries, numbers_of
from ren.schemes.ckks.circuits.shaping import blocks_of, reshaped, rotations_summed
from ren.schemes.ckks.circuits.stacking import stack, unstack
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    is_columns,
    known_length,
    with_fields,
)
from ren.schemes.ckks.encoding.encoder import as_numbers, rank_of
from ren.schemes.ckks.encoding.layout import COPIES, LEFTOVERS
from ren.schemes.ckks.encoding.plaintext import Plaintext, encode
from ren.schemes.ckks.noise import bounds as noises

Reduction = Callable[[CiphertextT], CiphertextT]


@circuit("sum()")
def total(ct: CiphertextT, axis: int | None, keepdims: bool) -> CiphertextT:
    """numpy.sum along an axis; of each vector of a batch, or of all numbers of a table."""
    return _reduced(ct, axis, keepdims, "sum()", reductions.total, None)


@circuit("mean()", floating)
def mean(ct: CiphertextT, axis: int | None, keepdims: bool) -> CiphertextT:
    """numpy.mean along an axis: one level; else as `total`."""
    place = axis_of(ct, axis, "mean()")
    count = math.prod(ct.shape[-2:]) if place is None else ct.shape[place]
    return _reduced(ct, axis, keepdims, "mean()", reductions.mean, 1 / count)


def shared_total(ct: CiphertextT, axis: int, keepdims: bool, share: float) -> CiphertextT:
    """`share` times the sum along a batch axis, or along an axis of a table packed flat."""
    return _reduced(ct, axis, keepdims, "sum()", reductions.total, share)


def _reduced(
    ct: CiphertextT,
    axis: int | None,
    keepdims: bool,
    what: str,
    of_vectors: Reduction,
    share: float | None,
) -> CiphertextT:
    """The sum along an axis, or that times `share`; `of_vectors` is the same of each vector."""
    place = axis_of(ct, axis, what)
    if place is None and not is_columns(ct):
        check_no_numbers_apart(ct, what)
        return _kept_axes(of_vectors(ct), ct, keepdims)
    if place is None:
        summed = _times(reductions.total(_along_batch(ct, len(ct.shape) - 2)), share)
        return _kept_axes(summed, ct, keepdims)
    batch, core = map(len, shapes_of(ct))
    first = batch - is_columns(ct)  # the axes of vectors begin there
    if is_columns(ct) and place == first:
        result = of_vectors(ct)
        kept = evolve_layout(relabelled(result, 1, COPIES), columns=True)
        return kept if keepdims else result
    if place < first or is_columns(ct):
        if share is not None:
            need_level(ct, 1, what)
        at = min(place, batch - 1)
        summed = _times(_along_batch(ct, at), share)
        return _with_batch_axis(summed, at, is_columns(ct)) if keepdims else summed
    if core == 1:
        return _kept_axes(of_vectors(ct), ct, keepdims)
    return _along_slots(ct, place - batch, keepdims, what, share)


def check_no_numbers_apart(ct: CiphertextData, what: str) -> None:
    """Raises ParameterError for a batch of single numbers: NumPy takes them together."""
    batch, core = shapes_of(ct)
    if batch and not core:
        raise ParameterError(
            f"{what} got a batch of shape {batch}, of one number each, and no axis.",
            "Without an axis it takes the numbers of each ciphertext together, here one.",
            "Pass axis=-1 to take the numbers of the batch together.",
        )


def _times(ct: CiphertextT, share: float | None) -> CiphertextT:
    return ct if share is None else ct * share


def _kept_axes(result: CiphertextT, ct: CiphertextT, keepdims: bool) -> CiphertextT:
    """A number in every slot; with `keepdims` as an array of as many axes as those summed."""
    rank = len(shapes_of(ct)[1]) + is_columns(ct)
    if not keepdims or not rank:
        return result
    result = relabelled(result, 1, COPIES)
    return reshaped(result, (1,) * rank) if rank > 1 else result


def _along_batch(ct: CiphertextT, place: int) -> CiphertextT:
    """The sum along a batch axis."""
    parts = unstack(ct)
    if place:
        return stack([_along_batch(part, place - 1) for part in parts])
    return reduce(add, parts)


def _with_batch_axis(ct: CiphertextT, place: int, columns: bool) -> CiphertextT:
    """The same with a batch axis of size 1 put in, the last one that of columns."""
    if place:
        return stack([_with_batch_axis(part, place - 1, columns) for part in unstack(ct)])
    return evolve_layout(stack([ct]), columns=columns)


def _along_slots(
    ct: CiphertextT, place: int, keepdims: bool, what: str, share: float | None
) -> CiphertextT:
    """The sum along an axis of numbers that stand one after another in C order."""
    _, shape = shapes_of(ct)
    outer, count, inner = math.prod(shape[:place]), shape[place], math.prod(shape[place + 1 :])
    left = shape[:place] + (1,) * keepdims + shape[place + 1 :]
    if outer == 1 and inner <= ct.slots:
        result = _columns_summed(ct, count, inner, what, share)
    else:
        need_level(ct, 1, what)
        out = np.arange(outer * inner)
        source = (out // inner * count + np.arange(count)[:, None]) * inner + out % inner
        values = np.full(source.size, 1.0 if share is None else share)
        rows = np.tile(out, count)
        ones = Entries(values, (outer * inner, outer * count * inner), (rows, source.ravel()))
        result = linear.encoded(ones, ct.params, ct.level) @ ct
    return evolve_layout(result, shape=left if len(left) > 1 else None)


def _columns_summed(
    ct: CiphertextT, count: int, width: int, what: str, share: float | None
) -> CiphertextT:
    """The sum of `count` rows of `width` numbers that stand one after another.

    Rows that lie across two blocks are put together first, which takes a level.
    """
    per_block = ct.slots // width
    is_cut = ct.layout.blocks > 1 and ct.slots % width != 0
    masked = has_to_be_cleared(ct)
    need_level(ct, 1 if is_cut else (share is not None) + masked, what)
    if is_cut:
        blocks = enumerate(blocks_of(ct))
        parts = [run for i, x in blocks for run in _runs(x, i, count * width, width, share or 1.0)]
    else:
        parts = blocks_of(cleared(evolve_layout(ct, shape=None), what))
    terms = min(count, per_block)
    result = rotations_summed(reduce(add, parts), terms, width)
    result = relabelled(result, width, LEFTOVERS, ct.layout.is_complex)
    result = result if is_cut else _times(result, share)
    largest = noises.of_largest(ct.noise, ct.layout.blocks)
    return within_that_of(result, largest, count * (share or 1.0))


def _runs(
    x: CiphertextT, block: int, length: int, width: int, share: float
) -> Iterator[CiphertextT]:
    """The numbers of a block in parts, each rotated so that rows begin at multiples of `width`.

    Beyond the last multiple that the slots hold, numbers go to the front in a part of their own.
    There are two parts, or three where the slots hold no two rows.
    """
    phase, place = block * x.slots % width, np.arange(x.slots)
    whole = x.slots // width * width
    end = min(x.slots, length - block * x.slots)
    for first in range(-phase, end, whole):
        inside = share * ((first <= place) & (place < min(first + whole, end)))
        yield cyclic(multiply_plain(x, encode(inside, x.params, x.level, bound=share)), first)


# ------------------------------------------------------------------- products


def dot(ct: CiphertextT, w: Any, axis: int | None) -> CiphertextT:
    """sum_i x_i w_i along an axis, the last one by default: one level.

    Args:
        ct: x; a vector, a batch of them, or a table.
        w: as many numbers as there are along the axis: an array, a plaintext or a ciphertext.
        axis: of x.
    """
    place = axis_of(ct, axis, "dot()")
    rank, (batch, core) = len(ct.shape), map(len, shapes_of(ct))
    if place is None and isinstance(w, CiphertextData | Plaintext) and w.layout.shape:
        if isinstance(w, Plaintext):
            raise ParameterError(
                f"dot() got a plaintext of shape {w.layout.shape}.",
                "A matrix on the right is one of a matrix product, as in numpy.dot.",
                "Write ct @ matrix, with the array; or (ct * plaintext).sum() for one sum.",
            )
        return ct @ w  # as in numpy.dot
    if place is None and isinstance(w, CiphertextData) and is_columns(w) and rank == 1:
        return ct @ w
    if is_row_of_numbers(ct):
        return _of_numbers(ct, w)
    if core > 1 and place in (None, rank - 1):  # of the rows of a matrix
        if isinstance(w, CiphertextData | Plaintext):
            if not w.layout.shape and known_length(w) == ct.shape[-1]:
                return with_vector(ct, w)
        elif rank_of(w) == 1 or place is not None:
            return _with_rows(ct, w)
    if not is_columns(ct) and (place is None or (core == 1 and place == batch)):
        return reductions.dot(ct, w)
    return _contracted(ct, w, rank - 1 if place is None else place)


def is_row_of_numbers(ct: CiphertextData | Plaintext) -> bool:
    """True for one axis of encrypted numbers, as a row of a table by its columns is."""
    return known_length(ct) is None and len(batch_axes(ct)) == 1


def refuse_matrices(a: Any, b: Any) -> None:
    """Raise for two matrices, encoded or encrypted, that are not both packed flat."""
    shapes = [x.shape if isinstance(x, CiphertextData) else sum(shapes_of(x), ()) for x in (a, b)]
    if min(map(len, shapes)) > 1:
        raise ParameterError(
            f"Matrices of shapes {shapes[0]} and {shapes[1]}, encoded or encrypted, met in a "
            "product.",
            "Square ones of one size, packed flat, have one: ckks.matmul(a, b).",
            "Write x.dot(column) for each column of the matrix: x with pack='rows', the column as "
            "a vector. Or keep one of them in the clear: x @ matrix.",
        )


def with_vector(a: Any, b: Any) -> Any:
    """a @ b of a matrix packed flat and a vector, as numpy.matmul; one of them is encrypted.

    Raises:
        ParameterError: another number of rows or columns, or a batch of vectors.
        DepthError: no level for the product, or for the sum along the axis.
    """
    refuse_matrices(a, b)
    m, v, axis = (a, b, -1) if a.layout.shape else (b, a, -2)
    shape, length = m.layout.shape, known_length(v)
    if v.layout.shape or is_columns(v) or batch_axes(v) or shape[axis] != length:
        raise ParameterError(
            f"A matrix of shape {shape}, packed flat, met {described_shape(*shapes_of(v))}.",
            f"Their product takes a vector of {shape[axis]} numbers here.",
            "Encrypt the vector alone, of that length.",
        )
    column = v if axis == -1 else with_fields(v, layout=attrs.evolve(v.layout, shape=(length, 1)))
    return total(m * column if isinstance(m, CiphertextData) else column * m, axis, False)


def _of_numbers(ct: CiphertextT, w: Any) -> CiphertextT:
    """The product of encrypted numbers, one in each ciphertext, with as many, or with a matrix."""
    is_encoded = isinstance(w, CiphertextData | Plaintext)
    shape = sum(shapes_of(w), ()) if is_encoded else np.shape(w)
    if len(shape) == 2 and not is_encoded:
        return mixing.mix(w.T if hasattr(w, "T") else np.transpose(w), ct)
    if shape != ct.shape or (is_encoded and not is_row_of_numbers(w)):
        raise ParameterError(
            f"dot() got {ct.shape[0]} encrypted numbers, one in each ciphertext, and "
            f"{'encrypted or encoded ' * is_encoded}numbers of shape {shape}.",
            f"It takes {ct.shape[0]} numbers in the clear, or as many ciphertexts of one number.",
            "Pass as many. Encrypt each by itself: ckks.stack([ctx.encrypt(v) for v in w]).",
        )
    return total(ct * w, 0, False)


def _with_rows(ct: CiphertextT, w: Any) -> CiphertextT:
    """The product of each row of a matrix with a vector, by diagonals."""
    result = linear.product(numbers_of(w)[:, None], ct, is_transposed=True)
    return reshaped(result, (result.layout.shape or ())[:-1])


@circuit("dot()", arithmetic, 2)
def _contracted(ct: CiphertextT, w: Any, place: int) -> CiphertextT:
    size, rank = ct.shape[place], len(ct.shape)
    given = tuple(w.shape) if hasattr(w, "shape") else np.shape(w)
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
    need_level(ct, 1, "dot()")
    if not isinstance(w, CiphertextData):
        if place == rank - 1:  # where numbers may be known later
            return total(ct * w, place, False)
        factors = as_numbers(w).reshape(size, *(1,) * (rank - 1 - place))
        return total(ct * factors, place, False)
    if is_columns(ct) and place == rank - 2:  # an encrypted column
        return reductions.total(ct * evolve_layout(stack([w]), columns=True))
    if is_columns(ct) and w.layout.length is None:
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


def product(ct: CiphertextT, matrix: Any) -> CiphertextT:
    """ct @ matrix for a table by its columns: sums of columns, one level, no rotation."""
    m = numbers_of(matrix)
    if m.ndim != 2 or m.shape[0] != ct.shape[-1]:
        raise ParameterError(
            f"A table of shape {ct.shape} was multiplied by an array of shape {m.shape}.",
            f"The matrix has one row for each of the {ct.shape[-1]} columns.",
            "Transpose it, or pass a vector for each column of the result.",
        )
    results = [dot(ct, m[:, j], None) for j in range(m.shape[1])]
    return evolve_layout(_stacked_last(results), columns=True)


def _stacked_last(parts: list[CiphertextT]) -> CiphertextT:
    """The ciphertexts along a new last batch axis."""
    if not shapes_of(parts[0])[0]:
        return stack(parts)
    return stack([_stacked_last(list(row)) for row in zip(*map(unstack, parts), strict=True)])


# ------------------------------------------------------------------- items


def item(ct: CiphertextT, index: Any) -> CiphertextT:
    """ct[index]: rows of a table or of a batch, columns of a table by them, slices of a vector."""
    batch, core = map(len, shapes_of(ct))
    places = index if isinstance(index, tuple) else (index,)
    if not places or (len(places) == 1 and places[0] is Ellipsis):
        return ct
    if any(isinstance(i, str) for i in places):
        raise ParameterError(
            f"A ciphertext of shape {ct.shape} was indexed by {index!r:.60}.",
            "The names of columns, as a DataFrame has them, are not encrypted: they stay with it.",
            "Write m[:, list(frame).index(name)]; DataFrame(m.decrypt(), columns=list(frame)).",
        )
    if batch + core > 1 and any(i is None or np.ndim(i) for i in places):
        raise _no_item(ct, index)
    if is_columns(ct):
        return _of_columns(ct, index)
    if isinstance(index, tuple):
        if batch == core == 1 and index[0] == slice(None):
            index = (Ellipsis, *index[1:])
        if batch + core > 1 and index[0] is not Ellipsis:
            raise _no_item(ct, index)
        return shaping.item(ct, index)
    if batch:
        return _picked(ct, index)
    if core > 1 and not isinstance(index, slice):
        row = _place(ct, index, 0)
        return reshaped(shaping.item(ct, slice(row, row + 1)), ct.shape[1:])
    return shaping.item(ct, index)


def _of_columns(ct: CiphertextT, index: Any) -> CiphertextT:
    """m[i], m[i:j], m[:, j] or m[:, i:j] of a table by its columns, without other batch axes."""
    given = index if isinstance(index, tuple) else (index,)
    if given and given[0] is Ellipsis:
        given = (slice(None), *given[1:])
    if len(ct.shape) > 2 or len(given) > 2:
        raise _no_item(ct, index)
    rows, columns = (*given, slice(None))[:2]
    if not (isinstance(columns, slice) and columns == slice(None)):
        ct = _picked(ct, columns)
    if not isinstance(rows, slice):
        place = _place(ct, rows, 0)
        number = reductions.total(_cut(ct, slice(place, place + 1)))
        return with_type(number, ct.stated_dtype)
    return ct if rows == slice(None) else _cut(ct, rows)


def _cut(ct: CiphertextT, rows: slice) -> CiphertextT:
    """The numbers of each vector from one place to another: one rotation."""
    columns = ct.layout.columns
    return evolve_layout(shaping.item(ct, (Ellipsis, rows)), columns=columns)


def _picked(ct: CiphertextT, index: Any) -> CiphertextT:
    """Ciphertexts of the first batch axis: no rotation."""
    if isinstance(index, slice):
        parts = unstack(ct)[slice(*(k if k is None else as_integer(k, "A slice")
                                    for k in (index.start, index.stop, index.step)))]  # fmt: skip
        if not parts:
            raise _no_item(ct, index)
        return evolve_layout(stack(parts), columns=ct.layout.columns)
    return unstack(ct)[_place(ct, index, -1 if is_columns(ct) else 0)]


def _place(ct: CiphertextData, index: Any, axis: int) -> int:
    """An index along an axis, counted from 0; from the end where it is negative."""
    place, size = as_integer(index, "An index"), ct.shape[axis]
    if not -size <= place < size:
        raise ParameterError(
            f"A ciphertext of shape {ct.shape} was indexed by {place}.",
            f"There are {size} along that axis.",
            f"Pass an index from {-size} to {size - 1}.",
        )
    return place % size


def _no_item(ct: CiphertextData, index: Any) -> ParameterError:
    return ParameterError(
        f"A ciphertext of shape {ct.shape} was indexed by {index!r:.60}.",
        "It gives rows, m[i] and m[i:j], at least one; by columns also m[:, j] and m[:, i:j].",
        _instead_of(ct, index),
    )


def _instead_of(ct: CiphertextData, index: Any) -> str:
    """The code in place of an index that takes several axes, or none."""
    places = index if isinstance(index, tuple) else (index,)
    are_numbers = all(isinstance(i, int | np.integer) for i in places)
    count, width = len(ct.shape), ct.shape[-1]
    if any(i is None for i in places):
        if len(places) > 1:
            return "Leave None out. m[None] is ckks.stack([m])."
        is_flat = ct.layout.has_shape
        return f"Write {'m.reshape(1, *m.shape)' if is_flat else 'ckks.stack([m])'} for m[None]."
    if is_columns(ct) and count == 2:
        rows = f"np.eye({ct.shape[0]})[[i, j]] @ m for some of its rows"
        columns = f"m @ np.eye({width})[:, [i, j]] for some of its columns"
        return f"Write {columns if len(places) > 1 else rows}."
    if is_columns(ct):
        return "Write ckks.unstack(m)[i] for one table of the batch, and index that one."
    if are_numbers and len(places) == count:
        *rows, last = places
        row = "".join(f"[{i}]" for i in rows)
        end = f"{last} : {last + 1}" if last != -1 else "-1:"
        return f"Write m{row}[{end}] for one number."
    if are_numbers:
        return f"Write m{''.join(f'[{i}]' for i in places)}, an axis at a time."
    if count > 2:
        return "Write m[i][j], an axis at a time, and ckks.stack([m[i][j] for i in range(len(m))])."
    if len(places) == 1:
        return "Write ckks.stack([m[i] for i in order]) for rows in an order."
    return (
        f"Write m[i:j] @ np.eye({width})[:, k:l] for a part of each row, and "
        f"m @ np.eye({width})[j] for one column. A table that is encrypted with "
        "pack='columns' has m[i:j, k:l]."
    )
