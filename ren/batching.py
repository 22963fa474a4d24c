"""Polynomials side by side along a new batch axis, and apart again: on limbs in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ren.callers import user_line
from ren.capturing import is_capturing
from ren.core.errors import TracedValueError
from ren.poly import Poly, realize_polys


def stacked(groups: Sequence[Sequence[Poly]], what: str) -> list[Poly]:
    """The polynomials of each group as one, with a new leading axis; all run as one program.

    Args:
        groups: each of one ring, domain and batch shape.
        what: the operation, for errors.

    Raises:
        TracedValueError: inside a function that `ren.jit` captures.
    """
    _refuse_capture(what)
    realized = iter(realize_polys([p for group in groups for p in group]))
    return [_stack([next(realized) for _ in group]) for group in groups]


def unstacked(polys: Sequence[Poly], what: str) -> list[list[Poly]]:
    """The parts of each polynomial along its leading axis; all run as one program.

    Raises:
        TracedValueError: inside a function that `ren.jit` captures.
    """
    _refuse_capture(what)
    realized = realize_polys(polys)
    return [[Poly.from_limbs(part, p.ring, p.domain) for part in p.limbs] for p in realized]


def _stack(group: list[Poly]) -> Poly:
    whole = stacked_arrays([p.limbs for p in group])
    return Poly.from_limbs(whole, group[0].ring, group[0].domain)


def stacked_arrays(arrays: Sequence[Any]) -> Any:
    """Arrays of one shape with a new leading axis: on the host where all of them are."""
    on_host = all(isinstance(a, np.ndarray) for a in arrays)
    return np.stack(arrays) if on_host else jnp.stack(arrays)


def _refuse_capture(what: str) -> None:
    if is_capturing():
        raise TracedValueError(
            f"{user_line()} calls {what} inside a function that is being captured.",
            "Programs have no operation that changes the batch axes.",
            f"Call {what} outside, and let the function work on the whole batch.",
        )
