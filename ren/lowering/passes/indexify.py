"""Pass 11: reads of arrays become loads at an index: which limbs, and in which order."""

from __future__ import annotations

from ren.core import op as ops
from ren.core.node import Node, make
from ren.core.op import OPS, Kind
from ren.core.rewrite import EdgeTable, Table, rewrite
from ren.core.ring import limb_positions
from ren.core.spec import GridArg, IndexArg


def indexify(sink: Node) -> Node:
    """`sink` with LOAD(array, INDEX(GIDX)) for every array that a kernel reads.

    Views and permutations between the array and the work move into the index.
    """
    return rewrite(sink, RULES, edges=READS)


def _load(array: Node, like: Node, limbs: tuple[int, ...], galois: int = 1) -> Node:
    """The limbs at these positions of an array, permuted, with the type of `like`."""
    grid = make(ops.GIDX, (), GridArg(like.spec))
    return make(ops.LOAD, (array, make(ops.INDEX, (grid,), IndexArg(limbs, galois))))


def _loaded(reader: Node, source: Node) -> Node:
    """f(array) -> f(LOAD(array)); a STORE's place is written, not read."""
    if source.op.kind is Kind.LEAF or source.op in (ops.AFTER, ops.COPY, ops.BUFFER_VIEW):
        return _load(source, source, tuple(range(source.spec.ring.limbs)))
    return source


def _view_of_load(node: Node) -> Node | None:
    """VIEW(LOAD(array)) -> LOAD of fewer limbs."""
    (x,) = node.src
    if x.op is not ops.LOAD:
        return None
    array, index = x.src
    taken = limb_positions(node.spec.ring.moduli, x.spec.ring.moduli)
    return _load(array, node, tuple(index.arg.limbs[i] for i in taken), index.arg.galois)


def _permutation_of_load(node: Node) -> Node | None:
    """PERMUTE(LOAD(array)) -> LOAD at permuted positions; one permutation fits in an index."""
    (x,) = node.src
    if x.op is not ops.LOAD or x.src[1].arg.galois != 1:
        return None
    array, index = x.src
    return _load(array, node, index.arg.limbs, node.arg.g)


_IN_MEMORY = (Kind.ROOT, Kind.MEMORY, Kind.BOUNDARY, Kind.INDEX)
READS: EdgeTable = {
    op.name: _loaded for op in OPS.values() if op.kind not in _IN_MEMORY or op is ops.STORE
}
RULES: Table = {"VIEW": (_view_of_load,), "PERMUTE": (_permutation_of_load,)}
