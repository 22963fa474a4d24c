"""NumPy's and JAX's functions on a Ciphertext: what an operator or a method computes, and the rest.

Functions that can be computed go to its operators and methods. Those that cannot, because only the
owner sees the numbers, raise an error that says what to write instead.
"""

from __future__ import annotations

import inspect
import math
import numbers
import operator
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

import jax
import numpy as np

from ren.core.errors import DepthError, OperandError, ParameterError, kind_of
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import is_tracer
from ren.lowering.kernels import embedding
from ren.poly import Poly
from ren.poly.batching import traced_array
from ren.poly.calls import check_methods
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.arithmetic.shapes import shapes_of
from ren.schemes.ckks.encoding.advice import ATTRIBUTES as ATTRIBUTES  # of a Ciphertext
from ren.schemes.ckks.encoding.advice import IN_MATH, INSTEAD, arguments_of, instead_of
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, batch_of, is_columns
from ren.schemes.ckks.encoding.encoder import as_numbers, is_no_operand, of_frame
from ren.schemes.ckks.encoding.plaintext import Plaintext
from ren.schemes.ckks.encoding.refusals import (
    BINARY,
    approximation,
    comparison,
    division,
    no_branch,
    no_remainder,
    no_shift,
    wrong_operand,
)
from ren.schemes.ckks.encoding.table_advice import affordable, in_table
from ren.schemes.ckks.functions.calls import call
from ren.schemes.ckks.functions.further_arguments import (
    further_arguments,
    inplace_operator,
    left_out,
    optional,
    refuse_arguments,
    refuse_ufunc_arguments,
)

# The operators behind NumPy's element-wise functions.
KindT = TypeVar("KindT", bound=type)
_OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "matmul": "matmul",
    "power": "pow", "float_power": "pow", "floor_divide": "floordiv", "remainder": "mod",
    "matvec": "matmul", "vecmat": "matmul", "divmod": "divmod",
}  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": operator.neg, "positive": operator.pos, "square": lambda x: x * x,
    "conjugate": lambda x: x.conj(), "floor": lambda x: x // 1, "ceil": lambda x: -(-x // 1),
}  # fmt: skip


_VECTORS: dict[str, Callable[[int, int], bool]] = {
    "matvec": lambda a, b: a > 1 == b, "vecmat": lambda a, b: a == 1 < b,
}  # fmt: skip


def _rank(x: Any) -> int:
    is_encoded = isinstance(x, CiphertextData | Plaintext)
    return sum(map(len, shapes_of(x))) if is_encoded else np.ndim(x)


def _whole(x: Any, axis: Any = None) -> Any:
    """`x`, of which NumPy's function takes all numbers where it gets no axis: not a batch."""
    if axis is None and not is_columns(x) and len(batch_of(x)) > (x.layout.blocks > 1):
        raise OperandError(
            f"{user_line()} calls a function of NumPy on a batch of shape {x.shape}, with no axis.",
            "NumPy takes all numbers of a batch together; the vectors of a batch stay apart.",
            "Pass axis=-1 for each vector, or take the batch apart: ckks.unstack(ct).",
        )
    return x


def _reshaped(x: Any, shape: Any) -> Any:
    if is_columns(x):
        refuse_function("np", "reshape", x)
    return x.reshape(shape)


def _clipped(a: Any, low: Any, high: Any) -> Any:
    """Numbers in [low, high], where None and infinities bound nothing."""
    if not _is_bare(low, -np.inf):
        a = call("max", a, low)
    return a if _is_bare(high, np.inf) else call("min", a, high)


def _is_bare(bound: Any, infinity: float) -> bool:
    if bound is None or isinstance(bound, CiphertextData | Plaintext | Symbolic):
        return bound is None
    if is_tracer(bound):
        return False
    given = as_numbers(bound)
    return given.dtype.kind == "f" and given.size > 0 and bool((given == infinity).all())


def _where(condition: Any, *choices: Any) -> Any:
    if not choices:
        raise OperandError(
            f"{user_line()} calls np.where on a ciphertext alone.",
            "It gives the places of numbers other than 0, and these are encrypted.",
            f"Write np.where(x > 0, a, b), or {INSTEAD['nonzero']}.",
        )
    return call("where", _as_truth(condition), *choices)


