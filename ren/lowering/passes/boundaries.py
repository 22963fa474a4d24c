"""Pass 5: materialization boundaries: what must be an array of its own."""

from __future__ import annotations

from ren.core import op as ops
from ren.core.node import Node, make
from ren.core.op import Kind
from ren.core.rewrite import Table, rewrite


def choose_boundaries(sink: Node) -> Node:
    """`sink` whose roots and copies read arrays: views and constants there become CONTIGUOUS.

    Transforms are in memory anyhow, so a CONTIGUOUS of one is dropped; everything elementwise
    between two boundaries is free to become one kernel.
    """
    return rewrite(sink, RULES)


def _resident_sources(node: Node) -> Node | None:
    src = tuple(_resident(s) for s in node.src)
    return None if src == node.src else make(node.op, src, node.arg)


def _resident(node: Node) -> Node:
    loose = node.op.kind in (Kind.VIEW, Kind.CONSTANT)
    return make(ops.CONTIGUOUS, (node,)) if loose else node


def _already_resident(node: Node) -> Node | None:
    (x,) = node.src
    in_memory = x.op.kind in (Kind.LEAF, Kind.TRANSFORM, Kind.BOUNDARY)
    return x if in_memory else None


RULES: Table = {
    "SINK": (_resident_sources,),
    "COPY": (_resident_sources,),
    "CONTIGUOUS": (_already_resident,),
}
