"""Pass 3: NTT and INTT where an op requires a domain; mixed operands go to NTT."""

from __future__ import annotations

from ren.core import op as ops
from ren.core.node import Node
from ren.core.op import Kind
from ren.core.rewrite import rewrite, to_domain, with_sources
from ren.core.ring import Domain


def insert_transforms(sink: Node) -> Node:
    """`sink` with every source in the domain that its op wants; mixed operands go to NTT."""
    return rewrite(sink, {op.name: (_convert_sources,) for op in ops.OPS.values() if op.arity != 0})


def _convert_sources(node: Node) -> Node | None:
    if node.spec is None or node.op.kind is Kind.ROOT:
        return None
    want = _wanted(node)
    src = tuple(to_domain(s, want) for s in node.src)
    return with_sources(node, src)


def _wanted(node: Node) -> Domain:
    """A factor that is constant is read as values: the same number everywhere, in any domain."""
    if node.op is ops.MUL and any(s.spec.is_constant for s in node.src):
        return node.spec.domain
    return node.op.wants or node.spec.domain
