"""The `axis` of methods that NumPy's arrays have too: the numbers of a vector, or an error."""

from __future__ import annotations

from typing import Any

from ren.core.errors import OperandError, ParameterError
from ren.schemes.ckks.arithmetic.argument_checks import as_integer
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, batch_of

# By method: along a batch axis; along the last and along the first axis of a matrix of k there.
_REMEDIES = {
    "sum()": ("sum(ckks.unstack(ct))", "ct @ np.ones({k})", "np.ones({k}) @ ct"),
    "mean()": (
        "sum(ckks.unstack(ct)) / {k}",
        "ct @ np.full({k}, 1 / {k})",
        "np.full({k}, 1 / {k}) @ ct",
    ),
    "cumsum()": (
        "list(itertools.accumulate(ckks.unstack(ct)))",
        "ct @ np.triu(np.ones(({k}, {k})))",
        "np.tril(np.ones(({k}, {k}))) @ ct",
    ),
    "roll()": (
        "ckks.stack(parts[-shift:] + parts[:-shift]) of parts = ckks.unstack(ct)",
        "ct @ np.roll(np.eye({k}), shift, axis=1)",
        "np.roll(np.eye({k}), shift, axis=0) @ ct",
    ),
}


def check_axis(x: CiphertextData, axis: Any, what: str) -> None:
    """Raise unless `axis` is None, or that of the numbers of a vector.

    Args:
        x: the ciphertext.
        axis: as a user gave it.
        what: the method: `sum()`, `mean()`, `cumsum()` or `roll()`.

    Raises:
        ParameterError: another axis.
    """
    if axis is None:
        return
    batch, rank = _ranks(x)
    place = _place(axis, what)
    if place is not None and place < 0:
        place += batch + rank
    if rank == 1 and place == batch:
        return
    raise ParameterError(
        f"{what} got axis={axis!r:.40} and a ciphertext of shape {x.shape}.",
        *_remedy(x, place, what),
    )


def check_not_flattened(x: CiphertextData, axis: Any) -> None:
    """Raise where a batch is rolled without an axis: NumPy would roll all its numbers as one."""
    if axis is None and _ranks(x)[0]:
        raise ParameterError(
            f"roll() got a batch, a ciphertext of shape {x.shape}, and no axis.",
            "numpy.roll without an axis moves numbers from one vector to the next.",
            "Write ct.roll(shift, axis=-1), which rolls each vector.",
        )


def _ranks(x: CiphertextData) -> tuple[int, int]:
    """Number of batch axes, and number of axes of the numbers in the slots."""
    batch = len(batch_of(x)) - (x.layout.blocks > 1)
    if x.layout.shape is not None and x.layout.has_shape:
        return batch, len(x.layout.shape)
    return batch, int(x.layout.length is not None)


def _place(axis: Any, what: str) -> int | None:
    """The axis as an integer, None for anything else, such as a tuple."""
    if isinstance(axis, bool):
        return None
    try:
        return as_integer(axis, what)
    except OperandError:
        return None


def _remedy(x: CiphertextData, place: int | None, what: str) -> tuple[str, str]:
    """Requirement on the axis, and the remedy, as two sentences of an error."""
    (batch, rank), shape = _ranks(x), x.shape
    if place is None or not 0 <= place < batch + rank:
        last = "axis=-1, its last axis, is where it computes" if rank == 1 else "it takes no axis"
        return f"It is one integer; {last}.", f"Write ct.{what}; or ct.reshape(-1) makes a vector."
    across, last, first = (text.format(k=shape[place]) for text in _REMEDIES[what])
    if place < batch:
        return "That is a batch axis: its vectors are ciphertexts side by side.", f"Write {across}."
    needed = "The numbers of all its axes stand one after another, as one vector."
    if rank == 2 and not batch:
        return needed, f"Write {last if place == batch + 1 else first}, a product with a matrix."
    return needed, "Make it a vector first: ct.reshape(-1)."
