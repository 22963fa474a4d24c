"""Numbers, the canonical embedding (n/2 complex slots <-> n real coefficients), and residues.

Slot j of a polynomial a is a(zeta^(5^j)), zeta = exp(i pi / n). The powers 5^j mod 2n are exactly
the exponents 4k + 1, and x = zeta^(4k+1) has x^(n/2) = i. So with b_m = a_m + i a_(m+n/2) the slots
are a(x) = sum_{m < n/2} (b_m zeta^m) exp(2 pi i k m / (n/2)): one complex transform of length n/2,
a twist and a permutation. A vector of s < n/2 slots is encoded in degree 2s. It is spread to every
n/(2s)-th coefficient, which repeats it n/(2s) times over the slots.

The rounding of coefficients is spread over the slots as noise is, if most are far above one
unit. Equal numbers but for one that differs a little have other coefficients. There the rounding
adds up in single slots. Fixed public offsets, added before it, prevent that (dither).
Integers stay as they are.

References: Cheon, Kim, Kim and Song, "Homomorphic encryption for arithmetic of approximate
numbers", 2017, section 3.2; Gray and Stockham, "Dithered quantizers", 1993.
"""

from __future__ import annotations

import datetime
import hashlib
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ren.core.errors import ParameterError, TracedValueError
from ren.lowering.devices.devices import threads
from ren.lowering.runtime.host_arrays import empty
from ren.schemes.ckks.noise.sigmas import power_above

_ROW_NUMBERS = 1 << 16  # of the vectors that a thread transforms together: they stay in its cache
_EXACT = 2.0**-9  # coefficients so near to an integer are rounded to it, whatever their offset
_LARGEST_INTEGER = 1 << 62  # what goes into int64, with room for a sum


def as_numbers(values: Any) -> NDArray:
    """Values of users as an array; of a dtype that is not numeric where they are not numbers.

    ParameterError for a masked array, whose hidden entries would be encrypted too, and for an
    integer or a fraction beyond 2^1024.
    """
    if isinstance(values, np.matrix):
        raise ParameterError(
            f"A numpy.matrix of shape {values.shape} was given.",
            "Its `*` is a matrix product; Ren computes with arrays, whose `*` is number by number.",
            "Pass np.asarray(matrix).",
        )
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            raise ParameterError(
                f"A masked array with {np.ma.count_masked(values)} masked entries was given.",
                "The slots hold every entry; what stands under the mask would be among them.",
                "Fill them first, values.filled(0.0), and encrypt the mask if it matters.",
            )
        values = values.data
    try:
        z = np.asarray(of_frame(values))
    except jax.errors.TracerArrayConversionError:
        raise TracedValueError(
            "The numbers of a traced array were needed.",
            "Inside a JAX transformation it has none; + - * / of a ciphertext with it are traced.",
            "Pass the array as a constant, or encode it outside the traced function.",
        ) from None
    except TracedValueError:
        raise
    except ValueError:  # rows of several lengths
        return np.empty(0, object)
    if z.dtype == object:
        z = _of_objects(z)
    are_objects = z.dtype == object and all(map(is_number, z.flat))
    is_extended = z.dtype.kind == "V" and z.dtype.names is None and z.dtype.type is not np.void
    if are_objects or is_extended:  # the second: bfloat16, float8, int4 of JAX
        try:
            z = z.astype(np.float64)
        except OverflowError:
            raise ParameterError(
                "A number from 2^1024 on was given.",
                "The numbers in slots are float64, and the largest modulus has far fewer bits.",
                "Divide the numbers by a constant before they are encoded.",
            ) from None
        except (TypeError, ValueError):
            return z
    return z


def _of_objects(z: NDArray) -> NDArray:
    """An array of objects with NaN for the missing values of pandas."""
    missing = np.array([v is None or type(v).__name__ == "NAType" for v in z.flat], bool)
    if not z.ndim or not missing.any():
        return z
    z = z.copy()
    z[missing.reshape(z.shape)] = math.nan
    return z


_NO_NUMBERS = (
    str, bytes, bytearray, datetime.date, datetime.timedelta, np.datetime64, np.timedelta64,
)  # fmt: skip


def is_number(value: Any) -> bool:
    """False for None, and for text and dates, of which NumPy would make numbers."""
    return value is not None and not isinstance(value, _NO_NUMBERS)


def is_sparse(value: Any) -> bool:
    """True for a sparse matrix, as those of scipy.sparse."""
    return hasattr(type(value), "toarray")


def is_no_operand(value: Any) -> bool:
    """True for text, dates, missing values and sparse matrices.

    They have operators of their own, but none that takes a ciphertext.
    """
    is_missing = type(value).__name__ == "NAType"
    return is_missing or isinstance(value, _NO_NUMBERS) or is_sparse(value)


