"""Pass 4: fewer transforms: round trips cancelled, conversions sunk through linear ops.

NTT(INTT(x)) is x, also with a view between. NTT(EMBED(x)) is EMBED(NTT(x)), of a smaller degree.
Where several automorphisms of x are transformed, each is an automorphism of NTT(x).
Where nothing else reads them, NTT(a) + NTT(b) is NTT(a + b), and INTT(NTT(a) + c) is a + INTT(c).
None ever makes a transform.
"""

from __future__ import annotations

from collections.abc import Mapping

from ren.core import op as ops
from ren.core.node import NO_ARG, Node, make, toposort
from ren.core.op import Op
from ren.core.rewrite import Table, rebuild, rewrite, to_domain
from ren.core.ring import Domain, RingSpec
from ren.lowering.passes import simplify_algebra as algebra
from ren.lowering.passes.sinking import Sinkable, sink_through_sums


def reduce_transforms(sink: Node) -> Node:
    """`sink` with round trips cancelled and transforms of a sum's operands as one of the sum."""
    while True:
        before = sink
        sink = rewrite(_with_shared_transforms(sink), ROUND_TRIPS)
        for transform in _TRANSFORMS:
            sink = sink_through_sums(sink, transform)
        if sink is before:
            return sink


def _with_shared_transforms(sink: Node) -> Node:
    """NTT(s(x)) as s(NTT(x)) where x is transformed under several automorphisms s, or none."""
    order = toposort(sink)
    found: dict[Node, list[Node]] = {}
    for node in order:
        if node.op is ops.NTT:
            found.setdefault(_moved(node.src[0]), []).append(node)
    shared = {n for nodes in found.values() if len(nodes) > 1 for n in nodes}
    if not any([n.src[0].op in _AUTOMORPHISMS for n in shared]):
        return sink

    def exchanged(node: Node, new: Mapping[Node, Node]) -> Node | None:
        if node not in shared or node.src[0].op not in _AUTOMORPHISMS:
            return None
        (moved,) = node.src
        return make(moved.op, (make(ops.NTT, (new[moved.src[0]],)),), moved.arg)

    return rebuild(order, exchanged)[sink]


_AUTOMORPHISMS = (ops.ROTATE, ops.AUTOMORPHISM)


def _moved(x: Node) -> Node:
    return x.src[0] if x.op in _AUTOMORPHISMS else x


def _through_view(node: Node) -> Node | None:
    """NTT(VIEW(INTT(x))) -> VIEW(x), and the same with the two exchanged."""
    (v,) = node.src
    if v.op is ops.VIEW and v.src[0].op.name == node.op.inverse:
        return make(ops.VIEW, v.src[0].src, v.arg)
    return None


def _through_embedding(node: Node) -> Node | None:
    """NTT(EMBED(x)) -> EMBED(NTT(x)), and the same for INTT: the smaller transform."""
    (v,) = node.src
    return make(ops.EMBED, (make(node.op, v.src),), v.arg) if v.op is ops.EMBED else None


ROUND_TRIPS: Table = {
    "NTT": (*algebra.RULES["NTT"], _through_view, _through_embedding),
    "INTT": (*algebra.RULES["INTT"], _through_view, _through_embedding),
    "EMBED": algebra.RULES["EMBED"],
    "VIEW": (*algebra.RULES["VIEW"], algebra.last_of_two),
}


def _transform(op: Op, source: Domain) -> Sinkable:
    def constant(p: Node, ring: RingSpec) -> Node | None:
        return to_domain(p, source) if p.spec.is_constant else None

    inverse = ops.OPS[op.inverse or ""]
    return Sinkable(op, (ops.NEG,), constant, lambda like: NO_ARG, inverse)


_TRANSFORMS = (_transform(ops.NTT, Domain.COEFF), _transform(ops.INTT, Domain.NTT))
