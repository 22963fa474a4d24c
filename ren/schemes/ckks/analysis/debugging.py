"""ckks.debug: a function of ciphertexts beside the same in the clear, operation by operation."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ren.core.errors import (
    ContextError,
    OperandError,
    PrecisionError,
    TracedValueError,
    kind_of,
)
from ren.core.user_frame import user_line
from ren.lowering.devices.trace_inputs import is_transforming
from ren.poly import Poly
from ren.poly.realization import symbolic_value, with_capture
from ren.schemes.ckks.arithmetic.argument_checks import check_function
from ren.schemes.ckks.arithmetic.operation_hooks import Shadow
from ren.schemes.ckks.bootstrapping.bootstrap import NAME as BOOTSTRAP
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.schemes.ckks.context import Context
from ren.schemes.ckks.encoding.ciphertext_data import is_columns
from ren.schemes.ckks.encoding.encoder import as_numbers, of_frame
from ren.schemes.ckks.encoding.plaintext import Plaintext, as_slots, decoded
from ren.schemes.ckks.noise.around import with_around
from ren.schemes.ckks.parameters.checks import check_real
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.active_context import active_context, context_for

Slots = NDArray[np.complex128]  # [*batch, slots]
_ARRAYS = np.ndarray | jax.Array | list | tuple


def debug(
    f: Callable[..., Any], *inputs: Any, tolerance: float = 1e-3, context: Context | None = None
) -> Any:
    """f(*inputs), with every operation on ciphertexts decrypted and compared with NumPy's.

    It stops at the first operation whose error is above the tolerance. Functions under `ren.jit`
    run operation by operation. What is encrypted inside `f`, or closed over, is taken as it is. An
    approximated function is compared as the polynomial that it is: `ckks.precision` tells more.

    Args:
        f: a function of ciphertexts.
        inputs: arrays, lists and tables of pandas, which are encrypted; ciphertexts; anything else
            as it is.
        tolerance: the largest error that is allowed in a slot, absolute.
        context: holds the secret; the active one, or that of a ciphertext among the inputs, if it
            is left out.

    Returns:
        The result of `f`.

    Raises:
        PrecisionError: names the operation, the user's line, and both values in the worst slot.
        ParameterError: a tolerance that is no number from 0 on.
        OperandError: what is not a function, or a context that is none.
        ContextError: no context that holds the secret.
        TracedValueError: inside a JAX transformation, where there are no values to compare.
    """
    check_function(f, "debug()")
    remedy = "Pass the largest error that you allow in a slot, such as tolerance=1e-3."
    check_real("tolerance", tolerance, 0, math.inf, remedy)
    ctx = _context_of(inputs) if context is None else _checked_context(context)
    watching = _Watching(ctx, tolerance)
    given = [watching.input(v) for v in inputs]
    with with_around(watcher=watching.seen), with_capture(is_inlining=True):
        return f(*given)


def _checked_context(context: Any) -> Context:
    if isinstance(context, Context):
        return context
    raise OperandError(
        f"debug() got {kind_of(context)} as context.",
        "It encrypts arrays, and decrypts every result, with a context that holds the secret.",
        "Pass what ckks.context() gave: ckks.debug(f, x, context=ctx).",
    )


def _context_of(inputs: tuple[Any, ...]) -> Context:
    if isinstance(active := active_context(Parameters), Context):
        return active
    for value in inputs:
        if isinstance(value, Ciphertext):
            return _owner_of(value)
    raise ContextError(
        "debug() got no ciphertext, and no context is active.",
        "It encrypts arrays, and decrypts every result, with a context that holds the secret.",
        "Write ckks.debug(f, x, context=ctx).",
    )


def _owner_of(x: Ciphertext) -> Context:
    context = context_for(x.key_id, "debug()")
    if isinstance(context, Context):
        return context
    raise symbolic_value()  # while a function is captured


class _Watching:
    """The shadows of the ciphertexts that one call of `debug` has seen."""

    def __init__(self, context: Context, tolerance: float) -> None:
        self._context, self._tolerance = context, tolerance
        self._shadows: weakref.WeakKeyDictionary[Ciphertext, Slots] = weakref.WeakKeyDictionary()
        # Those that are known only from what was decrypted. An operation makes some on its way.
        self._read: weakref.WeakSet[Ciphertext] = weakref.WeakSet()

    def input(self, value: Any) -> Any:
        """An argument of the function; arrays, and tables of pandas, encrypted."""
        value = of_frame(value)
        if not isinstance(value, _ARRAYS):
            return value
        result = self._context.encrypt(value)
        self._shadows[result] = _padded(value, result)
        return result

    def seen(
        self, name: str, shadow: Shadow, operands: tuple[Any, ...], result: Ciphertext
    ) -> None:
        """Compares the result of an operation with that of its shadow."""
        if result in self._shadows and result not in self._read:
            return
        if is_transforming():
            raise TracedValueError(
                f"{user_line()} computes on ciphertexts inside a JAX transformation under debug().",
                "There, they have no values that could be compared.",
                "Debug the function that is transformed, on one of its inputs.",
            )
        expected = np.asarray(shadow(*(self._value(o, result) for o in operands)))
        got = self._decrypted(result)
        if name == BOOTSTRAP and not result.layout.tail.is_bounded:  # large leftovers change
            expected = np.where(_is_number(result), expected, got)
        if not np.abs(got - expected).max() <= self._tolerance:
            raise _too_far(name, result, got, np.broadcast_to(expected, got.shape), self._tolerance)
        self._shadows[result] = expected
        given = [o for o in operands if isinstance(o, Ciphertext)]
        if all(o in self._read for o in given):
            self._read.add(result)
        else:
            self._read.discard(result)

    def _value(self, operand: Any, made: Ciphertext) -> Any:
        if isinstance(operand, Ciphertext):
            if operand not in self._shadows:
                self._shadows[operand] = self._decrypted(operand)
                self._read.add(operand)
            return self._shadows[operand]
        if isinstance(operand, Plaintext):
            return decoded(operand)
        if isinstance(operand, tuple) and any(isinstance(v, Poly) for v in operand):
            return operand
        return _padded(operand, made) if isinstance(operand, _ARRAYS) else operand

    def _decrypted(self, x: Ciphertext) -> Slots:
        is_ours = x.key_id == self._context.key_id
        return (self._context if is_ours else _owner_of(x)).slots_of(x)


def _padded(values: Any, x: Ciphertext) -> Slots:
    """Values as they lie in the slots of `x`, zeros behind them."""
    shape = x.layout.shape if x.layout.has_shape else None
    fits = np.ndim(values) and _broadcasts(np.shape(values), x.shape)  # unlike a shape
    if fits and (shape or is_columns(x)):  # a table packed flat, or by its columns
        values = np.broadcast_to(as_numbers(values), x.shape)
        if is_columns(x):
            values = np.moveaxis(values, -1, -2)
        elif shape:
            values = values.reshape(*x.shape[: len(x.shape) - len(shape)], -1)
    z, _ = as_slots(values, x.slots, x.layout.blocks)
    slots = np.zeros((*z.shape[:-1], x.slots), np.complex128)
    slots[..., : z.shape[-1] if z.ndim else None] = z
    return slots


def _is_number(x: Ciphertext) -> NDArray[np.bool_]:
    """True for slots within the length, which hold numbers: bool [slots] or [block, slots]."""
    shape = (x.layout.blocks, x.slots) if x.layout.blocks > 1 else (x.slots,)
    length = x.layout.length
    return np.arange(math.prod(shape)).reshape(shape) < (math.inf if length is None else length)


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """True where `numpy.broadcast_to` takes an array of one shape to the other."""
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(k in (1, size) for k, size in pairs)


def _too_far(name: str, x: Ciphertext, got: Slots, want: Slots, tolerance: float) -> PrecisionError:
    error = np.abs(got - want)
    slot = np.unravel_index(int(np.nan_to_num(error, nan=np.inf).argmax()), error.shape)
    if not x.layout.is_complex and np.abs(want.imag).max() == 0:
        got, want = got.real, want.real  # type: ignore[assignment]
    where = ", ".join(str(int(i)) for i in slot)
    return PrecisionError(
        f"{user_line()}: {name} is off by {error[slot]:.3g} in slot {where} at level {x.level}: "
        f"{got[slot]:.6g} instead of {want[slot]:.6g}.",
        f"The tolerance is {tolerance:.3g}; the tracked noise allows {x.estimate.error_bound:.3g}.",
        "Choose a larger scale_bits (precision) or integer_bits (range), or keep values smaller.",
    )
