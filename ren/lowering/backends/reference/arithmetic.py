"""The operations of `kernels/` in plain NumPy, for the reference device ("python").

Written apart from the kernels, with `%` on 64-bit integers and textbook algorithms. So equality bit
for bit means something; only the order of the NTT domain is shared. Arrays are uint32 [*batch, L,
n] in [0, q) in Montgomery form, R = 2^32, unless said otherwise; `moduli` is a tuple. A modulus of
2^30 or more has two limbs, the words of the residue itself.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ren.core.numtheory import primitive_root_of_unity
from ren.lowering.kernels.order import evaluation_exponents

Moduli = tuple[int, ...]
_R = 1 << 32


def _is_wide(moduli: Moduli) -> bool:
    """True where a modulus is 2^30 or more: two limbs, its words; residues are plain there."""
    return max(moduli) >> 30 > 0


def _joined(x: np.ndarray, moduli: Moduli) -> np.ndarray:
    # Limbs as numbers, uint64[*batch, modulus, n].
    x = x.astype(np.uint64)
    if not _is_wide(moduli):
        return x
    rows, at = [], 0
    for q in moduli:
        rows.append(x[..., at, :] + (x[..., at + 1, :] * np.uint64(_R) if q >> 30 else 0))
        at += 2 if q >> 30 else 1
    return np.stack(rows, axis=-2)


def _split(x: np.ndarray, moduli: Moduli) -> np.ndarray:
    # The inverse of _joined.
    if not _is_wide(moduli):
        return x.astype(np.uint32)
    rows = []
    for i, q in enumerate(moduli):
        rows += [x[..., i, :] % _R, x[..., i, :] // _R] if q >> 30 else [x[..., i, :]]
    return np.stack(rows, axis=-2).astype(np.uint32)


def _column(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)[:, None]


def _q(moduli: Moduli) -> np.ndarray:
    return _column(list(moduli))


def _scale(x: np.ndarray, factors: list[int], moduli: Moduli) -> np.ndarray:
    # x factor mod q for each limb, x < 2^32 and factor < 2^30: products < 2^62. Returns uint64.
    return x.astype(np.uint64) * _column(factors) % _q(moduli)


def to_montgomery(values: Any, moduli: Moduli) -> np.ndarray:
    """v R mod q.

    Args:
        values: integers (signed, unsigned or Python objects of any size) that broadcast against [L,
            1]. [*batch, 1, n] for the same number in each limb, [*batch, L, n] for residues.

    Returns:
        uint32[*batch, L, n].
    """
    values = np.asarray(values)
    wide = {"O": object, "i": np.int64}.get(values.dtype.kind, np.uint64)
    residues = values.astype(wide) % np.array(moduli, wide)[:, None]
    return _scale(residues.astype(np.uint64), [_R % q for q in moduli], moduli).astype(np.uint32)


def from_montgomery(x: np.ndarray, moduli: Moduli) -> np.ndarray:
    """x R^-1 mod q, the plain residues, uint32[*batch, L, n]."""
    return _scale(x, [pow(_R, -1, q) for q in moduli], moduli).astype(np.uint32)


def add(a: np.ndarray, b: np.ndarray, moduli: Moduli) -> np.ndarray:
    """a + b mod q."""
    return _split((_joined(a, moduli) + _joined(b, moduli)) % _q(moduli), moduli)  # < 2^62


def sub(a: np.ndarray, b: np.ndarray, moduli: Moduli) -> np.ndarray:
    """a - b mod q."""
    q = _q(moduli)
    return _split((_joined(a, moduli) + q - _joined(b, moduli)) % q, moduli)


def neg(a: np.ndarray, moduli: Moduli) -> np.ndarray:
    """-a mod q."""
    return _split((_q(moduli) - _joined(a, moduli)) % _q(moduli), moduli)


def mul(a: np.ndarray, b: np.ndarray, moduli: Moduli) -> np.ndarray:
    """a b R^-1 mod q < 2^30: the Montgomery form of the product of two Montgomery forms."""
    product = a.astype(np.uint64) * b.astype(np.uint64) % _q(moduli)
    return from_montgomery(product, moduli)


def ntt(x: np.ndarray, moduli: Moduli) -> np.ndarray:
    """Coefficients to values: out[j] = p(psi^e[j]), e = evaluation_exponents(n).

    Twisted by psi^i it is a cyclic transform with psi^2, whose output k is the value at psi^(2k+1).
    """
    n = x.shape[-1]
    twisted = x.astype(np.uint64) * _powers(n, moduli, False) % _q(moduli)
    values = _cyclic(twisted, n, moduli, inverse=False)
    return values[..., evaluation_exponents(n) // 2].astype(np.uint32)


def intt(x: np.ndarray, moduli: Moduli) -> np.ndarray:
    """Values to coefficients, the inverse of `ntt`."""
    n = x.shape[-1]
    values = np.empty(x.shape, np.uint64)
    values[..., evaluation_exponents(n) // 2] = x
    twisted = _cyclic(values, n, moduli, inverse=True) * _powers(n, moduli, True) % _q(moduli)
    return _scale(twisted, [pow(n, -1, q) for q in moduli], moduli).astype(np.uint32)


@lru_cache(maxsize=16)
def _powers(n: int, moduli: Moduli, inverse: bool) -> np.ndarray:
    # psi^0 .. psi^(n-1) of each limb, or of psi^-1: filled by doubling.
    roots = [primitive_root_of_unity(n, q) for q in moduli]
    roots = [pow(r, -1, q) for r, q in zip(roots, moduli, strict=True)] if inverse else roots
    table = np.ones((len(moduli), n), np.uint64)
    size = 1
    while size < n:
        step = [pow(r, size, q) for r, q in zip(roots, moduli, strict=True)]
        table[:, size : 2 * size] = _scale(table[:, :size], step, moduli)
        size *= 2
    table.flags.writeable = False
    return table


def _cyclic(x: np.ndarray, n: int, moduli: Moduli, inverse: bool) -> np.ndarray:
    """sum_i x[i] w^(i k) for w = psi^2 (or psi^-2), in natural order (Stockham's radix-2 form).

    After s steps axis -2 holds s bits of k, low bits first. Each step takes the first half against
    the second half of what is left of i.
    """
    q = _q(moduli)[:, :, None]
    powers = _powers(n, moduli, inverse)
    y = x.reshape(*x.shape[:-1], 1, n)
    while y.shape[-1] > 1:
        done, half = y.shape[-2], y.shape[-1] // 2
        first, second = y[..., :half], y[..., half:]
        # Inside a transform of length 2 half its root is psi^(2 done), hence w^j = psi^(2 done j).
        twiddle = powers[:, : 2 * done * half : 2 * done][:, None, :]
        total = first + second
        even = np.minimum(total, total - q)  # total < q wraps to a number beyond 2^63
        odd = (first + q - second) * twiddle % q  # products < 2^61
        y = np.concatenate([even, odd], axis=-2)  # k = k_done + done * new bit
    return y.reshape(x.shape)


def convert(x: np.ndarray, source_moduli: Moduli, target_moduli: Moduli) -> np.ndarray:
    """The approximate centred lift: sum_i y_i D/d_i, y_i = [x_i (D/d_i)^-1] in (-d_i/2, d_i/2].

    Args:
        x: [*batch, k, n], coefficient domain.

    Returns:
        [*batch, m, n].
    """
    product = math.prod(source_moduli)
    rests = [product // d for d in source_moduli]
    inverses = [pow(r, -1, d) for r, d in zip(rests, source_moduli, strict=True)]
    plain = from_montgomery(x, source_moduli)
    digits = _centered(_scale(plain, inverses, source_moduli), source_moduli)
    return _combine(digits, rests, 0, target_moduli)


def lift(x: np.ndarray, source_moduli: Moduli, target_moduli: Moduli) -> np.ndarray:
    """The exact centred lift: the u in (-D/2, D/2] with residues x, modulo each target prime.

    Args:
        x: [*batch, k, n], coefficient domain.

    Returns:
        [*batch, m, n].
    """
    if _is_wide((*source_moduli, *target_moduli)):
        return _lift_wide(x, source_moduli, target_moduli)
    half = math.prod(source_moduli) // 2
    shift = _column([half % d for d in source_moduli])
    shifted = (from_montgomery(x, source_moduli) + shift) % _q(source_moduli)
    digits = _garner(shifted.astype(np.int64), source_moduli)
    radices = [math.prod(source_moduli[:i]) for i in range(len(source_moduli))]
    return _combine(digits, radices, half, target_moduli)


def _lift_wide(x: np.ndarray, source_moduli: Moduli, target_moduli: Moduli) -> np.ndarray:
    # The same for moduli up to 2^61, with Python's integers.
    product = math.prod(source_moduli)
    half = product // 2
    return of_integers((integers(x, source_moduli) + half) % product - half, target_moduli)


def integers(x: np.ndarray, moduli: Moduli) -> np.ndarray:
    """The integers in [0, Q) of residues: Python's, [*batch, n]."""
    values, product = _joined(x, moduli).astype(object), math.prod(moduli)
    total: Any = 0
    for i, d in enumerate(moduli):
        rest = product // d
        form = 1 if d >> 30 else pow(_R, -1, d)
        total = total + values[..., i, :] * (form * pow(rest, -1, d) % d) * rest
    return total % product


def of_integers(values: np.ndarray, moduli: Moduli) -> np.ndarray:
    """The residues of Python's integers [*batch, n]: uint32[*batch, limb, n]."""
    rows = [values % q if q >> 30 else values * _R % q for q in moduli]
    return _split(np.stack(rows, axis=-2).astype(np.uint64), moduli)


def constant(value: int, moduli: Moduli) -> np.ndarray:
    """A number in each limb, uint32[L, 1]."""
    numbers = [value % q if q >> 30 else value * _R % q for q in moduli]
    return _split(_column(numbers), moduli)


def _centered(x: np.ndarray, moduli: Moduli) -> np.ndarray:
    x, q = x.astype(np.int64), np.array(moduli, np.int64)[:, None]
    return np.where(2 * x > q, x - q, x)


def _garner(x: np.ndarray, moduli: Moduli) -> np.ndarray:
    # Mixed-radix digits, one division by one prime at a time; int64, |products| < 2^61.
    digits = x.copy()
    for i, d in enumerate(moduli):
        for j in range(i + 1, len(moduli)):
            difference = (digits[..., j, :] - digits[..., i, :]) % moduli[j]
            digits[..., j, :] = difference * pow(d, -1, moduli[j]) % moduli[j]
    return digits


def _combine(digits: np.ndarray, weights: list[int], offset: int, moduli: Moduli) -> np.ndarray:
    # sum(digit weight) - offset mod each target; int64 % takes the sign of the modulus.
    rows = []
    for b in moduli:
        total = np.full(digits.shape[:-2] + digits.shape[-1:], -offset % b, np.int64)
        for i, w in enumerate(weights):
            total += digits[..., i, :] * (w % b)  # |digit (w mod b)| < 2^60, and seven at a time
            if i % 7 == 6 or i == len(weights) - 1:
                total %= b
        rows.append(total)
    return to_montgomery(np.stack(rows, axis=-2), moduli)


def permute_evaluations(x: np.ndarray, g: int) -> np.ndarray:
    """The automorphism X -> X^g on values: the value at psi^e becomes the one at psi^(g e)."""
    n = x.shape[-1]
    exponents = evaluation_exponents(n)
    by_exponent = np.empty((*x.shape[:-1], 2 * n), x.dtype)
    by_exponent[..., exponents] = x
    return by_exponent[..., exponents * (g % (2 * n)) % (2 * n)]


def embed_evaluations(x: np.ndarray, n: int) -> np.ndarray:
    """p(X^k) on values, n = k m: the value at psi^e is that of p at (psi^k)^e."""
    m = x.shape[-1]
    by_exponent = np.empty((*x.shape[:-1], 2 * m), x.dtype)
    by_exponent[..., evaluation_exponents(m)] = x
    return by_exponent[..., evaluation_exponents(n) % (2 * m)]


def mix(x: np.ndarray, weights: np.ndarray, moduli: Moduli, axis: int) -> np.ndarray:
    """sum_b weights[j, b] x[b] mod q, of residues in any form, moved to a batch axis.

    Args:
        x: uint32[b, *batch, L, n].
        weights: Python integers, [j, b].
        moduli, axis: of the result, as in `MixArg`.
    """
    values, q = _joined(x, moduli).astype(object), _q(moduli).astype(object)
    total = np.tensordot(weights, values, 1) % q
    return np.moveaxis(_split(total.astype(np.uint64), moduli), 0, axis - 2)
