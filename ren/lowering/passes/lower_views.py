"""Pass 10: quotient views: a run of limbs of an array is a BUFFER_VIEW and costs nothing."""

from __future__ import annotations

from ren.core import op as ops
from ren.core.node import Node, make
from ren.core.op import Kind
from ren.core.rewrite import rewrite
from ren.core.ring import contiguous_run
from ren.core.spec import BufferViewArg

_ARRAYS = (Kind.LEAF, Kind.MEMORY, Kind.BOUNDARY)


def lower_views(sink: Node) -> Node:
    """`sink` whose roots that are views of arrays are BUFFER_VIEWs; other views stay in loads."""
    return rewrite(sink, {}, edges={"SINK": _root_view})


def _root_view(reader: Node, root: Node) -> Node:
    if root.op is not ops.VIEW or root.src[0].op.kind not in _ARRAYS:
        return root
    run = contiguous_run(root.spec.ring.moduli, root.src[0].spec.ring.moduli)
    if run is None:
        return root
    return make(ops.BUFFER_VIEW, root.src, BufferViewArg(root.spec.ring, *run))
