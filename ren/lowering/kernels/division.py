"""Exact quotients and remainders of coefficients as integers of any size, as jax.numpy, no floats.

A coefficient is a sum of mixed-radix digits v_i times radices d_0 .. d_(i-1). A multiple of it is a
sum of digits times constants of several words, of 22 bits each. Carries run once, at the end.

The quotient of N >= 0 is floor(N / b) = floor(N M / 2^s) for M = ceil(2^s / b) and 2^s > N b: the
error N (M b - 2^s) / (b 2^s) is below 1 / b. So a quotient is the upper words of one sum.

A digit in base b is F_i - b F_(i+1) with F_i = floor(N / b^i). It is below b, so the lowest words
of quotients suffice. Small bases go by powers of them that fill a word. Digits in a base 2^k are
bits of N. Reference: Granlund and Montgomery, "Division by invariant integers using
multiplication" (1994).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ren.lowering.kernels import convert, modular, tables

# A digit below 2^30 times a word is below 2^52: 64 bits hold the sum of 2^11 of them with a carry.
_BITS = 22
_WORD = (1 << _BITS) - 1
_MAX_LIMBS = 1 << 11

Moduli = tuple[int, ...]


class Form(NamedTuple):
    """Form of a division: what its code depends on beside the shapes of its tables.

    kind: "quotient"; "bits", digits in a base 2^k; or "digits". `count` is of digits, and 0 where
    the result has no axis for them. A word holds `group` digits. `has_sign` marks a dividend that
    has a term for coefficients above q / 2.
    """

    kind: str
    count: int
    group: int
    has_sign: bool


def form(source: Moduli, kind: str, count: int, times: int, below: int, by: int) -> Form:
    """The form of a division of coefficients modulo `source`: fields of `DivideArg`."""
    has_sign = below not in (0, -times * math.prod(source))
    if kind == "quotient":
        return Form(kind, 0, 1, has_sign)
    if by & (by - 1) == 0:
        return Form("bits", count, 1, has_sign)
    group = max(1, min(count, _BITS // by.bit_length()))
    return Form("digits", count, group, has_sign)


def _count(bits: int) -> int:
    """Words that hold so many bits, rounded up to 3 significant bits: few counts, few kernels."""
    count = max(1, -(-bits // _BITS))
    step = 1 << max(count.bit_length() - 3, 0)
    return -(-count // step) * step


def _words(value: int, count: int) -> list[int]:
    """The lowest words of an integer; of a negative one modulo 2^(22 count)."""
    return [value >> _BITS * w & _WORD for w in range(count)]


def _matrix(values: Sequence[int], count: int) -> np.ndarray:
    """The words of each value: uint32[len(values), count, 1]."""
    return np.array([_words(v, count) for v in values], np.uint32)[..., None]


@lru_cache(maxsize=128)
def division_tables(
    source: Moduli,
    target: Moduli,
    kind: str,
    count: int,
    times: int,
    plus: int,
    below: int,
    by: int,
    minus: int,
) -> tuple[np.ndarray, ...]:
    """The tables that `divided` takes, uint32, in order.

    Those of `convert.lift` of the source. For each divisor the words of each term,
    [J, k, words, 1], and of the constant, [J, words, 1]. For the target b, b^-1 mod 2^32, what is
    taken off, and the weights of words. Then those of digits.

    A multiple of `by` is added so that no dividend is negative; the quotients have it taken off. A
    dividend that has digits is not negative.
    """
    assert len(source) < _MAX_LIMBS, "the sum of products would pass 64 bits"
    how, q = form(source, kind, count, times, below, by), math.prod(source)
    half = q // 2 if below else 0
    terms = [times * math.prod(source[:i]) for i in range(len(source))]
    if how.has_sign:
        terms.append(times * q + below)
    least = 0 if kind == "digits" else min(plus, times * (q // 2 + 1) + plus + below, 0)
    offset = -(least // by)
    most = plus + offset * by + max(times * (q // 2 if below else q - 1), times * (q - 1) + below)
    constant = plus + offset * by - times * half
    base, bits = by**how.group, most.bit_length()
    if how.kind == "quotient":
        kept, divisors = _count((most // by).bit_length()), [by]
    elif how.kind == "bits":
        kept, divisors = _count(max(bits, (count or 1) * (by.bit_length() - 1)) + _BITS), [1]
    else:
        kept = max(1, -(-(base - 1).bit_length() // _BITS))
        divisors = [base**i for i in range(-(-(count or 1) // how.group) + 1)]
    shift = _BITS * _count(bits + divisors[-1].bit_length()) if divisors[-1] > 1 else 0
    length = shift // _BITS + kept
    reciprocals = [-(-(1 << shift) // d) for d in divisors]
    more, pieces = (), kept
    if how.kind == "bits":
        more = _bits(by.bit_length() - 1, count or 1)
        pieces = len(more[-1])
    elif how.kind == "digits":
        fraction = np.array(_fraction(by), np.uint32)
        more = (_matrix([-base << _BITS * i for i in range(kept)], kept), fraction)
    weights = [1 << _BITS * w for w in range(pieces)]
    return (
        *tables.modulus(source),
        tables.plain_constant(half, source),
        *convert.mixed_radix_tables(source),
        np.stack([_matrix([t * r for t in terms], length) for r in reciprocals]),
        _matrix([constant * r for r in reciprocals], length),
        *tables.modulus(target),
        tables.montgomery_constant(-minus - (offset if kind == "quotient" else 0), target),
        convert.weights_of(weights, target),
        *more,
    )


def _bits(size: int, count: int) -> tuple[np.ndarray, ...]:
    """Positions of the pieces of each digit in base 2^size.

    Their words, [count, pieces], their places there, [count, pieces, 1], and masks, [pieces, 1].
    """
    pieces = max(1, -(-size // _BITS))
    at = np.arange(count)[:, None] * size + _BITS * np.arange(pieces)
    masks = [(1 << min(_BITS, size - _BITS * i)) - 1 for i in range(pieces)]
    words, places = at // _BITS, at % _BITS
    return words.astype(np.uint32), places.astype(np.uint32)[..., None], tables.column(masks)


def _fraction(by: int) -> tuple[int, int, int]:
    """(M, shift, b): floor(s / b) is (s M) >> shift for a word s, where two digits are a word."""
    shift = _BITS + by.bit_length()
    return (-(-(1 << shift) // by), shift, by) if by < 1 << _BITS // 2 else (0, 0, 0)


def divided(x: jax.Array, how: Form, given: Sequence[jax.Array]) -> jax.Array:
    """Quotients, remainders or digits of coefficients as integers: see `DivideArg`.

    Args:
        x: uint32[*batch, k, n], Montgomery residues modulo the source, coefficient domain.
        how: of `form`.
        given: `division_tables`.

    Returns:
        uint32[*batch, m, n], Montgomery residues modulo the target; of digits [count, *batch, ...].

    Cost: k products for each word of the dividend and of the divisor, for each divisor.
    """
    d, d_inv, added, own, cross, weights, constants, b, b_inv, offset, powers, *more = given
    plain = modular.mont_mul(x, jnp.ones_like(d), d, d_inv)
    rows = convert.mixed_radix(modular.add(plain, added, d), d, d_inv, own, cross)
    if how.has_sign:
        rows = jnp.concatenate([rows, _is_below_half(rows, d)], axis=-2)

    def words(table: tuple[jax.Array, jax.Array], kept: int) -> jax.Array:
        return _carried(_summed(rows, *table), table[1].shape[0] - kept)

    if how.kind == "quotient":
        found = words((weights[0], constants[0]), powers.shape[0])
        return convert.weighted_sum(found, powers, offset, b, b_inv)
    if how.kind == "bits":
        whole = words((weights[0], constants[0]), weights.shape[2])
        pieces = _taken(whole, *more)
    else:
        base, fraction = more
        kept = base.shape[0]
        quotients = lax.map(lambda table: words(table, kept), (weights, constants))
        less = _summed(quotients[1:], base, quotients[:-1])
        pieces = _carried(less, 0)
        if how.group > 1:
            pieces = _split(pieces, how.group, fraction)
        pieces = pieces[: how.count or 1]
    found = convert.weighted_sum(pieces, powers, offset, b, b_inv)
    return found if how.count else found[0]


def _is_below_half(digits: jax.Array, d: jax.Array) -> jax.Array:
    """1 where the number of mixed-radix digits is below (D - 1)/2, whose digits are (d - 1)/2."""
    below = jnp.zeros_like(digits[..., :1, :])
    for i in range(d.shape[0]):  # the most significant digit that differs decides
        v, middle = digits[..., i : i + 1, :], d[i] >> np.uint32(1)
        below = jnp.where(v == middle, below, (v < middle).astype(jnp.uint32))
    return below


def _summed(rows: jax.Array, weights: jax.Array, constant: jax.Array) -> jax.Array:
    """constant + sum_i row_i weight_i, uint64[*batch, words, n], each word with its carry."""
    total = modular.wide(constant)
    for i in range(weights.shape[0]):
        total = total + modular.mul_wide(rows[..., i : i + 1, :], weights[i])
    return total


def _carried(words: jax.Array, dropped: int) -> jax.Array:
    """The words from `dropped` on, uint32[*batch, kept, n], after all carries but the last."""
    rows = jnp.moveaxis(words, -2, 0)

    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        total = row + carry
        return total >> np.uint64(_BITS), (total & np.uint64(_WORD)).astype(jnp.uint32)

    carry, _ = lax.scan(step, jnp.zeros_like(rows[0]), rows[:dropped])
    _, kept = lax.scan(step, carry, rows[dropped:])
    return jnp.moveaxis(kept, 0, -2)


def _taken(words: jax.Array, at: jax.Array, place: jax.Array, mask: jax.Array) -> jax.Array:
    """The pieces of each digit in a base 2^k, uint32[count, *batch, pieces, n]."""
    low, high = (modular.wide(jnp.take(words, at + np.uint32(i), axis=-2)) for i in (0, 1))
    pieces = (low | high << np.uint64(_BITS)) >> modular.wide(place) & modular.wide(mask)
    return jnp.moveaxis(pieces.astype(jnp.uint32), -3, 0)


def _split(words: jax.Array, group: int, fraction: jax.Array) -> jax.Array:
    """The digits of each word along the first axis, uint32[J group, *batch, 1, n]."""
    reciprocal, shift, base = fraction

    def step(rest: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        quotient = modular.mul_wide(rest, reciprocal) >> modular.wide(shift)
        quotient = quotient.astype(jnp.uint32)
        return quotient, rest - quotient * base

    _, found = lax.scan(step, words, None, length=group)
    found = jnp.moveaxis(found, 0, 1)
    return found.reshape(-1, *found.shape[2:])
