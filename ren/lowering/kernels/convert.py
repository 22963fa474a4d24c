"""Base conversion in coefficient form, as jax.numpy: an approximate and an exact centred lift.

Both take residues of u modulo the product D of k source primes d_i. They represent u by small
digits y_i and constants w_i as u = sum(y_i w_i) - offset. They evaluate that sum modulo each of m
target primes, with one reduction for every 16 products. Residues are Montgomery forms in and out;
digits are plain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ren.lowering.kernels import modular, tables

# Digits that one kernel of `lift` computes. Each later digit of the block recomputes the earlier
# ones (XLA:CPU emits a stack region by region). So its cost grows with the square of the block.
_BLOCK = 4


@lru_cache(maxsize=512)
def convert_tables(
    source_moduli: tuple[int, ...], target_moduli: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    """Tables that `convert` takes after x, in order, uint32.

    For each source limb d, d^-1 mod 2^32, (D/d)^-1 mod d and (d-1)/2, all [k, 1]; for each target
    limb b, b^-1 mod 2^32 and the offset, all [m, 1]; the weights [k, m, 1].
    """
    product = math.prod(source_moduli)
    rests = [product // d for d in source_moduli]
    halves = [d // 2 for d in source_moduli]
    offset = sum(h * r for h, r in zip(halves, rests, strict=True))
    inverses = [pow(r, -1, d) for r, d in zip(rests, source_moduli, strict=True)]
    return (
        *tables.modulus(source_moduli),
        tables.column(inverses),
        tables.column(halves),
        *tables.modulus(target_moduli),
        tables.montgomery_constant(-offset, target_moduli),
        weights_of(rests, target_moduli),
    )


def convert(x: jax.Array, *given: jax.Array) -> jax.Array:
    """The approximate centred lift (MODUP): u = sum_i y_i D/d_i, y_i = centred [x_i (D/d_i)^-1].

    u is congruent to the input modulo D, and |u| < k D / 2. Each y_i is in (-d_i/2, d_i/2].

    Args:
        x: uint32[*batch, k, n], Montgomery residues modulo the source, coefficient domain.
        given: `convert_tables(source_moduli, target_moduli)`; the two are disjoint.

    Returns:
        uint32[*batch, m, n], Montgomery residues of u modulo the target.

    Cost: k products and k m multiply-adds a coefficient. Reference: Halevi, Polyakov, Shoup, "An
    improved RNS variant of the BFV scheme" (2018), section 2.
    """
    d, d_inv, scale, half, b, b_inv, offset, weights = given
    # The centred y is [y + (d-1)/2]_d - (d-1)/2: a digit in [0, d), and a constant part of the
    # offset.
    digits = _as_one_kernel(
        lambda part: modular.add(modular.mont_mul(part, scale, d, d_inv), half, d), x
    )
    return weighted_sum(digits, weights, offset, b, b_inv)


@lru_cache(maxsize=512)
def lift_tables(
    source_moduli: tuple[int, ...], target_moduli: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    """Tables that `lift` takes after x, in order, uint32.

    For each source limb d, d^-1 mod 2^32 and (D-1)/2 mod d, all [k, 1]; mixed-radix constants
    [blocks, k, 1] and [k, k, 1]; for the target as in `convert_tables`.
    """
    half = math.prod(source_moduli) // 2
    radices = [math.prod(source_moduli[:i]) for i in range(len(source_moduli))]
    return (
        *tables.modulus(source_moduli),
        tables.plain_constant(half, source_moduli),
        *mixed_radix_tables(source_moduli),
        *tables.modulus(target_moduli),
        tables.montgomery_constant(-half, target_moduli),
        weights_of(radices, target_moduli),
    )


def lift(x: jax.Array, *given: jax.Array) -> jax.Array:
    """The exact centred lift: the u in (-D/2, D/2] with the residues x, modulo each target prime b.

    Args:
        x: uint32[*batch, k, n], Montgomery residues modulo the source, coefficient domain.
        given: `lift_tables(source_moduli, target_moduli)`.

    Returns:
        uint32[*batch, m, n], Montgomery residues of u modulo the target.

    Cost: k^2 / 2 + k m multiply-adds a coefficient.
    Reference: Garner, "The residue number system" (1959), mixed radix; centred by adding (D-1)/2.
    """
    d, d_inv, half, own, cross, b, b_inv, offset, weights = given
    plain = modular.mont_mul(x, jnp.ones_like(d), d, d_inv)
    digits = mixed_radix(modular.add(plain, half, d), d, d_inv, own, cross)
    return weighted_sum(digits, weights, offset, b, b_inv)


def weights_of(values: list[int], moduli: tuple[int, ...]) -> np.ndarray:
    # One factor 2^32 leaves with the reduction, the other makes the result a Montgomery form.
    rows = [tables.montgomery_constant(v * tables.R, moduli) for v in values]
    return tables.frozen(np.stack(rows))


def weighted_sum(
    digits: jax.Array, weights: jax.Array, offset: jax.Array, b: jax.Array, b_inv: jax.Array
) -> jax.Array:
    # Digits are below 2^30 whatever b is and weights below b: the range that mul_sum asks for.
    terms = [(digits[..., i : i + 1, :], weights[i]) for i in range(weights.shape[0])]
    return modular.add(modular.mul_sum(terms, b, b_inv), offset, b)


def _as_one_kernel(f: Callable[..., jax.Array], *x: jax.Array) -> jax.Array:
    # f is coefficientwise; here on the two halves of n, to end in a concatenation.
    middle = x[0].shape[-1] // 2
    halves = [f(*(a[..., part] for a in x)) for part in (slice(middle), slice(middle, None))]
    return _materialized(halves, axis=-1)


def _materialized(parts: list[jax.Array], axis: int) -> jax.Array:
    # XLA:CPU fuses elementwise work into each of its readers and so would compute a digit again for
    # every target limb. It does not so fuse a concatenation. The barrier keeps it from reading
    # through one to its parts. The barrier alone is dropped before fusion (jaxlib 0.10, measured).
    return lax.optimization_barrier(jnp.concatenate(parts, axis=axis))


def mixed_radix_tables(moduli: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(own [k, 1], cross [k, k, 1]) with the constants of `mixed_radix`.

    With P_j = d_0 .. d_(j-1): own[j] = 1 / P_j, and cross[i, j] = -P_i / P_j for i < j, else 0.
    Both are mod d_j in Montgomery form.
    """
    products = [math.prod(moduli[:j]) for j in range(len(moduli))]
    cross = np.zeros((len(moduli), len(moduli), 1), np.uint32)
    inverses = [pow(p, -1, d) * tables.R for p, d in zip(products, moduli, strict=True)]
    for j, d in enumerate(moduli):
        cross[:j, j, 0] = [-p * inverses[j] % d for p in products[:j]]
    own = tables.column([c % d for c, d in zip(inverses, moduli, strict=True)])
    return own, tables.frozen(cross)


