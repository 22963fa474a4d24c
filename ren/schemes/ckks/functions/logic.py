"""and, or, not, exclusive or, and choices by encrypted truth: numbers near 0 or 1.

The result of a comparison is truth, and so is what `x.within(0, 1)` states.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ren.core.errors import OperandError, ParameterError
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import is_tracer
from ren.lowering.kernels import embedding
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.arithmetic.argument_checks import check_ciphertext
from ren.schemes.ckks.arithmetic.evolve import (
    kept_to,
    need_level,
    with_span,
    within,
    within_that_of,
)
from ren.schemes.ckks.arithmetic.number_types import (
    logical,
    of_choice,
    of_operands,
    truth,
    with_type,
)
from ren.schemes.ckks.arithmetic.operation_hooks import circuit, numbers_of_user
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT, known_length
from ren.schemes.ckks.encoding.encoder import as_numbers
from ren.schemes.ckks.encoding.plaintext import Plaintext
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.readable import Noise
from ren.schemes.ckks.noise.spans import Span, combined, of_number


def _function(name: str, formula: Callable[..., Any], text: str) -> Callable[..., Any]:
    @circuit(name, logical, 2)
    def function(a: Any, b: Any) -> Any:
        check_ciphertext(a, name, b)
        spans = [_truth(v) for v in (a, b)]
        for v in (a, b):
            if isinstance(v, CiphertextData):
                need_level(v, 1, name)
        return _within(formula(a, b), combined(formula, *spans))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""{text} in every slot, of numbers that are 0 or 1: one level.

    Args:
        a, b: ciphertexts of truth, or one of them an array or a number of zeros and ones.

    Raises:
        OperandError: numbers that are not known to be 0 or 1.
        DepthError: no level is left.
    """
    return function


logical_and = _function("logical_and", lambda a, b: a * b, "a b, 1 where both are 1,")
logical_or = _function("logical_or", lambda a, b: a + b - a * b, "a + b - a b, 1 where one is 1,")
logical_xor = _function(
    "logical_xor", lambda a, b: a + b - a * b * 2, "a + b - 2 a b, 1 where one alone is 1,"
)


@circuit("logical_not", logical)
def logical_not(ct: CiphertextT) -> CiphertextT:
    """1 - x in every slot, for x that is 0 or 1: no level.

    Raises:
        OperandError: numbers that are not known to be 0 or 1.
    """
    check_ciphertext(ct, "logical_not")
    return _within(1 - ct, combined(lambda a: 1 - a, _truth(ct)))


def _within(result: CiphertextT, span: Span | None) -> CiphertextT:
    """`result`, whose numbers lie in `span`: a product of sums is bounded worse."""
    return with_span(within(result, span.largest), span) if span else result


def selected(x: CiphertextT, mask: Any) -> CiphertextT:
    """`x` where the mask is 1, zeros where it is 0: one level; `x` itself for the mask True.

    Args:
        mask: a ciphertext of truth, or an array of zeros and ones.
    """
    if mask is True:
        return x
    span = combined(lambda a, b: a * b, x.span, _truth(mask))
    is_known = not (isinstance(mask, CiphertextData | Symbolic) or is_tracer(mask))
    product = kept_to(x * (as_numbers(mask).astype(np.float64) if is_known else mask), x)
    return with_span(product, span)


def over_truth(
    run: Callable[[CiphertextT], CiphertextT], x: CiphertextT, mask: Any, unit: int
) -> CiphertextT:
    """Any or all of the truth where the mask is 1: the product of x, or of 1 - x.

    Args:
        run: gives it without a mask.
        unit: 1 for all, 0 for any: what takes the place of the others.
    """
    _truth(x)
    given = x
    if mask is not True:
        x = 1 - selected(1 - x, mask) if unit else selected(x, mask)
    span = _truth(x)
    error = max(-span.low, span.high - 1, 0.0)
    off = math.expm1(min((known_length(x) or 1) * math.log1p(error), 40.0))
    result = _within(run(x), Span(-off, 1 + off, is_public=span.is_public))
    return with_type(result, of_operands(truth, given))


def check_truth(value: Any) -> None:
    """Raises OperandError for numbers that are not known to be 0 or 1."""
    _truth(value)


