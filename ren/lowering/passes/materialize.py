"""Pass 5: materialization: which values are kept in memory, and which kernel stores them.

1. Views and constants belong to whoever reads them; they cost nothing by themselves. So does an
   automorphism that only elementwise work reads: a permutation in the index of its loads.
2. A transform is a kernel of its own. Its level is one more than that of what it reads.
3. Elementwise nodes of one level that are connected form a cluster. A path that leaves a cluster
   passes a transform, so its level grows and it never comes back: clusters form no cycle.
4. A cluster over the node budget is cut in topological order, so that repeated segments of a long
   program become the same kernel.
"""

from __future__ import annotations

from ren.core import op as ops
from ren.core.args import BufferizeArg
from ren.core.node import Node, make, toposort
from ren.core.op import Kind
from ren.core.rewrite import Table, rewrite
from ren.core.ring import contiguous_run

# XLA:CPU took 0.4 s for 500 fused elementwise steps with two live values and 6.4 s for 1,000
# (DESIGN.md). 96 is a multiple of 2, 3, 4 and 6, the periods of common loops, whose segments then
# repeat exactly.
NODE_BUDGET = 96

Group = tuple[Node, ...]
# What a node reads when what is inlined is looked through, and whether it needs it in memory.
Reads = dict[Node, tuple[tuple[Node, bool], ...]]


def materialize(sink: Node) -> Node:
    """`sink` with BUFFERIZE around each value that is kept, marked with the kernel to make it."""
    sink = rewrite(sink, BOUNDARIES)
    order = toposort(sink)
    if any(node.op.kind is Kind.MEMORY for node in order):
        return sink
    inlined = _inlined(order)
    reads = {node: _reads(node, inlined) for node in order if node not in inlined}
    groups = _groups(reads)
    home = {node: i for i, group in enumerate(groups) for node in group}
    return _marked(order, inlined, home, _in_parts(order, inlined, home, _kept(sink, reads, home)))


def _resident_sources(node: Node) -> Node | None:
    src = tuple(_resident(s, node) for s in node.src)
    return None if src == node.src else make(node.op, src, node.arg)


def _resident(node: Node, reader: Node) -> Node:
    """A constant gets an array; so does a view, unless it is one run of limbs asked for as such."""
    if node.op.kind is Kind.CONSTANT:
        return make(ops.CONTIGUOUS, (node,))
    if node.op is not ops.VIEW or (reader.op is ops.SINK and _is_run(node)):
        return node
    return make(ops.CONTIGUOUS, (node,))


def _is_run(view: Node) -> bool:
    (x,) = view.src
    if x.op.kind in (Kind.VIEW, Kind.CONSTANT):
        return False
    return contiguous_run(view.spec.ring.moduli, x.spec.ring.moduli) is not None


def _already_resident(node: Node) -> Node | None:
    (x,) = node.src
    in_memory = x.op.kind in (Kind.LEAF, Kind.TRANSFORM, Kind.BOUNDARY, Kind.MEMORY)
    return x if in_memory else None


BOUNDARIES: Table = {
    "SINK": (_resident_sources,),
    "COPY": (_resident_sources,),
    "CONTIGUOUS": (_already_resident,),
}


def _inlined(order: list[Node]) -> set[Node]:
    """Views, constants, and automorphisms whose users are all elementwise."""
    plain_user = (Kind.ELEMENTWISE,)
    elsewhere = {s for node in order if node.op.kind not in plain_user for s in node.src}
    return {
        node
        for node in order
        if node.op.kind in (Kind.VIEW, Kind.CONSTANT)
        or (node.op is ops.AUTOMORPHISM and node not in elsewhere)
    }


def _reads(node: Node, inlined: set[Node]) -> tuple[tuple[Node, bool], ...]:
    found = []
    for s in node.src:
        needs_memory = False
        while s in inlined and s.src:
            needs_memory |= s.op is ops.AUTOMORPHISM
            s = s.src[0]
        if s.op.kind is not Kind.CONSTANT:
            found.append((s, needs_memory or s.op is ops.CONTIGUOUS))
    return tuple(found)


def _groups(reads: Reads) -> list[Group]:
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

    Work on one value that is in memory anyhow, and no smaller, waits for its readers: to keep that
    value is as good as to keep the result, which its readers then take without going to memory.
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
        for s in node.src:
            direct = s
            while s in inlined and s.src:
                direct, s = s, s.src[0]
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


def _marked(order: list[Node], inlined: set[Node], home: dict[Node, int], kept: set[Node]) -> Node:
    """The graph with BUFFERIZE around what is kept; copies and leaves are in memory anyhow.

    Inside the kernel that makes it, a kept value is read as it is, without going through memory.
    """
    raw: dict[Node, Node] = {}
    marked: dict[Node, Node] = {}
    number: dict[int, int] = {}

    def source(node: Node, group: int | None) -> Node:
        chain = []
        while node in inlined and node.src:
            chain.append(node)
            node = node.src[0]
        own = group is not None and home.get(node) == group
        if not own and chain and chain[-1] in marked:
            node = chain.pop()
        new = node if node in inlined and node not in marked else (raw if own else marked)[node]
        for v in reversed(chain):
            new = v if v.src[0] is new else make(v.op, (new,), v.arg)
        return new

    def store(node: Node, value: Node, group: int) -> None:
        kernel = number.setdefault(group, len(number))
        marked[node] = make(ops.BUFFERIZE, (value,), BufferizeArg(kernel))

    for node in order:
        if node in inlined:
            if node in kept:
                store(node, make(node.op, (raw[node.src[0]],), node.arg), home[node.src[0]])
            continue
        src = tuple(source(s, home.get(node)) for s in node.src)
        made = marked[node] = raw[node] = node if src == node.src else make(node.op, src, node.arg)
        if node in kept and node in home and node.op is not ops.COPY:
            store(node, made, home[node])
    return marked[order[-1]]
