"""A lowered graph into a plan: which nodes share a kernel, what is kept in memory, in what order.

1. Views and constants belong to whoever reads them; they cost nothing by themselves.
2. A transform is a kernel of its own. Its level is one more than that of what it reads.
3. Elementwise nodes of one level that are connected form a cluster. A path that leaves a cluster
   passes a transform, so its level grows and it never comes back: clusters form no cycle.
4. A cluster over the node budget is cut in topological order, so that repeated segments of a long
   program become the same kernel.
"""

from __future__ import annotations

from ren.core import op as ops
from ren.core.node import Node, toposort
from ren.core.op import Kind
from ren.lowering.plan import CopyUnit, Input, KernelUnit, Plan, Unit, with_last_uses
from ren.lowering.program import kernel_of

# XLA:CPU took 0.4 s for 500 fused elementwise steps with two live values and 6.4 s for 1,000
# (DESIGN.md). 96 is a multiple of 2, 3, 4 and 6, the periods of common loops, whose segments then
# repeat exactly.
NODE_BUDGET = 96

Group = tuple[Node, ...]


def schedule(sink: Node) -> Plan:
    """The plan that computes every root of `sink`, which has been through the pipeline."""
    order = toposort(sink)[:-1]
    reads = {node: _reads(node) for node in order}
    groups = _groups(order, reads)
    group_of = {node: group for group in groups for node in group}
    kept = _kept(sink, order, reads, group_of)
    inputs = [node for node in order if node.op.kind is Kind.LEAF]
    value = {node: i for i, node in enumerate(inputs)}
    units = [_unit(group, kept, value) for group in _in_order(sink, reads, group_of)]
    outputs = tuple(value[root] for root in sink.src)
    return Plan(
        inputs=tuple(Input(node.arg, node.spec) for node in inputs),
        units=with_last_uses(units, outputs),
        outputs=outputs,
        output_specs=tuple(root.spec for root in sink.src),
    )


def _reads(node: Node) -> tuple[Node, ...]:
    """The nodes that `node` reads when views are looked through and constants are inlined."""
    found = []
    for s in node.src:
        while s.op.kind is Kind.VIEW:
            s = s.src[0]
        if s.op.kind is not Kind.CONSTANT:
            found.append(s)
    return tuple(found)


def _groups(order: list[Node], reads: dict[Node, tuple[Node, ...]]) -> list[Group]:
    level: dict[Node, int] = {}
    leader: dict[Node, Node] = {}  # a union-find forest over elementwise nodes
    alone: list[Group] = []
    for node in order:
        floor = max((level[r] + (r.op is ops.CONTIGUOUS) for r in reads[node]), default=0)
        level[node] = floor
        if node.op.kind is Kind.ELEMENTWISE or node.op is ops.CONTIGUOUS:
            leader[node] = node
            for r in reads[node]:
                if r in leader and r.op is not ops.CONTIGUOUS and level[r] == floor:
                    leader[_find(leader, r)] = _find(leader, node)
        elif node.op.kind in (Kind.TRANSFORM, Kind.BOUNDARY):
            level[node] = floor + 1
            alone.append((node,))
    clusters: dict[Node, list[Node]] = {}
    for node in order:
        if node in leader:
            clusters.setdefault(_find(leader, node), []).append(node)
    return alone + [piece for nodes in clusters.values() for piece in _cut(nodes)]


def _find(leader: dict[Node, Node], node: Node) -> Node:
    while leader[node] is not node:
        leader[node] = leader[leader[node]]
        node = leader[node]
    return node


def _cut(nodes: list[Node]) -> list[Group]:
    return [tuple(nodes[i : i + NODE_BUDGET]) for i in range(0, len(nodes), NODE_BUDGET)]


def _kept(
    sink: Node,
    order: list[Node],
    reads: dict[Node, tuple[Node, ...]],
    group_of: dict[Node, Group],
) -> set[Node]:
    """Nodes whose value leaves their group: roots, and what another group reads."""
    kept = set(sink.src)
    for node in order:
        home = group_of.get(node)
        if home is not None:
            kept.update(r for r in reads[node] if group_of.get(r) is not home)
            if node.op is ops.CONTIGUOUS:
                kept.add(node)
    return kept


def _in_order(
    sink: Node, reads: dict[Node, tuple[Node, ...]], group_of: dict[Node, Group]
) -> list[Group]:
    """Groups, each after those that it reads; depth-first, so that values die early."""
    ordered: list[Group] = []
    seen: set[int] = set()
    stack = [(group_of[r], False) for r in reversed(sink.src) if r in group_of]
    while stack:
        group, expanded = stack.pop()
        if expanded:
            ordered.append(group)
        elif id(group) not in seen:
            seen.add(id(group))
            stack.append((group, True))
            needed = dict.fromkeys(r for node in group for r in reads[node])
            below = [group_of[r] for r in needed if r in group_of]
            stack.extend((g, False) for g in reversed(below) if id(g) not in seen)
    return ordered


def _unit(group: Group, kept: set[Node], value: dict[Node, int]) -> Unit:
    """The unit of a group; numbers the values that it makes."""
    if group[0].op is ops.COPY:
        (node,) = group
        ins = (value[node.src[0]],)
        value[node] = len(value)
        return CopyUnit(node.arg.device, ins, (value[node],))
    stored = [node for node in group if node in kept]
    kernel, slots = kernel_of(list(group), stored)
    ins = tuple(value[node] for node in slots)
    for node in stored:
        value[node] = len(value)
    return KernelUnit(kernel, ins, tuple(value[node] for node in stored))
