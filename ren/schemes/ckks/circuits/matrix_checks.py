"""Check arrays that are given as matrices, vectors or kernels."""

from __future__ import annotations

import numbers
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import OperandError, ParameterError, kind_of
from ren.poly.symbolic import Symbolic, as_symbol, derived
from ren.schemes.ckks.encoding.encoder import as_numbers, check_rows, is_sparse


def _remedy(values: Any) -> str:
    """Code to write in place of something else than a matrix."""
    if is_sparse(values):
        return "Write matrix.toarray(), the array of its numbers."
    if isinstance(values, numbers.Number | np.generic | np.ndarray | jax.Array):
        return "Write x * number for a product with one number."
    return "Pass a NumPy array or a list of rows: matrix @ ct, or ckks.linear(matrix, ctx)."


def of_symbols(values: Any) -> Any:
    """The symbol that stands for a list of symbols; anything else as it is."""
    symbol = as_symbol(values)
    return values if symbol is None else symbol


def numbers_of(values: Any) -> NDArray | Symbolic:
    """Values of users as an array, or the symbol that stands for one: see `as_numbers`."""
    given = of_symbols(values)
    return given if isinstance(given, Symbolic) else as_numbers(given)


def checked(values: Any, axes: tuple[int, ...], what: str) -> NDArray | Symbolic:
    """An array of numbers as float64 or complex128, or a symbol that stands for one.

    Args:
        values: an array, what NumPy makes one of, or an argument of a captured function.
        axes: how many axes it may have.
        what: its name in errors: "a matrix".

    Raises:
        ParameterError: another number of axes, no numbers, or none at all.
    """
    check_rows(values)
    given = numbers_of(values)
    m = np.asarray(given.sample) if isinstance(given, Symbolic) else given
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
    kind = np.complex128 if m.dtype.kind == "c" else np.float64
    return derived(lambda values: np.asarray(values).astype(kind, copy=False), given)
