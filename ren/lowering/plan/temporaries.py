"""Memory use of a kernel under XLA: the inputs that it can overwrite, and its temporaries.

Estimates, measured on XLA:CPU (n = 2^12 and 2^14, 1 to 21 limbs); `memory_report.measure` asks XLA.
"""

from __future__ import annotations

from collections.abc import Callable

from ren.core import op as ops
from ren.core.node import Node, toposort
from ren.core.op import Kind, Op
from ren.lowering.program.steps import KernelUnit, Unit, nbytes, read_slots

Estimate = Callable[[Node, bool], int]


def _transform(node: Node, in_place: bool) -> int:
    """Stages alternate between two buffers; a donated input is one of them."""
    return nbytes(node.spec) * (1 if in_place else 2)


def _convert(node: Node, in_place: bool) -> int:
    """The scaled source limbs, once as 32 and once, in part, as 64 bits."""
    return nbytes(node.src[0].spec) * 3 // 2


def _lift(node: Node, in_place: bool) -> int:
    """The mixed-radix digits; a single limb is its own digit."""
    source = node.src[0].spec
    return nbytes(source) if source.ring.limbs > 1 else 0


_ESTIMATES: dict[Op, Estimate] = {
    ops.NTT: _transform,
    ops.INTT: _transform,
    ops.CONVERT: _convert,
    ops.LIFT: _lift,
}


def scratch(unit: Unit, in_place: bool) -> int:
    """An estimate of the temporary bytes of a unit's executable.

    Args:
        unit: the unit.
        in_place: whether one of its results stands in a donated buffer.
    """
    if not isinstance(unit, KernelUnit):
        return 0
    body = toposort(unit.kernel.body)[:-1]
    return max((_ESTIMATES[n.op](n, in_place) for n in body if n.op in _ESTIMATES), default=0)


def overwritable(unit: KernelUnit) -> dict[int, int]:
    """Inputs that XLA overwrites without another copy: position in `ins` -> position in `outs`.

    Elementwise work and transforms read a residue where they write one. A gather (an automorphism,
    a base conversion, a view) reads elsewhere. Several results that read one input have no order in
    XLA. In both cases XLA would copy what it overwrites.
    """
    readers: dict[Node, set[int]] = {}  # the stores that a node's value reaches
    gathered: set[Node] = set()
    order = toposort(unit.kernel.body)[:-1]
    for i, store in enumerate(unit.kernel.body.src):
        readers.setdefault(store, set()).add(i)
    for node in reversed(order):
        for s in node.src:
            readers.setdefault(s, set()).update(readers[node])
        if node in gathered or not _is_in_place(node):
            gathered.update(node.src)
    slots = [n for n in read_slots(order) if n not in gathered and len(readers[n]) == 1]
    return {slot.arg.index: min(readers[slot]) for slot in slots}


def _is_in_place(node: Node) -> bool:
    if node.op is ops.LOAD:
        return is_whole(node)
    return node.op.kind is Kind.ELEMENTWISE or node.op in _IN_PLACE


def is_whole(load: Node) -> bool:
    """True for a LOAD of all limbs as they are."""
    array, index = load.src
    return index.arg.limbs == tuple(range(array.spec.ring.limbs)) and index.arg.galois == 1


_IN_PLACE = (ops.NTT, ops.INTT, ops.STORE, ops.CONTIGUOUS, ops.INDEX, ops.GIDX)
