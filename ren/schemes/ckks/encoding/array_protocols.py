"""Python's and NumPy's array protocols, for a Ciphertext.

`Ciphertext` has these functions as methods. Requests that can be computed go to its operators.
Those that cannot, because only the owner sees the numbers, raise an error that says what to write
instead.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import jax
import numpy as np

from ren.core.errors import FrozenError, OperandError, ParameterError, TracedValueError
from ren.core.user_frame import user_line
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData
from ren.schemes.ckks.encoding.encoder import as_numbers

# The operators behind NumPy's functions, and what to write for those that have none.
_OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "matmul": "matmul",
    "power": "pow", "float_power": "pow", "floor_divide": "floordiv", "remainder": "mod",
}  # fmt: skip
_COMPARISONS = {
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
    "logical_or", "logical_not", "isnan", "isfinite", "allclose", "isclose", "array_equal",
}  # fmt: skip
_IN_MATH = {
    "absolute": "abs", "maximum": "max", "max": "max", "minimum": "min", "min": "min",
    "reciprocal": "inverse", "exp": "exp", "log": "log", "sqrt": "sqrt", "sin": "sin", "cos": "cos",
    "tan": "tan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "sign": "sign", "round": "round",
    "rint": "round",
}  # fmt: skip
_METHODS = {
    "sum": "ct.sum()", "mean": "ct.mean()", "average": "ct.mean()", "dot": "ct.dot(w)",
    "vdot": "ct.conj().dot(w)", "inner": "ct.dot(w)", "cumsum": "ct.cumsum()",
    "roll": "ct.roll(k)", "tile": "ct.tile(k)", "real": "ct.real", "imag": "ct.imag",
    "conjugate": "ct.conj()", "negative": "-ct", "square": "ct * ct",
    "concatenate": "ckks.concat([x, y])", "hstack": "ckks.concat([x, y])",
    "stack": "ckks.stack([x, y])", "vstack": "ckks.stack([x, y])",
    "where": "ckks.math.where(condition, x, y)", "any": "ckks.math.any(ct)",
    "all": "ckks.math.all(ct)",
}  # fmt: skip
_WITH_AXIS = {"sum", "mean", "average", "cumsum", "roll"}
_INSTEAD = {
    "level": "Write x = x.drop_to(level), which only goes down, or encrypt or encode at a level.",
    "scale": "A product changes the scale, x.rescale() divides it; the level fixes it otherwise.",
    "slots": "Make the context with ckks.context(depth, slots=...).",
    "layout": "Write x = x.reshape(...).",
    "shape": "Write x = x.reshape(...).",
}


def _refusal(error: Callable[..., Exception], given: str, *reasons: str) -> Callable[..., NoReturn]:
    """A method that raises: the user's line and what it does, what is needed and what to do."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise error(f"{user_line()} {given}", *reasons)

    return refuse


def _approximation(what: str, name: str) -> Callable[..., NoReturn]:
    """A method that raises, and names the function of `ckks.math` to write instead."""
    return _refusal(
        OperandError,
        f"asks for {what} of encrypted numbers.",
        "Functions of them are polynomials that are close on an interval.",
        f"Write ckks.math.{name}(ct, interval=(a, b)); see help(ckks.math.{name}).",
    )


def _division(what: str) -> Callable[..., NoReturn]:
    return _refusal(
        OperandError,
        f"{what}.",
        "Division by numbers and arrays in the clear is a product; by encrypted ones it is "
        "approximated.",
        "Multiply by ckks.math.inverse(x, interval=(a, b)), for x in [a, b] without zero.",
    )


no_truth = _refusal(
    TracedValueError,
    "asks whether encrypted numbers are true, or compares them.",
    "Only the owner of the secret key can see them: no branch can depend on them.",
    "Compute both sides and choose slot by slot with ckks.math.where, or decrypt() first.",
)
no_value = _refusal(
    TracedValueError,
    "takes the numbers of a ciphertext, as a NumPy array or a number.",
    "They are encrypted: only the context of their owner gives them, by decrypt().",
    "Compute with ct's own operators, methods and ckks.math, and decrypt() the result.",
)
no_item_assignment = _refusal(
    OperandError,
    "assigns to slots of a ciphertext.",
    "Ciphertexts never change, so that programs can share them.",
    "Write x = x.mask(m) + values, with m zero where the values go.",
)
no_remainder = _refusal(
    OperandError,
    "takes a remainder or an integer quotient of encrypted numbers.",
    "Slots hold real or complex numbers, and arithmetic on them is + - * and polynomials.",
    "See ckks.math.round, and `/` by numbers in the clear.",
)
no_exponent = _refusal(
    OperandError,
    "has a ciphertext in the exponent.",
    "Powers with encrypted exponents are approximated.",
    "Write ckks.math.exp(x * math.log(base), interval=(a, b)).",
)
no_divisor = _division("divides by a ciphertext")
no_absolute_value = _approximation("the absolute value", "abs")
no_rounding = _approximation("the nearest integers", "round")


