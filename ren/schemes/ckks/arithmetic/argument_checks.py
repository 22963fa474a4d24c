"""Checks of the arguments of methods and functions on ciphertexts: their kind, or an error."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import jax
import numpy as np

from ren.core.errors import (
    OperandError,
    ParameterError,
    RenError,
    TracedValueError,
    kind_of,
    shown,
)
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import is_tracer
from ren.poly.checks import check_concrete
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT, batch_of
from ren.schemes.ckks.parameters.checks import positive


def as_integer(value: Any, what: str) -> int:
    """`value` as an int, without rounding.

    Raises:
        OperandError: it is no integer, or a truth value.
        TracedValueError: it is a number that a captured function does not know yet.
    """
    check_concrete(value)
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except RenError:  # a symbol says more
        raise
    except TypeError:
        pass
    raise OperandError(
        f"{what} got {value!r:.60}, {kind_of(value)}.",
        "It takes an integer.",
        "Write a Python int, or int(k) where k is a whole number.",
    )


def as_integers(values: Any, what: str) -> list[int]:
    """One integer or several, as a list of ints; raises as `as_integer`."""
    return [as_integer(v, what) for v in (values if isinstance(values, Iterable) else [values])]


def as_exponent(value: Any) -> Any:
    """The exponent of a power as an int where it is a whole number, else as it is.

    Raises:
        TracedValueError: it is a number that a captured or traced function does not know yet.
    """
    if is_tracer(value):
        raise TracedValueError(
            f"{user_line()} raises a ciphertext to a power that JAX traces.",
            "The exponent decides which products are computed; inside a trace it has no value.",
            "Pass it as a static argument: jax.jit(f, static_argnums=...).",
        )
    if isinstance(value, np.ndarray | jax.Array) and value.ndim == 0:
        value = value.item()
    if isinstance(value, float | np.floating | Fraction) and value == value // 1:
        value = int(value)
    if isinstance(value, Symbolic):
        return value.__index__()
    return int(value) if isinstance(value, numbers.Integral) else value


def as_bound(bound: Any) -> float:
    """A stated bound as a float; raises ParameterError where it is not a positive number."""
    if (size := positive(bound)) is not None:
        return size
    raise ParameterError(
        f"bound={shown(bound)} was given.",
        "It bounds the modulus of the values: a number above 0.",
        "Write for example bound=1.0, or leave it out.",
    )


def check_ciphertext(value: Any, what: str, *others: Any) -> None:
    """Raises OperandError unless `value`, or one of the others, is a ciphertext."""
    if not any(isinstance(v, CiphertextData) for v in (value, *others)):
        write = "Encrypt it first: ctx.encrypt(values). For numbers in the clear use NumPy."
        if isinstance(value, list | tuple) and any(isinstance(v, CiphertextData) for v in value):
            write = "Pass one after another, or a batch of them: ckks.stack([x, y])."
        elif isinstance(value, bytes | bytearray | memoryview):
            write = "Read it first: ckks.Ciphertext.from_bytes(data)."
        raise OperandError(f"{what} got {kind_of(value)}.", "It takes a ciphertext.", write)


def as_ciphertexts(values: Iterable[CiphertextT], what: str, *others: Any) -> list[CiphertextT]:
    """Several ciphertexts as a list, one at least.

    Raises:
        OperandError: anything else, one alone included.
        ParameterError: none.
    """
    is_one = isinstance(values, CiphertextData) and not batch_of(values)
    if others or is_one or not isinstance(values, Iterable):
        count = f"{1 + len(others)} arguments" if others else kind_of(values)
        raise OperandError(
            f"{what} got {count}.",
            "It takes a list of ciphertexts.",
            f"Write {what.partition('(')[0]}([x, y]).",
        )
    ciphertexts = list(values)
    for value in ciphertexts:
        check_ciphertext(value, what)
    if not ciphertexts:
        raise ParameterError(
            f"{what} got 0 ciphertexts.",
            "At least one ciphertext is needed. Arrays are joined before they are encrypted.",
            f"Pass a list of at least one, {what.partition('(')[0]}([x, y]).",
        )
    return ciphertexts


def check_function(value: Any, what: str) -> None:
    """Raises OperandError unless `value` can be called."""
    if not callable(value) or isinstance(value, CiphertextData):
        raise OperandError(
            f"{what} got {kind_of(value)} in place of a function.",
            "It calls a function.",
            "Pass its name, f and not f(x), or a lambda.",
        )


def check_real(x: CiphertextData, what: str) -> None:
    """Raises unless `x` is a ciphertext of real numbers."""
    check_ciphertext(x, what)
    if x.layout.is_complex:
        raise ParameterError(
            f"{what} got a ciphertext of complex numbers.",
            "It is approximated on an interval of real numbers, and far off elsewhere.",
            "Pass x.real or x.imag; polynomials of complex numbers are ckks.poly.",
        )


def check_real_moment(x: CiphertextData, what: str, instead: str) -> None:
    """Raises unless `x` is a ciphertext of real numbers; `instead` is the code for complex ones."""
    check_ciphertext(x, what)
    if x.layout.is_complex:
        raise ParameterError(
            f"{what} got a ciphertext of complex numbers.",
            "It sums up products of real numbers.",
            f"Write {instead}.",
        )
