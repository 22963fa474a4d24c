"""`ckks.poly` and `ckks.chebyshev`: polynomials of encrypted numbers at optimal depth."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any, Generic

import attrs
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ren.core.errors import ParameterError, shown
from ren.schemes.ckks.arithmetic.argument_checks import check_ciphertext
from ren.schemes.ckks.arithmetic.automatic import bounded
from ren.schemes.ckks.arithmetic.evolve import (
    drop_to,
    evolve_layout,
    is_view,
    need_level,
    with_error,
    within,
)
from ren.schemes.ckks.arithmetic.manual import check_automatic, normal
from ren.schemes.ckks.arithmetic.operation_hooks import circuit
from ren.schemes.ckks.arithmetic.scaled import SCALED, lowered, scale_above, settled, zero
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT
from ren.schemes.ckks.functions.arguments import (
    Interval,
    argument,
    checked_interval,
)
from ren.schemes.ckks.functions.basis import Basis, element_depth
from ren.schemes.ckks.functions.coefficients import Coefficients, checked_coefficients, of_powers
from ren.schemes.ckks.functions.paterson_stockmeyer import (
    Coefficient,
    Combination,
    Schedule,
    is_integer,
    largest,
    schedule,
)

_MAX_GRID = 1 << 14
_LEAST = 2.0**-30  # of bounds
LARGEST_SIZE = 32.0  # five bits of precision are given for a level, no more


@attrs.frozen
class Map:
    """Map of x in [a, b] to B_1 = first u, u in [-1, 1], before the products.

    Args:
        factor: x - middle is multiplied by it: an integer at no level, else at one level.
        middle: (a + b) / 2.
        schedule: of the polynomial in this basis.
    """

    factor: float
    middle: float
    schedule: Schedule

    @property
    def depth(self) -> int:
        """The levels of map and polynomial."""
        return self.schedule.depth + (not is_integer(complex(self.factor)))


@circuit("poly()")
def poly(ct: CiphertextT, coefficients: ArrayLike) -> CiphertextT:
    """c_0 + c_1 x + ... + c_d x^d in every slot, ceil(log2(d + 1)) levels down.

    Args:
        ct: the encrypted x.
        coefficients: c_0, c_1, ...: real or complex, [degree + 1]. Those that round to zero at the
            scale are skipped, and so are leading ones in the degree. Integers cost no level.
            Or a polynomial for each number, [*shape, degree + 1], whose shape broadcasts to that of
            `ct`. Then result[i] is numpy.polynomial.polynomial.polyval(x[i], coefficients[i]).
            Polynomials of NumPy, `numpy.poly1d` and of `numpy.polynomial`, are read as they are.

    Returns:
        The ciphertext, after about sqrt(2 d) + log2 d relinearizations.

    Raises:
        DepthError: too few levels; says how many are needed.
        ParameterError: no coefficients, not finite ones, or of a shape that does not broadcast.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=2)
        >>> x = ctx.encrypt([0.0, 1.0, 2.0])
        >>> ckks.poly(x, [1, 0, 0, 0.5]).decrypt().round(3)
        array([1. , 1.5, 5. ])
        >>> ckks.poly(x, [[7, 0, 0], [0, 3, 0], [0, 0, 0.5]]).decrypt().round(3)
        array([7., 3., 2.])
    """
    check_automatic("A polynomial")
    check_ciphertext(ct, "poly()")
    c = checked_coefficients(of_powers(coefficients), ct)
    plan = schedule(c.values, Basis(is_chebyshev=False), _tiny(ct))
    what = f"A polynomial of degree {len(c.values) - 1}"
    ct = bounded(normal(ct), plan.depth, what)
    need_level(ct, plan.depth, what)
    return _Evaluation(plan, ct, c).result()


def chebyshev(
    ct: CiphertextT,
    f: Callable[[NDArray], ArrayLike] | ArrayLike,
    interval: Interval = (-1.0, 1.0),
    degree: int | None = None,
) -> CiphertextT:
    """sum_j c_j T_j(u) in every slot, u in [-1, 1] for x in the interval.

    It takes ceil(log2(degree + 1)) levels. It takes one more for the map from x to u where the
    basis cannot take in the map. Up to (b - a)/2 = 2 it always can, then at up to five bits of
    precision for small degrees.

    Args:
        ct: the encrypted x, real, in the interval. A tracked bound beyond it warns, and the error
            of the result is unknown; with strict parameters it raises.
        f: a function of arrays, interpolated in the Chebyshev points; or the coefficients c_0, ...
            [degree + 1]; or those of a series for each number, [*shape, degree + 1], whose shape
            broadcasts to that of `ct`.
        interval: (a, b).
        degree: of the interpolation; not for coefficients.

    Raises:
        DepthError: too few levels; says how many are needed.
        ParameterError: an empty interval, or a degree that is missing or too much; coefficients
            whose shape does not broadcast.
        MessageBoundError: a tracked bound beyond the interval, with strict parameters.

    Example:
        >>> import numpy as np
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=3)
        >>> ckks.chebyshev(ctx.encrypt([0.0, 0.5]), np.exp, (-1, 1), 7).decrypt().round(3)
        array([1.   , 1.649])
    """
    a, b = checked_interval(interval)
    error = 0.0
    if callable(f):
        c = interpolated(f, (a, b), checked_degree(degree))
        error = error_of(f, c, (a, b))
    elif degree is not None:
        raise ParameterError(
            f"chebyshev() got coefficients and degree={degree}.",
            "The degree is that of the coefficients.",
            "Leave degree out, or pass a function.",
        )
    else:
        c = f
    check_ciphertext(ct, "chebyshev()")
    c = checked_coefficients(c, ct)
    what = f"A polynomial of degree {len(c.values) - 1}"
    result = _evaluated(argument(ct, (a, b), what), c, (a, b), what)
    return with_error(result, 1.1 * error) if error else result


def evaluated(
    ct: CiphertextT, coefficients: tuple[complex, ...], interval: Interval, what: str
) -> CiphertextT:
    """The Chebyshev series on the interval, of numbers that are known to lie in it."""
    return _evaluated(ct, Coefficients(coefficients), interval, what)


@circuit("a polynomial")
def _evaluated(
    ct: CiphertextT, coefficients: Coefficients, interval: Interval, what: str
) -> CiphertextT:
    check_automatic(what)
    mapped = mapping(coefficients.values, interval, _tiny(ct))
    need_level(ct, mapped.depth, what)
    x = ct - mapped.middle if mapped.middle else ct
    factor = complex(mapped.factor)
    x = x * (round(factor.real) if is_integer(factor) else factor.real)
    return _Evaluation(mapped.schedule, x, coefficients).result()


def mapping(coefficients: tuple[Coefficient, ...], interval: Interval, tiny: float = 0.0) -> Map:
    """The cheapest way from x to the basis: an integer factor if sizes stay bounded."""
    a, b = interval
    middle, radius = (a + b) / 2, (b - a) / 2
    factor = max(1, round(1 / radius))
    free = schedule(coefficients, Basis(True, factor * radius), tiny)
    if free.largest_size <= LARGEST_SIZE:
        return Map(factor, middle, free)
    return Map(1 / radius, middle, schedule(coefficients, Basis(True), tiny))


def interpolated(f: Callable[[NDArray], ArrayLike], interval: Interval, degree: int) -> NDArray:
    """The Chebyshev coefficients of the polynomial that meets f in the degree + 1 nodes.

    Those that are rounding errors of float64 are exact zeros.
    """
    a, b = interval
    u = np.polynomial.chebyshev.chebpts1(degree + 1)
    v = np.polynomial.chebyshev.chebvander(u, degree)
    c = v.T @ sampled(f, (a + b) / 2 + (b - a) / 2 * u, interval) / (degree + 1)
    c[1:] *= 2
    return np.where(np.abs(c) > 4e-16 * np.abs(c).max(), c, 0)


def error_of(f: Callable[[NDArray], ArrayLike], c: NDArray, interval: Interval) -> float:
    """The largest distance of a Chebyshev series from f on a fine grid of the interval."""
    a, b = interval
    # Chebyshev points of a much higher degree: they lie denser at the ends, where errors peak.
    count = min(max(16 * len(c), 1024), _MAX_GRID)
    u = np.cos(np.pi * np.arange(count + 1) / count)
    x = np.clip((a + b) / 2 + (b - a) / 2 * u, a, b)
    difference = sampled(f, x, interval) - np.polynomial.chebyshev.chebval(u, c)
    return float(np.abs(difference).max())


def sampled(f: Callable[[NDArray], ArrayLike], x: NDArray, interval: Interval) -> NDArray:
    """f at the points x of the interval; one that takes numbers alone is asked number by number."""
    with np.errstate(all="ignore"):
        try:
            y = np.asarray(f(x))
        except (TypeError, ValueError):
            y = np.asarray([f(v) for v in x.tolist()])
    if y.shape not in ((), x.shape) or y.dtype.kind not in "biufc":
        raise ParameterError(
            f"A function gave an array of shape {y.shape} and dtype {y.dtype} for {x.shape}.",
            "It takes an array of numbers, and gives one number for each.",
            "Write it with NumPy, for example lambda x: np.exp(-x * x).",
        )
    if not np.isfinite(y).all():
        raise ParameterError(
            f"The function is not finite on [{interval[0]:g}, {interval[1]:g}].",
            "A polynomial approximates what is finite and smooth on the whole interval.",
            "Pass an interval away from the singularity.",
        )
    return np.broadcast_to(y, x.shape)


class _Evaluation(Generic[CiphertextT]):
    """One run of a schedule on a ciphertext.

    The scale of each sum is fixed from the root down. In a sum at scale S the cofactor of B_g, at
    scale s, ends at S / s, and c B_j takes c at the scale S / s. So operands drop levels by views.

    A multiple of B_j at the level of its sum has no constant that is encoded. There the scales
    have to agree, and all drops lead to canonical scales, by rescales.
    """

    def __init__(self, plan: Schedule, x: CiphertextT, coefficients: Coefficients) -> None:
        self.plan, self.basis, self.x = plan, plan.basis, x
        self.at_slots, self.is_complex = coefficients.at_slots, coefficients.is_complex
        self.is_free = plan.has_free_scales
        self.elements: dict[int, CiphertextT] = {}
        self.dropped: dict[int, list[CiphertextT]] = {}
        self.x = self._made(1)

    def result(self) -> CiphertextT:
        """The polynomial, at the canonical scale; its last terms are not yet rescaled."""
        depth = self.plan.depth
        made = self._sum(self.plan.root, depth, self.x.params.scale(self.x.level - depth))
        return evolve_layout(made, is_complex=True) if self.is_complex else made

    def _sum(self, s: Combination, depth: int, scale: Fraction) -> CiphertextT:
        """At the level that lies `depth` below x, and at `scale`."""
        total = self._summed(s, depth, scale)
        if not self.basis.is_chebyshev:
            return total
        return within(total, max(largest(s, self.basis), _LEAST))

    def _summed(self, s: Combination, depth: int, scale: Fraction) -> CiphertextT:
        whole = [
            SCALED.multiply_integer(self._made(j), round(c.real))
            for j, c in s.terms
            if element_depth(j) == depth and not isinstance(c, tuple)
        ]
        if not s.products and len(whole) == len(s.terms):
            whole = whole or [zero(self._element(1, depth), scale)]
            return self._plus(reduce(SCALED.add, whole), s.constant)
        above = scale_above(self.x.params, self.x.level - depth, scale)
        addends = []
        for g, quotient in s.products:
            element = self._element(g, depth - 1)
            cofactor = self._sum(quotient, depth - 1, above / element.scale)
            addends.append(SCALED.multiply(cofactor, element))
        for j, c in s.terms:
            if element_depth(j) < depth:
                element = self._element(j, depth - 1)
                addends.append(SCALED.multiply_onto(element, self.at_slots(c), above))
        total = self._plus(reduce(SCALED.add, addends), s.constant)
        return settled(total, reduce(SCALED.add, whole) if whole else None)

    def _plus(self, x: CiphertextT, constant: Coefficient) -> CiphertextT:
        if not constant:
            return x
        value = self.at_slots(constant)
        return (SCALED.add_array if np.ndim(value) else SCALED.add_scalar)(x, value)

    def _element(self, j: int, depth: int) -> CiphertextT:
        """B_j at the level that lies `depth` below x: a view of one that is there, if there is."""
        element, level = self._made(j), self.x.level - depth
        if not self.is_free:
            return drop_to(element, level)
        versions = self.dropped.setdefault(j, [element])
        for known in versions:
            if known.level >= level and is_view(known.params, known.level, level):
                return lowered(known, level)
        versions.append(lowered(element, level))
        return versions[-1]

    def _made(self, j: int) -> CiphertextT:
        """B_j, known to be at most its size, as a Chebyshev polynomial in the interval is."""
        if j not in self.elements:
            x = self._make(j) if j > 1 else self.x
            is_chebyshev = self.basis.is_chebyshev
            self.elements[j] = within(x, abs(self.basis.size(j))) if is_chebyshev else x
        return self.elements[j]

    def _make(self, j: int) -> CiphertextT:
        how, depth = self.basis.element(j), element_depth(j) - 1
        high, low = (self._element(i, depth) for i in (how.high, how.low))
        product = SCALED.multiply_integer(SCALED.multiply(high, low), how.factor)
        if how.correction and how.high == how.low:
            product = SCALED.add_scalar(product, -how.correction)
        elif how.correction:
            less = self._element(how.high - how.low, depth)
            less = SCALED.multiply_onto(less, how.correction, product.scale)
            product = SCALED.subtract(product, less)
        return settled(product)


def _tiny(ct: CiphertextData) -> float:
    """Up to here a coefficient rounds to zero at every level's scale."""
    return 2.0 ** -(ct.params.scale_bits + 1)


def checked_degree(degree: Any) -> int:
    """The degree of an interpolant; raises ParameterError where it is no number from 0 to 4095."""
    if not isinstance(degree, numbers.Integral) or int(degree) not in range(1 << 12):
        raise ParameterError(
            f"A function was to be interpolated with degree={shown(degree)}.",
            "The degree is an integer from 0 to 4095.",
            "Pass degree=, or take the least one with ckks.approximate(f, interval, precision).",
        )
    return int(degree)
