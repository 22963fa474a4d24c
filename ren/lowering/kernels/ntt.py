"""The negacyclic number theoretic transform and its inverse, as jax.numpy.

ntt(p)[j] = p(psi^e[j]) mod q, e = evaluation_exponents(n). Both transforms are linear, so they act
on Montgomery residues as on plain ones; twiddles are plain, with Shoup companions.

Both are networks of the butterfly (u, v) -> (u + v, (u - v) w), which needs one product for two
results. The other one, (u + w v, u - w v), costs two here. XLA:CPU writes the two results in two
loops, each of which computes what it needs. So the forward transform first turns X^n + 1 into
cyclic problems of half the size, X = psi Y and X = psi^3 Y. The price is two products more for each
pair, once. Its twiddles then depend on the place in a block. Those of the inverse depend on the
block.

Passes over memory cost as much as arithmetic. So two of the log2(n) stages are one pass where two
are left. That pass is a butterfly of four parts (`_four`), whose two inner twiddles differ by i =
psi^(n/2). Its four results take 0, 1, 2 and 2 products. In the first phase the parts of a butterfly
stand far apart and the innermost loop runs over contiguous columns. When they come closer than C =
`order.columns(n)`, square [C, C] blocks are transposed. From then on the innermost loop runs over C
rows, and stays C long to the end. The order that results is kept.

References: Gentleman and Sande, "Fast Fourier transforms - for fun and profit" (1966), for the
butterfly; Harvey, "Faster arithmetic for number-theoretic transforms" (2014), for the lazy ranges;
Longa and Naehrig (CANS 2016) for the merged twiddles of the inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ren.core.numtheory import primitive_root_of_unity
from ren.lowering.kernels import modular, tables
from ren.lowering.kernels.chunks import cut, in_chunks
from ren.lowering.kernels.network import (
    Pass,
    block_exponents,
    block_order,
    forward_passes,
    inverse_passes,
)
from ren.lowering.kernels.order import columns, evaluation_exponents

# A twiddle and its Shoup companion.
Twiddle = tuple[jax.Array, jax.Array]

__all__ = ["evaluation_exponents", "intt", "intt_tables", "ntt", "ntt_tables"]


@lru_cache(maxsize=32)
def ntt_tables(n: int, moduli: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Tables of `ntt`, uint32: (q [L, 1], twiddles [L, *], their Shoup companions), `cut`.

    In order: psi^i and psi^(3i) for i < n/2. For each later pass of m blocks w = psi^(2mi) for each
    place i in a part, and of two stages w^2 and w^3 too. Last psi^(n/2). The last pass has none.
    """
    roots = tables.powers([primitive_root_of_unity(n, q) for q in moduli], 2 * n, moduli)
    half, (far, near) = np.arange(n // 2), forward_passes(n)
    exponents = [half, 3 * half % (2 * n)]
    for p in (*far[1:], *near[:-1]):
        w = 2 * p.m * np.arange(n // (p.size * p.m))
        exponents += [w * i % (2 * n) for i in range(1, p.size)]
    twiddles = roots[:, np.concatenate([*exponents, [n // 2]])]
    return cut(n, (tables.modulus(moduli)[0], *tables.shoup(twiddles, moduli)))


def merged_tables(n: int, moduli: tuple[int, ...], is_inverse: bool) -> tuple[np.ndarray, ...]:
    """Tables of networks of merged twiddles: (q [L, 1], twiddles [L, n], Shoup companions), uint32.

    Entry m + i is psi^bit_reversed(m + i), of psi^-1 for the inverse, for block i of the stage of m
    blocks. Those of the near stages are in the order in which they are read. The inverse has n^-1
    in entry 0, and in entry 1 too. `ntt` is not such a network; another backend's kernel may be.
    """
    roots = [primitive_root_of_unity(n, q) for q in moduli]
    if is_inverse:
        roots = [pow(root, -1, q) for root, q in zip(roots, moduli, strict=True)]
    twiddles = tables.powers(roots, n, moduli)[:, block_order(n)]
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
    """Tables of `intt`, uint32: (q [L, 1], twiddles [L, *], their Shoup companions), `cut`.

    For each pass that leaves m blocks w = psi^-e for each block, of two stages w^2 and w^3 too, as
    they are read. Those of the last pass are divided by n. Then n^-1 and psi^(-n/2).
    """
    inverses = [pow(primitive_root_of_unity(n, q), -1, q) for q in moduli]
    roots = tables.powers(inverses, 2 * n, moduli)
    near, far = inverse_passes(n)
    exponents = []
    for p in (*near, *far):
        w = block_exponents(n, p)
        exponents += [w * i % (2 * n) for i in range(1, p.size)]
    twiddles = roots[:, np.concatenate([*exponents, [0], [n // 2]])]
    q, scale = (np.array(v, np.uint64)[:, None] for v in (moduli, [pow(n, -1, q) for q in moduli]))
    divided = slice(-1 - far[-1].size, -1)
    twiddles[:, divided] = twiddles[:, divided] * scale % q
    return cut(n, (tables.modulus(moduli)[0], *tables.shoup(twiddles, moduli)))


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
    far, near = forward_passes(n)
    x = _divided(x, far[0], q, w, w_shoup)
    start = n
    for p in (*far[1:], *near):
        if p is near[0]:
            x = _transposed(x.reshape(shape))
        fourth = _twiddle(p.place, w[:, -1:], w_shoup[:, -1:])
        if p is near[-1]:
            return _last(x.reshape(shape), p, q, fourth).reshape(shape)
        stop = start + (p.size - 1) * (n // (p.size * p.m))
        own = _twiddles(p.place, p.size, w[:, start:stop], w_shoup[:, start:stop])
        x = _forward(x.reshape(shape), p, q, own, fourth)
        start = stop
    raise AssertionError(f"the passes of {n} have no last one")


def _intt(x: jax.Array, q: jax.Array, w: jax.Array, w_shoup: jax.Array) -> jax.Array:
    shape = x.shape
    near, far = inverse_passes(shape[-1])
    start = 0
    for p in (*near, *far):
        if p is far[0]:
            x = _transposed(x.reshape(shape))
        stop = start + (p.size - 1) * p.m
        own = _twiddles(p.block, p.size, w[:, start:stop], w_shoup[:, start:stop])
        scale = _twiddle(p.block, w[:, -2:-1], w_shoup[:, -2:-1]) if p is far[-1] else None
        fourth = _twiddle(p.block, w[:, -1:], w_shoup[:, -1:])
        x = _inverse(x.reshape(shape), p, q, own, fourth, scale)
        start = stop
    return x.reshape(shape)


def _transposed(x: jax.Array) -> jax.Array:
    # A concatenation is a pass of its own. Otherwise each of the loops of the pass that reads it
    # gathers its elements.
    c = columns(x.shape[-1])
    blocks = x.reshape(*x.shape[:-1], x.shape[-1] // (c * c), c, c)
    halves = (blocks[..., : c // 2], blocks[..., c // 2 :])
    return jnp.concatenate([half.swapaxes(-1, -2) for half in halves], axis=-2)


def _parts(x: jax.Array, p: Pass) -> list[jax.Array]:
    y = x.reshape(*x.shape[:-1], *p.axes)
    axis = y.ndim + p.parts
    return [lax.index_in_dim(y, i, axis, keepdims=False) for i in range(p.size)]


def _shaped(axes: tuple[int, ...], *rows: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(
        r.reshape(r.shape[0], *(axes if r.shape[1] > 1 else (1,) * len(axes))) for r in rows
    )


def _twiddle(axes: tuple[int, ...], w: jax.Array, w_shoup: jax.Array) -> Twiddle:
    shaped, shoup = _shaped(axes, w, w_shoup)
    return shaped, shoup


def _twiddles(axes: tuple[int, ...], size: int, w: jax.Array, w_shoup: jax.Array) -> list[Twiddle]:
    # w, and of two stages w^2 and w^3 too.
    count = w.shape[1] // (size - 1)
    starts = range(0, w.shape[1], count)
    return [_twiddle(axes, w[:, i : i + count], w_shoup[:, i : i + count]) for i in starts]


def _divided(x: jax.Array, p: Pass, q: jax.Array, w: jax.Array, w_shoup: jax.Array) -> jax.Array:
    # The remainders modulo X^(n/2) -+ psi^(n/2), in Y: from [0, q) to [0, 2q).
    u, v = _parts(x, p)
    t = u.shape[-1]
    q, root, root_shoup = _shaped(p.place, q, w[:, -1:], w_shoup[:, -1:])
    plus, plus_shoup = _shaped(p.place, w[:, :t], w_shoup[:, :t])
    minus, minus_shoup = _shaped(p.place, w[:, t : 2 * t], w_shoup[:, t : 2 * t])
    v = modular.shoup_mul_lazy(v, root, root_shoup, q)  # < 2q, so sums are < 3q
    pair = [
        modular.shoup_mul_lazy(u + v, plus, plus_shoup, q),
        modular.shoup_mul_lazy(u - v + 2 * q, minus, minus_shoup, q),
    ]
    return jnp.stack(pair, axis=p.parts)


def _pair(u: jax.Array, v: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
    # u + v and u - v: from [0, 2q) to [0, 4q).
    return u + v, u - v + 2 * q


def _four(
    parts: Sequence[jax.Array], q: jax.Array, fourth: Twiddle
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    # Two stages without their twiddles: (a + b) +- (c + d), then (a - b) +- i (c - d),
    # for i^2 = -1: from [0, 2q) to [0, 4q).
    a, b, c, d = parts
    u, v = _below_2q(a + b, q), _below_2q(c + d, q)
    y, z = _below_2q(a - b + 2 * q, q), _lazily(c - d + 2 * q, fourth, q)
    return *_pair(u, v, q), *_pair(y, z, q)


def _below_2q(x: jax.Array, q: jax.Array) -> jax.Array:
    return jnp.minimum(x, x - 2 * q)


def _lazily(x: jax.Array, w: Twiddle, q: jax.Array) -> jax.Array:
    return modular.shoup_mul_lazy(x, w[0], w[1], q)


def _forward(x: jax.Array, p: Pass, q: jax.Array, w: list[Twiddle], fourth: Twiddle) -> jax.Array:
    # In [0, 2q) before and after.
    (q,) = _shaped(p.place, q)
    parts = _parts(x, p)
    if p.size == 2:
        total, difference = _pair(parts[0], parts[1], q)
        made = [_below_2q(total, q), _lazily(difference, w[0], q)]
    else:
        a, b, c, d = parts
        total, minus, y, z = _four((a, c, b, d), q, fourth)
        made = [_below_2q(total, q)]
        made += [_lazily(v, w[i], q) for v, i in ((minus, 1), (y, 0), (z, 2))]
    return jnp.stack(made, axis=p.parts)


def _last(x: jax.Array, p: Pass, q: jax.Array, fourth: Twiddle) -> jax.Array:
    # The twiddles are 1: from [0, 2q) to [0, q).
    (q,) = _shaped(p.place, q)
    parts = _parts(x, p)
    if p.size == 2:
        made = _pair(parts[0], parts[1], q)
    else:
        a, b, c, d = parts
        made = _four((a, c, b, d), q, fourth)
    return jnp.stack([modular.reduce_lazy(y, q) for y in made], axis=p.parts)


def _inverse(
    x: jax.Array,
    p: Pass,
    q: jax.Array,
    w: list[Twiddle],
    fourth: Twiddle,
    scale: Twiddle | None,
) -> jax.Array:
    # In [0, 2q) before and after; the last pass also divides by n, and ends in [0, q).
    (q,) = _shaped(p.block, q)
    parts = _parts(x, p)
    if p.size == 2:
        values = _pair(parts[0], parts[1], q)
    else:
        total, minus, y, z = _four(parts, q, fourth)
        values = total, y, minus, z
    if scale is None:
        products = [_lazily(y, v, q) for y, v in zip(values[1:], w, strict=True)]
        return jnp.stack([_below_2q(values[0], q), *products], axis=p.parts)
    every = zip(values, (scale, *w), strict=True)
    return jnp.stack([modular.shoup_mul(y, v[0], v[1], q) for y, v in every], axis=p.parts)
