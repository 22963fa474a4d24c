"""Pass 5: materialization: which values are kept in memory, and which kernel stores them.

1. Views and constants belong to the kernels that read them; they cost nothing by themselves. So
   does an automorphism that only elementwise work reads: a permutation in the index of its loads.
   So does a join that only elementwise work reads, which then runs over its parts.
2. A transform is a kernel of its own. Its level is one more than that of what it reads.
3. Elementwise nodes of one level that are connected form a cluster. A path that leaves a cluster
   passes a transform, so its level grows and it never comes back. So clusters form no cycle.
4. A cluster over the node budget is cut in topological order. Repeated segments of a long program
   then become the same kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import attrs

from ren.core import op as ops
from ren.core.node import Node, make, toposort
from ren.core.op import Kind
from ren.core.rewrite import ContextTable, Table, rewrite, rewrite_down, with_sources
from ren.core.ring import contiguous_run
from ren.core.spec import BufferizeArg

# XLA:CPU took 0.4 s for 500 fused elementwise steps with two live values and 6.4 s for 1,000
# (DESIGN.md). 96 is a multiple of 2, 3, 4 and 6, the periods of common loops, whose segments then
# repeat exactly.
NODE_BUDGET = 96

Group = tuple[Node, ...]
# What a node reads when what is inlined is looked through, and whether it needs it in memory.
Reads = dict[Node, tuple[tuple[Node, bool], ...]]


@attrs.frozen(eq=False)
class Boundaries:
    """Values that are kept in memory, and the kernels that compute them.

    Attributes:
        inlined: the nodes that belong to the kernels that read them.
        home: the group of each node that a kernel computes.
        kernel: for each value that is kept the number of the kernel that stores it.
    """

    inlined: frozenset[Node]
    home: Mapping[Node, int]
    kernel: Mapping[Node, int]


def materialize(sink: Node) -> Node:
    """`sink` with BUFFERIZE around each value that is kept, marked with the kernel to make it."""
    sink = rewrite(sink, BOUNDARIES, edges={"SINK": _resident, "COPY": _resident})
    order = toposort(sink)
    if any(node.op.kind is Kind.MEMORY for node in order):
        return sink
    return rewrite_down(sink, RULES, boundaries_of(order))


def boundaries_of(order: list[Node]) -> Boundaries:
    """Boundaries of a program, from its nodes in topological order."""
    inlined = _inlined(order)
    reads = {node: _reads(node, inlined) for node in order if node not in inlined}
    home = {node: i for i, group in enumerate(_groups(reads)) for node in group}
    kept = _in_parts(order, inlined, home, _kept(order[-1], reads, home))
    number: dict[int, int] = {}
    kernel: dict[Node, int] = {}
    for node in order:
        maker = node.src[0] if node in inlined and node.src else node
        if node in kept and maker in home and node.op is not ops.COPY:
            kernel[node] = number.setdefault(home[maker], len(number))
    return Boundaries(frozenset(inlined), home, kernel)


def _resident(reader: Node, node: Node) -> Node:
    """A constant gets an array; so does a view, unless it is one run of limbs asked for as such."""
    is_copied = node.op is ops.VIEW and not (reader.op is ops.SINK and _is_run(node))
    is_copied |= node.op.kind is Kind.CONSTANT
    return make(ops.CONTIGUOUS, (node,)) if is_copied else node


def _is_run(view: Node) -> bool:
    (x,) = view.src
    is_array = x.op.kind not in (Kind.VIEW, Kind.CONSTANT)
    return is_array and contiguous_run(view.spec.ring.moduli, x.spec.ring.moduli) is not None


def _already_resident(node: Node) -> Node | None:
    (x,) = node.src
    in_memory = x.op.kind in (Kind.LEAF, Kind.TRANSFORM, Kind.BOUNDARY, Kind.MEMORY)
    return x if in_memory else None


BOUNDARIES: Table = {"CONTIGUOUS": (_already_resident,)}


def _inlined(order: list[Node]) -> set[Node]:
    """Views, constants, and automorphisms and joins whose users are all elementwise."""
    elsewhere = {s for node in order if node.op.kind is not Kind.ELEMENTWISE for s in node.src}
    return {
        node
        for node in order
        if node.op.kind in (Kind.VIEW, Kind.CONSTANT)
        or (node.op in (ops.AUTOMORPHISM, ops.JOIN) and node not in elsewhere)
    }


def _ways(node: Node, inlined: Collection[Node]) -> Iterator[tuple[Node, ...]]:
    """For each value that a node reads: the way to it through inlined nodes, itself last."""
    ways: list[tuple[Node, ...]] = [(s,) for s in reversed(node.src)]
    while ways:
        way = ways.pop()
        if way[-1] in inlined and way[-1].src:
            ways.extend((*way, s) for s in reversed(way[-1].src))
        else:
            yield way


def _reads(node: Node, inlined: set[Node]) -> tuple[tuple[Node, bool], ...]:
    return tuple(
        (s, s.op is ops.CONTIGUOUS or any(v.op is ops.AUTOMORPHISM for v in above))
        for *above, s in _ways(node, inlined)
        if s.op.kind is not Kind.CONSTANT
    )


def _groups(reads: Reads) -> list[Group]:
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
    return alone + [
        tuple(nodes[i : i + NODE_BUDGET])
        for nodes in clusters.values()
        for i in range(0, len(nodes), NODE_BUDGET)
    ]


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
    if node not in users or not in_memory or limbs > node.spec.ring.limbs:
        return False
    return all(user.op.kind is Kind.ELEMENTWISE for user, _ in users[node])


def _find(leader: dict[Node, Node], node: Node) -> Node:
    while leader[node] is not node:
        leader[node] = leader[leader[node]]
        node = leader[node]
    return node


def _kept(sink: Node, reads: Reads, home: dict[Node, int]) -> set[Node]:
    """Nodes whose value leaves their group: roots, and what another group reads."""
    kept = {r for r, _ in reads[sink]}
    for node, read in reads.items():
        if node in home:
            kept.update(r for r, _ in read if home.get(r) != home[node])
            if node.op is ops.CONTIGUOUS:
                kept.add(node)
    return kept


def _in_parts(
    order: list[Node], inlined: set[Node], home: dict[Node, int], kept: set[Node]
) -> set[Node]:
    """`kept` with the views of a value in its stead where others read it in disjoint parts."""
    read: dict[Node, set[Node]] = {}  # what others read of a value: views of it, or itself
    taken: set[tuple[int | None, int]] = set()  # groups, and limbs of intermediates that they read
    for node in order:
        if node in inlined:
            continue
        for *above, s in _ways(node, inlined):
            direct = above[-1] if above else s
            if s in kept and s in home and home[s] != home.get(node):
                taken.add((home.get(node), s.spec.ring.limbs))
                read.setdefault(s, set()).add(direct if direct.op is ops.VIEW else s)
    out = set(kept)
    for node, parts in read.items():
        limbs = [m for part in parts for m in part.spec.ring.moduli]
        may_overwrite = (home.get(node), node.spec.ring.limbs) in taken
        is_apart = node not in parts and len({*limbs}) == len(limbs)
        if node.op.kind is Kind.ELEMENTWISE and is_apart and not may_overwrite:
            out.remove(node)
            out.update(parts)
    return out


def _reads_memory(node: Node, b: Boundaries) -> Node | None:
    """f(x) -> f(BUFFERIZE(x)) where another kernel keeps x; copies and leaves are kept anyhow."""
    group = b.home.get(node)
    if group is None and node.op is not ops.SINK:
        return None  # made here, of sources that are read as they shall be
    return with_sources(node, tuple([_source(s, group, b) for s in node.src]))


def _source(node: Node, group: int | None, b: Boundaries) -> Node:
    """Value that a kernel reads for a source: the node itself inside the kernel that makes it."""
    chain = []
    while node in b.inlined and len(node.src) == 1:
        chain.append(node)
        node = node.src[0]
    if node in b.inlined and node.src:
        node = with_sources(node, tuple([_source(s, group, b) for s in node.src]))
    elif group is None or b.home.get(node) != group:
        if chain and chain[-1] in b.kernel:
            node = chain.pop()
        if node in b.kernel:
            node = make(ops.BUFFERIZE, (node,), BufferizeArg(b.kernel[node]))
    for v in reversed(chain):
        node = with_sources(v, (node,))
    return node


RULES: ContextTable[Boundaries] = {name: (_reads_memory,) for name in ops.OPS}
