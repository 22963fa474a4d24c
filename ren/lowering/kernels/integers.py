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
from ren.lowering.kernels.modular import add, mont_mul, reduce_wide, sub, wide
from ren.lowering.kernels.tables import (
    R,
    column,
    frozen,
    modulus,
    montgomery_constant,
    plain_constant,
)

Moduli = tuple[int, ...]
_LARGEST_WEIGHT = 1 << 930  # the next one is below 2^960,
_MOST_DOUBLED = 60  # and doubled so often it keeps the sums of `floats` inside float64
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

    (q, q^-1 mod R) and (Q - 1)/2 mod q, all [L, 1]. The constants of `mixed_radix`. (q - 1)/2 and
    the largest digit that counts, both [L, 1]. For each weight W_i = q_0 ... q_(i-1) the bits of
    three float64, as words [L, 3, 2].
    """
    weights = [math.prod(moduli[:i]) for i in range(len(moduli))]
    exact = sum(w <= _LARGEST_WEIGHT for w in weights)  # the first of the others has a weight too
    largest = math.prod(moduli[:exact])
    weights[exact:] = [largest << min(i, _MOST_DOUBLED) for i in range(len(moduli) - exact)]
    pieces = np.array([_pieces(w) for w in weights], "<f8")
    middles = [q // 2 for q in moduli]
    return (
        *modulus(moduli),
        plain_constant(math.prod(moduli) // 2, moduli),
        *mixed_radix_tables(moduli),
        column(middles),
        column([*middles[:exact], *[1] * (len(moduli) - exact)]),
        frozen(pieces.view("<u4").reshape(len(moduli), _PIECES, 2)),
    )


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

    Mixed radix x + (Q-1)/2 = sum_i v_i W_i, W_i = q_0 ... q_(i-1). Since (Q-1)/2 has the digits
    (q_i - 1)/2, x has the centred digits d_i = v_i - (q_i - 1)/2. Those before a digit that is not
    0 add up to less than W_i / 2. So little cancels. A sum from the top is never below the next
    term: its rounding error is known (Dekker). Where weights are beyond floats only the signs of
    digits count. These weights double: such an x comes out large, with its sign. All products of
    floats are exact: contracting them with sums changes no bit. L^2/2 multiply-adds a coefficient,
    whatever x is.

    Reference: Dekker, "A floating-point technique for extending the available precision" (1971).
    """
    q, qinv, half, own, cross, middles, most, words = tables
    plain = mont_mul(limbs, jnp.ones_like(q), q, qinv)
    digits = mixed_radix(add(plain, half, q), q, qinv, own, cross)
    pieces = lax.bitcast_convert_type(words, jnp.float64)
    centred = (digits - middles).astype(jnp.int32)
    limit = most.astype(jnp.int32)
    centred = jnp.clip(centred, -limit, limit)
    high = low = jnp.zeros((*limbs.shape[:-2], limbs.shape[-1]))
    for i in reversed(range(len(q))):
        d = centred[..., i, :].astype(jnp.float64)
        term = d * pieces[i, 0]
        total = high + term
        low = low + ((term - (total - high)) + d * pieces[i, 1] + d * pieces[i, 2])
        high = total
    return high + low
