"""Pass 11: reads of arrays become loads at an index: which limbs, and in which order."""

from __future__ import annotations

from ren.core import op as ops
from ren.core.args import GridArg, IndexArg
from ren.core.node import Node, make, toposort
from ren.core.op import Kind
from ren.core.ring import limb_positions


def indexify(sink: Node) -> Node:
    """`sink` with LOAD(array, INDEX(GIDX)) for every array that a kernel reads.

    Views and permutations between the array and the work move into the index.
    """
    new: dict[Node, Node] = {}
    for node in toposort(sink):
        in_memory = (Kind.ROOT, Kind.MEMORY, Kind.BOUNDARY, Kind.INDEX)
        if node.op.kind in in_memory and node.op is not ops.STORE:
            src = tuple(new.get(s, s) for s in node.src)
        else:
            src = tuple(_loaded(s, new) for s in node.src)
        if node.op is ops.STORE:
            src = (new[node.src[0]], src[1])
        new[node] = node if src == node.src else make(node.op, src, node.arg)
    return new[sink]


def _loaded(node: Node, new: dict[Node, Node]) -> Node:
    """`node` as work inside a kernel: an array read through its views and permutation."""
    array, galois = node, 1
    while array.op in (ops.VIEW, ops.PERMUTE):
        if array.op is ops.PERMUTE:
            if galois != 1 or array.src[0].op is ops.FLIP:
                return new[node]
            galois = array.arg.g
        array = array.src[0]
    if not _is_array(array):
        return new[node]
    limbs = limb_positions(node.spec.ring.moduli, array.spec.ring.moduli)
    grid = make(ops.GIDX, (), GridArg(node.spec))
    index = make(ops.INDEX, (grid,), IndexArg(limbs, galois))
    return make(ops.LOAD, (new[array], index))


def _is_array(node: Node) -> bool:
    return node.op.kind is Kind.LEAF or node.op in (ops.AFTER, ops.COPY, ops.BUFFER_VIEW)
