"""Arithmetic on residues modulo primes q < 2^30, as jax.numpy on uint32 with uint64 products.

Every function broadcasts [*batch, L, n] residues with per-limb constants [L, 1]. It must be traced
inside `with jax.enable_x64(True)`. No uint64 leaves a function whose name has no `wide`.

Residues are uint32 in [0, q) unless a name says lazy. R = 2^32; the Montgomery form of v is v R mod
q; `qinv` is q^-1 mod R (`tables.modulus`). Corrections use `min(x, x - c)` on unsigned numbers:
where x < c the difference wraps to at least 2^32 - c > x, so the minimum keeps x.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np

_WORD = np.uint64(32)
MAX_TERMS = 16  # products that `reduce_wide` takes: 16 (2^30 - 1) q < min(2^34 q, 2^64)
_FEW_TERMS = 4  # products that `mont_reduce` takes: 4 (2^30 - 1) q < 2^32 q


def add(a: jax.Array, b: jax.Array, q: jax.Array) -> jax.Array:
    """a + b mod q, operands and result in [0, q)."""
    s = a + b  # < 2q < 2^31
    return jnp.minimum(s, s - q)


def sub(a: jax.Array, b: jax.Array, q: jax.Array) -> jax.Array:
    """a - b mod q, operands and result in [0, q)."""
    return _lift_negative(a - b, q)


def neg(a: jax.Array, q: jax.Array) -> jax.Array:
    """-a mod q, operand and result in [0, q); 0 goes to 0."""
    return jnp.minimum(-a, q - a)  # -a wraps to 0 or to at least 2^32 - q + 1 > q - a


def _lift_negative(d: jax.Array, q: jax.Array) -> jax.Array:
    # d is a difference in (-q, 3q) mod 2^32. Non-negative: d + q < 4q < 2^32 does not wrap, d is
    # kept. Negative: d is at least 2^32 - q > 3q, and d + q wraps to the smaller number in [0, q).
    return jnp.minimum(d, d + q)


def wide(a: jax.Array) -> jax.Array:
    """uint32 -> uint64."""
    return a.astype(jnp.uint64)


def mul_wide(a: jax.Array, b: jax.Array) -> jax.Array:
    """The exact product of two uint32 arrays, in uint64."""
    return wide(a) * wide(b)


def _split_wide(t: jax.Array, q: jax.Array, qinv: jax.Array) -> tuple[jax.Array, jax.Array]:
    # (hi, h) with t = hi R + lo and h R + lo = m q for m = lo q^-1 mod R. So t R^-1 = hi - h (mod
    # q) and h < q (Montgomery, "Modular multiplication without trial division", 1985, in signed
    # form).
    m = t.astype(jnp.uint32) * qinv
    return (t >> _WORD).astype(jnp.uint32), (mul_wide(m, q) >> _WORD).astype(jnp.uint32)


def mont_reduce(t: jax.Array, q: jax.Array, qinv: jax.Array) -> jax.Array:
    """t R^-1 mod q in [0, q), for uint64 t < q R."""
    hi, h = _split_wide(t, q, qinv)  # hi < q because t < q R
    return _lift_negative(hi - h, q)


def reduce_wide(t: jax.Array, q: jax.Array, qinv: jax.Array) -> jax.Array:
    """t R^-1 mod q in [0, q), for uint64 t < 2^34 q: sums of up to 16 products below 2^30 q."""
    hi, h = _split_wide(t, q, qinv)  # hi < 4q < 2^32
    hi = jnp.minimum(hi, hi - 2 * q)  # < 2q
    r = _lift_negative(hi - h, q)  # hi - h in (-q, 2q), so r in [0, 2q)
    return jnp.minimum(r, r - q)


def mont_mul(a: jax.Array, b: jax.Array, q: jax.Array, qinv: jax.Array) -> jax.Array:
    """a b R^-1 mod q in [0, q), for any a < 2^32 and b < q (then a b < q R).

    The product of two Montgomery forms in Montgomery form. With b a plain constant it takes a
    Montgomery form a to the plain residue of the product.
    """
    return mont_reduce(mul_wide(a, b), q, qinv)


def mul_sum(
    terms: Sequence[tuple[jax.Array, jax.Array]], q: jax.Array, qinv: jax.Array
) -> jax.Array:
    """sum(a_t b_t) R^-1 mod q in [0, q), with one reduction for every 16 terms.

    Args:
        terms: pairs (a_t, b_t) with a_t < 2^30 (of any modulus) and b_t < q.
        q, qinv: uint32[L, 1].
    """
    parts = []
    for start in range(0, len(terms), MAX_TERMS):
        products = [mul_wide(a, b) for a, b in terms[start : start + MAX_TERMS]]
        reduced = mont_reduce if len(products) <= _FEW_TERMS else reduce_wide
        parts.append(reduced(reduce(operator.add, products), q, qinv))
    return reduce(lambda a, b: add(a, b, q), parts)


def shoup_mul_lazy(a: jax.Array, w: jax.Array, w_shoup: jax.Array, q: jax.Array) -> jax.Array:
    """a w mod q in the lazy range [0, 2q), for any a < 2^32, w < q, w_shoup = floor(w R / q).

    The quotient estimate h = floor(a w_shoup / R) is floor(a w / q) or one less. So the exact a w -
    h q is below 2q and its low 32 bits suffice (Harvey, "Faster arithmetic for number-theoretic
    transforms", 2014, section 2).
    """
    h = (mul_wide(a, w_shoup) >> _WORD).astype(jnp.uint32)
    return a * w - h * q


def shoup_mul(a: jax.Array, w: jax.Array, w_shoup: jax.Array, q: jax.Array) -> jax.Array:
    """a w mod q in [0, q), for any a < 2^32, w < q, w_shoup = floor(w R / q)."""
    r = shoup_mul_lazy(a, w, w_shoup, q)
    return jnp.minimum(r, r - q)


def reduce_lazy(a: jax.Array, q: jax.Array) -> jax.Array:
    """a mod q in [0, q), for a in the lazy range [0, 4q)."""
    a = jnp.minimum(a, a - 2 * q)
    return jnp.minimum(a, a - q)
