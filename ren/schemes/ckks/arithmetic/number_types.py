"""Types of the numbers that come out: stated by the user, kept by arithmetic, given by decryption.

Encrypted numbers are approximate, and have no type of their own: they come out as float64 or
complex128. A type that the user states goes along as static data. Operations keep it where NumPy's
promotion tells it, and drop it elsewhere. So what has a type was stated, or computed from such.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np
from numpy.typing import DTypeLike, NDArray

from ren.core.errors import OperandError, ParameterError, PrecisionError
from ren.lowering.devices.devices import is_tracer
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.arithmetic.argument_checks import check_ciphertext
from ren.schemes.ckks.encoding.ciphertext_data import DTYPES, CiphertextData, CiphertextT

_WHOLE = "bui"  # kinds of bool, unsigned and signed integers
_INTEGER = np.dtype(np.int64)


def typed(x: CiphertextT, dtype: DTypeLike | None) -> CiphertextT:
    """The same numbers, which `decrypt` gives as `dtype`: rounded, for integers and booleans.

    It travels with the ciphertext, through `ren.jit`, JAX and bytes, and is public. Sums,
    differences and products with numbers, arrays and other typed ciphertexts keep a type, as
    NumPy's promotion does. But encrypted integers have no width: arithmetic of integers and
    booleans gives int64. Slices, rotations and sums keep it too. Other operations forget it, as
    operands without a type do.

    Args:
        x: a ciphertext.
        dtype: bool, an integer type, float16, float32, complex64, or one of 64 bits. None for
            none.

    Raises:
        OperandError: not a ciphertext, or a real type for complex numbers.
        ParameterError: another type.

    Example:
        >>> import numpy as np
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1)
        >>> x = ckks.typed(ctx.encrypt([1, 2, 3]), np.int32)
        >>> (x * x + 1).decrypt()
        array([ 2,  5, 10])
    """
    check_ciphertext(x, "ckks.typed()")
    return with_type(x, None if dtype is None else as_type(x, dtype, "ckks.typed()"))


def as_type(x: CiphertextData, dtype: DTypeLike, what: str) -> np.dtype:
    """`dtype` as a type for the numbers of `x`; ParameterError or OperandError where it is none."""
    try:
        made = np.dtype(dtype)
    except TypeError:
        made = np.dtype(object)
    if made.name not in DTYPES:
        raise ParameterError(
            f"{what} got dtype={dtype!r:.60}.",
            "Encrypted numbers come out as bool, integers, or real or complex numbers.",
            f"Write one of {', '.join(DTYPES)}.",
        )
    if x.layout.is_complex and made.kind != "c":
        raise OperandError(
            f"{what} got dtype={made} for complex numbers.",
            "A real type holds their real parts alone.",
            "Take the real parts first, x.real, or pass np.complex64.",
        )
    return made


def with_type(x: CiphertextT, dtype: np.dtype | None) -> CiphertextT:
    """`x` with this type of its numbers; None for that of 64 bits."""
    if dtype == x.default_dtype:
        dtype = None
    return x if dtype == x.stated_dtype else dataclasses.replace(x, stated_dtype=dtype)


# ------------------------------------------------------------------- arithmetic


def of_result(x: CiphertextData, other: Any) -> np.dtype | None:
    """The type of a sum, difference or product; None where one operand has none."""
    mine, others = x.stated_dtype, _type_of(other)
    if mine is None or others is None:
        return None
    made = np.result_type(mine, others)
    return _INTEGER if made.kind in _WHOLE else made


def of_total(x: CiphertextData) -> np.dtype | None:
    """The type of -x, or of a sum of the numbers of `x`."""
    mine = x.stated_dtype
    return _INTEGER if mine is not None and mine.kind in _WHOLE else mine


def _type_of(value: Any) -> Any:
    """The type of an operand, or a zero for a number of Python, which has a kind but no width."""
    if isinstance(value, CiphertextData):
        return value.stated_dtype
    if isinstance(value, list | tuple):
        value = np.asarray(value) if not any(map(is_tracer, value)) else None
    if isinstance(value, Symbolic):
        value = value.sample
    if type(value) in (bool, int, float, complex):
        return type(value)()
    is_array = isinstance(value, np.ndarray | np.generic | jax.Array)
    return value.dtype if is_array and value.dtype.kind in "biufc" else None


# ------------------------------------------------------------------- decryption


def check_roundable(x: CiphertextData, dtype: np.dtype) -> None:
    """Check that the numbers of `x` round to the integers that they stand for.

    Raises:
        PrecisionError: the estimated error is not below 1/2, and the type is one of integers.
    """
    if dtype.kind not in _WHOLE or (error := x.estimate.error_bound) < 0.5:
        return
    told = "is unknown" if math.isnan(error) else f"may be {error:.3g}, as estimated"
    raise PrecisionError(
        f"decrypt() was asked for {dtype} of numbers whose error {told}.",
        "Numbers are rounded to integers where their estimated error is below 1/2. The estimate is "
        "a bound of the worst case.",
        "State what you know: x.within(bound) of a factor, or a gap= of comparisons. Or round "
        "without that promise: np.rint(x.decrypt(dtype=float)).",
    )


def converted(values: NDArray, dtype: np.dtype) -> NDArray:
    """Decrypted values as `dtype`: rounded for integers and booleans.

    Raises:
        PrecisionError: an integer that the type does not hold.
    """
    if dtype.kind not in _WHOLE:
        return values.astype(dtype)
    whole = np.rint(np.real(values))
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    beyond = np.count_nonzero(~((whole >= float(low)) & (whole < float(high) + 1)))
    if beyond:
        raise PrecisionError(
            f"decrypt() was asked for {dtype}, and {beyond} of {whole.size} numbers do not fit.",
            f"{dtype} holds integers from {low} to {high}.",
            "Pass a wider type, decrypt(dtype=np.int64), or dtype=float.",
        )
    return whole.astype(dtype)
