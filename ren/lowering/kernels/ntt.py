"""The negacyclic number theoretic transform and its inverse, as jax.numpy.

ntt(p)[j] = p(psi^e[j]) mod q, e = evaluation_exponents(n). Both transforms are linear, so they act
on Montgomery residues as on plain ones; twiddles are plain, with Shoup companions.

Each of the log2(n) stages is one pass over memory. In the first phase the pairs of a butterfly
stand far apart and the innermost loop runs over contiguous columns with one twiddle. When pairs
come closer than C = `order.columns(n)`, square [C, C] blocks are transposed; from then on the
innermost loop runs over C rows, each with its own twiddle, and stays C long to the end. The order
that results is kept.

References: Harvey, "Faster arithmetic for number-theoretic transforms" (2014), for the lazy ranges;
Longa and Naehrig (CANS 2016) for the merged twiddles.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ren.core.numtheory import primitive_root_of_unity
from ren.lowering.kernels import modular, tables
from ren.lowering.kernels.order import bit_reversed, columns, evaluation_exponents

__all__ = ["evaluation_exponents", "intt", "intt_tables", "ntt", "ntt_tables"]


class _Stage(NamedTuple):
    """A stage of m blocks: the axes n splits into, the butterfly's axis, the twiddles' axes."""

    m: int
    axes: tuple[int, ...]
    pair: int
    twiddle: tuple[int, ...]


@lru_cache(maxsize=64)
def _phases(n: int) -> tuple[tuple[_Stage, ...], tuple[_Stage, ...]]:
    c = columns(n)
    rows, blocks = n // c, n // (c * c)
    far = [1 << s for s in range(rows.bit_length() - 1)]
    near = [1 << s for s in range(c.bit_length() - 1)]  # blocks within one column
    return (
        tuple(_Stage(m, (m, 2, n // (2 * m)), -2, (m, 1)) for m in far),
        tuple(
            _Stage(rows * k, (blocks, k, 2, c // (2 * k), c), -3, (blocks, k, 1, c)) for k in near
        ),
    )


def _twiddle_order(n: int) -> np.ndarray:
    # Entry m + i serves block i of the stage of m blocks, as psi^bit_reversed(m + i). The near
    # stages read their entries as [block of rows, column part, row], so that a slice needs no
    # transposition.
    order, c = np.arange(n), columns(n)
    for stage in _phases(n)[1]:
        m, k = stage.m, stage.twiddle[1]
        order[m : 2 * m] = m + np.arange(m).reshape(-1, c, k).swapaxes(1, 2).reshape(m)
    return bit_reversed(n.bit_length() - 1)[order]


@lru_cache(maxsize=32)
def ntt_tables(n: int, moduli: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """What `ntt` needs: (q [L, 1], twiddles [L, n], their Shoup companions [L, n]), uint32."""
    psi = [primitive_root_of_unity(n, q) for q in moduli]
    twiddles = tables.powers(psi, n, moduli)[:, _twiddle_order(n)]
    return tables.modulus(moduli)[0], *tables.shoup(twiddles, moduli)


@lru_cache(maxsize=32)
def intt_tables(n: int, moduli: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """What `intt` needs: as `ntt_tables` of psi^-1, with n^-1 in entry 0 and in the last stage."""
    inverse_psi = [pow(primitive_root_of_unity(n, q), -1, q) for q in moduli]
    twiddles = tables.powers(inverse_psi, n, moduli)[:, _twiddle_order(n)]
    scale = np.array([pow(n, -1, q) for q in moduli], np.uint64)
    twiddles[:, :2] = twiddles[:, :2] * scale[:, None] % np.array(moduli, np.uint64)[:, None]
    return tables.modulus(moduli)[0], *tables.shoup(twiddles, moduli)


def ntt(x: jax.Array, q: jax.Array, w: jax.Array, w_shoup: jax.Array) -> jax.Array:
    """Coefficients to values: out[j] = sum_i x[i] psi^(i e[j]) mod q.

    Args:
        x: uint32[*batch, L, n] in [0, q).
        q, w, w_shoup: `ntt_tables(n, moduli)`.

    Returns:
        uint32[*batch, L, n] in [0, q), at the exponents `evaluation_exponents(n)`. Cost: L
        limb-NTTs.
    """
    shape, n = x.shape, x.shape[-1]
    far, near = _phases(n)
    for stage in far:
        x = _forward(x.reshape(shape), stage, q, w, w_shoup, n)
    x = _transpose_blocks(x.reshape(shape))
    for stage in near:
        x = _forward(x.reshape(shape), stage, q, w, w_shoup, n)
    return x.reshape(shape)


def intt(x: jax.Array, q: jax.Array, w: jax.Array, w_shoup: jax.Array) -> jax.Array:
    """Values to coefficients, the inverse of `ntt`.

    Args:
        x: uint32[*batch, L, n] in [0, q), at the exponents `evaluation_exponents(n)`.
        q, w, w_shoup: `intt_tables(n, moduli)`.

    Returns:
        uint32[*batch, L, n] in [0, q). Cost: L limb-NTTs.
    """
    shape, n = x.shape, x.shape[-1]
    far, near = _phases(n)
    for stage in reversed(near):
        x = _inverse(x.reshape(shape), stage, q, w, w_shoup)
    x = _transpose_blocks(x.reshape(shape))
    for stage in reversed(far):
        x = _inverse(x.reshape(shape), stage, q, w, w_shoup)
    return x.reshape(shape)


def _transpose_blocks(x: jax.Array) -> jax.Array:
    c = columns(x.shape[-1])
    return x.reshape(*x.shape[:-1], -1, c, c).swapaxes(-1, -2)


def _halves(x: jax.Array, stage: _Stage) -> tuple[jax.Array, jax.Array]:
    y = x.reshape(*x.shape[:-1], *stage.axes)
    axis = y.ndim + stage.pair
    first, second = (lax.index_in_dim(y, i, axis, keepdims=False) for i in (0, 1))
    return first, second


def _shaped(stage: _Stage, q: jax.Array, *twiddles: jax.Array) -> tuple[jax.Array, ...]:
    limbs, m = q.shape[0], stage.m
    own = (t[:, m : 2 * m].reshape(limbs, *stage.twiddle) for t in twiddles)
    return q.reshape(limbs, *(1 for _ in stage.twiddle)), *own


def _forward(
    x: jax.Array, stage: _Stage, q: jax.Array, w: jax.Array, w_shoup: jax.Array, n: int
) -> jax.Array:
    # (u, v) -> (u + w v, u - w v): in [0, 4q) before and after.
    u, v = _halves(x, stage)
    q, w, w_shoup = _shaped(stage, q, w, w_shoup)
    u = jnp.minimum(u, u - 2 * q)
    v = modular.shoup_mul_lazy(v, w, w_shoup, q)  # both < 2q now
    pair = [u + v, u - v + 2 * q]
    if 2 * stage.m == n:
        pair = [modular.reduce_lazy(y, q) for y in pair]
    return jnp.stack(pair, axis=stage.pair)


def _inverse(
    x: jax.Array, stage: _Stage, q_rows: jax.Array, w_rows: jax.Array, w_shoup_rows: jax.Array
) -> jax.Array:
    # (u, v) -> (u + v, (u - v) w): in [0, 2q) before and after; the last stage also divides by n.
    u, v = _halves(x, stage)
    q, w, w_shoup = _shaped(stage, q_rows, w_rows, w_shoup_rows)
    total, difference = u + v, u - v + 2 * q  # < 4q < 2^32
    if stage.m == 1:
        scale, scale_shoup = (t[:, :1].reshape(q.shape) for t in (w_rows, w_shoup_rows))
        total = modular.shoup_mul(total, scale, scale_shoup, q)
        pair = [total, modular.shoup_mul(difference, w, w_shoup, q)]
    else:
        total = jnp.minimum(total, total - 2 * q)
        pair = [total, modular.shoup_mul_lazy(difference, w, w_shoup, q)]
    return jnp.stack(pair, axis=stage.pair)
