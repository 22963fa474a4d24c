"""Part of pass 5: what is read in parts is made in parts.

A view of elementwise work is that work on the view: VIEW(MUL(a, b)) = MUL(VIEW(a), VIEW(b)). A view
of a rotated value is the rotated view. So limbs without a reader are not made. A view of a JOIN
that lies in one of its sources is a view of that source. So a JOIN need not be made where
all readers of a value take disjoint limbs of it. Each reader gets its own limbs, as a value that
dies by itself, and no residue is computed twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from ren.core import op as ops
from ren.core.node import Node, make, toposort
from ren.core.op import Kind
from ren.core.rewrite import with_sources
from ren.core.ring import start_in
from ren.lowering.passes.lower_ring_ops import join, view

Moduli = tuple[int, ...]
Groups = tuple[Moduli, ...]
Parts = Mapping[Node, frozenset[Moduli]]


def split_views(sink: Node) -> Node:
    """`sink` with every value that is read in disjoint parts made in these parts.

    What is no longer read then may have been what kept another value whole.
    """
    while (after := _split_once(sink)) is not sink:
        sink = after
    return sink


def _split_once(sink: Node) -> Node:
    order = toposort(sink)
    if not any(node.op.kind is Kind.VIEW for node in order):
        return sink
    parts = parts_read(order)
    new: dict[tuple[Node, Moduli], Node] = {}
    for node in order:
        for part in parts[node]:
            new[node, part] = _made(node, part, new)
    return new[sink, ()]


def parts_read(order: list[Node]) -> Parts:
    """For each node of a topological order the limbs that its readers take, each choice once.

    A value that cannot be made in parts, or whose readers overlap, is one part: the whole.
    """
    parts: dict[Node, frozenset[Moduli]] = {}
    read: dict[Node, set[Moduli]] = {}
    joins = _joins(order)
    for node in reversed(order):
        wanted = read.pop(node, set())
        if not _is_cut(node, wanted, joins.get(node, ())):
            wanted = {_moduli(node)}
        parts[node] = frozenset(wanted)
        for s in node.src:
            taken = (_taken(node, s, part) for part in wanted)
            read.setdefault(s, set()).update(part for part in taken if part)
    return parts


def _joins(order: list[Node]) -> dict[Node, frozenset[Groups]]:
    """For each value the JOINs that it is made of, limb by limb: the limbs of their sources.

    Of a JOIN that gives a source its batch shape no part can be made from that source: no limbs.
    """
    joins: dict[Node, frozenset[Groups]] = {}
    for node in order:
        if node.op is ops.JOIN:
            alike = all(s.spec.batch == node.spec.batch for s in node.src)
            joins[node] = frozenset({tuple(map(_moduli, node.src)) if alike else ()})
        elif _has_own_limbs(node) and node.op is not ops.VIEW:
            joins[node] = frozenset().union(*(joins[s] for s in node.src if s in joins))
    return joins


def _is_cut(node: Node, parts: set[Moduli], joins: Collection[Groups]) -> bool:
    """True when the parts are disjoint and each is of one source of every JOIN below.

    Without a JOIN below: when there is one part, and other limbs have no reader.
    """
    if not joins:
        is_less = len(parts) == 1 and len(min(parts)) < len(_moduli(node))
        return is_less and _has_own_limbs(node) and node.op is not ops.VIEW
    if sum(map(len, parts)) > len(set().union(*parts)):
        return False
    return all(any(set(part) <= set(own) for own in join) for join in joins for part in parts)


def _has_own_limbs(node: Node) -> bool:
    """True where a limb depends on the limbs of the sources over the same prime alone."""
    by_limb = node.op.kind in (Kind.ELEMENTWISE, Kind.VIEW)
    return by_limb or node.op in (ops.AUTOMORPHISM, ops.JOIN)


def _moduli(node: Node) -> Moduli:
    return () if node.op is ops.SINK else node.spec.ring.moduli


def _taken(node: Node, source: Node, part: Moduli) -> Moduli:
    """The limbs of a source that the limbs `part` of a node are made from."""
    own = _moduli(source)
    if node.op is ops.JOIN and part != _moduli(node):
        return tuple(m for m in part if m in own)
    return part if _has_own_limbs(node) and node.op is not ops.JOIN else own


def _limbs_of(x: Node, moduli: Moduli) -> Node:
    is_run = start_in(moduli, x.spec.ring.moduli) is not None  # a plan reads them of the whole
    if x.op is ops.SCALAR and is_run:  # one residue a limb, and still a constant
        return make(ops.SCALAR, (), attrs.evolve(x.arg, ring=x.arg.ring.with_moduli(moduli)))
    return view(x, moduli)


def _made(node: Node, part: Moduli, new: Mapping[tuple[Node, Moduli], Node]) -> Node:
    src: list[Node] = []
    for s in node.src:
        if taken := _taken(node, s, part):
            src.append(new.get((s, taken)) or _limbs_of(new[s, _moduli(s)], taken))
    if node.op is ops.VIEW:
        return src[0]
    if node.op is ops.JOIN and part != _moduli(node):
        return join(src, node.spec.ring.with_moduli(part))
    return with_sources(node, tuple(src))
