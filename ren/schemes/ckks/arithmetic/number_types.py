"""Types of the numbers that come out: of arrays that went in, or stated by the user.

Encrypted numbers are approximate, and have no type of their own. The type of the array that was
encrypted goes along, or one that the user states. Operations keep it where NumPy's promotion tells
it, and drop it elsewhere: numbers then come out as float64 or complex128.

A stated type is static data, which programs depend on. That of an array is not: under `ren.jit` it
is computed at each call, and one plan serves all types. Transformations of JAX lose it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from numpy.typing import DTypeLike, NDArray

from ren.core.errors import OperandError, ParameterError, PrecisionError
from ren.lowering.devices.devices import is_tracer
from ren.poly.symbolic import Symbolic, as_symbol, derived
from ren.schemes.ckks.arithmetic.argument_checks import check_ciphertext
from ren.schemes.ckks.encoding.ciphertext_data import (
    DTYPES,
    CiphertextData,
    CiphertextT,
    Implied,
    NumberType,
    with_fields,
)

_WHOLE = "bui"  # kinds of bool, unsigned and signed integers
_INTEGER = np.dtype(np.int64)
_WIDEST = (0, 1 + DTYPES.index("float64"), 1 + DTYPES.index("complex128"))  # codes


def typed(x: CiphertextT, dtype: DTypeLike | None) -> CiphertextT:
    """The same numbers, which `decrypt` gives as `dtype`: rounded, for integers and booleans.

    It travels with the ciphertext, through `ren.jit`, JAX and bytes, and is public. Operations with
    numbers, arrays and other ciphertexts promote types as NumPy does. One without a type counts as
    float64 or complex128. But encrypted integers have no width: arithmetic of integers and booleans
    gives int64. Approximated functions of integers give float64, and so do all comparisons.

    The type of an encrypted array goes along in the same way, but for transformations of JAX.

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
        made = np.dtype(object if isinstance(dtype, CiphertextData) else dtype)
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


def implied(values: Any) -> Implied | None:
    """The type of an array that is encrypted; None for that of 64 bits, and for other values."""
    if not isinstance(values, np.ndarray | np.generic | jax.Array) or is_tracer(values):
        return None
    code = _code(values.dtype)
    return None if code in _WIDEST else Implied(code)


def with_type(x: CiphertextT, dtype: NumberType | None) -> CiphertextT:
    """`x` with this type of its numbers; None for that of 64 bits."""
    if isinstance(dtype, Implied):
        if not isinstance(dtype.code, Symbolic) and dtype.code in _WIDEST:
            dtype = None
    elif dtype == x.default_dtype:
        dtype = None
    is_same = dtype is x.stated_dtype or (dtype is not None and dtype == x.static_dtype)
    return x if is_same else with_fields(x, stated_dtype=dtype)


# ------------------------------------------------------------------- operations

# From the type that NumPy promotes the operands to, to that of a result; None for 64 bits.
TypeRule = Callable[[np.dtype], np.dtype | None]


def same(dtype: np.dtype) -> np.dtype:
    """The rule of what chooses among numbers or moves them: `where`, `concat`, `stack`."""
    return dtype


def arithmetic(dtype: np.dtype) -> np.dtype:
    """The rule of sums and products: encrypted integers have no width, and cannot wrap around."""
    return _INTEGER if dtype.kind in _WHOLE else dtype


def floating(dtype: np.dtype) -> np.dtype | None:
    """The rule of means, quotients and approximations."""
    return None if dtype.kind in _WHOLE else dtype


def real_part(dtype: np.dtype) -> np.dtype:
    """The rule of real and imaginary parts."""
    return dtype.type(0).real.dtype


def logical(dtype: np.dtype) -> np.dtype:
    """The rule of `&`, `|`, `^`, `~`."""
    return dtype if dtype.kind == "b" else arithmetic(dtype)


def truth(_: np.dtype) -> np.dtype:
    """The rule of `any` and `all`."""
    return np.dtype(np.bool)


def of_operands(rule: TypeRule, *values: Any) -> NumberType | None:
    """The type of a result by a rule; None where an operand has none."""
    types = []
    for value in values:
        if (found := _type_of(value)) is None:
            return None
        types.append(found)
    if any(isinstance(t, Implied) for t in types):
        codes = (t.code if isinstance(t, Implied) else t for t in types)
        return Implied(derived(_result, rule, *codes))
    return rule(np.result_type(*types))


def of_result(x: CiphertextData, other: Any) -> NumberType | None:
    """The type of a sum, difference or product; None where one operand has none."""
    return of_operands(arithmetic, x, other)


