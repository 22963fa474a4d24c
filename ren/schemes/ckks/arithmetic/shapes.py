"""Batch axes and axes of the numbers in the slots, and the `axis` of methods as NumPy's.

A scalar has no axis of numbers, a vector one, a reshaped vector more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ren.core.errors import OperandError, ParameterError
from ren.schemes.ckks.arithmetic.argument_checks import as_integer
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, known_length
from ren.schemes.ckks.encoding.plaintext import Plaintext

Shape = tuple[int, ...]


def shapes_of(x: Any) -> tuple[Shape, Shape]:
    """The batch axes of a ciphertext or a plaintext, and the axes of its numbers."""
    length = known_length(x)
    if length is None:
        return batch_axes(x), ()
    return batch_axes(x), x.layout.shape if x.layout.has_shape else (length,)


def batch_axes(x: Any) -> Shape:
    """The batch axes of a ciphertext or a plaintext, without that of blocks."""
    polys = (x.wide,) if isinstance(x, Plaintext) else x.polys
    axes = np.broadcast_shapes(*(p.shape[:-2] for p in polys))
    return axes[:-1] if x.layout.blocks > 1 else axes


def shape_text(x: Any) -> str:
    """The shape of a ciphertext, and which of its axes are in the slots, for errors."""
    return described_shape(*shapes_of(x))


def described_shape(batch: Shape, core: Shape) -> str:
    """The same from batch axes and axes of the numbers in the slots."""
    kind = ("number", "vector", "matrix")[len(core)] if len(core) < 3 else "array"
    plural = {"matrix": "matrices"}.get(kind, f"{kind}s")
    return f"{(*batch, *core)}, {f'a batch of {plural}' if batch else f'one {kind}'}"


def count_text(length: int | None) -> str:
    """`8 numbers`, or `a scalar` where the length is None, for errors."""
    return "a scalar" if length is None else f"{length} numbers"


# By method: along a batch axis; along the first and along the last axis of a matrix of k there.
_REMEDIES = {
    "sum()": ("sum(ckks.unstack(ct))", "np.ones({k}) @ ct", "ct @ np.ones({k})"),
    "mean()": (
        "sum(ckks.unstack(ct)) / {k}",
        "np.full({k}, 1 / {k}) @ ct",
        "ct @ np.full({k}, 1 / {k})",
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

    `what` is the method: `sum()`, `mean()`, `cumsum()` or `roll()`.
    """
    if axis is None:
        return
    batch, rank = map(len, shapes_of(x))
    try:
        place = None if isinstance(axis, bool) else as_integer(axis, what)
    except OperandError:  # a tuple, for example
        place = None
    if place is not None and place < 0:
        place += batch + rank
    if rank == 1 and place == batch:
        return
    if place is None or not 0 <= place < batch + rank:
        last = "axis=-1, its last axis, is where it computes" if rank == 1 else "it takes no axis"
        needed = f"It is one integer; {last}."
        remedy = f"Write ct.{what}; or ct.reshape(-1) makes a vector."
    elif place < batch:
        needed = "That is a batch axis: its vectors are ciphertexts side by side."
        remedy = f"Write {_REMEDIES[what][0].format(k=x.shape[place])}."
    else:
        needed = "The numbers of all its axes stand one after another, as one vector."
        remedy = "Make it a vector first: ct.reshape(-1)."
        if rank == 2 and not batch:
            product = _REMEDIES[what][1 + place].format(k=x.shape[place])
            remedy = f"Write {product}, a product with a matrix."
    raise ParameterError(
        f"{what} got axis={axis!r:.40} and a ciphertext of shape {x.shape}.", needed, remedy
    )


def check_not_flattened(x: CiphertextData, axis: Any) -> None:
    """Raise where a batch is rolled without an axis: NumPy would roll all its numbers as one."""
    if axis is None and batch_axes(x):
        raise ParameterError(
            f"roll() got a batch, a ciphertext of shape {x.shape}, and no axis.",
            "numpy.roll without an axis moves numbers from one vector to the next.",
            "Write ct.roll(shift, axis=-1), which rolls each vector.",
        )
