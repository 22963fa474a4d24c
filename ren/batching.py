"""Polynomials side by side along a new batch axis, and apart again.

`stacked` and `unstacked` work on limbs in memory, along the first batch axis; `side_by_side` and
`Poly.item` are steps of programs, along the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ren.callers import user_line
from ren.capturing import is_capturing
from ren.core import op as ops
from ren.core.errors import TracedValueError
from ren.core.node import make
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


def side_by_side(polys: Sequence[Poly]) -> Poly:
    """The polynomials, of one ring, along a new last batch axis; `p.item(i)` is one of them."""
    return Poly.from_node(make(ops.STACK, [p.node for p in polys]))


def _stack(group: list[Poly]) -> Poly:
    whole = stacked_arrays([p.limbs for p in group])
    return Poly.from_limbs(whole, group[0].ring, group[0].domain)


def stacked_arrays(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one shape along a new axis: on the host where all of them are."""
    on_host = all(isinstance(a, np.ndarray) for a in arrays)
    return np.stack(arrays, axis) if on_host else jnp.stack(arrays, axis)


def _refuse_capture(what: str) -> None:
    if is_capturing():
        raise TracedValueError(
            f"{user_line()} calls {what} inside a function that is being captured.",
            "Programs have no operation that changes the batch axes.",
            f"Call {what} outside, and let the function work on the whole batch.",
        )