def name_of(values: Any) -> str | None:
    """The name of the type of an array or of lists; None where numbers do not come out as it."""
    found = _type_of(values)
    return found.name if isinstance(found, np.dtype) and found.name in DTYPES else None


def of_product(x: CiphertextData, name: str | None) -> NumberType | None:
    """The type of a product with an array whose type has this name."""
    return None if name is None else of_operands(arithmetic, x, np.dtype(name))


def of_total(x: CiphertextData) -> NumberType | None:
    """The type of -x, or of a sum of the numbers of `x`."""
    return of_operands(arithmetic, x)


def of_choice(condition: Any, a: Any, b: Any) -> NumberType | None:
    """The type of `where`: that of what is chosen from. Of numbers in the clear, of a product."""
    if any(isinstance(v, CiphertextData) for v in (a, b)):
        return of_operands(same, a, b)
    return of_operands(arithmetic, condition, a, b)


@lru_cache(maxsize=1024, typed=True)
def _result(rule: TypeRule, *types: Any) -> np.int8:
    """The code of a result, of codes, types and zeros of Python."""
    if any(map(_is_unknown, types)):
        return np.int8(0)
    made = rule(np.result_type(*map(_type_at, types)))
    return np.int8(0) if made is None else _code(made)


def _is_unknown(code: Any) -> bool:
    return type(code) is np.int8 and code == 0


def _type_at(code: Any) -> Any:
    return np.dtype(DTYPES[code - 1]) if type(code) is np.int8 else code


def _code(dtype: Any) -> np.int8:
    return Implied.of(np.dtype(dtype)).code


def _type_of(value: Any) -> Any:
    """The type of an operand, or a zero for a number of Python, which has a kind but no width."""
    if isinstance(value, CiphertextData):
        return value.stated_dtype
    if isinstance(value, np.dtype):
        return value
    if (symbol := as_symbol(value)) is not None:
        value = symbol.sample
    elif isinstance(value, list | tuple):
        value = np.asarray(value) if not any(map(is_tracer, value)) else None
    if type(value) in (bool, int, float, complex):
        return type(value)()
    is_array = isinstance(value, np.ndarray | np.generic | jax.Array)
    return value.dtype if is_array and value.dtype.kind in "biufc" else None


# ------------------------------------------------------------------- decryption


def check_roundable(x: CiphertextData, dtype: np.dtype) -> None:
    """Check that the numbers of `x` round to the integers that they stand for.

    Raises:
        PrecisionError: the type is one of integers, and the estimated error is not below 1/2. It is
            unknown where the message may have wrapped around.
    """
    if dtype.kind not in _WHOLE or (error := x.estimate.error_bound) < 0.5:
        return
    told, unknown = f"may be {error:.3g}, as estimated", ""
    if math.isinf(error):
        may_wrap = math.isfinite(x.estimate.message_bound)
        told = "is unknown: they may have wrapped around" if may_wrap else "is unknown"
        unknown = "" if may_wrap else " Numbers and errors from 2^60 on have none."
    raise PrecisionError(
        f"decrypt() was asked for {dtype} of numbers whose error {told}.",
        "Numbers are rounded to integers where their estimated error is below 1/2. The estimate is "
        f"a bound of the worst case.{unknown}",
        f"{_FROM_60_BITS if unknown else _STATED} np.rint(x.decrypt(dtype=float)).",
    )


_STATED = (
    "State what you know: x.within(bound) of a factor, or a gap= of comparisons. Or round without "
    "that promise:"
)
_FROM_60_BITS = (
    "Write x.decrypt(dtype=float), which gives numbers from 2^60 on. For smaller ones state "
    "x.within(bound) before the products, or round without that promise:"
)


def converted(values: NDArray, dtype: np.dtype) -> NDArray:
    """Decrypted values as `dtype`: rounded for integers and booleans.

    Raises:
        PrecisionError: a number that the type does not hold.
    """
    if dtype.kind in _WHOLE:
        values = np.rint(np.real(values))
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        is_held = (values >= float(low)) & (values < float(high) + 1)
        held, wider = f"integers from {low} to {high}", "dtype=np.int64), or dtype=float"
    else:
        with np.errstate(over="ignore"):
            is_held = np.isfinite(values.astype(dtype)) | ~np.isfinite(values)
        held, wider = f"numbers up to {np.finfo(dtype).max:.4g}", "dtype=float)"
    if beyond := np.count_nonzero(~is_held):
        raise PrecisionError(
            f"decrypt() was asked for {dtype}, and {beyond} of {values.size} numbers do not fit.",
            f"{dtype} holds {held}.",
            f"Pass a wider type, decrypt({wider}.",
        )
    return values.astype(dtype)
