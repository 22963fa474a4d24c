"""Sums, means and products along one axis of a table, in each of its packings.

The axes of a ciphertext are its batch axes, then those of the numbers in its slots. In a table by
its columns the last batch axis comes last. Along a batch axis ciphertexts are added, with no
rotation. Along the axis of a vector it is a sum over the slots. Of a table packed flat, the first
axis is a sum of rotations. Others are a product with a matrix of zeros and ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from ren.core.errors import ParameterError
from ren.schemes.ckks.arithmetic.argument_checks import as_integer
from ren.schemes.ckks.arithmetic.automatic import add
from ren.schemes.ckks.arithmetic.evolve import evolve_layout, need_level, relabelled, within_that_of
from ren.schemes.ckks.arithmetic.number_types import floating, with_type
from ren.schemes.ckks.arithmetic.operation_hooks import circuit
from ren.schemes.ckks.arithmetic.rotation import cleared, has_to_be_cleared, rotations_summed
from ren.schemes.ckks.arithmetic.shapes import axis_of, check_no_numbers_apart, shapes_of
from ren.schemes.ckks.circuits import reductions, shaping
from ren.schemes.ckks.circuits.linear import encoded
from ren.schemes.ckks.circuits.moves import moved
from ren.schemes.ckks.circuits.shaping import reshaped
from ren.schemes.ckks.circuits.stacking import blocks_of, stack, stacked_at, unstack
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT, is_columns
from ren.schemes.ckks.encoding.layout import COPIES, LEFTOVERS
from ren.schemes.ckks.encoding.table_advice import affordable
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.slots.entries import Entries
from ren.schemes.slots.planner import LinearIndexMap, sums

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
        if not keepdims:
            return summed
        return evolve_layout(stacked_at([summed], at), columns=is_columns(ct))
    if core == 1:
        return _kept_axes(of_vectors(ct), ct, keepdims)
    return _along_slots(ct, place - batch, keepdims, what, share)


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


def _along_slots(
    ct: CiphertextT, place: int, keepdims: bool, what: str, share: float | None
) -> CiphertextT:
    """The sum along an axis of numbers that stand one after another in C order."""
    _, shape = shapes_of(ct)
    outer, count, inner = math.prod(shape[:place]), shape[place], math.prod(shape[place + 1 :])
    left = shape[:place] + (1,) * keepdims + shape[place + 1 :]
    if outer == 1 and inner <= ct.slots and ct.layout.blocks > 1:
        result = _columns_summed(ct, count, inner, what, share)
    else:
        along = _sums_along(outer, count, inner, 1.0 if share is None else share)
        result = moved(ct, along, what)
    return evolve_layout(result, shape=left if len(left) > 1 else None)


@lru_cache(maxsize=64)
def _sums_along(outer: int, count: int, inner: int, weight: float) -> LinearIndexMap:
    """`weight` times the sums along the middle axis of an array [outer, count, inner]."""
    out = np.arange(outer * inner)[:, None]
    source = (out // inner * count + np.arange(count)) * inner + out % inner
    return sums(source, outer * count * inner, weight)


def _columns_summed(
    ct: CiphertextT, count: int, width: int, what: str, share: float | None
) -> CiphertextT:
    """The sum of `count` rows of `width` numbers that stand one after another, in several blocks.

    Rows that lie across two blocks are put together first, which takes a level.
    """
    whole, size = ct.slots // width * width, count * width
    largest = noises.of_largest(ct.noise, ct.layout.blocks)
    is_cut, place = whole < ct.slots, np.arange(size)
    need_level(
        ct, int(is_cut or share is not None), what, clearing=not is_cut and has_to_be_cleared(ct)
    )
    if is_cut:
        aligned = Entries(np.full(size, share or 1.0), (whole, size), (place % whole, place))
        ct = encoded(aligned, ct.params, ct.level) @ evolve_layout(ct, shape=None)
    else:
        ct = cleared(evolve_layout(ct, shape=None), what)
    result = rotations_summed(reduce(add, blocks_of(ct)), min(count, whole // width), width)
    result = relabelled(result, width, LEFTOVERS, ct.layout.is_complex)
    result = result if is_cut else _times(result, share)
    return within_that_of(result, largest, count * (share or 1.0))


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
        rows = (
            f"m * mask[:, None], zeros in the other rows, of a mask; (np.arange({ct.shape[0]}) == "
            "[[i], [j]]) @ m for some of its rows"
        )
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
        return (
            "Write ckks.stack([m[i] for i in order]) for a few rows in an order; m * mask[:, None] "
            "has zeros in the other rows of a mask."
        )
    return (
        "Write "
        + affordable(
            f"m[i:j] @ np.eye({width})[:, k:l] for a part of each row, and "
            f"m @ np.eye({width})[j] for one column",
            ct.shape,
        )
        + ". A table that is encrypted with pack='columns' has m[i:j, k:l]."
    )
