"""Exact quotients and remainders of coefficients as integers, of any size.

A coefficient c is put together from its residues modulo the source primes by the Chinese remainder
theorem. It is then words of 16 bits. Sums of products of words with constants are products of
matrices with float64 entries, exact below 2^53, whatever their order. Carries and borrows go from
word to word in one scan.

Division by a constant d takes floor(2^(16 w) / d), where w words hold the dividend. That gives the
quotient or one less, which one comparison tells apart. Reference: Granlund and Montgomery,
"Division by invariant integers using multiplication" (1994).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ren.lowering.kernels import modular, tables

_BITS = 16
_WORD = (1 << _BITS) - 1
_CHUNK = 128  # terms of a sum of words times residues below 2^30, which stays below 2^53

Moduli = tuple[int, ...]


def _count(value: int) -> int:
    """Number of words of a number, at least 1."""
    return max(1, -(-value.bit_length() // _BITS))


def _words(value: int, count: int) -> np.ndarray:
    """uint32[count], the lowest word first."""
    return np.array([value >> _BITS * i & _WORD for i in range(count)], np.uint32)


def _times(value: int, columns: int, rows: int) -> np.ndarray:
    """The matrix uint32[rows, columns] that multiplies words by a number, its lowest words."""
    own = _words(value, rows)
    shifted = [np.concatenate([np.zeros(j, np.uint32), own])[:rows] for j in range(columns)]
    return np.stack(shifted, axis=1)


def _division(d: int, count: int) -> tuple[np.ndarray, ...]:
    """The tables of `_divided` for dividends of `count` words."""
    reciprocal = (1 << _BITS * count) // d
    wide, own = _count(reciprocal), _count(2 * d - 1)
    product = _times(reciprocal, count, count + wide)
    return product, _times(d, wide, own), _words(d, own)


@lru_cache(maxsize=256)
def division_tables(
    source: Moduli,
    target: Moduli,
    kind: str,
    times: int,
    plus: int,
    below: int,
    by: int,
    minus: int,
) -> tuple[np.ndarray, ...]:
    """The tables that `divided` takes, uint32, in order.

    A multiple of `by` is added so that no dividend is negative. The quotients have it taken off. A
    dividend that has digits is not negative.
    """
    q = math.prod(source)
    rests = [q // m for m in source]
    inverses = [pow(r, -1, m) for r, m in zip(rests, source, strict=True)]
    sum_words = _count(sum((m - 1) * r for m, r in zip(source, rests, strict=True)))
    small, half = _count(q - 1), _words(q // 2, _count(q - 1))
    least = 0 if kind == "digits" else min(plus, times * (q // 2 + 1) + plus + below, 0)
    offset = -(least // by)
    added = plus + offset * by
    most = max(times * (q // 2 if below else q - 1), times * (q - 1) + below) + added
    count = _count(most)
    by_d = _division(by, count)
    width = max(count, by_d[1].shape[1], by_d[2].shape[0])
    weights = [[(1 << _BITS * j) % m for j in range(width)] for m in target]
    return (
        *tables.modulus(source),
        tables.column(inverses),
        np.stack([_words(r, sum_words) for r in rests], axis=1),
        *_division(q, sum_words),
        half,
        _times(times, small, count),
        _words(added, count),
        _words((added + below) % (1 << _BITS * count), count),
        *by_d,
        *tables.modulus(target),
        np.array(weights, np.uint32),
        tables.column([(minus + offset) % m for m in target]),
        tables.column([minus % m for m in target]),
        tables.column([(1 << 64) % m for m in target]),
    )


def divided(
    x: jax.Array, kind: str, count: int, below: bool, given: Sequence[jax.Array]
) -> jax.Array:
    """Quotients, remainders or digits of coefficients as integers.

    With c in [0, Q) from the residues, y = times c + plus; where `below`, and c > Q/2, y + below.

    Args:
        x: uint32[*batch, k, n], Montgomery residues modulo the source, coefficient domain.
        kind: "quotient", floor(y / by) - minus. "remainder", y mod by - minus. Or "digits": of y in
            base `by`, each minus `minus`, the lowest first along a new first axis.
        count: of digits.
        below: whether c above Q/2 has an offset of its own: c is then centred, or lifted.
        given: `division_tables`.

    Returns:
        uint32[*batch, m, n], Montgomery residues modulo the target; of digits [count, *batch, ...].

    Cost: multiply-adds with the square of the number of words for each coefficient.
    """
    (q, q_inv, inverse, rests, *by_q, half, times, added, added_below) = given[:11]
    by, (m, m_inv, weights, offset, minus, square) = given[11:14], given[14:]
    y = jnp.moveaxis(modular.mont_mul(x, inverse, q, q_inv), -2, 0)
    _, c = _divided(_carried(_product(rests, y)), by_q)
    c = c[: half.shape[0]]
    start = _column(added, c)
    if below:
        is_above = _borrow(_column(half, c) - c) < 0
        start = jnp.where(is_above, _column(added_below, c), start)
    dividend = _carried(_product(times, c) + start)

    def residues(words: jax.Array, less: jax.Array) -> jax.Array:
        found = _residues(words, weights, m)
        return modular.mont_mul(modular.sub(found, less % m, m), square, m, m_inv)

    if kind == "digits":
        width = dividend.shape[0]

        def step(rest: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            quotient, remainder = _divided(rest, by)
            return _resized(quotient, width), residues(remainder, minus)

        return lax.scan(step, dividend, None, length=count)[1]
    quotient, remainder = _divided(dividend, by)
    return residues(quotient, offset) if kind == "quotient" else residues(remainder, minus)


def _product(matrix: jax.Array, x: jax.Array) -> jax.Array:
    """The product of a matrix with words or residues, exact: int64[rows, *batch, n]."""
    total = jnp.zeros((), jnp.int64)
    for start in range(0, x.shape[0], _CHUNK):
        part = slice(start, start + _CHUNK)
        left, right = matrix[:, part].astype(jnp.float64), x[part].astype(jnp.float64)
        exact = jnp.tensordot(left, right, axes=1, precision=lax.Precision.HIGHEST)
        total = total + exact.astype(jnp.int64)
    return total


def _column(words: jax.Array, x: jax.Array) -> jax.Array:
    """Constant words beside those of `x`, int64."""
    return words.astype(jnp.int64).reshape((-1,) + (1,) * (x.ndim - 1))


def _scanned(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Words from sums of any sign, and what is carried out of the last."""

    def step(carry: jax.Array, own: jax.Array) -> tuple[jax.Array, jax.Array]:
        total = own + carry
        return total >> _BITS, total & _WORD

    return lax.scan(step, jnp.zeros_like(x[0]), x)


