"""Coefficients of users: of one polynomial for all numbers, or of one for each number."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
from numpy.polynomial import Chebyshev, Hermite, HermiteE, Laguerre, Legendre, Polynomial
from numpy.typing import ArrayLike, NDArray

from ren.core.errors import ParameterError
from ren.schemes.ckks.arithmetic.shapes import batch_axes, shape_text, shapes_of
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, is_columns
from ren.schemes.ckks.encoding.encoder import as_numbers
from ren.schemes.ckks.encoding.packing import on_columns
from ren.schemes.ckks.functions.paterson_stockmeyer import Coefficient

_SERIES = (Chebyshev, Hermite, HermiteE, Laguerre, Legendre, Polynomial)


@attrs.frozen(eq=False)
class Coefficients:
    """Coefficients of distinct polynomials, and the polynomial of each number.

    Args:
        values: c_0, c_1, ...: each a number, or one for each of the distinct polynomials.
        rows: the polynomial of each number, int [*batch, length]; None for one polynomial.
        is_complex: whether they have a complex type, as the result then has.
    """

    values: tuple[Coefficient, ...]
    rows: NDArray[np.intp] | None = None
    is_complex: bool = False

    def at_slots(self, c: Coefficient) -> Any:
        """A number for all slots, or the numbers [*batch, length] for each."""
        if not isinstance(c, tuple):
            return c if c.imag else c.real
        values = np.asarray(c, np.complex128)[self.rows]
        return values if np.imag(values).any() else np.real(values)


def of_powers(coefficients: Any) -> Any:
    """c_0, c_1, ... of a polynomial of NumPy; anything else as it is."""
    if isinstance(coefficients, np.poly1d):  # the highest power first
        return coefficients.coef[::-1]
    if isinstance(coefficients, _SERIES):
        return coefficients.convert(kind=Polynomial).coef
    return coefficients


def checked_coefficients(coefficients: ArrayLike, ct: CiphertextData) -> Coefficients:
    """Coefficients [degree + 1], or [*shape, degree + 1] whose shape broadcasts to that of `ct`.

    Raises:
        ParameterError: no coefficients, not finite ones, or of another shape.
    """
    c = np.atleast_1d(as_numbers(coefficients))
    if c.size == 0 or c.dtype.kind not in "biufc" or not np.isfinite(c).all():
        raise ParameterError(
            f"Coefficients of dtype {c.dtype} and shape {c.shape} were given.",
            "They are finite real or complex numbers, at least one along the last axis.",
            "Write for example [1, 0, 0.5] for 1 + 0.5 x^2.",
        )
    is_complex, c = c.dtype.kind == "c", c.astype(np.complex128)
    distinct, rows = np.unique(c.reshape(-1, c.shape[-1]), axis=0, return_inverse=True)
    rows = rows.reshape(c.shape[:-1])
    if rows.ndim:
        rows = _on_numbers(rows, ct, c.shape)
    if len(distinct) == 1:
        return Coefficients(tuple(distinct[0].tolist()), is_complex=is_complex)
    columns = tuple(tuple(column) for column in distinct.T.tolist())
    return Coefficients(columns, rows, is_complex)


def _on_numbers(rows: NDArray, ct: CiphertextData, shape: tuple[int, ...]) -> NDArray:
    """`rows` [*batch, length] as the numbers of a ciphertext stand in its slots."""
    batch, core = shapes_of(ct)
    target = ct.shape or rows.shape  # one number fills all slots, and is met by a vector
    try:
        rows = np.broadcast_to(rows, target)
    except ValueError:
        remedy = f"Pass an array of shape {(*ct.shape, shape[-1])}, or one polynomial for all."
        if _broadcasts(shape[1:], ct.shape):
            remedy = "Move the degree to the last axis, np.moveaxis(c, 0, -1): in "
            remedy += "numpy.polynomial it is the first."
        raise ParameterError(
            f"Coefficients of shape {shape} met a ciphertext of shape {shape_text(ct)}.",
            "The last axis is the degree; the others are a polynomial for each number, and "
            "broadcast to the numbers.",
            remedy,
        ) from None
    if is_columns(ct):
        return on_columns(rows)
    if not core:
        return np.broadcast_to(rows[..., None], (*rows.shape, ct.slots)) if batch else rows
    return rows.reshape(*batch_axes(ct), math.prod(core))


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False
