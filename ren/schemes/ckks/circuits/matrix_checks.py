"""Check what is given as a matrix, a vector or a kernel: arrays, and entries of sparse ones."""

from __future__ import annotations

import numbers
import operator
from typing import Any, TypeGuard

import jax
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import OperandError, ParameterError, kind_of
from ren.poly.symbolic import Symbolic, as_symbol, derived
from ren.schemes.ckks.encoding.encoder import as_numbers, check_rows, is_sparse
from ren.schemes.slots.entries import Entries


def _remedy(values: Any) -> str:
    """Code to write in place of something else than a matrix."""
    if is_sparse(values):
        return "Encode it: ckks.linear(matrix, ctx) @ ct. Or write matrix.toarray()."
    if isinstance(values, numbers.Number | np.generic | np.ndarray | jax.Array):
        return "Write x * number for a product with one number."
    return "Pass a NumPy array or a list of rows: matrix @ ct, or ckks.linear(matrix, ctx)."


def entries_of(matrix: Any) -> Entries:
    """The entries of a matrix that are not zero.

    Args:
        matrix: an array, or a symbol that stands for one. Or a sparse array of SciPy, or the tuple
            (rows, columns, values, shape). As in SciPy, values at one place are added.

    Raises:
        ParameterError: no matrix, other lengths, or places outside of the shape.
    """
    if is_sparse(matrix) and len(matrix.shape) == 2:
        found = matrix.tocoo()
        return _listed(found.row, found.col, found.data, found.shape)
    if are_entries(matrix):
        return _listed(*matrix)
    return Entries.of(checked(matrix, (2,), "a matrix"))


def are_entries(matrix: Any) -> TypeGuard[tuple[Any, Any, Any, Any]]:
    """True where a matrix is given as (rows, columns, values, shape)."""
    return isinstance(matrix, tuple) and len(matrix) == 4 and isinstance(matrix[3], tuple)


def _listed(rows: Any, columns: Any, values: Any, shape: tuple[Any, ...]) -> Entries:
    places = [np.asarray(index) for index in (rows, columns)]
    values = checked(values, (1,), "the values of a matrix")
    sizes = tuple(map(operator.index, shape)) if len(shape) == 2 else (0, 0)
    is_fit = min(sizes) > 0 and not isinstance(values, Symbolic) and all(
        index.shape == values.shape and index.dtype.kind in "iu"
        and index.min() >= 0 and index.max() < size
        for index, size in zip(places, sizes, strict=True)
    )  # fmt: skip
    if not is_fit:
        raise ParameterError(
            f"A matrix was given by rows and columns of shapes {places[0].shape} and "
            f"{places[1].shape}, values of shape {values.shape}, and the shape {shape}.",
            "Each value has an integer row and column inside of the shape (m, k).",
            "Pass (rows, columns, values, (m, k)), as scipy.sparse.coo_array has them.",
        )
    found, at = np.unique(places[0].astype(np.int64) * sizes[1] + places[1], return_inverse=True)
    added = np.zeros(len(found), values.dtype)
    np.add.at(added, at, values)
    held = np.divmod(found[added != 0], sizes[1])
    return Entries(added[added != 0], (sizes[0], sizes[1]), (held[0], held[1]))


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
