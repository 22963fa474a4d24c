"""The automorphisms X -> X^g, g odd: they permute NTT values, and coefficients up to sign."""

from __future__ import annotations

from functools import lru_cache

import jax
import numpy as np

from ren.lowering.kernels import tables
from ren.lowering.kernels.order import evaluation_exponents


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
