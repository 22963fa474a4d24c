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


def line(p: Any) -> str:
    """A polynomial in one line; nothing is realized, and no coefficient is shown."""
    ring = p.ring
    q = f"{ring.limbs} limb{'s' * (ring.limbs > 1)}, log2(q)={ring.log2_q:.1f}"
    return f"Poly(n={ring.n}, {q}, {p.domain.value}, {_state(p)})"


def page(p: Any) -> str:
    """A polynomial as HTML: facts, and the graph of a lazy one; a constant's value is shown."""
    state = _state(p)
    if state.startswith("holding"):
        return html.card("Poly", tags=(state,))
    return _card(p.node, state, None if state == "donated" else p.device)


def _state(p: Any) -> str:
    if p._node is None and not isinstance(p._leaf, jax.Array | np.ndarray):
        return f"holding {type(p._leaf).__name__}"
    if p.is_constant:
        return "constant"
    if is_donated(p._in_memory()):
        return "donated"
    return "realized" if p.is_realized else "lazy"


def _card(node: Node, state: str, device: Any) -> str:
    spec: Spec = node.spec
    shape, count = " x ".join(map(str, spec.shape)), 4 * math.prod(spec.shape)
    is_constant = node.op is ops.CONST
    parts = [html.facts([
        ("ring", f"{spec.ring._title}, {spec.ring._size_in_words}"),
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