def _dot(a: Any, b: Any) -> Any:
    ranks = _rank(a), _rank(b)
    if ranks[0] > 1 and ranks[1] > 2:  # each matrix of one with each of the other
        refuse_function("np", "tensordot", a if isinstance(a, CiphertextData) else b)
    return a * b if 0 in ranks else a @ b


# NumPy's other functions that a method computes, with the arguments that it takes.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda a, axis=None, *, keepdims=False, where=True: _whole(a, axis).sum(
        axis, keepdims=keepdims, where=where
    ),
    "any": lambda a, axis=None, *, where=True: _whole(a, axis).any(axis, where=where),
    "all": lambda a, axis=None, *, where=True: _whole(a, axis).all(axis, where=where),
    "mean": lambda a, axis=None, *, keepdims=False: _whole(a, axis).mean(axis, keepdims=keepdims),
    "average": lambda a, axis=None: _whole(a, axis).mean(axis),
    "var": lambda a, axis=None, *, ddof=0, keepdims=False: _whole(a, axis).var(
        axis, ddof=ddof, keepdims=keepdims
    ),
    "cumsum": lambda a, axis=None: _whole(a, axis).cumsum(axis),
    "roll": lambda a, shift, axis=None: a.roll(shift, axis),
    "tile": lambda A, reps: A.tile(reps),
    "dot": _dot,
    "real": lambda val: val.real,
    "imag": lambda val: val.imag,
    "reshape": lambda a, shape: _reshaped(a, shape),
    "ravel": lambda a: _whole(a).reshape(-1),
    "nansum": lambda a, axis=None: _whole(a, axis).sum(axis),  # no NaN can be encrypted
    "nanmean": lambda a, axis=None: _whole(a, axis).mean(axis),
    "nanvar": lambda a, axis=None, *, ddof=0, keepdims=False: _whole(a, axis).var(
        axis, ddof=ddof, keepdims=keepdims
    ),
    "nancumsum": lambda a, axis=None: _whole(a, axis).cumsum(axis),
    "nan_to_num": lambda x, copy=True, nan=0.0, posinf=None, neginf=None: x,
    "array_repr": lambda arr: repr(arr),
    "array_str": lambda a: str(a),
    "array2string": lambda a: str(a),
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": lambda a, axis=None: (
        a.size if axis is None else math.prod(a.shape[k] for k in np.atleast_1d(axis))
    ),
    "iscomplexobj": lambda x: x.dtype.kind == "c",
    "isrealobj": lambda x: x.dtype.kind != "c",
    "copy": lambda a: a,
    "round": lambda a: call("round", a),
    "around": lambda a: call("round", a),
    "clip": lambda a, a_min=None, a_max=None, *, min=None, max=None: _clipped(
        a, min if a_min is None else a_min, max if a_max is None else a_max
    ),
    "where": _where,
}

# What to write for functions that only approximations and decryption give.
_COMPARED = ("isclose", "allclose", "array_equal", "array_equiv")
_REFUSED = {
    **dict.fromkeys(("left_shift", "right_shift"), no_shift),
    **dict.fromkeys(("divmod", "fmod", "modf", "floor_divide", "remainder", "rem"), no_remainder),
}  # fmt: skip


_CHECKED = " ".join(f"{name} r{name}" for name in BINARY)
_CHECKED += " neg abs round floor ceil lt le gt ge eq ne getitem"


def checked_arguments(kind: KindT) -> KindT:
    """Let wrong arguments of the public methods of a class of ciphertexts raise OperandError.

    Python's own TypeError is replaced where the arguments do not fit, and no other one.
    """
    more = (
        "NumPy's dtype=, out= and initial= do not apply: x.decrypt(dtype=...) gives the type, and "
        "x.sum() + value another start."
    )
    page = f"ckks.{kind.__name__}"
    return check_methods(kind, page, {}, more=more, operators=_CHECKED, inherited=("save", "load"))


def above_pandas(x: Any) -> int:
    """`__pandas_priority__`, above that of a DataFrame, which leaves operators to a ciphertext.

    `+=` of a Series or a DataFrame asks for it too, and makes nothing of a ciphertext.
    """
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("pandas."):
        if frame.f_code.co_name == "_inplace_method":
            raise OperandError(
                f"{user_line()} computes with a ciphertext in place, in an object of pandas.",
                "A Series or a DataFrame holds numbers in the clear, and the result is encrypted.",
                "Write z = series + ct in place of series += ct; likewise - * / and the others.",
            )
        frame = frame.f_back
    return 5000


