"""Pass 12: the stores of one kernel become KERNEL; its arrays become SLOTs."""

from __future__ import annotations

from collections.abc import Mapping

from ren.core import op as ops
from ren.core.node import Node, make, toposort
from ren.core.rewrite import ContextTable, rebuild, rewrite_down
from ren.core.spec import KernelArg, SlotArg, StoreArg

Kernels = Mapping[int, Node]  # the KERNEL of each number, over the arrays of the graph as it was


def kernelize(sink: Node) -> Node:
    """`sink` with every STORE inside a KERNEL(array, ...) whose body reads and writes SLOTs.

    The results of a kernel are its stores in order; AFTER(RESERVED, KERNEL) is one of them.
    """
    stores: dict[int, list[Node]] = {}
    for node in toposort(sink):
        if node.op is ops.STORE:
            stores.setdefault(node.arg.kernel, []).append(node)
    kernels = {number: _kernel(group) for number, group in stores.items()}
    return rewrite_down(sink, RULES, kernels)


def _filled_by_kernel(node: Node, kernels: Kernels) -> Node | None:
    place, store = node.src
    if store.op is not ops.STORE:
        return None
    return make(ops.AFTER, (place, kernels[store.arg.kernel]))


RULES: ContextTable[Kernels] = {"AFTER": (_filled_by_kernel,)}


def _kernel(stores: list[Node]) -> Node:
    """The kernel of some stores: slots that are read count from 0, those written from -1 down."""
    order = toposort(*[store.src[1] for store in stores], until=ops.LOAD)
    arrays = list(dict.fromkeys(node.src[0] for node in order if node.op is ops.LOAD))
    slots = {a: make(ops.SLOT, (), SlotArg(i, a.spec)) for i, a in enumerate(arrays)}

    def loaded(node: Node, _: Mapping[Node, Node]) -> Node | None:
        is_load = node.op is ops.LOAD
        return make(ops.LOAD, (slots[node.src[0]], node.src[1])) if is_load else None

    inside, written = rebuild(order, loaded), []
    for i, store in enumerate(stores):
        out = make(ops.SLOT, (), SlotArg(-1 - i, store.spec))
        written.append(make(ops.STORE, (out, inside[store.src[1]]), StoreArg()))
    places = tuple(store.src[0].arg.index for store in stores)
    return make(ops.KERNEL, arrays, KernelArg(make(ops.SINK, written), places))
