"""Products of a matrix of integers with polynomials along a batch axis, as jax.numpy.

sum_b w[j, b] x[b] for each residue is a matrix product modulo q. Both factors are split at bit 15,
so that sums in float64 are exact: three products of matrices in floating point. Each is reduced
once, for all terms. It runs over columns of few residues, which bounds what it holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ren.core.inference import MOST_MIXED
from ren.core.spec import Matrix
from ren.lowering.kernels import modular, tables

_HALF = 15  # bits of a low part; sums of MOST_MIXED products of 16 bits each are below 2^49
_RESIDUES = 1 << 21  # that are held as float64 at a time, of the source and of the result
_GROUP = 4  # rows whose weights stand side by side for native code
assert MOST_MIXED << 32 < 1 << 53


def matrix_of(values: np.ndarray) -> Matrix:
    """The matrix of integers of any size, [rows, columns], in the fewest bytes."""
    rows, columns = values.shape
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    bits = max(high, ~low).bit_length() + 1
    size = next((s for s in (1, 2, 4, 8) if 8 * s >= bits), -(-bits // 8))
    if size <= 8:
        return Matrix(rows, columns, size, values.astype(f"<i{size}").tobytes())
    words = (int(v).to_bytes(size, "little", signed=True) for v in values.ravel())
    return Matrix(rows, columns, size, b"".join(words))


def entries(matrix: Matrix) -> np.ndarray:
    """The integers of a matrix, [rows, columns]: of Python where they are over 64 bits."""
    size, data = matrix.size, matrix.data
    if size <= 8:
        found = np.frombuffer(data, f"<i{size}")
    else:
        each = (data[i : i + size] for i in range(0, len(data), size))
        found = np.array([int.from_bytes(word, "little", signed=True) for word in each], object)
    return found.reshape(matrix.rows, matrix.columns)


def _residues(matrix: Matrix, q: int) -> np.ndarray:
    """The Montgomery forms of the entries modulo q, uint32[rows, columns]."""
    values = entries(matrix)
    least = values.astype(object if values.dtype == object else np.int64) % q  # below 2^30
    return (least.astype(np.uint64) * np.uint64(tables.R % q) % np.uint64(q)).astype(np.uint32)


def mix_tables(matrix: Matrix, moduli: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Tables that `mixed` takes after the axis: the weights, and what the parts count for.

    uint32[limb, row, column], and the Montgomery forms of 2^15 and 2^30, uint32[limb, 1].
    """
    weights = tables.frozen(np.stack([_residues(matrix, q) for q in moduli]))
    return weights, *(tables.montgomery_constant(1 << b, moduli) for b in (_HALF, 2 * _HALF))


def row_tables(matrix: Matrix, q: int) -> tuple[np.ndarray, ...]:
    """Weights for native code, of 4 rows side by side: uint32[1, rows / 4 * columns * 4]."""
    padded = np.zeros((-(-matrix.rows // _GROUP) * _GROUP, matrix.columns), np.uint32)
    padded[: matrix.rows] = _residues(matrix, q)
    groups = padded.reshape(-1, _GROUP, matrix.columns).swapaxes(1, 2)
    return (tables.frozen(np.ascontiguousarray(groups).reshape(1, -1)),)


def mixed(
    x: jax.Array,
    axis: int,
    weights: jax.Array,
    middle: jax.Array,
    top: jax.Array,
    q: jax.Array,
    qinv: jax.Array,
) -> jax.Array:
    """sum_b w[j, b] x[b] mod q at place j of a batch axis.

    Args:
        x: uint32[*batch, limb, n], Montgomery residues in any domain.
        axis: the batch axis, -1 for the last.
        weights, middle, top: `mix_tables(matrix, moduli)`.
        q, qinv: uint32[limb, 1].
    """
    x = jnp.moveaxis(x, axis - 2, 0)
    shape, rows = x.shape[1:], weights.shape[1]
    *_, limbs, n = shape
    x = x.reshape(x.shape[0], -1, limbs, n)
    columns, others = x.shape[:2]
    width = _width(n, 2 * columns + 4 * rows)
    pieces = n // width
    zero = jnp.int32(0)  # vmap lowers a scatter outside of enable_x64: 32-bit places

    def piece(i: jax.Array, out: jax.Array) -> jax.Array:
        limb, start = i // pieces % limbs, i % pieces * width
        place = (zero, i // (pieces * limbs), limb, start)
        part = lax.dynamic_slice(x, place, (columns, 1, 1, width))[:, 0, 0]
        at = [lax.dynamic_index_in_dim(t, limb, 0, False) for t in (weights, middle, top, q, qinv)]
        return lax.dynamic_update_slice(out, _product(part, *at)[:, None, None], place)

    out = jnp.zeros((rows, others, limbs, n), jnp.uint32)
    out = lax.fori_loop(zero, jnp.int32(others * limbs * pieces), piece, out)
    return jnp.moveaxis(out.reshape(rows, *shape), 0, axis - 2)


def _width(n: int, held: int) -> int:
    """Residues of a row that are computed at a time, where `held` are held for each."""
    width = n
    while width > 1 and width * held > _RESIDUES:
        width //= 2
    return width


def _product(
    x: jax.Array,
    weights: jax.Array,
    middle: jax.Array,
    top: jax.Array,
    q: jax.Array,
    qinv: jax.Array,
) -> jax.Array:
    """The product of matrices modulo one q, [row, width]."""
    (a_low, a_high), (b_low, b_high) = _parts(weights), _parts(x)
    low, high = _matmul(a_low, b_low), _matmul(a_high, b_high)
    both = _matmul(a_low + a_high, b_low + b_high) - low - high  # a_low b_high + a_high b_low

    # Each is at most MOST_MIXED times 2 (2^15 - 1) q < 2^34 q: a low part is below q, a high one
    # at most q / 2^15.
    low, both, high = (
        modular.reduce_wide(t.astype(jnp.uint64), q, qinv) for t in (low, both, high)
    )
    rest = modular.mul_sum([(both, middle), (high, top)], q, qinv)
    return modular.add(low, rest, q)


def _parts(a: jax.Array) -> Sequence[jax.Array]:
    low = a & np.uint32((1 << _HALF) - 1)
    return low.astype(jnp.float64), (a >> np.uint32(_HALF)).astype(jnp.float64)


def _matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)
