"""NumPy's protocols on polynomials: its operators compute modulo q, and what would not is refused.

NumPy asks an element of a list for an array just as it asks an argument of `np.asarray`.
`np.sum([p, p])` would then add plain integers. So an array of coefficients needs an integer type,
and an array of polynomials the type `object`. On the latter NumPy's sums and products use the
operators of its elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ren.core.errors import CoefficientError, OperandError, RingMismatchError
from ren.core.ring import RingSpec
from ren.core.user_frame import user_line

# The operators behind NumPy's functions, which it calls for scalars and arrays on the left.
_OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "power": "pow", "divide": "truediv",
    "floor_divide": "floordiv", "remainder": "mod",
}  # fmt: skip
_UNARY = {"negative": "neg", "positive": "pos"}

# Functions of NumPy that compare or move coefficients, and compute nothing.
_READING = {
    "append", "array2string", "array_equal", "array_equiv", "array_repr", "array_split",
    "array_str", "block", "broadcast_arrays",
    "broadcast_to", "column_stack", "concatenate", "copy", "count_nonzero", "dstack", "empty_like",
    "expand_dims", "flip", "full_like", "hstack", "isin", "moveaxis", "ndim", "nonzero",
    "ones_like", "ravel", "repeat", "reshape", "resize", "result_type", "roll", "save", "savetxt",
    "savez", "shape", "size", "split", "squeeze", "stack", "swapaxes", "take", "tile", "transpose",
    "unique", "vstack", "where", "zeros_like",
}  # fmt: skip


def as_array(p: Any, dtype: Any) -> np.ndarray:
    """The coefficients of a polynomial as numbers of a type, or the polynomial as an object.

    Raises:
        OperandError: without a type, where NumPy could go on to compute without q.
        CoefficientError: numbers below q do not fit the type.
    """
    if dtype is None:
        raise OperandError(
            f"{user_line()} makes a NumPy array of a polynomial, or of a list of them.",
            "NumPy would compute on the coefficients as plain integers, without q.",
            "Write + - * and sum([p, p]); np.array([p, p], dtype=object) for NumPy's sums and "
            "products of polynomials; p.tolist() for coefficients.",
        )
    wanted = np.dtype(dtype)
    if wanted.kind == "O":
        array = np.empty((), object)
        array[()] = p
        return array
    if p.ring.q - 1 > _largest(wanted):
        raise CoefficientError(
            f"{user_line()} makes an array of {wanted} of a polynomial.",
            f"Its coefficients go up to q - 1, a number of {p.ring.q.bit_length()} bits.",
            "Write p.tolist() for Python integers.",
        )
    return p.coefficients().astype(wanted)


def call_ufunc(kind: type, ufunc: np.ufunc, method: str, args: Any, kwargs: Any) -> Any:
    """A ufunc on polynomials, instances of `kind`: their own operator, where there is one.

    Raises:
        OperandError: they have no such operator.
    """
    name, plain = ufunc.__name__, method == "__call__" and not kwargs
    if plain and name in ("equal", "not_equal"):
        same = all(isinstance(a, kind) for a in args) and args[0] == args[1]
        return same == (name == "equal")
    if plain and name in _UNARY:
        return getattr(args[0], f"__{_UNARY[name]}__")()
    if plain and name in _OPERATORS:
        left, right = args
        if isinstance(left, kind):
            result = getattr(left, f"__{_OPERATORS[name]}__")(right)
        else:
            result = getattr(right, f"__r{_OPERATORS[name]}__", _not_implemented)(left)
        if result is not NotImplemented:
            return result
    raise _no_numpy(name if method == "__call__" else f"{name}.{method}")


def call_function(kind: type, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A function of NumPy on the coefficients of polynomials, instances of `kind`.

    Raises:
        OperandError: the function computes.
    """
    if function.__name__ not in _READING:
        raise _no_numpy(function.__name__)
    args, kwargs = jax.tree.map(
        lambda x: _numbers(x) if isinstance(x, kind) else x,
        (args, kwargs), is_leaf=lambda x: isinstance(x, kind),
    )  # fmt: skip
    return function(*args, **kwargs)


def listed(kind: type, coeffs: Any, ring: RingSpec) -> Any:
    """A polynomial, or a list of them, as the lists of their coefficients; all else as it is.

    Raises:
        RingMismatchError: a polynomial of another ring.
    """
    if isinstance(coeffs, kind):
        if coeffs.ring != ring:  # type: ignore[attr-defined]
            raise RingMismatchError(
                f"{user_line()} makes a polynomial of one of another ring.",
                "Its integers have representatives of both signs there, [0, q) and centred ones.",
                "Write p.to_ring(ring), which takes the centred ones, or Poly(p.tolist(), ring).",
            )
        return coeffs.coefficients()  # type: ignore[attr-defined]
    if isinstance(coeffs, list | tuple) and coeffs and isinstance(coeffs[0], kind):
        return [listed(kind, c, ring) for c in coeffs]
    return coeffs


def _numbers(p: Any) -> np.ndarray:
    """The coefficients in int64, or as Python ints where they do not fit."""
    return p.coefficients().astype(np.int64 if p.ring.q < 1 << 63 else object)


def _largest(dtype: np.dtype) -> int:
    """The integer up to which a type holds all integers; 0 for types other than numbers."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max)
    return 2 << np.finfo(dtype).nmant if dtype.kind in "fc" else 0


def _not_implemented(_: Any) -> Any:
    return NotImplemented


def _no_numpy(called: str) -> OperandError:
    return OperandError(
        f"{user_line()} calls a function of NumPy, np.{called}, on a polynomial.",
        "NumPy computes on arrays of numbers, and this is a program modulo q.",
        "Write p.tolist() for its coefficients, p.limbs for the array of residues, or + - *.",
    )
