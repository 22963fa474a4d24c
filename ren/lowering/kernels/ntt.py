"""The negacyclic number theoretic transform and its inverse, as jax.numpy.

ntt(p)[j] = p(psi^e[j]) mod q, e = evaluation_exponents(n). Both transforms are linear, so they act
on Montgomery residues as on plain ones; twiddles are plain, with Shoup companions.

Both are networks of the butterfly (u, v) -> (u + v, (u - v) w), which needs one product for two
results. The other one, (u + w v, u - w v), costs two here: XLA:CPU writes the two results in two
loops, each of which computes what it needs. So the forward transform first turns X^n + 1 into
cyclic problems of half the size, X = psi Y and X = psi^3 Y, at the price of two products more for
each pair, once; its twiddles then depend on the place in a block. Those of the inverse depend on
the block.

Each of the log2(n) stages is one pass over memory. In the first phase the pairs of a butterfly
stand far apart and the innermost loop runs over contiguous columns. When pairs come closer than
C = `order.columns(n)`, square [C, C] blocks are transposed; from then on the
innermost loop runs over C rows, and stays C long to the end. The order that results is kept.

References: Gentleman and Sande, "Fast Fourier transforms - for fun and profit" (1966), for the
butterfly; Harvey, "Faster arithmetic for number-theoretic transforms" (2014), for the lazy ranges;
Longa and Naehrig (CANS 2016) for the merged twiddles of the inverse.
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
from ren.lowering.kernels.chunks import cut, in_chunks
from ren.lowering.kernels.order import bit_reversed, columns, evaluation_exponents

__all__ = ["evaluation_exponents", "intt", "intt_tables", "ntt", "ntt_tables"]


class _Stage(NamedTuple):
    """A stage of m blocks: the axes n splits into, the butterfly's axis, the twiddles' axes.

    `place` are the axes of twiddles that depend on the place in a block, `block` of those that
    depend on the block.
    """

    m: int
    axes: tuple[int, ...]
    pair: int
    place: tuple[int, ...]
    block: tuple[int, ...]


@lru_cache(maxsize=64)
def _phases(n: int) -> tuple[tuple[_Stage, ...], tuple[_Stage, ...]]:
    c = columns(n)
    rows, blocks = n // c, n // (c * c)
    far = [1 << s for s in range(rows.bit_length() - 1)]
    near = [1 << s for s in range(c.bit_length() - 1)]  # blocks within one column
    return tuple(_far(m, n // (2 * m)) for m in far), tuple(
        _Stage(
            rows * k,
            (blocks, k, 2, c // (2 * k), c),
            -3,
            (1, 1, c // (2 * k), 1),
            (blocks, k, 1, c),
        )
        for k in near
    )


def _far(m: int, t: int) -> _Stage:
    return _Stage(m, (m, 2, t), -2, (1, t), (m, 1))


@lru_cache(maxsize=32)
def ntt_tables(n: int, moduli: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """What `ntt` needs, uint32: (q [L, 1], twiddles [L, 3n/2], their Shoup companions), `cut`.

    In order: psi^i and psi^(3i) for i < n/2; for each later stage, of m blocks, psi^(2mi) for
    i < n/(2m), of which the last is 1 and not used; psi^(n/2).
    """
    roots = tables.powers([primitive_root_of_unity(n, q) for q in moduli], 2 * n, moduli)
    half, stages = np.arange(n // 2), [1 << s for s in range(1, n.bit_length() - 1)]
    exponents = [half, 3 * half % (2 * n), *(2 * m * np.arange(n // (2 * m)) for m in stages)]
    twiddles = roots[:, np.concatenate([*exponents, [n // 2]])]
    return cut(n, (tables.modulus(moduli)[0], *tables.shoup(twiddles, moduli)))


def merged_tables(n: int, moduli: tuple[int, ...], is_inverse: bool) -> tuple[np.ndarray, ...]:
    """What networks of merged twiddles read: (q [L, 1], twiddles [L, n], Shoup companions), uint32.

    Entry m + i is psi^bit_reversed(m + i), of psi^-1 for the inverse, for block i of the stage of m
    blocks; those of the near stages are in the order in which they are read. The inverse has n^-1
    in entry 0, and in entry 1 too. `ntt` is no such network, but a kernel of another kind may be.
    """
    roots = [primitive_root_of_unity(n, q) for q in moduli]
    if is_inverse:
        roots = [pow(root, -1, q) for root, q in zip(roots, moduli, strict=True)]
    twiddles = tables.powers(roots, n, moduli)[:, _block_order(n)]
    if is_inverse:
        scale = np.array([pow(n, -1, q) for q in moduli], np.uint64)
        twiddles[:, :2] = twiddles[:, :2] * scale[:, None] % np.array(moduli, np.uint64)[:, None]
    return tables.modulus(moduli)[0], *tables.shoup(twiddles, moduli)


def row_tables(n: int, q: int) -> tuple[np.ndarray]:
    """`merged_tables` of one modulus, forward and inverse: uint32[4, n], companions after each."""
    both = [merged_tables(n, (q,), is_inverse) for is_inverse in (False, True)]
    return (tables.frozen(np.concatenate([rows for _, *pair in both for rows in pair])),)


@lru_cache(maxsize=32)
def intt_tables(n: int, moduli: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """What `intt` needs: `merged_tables` of the inverse, `cut`."""
    return cut(n, merged_tables(n, moduli, True))


def _block_order(n: int) -> np.ndarray:
    # The near stages read their entries as [block of rows, column part, row], so that a slice needs
    # no transposition.
    order, c = np.arange(n), columns(n)
    for stage in _phases(n)[1]:
        m, k = stage.m, stage.block[1]
        order[m : 2 * m] = m + np.arange(m).reshape(-1, c, k).swapaxes(1, 2).reshape(m)
    return bit_reversed(n.bit_length() - 1)[order]


def ntt(x: jax.Array, *given: jax.Array) -> jax.Array:
    """Coefficients to values: out[j] = sum_i x[i] psi^(i e[j]) mod q.

    Args:
        x: uint32[*batch, L, n] in [0, q).
        given: `ntt_tables(n, moduli)`.

    Returns:
        uint32[*batch, L, n] in [0, q), at the exponents `evaluation_exponents(n)`. Cost: L
        limb-NTTs.
    """
    return in_chunks(_ntt, x, given)


def intt(x: jax.Array, *given: jax.Array) -> jax.Array:
    """Values to coefficients, the inverse of `ntt`.

    Args:
        x: uint32[*batch, L, n] in [0, q), at the exponents `evaluation_exponents(n)`.
        given: `intt_tables(n, moduli)`.

    Returns:
        uint32[*batch, L, n] in [0, q). Cost: L limb-NTTs.
    """
    return in_chunks(_intt, x, given)


def _ntt(x: jax.Array, q: jax.Array, w: jax.Array, w_shoup: jax.Array) -> jax.Array:
    shape, n = x.shape, x.shape[-1]
    far, near = _phases(n)
    start = n
    for stage in (*far, *near):
        if stage is near[0]:
            x = _transposed(x.reshape(shape))
        if stage.m == 1:
            x = _divided(x.reshape(shape), stage, q, w, w_shoup)
        elif 2 * stage.m == n:
            x = _last(x.reshape(shape), stage, q)
        else:
            stop = start + n // (2 * stage.m)
            x = _inner(x.reshape(shape), stage, q, w[:, start:stop], w_shoup[:, start:stop])
            start = stop
    return x.reshape(shape)


def _intt(x: jax.Array, q: jax.Array, w: jax.Array, w_shoup: jax.Array) -> jax.Array:
    shape, n = x.shape, x.shape[-1]
    far, near = _phases(n)
    for stage in reversed(near):
        x = _inverse(x.reshape(shape), stage, q, w, w_shoup)
    x = _transposed(x.reshape(shape))
    for stage in reversed(far):
        x = _inverse(x.reshape(shape), stage, q, w, w_shoup)
    return x.reshape(shape)


def _transposed(x: jax.Array) -> jax.Array:
    # A concatenation is a pass of its own; else each of the two loops of the stage that reads it
    # gathers its elements. XLA goes to and fro between the result and one buffer, and takes a third
    # where the number of passes is odd: with an even number of stages none is added.
    n, c = x.shape[-1], columns(x.shape[-1])
    blocks = x.reshape(*x.shape[:-1], x.shape[-1] // (c * c), c, c)
    if n.bit_length() % 2 == 1:
        return blocks.swapaxes(-1, -2)
    halves = (blocks[..., : c // 2], blocks[..., c // 2 :])
    return jnp.concatenate([half.swapaxes(-1, -2) for half in halves], axis=-2)


def _halves(x: jax.Array, stage: _Stage) -> tuple[jax.Array, jax.Array]:
    y = x.reshape(*x.shape[:-1], *stage.axes)
    axis = y.ndim + stage.pair
    first, second = (lax.index_in_dim(y, i, axis, keepdims=False) for i in (0, 1))
    return first, second


def _shaped(axes: tuple[int, ...], *rows: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(
        r.reshape(r.shape[0], *(axes if r.shape[1] > 1 else (1,) * len(axes))) for r in rows
    )


def _divided(
    x: jax.Array, stage: _Stage, q: jax.Array, w: jax.Array, w_shoup: jax.Array
) -> jax.Array:
    # The remainders modulo X^(n/2) -+ psi^(n/2), in Y: from [0, q) to [0, 2q).
    u, v = _halves(x, stage)
    t = u.shape[-1]
    q, root, root_shoup = _shaped(stage.place, q, w[:, -1:], w_shoup[:, -1:])
    plus, plus_shoup = _shaped(stage.place, w[:, :t], w_shoup[:, :t])
    minus, minus_shoup = _shaped(stage.place, w[:, t : 2 * t], w_shoup[:, t : 2 * t])
    v = modular.shoup_mul_lazy(v, root, root_shoup, q)  # < 2q, so sums are < 3q
    pair = [
        modular.shoup_mul_lazy(u + v, plus, plus_shoup, q),
        modular.shoup_mul_lazy(u - v + 2 * q, minus, minus_shoup, q),
    ]
    return jnp.stack(pair, axis=stage.pair)


def _inner(
    x: jax.Array, stage: _Stage, q: jax.Array, w: jax.Array, w_shoup: jax.Array
) -> jax.Array:
    # In [0, 2q) before and after.
    u, v = _halves(x, stage)
    q, w, w_shoup = _shaped(stage.place, q, w, w_shoup)
    total, difference = u + v, u - v + 2 * q  # < 4q < 2^32
    total = jnp.minimum(total, total - 2 * q)
    pair = [total, modular.shoup_mul_lazy(difference, w, w_shoup, q)]
    return jnp.stack(pair, axis=stage.pair)


def _last(x: jax.Array, stage: _Stage, q: jax.Array) -> jax.Array:
    # The twiddle is 1: from [0, 2q) to [0, q).
    u, v = _halves(x, stage)
    (q,) = _shaped(stage.place, q)
    pair = [modular.reduce_lazy(y, q) for y in (u + v, u - v + 2 * q)]
    return jnp.stack(pair, axis=stage.pair)


def _inverse(
    x: jax.Array, stage: _Stage, q_rows: jax.Array, w_rows: jax.Array, w_shoup_rows: jax.Array
) -> jax.Array:
    # In [0, 2q) before and after; the last stage also divides by n, and ends in [0, q).
    u, v = _halves(x, stage)
    own = slice(stage.m, 2 * stage.m)
    q, w, w_shoup = _shaped(stage.block, q_rows, w_rows[:, own], w_shoup_rows[:, own])
    total, difference = u + v, u - v + 2 * q  # < 4q < 2^32
    if stage.m == 1:
        scale, scale_shoup = _shaped(stage.block, w_rows[:, :1], w_shoup_rows[:, :1])
        total = modular.shoup_mul(total, scale, scale_shoup, q)
        pair = [total, modular.shoup_mul(difference, w, w_shoup, q)]
    else:
        total = jnp.minimum(total, total - 2 * q)
        pair = [total, modular.shoup_mul_lazy(difference, w, w_shoup, q)]
    return jnp.stack(pair, axis=stage.pair)
