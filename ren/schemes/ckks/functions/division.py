"""inverse: Goldschmidt's iteration, accelerated to be the best polynomial of its degree.

With e = 1 - x y the step y -> y (1 + e) leaves e^2, which lies on one side of zero. Times lambda =
2 / (2 - eps^2) the step leaves lambda e^2 + 1 - lambda, which lies evenly on both. Then e_k =
T_(2^k)(u) / T_(2^k)(u_0), the least residual of all polynomials of degree 2^k - 1. K steps take K
levels and 2 (K - 1) products, where Chebyshev interpolation takes about sqrt(2^(K+1)) + K.

References: Goldschmidt, "Applications of division by convergence", 1964; Saad, "Iterative methods
for sparse linear systems", 2003, 12.3 (the residual polynomial).
"""

from __future__ import annotations

import attrs

from ren.core.errors import ParameterError
from ren.schemes.ckks.arithmetic.automatic import negate
from ren.schemes.ckks.arithmetic.evolve import need_level, with_error, within
from ren.schemes.ckks.arithmetic.number_types import floating
from ren.schemes.ckks.arithmetic.operation_hooks import circuit
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextT
from ren.schemes.ckks.functions.approximation import Approximation, approximate, approximated
from ren.schemes.ckks.functions.arguments import argument, checked_precision
from ren.schemes.ckks.functions.polynomial import Interval, checked_interval


@attrs.frozen
class Step:
    """E' = factor E^2 - offset and Y' = Y (E + size), where E = size e, |E| at most `bound`."""

    size: float
    factor: int
    offset: float
    bound: float


@attrs.frozen
class Goldschmidt:
    """The iteration for 1/x on [a, b], 0 < a.

    Args:
        scale: x is multiplied by it, an integer at no level, else at one.
        steps: one after another.
        leading: what the first factor is multiplied by, so that the result is 1/x.
        residual: the largest |1 - x y|.
    """

    scale: float
    steps: tuple[Step, ...]
    leading: float
    residual: float

    @property
    def depth(self) -> int:
        """Levels."""
        return len(self.steps) + (self.scale != round(self.scale))

    @property
    def products(self) -> int:
        """Ciphertext products."""
        return 2 * (len(self.steps) - 1)


def goldschmidt(interval: Interval, goal: float, most: int = 40) -> Goldschmidt:
    """The iteration with the fewest steps whose residual is at most `goal`, up to `most` steps."""
    a, b = interval
    middle, residual = (a + b) / 2, (b - a) / (b + a)
    scale = 1 / middle if middle > 2 else float(max(1, round(1 / middle)))
    size, leading = scale * middle, scale
    steps: list[Step] = []
    while not steps or (residual > goal and len(steps) < most):
        acceleration = 2 / (2 - residual**2)
        factor = max(1, round(acceleration / size**2))
        after, bound = factor * size**2 / acceleration, size * residual
        residual = acceleration - 1
        leading *= acceleration / (size if steps else size * size)
        steps.append(Step(size, factor, after * residual, bound))
        size = after
    return Goldschmidt(scale, tuple(steps), leading, residual)


@circuit("inverse", floating)
def inverse(
    ct: CiphertextT,
    interval: Interval | None = None,
    precision: float | None = None,
    degree: int | None = None,
) -> CiphertextT:
    """1/x in every slot, for x in the interval.

    By Goldschmidt's iteration or by a polynomial: what takes fewer levels, then fewer products.

    Args:
        ct: the encrypted x.
        interval: where x lies, on one side of zero; (0.5, 2) by default, with a warning.
        precision: in bits, of 1/x; 20 by default.
        degree: instead of a precision.

    Raises:
        DepthError: too few levels.
        ParameterError: the interval reaches zero.
    """
    a, b = checked_interval((0.5, 2.0) if interval is None else interval)
    if a <= 0 <= b:
        raise ParameterError(
            f"inverse got the interval [{a:g}, {b:g}].",
            "1/x is not finite at zero.",
            "Pass an interval on one side of zero, as tight as you know it.",
        )
    x = argument(ct, (a, b), "inverse", is_stated=interval is not None)
    if b < 0:
        return negate(_inverse(negate(x), (-b, -a), precision, degree))
    return _inverse(x, (a, b), precision, degree)


def _inverse(
    x: CiphertextT, interval: Interval, precision: float | None, degree: int | None
) -> CiphertextT:
    """1/x for an argument of an interval above zero."""
    if degree is not None:
        p = approximate(lambda x: 1 / x, interval, precision, degree)
        return approximated(x, p, f"inverse by a polynomial of degree {p.degree}")
    goal = 2.0 ** -checked_precision(precision, 20.0)
    steps, p = goldschmidt(interval, goal * interval[0]), _polynomial(interval, precision)
    if p is not None and (p.depth, p.relinearizations) < (steps.depth, steps.products):
        return approximated(x, p, f"inverse by a polynomial of degree {p.degree}")
    left = steps.residual / interval[0]  # y = (1 - r) / x with |r| at most the residual
    return with_error(within(_iterated(x, steps), 1 / interval[0] + left), 1.1 * left)


def _polynomial(interval: Interval, precision: float | None) -> Approximation | None:
    """None where its degree would be too high: there, more than the iteration's."""
    try:
        return approximate(lambda x: 1 / x, interval, precision)
    except ParameterError:
        return None


def _iterated(ct: CiphertextT, how: Goldschmidt) -> CiphertextT:
    need_level(ct, how.depth, f"inverse by {len(how.steps)} steps of Goldschmidt's iteration")
    scale = round(how.scale) if how.scale == round(how.scale) else how.scale
    first = how.steps[0]
    # The bounds are stated: one tracked by products passes 2^60 after a few squares.
    e = within(first.size - ct * scale, first.bound)
    y = (e + first.size) * how.leading
    for before, step in zip(how.steps, how.steps[1:], strict=False):
        e = within(e * e * before.factor - before.offset, step.bound)
        y = y * (e + step.size)
    return y
