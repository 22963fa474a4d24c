"""Integers to limb arrays and back, on the host."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import CoefficientError, CoefficientTypeError
from ren.core.ring import RingSpec, limbs_by_modulus, width
from ren.lowering.kernels.order import evaluation_exponents
from ren.lowering.runtime.host_arrays import empty

# Numbers worked on at once: their temporary arrays stay in the cache, and in memory that is there.
_AT_ONCE = 1 << 15


def as_coefficients(coeffs: Any, n: int) -> NDArray:
    """`coeffs` as integers `[*batch, n]`: int64/uint64 where they fit, else Python ints.

    Fewer than n coefficients are padded with zeros: they are those of the lowest powers of X.

    Raises:
        CoefficientTypeError: anything but integers.
        CoefficientError: more than n of them, or none.
    """
    array = as_integers(coeffs, "Poly")
    if array.ndim == 0:
        raise CoefficientTypeError(
            f"Poly got the single number {coeffs!r}.",
            f"It takes a list or array of up to {n} integers, the lowest power of X first.",
            "For a constant polynomial write Poly.const(c, ring).",
        )
    count = array.shape[-1]
    if not 0 < count <= n:
        raise CoefficientError(
            f"Poly got {count} coefficients for n = {n}.",
            f"A polynomial of Z_q[X]/(X^{n} + 1) has {n} coefficients.",
            f"Pass {n} integers, or use a ring of larger degree.",
        )
    missing = np.zeros((*array.shape[:-1], n - count), array.dtype)
    return np.concatenate([array, missing], axis=-1) if count < n else array


def places_of_values(ring: RingSpec) -> NDArray[np.int64]:
    """For each place of the NTT domain the j of its value p(psi^(2 j + 1)).

    Raises:
        RingError: a ring without an NTT domain.
    """
    assert ring.root  # raises for other rings
    return evaluation_exponents(ring.n) // 2


def as_values(values: Any, ring: RingSpec) -> NDArray:
    """Values at the roots as integers `[*batch, n]` in the order of the NTT domain.

    Raises:
        CoefficientTypeError, CoefficientError: anything but n integers.
        RingError: a ring without an NTT domain.
    """
    array = as_integers(values, "Poly.from_values()")
    if array.shape[-1:] != (ring.n,):
        raise CoefficientError(
            f"Poly.from_values() got values of shape {array.shape} for n = {ring.n}.",
            f"A polynomial has {ring.n} values, one at each root of X^{ring.n} + 1.",
            f"Pass {ring.n} integers; Poly(coefficients, ring) takes fewer coefficients.",
        )
    return array[..., places_of_values(ring)]


def as_integers(coeffs: Any, what: str) -> NDArray:
    """`coeffs` as an array of integers: int64/uint64 where they fit, else Python ints.

    Raises:
        CoefficientTypeError: anything but integers. `what` got them.
    """
    if isinstance(coeffs, np.ma.MaskedArray):
        raise CoefficientTypeError(
            f"{what} got a masked array.",
            "A polynomial has all of its coefficients.",
            "Fill what is masked: coeffs.filled(0).",
        )
    try:
        array = np.asarray(coeffs)
        if array.dtype.kind not in "iub":
            array = np.asarray(coeffs, dtype=object)
    except ValueError:  # ragged nesting
        array = np.empty(0, dtype=float)
    if array.dtype.kind == "b" or (array.dtype.kind in "iu" and array.dtype.itemsize < 8):
        array = array.astype(np.int64)  # a modulus does not fit the narrower ones
    if array.dtype.kind in "iu":
        return array
    if array.dtype.kind == "O":
        flat = [_as_int(c) for c in array.ravel()]
        if all(c is not None for c in flat):
            out = np.empty(array.size, dtype=object)
            out[:] = flat
            return out.reshape(array.shape)
    number = "coefficient" if what == "Poly" else "number"
    wrong = next((c for c in np.ravel(array) if _as_int(c) is None), coeffs)
    raise CoefficientTypeError(
        f"{what} got the {number} {wrong!r} of type {type(wrong).__name__}.",
        "It takes integers, of any size and sign.",
        _how_to_round(wrong)
        if isinstance(wrong, numbers.Number)
        else "Pass a list or an array of integers, the lowest power first; rows of one length.",
    )


def _how_to_round(number: Any) -> str:
    if isinstance(number, complex | np.complexfloating):
        return (
            "Round the parts first, one polynomial for each. To encrypt them use ren.schemes.ckks."
        )
    if not abs(number) < math.inf:
        return "Put an integer in its place: NaN and infinities have none near them."
    return "Round first: [round(c) for c in coeffs]. To encrypt real numbers use ren.schemes.ckks."


def _as_int(value: Any) -> int | None:
    """The integer that a value is, without rounding; None when it is not one."""
    return value.__index__() if hasattr(value, "__index__") else None


def to_limbs(coeffs: NDArray, moduli: Sequence[int]) -> NDArray[np.uint32]:
    """Integers `[*batch, n]` to residue form `uint32[*batch, limb, n]`.

    A modulus below 2^30 has one limb, the Montgomery form; a wide one the words of the residue.
    The memory is new, and is one that a polynomial may stand on.
    """
    n, places = coeffs.shape[-1], limbs_by_modulus(moduli)
    limbs = empty((*coeffs.shape[:-1], sum(map(width, moduli)), n), np.uint32)
    rows, step = limbs.reshape(-1, limbs.shape[-2], n), max(1, _AT_ONCE // n)
    given = coeffs.reshape(-1, n)
    for start in range(0, len(given), step):
        part = slice(start, start + step)
        for q, place in places.items():
            _write_limbs(_mod(given[part], q), q, rows[part, place.start : place.stop])
    return limbs


def _write_limbs(residues: NDArray, q: int, limbs: NDArray[np.uint32]) -> None:
    """Residues [row, n] in [0, q) to the limbs [row, limb, n] of their modulus."""
    if limbs.shape[1] == 1:
        # Residues are below 2^30, with 32 zeros behind them below 2^62.
        limbs[:, 0] = _mod(residues.astype(np.int64, copy=False) << 32, q)
        return
    words = residues.astype(np.uint64, copy=False)
    np.copyto(limbs[:, 0], words, casting="unsafe")  # the low 32 bits
    np.right_shift(words, np.uint64(32), out=limbs[:, 1], casting="unsafe")


def to_residues(coeffs: NDArray, moduli: Sequence[int]) -> NDArray[np.uint32]:
    """Integers `[*batch, n]` to plain residues `uint32[*batch, limb, n]`, words where wide."""
    return in_limbs(np.stack([_mod(coeffs, q).astype(np.uint64) for q in moduli], axis=-2), moduli)


def in_limbs(numbers: NDArray[np.uint64], moduli: Sequence[int]) -> NDArray[np.uint32]:
    """A number for each modulus, `[*batch, modulus, n]`, as plain limbs; the words of wide ones."""
    rows = []
    for i, q in enumerate(moduli):
        row = numbers[..., i, :]
        rows += [row] if width(q) == 1 else [row & np.uint64(0xFFFFFFFF), row >> np.uint64(32)]
    return np.stack(rows, axis=-2).astype(np.uint32)


def of_moduli(residues: NDArray[np.uint32], moduli: Sequence[int]) -> NDArray[np.uint64]:
    """The inverse of `in_limbs`: a number for each modulus, `uint64[*batch, modulus, n]`."""
    rows = []
    for part in limbs_by_modulus(moduli).values():
        low, *high = (residues[..., i, :].astype(np.uint64) for i in part)
        rows.append(low | high[0] << np.uint64(32) if high else low)
    return np.stack(rows, axis=-2)


def montgomery(residues: NDArray, moduli: Sequence[int]) -> NDArray[np.uint32]:
    """Plain residues `[*batch, limb, n]` in [0, q_i) to residue form, uint32: see `to_limbs`."""
    return _times(residues, [1 << 32] * len(moduli), moduli)


def plain(limbs: NDArray[np.uint32], moduli: Sequence[int]) -> NDArray[np.uint32]:
    """Residue form `uint32[*batch, limb, n]` to plain residues in [0, q_i)."""
    return _times(limbs, [pow(1 << 32, -1, q) for q in moduli], moduli)


def _times(limbs: NDArray, factors: Sequence[int], moduli: Sequence[int]) -> NDArray[np.uint32]:
    """Each limb, below 2^30, times its factor, at most 2^32; wide ones as they are."""
    made = np.empty(limbs.shape, np.uint32)
    for factor, (q, part) in zip(factors, limbs_by_modulus(moduli).items(), strict=True):
        for i in part:
            x = limbs[..., i, :]
            made[..., i, :] = _mod(x.astype(np.int64) * factor, q) if len(part) == 1 else x
    return made


def _mod(values: NDArray, q: int) -> NDArray:
    if values.dtype == object:
        return values % q
    if values.dtype == np.int64 and values.size and -q < values.min() and values.max() < q:
        return values + (values >> 63 & q)
    # Division by a number is vectorised in NumPy, remainder is not.
    return values - values // q * q


def to_integers(limbs: NDArray[np.uint32], ring: RingSpec) -> NDArray:
    """Residue form `[*batch, limb, n]` to Python ints `object[*batch, n]` in [0, q)."""
    residues = of_moduli(plain(limbs, ring.moduli), ring.moduli).astype(object)
    total: Any = 0
    for i, m in enumerate(ring.moduli):
        rest = math.prod(ring.moduli[:i] + ring.moduli[i + 1 :])
        weight = rest * pow(rest, -1, m) % ring.q
        total = total + residues[..., i, :] * weight
    return total % ring.q