def no_iteration(x: Any) -> Iterator[NoReturn]:
    """Refuse iteration, by a generator that raises at its first step.

    np.concatenate replaces a TypeError of `__iter__` itself.
    """
    raise OperandError(
        f"{user_line()} iterates over a ciphertext.",
        "Its slots are computed on all at once; one by one, each would take a rotation.",
        "Write what is to be done to the whole ct; ckks.unstack(ct) parts a batch, ct[i : i + "
        "1] cuts out one number.",
    )
    yield


def is_same(x: Any, other: object) -> bool:
    """True for the same object; encrypted numbers are not compared."""
    if x is other:
        return True
    if isinstance(other, CiphertextData | numbers.Number | np.ndarray | jax.Array | Symbolic):
        no_truth()
    return NotImplemented


def no_assignment(x: Any, name: str, *_: Any) -> NoReturn:
    """The `__setattr__` and `__delattr__` of what never changes."""
    raise FrozenError(
        f"{user_line()} assigns to, or deletes, the attribute {name!r} of a {type(x).__name__}.",
        "It never changes, so that programs can share it: operations make a new one.",
        _INSTEAD.get(name, "Write x = ... with the result of its operators and methods."),
    )


def no_power(exponent: Any) -> NoReturn:
    """Refuse an exponent that is no integer."""
    raise OperandError(
        f"{user_line()} raises a ciphertext to the power {exponent!r}, a "
        f"{type(exponent).__name__}.",
        "Powers have integer exponents from 0 on; others are approximated.",
        "See ckks.math.sqrt, ckks.math.inverse, or ckks.chebyshev(x, f, interval, degree).",
    )


def inverted(other: Any) -> Any:
    """1/other for numbers and arrays, without zeros."""
    if isinstance(other, Symbolic):
        return 1 / other
    if isinstance(other, CiphertextData) or not isinstance(
        other, numbers.Number | np.generic | np.ndarray | jax.Array | list | tuple
    ):
        _division(f"divides a ciphertext by a {type(other).__name__}")()
    divisor: Any = other
    if not isinstance(other, int | float | complex | Fraction | Decimal):
        divisor = as_numbers(other)
        if divisor.dtype.kind not in "biufc":
            _division(f"divides a ciphertext by an array of {divisor.dtype}")()
        divisor = divisor.astype(np.complex128 if divisor.dtype.kind == "c" else np.float64)
    if np.any(np.equal(divisor, 0)):
        raise ParameterError(
            f"{user_line()} divides a ciphertext by zero.",
            "A ciphertext is multiplied by the inverses of the numbers that divide it.",
            "Leave the zeros out, or put ones in their place.",
        )
    return 1 / divisor


def array_ufunc(x: Any, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
    """Call the operator behind one of NumPy's element-wise functions; refuse the others."""
    name = _OPERATORS.get(ufunc.__name__)
    if "out" in kwargs and kwargs["out"][0] is args[0]:
        del kwargs["out"]  # `array += ct` binds the name to the sum
    if name is None or method != "__call__" or kwargs:
        _refuse_numpy(ufunc.__name__)
    left, right = args
    reflected = not isinstance(left, CiphertextData)
    ciphertext, other = (right, left) if reflected else (left, right)
    result = getattr(ciphertext, f"__{'r' * reflected}{name}__")(other)
    if result is NotImplemented:
        _refuse_numpy(ufunc.__name__)
    return result


def array_function(
    x: Any, function: Callable, _types: Any, _args: Any, kwargs: dict[str, Any]
) -> NoReturn:
    """Refuse NumPy's other functions."""
    _refuse_numpy(function.__name__, kwargs.get("axis"))


def _refuse_numpy(name: str, axis: Any = None) -> NoReturn:
    """Refuse a function of NumPy that has no operator, and say what to write instead."""
    if name in _COMPARISONS:
        no_truth()
    if name in _IN_MATH:
        _approximation(f"np.{name}", _IN_MATH[name])()
    instead = _METHODS.get(name)
    if instead is not None and name in _WITH_AXIS and isinstance(axis, int):
        head = instead.removesuffix(")")
        instead = f"{head}{'' if head.endswith('(') else ', '}axis={axis})"
    raise OperandError(
        f"{user_line()} calls np.{name} on a ciphertext.",
        "NumPy computes on numbers, and these are encrypted.",
        f"Write {instead}." if instead else "See the methods of a Ciphertext and ckks.math.",
    )
