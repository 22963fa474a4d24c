"""The negacyclic number theoretic transform and its inverse, as jax.numpy.

ntt(p)[j] = p(psi^e[j]) mod q, e = order.evaluation_exponents(n). Both transforms are linear, so
they act on Montgomery residues as on plain ones; twiddles are plain, with Shoup companions.

Both are networks of the butterfly (u, v) -> (u + v, (u - v) w), which needs one product for two
results. The other one, (u + w v, u - w v), costs two here. XLA:CPU writes the two results in two
loops, each of which computes what it needs. So the forward transform first turns X^n + 1 into
cyclic problems of half the size, X = psi Y and X = psi^3 Y. The price is two products more for each
pair, once. Its twiddles then depend on the place in a block. Those of the inverse depend on the
block.

Passes over memory cost as much as arithmetic. So two of the log2(n) stages are one pass where two
are left. That is a butterfly of four parts, whose two inner twiddles differ by i = psi^(n/2). Its
four results take 0, 1, 2 and 2 products. In the first phase the parts of a butterfly stand far
apart and the innermost loop runs over contiguous columns. When they come closer than C =
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
from ren.lowering.kernels.keeps_calls import cut, in_chunks
from ren.lowering.kernels.order import (
    Pass,
    block_exponents,
    block_order,
    columns,
    forward_passes,
    inverse_passes,
)

Twiddle = tuple[jax.Array, ...]  # a twiddle and its Shoup companion


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


def row_tables(n: int, q: int) -> tuple[np.ndarray]:
    """Merged twiddles of one modulus, forward and inverse: uint32[4, n], companions after each.

    Entry m + i is psi^bit_reversed(m + i), of psi^-1 for the inverse, for block i of the stage of m
    blocks. Those of the near stages are in the order in which they are read. The inverse has n^-1
    in entry 0, and in entry 1 too. `ntt` is not such a network; another backend's kernel may be.
    """
    psi, rows = primitive_root_of_unity(n, q), []
    for root, scale in ((psi, 1), (pow(psi, -1, q), pow(n, -1, q))):
        twiddles = tables.powers([root], n, [q])[:, block_order(n)]
        twiddles[:, :2] = twiddles[:, :2] * np.uint64(scale) % np.uint64(q)
        rows += tables.shoup(twiddles, [q])
    return (tables.frozen(np.concatenate(rows)),)


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
    if n == 2:  # x_0 +- psi x_1
        low, high = x[..., :1], modular.shoup_mul(x[..., 1:], w[:, -1:], w_shoup[:, -1:], q)
        return jnp.concatenate([modular.add(low, high, q), modular.sub(low, high, q)], axis=-1)
    far, near = forward_passes(n)
    x = _divided(x, far[0], q, w, w_shoup)
    start = n
    for p in (*far[1:], *near):
        if p is near[0]:
            x = _transposed(x.reshape(shape))
        fourth = _shaped(p.place, w[:, -1:], w_shoup[:, -1:])
        own: list[Twiddle] = []
        if p is not near[-1]:
            stop = start + (p.size - 1) * (n // (p.size * p.m))
            own = _twiddles(p.place, p.size, w[:, start:stop], w_shoup[:, start:stop])
            start = stop
        x = _forward(x.reshape(shape), p, q, own, fourth)
    return x.reshape(shape)


def _intt(x: jax.Array, q: jax.Array, w: jax.Array, w_shoup: jax.Array) -> jax.Array:
    shape = x.shape
    near, far = inverse_passes(shape[-1])
    start = 0
    for p in (*near, *far):
        if p is far[0]:
            x = _transposed(x.reshape(shape))
        stop = start + (p.size - 1) * p.m
        own = _twiddles(p.block, p.size, w[:, start:stop], w_shoup[:, start:stop])
        scale = _shaped(p.block, w[:, -2:-1], w_shoup[:, -2:-1]) if p is far[-1] else None
        fourth = _shaped(p.block, w[:, -1:], w_shoup[:, -1:])
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


def _twiddles(axes: tuple[int, ...], size: int, w: jax.Array, w_shoup: jax.Array) -> list[Twiddle]:
    # w, and of two stages w^2 and w^3 too.
    count = w.shape[1] // (size - 1)
    starts = range(0, w.shape[1], count)
    return [_shaped(axes, w[:, i : i + count], w_shoup[:, i : i + count]) for i in starts]


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


def _butterfly(parts: Sequence[jax.Array], q: jax.Array, fourth: Twiddle) -> list[jax.Array]:
    # The stages of a pass without their twiddles, from [0, 2q) to [0, 4q). One is u + v and u - v;
    # two are (a + b) +- (c + d), then (a - b) +- i (c - d), for i^2 = -1.
    if len(parts) == 2:
        u, v = parts
        return [u + v, u - v + 2 * q]
    a, b, c, d = parts
    u, v = _below_2q(a + b, q), _below_2q(c + d, q)
    y, z = _below_2q(a - b + 2 * q, q), _lazily(c - d + 2 * q, fourth, q)
    return [*_butterfly((u, v), q, fourth), *_butterfly((y, z), q, fourth)]


def _below_2q(x: jax.Array, q: jax.Array) -> jax.Array:
    return jnp.minimum(x, x - 2 * q)


def _lazily(x: jax.Array, w: Twiddle, q: jax.Array) -> jax.Array:
    return modular.shoup_mul_lazy(x, w[0], w[1], q)


def _forward(x: jax.Array, p: Pass, q: jax.Array, w: list[Twiddle], fourth: Twiddle) -> jax.Array:
    # In [0, 2q) before and after; the last pass, whose twiddles are 1, ends in [0, q).
    (q,) = _shaped(p.place, q)
    parts = _parts(x, p)
    values = _butterfly(parts[::2] + parts[1::2], q, fourth)
    if not w:
        return jnp.stack([modular.reduce_lazy(y, q) for y in values], axis=p.parts)
    w = [w[1], w[0], w[2]] if p.size == 4 else w
    products = (_lazily(y, v, q) for y, v in zip(values[1:], w, strict=True))
    return jnp.stack([_below_2q(values[0], q), *products], axis=p.parts)


def _inverse(
    x: jax.Array, p: Pass, q: jax.Array, w: list[Twiddle], fourth: Twiddle, scale: Twiddle | None
) -> jax.Array:
    # In [0, 2q) before and after; the last pass also divides by n, and ends in [0, q).
    (q,) = _shaped(p.block, q)
    values = _butterfly(_parts(x, p), q, fourth)
    values = values[::2] + values[1::2]
    if scale is None:
        products = [_lazily(y, v, q) for y, v in zip(values[1:], w, strict=True)]
        return jnp.stack([_below_2q(values[0], q), *products], axis=p.parts)
    every = zip(values, (scale, *w), strict=True)
    return jnp.stack([modular.shoup_mul(y, v[0], v[1], q) for y, v in every], axis=p.parts)
