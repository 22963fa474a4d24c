"""Pass 4: fewer transforms: round trips cancelled, conversions sunk through linear ops.

NTT(INTT(x)) is x, also with a view between. NTT(EMBED(x)) is EMBED(NTT(x)), of a smaller degree.
Where nothing else reads them, NTT(a) + NTT(b) is NTT(a + b), and INTT(NTT(a) + c) is a + INTT(c).
None ever makes a transform.
"""

from __future__ import annotations

from ren.core import op as ops
from ren.core.node import NO_ARG, Node, make
from ren.core.op import Op
from ren.core.rewrite import Table, rewrite, to_domain
from ren.core.ring import Domain, RingSpec
from ren.lowering.passes import simplify_algebra as algebra
from ren.lowering.passes.sinking import Sinkable, sink_through_sums


def reduce_transforms(sink: Node) -> Node:
    """`sink` with round trips cancelled and transforms of a sum's operands as one of the sum."""
    while True:
        before = sink
        sink = rewrite(sink, ROUND_TRIPS)
        for transform in _TRANSFORMS:
            sink = sink_through_sums(sink, transform)
        if sink is before:
            return sink


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
