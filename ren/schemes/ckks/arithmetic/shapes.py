"""Batch axes and axes of the numbers in the slots, and the `axis` of methods as NumPy's.

A scalar has no axis of numbers, a vector one, a reshaped vector more.
"""

from __future__ import annotations

from typing import Any

from ren.core.errors import OperandError, ParameterError
from ren.schemes.ckks.arithmetic.argument_checks import as_integer
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    batch_of,
    is_columns,
    known_length,
)
from ren.schemes.ckks.encoding.plaintext import Plaintext
from ren.schemes.ckks.encoding.table_advice import affordable

Shape = tuple[int, ...]


def shapes_of(x: Any) -> tuple[Shape, Shape]:
    """The batch axes of a ciphertext or a plaintext, and the axes of its numbers."""
    length = known_length(x)
    if length is None:
        return batch_axes(x), ()
    return batch_axes(x), x.layout.shape if x.layout.has_shape else (length,)


def batch_axes(x: Any) -> Shape:
    """The batch axes of a ciphertext or a plaintext, without that of blocks."""
    axes = x.wide.shape[:-2] if isinstance(x, Plaintext) else batch_of(x)
    return axes[:-1] if x.layout.blocks > 1 else axes


def shape_text(x: Any) -> str:
    """The shape of a ciphertext, and which of its axes are in the slots, for errors."""
    if is_columns(x):
        return f"{x.shape}, a table by its columns"
    return described_shape(*shapes_of(x))


def described_shape(batch: Shape, core: Shape) -> str:
    """The same from batch axes and axes of the numbers in the slots."""
    kind = ("number", "vector", "matrix")[len(core)] if len(core) < 3 else "array"
    plural = {"matrix": "matrices"}.get(kind, f"{kind}s")
    return f"{(*batch, *core)}, {f'a batch of {plural}' if batch else f'one {kind}'}"


def reshape_text(x: Any, sizes: str = "-1") -> str:
    """The code that shapes each vector of a ciphertext anew, for errors."""
    return f"ct.reshape({''.join(f'{size}, ' for size in shapes_of(x)[0])}{sizes})"


def count_text(length: int | None) -> str:
    """`8 numbers`, or `a scalar` where the length is None, for errors."""
    return "a scalar" if length is None else f"{length} numbers"


def axis_of(x: CiphertextData, axis: Any, what: str) -> int | None:
    """The axis of x.shape that a method computes along, from 0 on; None for none.

    Raises ParameterError where there is none such. `what` is the method, as `sum()`.
    """
    if axis is None:
        return None
    rank = sum(map(len, shapes_of(x)))
    try:
        place = rank if isinstance(axis, bool) else as_integer(axis, what)
    except OperandError:  # a tuple, for example
        place = rank
    if -rank <= place < rank:
        return place % rank
    last = f"It is one integer from {-rank} to {rank - 1}." if rank else "A number has no axis."
    raise ParameterError(
        f"{what} got axis={axis!r:.40} and a ciphertext of shape {x.shape}.",
        last,
        "Leave the axis out, or call it for one axis after another.",
    )


# By method: along a batch axis; along the first and along the last axis of a matrix of k there.
_REMEDIES = {
    "any()": (
        "functools.reduce(operator.or_, ckks.unstack(ct))",
        "functools.reduce(operator.or_, [ct[i] for i in range({k})])",
        "ct[i].any() for each row i",
    ),
    "all()": (
        "functools.reduce(operator.and_, ckks.unstack(ct))",
        "functools.reduce(operator.and_, [ct[i] for i in range({k})])",
        "ct[i].all() for each row i",
    ),
    "cumsum()": (
        "list(itertools.accumulate(ckks.unstack(ct)))",
        "np.tril(np.ones(({k}, {k}))) @ ct",
        "ct @ np.triu(np.ones(({k}, {k})))",
    ),
    "roll()": (
        "ckks.stack(parts[-shift:] + parts[:-shift]) of parts = ckks.unstack(ct)",
        "np.roll(np.eye({k}), shift, axis=0) @ ct",
        "ct @ np.roll(np.eye({k}), shift, axis=1)",
    ),
}


