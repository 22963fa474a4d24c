"""`ckks.stats`: statistics of encrypted vectors and tables, in which a column is a variable.

Each function says how many levels it takes, and raises DepthError with the least depth. Functions
that divide or compare are approximated: they take an interval that you state.

Example:
    >>> import numpy as np
    >>> from ren.schemes import ckks
    >>> ctx = ckks.context(depth=3)
    >>> table = ctx.encrypt(np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]), pack="columns")
    >>> ckks.stats.cov(table).decrypt().round(3)
    array([[1., 2.],
           [2., 4.]])
"""

from __future__ import annotations

import itertools
import math
import numbers
import sys
from functools import reduce
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from ren.core.attributes import unknown_attribute
from ren.core.errors import ParameterError
from ren.poly.calls import check_functions
from ren.schemes.ckks.arithmetic.argument_checks import (
    as_bound,
    as_integer,
    check_ciphertext,
    check_real,
)
from ren.schemes.ckks.arithmetic.automatic import add
from ren.schemes.ckks.arithmetic.evolve import (
    evolve_layout,
    need_level,
    with_error,
    with_noise,
    within,
)
from ren.schemes.ckks.arithmetic.number_types import floating
from ren.schemes.ckks.arithmetic.operation_hooks import circuit
from ren.schemes.ckks.arithmetic.rotation import cleared, has_to_be_cleared
from ren.schemes.ckks.arithmetic.shapes import axis_of, shape_text
from ren.schemes.ckks.circuits import moments, reductions, tables
from ren.schemes.ckks.circuits.stacking import stack, unstack
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT, known_length
from ren.schemes.ckks.functions import comparison
from ren.schemes.ckks.functions.approximation import Approximation, approximate
from ren.schemes.ckks.functions.arguments import known_span
from ren.schemes.ckks.functions.comparison import StepAccuracy
from ren.schemes.ckks.functions.elementary import applied
from ren.schemes.ckks.functions.polynomial import Interval
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.range_checks import TOLERANCE
from ren.schemes.ckks.parameters.checks import positive
from ren.schemes.ckks.parameters.keywords import INSTEAD

__all__ = [
    "corr", "cov", "histogram", "linear_regression", "mean", "quantile", "standardize", "std",
    "var",
]  # fmt: skip


def mean(x: CiphertextT, axis: int | None = None, *, keepdims: bool = False) -> CiphertextT:
    """The mean, as `x.mean`: one level.

    Args:
        x: a vector, a batch of them, or a table.
        axis: as in numpy.mean; None for all numbers of a vector or a table.
        keepdims: whether the axis stays, with size 1.

    Raises:
        OperandError: `x` is not a ciphertext.
        DepthError: no level is left.
    """
    check_ciphertext(x, "mean()")
    return tables.mean(x, axis, keepdims)


def var(
    x: CiphertextT, axis: int | None = None, *, ddof: int = 0, keepdims: bool = False
) -> CiphertextT:
    """The variance, as `x.var`: two levels.

    Args:
        x, axis, keepdims: as for `mean`; real numbers.
        ddof: the sum of squares is divided by the count less ddof, as in numpy.var.

    Raises:
        OperandError: `x` is not a ciphertext.
        ParameterError: complex numbers, or no more of them than ddof.
        DepthError: fewer than two levels. It takes three where leftovers stand beyond the length.
            So it does along an axis of a flat table that is not the first. Across blocks four.
    """
    check_ciphertext(x, "var()")
    return moments.var(x, axis, ddof, keepdims)


