"""The binary operators of a Ciphertext, by the kind of the other operand."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Protocol

import jax
import numpy as np

from ren.core.errors import OperandError
from ren.lowering.devices.devices import is_tracer
from ren.lowering.devices.tracing import is_tracing
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.arithmetic import automatic as arithmetic
from ren.schemes.ckks.arithmetic import manual as explicit
from ren.schemes.ckks.arithmetic.mode import is_manual
from ren.schemes.ckks.arithmetic.operation_hooks import in_circuit
from ren.schemes.ckks.arithmetic.tails import fills_slots
from ren.schemes.ckks.circuits.broadcasting import (
    array_operand,
    broadcast_pair,
    encoded_operand,
    plain_operand,
)
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT, known_length
from ren.schemes.ckks.encoding.plaintext import Plaintext, as_slots
from ren.schemes.ckks.encoding.values import as_numbers


class Operation(Protocol):
    """A function of a ciphertext and one kind of other operand."""

    def __call__(self, x: CiphertextT, other: Any, /) -> CiphertextT: ...


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
    by_hand: Operator | None = None

    def __call__(self, x: CiphertextT, other: Any) -> CiphertextT:
        operator = self
        if self.by_hand is not None:  # automatic, unless that is off
            if is_manual():
                operator = self.by_hand
            else:
                x, other = explicit.normal(x), _normal(x, other)
        return operator.apply(x, other)

    def apply(self, x: CiphertextT, other: Any) -> CiphertextT:
        """The operation, by the kind of the other operand; shapes broadcast as in NumPy."""
        if isinstance(other, type(x)):
            return self.ciphertext(*broadcast_pair(x, other, self.name))
        if isinstance(other, Plaintext):
            return self.plaintext(*plain_operand(x, other, self.name))
        if isinstance(other, Symbolic):
            return self._symbolic(x, other)
        if isinstance(other, np.ndarray | jax.Array) and other.ndim == 0 and not is_tracer(other):
            other = as_numbers(other).item()
        if isinstance(other, np.timedelta64):
            return NotImplemented
        if isinstance(other, numbers.Integral | np.bool):
            return self.integer(x, int(other))
        if isinstance(other, numbers.Real | np.generic | Decimal):
            return self._number(x, other)
        if isinstance(other, numbers.Complex):
            return self.number(x, complex(other))
        if isinstance(other, np.ndarray | list | tuple | jax.Array):
            return self.array(x, other)
        if _may_know(other, self.method):
            return NotImplemented
        raise OperandError(
            f"{self.name} got a ciphertext and a {type(other).__name__}.",
            "The other operand is a ciphertext, a plaintext, a number or an array of numbers.",
            "Pass one of these; a function without a return statement gives None.",
        )

    def _number(self, x: CiphertextData, other: Any) -> Any:
        value = as_numbers(other)
        if value.dtype.kind == "c":
            return self.number(x, complex(value))
        return self.number(x, float(value)) if value.dtype.kind in "iuf" else NotImplemented

    def _symbolic(self, x: CiphertextT, other: Symbolic) -> CiphertextT:
        """By the type of what is known at each call of a captured function."""
        if other.is_array:
            return self.array(x, other)
        if isinstance(other.sample, numbers.Integral | np.bool):
            return self.integer(x, other.map(int))
        if isinstance(other.sample, numbers.Real):
            return self.number(x, other.map(float))
        return self.number(x, other.map(complex))


def _may_know(other: Any, method: str) -> bool:
    """Whether an operand of a foreign type may compute with a ciphertext by itself."""
    if isinstance(other, str | bytes | bytearray):
        return False
    return hasattr(type(other), f"__r{method}__") or hasattr(type(other), f"__{method}__")


def _normal(x: CiphertextData, other: Any) -> Any:
    return explicit.normal(other) if isinstance(other, type(x)) else other


def _with_array(
    function: Callable[[CiphertextT, Any], CiphertextT], what: str
) -> Callable[[CiphertextT, Any], CiphertextT]:
    """A function of a ciphertext and a plaintext as one of a ciphertext and an array."""

    def run(x: CiphertextT, values: Any) -> CiphertextT:
        return function(*encoded_operand(x, _untraced(x, values), what))

    return run


def _with_values(
    function: Callable[[CiphertextT, Any], CiphertextT], what: str
) -> Callable[[CiphertextT, Any], CiphertextT]:
    """The same of a function that encodes the array itself, at a scale of its own."""

    def run(x: CiphertextT, values: Any) -> CiphertextT:
        return function(*array_operand(x, _untraced(x, values), what))

    return run


def _untraced(x: CiphertextData, values: Any) -> Any:
    if is_tracer(values):
        as_slots(values, x.slots)  # raises: encoding happens on the host
    return values


def _plus_number(x: CiphertextT, value: Any) -> CiphertextT:
    """x + value; inside a JAX transformation zeros beyond the length stay zeros.

    A sum with a number leaves it in all slots, which costs least. The type of the result then
    differs, and the carry of a `lax.scan` keeps to one type.
    """
    if is_tracing() and not in_circuit() and x.layout.tail.is_zero and not fills_slots(x):
        return SUM.array(x, np.full((known_length(x) or 0,), value).reshape(x.layout.shape or -1))
    return arithmetic.add_scalar(x, value)


SUM = Operator(
    "A sum",
    "add",
    arithmetic.add,
    arithmetic.add_plain,
    _plus_number,
    _plus_number,
    _with_array(arithmetic.add_plain, "A sum"),
    Operator(
        "A sum",
        "add",
        explicit.add,
        explicit.add_plain,
        explicit.add_scalar,
        explicit.add_scalar,
        _with_values(explicit.add_array, "A sum"),
    ),
)
DIFFERENCE = Operator(
    "A difference",
    "sub",
    arithmetic.subtract,
    arithmetic.subtract_plain,
    lambda x, value: _plus_number(x, -value),
    lambda x, value: _plus_number(x, -value),
    _with_array(arithmetic.subtract_plain, "A difference"),
    Operator(
        "A difference",
        "sub",
        explicit.subtract,
        explicit.subtract_plain,
        lambda x, value: explicit.add_scalar(x, -value),
        lambda x, value: explicit.add_scalar(x, -value),
        _with_values(explicit.subtract_array, "A difference"),
    ),
)


def _product_with_array(x: CiphertextT, values: Any) -> CiphertextT:
    """x * values, which warns where they are zeros at each call of a captured function."""
    x, p = encoded_operand(x, _untraced(x, values), "A product")
    return arithmetic.multiply_array(x, arithmetic.told(p, values))


PRODUCT = Operator(
    "A product",
    "mul",
    arithmetic.multiply,
    arithmetic.multiply_plain,
    arithmetic.multiply_integer,
    arithmetic.multiply_scalar,
    _product_with_array,
    Operator(
        "A product",
        "mul",
        explicit.multiply,
        explicit.multiply_plain,
        explicit.multiply_integer,
        explicit.multiply_scalar,
        _with_values(explicit.multiply_array, "A product"),
    ),
)
