"""`ckks.mix`: a matrix in the clear times a batch axis, a sum over ciphertexts."""

from __future__ import annotations

from functools import partial
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import OperandError, ParameterError
from ren.lowering.devices.devices import is_tracer
from ren.poly.batching import repeated
from ren.poly.symbolic import Symbolic, derived
from ren.schemes.ckks.arithmetic.argument_checks import as_integer, check_ciphertext
from ren.schemes.ckks.arithmetic.automatic import AUTOMATIC
from ren.schemes.ckks.arithmetic.evolve import evolve, need_level
from ren.schemes.ckks.arithmetic.lazy_product import LazySum
from ren.schemes.ckks.arithmetic.manual import normal
from ren.schemes.ckks.arithmetic.number_types import of_result, with_type
from ren.schemes.ckks.arithmetic.operation_hooks import operation, told_transparent
from ren.schemes.ckks.arithmetic.shapes import batch_axes
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    batch_of,
    is_columns,
)
from ren.schemes.ckks.encoding.layout import LEFTOVERS
from ren.schemes.ckks.encoding.modulus_checks import check_factor
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.readable import on_host
from ren.schemes.ckks.noise.sigmas import as_float

_MOST = 2.0**900  # beyond it a factor is refused, whatever the modulus
_ROUNDED = 1 + 2.0**-8  # sums in float32 round, of products on devices too


def mix(matrix: Any, x: CiphertextT, axis: int = 0) -> CiphertextT:
    """matrix @ x over a batch axis: y[j] = sum_b matrix[j, b] x[b], of whole ciphertexts.

    It is `numpy.tensordot(matrix, x, 1)` along the first axis. All products are one operation, and
    there are no rotations. `matrix @ batch` is the same for the last batch axis. That of a table by
    its columns is the last axis.

    Args:
        matrix: real numbers, [results, entries of the axis], not encrypted.
        x: a batch, from `ckks.stack` for example.
        axis: the batch axis that is summed over, of `x.shape`; the results lie along it.

    Returns:
        A batch, at the same level where the matrix has an integer type. Else one level lower.

    Raises:
        OperandError: an encrypted, complex or traced matrix, or numbers that are not finite.
        ParameterError: no such batch axis, or another number of columns than its entries.
        DepthError: no level is left for numbers that are not integers.
        MessageBoundError: entries so large that every message wraps around.

    Cost: two multiply-adds a residue for each entry of the matrix.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1, n=2**13)
        >>> x = ckks.stack([ctx.encrypt([1.0, 2.0]), ctx.encrypt([3.0, 4.0])])
        >>> ckks.mix([[1.0, 1.0], [0.5, -0.5], [0.0, 2.0]], x).decrypt().round(3)
        array([[ 4.,  6.],
               [-1., -1.],
               [ 6.,  8.]])
    """
    check_ciphertext(x, "ckks.mix()")
    w, place = _matrix(matrix), as_integer(axis, "ckks.mix()")
    axes, rank = batch_axes(x), len(x.shape)
    places = list(range(len(axes)))  # of the batch axes in the shape
    if is_columns(x):
        places[-1] = rank - 1
    if place + rank * (place < 0) not in places:
        told = ", ".join(map(str, places)) or "none"
        raise ParameterError(
            f"ckks.mix() got axis={place} and a ciphertext of shape {x.shape}.",
            f"It sums over a batch axis, over ciphertexts side by side; those are {told} here.",
            "Stack several by ckks.stack. Numbers of one vector are mixed by matrix @ x.",
        )
    place = places.index(place % rank)
    if w.shape[1] != axes[place]:
        raise ParameterError(
            f"ckks.mix() got a matrix of {w.shape[0]} x {w.shape[1]}, and {axes[place]} "
            f"ciphertexts along axis {places[place]}.",
            "It takes a column for each ciphertext.",
            "Transpose the matrix, or pass the other axis.",
        )
    return with_type(mixed(normal(x), Rows(w, place)), of_result(x, w))