@circuit("std()", floating)
def std(
    x: CiphertextT,
    axis: int | None = None,
    *,
    interval: Interval,
    precision: float | None = None,
    degree: int | None = None,
    ddof: int = 0,
    keepdims: bool = False,
) -> CiphertextT:
    """The standard deviation: two levels, and those of the square root.

    Args:
        x, axis, ddof, keepdims: as for `var`.
        interval: where the *variances* lie, above zero. It is your statement.
        precision, degree: of the square root: as for `ckks.math.sqrt`. The levels of the root are
            `ckks.approximate(np.sqrt, interval, precision).depth`.

    Raises:
        OperandError, ParameterError: as for `var`; an interval that reaches zero.
        DepthError: too few levels.
    """
    check_ciphertext(x, "std()")
    root = _on_variances(np.sqrt, interval, precision, degree, "std()")
    levels, clearing = moments.levels_of_var(x, axis_of(x, axis, "std()"))
    need_level(x, levels + root.depth, "std()", has_parts=True, clearing=clearing)
    variances = within(moments.var(x, axis, ddof, keepdims), root.interval[1])
    return applied(variances, root, "std()")


@circuit("standardize()", floating)
def standardize(
    x: CiphertextT,
    *,
    interval: Interval,
    precision: float | None = None,
    degree: int | None = None,
) -> CiphertextT:
    """(x - mean) / deviation, of a vector or of each column of a table.

    Three levels, and those of the inverse root.

    Args:
        x: a vector, or a table by its columns; real numbers.
        interval: where the variances lie, above zero. It is your statement.
        precision, degree: of 1 / sqrt(variance), as for `ckks.math.sqrt`.

    Raises:
        OperandError, ParameterError: as for `std`; a table packed otherwise, or a batch.
        DepthError: too few levels.
    """
    check_ciphertext(x, "standardize()")
    check_real(x, "standardize()")
    moments.check_apart(x, "standardize()")
    root = _on_variances(_inverse_root, interval, precision, degree, "standardize()")
    need_level(x, 3 + root.depth, "standardize()", clearing=has_to_be_cleared(x))
    return _standardized(x, root, "standardize()")


def _standardized(x: CiphertextT, root: Approximation, what: str) -> CiphertextT:
    """(x - mean) / deviation: three levels, and those of the inverse root.

    Of n numbers none is further from the mean than sqrt(n) deviations. The interval states how
    large a deviation is.
    """
    c, times, variances = moments.with_variances(x)
    largest, deviation = math.sqrt(known_length(x) or 1), math.sqrt(root.interval[1])
    c = within(c, times * largest * deviation)
    coefficients = tuple(v / times for v in root.coefficients)
    part = Approximation(coefficients, root.interval, root.error / times)
    made = c * applied(within(variances, root.interval[1]), part, what)
    return within(made, largest * (1 + root.error * deviation))


def _inverse_deviation(x: CiphertextT, root: Approximation, what: str) -> CiphertextT:
    """1 / std(x) of a vector: two levels, and those of the inverse root."""
    return applied(within(moments.var(x, None, 0, False), root.interval[1]), root, what)


def _inverse_root(v: Any) -> Any:
    return 1 / np.sqrt(v)


def _on_variances(
    f: Any, interval: Interval, precision: float | None, degree: int | None, what: str
) -> Approximation:
    """The polynomial of a function of variances."""
    if not (isinstance(interval, tuple | list) and len(interval) == 2 and interval[0] > 0):
        raise ParameterError(
            f"{what} got interval={interval!r:.60}.",
            "It is where the variances lie, two numbers above zero.",
            "Write for example interval=(0.1, 2.0), as tight as you know it.",
        )
    return approximate(f, interval, precision, degree)


def cov(x: CiphertextT, y: CiphertextT | None = None, *, ddof: int = 1) -> CiphertextT:
    """The covariance of two vectors: two levels; of all columns of a table: three levels.

    Args:
        x: a vector, or a table [r, c] by its columns; real numbers.
        y: the other vector; none with a table.
        ddof: the sums of products are divided by the count less ddof.

    Returns:
        A number; or a table [c, c] by its columns, as pandas' `DataFrame.cov`.

    Raises:
        OperandError: what is not a ciphertext.
        ParameterError: other shapes or packings, complex numbers, no more numbers than ddof.
        DepthError: too few levels; one more is needed where leftovers stand beyond the length.

    Cost: of a table c^2 / 2 products, and about c / 2 (3 sqrt(c) + log2(slots^2 / c)) key switches.
    From four columns on two are the real and the imaginary part of one, which takes the key for
    conjugation.
    """
    return moments.cov(x, y, ddof)


