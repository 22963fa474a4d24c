"""Pass 4: round trips between the domains are cancelled, also through views."""

from __future__ import annotations

from ren.core import op as ops
from ren.core.node import Node, make
from ren.core.rewrite import Table, rewrite
from ren.lowering.passes import algebra


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