def check_axis(x: CiphertextData, axis: Any, what: str) -> None:
    """Raise ParameterError unless `axis` is None, or that of the numbers of a vector.

    `what` is the method: `cumsum()`, `roll()`, `any()` or `all()`.
    """
    place = axis_of(x, axis, what)
    if place is None:
        remedy = f"Write {_REMEDIES[what][0]}, for the numbers of the batch."
        check_no_numbers_apart(x, what, remedy)
    if is_columns(x):
        if place == len(x.shape) - 2:
            return
        raise ParameterError(
            f"{what} got axis={axis!r:.40} and a table by its columns, of shape {x.shape}.",
            "It computes along the columns, each of which is a vector.",
            f"Pass axis={len(x.shape) - 2}, or take the columns apart: ckks.unstack(ct).",
        )
    if place is None:
        return
    batch, rank = map(len, shapes_of(x))
    if rank == 1 and place == batch:
        return
    if place < batch:
        needed = "That is a batch axis: its vectors are ciphertexts side by side."
        remedy = f"Write {_REMEDIES[what][0]}."
    else:
        needed = "The numbers of all its axes stand one after another, as one vector."
        remedy = f"Make it a table first, with axis=1: ct.reshape(-1, {x.shape[-1]})."
        if place != batch + rank - 1:
            remedy = "Encrypt it with that axis as the last one, or each part by itself."
        if rank == 2 and not batch:
            product = _REMEDIES[what][1 + place].format(k=x.shape[place])
            product += ", a product with a matrix" * ("@" in product)
            remedy = f"Write {affordable(product, x.shape)}."
    raise ParameterError(
        f"{what} got axis={axis!r:.40} and a ciphertext of shape {x.shape}.", needed, remedy
    )


def check_no_numbers_apart(
    x: CiphertextData,
    what: str,
    remedy: str = "Pass axis=-1 to take the numbers of the batch together.",
) -> None:
    """Raise ParameterError for a batch of single numbers: NumPy takes them together."""
    batch, core = shapes_of(x)
    if batch and not core:
        raise ParameterError(
            f"{what} got a batch of shape {batch}, of one number each, and no axis.",
            "Without an axis it takes the numbers of each ciphertext together, here one.",
            remedy,
        )


def refuse_columns(x: CiphertextData, what: str) -> None:
    """Raise ParameterError where `x` is a table by its columns."""
    if is_columns(x):
        raise ParameterError(
            f"{what} got a table by its columns, of shape {x.shape}.",
            "Each column is a ciphertext of its own; it computes on vectors and on tables packed "
            "flat.",
            "Encrypt it with pack='flat', or take the columns apart: ckks.unstack(ct).",
        )


def check_is_in_slots(x: CiphertextData) -> None:
    """Raise where each number fills the slots of its own ciphertext: rotations move nothing."""
    if x.layout.length is None and batch_axes(x):
        raise ParameterError(
            f"rotate() got a ciphertext of shape {x.shape}, whose numbers fill the slots each.",
            "Rotations move numbers from slot to slot, and these are ciphertexts side by side.",
            "Put them in another order: x = ckks.unstack(ct), then ckks.stack(x[k:] + x[:k]).",
        )


def check_not_flattened(x: CiphertextData, axis: Any) -> None:
    """Raise where a batch is rolled without an axis: NumPy would roll all its numbers as one."""
    if axis is None and batch_axes(x) and not is_columns(x):
        raise ParameterError(
            f"roll() got a batch, a ciphertext of shape {x.shape}, and no axis.",
            "numpy.roll without an axis moves numbers from one vector to the next.",
            "Write ct.roll(shift, axis=-1), which rolls each vector."
            if x.layout.length is not None
            else "Put its ciphertexts in another order: x = ckks.unstack(ct), then "
            "ckks.stack(x[-k:] + x[:-k]).",
        )
