"""NumPy twin of the functions of `ckks` and `ckks.math`, on twins of ciphertexts.

An approximated function is NumPy's function. Its documented error is the drift of the result:
2^-precision, or the error of an interpolant of the degree, worked out here. Comparisons leave open
what they give below their gap.

Numbers outside of the interval: Ren must raise or warn where their modulus is beyond both ends,
which a bound of the message tells. Otherwise only the bound of the message is judged.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev, chebyshev, polynomial
from numpy.typing import NDArray

from tests.properties.clear_ciphertext import ClearCiphertext, RefusedError, UndefinedError

Function = Callable[[NDArray], NDArray]
Interval = tuple[float, float]

_ROOM = 1.1  # documented errors are worked out on grids
_EDGE = 1e-9  # how far beyond an interval rounding may take a number
_TRUE = 1.0 + 1e-3  # the largest error of a comparison inside its gap, beside the precision


# ------------------------------------------------------------------- functions of one number


def applied(
    x: ClearCiphertext,
    f: Function,
    interval: Interval,
    precision: float | None = None,
    degree: int | None = None,
    usual: float = 20.0,
) -> ClearCiphertext:
    """f in every slot, with the documented error as drift."""
    a, b = map(float, interval)
    if x.values.dtype.kind == "c" or not a < b or (precision is not None and degree is not None):
        raise RefusedError("real numbers, an interval, and either a precision or a degree")
    error = 2.0 ** -(usual if precision is None else precision)
    if degree is not None:
        error = _interpolation_error(f, (a, b), degree)
    levels = 5 if degree is None else int(degree).bit_length() + (max(-a, b) > 2)
    values = f(x.values)
    spread = [f(x.values + t * x.drift) for t in (-1, -0.5, 0.5, 1)]
    moved = np.max([np.abs(v - values) for v in spread], axis=0)
    made = x.made(values, moved * _ROOM + error * _ROOM, cost=levels)
    made.is_inner = x.is_inner or _is_inner(x, (a, b))
    return made


def _interpolation_error(f: Function, interval: Interval, degree: int) -> float:
    p = Chebyshev.interpolate(f, degree, interval)
    a, b = interval
    grid = np.clip((a + b) / 2 - (b - a) / 2 * np.cos(np.linspace(0, np.pi, 2001)), a, b)
    return float(np.abs(p(grid) - f(grid)).max())


def _is_inner(x: ClearCiphertext, interval: Interval) -> bool:
    """Whether numbers lie outside of the interval, none of them beyond both ends in modulus."""
    if x.values.dtype.kind == "c":
        return False
    a, b = interval
    room = _EDGE * max(abs(a), abs(b), 1)
    low, high = (x.values - x.drift).min(), (x.values + x.drift).max()
    outside = low < a - room or high > b + room
    return bool(outside and max(-low, high) <= max(abs(a), abs(b)) + room)


def _elementary(f: Function, default: Interval) -> Callable[..., ClearCiphertext]:
    def function(
        x: ClearCiphertext,
        interval: Interval = default,
        precision: float | None = None,
        degree: int | None = None,
        newton: bool = False,
    ) -> ClearCiphertext:
        return applied(x, f, interval, precision, degree)

    return function


# ------------------------------------------------------------------- comparisons


def _step(
    x: ClearCiphertext,
    f: Function,
    interval: Interval,
    gap: float | None,
    precision: float | None,
    degree: int | None,
    height: float,
) -> ClearCiphertext:
    """A function with a step of `height` at zero, left open for numbers nearer than the gap."""
    largest = max(map(abs, interval))
    bits = 8.0 if precision is None else precision
    error, least, cost = 2.0**-bits, largest * 2.0**-bits, 6
    if degree is not None:
        odd = degree - 1 + degree % 2
        error, least, cost = 1.0, largest * 2 / (odd + 2), odd.bit_length() + (largest > 2)
    least = least if gap is None else gap
    if not 0 < least < largest or x.values.dtype.kind == "c":
        raise RefusedError("a gap inside the interval, and real numbers")
    near = np.abs(x.values) - x.drift < least * (1 + 1e-6)
    drift = np.where(near, height * (_TRUE + error), height / 2 * error * _ROOM)
    made = x.made(f(x.values), drift, cost=cost)
    made.is_inner = x.is_inner or _is_inner(x, interval)
    return made


def sign(x, interval=(-1.0, 1.0), gap=None, precision=None, degree=None) -> ClearCiphertext:
    """-1, 0 or 1."""
    return _step(x, np.sign, interval, gap, precision, degree, 2.0)


def _kinked(
    x: Any, f: Function, height: float, interval: Interval, gap, precision, degree
) -> ClearCiphertext:
    """|x| or max(x, 0): off by at most `height` max(gap, 2^-precision times the largest number)."""
    if degree is not None:
        return applied(x, f, interval, precision, degree)
    largest = max(map(abs, interval))
    least = largest * 2.0 ** -(8.0 if precision is None else precision)
    made = applied(x, f, interval, 1.0)
    error = height * max(least, gap or 0.0) * _ROOM
    return x.made(made.values, x.drift + error, cost=9)


def absolute(x, interval=(-1.0, 1.0), gap=None, precision=None, degree=None) -> ClearCiphertext:
    """|x|."""
    return _marked(_kinked(x, np.abs, 1.0, interval, gap, precision, degree), x, interval)


def relu(x, interval=(-1.0, 1.0), gap=None, precision=None, degree=None) -> ClearCiphertext:
    """max(x, 0)."""
    made = _kinked(x, lambda v: np.maximum(v, 0), 0.5, interval, gap, precision, degree)
    return _marked(made, x, interval)


def _marked(made: ClearCiphertext, x: ClearCiphertext, interval: Interval) -> ClearCiphertext:
    made.is_inner = x.is_inner or _is_inner(x, interval)
    return made


def _differences(interval: Interval) -> Interval:
    return interval[0] - interval[1], interval[1] - interval[0]


def maximum(a, b, interval=(-1.0, 1.0), gap=None, precision=None, degree=None) -> ClearCiphertext:
    """The larger of two numbers."""
    return b + relu(a - b, _differences(interval), gap, precision, degree)


def minimum(a, b, interval=(-1.0, 1.0), gap=None, precision=None, degree=None) -> ClearCiphertext:
    """The smaller of two numbers."""
    return a - relu(a - b, _differences(interval), gap, precision, degree)


def _above(v: NDArray) -> NDArray:
    return np.where(v > 0, 1.0, np.where(v < 0, 0.0, 0.5))


def greater(a, b, interval=(-1.0, 1.0), gap=None, precision=None, degree=None) -> ClearCiphertext:
    """1 where a > b."""
    return _step(a - b, _above, _differences(interval), gap, precision, degree, 1.0)


def less(a, b, interval=(-1.0, 1.0), gap=None, precision=None, degree=None) -> ClearCiphertext:
    """1 where a < b."""
    return _step(b - a, _above, _differences(interval), gap, precision, degree, 1.0)


def equal(a, b, interval=(-1.0, 1.0), gap=None, precision=None, degree=None) -> ClearCiphertext:
    """1 where a = b."""
    x = a - b
    made = _step(x, lambda v: (v == 0) * 1.0, _differences(interval), gap, precision, degree, 2.0)
    if degree is not None:  # 1 - s^2 with |s| up to 2
        return made.made(made.values, 4.0)
    exact = (x.values == 0) & (x.drift == 0)
    return made.made(made.values, np.where(exact, 2.0**-20, made.drift), cost=1)


def rounded(x, interval=(-2.0, 2.0), margin=0.1, precision=None, degree=None) -> ClearCiphertext:
    """The nearest integer of numbers that keep a margin from the half-integers."""
    distance = 0.5 - np.abs(x.values - np.round(x.values))
    if (distance - x.drift < margin - _EDGE).any() or degree is not None:
        raise UndefinedError
    return applied(x, np.round, interval, precision, usual=15.0)


def every(x: ClearCiphertext) -> ClearCiphertext:
    """The product of each row: 1 where all are 1."""
    cost = (x.length - 1).bit_length() + 1
    if x.drift.any():
        raise UndefinedError
    return x.made(x.values.reshape(*x.batch, -1).prod(-1), inner=0, cost=cost)


def some(x: ClearCiphertext) -> ClearCiphertext:
    """1 - all(1 - x)."""
    return 1 - every(1 - x)


def where(condition: Any, a: Any, b: Any) -> ClearCiphertext:
    """b + condition (a - b)."""
    return b + condition * (a - b)


# ------------------------------------------------------------------- polynomials


def poly(x: ClearCiphertext, coefficients: Any) -> ClearCiphertext:
    """c_0 + c_1 x + ..., or a polynomial for each number."""
    c = _for_each_number(coefficients, x)
    size, sizes = np.abs(x.values), np.abs(c)
    drift = _polyval(size + x.drift, sizes) - _polyval(size, sizes)
    return x.made(_polyval(x.values, c), drift, cost=(len(c) - 1).bit_length())


def _for_each_number(coefficients: Any, x: ClearCiphertext) -> np.ndarray:
    """Coefficients with the degree on the first axis, as NumPy has it."""
    c = np.atleast_1d(np.asarray(coefficients))
    return np.moveaxis(np.broadcast_to(c, (*x.values.shape, c.shape[-1])), -1, 0)


def _polyval(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    return polynomial.polyval(x, c, tensor=False)


def chebyshev_series(
    x: ClearCiphertext,
    f: Any,
    interval: Interval = (-1.0, 1.0),
    degree: int | None = None,
) -> ClearCiphertext:
    """A function by its interpolant, or a series of Chebyshev polynomials."""
    if callable(f) and x.values.dtype.kind == "c":
        raise UndefinedError
    if callable(f):
        function: Any = f
        return applied(x, function, interval, degree=degree)
    a, b = interval
    c = _for_each_number(f, x)
    if x.drift.any():
        raise UndefinedError
    values = chebyshev.chebval((2 * x.values - a - b) / (b - a), c, tensor=False)
    made = x.made(values, cost=len(c).bit_length() + (max(map(abs, interval)) > 2))
    return _marked(made, x, interval)


# ------------------------------------------------------------------- rows and matrices


def concat(parts: Sequence[ClearCiphertext]) -> ClearCiphertext:
    """Rows one after another along their first axis."""
    first = parts[0]
    if any(x.inner != first.inner or x.inner == 0 or x.batch != first.batch for x in parts):
        raise RefusedError("rows of one kind, and batches of one shape")
    axis = len(first.batch)
    values, drift = (
        np.concatenate([getattr(x, name) for x in parts], axis) for name in ("values", "drift")
    )
    made = first.made(values, drift, cost=int(len(parts) > 1))
    made.level = min(x.level for x in parts) - int(len(parts) > 1)
    made.is_inner = any(x.is_inner for x in parts)
    return made


def stack(parts: Sequence[ClearCiphertext]) -> ClearCiphertext:
    """A new leading batch axis."""
    first = parts[0]
    if any(x.inner != first.inner for x in parts):
        raise UndefinedError
    made = first.made(np.stack([x.values for x in parts]), np.stack([x.drift for x in parts]))
    made.level = min(x.level for x in parts)
    made.is_inner = any(x.is_inner for x in parts)
    return made


def unstack(x: ClearCiphertext) -> list[ClearCiphertext]:
    """The parts along the first batch axis."""
    if not x.batch:
        raise RefusedError("there is no batch axis")
    return [x.made(v, d) for v, d in zip(x.values, x.drift, strict=True)]


def conv1d(x, kernel, *, stride=1, padding="valid", shape=None, keys=None) -> ClearCiphertext:
    """The kernel over a signal, or over one with channels."""
    return _convolved(x, np.asarray(kernel), 1, shape, stride, padding)


def conv2d(
    x, kernels, *, stride=1, padding="valid", image_shape=None, keys=None
) -> ClearCiphertext:
    """The kernels over an image."""
    return _convolved(x, np.asarray(kernels), 2, image_shape, stride, padding)


def _convolved(
    x: ClearCiphertext, kernels: NDArray, axes: int, shape: Any, stride: Any, padding: Any
) -> ClearCiphertext:
    image = x.in_shape(shape) if shape is not None else x
    single = kernels.ndim == axes
    if single:
        if image.inner != axes:
            raise UndefinedError
        kernels = kernels[None, None]
        image = image.in_shape((1, *image.row))
    if image.inner != axes + 1 or image.row[0] != kernels.shape[1]:
        raise RefusedError("an image with as many channels as the kernels")
    values = _correlated(image.values, kernels, axes, stride, padding)
    drift = _correlated(image.drift, np.abs(kernels), axes, stride, padding)
    if single:
        at = len(image.batch)
        values, drift = values.squeeze(at), drift.squeeze(at)
    return x.made(values, drift, inner=values.ndim - len(image.batch), cost=1)


def _correlated(z: NDArray, kernels: NDArray, axes: int, stride: Any, padding: Any) -> NDArray:
    """z [*batch, channel, *space], kernels [output, channel, *size]: [*batch, output, *space']."""
    each = stride if isinstance(stride, tuple) else (stride,) * axes
    sizes = kernels.shape[2:]
    for axis, (s, k) in enumerate(zip(each, sizes, strict=True)):
        at = z.ndim - axes + axis
        before = after = padding if isinstance(padding, int) else 0
        if padding == "same":
            both = max((-(-z.shape[at] // s) - 1) * s + k - z.shape[at], 0)
            before, after = both // 2, both - both // 2
        z = np.pad(z, [(before, after) if i == at else (0, 0) for i in range(z.ndim)])
    places = tuple(range(z.ndim - axes, z.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(z, sizes, places)
    steps = tuple(slice(None, None, s) for s in each)
    windows = windows[(..., *steps, *(slice(None),) * axes)]
    space, size = "hw"[:axes], "ij"[:axes]
    return np.einsum(f"...c{space}{size},oc{size}->...o{space}", windows, kernels)


def matmul(a: ClearCiphertext, b: ClearCiphertext, *, keys: int | None = None) -> ClearCiphertext:
    """The product of two square matrices, flat or in shape."""
    d = int(np.sqrt(a.length))
    for x in (a, b):
        if x.length != d * d or (x.inner == 2 and x.row != (d, d)) or not 1 <= x.inner <= 2:
            raise RefusedError("square matrices of one size")
    return a.in_shape((d, d)) @ b.in_shape((d, d))


class _Map:
    """`ckks.linear(matrix)`."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = np.asarray(matrix)
        if self.matrix.ndim != 2:
            raise RefusedError("a matrix has two axes")

    def __matmul__(self, x: ClearCiphertext) -> ClearCiphertext:
        if x.inner == 0 or x.length != self.matrix.shape[1]:
            raise RefusedError("a matrix with as many columns as there are numbers")
        return x.in_shape((x.length,)) @ self.matrix.T  # of each vector of a batch


def _pad(x: ClearCiphertext, length: int) -> ClearCiphertext:
    return x.pad(length)


MATH = types.SimpleNamespace(
    exp=_elementary(np.exp, (-1.0, 1.0)),
    log=_elementary(np.log, (0.5, 2.0)),
    sqrt=_elementary(np.sqrt, (0.25, 1.0)),
    inverse=_elementary(np.reciprocal, (0.5, 2.0)),
    sin=_elementary(np.sin, (-np.pi, np.pi)),
    cos=_elementary(np.cos, (-np.pi, np.pi)),
    tan=_elementary(np.tan, (-1.0, 1.0)),
    sinh=_elementary(np.sinh, (-1.0, 1.0)),
    cosh=_elementary(np.cosh, (-1.0, 1.0)),
    tanh=_elementary(np.tanh, (-4.0, 4.0)),
    sigmoid=_elementary(lambda x: 0.5 + 0.5 * np.tanh(0.5 * x), (-8.0, 8.0)),
    sign=sign, abs=absolute, relu=relu, max=maximum, min=minimum, greater=greater, less=less,
    equal=equal, round=rounded, where=where, all=every, any=some,
)  # fmt: skip

CKKS = types.SimpleNamespace(
    Ciphertext=types.SimpleNamespace(from_bytes=lambda x: x),
    concat=concat, stack=stack, unstack=unstack, pad=_pad, linear=lambda m, ctx=None, **_: _Map(m),
    strided_sum=lambda x, count, step=1: x.strided_sum(count, step), conv1d=conv1d, conv2d=conv2d,
    matmul=matmul, poly=poly, chebyshev=chebyshev_series, math=MATH,
)  # fmt: skip
