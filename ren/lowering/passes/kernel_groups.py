"""Part of pass 5: which nodes run as one kernel.

Levels: the result of a transform is one level above what it reads. Other work is in the level of
what it reads, or later. Elementwise nodes of one level that are connected are a group.
"""

from __future__ import annotations

from ren.core import op as ops
from ren.core.node import Node
from ren.core.op import Kind

# XLA:CPU took 0.4 s for 500 fused elementwise steps with two live values and 6.4 s for 1,000
# (DESIGN.md). 96 is a multiple of 2, 3, 4 and 6, the periods of common loops, whose segments then
# repeat exactly.
NODE_BUDGET = 96

Group = tuple[Node, ...]
# What a node reads when what is inlined is looked through, and whether it needs it in memory.
Reads = dict[Node, tuple[tuple[Node, bool], ...]]


def groups_of(reads: Reads) -> list[Group]:
    """The nodes that kernels compute, by kernel."""
    level = _levels(reads)
    leader: dict[Node, Node] = {}  # a union-find forest over elementwise nodes
    alone: list[Group] = []
    for node, read in reads.items():
        if _is_fused(node):
            leader[node] = node
            for r, barrier in read:
                if r in leader and not barrier and level[r] == level[node]:
                    leader[_find(leader, r)] = _find(leader, node)
        elif node.op.kind in (Kind.TRANSFORM, Kind.BOUNDARY):
            alone.append((node,))
    clusters: dict[Node, list[Node]] = {}
    for node in leader:
        clusters.setdefault(_find(leader, node), []).append(node)
    return alone + [piece for nodes in clusters.values() for piece in _cut(nodes)]


def _is_fused(node: Node) -> bool:
    return node.op.kind is Kind.ELEMENTWISE or node.op is ops.CONTIGUOUS


def _levels(reads: Reads) -> dict[Node, int]:
    """The level of each node: the earliest in which it can run, or that of its first reader.

    Work on one value that is in memory anyhow, and no smaller, waits for its readers. Keeping that
    value is as good as keeping the result, which its readers then compute without memory traffic.
    """
    level: dict[Node, int] = {}
    users: dict[Node, list[tuple[Node, bool]]] = {}
    for node, read in reads.items():
        floor = max((level[r] + barrier for r, barrier in read), default=0)
        level[node] = floor if _is_fused(node) or not read else floor + 1
        for r, barrier in read:
            users.setdefault(r, []).append((node, barrier))
    for node in reversed(reads):
        if node.op.kind is Kind.ELEMENTWISE and _may_wait(node, reads, users):
            level[node] = min(level[user] - barrier for user, barrier in users[node])
    return level


def _may_wait(node: Node, reads: Reads, users: dict[Node, list[tuple[Node, bool]]]) -> bool:
    sources = {r for r, _ in reads[node] if r.op.kind is not Kind.LEAF}
    in_memory = all(not _is_fused(r) or any(not _is_fused(u) for u, _ in users[r]) for r in sources)
    limbs = sum(r.spec.ring.limbs for r in sources)
    readers = users.get(node, ())
    return (
        in_memory
        and limbs <= node.spec.ring.limbs
        and all(u.op.kind is Kind.ELEMENTWISE for u, _ in readers)
        and bool(readers)
    )


def _find(leader: dict[Node, Node], node: Node) -> Node:
    while leader[node] is not node:
        leader[node] = leader[leader[node]]
        node = leader[node]
    return node


def _cut(nodes: list[Node]) -> list[Group]:
    return [tuple(nodes[i : i + NODE_BUDGET]) for i in range(0, len(nodes), NODE_BUDGET)]
