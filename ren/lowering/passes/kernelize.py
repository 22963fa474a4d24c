"""Pass 12: the stores of one kernel become KERNEL; its arrays become SLOTs."""

from __future__ import annotations

from ren.core import op as ops
from ren.core.args import KernelArg, SlotArg, StoreArg
from ren.core.node import Node, make, toposort

Stores = dict[int, list[Node]]


def kernelize(sink: Node) -> Node:
    """`sink` with every STORE inside a KERNEL(array, ...) whose body reads and writes SLOTs.

    The results of a kernel are its stores in order; AFTER(RESERVED, KERNEL) is one of them.
    """
    stores: Stores = {}
    for node in toposort(sink):
        if node.op is ops.STORE:
            stores.setdefault(node.arg.kernel, []).append(node)
    arrays = {number: _arrays(group) for number, group in stores.items()}
    kernels: dict[int, Node] = {}
    new: dict[Node, Node] = {}
    stack = [sink]
    while stack:
        node = stack[-1]
        filled = node.op is ops.AFTER and node.src[1].op is ops.STORE
        needed = arrays[node.src[1].arg.kernel] if filled else node.src
        pending = [a for a in needed if a not in new]
        if node in new or not pending:
            stack.pop()
            if node not in new:
                new[node] = _rebuilt(node, filled, stores, arrays, kernels, new)
        else:
            stack.extend(reversed(pending))
    return new[sink]


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


def _rebuilt(
    node: Node,
    filled: bool,
    stores: Stores,
    arrays: dict[int, list[Node]],
    kernels: dict[int, Node],
    new: dict[Node, Node],
) -> Node:
    if not filled:
        src = tuple(new[s] for s in node.src)
        return node if src == node.src else make(node.op, src, node.arg)
    number = node.src[1].arg.kernel
    if number not in kernels:
        body = _body(stores[number], arrays[number])
        places = tuple(store.src[0].arg.index for store in stores[number])
        read = [new[a] for a in arrays[number]]
        kernels[number] = make(ops.KERNEL, read, KernelArg(body, places))
    return make(ops.AFTER, (node.src[0], kernels[number]))


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
