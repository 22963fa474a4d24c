"""The binary operators of a Ciphertext, by the kind of the other operand."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ren.lowering.devices import is_tracer
from ren.schemes.ckks import arithmetic, explicit
from ren.schemes.ckks.modes import is_manual
from ren.schemes.ckks.plaintext import Plaintext, encode
from ren.symbolic import Symbolic, as_symbol

if TYPE_CHECKING:
    from ren.schemes.ckks.ciphertext import Ciphertext


@dataclasses.dataclass(frozen=True)
class Operator:
    """One binary operator, by the kind of its other operand."""

    ciphertext: Callable[[Ciphertext, Ciphertext], Ciphertext]
    plaintext: Callable[[Ciphertext, Plaintext], Ciphertext]
    integer: Callable[[Ciphertext, Any], Ciphertext]
    number: Callable[[Ciphertext, Any], Ciphertext]
    array: Callable[[Ciphertext, Any], Ciphertext]
    by_hand: Operator | None = None

    def __call__(self, x: Ciphertext, other: Any) -> Ciphertext:
        if self.by_hand is not None:  # automatic, unless that is off
            if is_manual():
                return self.by_hand(x, other)
            x, other = explicit.normal(x), _normal(x, other)
        if isinstance(other, type(x)):
            return self.ciphertext(x, other)
        if isinstance(other, Plaintext):
            return self.plaintext(x, other)
        if isinstance(other, Symbolic):
            return self._symbolic(x, other)
        if isinstance(other, np.ndarray | jax.Array) and other.ndim == 0 and not is_tracer(other):
            other = other.item()
        if isinstance(other, numbers.Integral | np.bool):
            return self.integer(x, int(other))
        if isinstance(other, numbers.Real):
            return self.number(x, float(other))
        if isinstance(other, numbers.Complex):
            return self.number(x, complex(other))
        if isinstance(other, np.ndarray | list | tuple | jax.Array):
            return self.array(x, other)
        return NotImplemented

    def _symbolic(self, x: Ciphertext, other: Symbolic) -> Ciphertext:
        """By the type of what is known at each call of a captured function."""
        if other.is_array:
            return self.array(x, other)
        if isinstance(other.sample, numbers.Integral | np.bool):
            return self.integer(x, other.map(int))
        if isinstance(other.sample, numbers.Real):
            return self.number(x, other.map(float))
        return self.number(x, other.map(complex))


def _normal(x: Ciphertext, other: Any) -> Any:
    return explicit.normal(other) if isinstance(other, type(x)) else other


def _encoded(x: Ciphertext, values: Any) -> Plaintext:
    """An array as a plaintext for `x`; one with a shape takes what broadcasts against that."""
    if x.layout.shape is not None and not is_tracer(values):
        symbol = as_symbol(values)
        values = x.layout.flattened(values) if symbol is None else symbol.map(x.layout.flattened)
    return encode(values, x.params, x.level, x.layout.blocks)


SUM = Operator(
    arithmetic.add,
    arithmetic.add_plain,
    arithmetic.add_scalar,
    arithmetic.add_scalar,
    lambda x, values: arithmetic.add_plain(x, _encoded(x, values)),
    Operator(
        explicit.add,
        explicit.add_plain,
        explicit.add_scalar,
        explicit.add_scalar,
        explicit.add_array,
    ),
)
DIFFERENCE = Operator(
    arithmetic.subtract,
    arithmetic.subtract_plain,
    lambda x, value: arithmetic.add_scalar(x, -value),
    lambda x, value: arithmetic.add_scalar(x, -value),
    lambda x, values: arithmetic.subtract_plain(x, _encoded(x, values)),
    Operator(
        explicit.subtract,
        explicit.subtract_plain,
        lambda x, value: explicit.add_scalar(x, -value),
        lambda x, value: explicit.add_scalar(x, -value),
        explicit.subtract_array,
    ),
)
PRODUCT = Operator(
    arithmetic.multiply,
    arithmetic.multiply_plain,
    arithmetic.multiply_integer,
    arithmetic.multiply_scalar,
    lambda x, values: arithmetic.multiply_plain(x, _encoded(x, values)),
    Operator(
        explicit.multiply,
        explicit.multiply_plain,
        explicit.multiply_integer,
        explicit.multiply_scalar,
        explicit.multiply_array,
    ),
)