@circuit("corr()")
def corr(
    x: CiphertextT,
    y: CiphertextT | None = None,
    *,
    interval: Interval,
    precision: float | None = None,
    degree: int | None = None,
) -> CiphertextT:
    """The correlation of two vectors, or those of all columns of a table.

    Four levels for vectors, five for a table, and those of the inverse root.

    Args:
        x, y: as for `cov`.
        interval: where the *variances* (ddof=0) of all of them lie, above zero. It is your
            statement.
        precision, degree: of 1 / sqrt(variance), as for `ckks.math.sqrt`.

    Returns:
        A number; or a table [c, c] by its columns.

    Raises:
        OperandError, ParameterError: as for `cov` and `std`.
        DepthError: too few levels.
    """
    root = _on_variances(_inverse_root, interval, precision, degree, "corr()")
    for given in (x,) if y is None else (x, y):
        check_ciphertext(given, "corr()")
        levels = (5 if y is None else 4) + root.depth
        need_level(given, levels, "corr()", clearing=has_to_be_cleared(given))
    if y is not None:
        both = within(moments.cov(x, y, 0), root.interval[1])  # by Cauchy and Schwarz
        scale = _inverse_deviation(x, root, "corr()") * _inverse_deviation(y, root, "corr()")
        return within(both * scale, 1.5)
    moments.check_columns(x, "corr()")
    z = _standardized(x, root, "corr()")
    made = moments.gram(moments.paired(z), x.shape[1], 1 / x.shape[0])
    return within(made, (1 + root.error * math.sqrt(root.interval[1])) ** 2)


# ------------------------------------------------------------------- by comparisons