def check_rows(values: Any) -> None:
    """Raises ParameterError for rows of several lengths."""
    rows = values if isinstance(values, list | tuple) else ()
    if not all(isinstance(row, list | tuple) or getattr(row, "ndim", 0) for row in rows):
        return
    for row in rows:
        check_rows(row)
    if len(lengths := sorted({len(row) for row in rows})) > 1:
        raise ParameterError(
            f"Rows of {lengths[0]} and of {lengths[-1]} numbers were given as one array.",
            "In an array rows have one length.",
            "Put zeros behind the shorter ones, or give each row by itself.",
        )


def rank_of(values: Any) -> int:
    """numpy.ndim of values of users, or ParameterError for rows of several lengths."""
    try:
        return np.ndim(values)
    except ValueError:
        check_rows(values)
        raise


def of_frame(values: Any) -> Any:
    """The array of a table of pandas, or of a column of one; anything else as it is."""
    return values.to_numpy() if hasattr(type(values), "to_numpy") else values


@lru_cache(maxsize=32)
def _slot_tables(half: int) -> tuple[NDArray[np.intp], NDArray[np.complex128]]:
    """For degree 2 half: the transform index (5^j - 1)/4 of slot j, and the twists zeta^m."""
    indices = np.empty(half, np.intp)
    power = 1
    for j in range(half):
        indices[j] = power // 4
        power = power * 5 % (4 * half)
    return indices, np.exp(1j * np.pi / (2 * half) * np.arange(half))


@lru_cache(maxsize=32)
def _scaled_untwist(slots: int, scale: float) -> NDArray[np.complex128]:
    return _slot_tables(slots)[1].conj() * (scale / slots)


@lru_cache(maxsize=32)
def _offsets(slots: int) -> NDArray[np.complex128]:
    """Public offsets [slots] of the b_m, both parts evenly spread between -1/2 and 1/2.

    None at X^0 and X^(n/2), where a number for all slots stands.
    """
    drawn = np.frombuffer(hashlib.shake_128(b"ren/ckks/rounding").digest(8 * slots), "<u4")
    offsets = ((drawn + 0.5) * 2.0**-32 - 0.5) * (1 - 2 * _EXACT)
    offsets[[0, slots]] = 0
    return offsets[:slots] + 1j * offsets[slots:]


@lru_cache(maxsize=32)
def transform_tables(
    slots: int, scale: float
) -> tuple[NDArray[np.intp], NDArray[np.complex128], NDArray[np.complex128]]:
    """For a traced encoding: the slot at each place, the scaled twists, and the offsets."""
    return np.argsort(_slot_tables(slots)[0]), _scaled_untwist(slots, scale), _offsets(slots)


