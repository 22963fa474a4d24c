"""NumPy's and JAX's functions on a Ciphertext: what an operator or a method computes, and the rest.

Functions that can be computed go to its operators and methods. Those that cannot, because only the
owner sees the numbers, raise an error that says what to write instead.
"""

from __future__ import annotations

import inspect
import numbers
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

import jax
import numpy as np

from ren.core.errors import OperandError, ParameterError
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import is_tracer
from ren.lowering.kernels import embedding
from ren.poly.batching import traced_array
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, batch_of, is_columns
from ren.schemes.ckks.encoding.encoder import as_numbers, of_frame
from ren.schemes.ckks.encoding.plaintext import Plaintext
from ren.schemes.ckks.encoding.refusals import (
    approximation,
    comparison,
    division,
    no_branch,
    no_remainder,
    no_shift,
    no_truth,
)
from ren.schemes.ckks.functions.calls import call

# The operators behind NumPy's element-wise functions.
_OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "matmul": "matmul",
    "power": "pow", "float_power": "pow", "floor_divide": "floordiv", "remainder": "mod",
    "matvec": "matmul", "vecmat": "matmul", "divmod": "divmod",
}  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": operator.neg, "positive": operator.pos, "square": lambda x: x * x,
    "conjugate": lambda x: x.conj(), "floor": lambda x: x // 1, "ceil": lambda x: -(-x // 1),
}  # fmt: skip


def _whole(x: Any, axis: Any = None) -> Any:
    """`x`, of which NumPy's function takes all numbers where it gets no axis: not a batch."""
    if axis is None and not is_columns(x) and len(batch_of(x)) > (x.layout.blocks > 1):
        raise OperandError(
            f"{user_line()} calls a function of NumPy on a batch of shape {x.shape}, with no axis.",
            "NumPy takes all numbers of a batch together; the vectors of a batch stay apart.",
            "Pass axis=-1 for each vector, or take the batch apart: ckks.unstack(ct).",
        )
    return x


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


def _dot(a: Any, b: Any) -> Any:
    return a * b if 0 in (np.ndim(a), np.ndim(b)) else a @ b


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
    "reshape": lambda a, shape: a.reshape(shape),
    "ravel": lambda a: _whole(a).reshape(-1),
    "nansum": lambda a, axis=None: _whole(a, axis).sum(axis),  # no NaN can be encrypted
    "nanmean": lambda a, axis=None: _whole(a, axis).mean(axis),
    "nan_to_num": lambda x: x,
    "array_repr": lambda arr: repr(arr),
    "array_str": lambda a: str(a),
    "array2string": lambda a: str(a),
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": lambda a: a.size,
    "iscomplexobj": lambda x: x.dtype.kind == "c",
    "isrealobj": lambda x: x.dtype.kind != "c",
    "copy": lambda a: a,
    "round": lambda a: call("round", a),
    "around": lambda a: call("round", a),
    "clip": lambda a, a_min=None, a_max=None, *, min=None, max=None: _clipped(
        a, min if a_min is None else a_min, max if a_max is None else a_max
    ),
    "where": lambda condition, x, y: call("where", _as_truth(condition), x, y),
}

# NumPy's functions, and those of JAX that raise, by their functions of `ckks.math`.
_IN_MATH = {
    "absolute": "abs", "abs": "abs", "fabs": "abs", "maximum": "max", "fmax": "max",
    "minimum": "min", "fmin": "min", "reciprocal": "inverse", "exp": "exp", "log": "log",
    "sqrt": "sqrt", "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "sign": "sign", "round": "round", "around": "round", "rint": "round",
    "relu": "relu", "sigmoid": "sigmoid", "logistic": "sigmoid",
    "greater": "greater", "greater_equal": "greater_equal", "less": "less",
    "less_equal": "less_equal", "equal": "equal", "not_equal": "not_equal",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    "logical_not": "logical_not", "bitwise_and": "logical_and", "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor", "invert": "logical_not", "bitwise_not": "logical_not",
}  # fmt: skip

