"""Check arrays that are given as matrices, vectors or kernels."""

from __future__ import annotations

import numbers
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import OperandError, ParameterError, TracedValueError, kind_of
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.encoding.encoder import as_numbers, check_rows, is_sparse
from ren.schemes.ckks.noise.range_checks import is_planning


def _remedy(values: Any) -> str:
    """Code to write in place of something else than a matrix."""
    if is_sparse(values):
        return "Write matrix.toarray(), the array of its numbers."
    if isinstance(values, numbers.Number | np.generic | np.ndarray | jax.Array):
        return "Write x * number for a product with one number."
    return "Pass a NumPy array or a list of rows: matrix @ ct, or ckks.linear(matrix, ctx)."


def checked(values: Any, axes: tuple[int, ...], what: str, how: str) -> NDArray:
    """An array of numbers as float64 or complex128.

    Args:
        values: an array, or what NumPy makes one of.
        axes: how many axes it may have.
        what: its name in errors: "a matrix".
        how: what makes it known before a capture, for errors.

    Raises:
        ParameterError: another number of axes, no numbers, or none at all.
        TracedValueError: an argument of a function that is being captured.
    """
    if isinstance(values, Symbolic):
        if is_planning():
            raise TracedValueError(
                f"A ciphertext was multiplied by {what} of which a plan got the shape alone.",
                "Which rotations that takes depends on its numbers.",
                "Pass the array itself: ckks.plan(f, array, ckks.spec(8)).",
            )
        raise TracedValueError(
            f"A ciphertext was multiplied by the argument {values.name!r}, {what}.",
            "Which rotations that takes depends on its numbers, which a plan does not know.",
            f"Encode it outside, {how}, and pass the map.",
        )
    check_rows(values)
    m = as_numbers(values)
    if m.ndim == 0 and axes == (2,):
        raise OperandError(
            f"A{kind_of(values)[1:]} was given as {what}.",
            "A matrix is an array of numbers with two axes.",
            _remedy(values),
        )
    if m.ndim not in axes or m.dtype.kind not in "biufc" or not m.size:
        raise ParameterError(
            f"An array of shape {m.shape} and dtype {m.dtype} was given as {what}.",
            f"It has {' or '.join(map(str, axes))} axes, and holds numbers.",
            "Pass at least one number."
            if not m.size
            else "Multiply several vectors one after another, or stack the ciphertexts."
            if axes == (2,)
            else "Give kernels as [size], or as [outputs, inputs, size].",
        )
    return m.astype(np.complex128 if m.dtype.kind == "c" else np.float64, copy=False)
