"""Integers of 64 bits to residues, and residues to the floats nearest to their integers.

What encoding and decoding are made of. Traced like the other kernels; constants are arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ren.lowering.kernels.convert import mixed_radix, mixed_radix_tables
from ren.lowering.kernels.modular import reduce_wide, sub, wide
from ren.lowering.kernels.tables import R, column, frozen, modulus, montgomery_constant

Moduli = tuple[int, ...]
_LARGEST_WEIGHT = 1 << 960  # keeps the products of `floats` inside float64
_PIECES = 3


def residue_tables(moduli: Moduli) -> tuple[np.ndarray, ...]:
    """The tables of `residues`, each uint32[L, 1]."""
    factors = [montgomery_constant(value, moduli) for value in (R, R * R, 1 << 63)]
    return (*modulus(moduli), *factors)


def residues(tables: Sequence[jax.Array], integers: jax.Array) -> jax.Array:
    """c R mod q_i in [0, q_i): uint32 [*batch, limb, n] from int64 c [*batch, n], any values."""
    q, qinv, low_factor, high_factor, shift = tables
    word = integers.astype(jnp.uint64)[..., None, :] ^ np.uint64(1 << 63)  # c + 2^63
    low, high = word.astype(jnp.uint32), (word >> np.uint64(32)).astype(jnp.uint32)
    # Two products below 2^32 q, which `reduce_wide` takes: it divides by R.
    total = wide(low) * wide(low_factor) + wide(high) * wide(high_factor)
    return sub(reduce_wide(total, q, qinv), shift, q)


@lru_cache(maxsize=512)
def float_tables(moduli: Moduli) -> tuple[np.ndarray, ...]:
    """The tables of `floats`, uint32.

    (q, q^-1 mod R) and (q - 1)/2, all [L, 1]; the constants of `mixed_radix`; for each weight
    W_i = q_0 ... q_(i-1) the bits of three float64, as words [L, 3, 2].
    """
    weights = [min(math.prod(moduli[:i]), _LARGEST_WEIGHT) for i in range(len(moduli))]
    pieces = np.array([_pieces(w) for w in weights], "<f8")
    words = frozen(pieces.view("<u4").reshape(len(moduli), _PIECES, 2))
    own, cross = mixed_radix_tables(moduli)
    # The first division takes residues out of Montgomery form too: 1 / P without R.
    first = [int(c) * pow(R, -1, q) % q for c, q in zip(own[0, :, 0], moduli, strict=True)]
    own = frozen(np.concatenate([column(first)[None], own[1:]]))
    return (*modulus(moduli), column([q // 2 for q in moduli]), own, cross, words)


def _pieces(weight: int) -> list[float]:
    """Floats of at most 23 bits that add up to `weight` within 2^-69: with a digit below 2^30 each
    product is exact (53 bits)."""
    pieces = []
    for _ in range(_PIECES):
        shift = max(weight.bit_length() - 23, 0)
        pieces.append(float(weight >> shift << shift))
        weight -= weight >> shift << shift
    return pieces


def floats(tables: Sequence[jax.Array], limbs: jax.Array) -> jax.Array:
    """The centred x in (-Q/2, Q/2] of residues, to a relative error of 2^-52: float64 [*batch, n].

    Args:
        tables: `float_tables`, of the moduli q_i of the limbs, Q their product.
        limbs: uint32 [*batch, limb, n], Montgomery residues in [0, q_i).

    Mixed radix x = sum_i v_i W_i, W_i = q_0 ... q_(i-1). Since (Q-1)/2 has the digits (q_i - 1)/2,
    comparing digits from the top gives the sign. Where x is negative, |x| = 1 + sum_i (q_i - 1 -
    v_i) W_i: all terms are positive, so that nothing cancels. All products of floats are exact:
    contracting them with sums changes no bit. L^2/2 multiply-adds a coefficient, whatever x is.
    """
    q, qinv, middles, own, cross, words = tables
    digits = mixed_radix(limbs, q, qinv, own, cross)
    negative = jnp.zeros((*limbs.shape[:-2], limbs.shape[-1]), bool)
    for i in range(len(q)):  # the most significant digit that differs decides
        v = digits[..., i, :]
        negative = jnp.where(v == middles[i], negative, v > middles[i])
    pieces = lax.bitcast_convert_type(words, jnp.float64)
    high, low = jnp.zeros(negative.shape), negative.astype(jnp.float64)
    for i in reversed(range(len(q))):
        v = digits[..., i, :]
        v = jnp.where(negative, q[i] - np.uint32(1) - v, v).astype(jnp.float64)
        high, error = _two_sum(high, v * pieces[i, 0])
        low = low + (error + v * pieces[i, 1] + v * pieces[i, 2])
    return jnp.where(negative, -1.0, 1.0) * (high + low)


def _two_sum(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """a + b rounded, and its rounding error, exactly (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