# What to write for functions that only approximations and decryption give.
_COMPARED = ("isclose", "allclose", "array_equal", "array_equiv")
_REFUSED = {
    **dict.fromkeys(("isnan", "isfinite"), no_truth),
    **dict.fromkeys(("left_shift", "right_shift"), no_shift),
    **dict.fromkeys(("divmod", "fmod", "modf", "floor_divide", "remainder"), no_remainder),
}  # fmt: skip
_LARGEST = "ckks.math.max(ct, ct.roll(k)) for k = 1, 2, 4, ...; ckks.math.max(x, y) is slot by slot"
_BY_MATRIX = "a matrix of zeros and ones that moves them: np.eye(k)[order] @ ct"
_SOLVED = "decrypt() first, or a fixed number of steps of an iteration with + - * and @"
_IN_ORDER = "decrypt() first: an order of encrypted numbers is not known to a program"
_QUANTILE = "ckks.stats.quantile(ct, q, edges), or decrypt() first"
_NUMBERS = "ct.decrypt() for the numbers, ckks.stack([x, y]) for a batch"
_AT_ONCE = "f(ct), which works on all slots at once"
_ASSIGNED = "ct.mask(m) + values, with m zero where the values go"
_COUNTED = "(x > 0).sum(), or ckks.math.equal(x, value).sum()"
_TRANSPOSED = f"np.arange(r * c).reshape(r, c).T.ravel() as the order of {_BY_MATRIX}"
_TYPED = "ckks.typed(ct, dtype) for the type that decrypt() gives, or ct.decrypt(dtype=dtype)"
INSTEAD = {
    "max": _LARGEST, "amax": _LARGEST,
    "min": _LARGEST.replace("max", "min"), "amin": _LARGEST.replace("max", "min"),
    "ptp": "the largest minus the smallest, by ckks.math.max and ckks.math.min",
    "clip": "ckks.math.min(ckks.math.max(ct, low), high)",
    "sum": "ct.sum()", "mean": "ct.mean()", "average": "ct.dot(weights) / weights.sum()",
    "var": "ct.var()", "std": "ckks.stats.std(ct, interval=(a, b))",
    "dot": "ct.dot(w)", "vdot": "ct.conj().dot(w)", "inner": "ct.dot(w)", "vecdot": "ct.dot(w)",
    "matmul": "a @ b", "tensordot": "a @ b", "einsum": "ct.dot(w), a @ b, or ct.sum()",
    "outer": "x.reshape(-1, 1) * y.reshape(1, -1)",
    "norm": "ckks.math.sqrt(ct.dot(ct), interval=(a, b))",
    "cumsum": "ct.cumsum()", "roll": "ct.roll(k)", "tile": "ct.tile(k)", "real": "ct.real",
    "imag": "ct.imag", "conjugate": "ct.conj()", "conj": "ct.conj()", "negative": "-ct",
    "square": "ct * ct", "add": "x + y", "subtract": "x - y", "multiply": "x * y", "sub": "x - y",
    "mul": "x * y", "divide": "x / numbers", "div": "x / numbers", "power": "x ** k",
    "concatenate": "ckks.concat([x, y])", "hstack": "ckks.concat([x, y])",
    "append": "ckks.concat([x, y])", "insert": "ckks.concat([x[:i], y, x[i:]])",
    "delete": "ckks.concat([x[:i], x[j:]])", "pad": "ckks.pad(ct, length)",
    "stack": "ckks.stack([x, y])", "vstack": "ckks.stack([x, y])",
    "array": _NUMBERS, "asarray": _NUMBERS, "one_hot": "decrypt() first",
    "split": "ct[:k], ct[k:]", "array_split": "ct[:k], ct[k:]",
    "where": "ckks.where(condition, x, y)", "select": "ckks.where(condition, x, y)",
    "any": "ct.any()", "all": "ct.all()", "prod": "a product of slices",
    "reshape": "ct.reshape(...)", "ravel": "ct.reshape(-1)", "flatten": "ct.reshape(-1)",
    "squeeze": "ct.reshape(-1)", "expand_dims": "ct.reshape(1, -1)",
    "atleast_1d": "ct.reshape(-1)", "atleast_2d": "ct.reshape(1, -1)",
    "transpose": _TRANSPOSED, "swapaxes": _TRANSPOSED,
    "flip": _BY_MATRIX, "repeat": _BY_MATRIX, "take": _BY_MATRIX, "compress": _BY_MATRIX,
    "extract": _BY_MATRIX, "diagonal": _BY_MATRIX, "permutation": _BY_MATRIX,
    "diff": "ct[1:] - ct[:-1]",
    "convolve": "ckks.conv1d(ct, kernel[::-1], padding=len(kernel) - 1)",
    "correlate": "ckks.conv1d(ct, kernel)", "fft": "np.fft.fft(np.eye(k)) @ ct",
    "trace": "ct.reshape(-1).dot(np.eye(k).ravel())",
    "polyval": "ckks.poly(ct, coefficients), the constant first",
    "interp": "ckks.chebyshev(ct, f, (a, b), degree)",
    "shape": "ct.shape", "ndim": "ct.ndim", "size": "ct.size",
    "zeros_like": "np.zeros(ct.shape)", "ones_like": "np.ones(ct.shape)",
    "full_like": "np.full(ct.shape, value)", "empty_like": "np.zeros(ct.shape)",
    "broadcast_to": "ct + np.zeros(shape)", "save": "ct.save(path)", "savez": "ct.save(path)",
    "savetxt": "ct.save(path)", "inv": _SOLVED, "solve": _SOLVED, "det": _SOLVED,
    "sort": _IN_ORDER, "argsort": _IN_ORDER, "argmax": _IN_ORDER, "argmin": _IN_ORDER,
    "median": _QUANTILE, "percentile": _QUANTILE, "quantile": _QUANTILE, "unique": _IN_ORDER,
    "histogram": "ckks.stats.histogram(ct, edges), or decrypt() first",
    "cov": "ckks.stats.cov(table) of columns, or ckks.stats.cov(x, y)",
    "corrcoef": "ckks.stats.corr(x, y, interval=(a, b))",
    "nonzero": _IN_ORDER, "searchsorted": _IN_ORDER,
    "softmax": "ckks.math.exp, a sum and ckks.math.inverse",
    "stop_gradient": "ct itself", "set": _ASSIGNED,
    "dynamic_slice": "ct[i:j]",
    **dict.fromkeys(("vectorize", "frompyfunc", "apply_along_axis", "apply", "map"), _AT_ONCE),
    **dict.fromkeys(("piecewise", "choose"), "ckks.where(condition, x, y)"),
    **dict.fromkeys(("put", "place", "putmask", "copyto", "fill_diagonal"), _ASSIGNED),
    **dict.fromkeys(("kron", "cross"), "matrix @ ct, of products that you write out"),
    **dict.fromkeys(("lstsq", "matrix_power", "svd", "eig", "eigh", "qr", "pinv"), _SOLVED),
    **dict.fromkeys(("ifft", "rfft", "fft2"), "np.fft.ifft(np.eye(k)) @ ct, the matrix of it"),
    **dict.fromkeys(("gradient", "ediff1d"), "ct[1:] - ct[:-1]"),
    "trapezoid": "ct.dot(weights), the weights of the rule",
    **dict.fromkeys(("count_nonzero", "argwhere", "flatnonzero", "isin", "bincount"), _COUNTED),
    **dict.fromkeys(("digitize", "histogram2d"), "ckks.stats.histogram(ct, edges)"),
    **dict.fromkeys(("intersect1d", "setdiff1d", "union1d", "lexsort", "partition"), _IN_ORDER),
    "cumprod": "x1 * x2 * ...", "cumulative_sum": "ct.cumsum()", "nanmedian": _QUANTILE,
    **dict.fromkeys(("block", "column_stack", "dstack"), "ckks.stack([x, y])"),
    **dict.fromkeys(("meshgrid", "ix_"), "x.reshape(-1, 1) and y.reshape(1, -1), which broadcast"),
    **dict.fromkeys(("diag", "diagflat"), "ct * np.eye(k), which broadcasts to a matrix"),
    **dict.fromkeys(("tril", "triu"), "ct.mask(np.tril(np.ones(ct.shape)).ravel())"),
    **dict.fromkeys(("rot90", "fliplr", "flipud", "trim_zeros", "rev"), _BY_MATRIX),
    **dict.fromkeys(("moveaxis", "matrix_transpose", "permute_dims"), _TRANSPOSED),
    "atleast_3d": "ct.reshape(1, -1, 1)", "resize": "ckks.pad(ct, length)", "astype": _TYPED,
    **dict.fromkeys(("result_type", "can_cast", "min_scalar_type", "common_type"), "ct.dtype"),
    **dict.fromkeys(("shares_memory", "may_share_memory"), "x is y: ciphertexts never change"),
    **dict.fromkeys(("linspace", "arange"), "start + step * np.arange(k), with both encrypted"),
    **dict.fromkeys(("arctan2", "hypot", "copysign"), "ckks.math, as inverse, sqrt and sign"),
    "angle": "decrypt() first", "heaviside": "ckks.math.greater(ct, 0)",
    **dict.fromkeys(("polyfit", "vander"), "np.linalg.pinv(np.vander(w, 2)) @ ct"),
    "unstack": "ckks.unstack(ct)", "hsplit": "ct[:k], ct[k:]",
    **dict.fromkeys(("iscomplex", "isreal"), "np.iscomplexobj(ct), np.isrealobj(ct)"),
    "real_if_close": "ct.real",
}  # fmt: skip


