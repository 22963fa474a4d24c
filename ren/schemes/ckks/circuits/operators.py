"""The binary operators of a Ciphertext, by the kind of the other operand."""

from __future__ import annotations

import dataclasses
import functools
import numbers
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import jax
import numpy as np

from ren.lowering.devices.devices import is_tracer
from ren.lowering.devices.trace_inputs import is_transforming
from ren.lowering.kernels import embedding
from ren.poly import Poly
from ren.poly.batching import traced_array
from ren.poly.symbolic import Symbolic, as_symbol
from ren.schemes.ckks.arithmetic.automatic import AUTOMATIC, Automatic, span_with_number
from ren.schemes.ckks.arithmetic.evolve import fills_slots, with_span
from ren.schemes.ckks.arithmetic.manual import MANUAL, is_manual, normal
from ren.schemes.ckks.arithmetic.number_types import of_result, with_type
from ren.schemes.ckks.arithmetic.operation_hooks import in_circuit, told_if_zero, with_levels
from ren.schemes.ckks.circuits.broadcasting import (
    array_operand,
    broadcast_pair,
    encoded_for,
    encoded_operand,
    plain_operand,
)
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    is_columns,
    known_length,
    with_fields,
)
from ren.schemes.ckks.encoding.encoder import as_numbers, is_no_operand, of_frame
from ren.schemes.ckks.encoding.plaintext import Plaintext, encode
from ren.schemes.ckks.encoding.refusals import wrong_operand

# A function of a mode, a ciphertext, and one kind of other operand.
Operation = Callable[[Automatic, Any, Any], Any]


@dataclasses.dataclass(frozen=True)
class Operator:
    """One binary operator, by the kind of its other operand."""

    name: str
    method: str
    ciphertext: Operation
    plaintext: Operation
    integer: Operation
    number: Operation
    array: Operation

    def __call__(self, x: CiphertextT, other: Any) -> CiphertextT:
        """The operation, by the kind of the other operand; shapes broadcast as in NumPy."""
        result = self._result(x, other)
        if x.stated_dtype is None or result is NotImplemented:
            return result
        return with_type(result, None if in_circuit() else of_result(x, other))

    @with_levels
    def _result(self, x: CiphertextT, other: Any) -> CiphertextT:
        if x.params.above is not None:
            x, other = x._fresh(), other._fresh() if isinstance(other, type(x)) else other
        mode: Automatic = MANUAL
        if not is_manual():
            mode, x = AUTOMATIC, normal(x)
            other = normal(other) if isinstance(other, type(x)) else other
        if isinstance(other, type(x)):
            if x.keeps is None is not other.keeps:
                x = with_fields(x, keeps=other.keeps)
            return self.ciphertext(mode, *broadcast_pair(x, other, self.name))
        if isinstance(other, Plaintext):
            return self.plaintext(mode, *plain_operand(x, other, self.name))
        if isinstance(other, Symbolic):
            return self._symbolic(mode, x, other)
        other = traced_array(of_frame(other))
        if is_tracer(other):
            return self._traced(mode, x, other)
        if isinstance(other, np.ndarray | jax.Array) and other.ndim == 0:
            other = as_numbers(other).item()
        if is_no_operand(other):
            raise wrong_operand(self.name, other)
        if isinstance(other, numbers.Integral | np.bool):
            return self.integer(mode, x, int(other))
        if isinstance(other, numbers.Real | np.generic | Decimal):
            return self._number(mode, x, other)
        if isinstance(other, numbers.Complex):
            return self.number(mode, x, complex(other))
        if isinstance(other, np.ndarray | list | tuple | jax.Array):
            return self.array(mode, x, other)
        kind = type(other)
        if not isinstance(other, Poly) and any(
            hasattr(kind, f"__{m}{self.method}__") for m in ("r", "")
        ):
            return NotImplemented  # a foreign type may compute with a ciphertext by itself
        raise wrong_operand(self.name, other)

    def _number(self, mode: Automatic, x: CiphertextData, other: Any) -> Any:
        value = as_numbers(other)
        if value.dtype.kind == "c":
            return self.number(mode, x, complex(value))
        if value.dtype.kind not in "iuf":
            raise wrong_operand(self.name, other)
        return self.number(mode, x, float(value))

    def _traced(self, mode: Automatic, x: CiphertextT, other: Any) -> CiphertextT:
        """By the shape and type of what JAX traces."""
        if mode is MANUAL:
            as_numbers(other)  # raises: scales of manual mode are not those of a traced encoding
        if other.ndim:
            return self.array(mode, x, other)
        return (self.integer if other.dtype.kind in "iub" else self.number)(mode, x, other)

    def _symbolic(self, mode: Automatic, x: CiphertextT, other: Symbolic) -> CiphertextT:
        """By the type of what is known at each call of a captured function."""
        if other.is_array:
            return self.array(mode, x, other)
        if isinstance(other.sample, numbers.Integral | np.bool):
            return self.integer(mode, x, other.map(int))
        if isinstance(other.sample, numbers.Real):
            return self.number(mode, x, other.map(float))
        return self.number(mode, x, other.map(complex))


