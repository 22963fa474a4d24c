"""Pass 3: NTT and INTT where an op requires a domain, and pass 4: round trips cancelled."""

from __future__ import annotations

from ren.core import op as ops
from ren.core.node import Node, make
from ren.core.op import Kind
from ren.core.rewrite import Table, rewrite, to_domain
from ren.core.ring import Domain
from ren.lowering.passes import algebra


def insert_transforms(sink: Node) -> Node:
    """`sink` with every source in the domain that its op wants; mixed operands go to NTT."""
    return rewrite(sink, {op.name: (_convert_sources,) for op in ops.OPS.values() if op.arity != 0})


def _convert_sources(node: Node) -> Node | None:
    if node.spec is None or node.op.kind is Kind.ROOT:
        return None
    want = _wanted(node)
    src = tuple(to_domain(s, want) for s in node.src)
    return None if src == node.src else make(node.op, src, node.arg)


def _wanted(node: Node) -> Domain:
    """A factor that is constant is read as values: the same number everywhere, in any domain."""
    if node.op is ops.MUL and any(s.op is ops.CONST for s in node.src):
        return node.spec.domain
    return node.op.wants or node.spec.domain


def cancel_round_trips(sink: Node) -> Node:
    """`sink` without NTT(INTT(x)), also through a view between the two."""
    return rewrite(sink, ROUND_TRIPS)


def _through_view(node: Node) -> Node | None:
    """NTT(VIEW(INTT(x))) -> VIEW(x), and the same with the two exchanged."""
    (v,) = node.src
    if v.op is ops.VIEW and v.src[0].op.name == node.op.inverse:
        return make(ops.VIEW, v.src[0].src, v.arg)
    return None


def _view_of_view(node: Node) -> Node | None:
    """VIEW(VIEW(x)) -> VIEW(x)."""
    (v,) = node.src
    return make(ops.VIEW, v.src, node.arg) if v.op is ops.VIEW else None


ROUND_TRIPS: Table = {
    "NTT": (*algebra.RULES["NTT"], _through_view),
    "INTT": (*algebra.RULES["INTT"], _through_view),
    "VIEW": (*algebra.RULES["VIEW"], _view_of_view),
}
