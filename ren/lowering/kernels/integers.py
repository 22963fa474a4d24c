"""Integers of 64 bits to residues, and residues to the mixed-radix digits of small integers.

What encoding and decoding are made of. Traced like the other kernels; constants are arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ren.lowering.kernels.modular import mont_mul, mul_sum, reduce_wide, sub, wide
from ren.lowering.kernels.tables import R, column, frozen, modulus, montgomery_constant

Moduli = tuple[int, ...]


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


def digit_tables(moduli: Moduli) -> tuple[np.ndarray, ...]:
    """The tables of `digits`, from the moduli d_j of its limbs: (d, d^-1 mod R), R^2 mod d_j and
    (d_j - 1)/2, each [count, 1], and the inverses of d_i mod d_j [count, count, 1]."""
    count = len(moduli)
    inverses = np.zeros((count, count, 1), np.uint32)
    for j, q in enumerate(moduli):
        for i, p in enumerate(moduli[:j]):
            # In Montgomery form but for the last, whose product is to be plain.
            inverses[i, j] = pow(p, -1, q) * (R if i < j - 1 else 1) % q
    squares, middles = column([R * R % q for q in moduli]), column([q // 2 for q in moduli])
    return (*modulus(moduli), squares, middles, frozen(inverses))


def digits(tables: Sequence[jax.Array], limbs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The mixed-radix digits of what the last limbs say.

    Let x in (-D/2, D/2] have the residues of the last `count` limbs, D = d_0 ... d_(count-1).

    Args:
        tables: `digit_tables`, of the moduli d_i of those.
        limbs: uint32 [*batch, limb, n], Montgomery residues in [0, q_i).

    Returns:
        v_i in [0, d_i) with x = v_0 + d_0 (v_1 + d_1 (v_2 + ..)) (mod D), uint32
        [*batch, count, n]; and 1 where x is negative, else 0, uint32 [*batch, n].
    """
    q, qinv, squares, middles, inverses = tables
    found: list[jax.Array] = []
    negative = jnp.zeros((*limbs.shape[:-2], limbs.shape[-1]), bool)
    for j in range(len(q)):
        rest = limbs[..., j - len(q), :]
        if j == 0:
            rest = mont_mul(rest, jnp.ones_like(q[0]), q[0], qinv[0])
        for i, digit in enumerate(found):  # Garner: (x - v_0) / d_0, (.. - v_1) / q_1, ..
            below = mont_mul(digit, squares[j], q[j], qinv[j])  # in Montgomery form
            rest = mont_mul(sub(rest, below, q[j]), inverses[i, j], q[j], qinv[j])
        found.append(rest)
        # Beyond (D - 1)/2, whose digits are (d_j - 1)/2: the most significant that differs decides.
        negative = jnp.where(rest == middles[j], negative, rest > middles[j])
    return jnp.stack(found, axis=-2), negative.astype(jnp.uint32)


def difference_tables(moduli: Moduli, count: int) -> tuple[np.ndarray, ...]:
    """The tables of `differences`: (q, q^-1 mod R) and D R [L, 1], and W_i R^2 [count, L, 1] for
    W_i = d_0 ... d_(i-1)."""
    last = moduli[-count:]
    weights = [math.prod(last[:i]) for i in range(count + 1)]
    whole = montgomery_constant(weights.pop(), moduli)
    factors = frozen(np.stack([montgomery_constant(w * R, moduli) for w in weights]))
    return (*modulus(moduli), whole, factors)


def differences(
    tables: Sequence[jax.Array], found: jax.Array, negative: jax.Array, limbs: jax.Array
) -> jax.Array:
    """For each limb zero where it agrees with what `digits` found in all n coefficients.

    Args:
        tables: `difference_tables`.
        found, negative: from `digits`.
        limbs: uint32 [*batch, limb, n], Montgomery residues in [0, q_i).

    Returns:
        uint32 [*batch, limb].
    """
    q, qinv, whole, factors = tables
    terms = [(found[..., i, None, :], factor) for i, factor in enumerate(factors)]
    expected = mul_sum(terms, q, qinv)  # the sum of v_i (W_i R^2) R^-1: in Montgomery form
    above = jnp.where(negative[..., None, :] > 0, whole, jnp.zeros_like(whole))
    different = sub(expected, above, q) ^ limbs
    return lax.reduce(different, np.uint32(0), lax.bitwise_or, (different.ndim - 1,))
