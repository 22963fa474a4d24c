"""Display of a polynomial: one line, and in notebooks a drawing of its program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, TypeVar

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
from ren.lowering.devices.devices import is_tracer
from ren.lowering.devices.donation import is_donated
from ren.lowering.inspect.svg import to_svg

T = TypeVar("T")
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


def steady(*leaves: str) -> Callable[[type[T]], type[T]]:
    """Decorate a class so that repr, str and notebook page never raise, whatever its leaves are.

    `jax.tree.map` and `jax.eval_shape` put anything there, and a donated array cannot be read. The
    text then names the types in the fields `leaves`.
    """

    def decorate(kind: type[T]) -> type[T]:
        for name in ("__repr__", "__str__", "_repr_html_"):
            if name in vars(kind):
                is_page = name == "_repr_html_"
                setattr(kind, name, _steadied(vars(kind)[name], leaves, is_page))
        return kind

    return decorate


def _steadied(
    describe: Callable[[Any], str], leaves: Iterable[str], is_page: bool
) -> Callable[[Any], str]:
    @wraps(describe)
    def text(value: Any) -> str:
        try:
            return describe(value)
        except Exception:
            title = type(value).__name__
            held = sorted(set(_held(getattr(value, name, None) for name in leaves)))
            state = f"holding {', '.join(held)}"
            return html.card(title, tags=(state,)) if is_page else f"<{title} {state}>"

    return text


def _held(values: Iterable[Any]) -> Iterator[str]:
    """The types of leaves: of arrays dtype and shape, or that they were donated."""
    for value in values:
        if isinstance(value, dict | tuple | list):
            yield from _held(value.values() if isinstance(value, dict) else value)
        elif hasattr(type(value), "_in_memory"):  # a polynomial
            yield from _held([value._leaf] if value._node is None else [])
        elif isinstance(value, jax.Array | np.ndarray):
            is_gone = isinstance(value, jax.Array) and not is_tracer(value) and value.is_deleted()
            yield "a donated array" if is_gone else f"{value.dtype}{list(value.shape)}"
        else:
            yield type(value).__name__


def _state(p: Any) -> str:
    if p._node is None and not isinstance(p._leaf, jax.Array | np.ndarray):
        return f"holding {type(p._leaf).__name__}"
    if p._node is None and (p._leaf.shape[-2:], p._leaf.dtype) != (
        (p.ring.limbs, p.ring.n),
        np.uint32,
    ):
        return f"holding {p._leaf.dtype}{list(p._leaf.shape)}"
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
