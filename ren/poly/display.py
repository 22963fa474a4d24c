"""Display of a polynomial: one line, and in notebooks a drawing of its program."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from ren.core import html
from ren.core import op as ops
from ren.core.node import Node, toposort
from ren.core.op import Kind
from ren.core.printer import shortened
from ren.core.ring import Domain
from ren.core.spec import Spec
from ren.core.text_table import size
from ren.lowering.devices.donation import is_donated
from ren.lowering.inspect.svg import to_svg

_READ_AS = {Domain.COEFF: "coefficients", Domain.NTT: "values at the 2n-th roots of unity (NTT)"}


class Shown:
    """Gives `Poly` its texts; nothing is realized, and no coefficient is shown but a constant's."""

    __slots__ = ()

    def __repr__(self: Any) -> str:
        ring = self.ring
        q = f"{ring.limbs} limb{'s' * (ring.limbs > 1)}, log2(q)={ring.log2_q:.1f}"
        return f"Poly(n={ring.n}, {q}, {self.domain.value}, {_state(self)})"

    def _repr_html_(self: Any) -> str:
        state = _state(self)
        if state.startswith("holding"):
            return html.card("Poly", tags=(state,))
        return poly_page(self.node, state, None if state == "donated" else self.device)


def _state(p: Any) -> str:
    if p._node is None and not isinstance(p._leaf, jax.Array | np.ndarray):
        return f"holding {type(p._leaf).__name__}"
    if p.is_constant:
        return "constant"
    if is_donated(p._in_memory()):
        return "donated"
    return "realized" if p.is_realized else "lazy"


def poly_page(node: Node, state: str, device: Any) -> str:
    """A polynomial as HTML: facts, and the graph of a lazy one.

    Args:
        node: its program.
        state: what it is, in a word: "lazy", "realized", "constant", "donated".
        device: where it is or will be; None where that is nowhere.
    """
    spec: Spec = node.spec
    shape, count = " x ".join(map(str, spec.shape)), 4 * math.prod(spec.shape)
    is_constant = node.op is ops.CONST
    parts = [html.facts([
        ("ring", f"{spec.ring.title}, {spec.ring._size_in_words}"),
        ("read as", _READ_AS[spec.domain]),
        ("batch", " x ".join(map(str, spec.batch))),
        ("value", shortened(node.arg.value) if is_constant else ""),
        ("limbs", "" if is_constant else f"{shape} uint32, {size(count)}"),
        ("device", "" if device is None else str(device)),
    ])]  # fmt: skip
    if state == "lazy":
        steps = sum(n.op.kind is not Kind.LEAF for n in toposort(node))
        parts.append(html.note(f"Not computed yet: a program of {steps} operations."))
        parts.append(html.picture(to_svg(node)))
    return html.card("Poly", *parts, tags=(state,))
