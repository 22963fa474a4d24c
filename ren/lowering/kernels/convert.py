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
    """(own [blocks, k, 1], cross [k, k, 1]) with the constants of `mixed_radix`.

    Block c holds the limbs [s, e). For a limb j >= s: own[c, j] = 1 / P and, for i in the block,
    cross[i, j] = -(d_s .. d_(i-1)) / P. Both are mod d_j in Montgomery form, where P is the product
    of d_s .. up to, not including, min(j, e). This divides by the factors before limb j in this
    block.
    """
    k = len(moduli)
    own = np.zeros((-(-k // _BLOCK), k, 1), np.uint32)
    cross = np.zeros((k, k, 1), np.uint32)
    for j, d in enumerate(moduli):
        for start in range(0, j + 1, _BLOCK):
            stop = min(j, start + _BLOCK)
            inverse = pow(math.prod(moduli[start:stop]), -1, d) * tables.R
            own[start // _BLOCK, j] = inverse % d
            for i in range(start, stop):
                cross[i, j] = -math.prod(moduli[start:i]) * inverse % d
    return tables.frozen(own), tables.frozen(cross)


def mixed_radix(
    x: jax.Array, d: jax.Array, d_inv: jax.Array, own: jax.Array, cross: jax.Array
) -> jax.Array:
    """Plain residues x to digits v_i in [0, d_i) with the value sum(v_i d_0 .. d_(i-1)).

    A block of digits is one kernel. One more kernel then takes the block out of all later limbs and
    divides by its product. Unrolled digit by digit, fused recomputation would double with every
    digit.
    """
    k, blocks = d.shape[0], []
    for start in range(0, k, _BLOCK):
        c, stop = start // _BLOCK, min(start + _BLOCK, k)
        digits = _block_digits(x[..., : stop - start, :], start, d, d_inv, own, cross)
        blocks.append(digits)
        if stop < k:
            factors = [own[c, stop:], *(cross[i, stop:] for i in range(start, stop))]
            divide = partial(_without_block, factors=factors, d=d[stop:], d_inv=d_inv[stop:])
            x = _as_one_kernel(divide, x[..., stop - start :, :], digits)
    return jnp.concatenate(blocks, axis=-2) if len(blocks) > 1 else blocks[0]


def _without_block(
    x: jax.Array, digits: jax.Array, factors: list[jax.Array], d: jax.Array, d_inv: jax.Array
) -> jax.Array:
    # (x_j - sum_i v_i P_i) / P mod d_j for the limbs j after a block with product P.
    rows = (digits[..., t : t + 1, :] for t in range(len(factors) - 1))
    return modular.mul_sum(list(zip([x, *rows], factors, strict=True)), d, d_inv)


def _block_digits(
    x: jax.Array, start: int, d: jax.Array, d_inv: jax.Array, own: jax.Array, cross: jax.Array
) -> jax.Array:
    # v_j = (x_j - sum_(i<j) v_i P_i) / P_j mod d_j; v_i < 2^30 may exceed d_j, which mul_sum
    # allows.
    digits: list[jax.Array] = []
    for t in range(x.shape[-2]):
        j = start + t
        terms = [(x[..., t : t + 1, :], own[start // _BLOCK, j])]
        terms += [(v, cross[start + i, j]) for i, v in enumerate(digits)]
        digits.append(modular.mul_sum(terms, d[j : j + 1], d_inv[j : j + 1]))
    return _materialized(digits, axis=-2)