def _truth(value: Any) -> Span:
    """The span of numbers that are 0 or 1; OperandError for others."""
    span = None
    if isinstance(value, CiphertextData):
        span = value.span
    elif isinstance(value, Symbolic) or is_tracer(value):
        span = Span(0.0, 1.0) if value.dtype.kind == "b" else None
    elif not isinstance(value, Plaintext):
        numbers = as_numbers(value)
        is_truth = numbers.dtype.kind in "biuf" and bool(np.isin(numbers, (0, 1)).all())
        span = Span(0.0, 1.0) if is_truth else None
    if span is not None and span.is_truth:
        return span
    raise OperandError(
        f"{user_line()} applies an operator of bits or of truth to numbers that may be others than "
        "0 and 1.",
        "Truth is a number that is 0 or 1, as a comparison gives it.",
        "Compare, as in (x > 0) & (y < 1), or state x.within(0, 1). Without that write x * y for "
        "x & y, x + y - x * y for x | y, 1 - x for ~x.",
    )


# ------------------------------------------------------------------- choices


@circuit("where")
def where(condition: CiphertextT, a: Any, b: Any) -> CiphertextT:
    """a where the condition is 1, b where it is 0: b + condition (a - b). One level.

    The result of a comparison is a condition, and so are `x.within(0, 1)` and zeros and ones in the
    clear. For these the tracked bound is the larger one of a and b. Other encrypted numbers give
    what the formula says.

    Raises:
        ParameterError: numbers in the clear that are not 0 or 1.
    """
    check_ciphertext(condition, "where", a, b)
    _check_in_the_clear(condition)
    rule = of_choice(condition, a, b)
    a, b = _wide(a), _wide(b)
    with numbers_of_user():
        difference = a - b
    is_encrypted = isinstance(difference, type(condition))
    if is_encrypted or isinstance(difference, np.ndarray):
        need_level(condition, 1, "where")
    if is_encrypted:
        need_level(difference, 1, "where")
    with numbers_of_user():
        result = with_type(b + condition * difference, rule)
    truth = getattr(condition, "span", None)
    return result if truth is None or not truth.is_truth else between(result, truth, a, b)


def _wide(value: Any) -> Any:
    """Numbers in the clear in a type whose differences do not wrap around; others as they are.

    Integers of 64 bits are float64, as encoding has them.
    """
    if isinstance(value, list | tuple):
        value = as_numbers(value)
    if isinstance(value, Symbolic):
        is_narrow = np.asarray(value.sample).dtype.kind in "bui" and hasattr(value.sample, "dtype")
        return value.map(_wide) if is_narrow else value
    if is_tracer(value):
        is_narrow = isinstance(value, jax.Array) and value.dtype.kind in "bui"
        return embedding.as_floats(value) if is_narrow else value
    if not isinstance(value, np.ndarray | np.generic | jax.Array):
        return value
    if value.dtype.kind not in "bui":
        return value
    return np.asarray(value).astype(np.int64 if value.dtype.itemsize < 8 else np.float64)


def _check_in_the_clear(condition: Any) -> None:
    is_hidden = isinstance(condition, CiphertextData | Plaintext | Symbolic)
    if is_hidden or is_tracer(condition):
        return
    given = as_numbers(condition)
    if not np.isin(given, (0, 1)).all():
        raise ParameterError(
            "where got a condition in the clear with other numbers than 0 and 1.",
            "It is truth: 1 takes a, 0 takes b.",
            "Write values != 0, if every number other than 0 is true.",
        )


def noise_beside(v: Any, noise: Noise, result: CiphertextData) -> Noise:
    """Noise of an operand, with the axes of that of a result that it is broadcast to."""
    blocks = result.layout.blocks
    is_alike = v.layout.length is None or v.layout.columns == result.layout.columns
    if is_alike and v.layout.blocks == blocks:
        return noise
    return noises.beside_blocks(noise, is_alike and v.layout.blocks == 1)


def between(result: Any, truth: Span, a: Any, b: Any) -> Any:
    """`result`, which lies between a and b, up to the error of the truth that chose.

    Args:
        truth: where the factor of a lies; that of b is the rest to 1.
    """
    beyond = 1 + 2 * max(-truth.low, truth.high - 1, 0.0)
    given = [v for v in (a, b) if isinstance(v, CiphertextData | Plaintext)]
    hidden = [noise_beside(v, v.noise, result) for v in given]
    clear = [v for v in (a, b) if not isinstance(v, CiphertextData | Plaintext)]
    if not any(isinstance(v, Symbolic) or is_tracer(v) for v in clear):
        largest = [float(noises.public_bound(np.abs(as_numbers(v)).max())) for v in clear]
        noise = hidden[0] if hidden else noises.ZERO
        for other in hidden[1:]:
            noise = noises.larger(noise, other)
        for bound in largest:
            noise = noises.reaching(noise, bound)
        result = within_that_of(result, noise, beyond)
    spans = [getattr(v, "span", None) or of_number(v, is_public=False) for v in (a, b)]
    return with_span(result, combined(lambda c, a, b: b + c * (a - b), truth, *spans))