def mixed_radix(
    x: jax.Array, d: jax.Array, d_inv: jax.Array, own: jax.Array, cross: jax.Array
) -> jax.Array:
    """Plain residues x to digits v_i in [0, d_i) with the value sum(v_i d_0 .. d_(i-1)).

    v_j = x_j own_j + sum_(i<j) v_i cross_ij mod d_j. One kernel computes a block of digits, another
    what earlier blocks add to it. Unrolled digit by digit, fused recomputation would double with
    every digit.
    """
    k, blocks = d.shape[0], []
    for start in range(0, k, _BLOCK):
        rows = slice(start, min(start + _BLOCK, k))
        part = x[..., rows, :]
        if start:
            factors = [own[rows], *(c[rows] for c in cross[:start])]
            add_up = partial(_weighted, factors=factors, d=d[rows], d_inv=d_inv[rows])
            part = _as_one_kernel(add_up, part, *blocks)
        blocks.append(_block_digits(part, start, d, d_inv, own, cross))
    return jnp.concatenate(blocks, axis=-2) if len(blocks) > 1 else blocks[0]


def _weighted(
    x: jax.Array, *blocks: jax.Array, factors: list[jax.Array], d: jax.Array, d_inv: jax.Array
) -> jax.Array:
    # The first factor is that of the limbs x, the others are those of the digits in blocks.
    rows = [b[..., t : t + 1, :] for b in blocks for t in range(b.shape[-2])]
    return modular.mul_sum(list(zip([x, *rows], factors, strict=True)), d, d_inv)


def _block_digits(
    x: jax.Array, start: int, d: jax.Array, d_inv: jax.Array, own: jax.Array, cross: jax.Array
) -> jax.Array:
    # Of the limbs, or of what these and earlier blocks add up to. A digit v_i < 2^30 may exceed
    # d_j, which mul_sum allows.
    digits: list[jax.Array] = []
    for t in range(x.shape[-2]):
        j, part = start + t, x[..., t : t + 1, :]
        q, q_inv = d[j : j + 1], d_inv[j : j + 1]
        terms = [(v, cross[start + i, j]) for i, v in enumerate(digits)]
        if not start:
            part = modular.mul_sum([(part, own[j]), *terms], q, q_inv)
        elif terms:
            part = modular.add(part, modular.mul_sum(terms, q, q_inv), q)
        digits.append(part)
    return _materialized(digits, axis=-2)