def _plus_array(mode: Automatic, x: CiphertextT, values: Any) -> CiphertextT:
    """x + values; in manual mode they are encoded at the scale of `x`."""
    if mode is MANUAL:
        return MANUAL.add_array(*array_operand(x, values, "A sum"))
    return mode.add_plain(*encoded_operand(x, values, "A sum"))


def _minus_array(mode: Automatic, x: CiphertextT, values: Any) -> CiphertextT:
    if mode is MANUAL:
        return MANUAL.subtract_array(*array_operand(x, values, "A difference"))
    return mode.subtract_plain(*encoded_operand(x, values, "A difference"))


def _times_array(mode: Automatic, x: CiphertextT, values: Any) -> CiphertextT:
    """x * values, which warns where they are zeros at each call of a captured function."""
    by_columns = is_columns(x)
    x, flat = array_operand(x, values, "A product")
    start, factor, origin = mode.start_of(x, flat)
    p = encoded_for(start, factor, start.level, by_columns)
    if (symbol := as_symbol(values)) is not None:  # for one product: it goes along with the noise
        noise = told_if_zero(p.noise, symbol, float(p.scale), "a product with an array")
        p = with_fields(p, noise=noise)
    return mode.product_of(x, flat, mode.multiply_array(start, p), origin)


def _plus_number(mode: Automatic, x: CiphertextT, value: Any) -> CiphertextT:
    """x + value; inside a JAX transformation zeros beyond the length stay zeros.

    A sum with a number leaves it in all slots, which costs least. The type of the result then
    differs, and the carry of a `lax.scan` keeps to one type.
    """
    is_traced = mode is AUTOMATIC and is_transforming() and not in_circuit()
    if is_traced and x.layout.tail.is_zero and not fills_slots(x):
        shape = x.layout.shape or (known_length(x) or 0,)
        values = _full(value, (*shape, 1) if is_columns(x) else shape)
        return with_span(_plus_array(mode, x, values), span_with_number(operator.add, x, value))
    if is_tracer(value):
        return mode.add_plain(x, encode(value, x.params, x.level))
    return mode.add_scalar(x, value)


def _full(value: Any, shape: tuple[int, ...]) -> Any:
    if isinstance(value, Symbolic):
        return value.map(functools.partial(np.full, shape))
    return embedding.filled(value, shape) if is_tracer(value) else np.full(shape, value)


def _minus_number(mode: Automatic, x: CiphertextT, value: Any) -> CiphertextT:
    if is_tracer(value):  # of a type that may have no sign
        value = embedding.as_floats(value)
    return _plus_number(mode, x, -value)


def _times_number(mode: Automatic, x: CiphertextT, value: Any) -> CiphertextT:
    if not is_tracer(value) and (x.origin is None or x.origin.is_by_number):
        return mode.multiply_scalar(x, value)
    start, factor, origin = mode.start_of(x, value)
    if np.ndim(factor):
        p = encoded_for(start, factor, start.level, is_columns(x))
        result = mode.multiply_array(start, p)
    else:
        result = mode.multiply_plain(start, encode(factor, start.params, start.level))
    return mode.product_of(x, value, result, origin)


def _times_integer(mode: Automatic, x: CiphertextT, value: Any) -> CiphertextT:
    if is_tracer(value):
        return mode.multiply_traced_integer(x, value)
    return mode.multiply_integer(x, value)


SUM = Operator(
    "A sum", "add", Automatic.add, Automatic.add_plain, _plus_number, _plus_number, _plus_array
)
DIFFERENCE = Operator(
    "A difference",
    "sub",
    Automatic.subtract,
    Automatic.subtract_plain,
    _minus_number,
    _minus_number,
    _minus_array,
)
PRODUCT = Operator(
    "A product",
    "mul",
    Automatic.multiply,
    Automatic.multiply_plain,
    _times_integer,
    _times_number,
    _times_array,
)