def array_ufunc(x: Any, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
    """Call the operator behind one of NumPy's element-wise functions; refuse the others.

    The statement `array += ct` binds the name to the sum. Any other `out=` is refused, that of
    `operator.iadd(array, ct)` too: nothing encrypted can be written into what was given.
    """
    name = _OPERATORS.get(ufunc.__name__)
    if "out" in kwargs and kwargs["out"][0] is args[0] and inplace_operator():
        kwargs = {}
    if method == "__call__" and kwargs:
        refuse_ufunc_arguments(ufunc.__name__, ufunc, kwargs)
    is_plain = method == "__call__"
    if ufunc is np.add and method == "reduce":
        return np.sum(*args, **{"axis": 0, **kwargs})
    if is_plain and ufunc.__name__ in _UNARY:
        return _UNARY[ufunc.__name__](x)
    if is_plain and ufunc.__name__ in IN_MATH:
        return call(IN_MATH[ufunc.__name__], *args)
    if name is None or not is_plain:
        is_method = method != "__call__"
        called = f"{ufunc.__name__}.{method}" if is_method else ufunc.__name__
        refuse_function("np", called, x, kwargs)
    left, right = args
    if ufunc.__name__ in _VECTORS:  # of one vector and a matrix they are matmul
        if not _VECTORS[ufunc.__name__](*map(_rank, args)):
            refuse_function("np", ufunc.__name__, x)
        if ufunc.__name__ == "vecmat" and np.iscomplexobj(left):
            left = np.conjugate(left)
    reflected = not isinstance(left, CiphertextData)
    ciphertext, other = (right, left) if reflected else (left, right)
    result = getattr(ciphertext, f"__{'r' * reflected}{name}__")(other)
    if result is NotImplemented:
        refuse_function("np", ufunc.__name__, x)
    return result


def array_function(
    x: Any, function: Callable, _types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call the method behind one of NumPy's other functions; refuse the others."""
    no_branch()
    run = _FUNCTIONS.get(function.__name__)
    if run is not None:
        own = inspect.signature(run)
        try:
            given = own.bind(*args, **kwargs)
        except TypeError:  # an argument that the method does not take
            further = further_arguments(function, args, kwargs)
            if not further.keys() <= own.parameters.keys():
                refuse_arguments(function.__name__, x, further, own)
                refuse_function("np", function.__name__, x, optional(function, further))
            given = own.bind(**further)
        return run(*given.args, **given.kwargs)
    further = further_arguments(function, args, kwargs)
    refuse_arguments(function.__name__, x, further)
    room = function.__module__.removeprefix("numpy")  # such as ".linalg"
    refuse_function("np", function.__name__, x, optional(function, further), room)


def refuse_function(
    module: str, name: str, x: Any, further: Iterable[str] = (), room: str = ""
) -> NoReturn:
    """Refuse a function of NumPy or JAX, "np" and "exp" for example: say what to write for `x`.

    Args:
        further: the names of arguments that were given, other than the operands.
        room: where in the module it is, as users write it.
    """
    if name in _COMPARED:
        comparison("equal")()
    if name in _REFUSED:
        _REFUSED[name]()
    if name in IN_MATH:
        function = IN_MATH[name]
        approximation(f"{module}.{name}", function, arguments_of(function))()
    instead = in_table(x, name) or instead_of(module, name)
    instead = instead and affordable(instead, x.shape)
    raise OperandError(
        f"{user_line()} calls {module}{room}.{name} on a ciphertext.",
        "It computes on numbers, and these are encrypted.",
        f"Write {instead}.{left_out(instead, further)}"
        if instead
        else "See the methods of a Ciphertext and ckks.math.",
    )


def refuse_jax(x: Any, call: str) -> NoReturn:
    """Refuse a function of JAX, `jnp.exp` for example."""
    module, _, name = call.rpartition(".")
    outer, _, function = module.rpartition(".")
    if isinstance(getattr(np, function, None), np.ufunc):  # jnp.add.outer
        module, name = outer, f"{function}.{name}"
    refuse_function(module or "jax", name or "numpy", x)


_NO_TRUTH = (
    "No depth helps max(x, y), sorted(), `in` and a < x < b, which ask for the truth of it: write "
    "ckks.math.max(x, y), (a < x) & (x < b)."
)


def compared(name: str, x: Any, other: Any) -> Any:
    """The comparison `name` of encrypted numbers and others.

    NotImplemented for objects that may compare by themselves, and all that an equality meets.

    Raises:
        OperandError: an order of encrypted numbers and something else than numbers.
    """
    kinds: Any = CiphertextData | Plaintext | numbers.Number | np.ndarray | jax.Array | Symbolic
    other = of_frame(other)
    is_list = isinstance(other, list | tuple) and _holds_numbers(other)
    if is_list or isinstance(other, kinds):
        try:
            return call(name, x, other)
        except DepthError as error:
            error.do = f"{error.do} {_NO_TRUTH}"
            raise
    if name in ("equal", "not_equal") or (_orders(other, name) and not is_no_operand(other)):
        return NotImplemented
    raise wrong_operand("A comparison", other)


def _orders(other: Any, name: str) -> bool:
    """Whether an object of a class that is not Python's own has the reflected comparison."""
    method, kind = _REFLECTED[name], type(other)
    if kind.__module__ == "builtins" or isinstance(other, Poly | np.character):
        return False
    return getattr(kind, method) is not getattr(object, method)


_REFLECTED = {
    "greater": "__lt__", "greater_equal": "__le__", "less": "__gt__", "less_equal": "__ge__",
}  # fmt: skip


def _holds_numbers(values: Any) -> bool:
    """Whether a list, or a list of lists, holds nothing but numbers, and some."""
    if isinstance(values, list | tuple):
        return bool(values) and all(map(_holds_numbers, values))
    return isinstance(values, numbers.Number | np.ndarray | np.generic | jax.Array | Symbolic)


def _as_truth(condition: Any) -> Any:
    """A condition as zeros and ones: NumPy counts every number other than zero as true.

    Raises:
        OperandError: encrypted numbers that are not known to be 0 or 1.
    """
    if isinstance(condition, CiphertextData):
        if condition.span is None or not condition.span.is_truth:
            raise OperandError(
                f"{user_line()} calls np.where with encrypted numbers that may be others than 0 "
                "and 1.",
                "NumPy counts each number other than 0 as true, which takes a comparison.",
                "Compare, np.where(x > 0, a, b), or state x.within(0, 1). ckks.where(x, a, b) is "
                "b + x (a - b) for every x.",
            )
        return condition
    if isinstance(condition, Symbolic):
        return condition.map(_as_truth)
    if is_tracer(condition):
        return (condition != 0).astype(np.float32)
    return as_numbers(condition).astype(np.bool).astype(np.float64)


def inverted(other: Any) -> Any:
    """1/other for numbers and arrays, without zeros."""
    if isinstance(other, Symbolic):
        return other.map(inverted, lambda ones: 1 / ones)
    other = traced_array(of_frame(other))
    if is_tracer(other):
        return embedding.inverse(other)
    if isinstance(other, Plaintext):
        raise OperandError(
            f"{user_line()} divides a ciphertext by a plaintext.",
            "A plaintext is encoded: its inverses are not known from it.",
            "Encode the inverses, ct * ctx.encode(1 / values), or write ct / values.",
        )
    if isinstance(other, CiphertextData) or not isinstance(
        other, numbers.Number | np.generic | np.ndarray | jax.Array | list | tuple
    ):
        if isinstance(other, CiphertextData):
            division(f"divides a ciphertext by {kind_of(other)}")()
        raise wrong_operand("A quotient", other)
    divisor: Any = other
    if not isinstance(other, int | float | complex | Fraction | Decimal):
        divisor = as_numbers(other)
        if divisor.dtype.kind not in "biufc":
            raise OperandError(
                f"{user_line()} divides a ciphertext by an array of {divisor.dtype}.",
                "Its entries are numbers.",
                "Pass an array of numbers, such as values.astype(float).",
            )
        divisor = divisor.astype(np.complex128 if divisor.dtype.kind == "c" else np.float64)
    has_zeros = bool(np.any(np.equal(divisor, 0)))
    with np.errstate(over="ignore", invalid="ignore"):
        inverses = np.inf if has_zeros else 1 / divisor
    if isinstance(inverses, Fraction | Decimal) or np.isfinite(inverses).all():
        return inverses
    raise ParameterError(
        f"{user_line()} divides a ciphertext by "
        f"{'zero' if has_zeros else 'a number whose inverse is not finite'}.",
        "A ciphertext is multiplied by the inverses of the numbers that divide it.",
        "Leave the zeros out, or put ones in their place."
        if has_zeros
        else "Divide by finite numbers that are further from zero.",
    )
