"""Pass 6: BUFFERIZE(x) becomes AFTER(RESERVED, STORE(RESERVED, x)): a place, and what fills it."""

from __future__ import annotations

from collections.abc import Mapping

from ren.core import op as ops
from ren.core.node import Node, make, toposort
from ren.core.rewrite import ContextTable, rewrite_down
from ren.core.spec import ReservedArg, StoreArg

Places = Mapping[Node, int]  # the number of the buffer of each BUFFERIZE, sources first


def bufferize(sink: Node) -> Node:
    """`sink` with every kept value stored in a buffer of the plan, and read after the store."""
    kept = (node for node in toposort(sink) if node.op is ops.BUFFERIZE)
    return rewrite_down(sink, RULES, {node: i for i, node in enumerate(kept)})


def _stored(node: Node, places: Places) -> Node:
    (x,) = node.src
    place = make(ops.RESERVED, (), ReservedArg(places[node], x.spec))
    store = make(ops.STORE, (place, x), StoreArg(node.arg.kernel))
    return make(ops.AFTER, (place, store))


RULES: ContextTable[Places] = {"BUFFERIZE": (_stored,)}
