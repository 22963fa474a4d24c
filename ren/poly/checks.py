"""Checks of what users pass to Poly and to ren.jit."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from ren.core.errors import (
    CoefficientTypeError,
    DomainError,
    JitError,
    RenError,
    RingError,
    TracedValueError,
)
from ren.core.ring import RingSpec
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import is_tracer


def as_int(value: Any) -> int:
    """`value` as a Python int, without rounding."""
    check_concrete(value)
    try:
        return operator.index(value)
    except RenError:
        raise
    except TypeError:
        raise CoefficientTypeError(
            f"{value!r} of type {type(value).__name__} was given.",
            "An integer is needed here.",
            "Write a Python int.",
        ) from None


def check_concrete(value: Any) -> None:
    """Raises TracedValueError where a number is needed and JAX traces one."""
    if is_tracer(value):
        raise TracedValueError(
            f"{user_line()} needs the value of a number that is traced by JAX.",
            "Integers become residues, or steps, on the host: they must be known there.",
            "Make it static (static_argnums of jax.jit), or pass a Poly that was made outside.",
        )


def check_ring(ring: Any) -> None:
    """Raises RingError unless `ring` is a RingSpec."""
    if not isinstance(ring, RingSpec):
        raise RingError(
            f"The ring given is of type {type(ring).__name__}.",
            "A ren.RingSpec is needed.",
            "Write for example RingSpec(n=8, moduli=(17, 97)).",
        )


def check_options(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises JitError, with the nearest of the `known` options of `what`, where any is `given`."""
    for name in given:
        near = difflib.get_close_matches(name, known := sorted(known), 1, 0.0)[0]
        raise JitError(
            f"{what} got the option {name!r}, which it does not have.",
            f"Its options are {', '.join(known)}.",
            f"Perhaps you mean {near!r}.",
        )


def check_limbs(limbs: Any, ring: RingSpec) -> None:
    """Raises DomainError unless `limbs` is a `uint32[*batch, limb, n]` array that fits the ring."""
    shape, dtype = getattr(limbs, "shape", None), getattr(limbs, "dtype", None)
    if shape is None or dtype is None or not hasattr(limbs, "__array__"):
        given = f"The limb array of a polynomial is a {type(limbs).__name__}."
    elif tuple(shape[-2:]) != (ring.limbs, ring.n) or dtype != np.uint32:
        given = f"The limb array of a polynomial is {dtype}{list(shape)}."
    else:
        return
    raise DomainError(
        given,
        f"It is uint32[*batch, {ring.limbs}, {ring.n}] for this ring: limbs second to last, "
        "coefficients last.",
        "jax.eval_shape gives shapes alone: call the function itself for values."
        if isinstance(limbs, jax.ShapeDtypeStruct)
        else "Keep the last two axes and the dtype when you map over a polynomial's leaf.",
    )
