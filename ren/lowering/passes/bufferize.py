"""Pass 6: BUFFERIZE(x) becomes AFTER(RESERVED, STORE(RESERVED, x)): a place, and what fills it."""

from __future__ import annotations

from ren.core import op as ops
from ren.core.args import ReservedArg, StoreArg
from ren.core.node import Node, make, toposort


def bufferize(sink: Node) -> Node:
    """`sink` with every kept value stored in a buffer of the plan, and read after the store."""
    new: dict[Node, Node] = {}
    places = 0
    for node in toposort(sink):
        src = tuple(new[s] for s in node.src)
        if node.op is ops.BUFFERIZE:
            place = make(ops.RESERVED, (), ReservedArg(places, src[0].spec))
            store = make(ops.STORE, (place, src[0]), StoreArg(node.arg.kernel))
            new[node] = make(ops.AFTER, (place, store))
            places += 1
        else:
            new[node] = node if src == node.src else make(node.op, src, node.arg)
    return new[sink]