def _carried(x: jax.Array) -> jax.Array:
    return _scanned(x)[1]


def _borrow(x: jax.Array) -> jax.Array:
    return _scanned(x)[0]


def _resized(x: jax.Array, count: int) -> jax.Array:
    missing = max(count - x.shape[0], 0)
    return jnp.concatenate([x[:count], jnp.zeros((missing, *x.shape[1:]), x.dtype)])


def _divided(x: jax.Array, given: Sequence[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """(floor(x / d), x mod d) of words, for the d of `_division`."""
    product, multiples, d = given
    estimate = _carried(_product(product, x))[x.shape[0] :]
    rest = _carried(_resized(x, d.shape[0]) - _product(multiples, estimate))
    borrow, less = _scanned(rest - _column(d, rest))
    is_one_more = borrow >= 0
    first = jnp.arange(estimate.shape[0]).reshape((-1,) + (1,) * (x.ndim - 1)) == 0
    quotient = _carried(estimate + (first & is_one_more).astype(estimate.dtype))
    return quotient, jnp.where(is_one_more, less, rest)


def _residues(words: jax.Array, weights: jax.Array, m: jax.Array) -> jax.Array:
    """Words modulo each target prime, plain: uint32[*batch, m, n]."""
    modulus = m.astype(jnp.int64).reshape((-1,) + (1,) * (words.ndim - 1))
    total = jnp.zeros((), jnp.int64)
    for start in range(0, words.shape[0], _CHUNK):
        part = words[start : start + _CHUNK]
        total = total + _product(weights[:, start : start + part.shape[0]], part) % modulus
    return jnp.moveaxis((total % modulus).astype(jnp.uint32), 0, -2)
