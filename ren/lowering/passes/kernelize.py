"""Pass 12: the stores of one kernel become KERNEL; its arrays become SLOTs."""

from __future__ import annotations

from collections.abc import Mapping

from ren.core import op as ops
from ren.core.node import Node, make, toposort
from ren.core.rewrite import ContextTable, rewrite_down
from ren.core.spec import KernelArg, SlotArg, StoreArg

Kernels = Mapping[int, Node]


def kernelize(sink: Node) -> Node:
    """`sink` with every STORE inside a KERNEL(array, ...) whose body reads and writes SLOTs.

    The results of a kernel are its stores in order; AFTER(RESERVED, KERNEL) is one of them.
    """
    return rewrite_down(sink, RULES, kernels_of(sink))


def kernels_of(sink: Node) -> Kernels:
    """The KERNEL of each number, over the arrays that it reads as they stand in the graph."""
    stores: dict[int, list[Node]] = {}
    for node in toposort(sink):
        if node.op is ops.STORE:
            stores.setdefault(node.arg.kernel, []).append(node)
    return {number: _kernel(group) for number, group in stores.items()}


def _filled_by_kernel(node: Node, kernels: Kernels) -> Node | None:
    place, store = node.src
    if store.op is not ops.STORE:
        return None
    return make(ops.AFTER, (place, kernels[store.arg.kernel]))


RULES: ContextTable[Kernels] = {"AFTER": (_filled_by_kernel,)}


def _kernel(stores: list[Node]) -> Node:
    arrays = _arrays(stores)
    places = tuple(store.src[0].arg.index for store in stores)
    return make(ops.KERNEL, arrays, KernelArg(_body(stores, arrays), places))


def _arrays(stores: list[Node]) -> list[Node]:
    """The arrays that a kernel reads, by first use."""
    seen: set[Node] = set()
    bodies = [node for store in stores for node in _expression(store.src[1], seen)]
    return list(dict.fromkeys(node.src[0] for node in bodies if node.op is ops.LOAD))


def _expression(root: Node, seen: set[Node]) -> list[Node]:
    """The nodes of an expression that are not in `seen`, sources first, down to its loads."""
    order: list[Node] = []
    stack = [(root, False)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if node.op is not ops.LOAD:
                stack.extend((s, False) for s in reversed(node.src))
    return order


def _body(stores: list[Node], arrays: list[Node]) -> Node:
    """SINK(STORE(...), ...) over SLOTs: those read count from 0, those written from -1 down."""
    inside = {a: make(ops.SLOT, (), SlotArg(i, a.spec)) for i, a in enumerate(arrays)}
    seen: set[Node] = set()
    written = []
    for i, store in enumerate(stores):
        for node in _expression(store.src[1], seen):
            if node.op is ops.LOAD:
                inside[node] = make(ops.LOAD, (inside[node.src[0]], node.src[1]))
            else:
                src = tuple(inside[s] for s in node.src)
                inside[node] = node if src == node.src else make(node.op, src, node.arg)
        out = make(ops.SLOT, (), SlotArg(-1 - i, store.spec))
        written.append(make(ops.STORE, (out, inside[store.src[1]]), StoreArg()))
    return make(ops.SINK, written)