@circuit("histogram()")
def histogram(
    x: CiphertextT,
    edges: ArrayLike,
    *,
    gap: float | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> CiphertextT:
    """The counts of numbers from each edge to the next: one comparison for each inner edge.

    The levels of a comparison, and one where zeros have to be put beyond the length.

    Args:
        x: a vector of real numbers, all from the first edge to the last: your statement. Where
            their tracked bound is beyond the edges, comparisons reach up to it.
        edges: ascending, three or more.
        gap: how near to an inner edge a number may come; nearer ones count in part on both sides.
        precision, degree: as for `ckks.math.greater`. With n numbers a count is off by at most n
            2^-precision.

    Returns:
        The counts, one less than edges, each a number in all slots of a ciphertext.

    Raises:
        OperandError, ParameterError: not a vector of real numbers; edges that do not ascend.
        DepthError: too few levels.
    """
    points = _edges(x, edges, "histogram()")
    x, interval = _compared(x, points)
    wish = StepAccuracy("greater", interval, gap, precision, degree)
    above = unstack(_counts_above(x, points[1:-1], wish, 1, 0, "histogram()"))
    length = float(known_length(x) or 1)
    inner = [a - b for a, b in itertools.pairwise(above)]
    return stack([length - above[0], *inner, above[-1]])


@circuit("quantile()")
def quantile(
    x: CiphertextT,
    q: float,
    edges: ArrayLike,
    *,
    gap: float | None = None,
    precision: float | None = None,
) -> CiphertextT:
    """The first of the edges with a share q of the numbers, and one number, at or below it.

    It is above numpy.quantile(x, q, method="inverted_cdf") by less than the distance of two edges.
    Numbers are compared with all edges but the last, and then counts with the share. It takes the
    levels of both comparisons, and two. The second one tells counts that differ by 1 apart.

    Args:
        x: a vector of real numbers, all from the first edge to the last: your statement. Where
            their tracked bound is beyond the edges, comparisons reach up to it. That may take a
            level more; `x.within(a, b)` states a tighter one.
        q: from 0 to 1.
        edges: ascending, three or more.
        gap: how near to an edge a number may come.
        precision: in bits, of the first comparison; log2(count) + 3 by default, and log2(count) + 2
            at least.

    Returns:
        A number, in every slot.

    Raises:
        OperandError, ParameterError: not a vector of real numbers, edges that do not ascend, or a
            share beyond 0 and 1.
        DepthError: too few levels.
    """
    points = _edges(x, edges, "quantile()")
    if not (isinstance(q, numbers.Real) and 0 <= q <= 1):
        raise ParameterError(
            f"quantile() got q={q!r:.40}.",
            "It is a share, from 0 to 1.",
            "Pass q=0.5 for a median.",
        )
    length = known_length(x) or 1
    least = math.log2(length) + 2
    bits = least + 1 if precision is None else precision
    if not (isinstance(bits, numbers.Real) and bits >= least):
        raise ParameterError(
            f"quantile() got precision={precision!r:.40} for {length} numbers.",
            f"Counts that differ by 1 are told apart from {least:.1f} bits on.",
            "Leave it out for one bit more than that.",
        )
    x, interval = _compared(x, points)
    wish = StepAccuracy("greater", interval, gap, bits, None)
    allowed = min(math.floor((1 - float(q)) * length + 1e-9), length - 1) + 0.5
    then_gap = 0.25 / length
    then = StepAccuracy("greater", (0.0, 1.0), then_gap, 12.0, None)
    after = comparison.depth_of_greater(then) + 1
    counts = _counts_above(x, points[:-1], wish, 1 / length, after, "quantile()")
    # With a gap shares are off by at most 2^-bits, well below the gap of these. Without one a
    # number may count in part, and the result lies anywhere between the edges. Shares are half of
    # 1 / length away from the one that is allowed.
    slack = 0.5 / length - then_gap - 2.0**-bits
    shares = with_noise(within(counts, 1.0), lambda noise: noises.as_message(noise, slack))
    share = np.full(len(points) - 1, allowed / length)  # an array: one plan for all shares
    is_below = comparison.greater(shares, share, (0.0, 1.0), then_gap, then.precision)
    steps = tables.total(is_below * np.diff(points), 0, False)
    spread = points[-1] - points[0]
    result = within(steps, spread) + points[0]
    return result if gap is not None else with_error(result, spread)


def _edges(x: CiphertextData, edges: ArrayLike, what: str) -> list[float]:
    check_ciphertext(x, what)
    check_real(x, what)
    points = np.asarray(edges)
    is_real = points.dtype.kind in "biuf" and points.ndim == 1 and len(points) > 2
    if not is_real or not (np.isfinite(points).all() and (np.diff(points) > 0).all()):
        raise ParameterError(
            f"{what} got edges of shape {points.shape} and dtype {points.dtype}.",
            "They are three finite numbers or more, each above the one before.",
            "Write for example np.linspace(0, 1, 11), from the least to the largest number.",
        )
    if len(x.shape) != 1 or known_length(x) is None:
        raise ParameterError(
            f"{what} got a ciphertext of shape {shape_text(x)}.",
            "It takes one vector.",
            "Pass a column of a table, m[:, j].",
        )
    return [float(point) for point in points]


def _compared(x: CiphertextT, points: list[float]) -> tuple[CiphertextT, Interval]:
    """`x`, and where its numbers lie: between the edges, or up to a tracked bound beyond them.

    Outside of its interval a comparison is not 0 or 1, but as large as a number can be.
    """
    low, high = points[0], points[-1]
    largest, known = max(-low, high), known_span(x)
    if known is None or known.largest <= largest * TOLERANCE:
        return within(x, largest), (low, high)
    return x, (min(low, known.low), max(high, known.high))


def _counts_above(
    x: CiphertextT, points: list[float], wish: StepAccuracy, share: float, after: int, what: str
) -> CiphertextT:
    """`share` times how many numbers are above each point, as a batch of numbers."""
    is_scaled = share != 1
    levels = comparison.depth_of_greater(wish) + is_scaled + after
    need_level(x, levels, what, has_parts=True, clearing=has_to_be_cleared(x))
    rows, thresholds = stack([x] * len(points)), np.array(points)[:, None]
    steps = comparison.greater(
        rows, thresholds, wish.interval, wish.gap, wish.precision, wish.degree
    )
    sums = reductions.total(steps)
    return sums * share if is_scaled else sums


# ------------------------------------------------------------------- regression


@circuit("linear_regression()")
def linear_regression(
    x: CiphertextT, y: CiphertextT, *, steps: int, rate: float, bound: float | None = None
) -> CiphertextT:
    """Coefficients w that make x w near y, by steps of gradient descent: two levels for each.

    A step is w - rate / n x^T (x w - y), the first from w = 0. It converges where the rate is below
    2 over the largest eigenvalue of x^T x / n: for columns of variance 1 below 2 over their count.

    Args:
        x: a table [n, c] by its columns, real. Its columns have a mean near zero, or one of them
            holds ones for a constant term: see `standardize`.
        y: a vector [n], real.
        steps: from 1 on.
        rate: above zero.
        bound: of the modulus of the coefficients, which you know; None for what is tracked.

    Returns:
        c coefficients, each in all slots of a ciphertext: `x @ w` are the predictions.

    Raises:
        OperandError, ParameterError: what is not such a table and vector, no steps, no rate.
        DepthError: fewer than 2 steps levels; one more where leftovers of x are cleared before.
    """
    what = "linear_regression()"
    for given in (x, y):
        check_ciphertext(given, what)
        check_real(given, what)
    moments.check_columns(x, what)
    count = as_integer(steps, what)
    if (length := positive(rate)) is None:
        raise ParameterError(
            f"{what} got rate={rate!r:.40}.",
            "It is how far a step goes: a number above zero.",
            "Write for example rate=0.5 for columns of variance 1.",
        )
    if count < 1 or y.shape != x.shape[:1]:
        raise ParameterError(
            f"{what} got steps={count}, a table of shape {x.shape} and a y of shape {y.shape}.",
            "It takes one step at least, and a y of one number for each row.",
            "Pass steps=3, say, and a vector as long as a column.",
        )
    need_level(x, 2 * count, what, clearing=has_to_be_cleared(x))
    need_level(y, 2 * count, what)
    x = cleared(x, what)
    scaled, columns = x * (length / x.shape[0]), unstack(x)
    residual, w = -y, None
    for step in range(count):
        gradient = reductions.total(scaled * evolve_layout(stack([residual]), columns=True))
        w = -gradient if w is None else w - gradient
        w = w if bound is None else within(w, as_bound(bound))
        if step + 1 < count:
            terms = [column * part for column, part in zip(columns, unstack(w), strict=True)]
            residual = reduce(add, terms) - y
    assert w is not None  # there is one step at least
    return w


# ------------------------------------------------------------------- names


check_functions(globals(), __all__, "ckks.stats", INSTEAD)


def __dir__() -> list[str]:
    return __all__


_MEDIAN = "ckks.stats.quantile(x, 0.5, edges)"
_INSTEAD = {"median": _MEDIAN, "percentile": _MEDIAN, "average": "x.dot(w) / w.sum()"}


def __getattr__(name: str) -> NoReturn:
    if name.startswith("_"):
        raise AttributeError(name, name=name, obj=sys.modules[__name__])
    raise unknown_attribute("ckks.stats", name, __all__, _INSTEAD)
