"""Operators and NumPy's functions of encrypted numbers: functions of `ckks.math` by their names.

The interval is that of `ckks.intervals`, else where the numbers are known to lie. The precision is
the default one of the function.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import numbers
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np

from ren.core.errors import OperandError, ParameterError
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import is_tracer
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.arithmetic.argument_checks import check_real
from ren.schemes.ckks.arithmetic.evolve import with_span, within
from ren.schemes.ckks.arithmetic.number_types import of_operands, same, with_type
from ren.schemes.ckks.arithmetic.operation_hooks import settings, with_settings
from ren.schemes.ckks.encoding.advice import arguments_of
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData
from ren.schemes.ckks.encoding.encoder import as_numbers
from ren.schemes.ckks.encoding.plaintext import Plaintext
from ren.schemes.ckks.encoding.refusals import operand_text, wrong_operand
from ren.schemes.ckks.functions import comparison, division, elementary, logic, powers
from ren.schemes.ckks.functions.arguments import checked_precision, known_span
from ren.schemes.ckks.functions.polynomial import Interval, checked_interval
from ren.schemes.ckks.noise import spans
from ren.schemes.ckks.noise.bounds import public_bound
from ren.schemes.ckks.noise.range_checks import bound_of
from ren.schemes.ckks.noise.spans import Span, hull


@attrs.frozen
class Function:
    """A function of `ckks.math`, and what it takes from its surroundings.

    Args:
        run: the function; without `takes_interval` it is called with its operands alone.
        operands: 2 where two arguments lie in the interval, 1 where the encrypted one does.
        settings: which settings of `ckks.intervals` it has, besides the interval.
        inside: whether it is smooth on [a, b], of (a, b, *arguments).
        needs: the same in words.
        image: the same function of numbers, where it is monotonic on every such interval.
    """

    run: Callable[..., Any]
    operands: int = 1
    settings: tuple[str, ...] = ("precision",)
    inside: Callable[..., bool] = lambda a, b, *_: a <= b
    needs: str = ""
    image: Callable[[Any], Any] | None = None
    takes_interval: bool = True


def _has_power(a: float, b: float, x: Any, y: Any) -> bool:
    """Whether x^y is smooth on [a, b]; where the arguments are wrong the function says so."""
    if isinstance(x, CiphertextData) and isinstance(y, CiphertextData):
        return a > 0
    if not isinstance(x, CiphertextData) or not isinstance(y, numbers.Real):
        return True
    exponent = float(y)
    return a > 0 or (a == 0 and exponent > 0) or (b < 0 and exponent.is_integer())


_STEP, _SMOOTH = ("precision", "gap"), ("precision",)


def _smooth(run: Callable, inside: Callable[[float, float], bool], needs: str, image: Callable):
    return Function(run, 1, _SMOOTH, lambda a, b, *_: inside(a, b), needs, image)


def _plain(run: Callable[..., Any]) -> Function:
    return Function(run, takes_interval=False)


FUNCTIONS = {
    "exp": Function(elementary.exp, image=np.exp),
    "log": _smooth(elementary.log, lambda a, b: a > 0, "above zero", np.log),
    "sqrt": _smooth(elementary.sqrt, lambda a, b: a >= 0, "from zero on", np.sqrt),
    "inverse": _smooth(
        division.inverse, lambda a, b: a > 0 or b < 0, "on one side of zero", np.reciprocal
    ),
    "tan": _smooth(
        elementary.tan, lambda a, b: max(-a, b) < math.pi / 2, "inside (-pi/2, pi/2)", np.tan
    ),
    "sin": Function(elementary.sin),
    "cos": Function(elementary.cos),
    "sinh": Function(elementary.sinh, image=np.sinh),
    "cosh": Function(elementary.cosh),
    "tanh": Function(elementary.tanh, image=np.tanh),
    "sigmoid": Function(elementary.sigmoid, image=elementary.sigmoid_of),
    "round": Function(elementary.rounded, image=np.round),
    "sign": Function(comparison.sign, 1, _STEP),
    "abs": Function(comparison.absolute, 1, _STEP),
    "relu": Function(comparison.relu, 1, _STEP),
    **{
        name: Function(run, 2, _STEP)
        for name, run in {
            "max": comparison.maximum, "min": comparison.minimum,
            "greater": comparison.greater, "greater_equal": comparison.greater_equal,
            "less": comparison.less, "less_equal": comparison.less_equal,
            "equal": comparison.equal, "not_equal": comparison.not_equal,
        }.items()
    },
    "pow": Function(powers.pow_, 1, _SMOOTH, _has_power, "above zero"),
    "mod": Function(powers.mod, 1, _STEP),
    "floor_divide": Function(powers.floor_divide, 1, _STEP),
    "where": _plain(logic.where),
    "logical_and": _plain(logic.logical_and), "logical_or": _plain(logic.logical_or),
    "logical_xor": _plain(logic.logical_xor), "logical_not": _plain(logic.logical_not),
}  # fmt: skip


# ------------------------------------------------------------------- settings


@attrs.frozen
class Intervals:
    """Settings of `ckks.intervals`: static, as programs depend on them."""

    default: Interval | None = None
    named: tuple[tuple[str, Interval], ...] = ()
    precision: float | None = None
    gap: float | None = None

    def interval(self, name: str) -> Interval | None:
        """The interval of a function; None where none was named."""
        return dict(self.named).get(name, self.default)


@contextlib.contextmanager
def intervals(
    interval: Interval | None = None,
    /,
    *,
    precision: float | None = None,
    gap: float | None = None,
    **functions: Interval,
) -> Iterator[None]:
    """Inside, operators and NumPy's functions of encrypted numbers are close on these intervals.

    They stand for `interval=`, `precision=` and `gap=` of the functions of `ckks.math` that
    `x / y`, `x > y`, `np.exp(x)` and others call. The interval is not a promise: a tracked bound
    beyond it is reported. In an inner block what is not named is that of the outer one.

    Args:
        interval: (a, b) where the numbers lie, for all functions that are not named.
        precision: in bits, of all functions that have one.
        gap: of comparisons and remainders.
        functions: intervals by the name in `ckks.math`, as log=(0.5, 8).

    Raises:
        ParameterError: no interval, or a name that is not in `ckks.math`.

    Example:
        >>> import numpy as np
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=5)
        >>> x = ctx.encrypt([1.0, 2.0, 4.0])
        >>> with ckks.intervals((0.5, 4), precision=12):
        ...     y = np.sqrt(x)
        >>> y.decrypt().round(3)
        array([1.   , 1.414, 2.   ])
    """
    known = [name for name, function in FUNCTIONS.items() if function.takes_interval]
    for name in functions:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=3) or known
            raise ParameterError(
                f"ckks.intervals() got an interval for {name!r}.",
                "Names are those of functions of ckks.math that take an interval.",
                f"Write one of {', '.join(close)}.",
            )
    outer = settings().intervals or Intervals()
    named = {name: checked_interval(given) for name, given in functions.items()}
    made = Intervals(
        outer.default if interval is None else checked_interval(interval),
        tuple(sorted({**dict(outer.named), **named}.items())),
        outer.precision if precision is None else checked_precision(precision, 20.0),
        outer.gap if gap is None else gap,
    )
    with with_settings(intervals=made):
        yield


# ------------------------------------------------------------------- calls


def call(name: str, *args: Any, asked: str = "") -> Any:
    """The function `name` of `ckks.math`, on the interval that is set or known.

    Args:
        asked: what the user asks for, for errors; the function of the name by default.

    Raises:
        OperandError: the interval is not known, or not one that the function takes.
    """
    function, given = FUNCTIONS[name], settings().intervals or Intervals()
    if not function.takes_interval:
        return function.run(*args)
    for value in args:
        if isinstance(value, CiphertextData):
            check_real(value, name)
        elif function.operands == 2:
            if isinstance(value, str | bytes | None):
                raise wrong_operand(f"The function {name}", value)
            _check_finite(value, asked or f"asks for {name} of")
    if name == "pow":
        powers.check_operands(*args)
    held = {key: getattr(given, key) for key in function.settings}
    options = {key: value for key, value in held.items() if value is not None}
    if (interval := given.interval(name)) is not None:
        return function.run(*args, interval=interval, **options)
    is_one = function.operands == 1
    operands = [v for v in args if isinstance(v, CiphertextData)][:1] if is_one else args
    span = hull(*map(_span, operands))
    if (known := _without_kink(name, args)) is not None:
        return known
    if span is None or not function.inside(span.low, span.high, *args):
        raise _unknown(name, function, asked or f"asks for {name} of", span, args)
    inside = [id(v) for v in operands]
    args = tuple(_held(v, span) if id(v) in inside else v for v in args)
    result = function.run(*args, interval=_widened(span), **options)
    return with_span(result, _image(function.image, span)) if function.image else result


def _without_kink(name: str, args: tuple[Any, ...]) -> Any:
    """The result where the intervals of the operands tell which piece of a function it is."""
    if name in ("abs", "relu"):
        x, span = args[0], _span(args[0])
        if span is None or span.low < 0 < span.high:
            return None
        return x if span.low >= 0 else -x if name == "abs" else None
    if name not in ("max", "min"):
        return None
    for x, other in (args, args[::-1]):
        a, b = _span(x), _span(other)
        if a is None or b is None:
            return None
        if not isinstance(x, CiphertextData):
            continue
        if np.broadcast_shapes(x.shape, np.shape(other)) != x.shape:
            continue
        if a.low >= b.high if name == "max" else a.high <= b.low:
            return with_type(x, of_operands(same, x, other))
    return None


def _check_finite(value: Any, asked: str) -> None:
    """Raises OperandError for numbers in the clear that are infinite or NaN."""
    if isinstance(value, Plaintext | Symbolic) or is_tracer(value):
        return
    array = as_numbers(value)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise OperandError(
            f"{user_line()} {asked} encrypted numbers and {array[~np.isfinite(array)][0]}.",
            "Slots hold finite numbers, and so does what they are compared with.",
            "Every number that was encrypted is finite: leave the comparison out, or compare with "
            "a bound of your numbers.",
        )


def _span(value: Any) -> Span | None:
    """The interval of numbers: arrays in the clear show the power of two above them."""
    if isinstance(value, CiphertextData):
        return known_span(value)
    if isinstance(value, Plaintext) and (bound := bound_of(value)) is not None:
        return Span(-bound, bound)
    if isinstance(value, Symbolic | Plaintext) or is_tracer(value):
        return None
    if isinstance(value, numbers.Real):
        return spans.of_number(value, is_public=False)
    array = as_numbers(value)
    if array.dtype.kind not in "biuf" or not array.size:
        return None
    largest = float(public_bound(np.abs(array).max()))
    return Span(-largest if array.min() < 0 else 0.0, largest, is_public=False)


def _held(value: Any, span: Span) -> Any:
    """A ciphertext with its tracked bound inside of the span, in which its numbers are known."""
    if not isinstance(value, CiphertextData) or not span.largest:
        return value
    bound = bound_of(value)
    return value if bound is not None and bound <= span.largest else within(value, span.largest)


def _widened(span: Span) -> Interval:
    """The span as an interval, which has a width."""
    width = 2.0**-10 * max(span.largest, 1.0) * (span.low == span.high)
    return span.low - width, span.high + width


def _image(function: Callable[[Any], Any], span: Span) -> Span | None:
    """The interval of the results of a monotonic function."""
    with np.errstate(all="ignore"):
        low, high = sorted(float(function(v)) for v in (span.low, span.high))
    return attrs.evolve(span, low=low, high=high) if np.isfinite([low, high]).all() else None


def _unknown(
    name: str, function: Function, asked: str, span: Span | None, args: tuple[Any, ...]
) -> OperandError:
    where = "with an operand of which no interval is known here"
    if any(isinstance(v, CiphertextData) and math.isnan(bound_of(v) or 0.0) for v in args):
        where = "of which nothing is known any more: they left an interval before, as was told then"
    if span is not None:
        where = f"which are known to lie in [{span.low:g}, {span.high:g}]"
    needs = f", here {function.needs}" if function.needs else ""
    state = "State it, x.within(low, high)"
    if name == "pow" and all(isinstance(v, CiphertextData) for v in args):
        state = "State both, x.within(low, high) ** y.within(low, high)"
    return OperandError(
        f"{user_line()} {asked} encrypted numbers, {where}.",
        f"Functions of them are polynomials that are close on an interval{needs}.",
        f"{state}, or write it around the line, `with ckks.intervals((low, high)):`. Or write "
        f"ckks.math.{name}({_arguments(name, args)}); see help(ckks.math.{name}).",
    )


def _arguments(name: str, args: tuple[Any, ...]) -> str:
    """The arguments of a function of `ckks.math` as source: its number as it was given."""
    if name not in ("pow", "mod", "floor_divide"):
        return arguments_of(name)
    are_two = all(isinstance(v, CiphertextData) for v in args)
    x, y = ("ct" if isinstance(v, CiphertextData) else operand_text(v) for v in args)
    return f"{'x, y.within(low, high)' if are_two else f'{x}, {y}'}, interval=(a, b)"