def _matrix(matrix: Any) -> NDArray:
    if is_tracer(matrix) or isinstance(matrix, Symbolic | CiphertextData):
        raise OperandError(
            f"ckks.mix() got a matrix of type {type(matrix).__name__}.",
            "The matrix is in the clear, and known while a program is captured.",
            "Let the function close over an array of NumPy. Products of two encrypted matrices are "
            "ckks.matmul.",
        )
    w = np.asarray(matrix)
    if w.ndim != 2 or w.dtype.kind not in "biuf" or not w.size:
        raise OperandError(
            f"ckks.mix() got an array of {w.dtype} and shape {w.shape} as the matrix.",
            "It takes real numbers, a row for each result and a column for each ciphertext.",
            "Pass [row] for one result. A complex matrix is mix(m.real, x) + mix(m.imag, x) * 1j.",
        )
    if not np.isfinite(w).all():
        raise OperandError(
            "ckks.mix() got a matrix with NaN or infinite entries.",
            "Entries are multiplied into ciphertexts as integers.",
            "Replace them, for example by numpy.nan_to_num(np.array(matrix, float)).",
        )
    return w


@attrs.frozen(eq=False)
class Rows:
    """A real matrix that mixes the ciphertexts along a batch axis: it does not lie in slots."""

    numbers: NDArray
    axis: int

    def times(self, x: NDArray) -> NDArray:
        """The same mix of slots [*batch, slots]."""
        mixed = np.tensordot(self.numbers, np.moveaxis(x, self.axis, 0), 1)
        return np.moveaxis(mixed, 0, self.axis)


@operation("a mix", lambda x, rows: rows.times(x))
def mixed(x: CiphertextT, rows: Rows) -> CiphertextT:
    """The products of a matrix with a batch axis of `x`, in normal form; see `mix`.

    The matrix holds finite real numbers. Rows of zeros make transparent results, which warn.
    """
    batch, layout, w, axis = batch_of(x), x.layout, rows.numbers, rows.axis
    w = w.astype(np.int64) if w.dtype.kind == "b" else w
    tail = layout.tail.times(LEFTOVERS)
    layout = layout.with_tail(tail.plus(tail))
    is_exact = w.dtype.kind in "iu"
    if not is_exact:
        need_level(x, 1, "A matrix of numbers that are not integers")
    scale = x.params.scale(x.level)
    most = max(w.max().item(), -w.min().item())
    check_factor(x.params, x.level, 1 if is_exact else scale, most)
    w = w if is_exact else np.clip(w, -_MOST, _MOST)  # what only a plan may pass
    weights = w if is_exact else np.rint(w.astype(np.float64) * as_float(scale))
    integers = np.array([int(v) for v in weights.ravel()], object).reshape(w.shape)
    polys = tuple(repeated(p.ntt(), batch).mix(integers, axis) for p in x.polys)
    noise = _noise(w, 0.0 if is_exact else 0.5 / as_float(scale), x.noise, axis, batch)
    if any(is_zero := [not any(row) for row in integers]) and not all(is_zero):
        noise = told_transparent("a mix", noise)  # where all are, the operation tells
    if is_exact:
        return evolve(x, polys, noise, layout=layout)
    return AUTOMATIC.multiplied(x, LazySum(polys, noise=noise), scale, layout)


def _noise(w: NDArray, unit: float, noise: Any, axis: int, batch: tuple[int, ...]) -> Any:
    """The sum of the noise of products; the powers of two above stand for the entries."""
    sizes = np.abs(w.astype(np.float64))
    sizes = np.where(sizes > 0, noises.public_bound(np.maximum(sizes, 2.0**-30)), unit)
    unit += sizes.max() * 2.0**-50
    with np.errstate(over="ignore"):  # noise that is beyond floats is unknown
        factors, error = np.asarray(sizes * _ROUNDED, np.float32), np.float32(unit * _ROUNDED)
    rule = partial(_sums, factors, error, axis - len(batch) - 1)
    terms = on_host(noises.broadcast(noise, batch))
    return noises.total(derived(rule, terms), noises.ZERO)


def _sums(sizes: NDArray, error: np.float32, axis: int, noise: Any) -> Any:
    """Sums of terms times sizes; each number is off by `error`, a fixed error of its term."""
    terms = noise.swapaxes(axis, -2)
    is_offset = (np.arange(noises.WIDTH) == 1).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        fixed = terms[..., :1].sum(-2, keepdims=True) * (is_offset * error)
        return (sizes @ terms + fixed).swapaxes(axis, -2)