def encode(values: ArrayLike, n: int, slots: int, scale: Fraction | int) -> NDArray[np.float64]:
    """The coefficients round(scale * embedding^-1(values)).

    If a quarter of them is below half the count of slots, offsets are added before: see above.

    Args:
        values: real or complex [*batch, k], k <= slots; missing slots are zero.
        n: the degree of the ring, a power of two.
        slots: a power of two up to n/2; fewer than n/2 are repeated periodically.
        scale: the factor, an exact rational.

    Returns:
        float64 [*batch, n], each an exact integer (of any size: float64 holds 53 leading bits).

    Raises:
        ParameterError: values that are not finite, or too large for any modulus.
    """
    z = np.asarray(values)
    rows = z.reshape(-1, z.shape[-1])
    coefficients = (np.empty if n == 2 * slots else np.zeros)((len(rows), n), np.float64)
    step = max(1, _ROW_NUMBERS // slots)
    parts = [slice(i, i + step) for i in range(0, len(rows), step)]
    run = partial(_transform_rows, rows, coefficients, slots, float(scale))
    if len(parts) > 1:
        with ThreadPoolExecutor(min(len(parts), threads())) as pool:
            fit = list(pool.map(run, parts))
    else:
        fit = list(map(run, parts))
    if not all(fit):
        if not np.isfinite(z).all():
            raise ParameterError(
                "Values with NaN or infinity were given.",
                "Only finite numbers can be encoded.",
                "Replace them, for example numpy.nan_to_num(np.array(values, float)).",
            )
        raise ParameterError(
            f"Values up to {power_above(float(largest(z)))} were given.",
            "Times the scale they are too large for any modulus: they would wrap around.",
            "Divide the values by a constant.",
        )
    return coefficients.reshape(*z.shape[:-1], n)


def _transform_rows(
    rows: NDArray, out: NDArray[np.float64], slots: int, scale: float, part: slice
) -> bool:
    """Write the coefficients of some rows; False where one is not finite."""
    z, n = rows[part], out.shape[-1]
    indices = _slot_tables(slots)[0]
    spectrum = np.zeros((len(z), slots), np.complex128)
    spectrum[:, indices[: z.shape[-1]]] = z
    with np.errstate(over="ignore", invalid="ignore"):
        folded = np.fft.fft(spectrum)
        folded *= _scaled_untwist(slots, scale)
    sizes = np.abs(folded.view(np.float64))
    if not np.isfinite(sizes.max()):  # so it is with NaN or infinity among the values
        return False
    is_small = np.count_nonzero(sizes < slots / 2, -1) > slots / 2
    if is_small.any():
        folded[is_small] += _offsets(slots)
    stride = n // (2 * slots)
    np.rint(folded.real, out=out[part, : n // 2 : stride])
    np.rint(folded.imag, out=out[part, n // 2 :: stride])
    return True


def decode(
    coefficients: NDArray[np.float64], n: int, slots: int, scale: Fraction | int
) -> NDArray[np.complex128]:
    """The slots embedding(coefficients) / scale: complex [*batch, slots] from float64 [*batch, n].

    For fewer than n/2 slots the repetitions are averaged: only the coefficients that `encode` fills
    are read.
    """
    indices, twist = _slot_tables(slots)
    stride = n // (2 * slots)
    folded = np.empty((*coefficients.shape[:-1], slots), np.complex128)
    folded.real = coefficients[..., : n // 2 : stride]
    folded.imag = coefficients[..., n // 2 :: stride]
    folded *= twist * (slots / float(scale))
    return np.fft.ifft(folded)[..., indices]


def encode_constant(value: complex, n: int, scale: Fraction | int) -> dict[int, int]:
    """The coefficients {position: integer} of a vector with `value` in all slots, rounded exactly.

    The real part sits at X^0; the imaginary at X^(n/2), whose value is i at every slot.
    """
    real, imaginary = (value, 0) if isinstance(value, int) else (value.real, value.imag)
    if not isinstance(value, int) and not (math.isfinite(real) and math.isfinite(imaginary)):
        raise ParameterError(
            f"The constant {value!r} was given.",
            "Only finite numbers can be encoded.",
            "Replace it, for example with numpy.nan_to_num.",
        )
    parts = {0: round(Fraction(real) * scale), n // 2: round(Fraction(imaginary) * scale)}
    return {position: c for position, c in parts.items() if c}


def constant_coefficients(value: complex, n: int, scale: Fraction | int) -> NDArray:
    """The coefficients [n] of a vector with `value` in all slots: int64 below 2^62, else object."""
    parts = encode_constant(value, n, scale)
    is_small = all(abs(c) < _LARGEST_INTEGER for c in parts.values())
    coefficients = np.zeros(n, np.int64 if is_small else object)
    for position, c in parts.items():
        coefficients[position] = c
    return coefficients


def largest(values: NDArray) -> Any:
    """The largest modulus of numbers [...], at least one; real ones take no copy."""
    if values.dtype.kind == "c":
        return np.abs(values).max()
    return max(values.max(), -values.min())


def as_integers(coefficients: NDArray, bits: int | None = None) -> NDArray[np.int64] | None:
    """Integers [*batch, n] (int64, float64 or object) as int64, if all are below 2^62.

    The memory is new and is one that a polynomial may stand on. With `bits` they are known to be
    below 2^bits.
    """
    is_small = bits is not None and 1 << bits <= _LARGEST_INTEGER
    if not is_small and coefficients.size and largest(coefficients) >= _LARGEST_INTEGER:
        return None
    made = empty(coefficients.shape, np.int64)
    np.copyto(made, coefficients, casting="unsafe")
    return made


def residues(coefficients: NDArray, moduli: Sequence[int]) -> NDArray[np.uint32]:
    """The residues c 2^32 mod q_i (Montgomery form): uint32 [*batch, limb, n], in [0, q_i).

    Args:
        coefficients: integers [*batch, n]: int64, integer-valued float64 of any size, or object.
        moduli: the moduli q_i < 2^30 of the limbs.
    """
    out = np.empty((*coefficients.shape[:-1], len(moduli), coefficients.shape[-1]), np.uint32)
    if coefficients.dtype == object:
        for i, q in enumerate(moduli):
            out[..., i, :] = ((coefficients << 32) % q).astype(np.uint32)
        return out
    mantissa, exponents = _as_int64(coefficients)
    high, low = mantissa >> 32, mantissa & 0xFFFFFFFF
    for i, q in enumerate(moduli):
        # |high| < 2^31 and low < 2^32, both times a residue < 2^30: the sum stays below 2^63.
        limb = _mod(high * ((1 << 64) % q) + low * ((1 << 32) % q), q)
        if exponents is not None:
            powers = [pow(2, e, q) for e in range(int(exponents.max()) + 1)]
            limb = _mod(limb * np.array(powers, np.int64)[exponents], q)
        out[..., i, :] = limb
    return out


def _mod(values: NDArray[np.int64], q: int) -> NDArray[np.int64]:
    # Division by a scalar is vectorised in NumPy, remainder is not.
    return values - values // q * q


def _as_int64(coefficients: NDArray) -> tuple[NDArray[np.int64], NDArray[np.intp] | None]:
    """Integers m, e with coefficients = m 2^e, e >= 0; e is None where all are zero."""
    if coefficients.dtype.kind == "i":
        return coefficients.astype(np.int64, copy=False), None
    if not coefficients.size or float(largest(coefficients)) < float(1 << 62):
        return coefficients.astype(np.int64), None
    fraction, exponents = np.frexp(coefficients)
    shift = np.maximum(exponents - 53, 0)
    return np.ldexp(fraction, exponents - shift).astype(np.int64), shift.astype(np.intp)
