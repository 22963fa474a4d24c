"""Pass 9: constants in explicit form: the same number everywhere, or one coefficient."""

from __future__ import annotations

from ren.core import op as ops
from ren.core.node import Node, make
from ren.core.rewrite import Table, rewrite, with_sources
from ren.core.ring import Domain


def expand_constants(sink: Node) -> Node:
    """`sink` with each CONST as FILL (a factor; all values in the NTT domain) or DELTA (at X^0).

    A SCALAR, one residue a limb, stands for all values as it is; at X^0 it is AT_ZERO(SCALAR). Of
    two constants that are multiplied one is the factor.
    """
    return rewrite(sink, RULES)


def _explicit(node: Node) -> Node:
    factors = node.src if node.op is ops.MUL else ()
    if factors and all(s.spec.is_constant for s in factors):
        factors = factors[:1]
    src = tuple(_expanded(s, i < len(factors)) for i, s in enumerate(node.src))
    return with_sources(node, src)


def _expanded(node: Node, is_factor: bool) -> Node:
    if not node.spec.is_constant:
        return node
    everywhere = is_factor or node.spec.domain is Domain.NTT
    if node.op is ops.SCALAR:
        return node if everywhere else make(ops.AT_ZERO, (node,))
    return make(ops.FILL if everywhere else ops.DELTA, (), node.arg)


RULES: Table = {
    op.name: (_explicit,) for op in ops.OPS.values() if op.arity != 0 and op is not ops.AT_ZERO
}
