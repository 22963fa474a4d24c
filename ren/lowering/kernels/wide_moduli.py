"""Residues modulo wide moduli, 2^30 <= m < 2^61, as jax.numpy: two limbs each, low and high word.

They are plain, not Montgomery forms. Arithmetic joins the words to uint64. All of it is traced
inside `with jax.enable_x64(True)`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce

import jax
import jax.numpy as jnp
import numpy as np

from ren.lowering.kernels import convert, modular, tables

_WORD = np.uint64(32)
_LOW_BITS = 31  # of a weight; a product of them with a digit below 2^30 is below 2^61
_MAX_TERMS = 8  # products below 2^61 that 64 bits hold


def joined(x: jax.Array, widths: Sequence[int]) -> jax.Array:
    """uint32[*batch, limb, n] to uint64[*batch, modulus, n], of moduli with 1 or 2 limbs each."""
    rows, at = [], 0
    for count in widths:
        row = modular.wide(x[..., at, :])
        rows.append(row | modular.wide(x[..., at + 1, :]) << _WORD if count == 2 else row)
        at += count
    return jnp.stack(rows, axis=-2)


def split(x: jax.Array, widths: Sequence[int]) -> jax.Array:
    """The inverse of `joined`."""
    rows = []
    for i, count in enumerate(widths):
        row = x[..., i, :]
        words = (row, row >> _WORD)[:count]
        rows += [word.astype(jnp.uint32) for word in words]
    return jnp.stack(rows, axis=-2)


def elementwise(f: Callable[..., jax.Array], widths: Sequence[int], *x: jax.Array) -> jax.Array:
    """f of numbers below 2^61 in place of limbs: `modular.add` and its like do for uint64 too."""
    return split(f(*(joined(a, widths) for a in x)), widths)


@lru_cache(maxsize=512)
def lift_from_wide_tables(
    source_moduli: tuple[int], target_moduli: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    """Tables that `lift_from_wide` takes after x, uint32 [m, 1].

    For each target prime b, b^-1 mod 2^32, the Montgomery forms of 2^32, of 2^64, and of the
    modulus. The words of half the modulus, [2, 1], come last.
    """
    (m,) = source_moduli
    factors = [tables.montgomery_constant(v, target_moduli) for v in (1 << 32, 1 << 64, m)]
    return (*tables.modulus(target_moduli), *factors, tables.column(tables.words(m // 2)))


def lift_from_wide(x: jax.Array, *given: jax.Array) -> jax.Array:
    """The exact centred lift from one wide modulus, modulo each target prime.

    Args:
        x: uint32[*batch, 2, n], words of residues in [0, m).
        given: `lift_from_wide_tables((m,), target_moduli)`.

    Returns:
        uint32[*batch, target, n], Montgomery residues. Cost: two multiply-adds a residue.
    """
    b, b_inv, low_factor, high_factor, modulus, half = given
    low, high = x[..., :1, :], x[..., 1:, :]
    # low 2^64 + high 2^96, below 2^33 b; a product divides by 2^32.
    total = modular.mul_wide(low, low_factor) + modular.mul_wide(high, high_factor)
    above = joined(x, (2,)) > joined(half, (2,))
    return modular.sub(
        modular.reduce_wide(total, b, b_inv), jnp.where(above, modulus, jnp.uint32(0)), b
    )


@lru_cache(maxsize=512)
def lift_to_wide_tables(
    source_moduli: tuple[int, ...], target_moduli: tuple[int]
) -> tuple[np.ndarray, ...]:
    """Tables that `lift_to_wide` takes after x, uint32.

    Those of `convert.lift` of the source. Then the words of the modulus m and of -(D - 1)/2 mod m,
    both [2, 1]; of each weight d_0 .. d_(i-1) mod m the low 31 bits and the others, [k, 2].
    """
    (m,), half = target_moduli, math.prod(source_moduli) // 2
    weights = [math.prod(source_moduli[:i]) % m for i in range(len(source_moduli))]
    parts = [(w % (1 << _LOW_BITS), w >> _LOW_BITS) for w in weights]
    return (
        *tables.modulus(source_moduli),
        tables.plain_constant(half, source_moduli),
        *convert.mixed_radix_tables(source_moduli),
        tables.column(tables.words(m)),
        tables.column(tables.words(-half % m)),
        tables.frozen(np.array(parts, np.uint32)),
    )


def lift_to_wide(x: jax.Array, *given: jax.Array) -> jax.Array:
    """The exact centred lift modulo one wide modulus m: the words of u mod m, u in (-D/2, D/2].

    Args:
        x: uint32[*batch, k, n], Montgomery residues modulo the source, coefficient domain.
        given: `lift_to_wide_tables(source_moduli, (m,))`.

    Returns:
        uint32[*batch, 2, n]. Cost: k^2 / 2 + 2 k multiply-adds a coefficient.
    """
    d, d_inv, half, own, cross, modulus, offset, weights = given
    plain = modular.mont_mul(x, jnp.ones_like(d), d, d_inv)
    digits = convert.mixed_radix(modular.add(plain, half, d), d, d_inv, own, cross)
    m, total = joined(modulus, (2,)), joined(offset, (2,))
    for start in range(0, weights.shape[0], _MAX_TERMS):
        terms = range(start, min(start + _MAX_TERMS, weights.shape[0]))
        low, high = (
            reduce(
                operator.add,
                [modular.mul_wide(digits[..., i : i + 1, :], weights[i, part]) for i in terms],
            )
            for part in (0, 1)
        )
        total = modular.add(_reduced(low, high, m), total, m)
    return split(total, (2,))


def _reduced(low: jax.Array, high: jax.Array, m: jax.Array) -> jax.Array:
    """low + 2^31 high mod m, of a sum of up to 8 digits below 2^30 times weights below m.

    The quotient is below 2^33, and its estimate in float64 is off by one at most. So the remainder
    of the estimate is in (-m, 2m), and its low 64 bits suffice.
    """
    float_of = high.astype(jnp.float64) * float(1 << _LOW_BITS) + low.astype(jnp.float64)
    quotient = (float_of / m.astype(jnp.float64)).astype(jnp.uint64)
    r = low + (high << np.uint64(_LOW_BITS)) - quotient * m
    r = jnp.minimum(r, r + m)  # where r < 0 the sum wraps to the smaller number
    return jnp.minimum(r, r - m)
