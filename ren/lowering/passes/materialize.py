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
from ren.lowering.passes.kernel_groups import Reads, groups_of


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
    sink = rewrite(sink, BOUNDARIES)
    order = toposort(sink)
    if any(node.op.kind is Kind.MEMORY for node in order):
        return sink
    return rewrite_down(sink, RULES, boundaries_of(order))


def boundaries_of(order: list[Node]) -> Boundaries:
    """Boundaries of a program, from its nodes in topological order."""
    inlined = _inlined(order)
    reads = {node: _reads(node, inlined) for node in order if node not in inlined}
    home = {node: i for i, group in enumerate(groups_of(reads)) for node in group}
    kept = _in_parts(order, inlined, home, _kept(order[-1], reads, home))
    number: dict[int, int] = {}
    kernel: dict[Node, int] = {}
    for node in order:
        maker = node.src[0] if node in inlined and node.src else node
        if node in kept and maker in home and node.op is not ops.COPY:
            kernel[node] = number.setdefault(home[maker], len(number))
    return Boundaries(frozenset(inlined), home, kernel)


def _resident_sources(node: Node) -> Node:
    return with_sources(node, tuple([_resident(s, node) for s in node.src]))


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
    """Views, constants, and automorphisms and joins whose users are all elementwise."""
    plain_user = (Kind.ELEMENTWISE,)
    elsewhere = {s for node in order if node.op.kind not in plain_user for s in node.src}
    return {
        node
        for node in order
        if node.op.kind in (Kind.VIEW, Kind.CONSTANT)
        or (node.op in (ops.AUTOMORPHISM, ops.JOIN) and node not in elsewhere)
    }


def _through(node: Node, inlined: Collection[Node]) -> Iterator[tuple[Node, ...]]:
    """For each value that is read where `node` is: the way to it, `node` first, itself last."""
    ways: list[tuple[Node, ...]] = [(node,)]
    while ways:
        way = ways.pop()
        if way[-1] in inlined and way[-1].src:
            ways.extend((*way, s) for s in reversed(way[-1].src))
        else:
            yield way


def _reads(node: Node, inlined: set[Node]) -> tuple[tuple[Node, bool], ...]:
    found = []
    for way in (way for s in node.src for way in _through(s, inlined)):
        s = way[-1]
        if s.op.kind is not Kind.CONSTANT:
            is_permuted = any(v.op is ops.AUTOMORPHISM for v in way[:-1])
            found.append((s, is_permuted or s.op is ops.CONTIGUOUS))
    return tuple(found)


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
        for way in (way for s in node.src for way in _through(s, inlined)):
            *above, s = way
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
