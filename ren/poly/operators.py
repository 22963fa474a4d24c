"""Operands of polynomial operators as nodes, and the errors of operands that are refused."""

from __future__ import annotations

from typing import Any, NoReturn

import jax
import numpy as np

from ren.core.errors import CoefficientTypeError, DeviceError, DomainError, OperandError
from ren.core.node import Node, const
from ren.core.ring import Domain, RingSpec
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import TRACED
from ren.poly.checks import as_int
from ren.poly.symbolic import Symbolic


def operand(value: Any, ring: RingSpec, domain: Domain, symbol: str) -> Node | None:
    """The constant that an operand is beside a polynomial; None for types that are ignored.

    Raises:
        CoefficientTypeError: numbers that are not integers, and arrays.
    """
    if isinstance(value, Symbolic):
        return value.scalar(ring, domain)
    if _is_integer(value):
        return const(as_int(value), ring, domain)
    if isinstance(value, float | complex | np.ndarray | np.generic | jax.Array):
        raise CoefficientTypeError(
            f"poly {symbol} {type(value).__name__} was written.",
            "A polynomial combines with polynomials of its ring and with Python ints.",
            "Make a Poly of it: Poly(coefficients, ring).",
        )
    return None


def _is_integer(value: Any) -> bool:
    """True of one number of an integer type, also of one that JAX traces: `as_int` tells of it."""
    if isinstance(value, jax.Array):
        return value.ndim == 0 and value.dtype.kind in "iub"
    return hasattr(value, "__index__") and np.ndim(value) == 0


def as_exponent(exponent: Any) -> int:
    """An exponent as an integer >= 0."""
    e = exponent.__index__() if hasattr(exponent, "__index__") else -1
    if e < 0:
        raise CoefficientTypeError(
            f"A polynomial was raised to the power {exponent!r}.",
            "Powers are integers >= 0.",
            "Inverses in Z_q[X]/(X^n + 1) need not exist and are not provided.",
        )
    return e


def as_galois_element(g: Any, n: int) -> int:
    """The exponent of an automorphism of Z_q[X]/(X^n + 1), an odd number in [1, 2n)."""
    g = as_int(g)
    if g % 2 == 0:
        raise DomainError(
            f"automorphism got the galois element {g}.",
            "X -> X^g is an automorphism of Z_q[X]/(X^n + 1) for odd g only.",
            "For a rotation of slots use rotate(k).",
        )
    return g % (2 * n)


def check_movable(source: Any, target: Any) -> None:
    """Raises DeviceError for a polynomial under a trace: its device is decided outside."""
    if source == TRACED:
        raise DeviceError(
            f"{user_line()} moves a polynomial to {target!r} inside a trace.",
            "Under a JAX transformation or ren.jit, where things run is decided outside.",
            "Move the arguments before the call: x.to(device) or jax.device_put.",
        )


def no_division(*_: Any) -> NoReturn:
    """The operators `/`, `//` and `%` of a polynomial."""
    raise OperandError(
        f"{user_line()} divides by or into a polynomial.",
        "Inverses in Z_q[X]/(X^n + 1) need not exist.",
        "x.rescale(moduli) divides and rounds; x * pow(c, -1, x.ring.q) divides by a constant.",
    )


def no_parts(*_: Any) -> NoReturn:
    """The operators `x[i]` and `iter(x)` of a polynomial."""
    raise OperandError(
        f"{user_line()} reads coefficients of a polynomial one by one.",
        "It is a program: its coefficients are there once it has run.",
        "Write x.tolist(), or x.limbs for the array of residues.",
    )
