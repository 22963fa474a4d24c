"""Substitutions of X: the automorphisms X -> X^g, g odd, and the embedding p(Y) -> p(X^k).

Automorphisms permute NTT values, and coefficients up to sign. A shift, X^k p, turns coefficients.
The embedding into the ring of degree n = k m repeats each value k times.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ren.lowering.kernels import tables
from ren.lowering.kernels.order import evaluation_exponents

# Residues, from the longest vector to `kColumnsOfGroup` of native code: more have no place there.
_LENGTHS = tuple(1 << i for i in range(4, 12))


@lru_cache(maxsize=256)
def coefficient_permutation(n: int, g: int) -> tuple[np.ndarray, np.ndarray]:
    """(index int32[n], negate bool[n]) with (sigma_g p)_j = (-1)^negate[j] p_index[j].

    X^i goes to X^(g i), so coefficient j comes from i = j / g mod 2n, where X^(i + n) = -X^i.
    """
    source = np.arange(n, dtype=np.int64) * pow(g, -1, 2 * n) % (2 * n)
    return tables.frozen((source % n).astype(np.int32)), tables.frozen(source >= n)


@lru_cache(maxsize=256)
def evaluation_permutation(n: int, g: int) -> np.ndarray:
    """index int32[n] with ntt(sigma_g p)[j] = ntt(p)[index[j]], as (sigma_g p)(z) = p(z^g)."""
    exponents = evaluation_exponents(n)
    position = np.zeros(2 * n, np.int32)
    position[exponents] = np.arange(n)
    return tables.frozen(position[exponents * (g % (2 * n)) % (2 * n)])


def permute_evaluations(x: jax.Array, index: jax.Array) -> jax.Array:
    """sigma_g on values: out[j] = x[index[j]], for `evaluation_permutation(n, g)`.

    Args:
        x: uint32[*batch, L, n].
        index: int32[n], a permutation of 0 .. n-1.
    """
    return x.at[..., index].get(mode="promise_in_bounds", unique_indices=True)


@lru_cache(maxsize=256)
def shift_permutation(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(index int32[n], negate bool[n]) with (X^k p)_j = (-1)^negate[j] p_index[j]."""
    turns, place = np.divmod(np.arange(n) - k, n)
    return tables.frozen(place.astype(np.int32)), tables.frozen(turns % 2 == 1)


@lru_cache(maxsize=256)
def shift_start(n: int, k: int) -> np.ndarray:
    """int32[1] with the place where X^k p begins in p - X^n p + X^2n p, 0 <= k < 2n."""
    return tables.frozen(np.array([-k % (2 * n)], np.int32))


def shift_coefficients(x: jax.Array, minus_x: jax.Array, start: jax.Array) -> jax.Array:
    """X^k p on coefficients: n neighbours of p, -p, p from `shift_start(n, k)` on.

    Args:
        x, minus_x: uint32[*batch, L, n].
        start: int32[1].
    """
    period = jnp.concatenate([x, minus_x, x], axis=-1)
    return lax.dynamic_slice_in_dim(period, start[0], x.shape[-1], axis=-1)


@lru_cache(maxsize=256)
def embedding_index(n: int, m: int) -> np.ndarray:
    """index int32[n] with ntt(p(X^k))[j] = ntt(p)[index[j]] for p of degree m = n / k.

    Value j is at psi^e, e = evaluation_exponents(n)[j]. There p(X^k) is p at (psi^k)^e. The root of
    degree n is x^((q-1)/2n) for the least non-residue x mod q. So psi^k is the root of degree m,
    for every q, and e counts modulo its order 2m.
    """
    position = np.zeros(2 * m, np.int32)
    position[evaluation_exponents(m)] = np.arange(m)
    return tables.frozen(position[evaluation_exponents(n) % (2 * m)])


@lru_cache(maxsize=256)
def repeats(n: int, m: int) -> tuple[int, int] | None:
    """(block, period) of `embedding_index(n, m)`: its blocks of that length have that period.

    Both are powers of two, the period 1 or whole vectors of every processor. Of all such pairs it
    is that with most repetitions; None where there is none.
    """
    index, found = embedding_index(n, m), list[tuple[int, int, int]]()
    for block in (b for b in _LENGTHS if b <= n):
        for period in (1, *(p for p in _LENGTHS if p < block)):
            parts = index.reshape(-1, block // period, period)
            if (parts == parts[:, :1]).all():
                found.append((block // period, block, period))
                break
    return max(found)[1:] if found else None


def embed_values(x: Any, index: jax.Array) -> jax.Array:
    """p(X^k) on values: out[j] = x[index[j]], for `embedding_index(n, m)`.

    Args:
        x: uint32[*batch, L, m]; or [*batch, L, 1], one number in all places, which stays so.
        index: int32[n], of positions in 0 .. m-1.
    """
    return x if x.shape[-1] == 1 else x.at[..., index].get(mode="promise_in_bounds")


def embed_coefficients(x: Any, k: int) -> jax.Array:
    """p(X^k) on coefficients: coefficient i goes to i k, the others are zero.

    Args:
        x: uint32[*batch, L, m].
        k: n / m.
    """
    spread = [*[(0, 0, 0)] * (x.ndim - 1), (0, k - 1, k - 1)]
    return lax.pad(x, jnp.uint32(0), spread)