def array_ufunc(x: Any, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
    """Call the operator behind one of NumPy's element-wise functions; refuse the others."""
    name = _OPERATORS.get(ufunc.__name__)
    if "out" in kwargs and kwargs["out"][0] is args[0]:
        del kwargs["out"]  # `array += ct` binds the name to the sum
    is_plain = method == "__call__" and not kwargs
    if is_plain and ufunc.__name__ in _UNARY:
        return _UNARY[ufunc.__name__](x)
    if is_plain and ufunc.__name__ in _IN_MATH:
        return call(_IN_MATH[ufunc.__name__], *args)
    if name is None or not is_plain:
        refuse_function("np", ufunc.__name__)
    left, right = args
    reflected = not isinstance(left, CiphertextData)
    ciphertext, other = (right, left) if reflected else (left, right)
    result = getattr(ciphertext, f"__{'r' * reflected}{name}__")(other)
    if result is NotImplemented:
        refuse_function("np", ufunc.__name__)
    return result


def array_function(
    x: Any, function: Callable, _types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call the method behind one of NumPy's other functions; refuse the others."""
    no_branch()
    run = _FUNCTIONS.get(function.__name__)
    if run is not None:
        try:
            given = inspect.signature(run).bind(*args, **kwargs)
        except TypeError:  # an argument that the method does not take
            refuse_function("np", function.__name__)
        return run(*given.args, **given.kwargs)
    refuse_function("np", function.__name__)


def refuse_function(module: str, name: str) -> NoReturn:
    """Refuse a function of NumPy or JAX, "np" and "exp" for example: say what to write instead."""
    if name in _COMPARED:
        comparison("equal")()
    if name in _REFUSED:
        _REFUSED[name]()
    if name in _IN_MATH:
        approximation(f"{module}.{name}", _IN_MATH[name])()
    instead = INSTEAD.get(name)
    ufunc = getattr(np, name, None)
    if instead is None and (module == "jax.nn" or (isinstance(ufunc, np.ufunc) and ufunc.nin == 1)):
        instead = f"ckks.chebyshev(ct, {module}.{name}, (a, b), degree), on an interval [a, b]"
    raise OperandError(
        f"{user_line()} calls {module}.{name} on a ciphertext.",
        "It computes on numbers, and these are encrypted.",
        f"Write {instead}." if instead else "See the methods of a Ciphertext and ckks.math.",
    )


def refuse_jax(x: Any, call: str) -> NoReturn:
    """Refuse a function of JAX, `jnp.exp` for example."""
    module, _, name = call.rpartition(".")
    refuse_function(module or "jax", name or "numpy")


def compared(name: str, x: Any, other: Any) -> Any:
    """The comparison `name` of encrypted numbers and others; NotImplemented for other objects."""
    kinds: Any = CiphertextData | Plaintext | numbers.Number | np.ndarray | jax.Array | Symbolic
    other = of_frame(other)
    is_list = isinstance(other, list | tuple) and _holds_numbers(other)
    return call(name, x, other) if is_list or isinstance(other, kinds) else NotImplemented


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
        division(f"divides a ciphertext by a {type(other).__name__}")()
    divisor: Any = other
    if not isinstance(other, int | float | complex | Fraction | Decimal):
        divisor = as_numbers(other)
        if divisor.dtype.kind not in "biufc":
            division(f"divides a ciphertext by an array of {divisor.dtype}")()
        divisor = divisor.astype(np.complex128 if divisor.dtype.kind == "c" else np.float64)
    if np.any(np.equal(divisor, 0)):
        raise ParameterError(
            f"{user_line()} divides a ciphertext by zero.",
            "A ciphertext is multiplied by the inverses of the numbers that divide it.",
            "Leave the zeros out, or put ones in their place.",
        )
    return 1 / divisor


def _math(name: str) -> str:
    return f"ckks.math.{name}(ct, interval=(a, b))"


_DECRYPTED = {"tolist": ".tolist()", "item": ".item()", "numpy": "", "view": "", "data": ""}
_ORDERED = ("argmax", "argmin", "argsort", "sort", "nonzero", "searchsorted", "max", "min")

_NAMES = "list(frame), the names of the columns, which are not encrypted: they stay with it"
_ALONE = "ckks.unstack(ct) for a batch, ct[i : i + 1] for one number"
_OTHERS = "the same for the array, ct.decrypt()"

# What to write for attributes of arrays, lists, tables of pandas, and other libraries' ciphertexts.
ATTRIBUTES = {
    **{name: INSTEAD[name] for name in ("apply", "map", "put", "resize", "astype", "median")},
    **{name: INSTEAD[name] for name in ("quantile", "diff", "unique", "choose", "where")},
    **{name: "ct.decrypt()" for name in ("values", "to_numpy", "to_list", "dump", "tofile")},
    **{name: _NAMES for name in ("columns", "index", "keys", "loc", "rename")},
    **{name: _ALONE for name in ("iloc", "head", "tail", "items", "iterrows", "pop", "count")},
    **{name: _OTHERS for name in ("plot", "hist", "to_csv", "to_dict", "info", "groupby")},
    **{name: _IN_ORDER for name in ("nlargest", "value_counts", "sort_values", "rank")},
    **{f"__dlpack{name}__": "ct.decrypt()" for name in ("", "_device")},
    "describe": "ckks.stats.mean(ct) and its other functions", "extend": "ckks.concat([x, y])",
    "corr": "ckks.stats.corr(x, y, interval=(a, b))", "cov": "ckks.stats.cov(x, y)",
    "fillna": "ctx.encrypt(values, nan=0)", "dropna": "ctx.encrypt(values, nan=0)",
    "isna": "np.isnan(values) before ctx.encrypt(values)", "div": "x / numbers",
    "shift": "ct.roll(k), with the numbers that come around", "rolling": "ckks.conv1d(ct, kernel)",
    "eq": "x == y", "gt": "x > y", "lt": "x < y", "between": "(x > a) & (x < b)",
    "replace": "ckks.where(condition, x, y)", "merge": "ckks.concat([x, y])",
    "join": "ckks.concat([x, y])", "flags": "ct.dtype and ct.shape",
    "sharding": "ct.polys[0].device", "devices": "ct.polys[0].device",
    **{name: INSTEAD[name] for name in (*_ORDERED, "ptp", "clip", "std", "prod", "norm")},
    **{name: INSTEAD[name] for name in ("flatten", "ravel", "squeeze", "transpose")},
    **{name: INSTEAD[name] for name in ("take", "repeat", "diagonal", "trace", "append", "add")},
    **{name: INSTEAD[name] for name in ("sub", "mul", "matmul", "outer", "power", "square")},
    **{name: f"ct.decrypt(){call}" for name, call in _DECRYPTED.items()},
    **{name: _math(name) for name in ("exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid")},
    **{name: _math(name) for name in ("relu", "sign", "round", "inverse", "abs")},
    "conv1d": "ckks.conv1d(ct, kernel)", "conv2d": "ckks.conv2d(ct, kernel)",
    "T": f"ct for a vector; for a matrix {INSTEAD['transpose']}",
    "mT": INSTEAD["transpose"], "swapaxes": INSTEAD["transpose"], "H": INSTEAD["transpose"],
    "copy": "ct itself: it never changes", "conjugate": "ct.conj()", "tobytes": "ct.to_bytes()",
    "block_until_ready": "ct.realize()", "device": "ct.polys[0].device", "cumprod": "x1 * x2 * ...",
    "at": _ASSIGNED, "fill": "ctx.encrypt(values)",
    "multiply": "x * y", "subtract": "x - y", "negate": "-ct", "pow": "x ** k",
    "decode": "ct.decrypt()", "encrypt": "ctx.encrypt(values)", "strides": "ct.shape",
    "itemsize": "ct.nbytes, the bytes of all", "flat": "ct.reshape(-1)", "base": "ct.polys",
}  # fmt: skip
