"""Part of pass 1: double hoisting, ModDown sunk through sums so that a sum is divided by P once.

With MD for ModDown from QP to Q, and p small and known over QP:

    MD(a) + MD(b) = MD(a + b)             changes the rounding, by one unit a term
    MD(a) + c = MD(a + P c)               exact; used from right to left: c stays over Q, cheaper
    sigma(MD(a)) = MD(sigma(a))           exact, since digits are centred
    p MD(a) = MD(p a)                     changes the rounding, to the better

A sum is sunk only where it saves a ModDown: through values that nothing else reads, and for two
ModDowns or more. Reference: Bossuat et al., "Efficient bootstrapping for approximate HE", 2021, 4.2
(double hoisting, there written by hand).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs

from ren.core import op as ops
from ren.core.args import RingArg
from ren.core.node import Node, make, toposort
from ren.core.op import Op
from ren.core.rewrite import to_domain
from ren.core.ring import RingSpec, is_subset
from ren.lowering.passes.ring_ops import view

_SUMS = (ops.ADD, ops.SUB)
_UNARY = (ops.NEG, ops.ROTATE, ops.AUTOMORPHISM)


@attrs.frozen
class _Parted:
    """A value as MD(wide) + rest; either may be missing, not both."""

    wide: Node | None
    rest: Node | None


@attrs.frozen
class _Source:
    """Where the ModDowns below a value come from, and how many it alone reads."""

    ring: RingSpec
    terms: int


Users = dict[Node, list[Node]]
Found = dict[Node, _Source]


def sink_mod_down(sink: Node) -> Node:
    """`sink` with the ModDowns of a sum as one ModDown of the sum."""
    order = toposort(sink)
    if not any(node.op is ops.MODDOWN for node in order):
        return sink
    users = _users(order)
    found = _sources(order, users)
    new: dict[Node, Node] = {}
    parted: dict[Node, _Parted] = {}
    for node in order:
        src = tuple(new[s] for s in node.src)
        new[node] = node if src == node.src else make(node.op, src, node.arg)
        if node not in found:
            continue
        parted[node] = _part(node, found, users, parted, new)
        absorbed = len(users[node]) == 1 and users[node][0] in found
        if found[node].terms >= 2 and not absorbed:
            new[node] = _joined(parted[node], node)
    return new[sink]


def _users(order: list[Node]) -> Users:
    users: Users = {}
    for node in order:
        for s in node.src:
            users.setdefault(s, []).append(node)
    return users


def _sources(order: list[Node], users: Users) -> Found:
    found: Found = {}
    for node in order:
        below = [found[s] for s in node.src if _is_own(s, found, users)]
        if node.op is ops.MODDOWN:
            found[node] = _Source(node.src[0].spec.ring, 1)
        elif len({b.ring for b in below}) == 1 and _passes(node, found, users):
            found[node] = _Source(below[0].ring, sum(b.terms for b in below))
    return found


def _is_own(node: Node, found: Found, users: Users) -> bool:
    """True for a value with ModDowns below it that has one reader."""
    return node in found and len(users[node]) == 1


def _passes(node: Node, found: Found, users: Users) -> bool:
    """True for ops through which a ModDown sinks."""
    if node.op in _SUMS or node.op in _UNARY:
        return True
    return node.op is ops.MUL and _factor(node, found, users) is not None


def _factor(product: Node, found: Found, users: Users) -> tuple[Node, Node, Node] | None:
    """(x, p, p over QP) for a product of x, with ModDowns below, and a small p known over QP."""
    for x, p in (product.src, product.src[::-1]):
        if _is_own(x, found, users):
            wide = _over(p, found[x].ring)
            if wide is not None:
                return x, p, wide
    return None


def _over(p: Node, ring: RingSpec) -> Node | None:
    whole = p
    while whole.op is ops.TO_RING:
        whole = whole.src[0]
    if whole.op is not ops.BOUNDED or not is_subset(ring.moduli, whole.spec.ring.moduli):
        return None
    # |p a| must stay below QP also for the noise in a: p leaves ten bits of Q free.
    if whole.arg.bits + 10 > math.log2(p.spec.ring.q):
        return None
    return view(whole, ring.moduli)


def _part(
    node: Node, found: Found, users: Users, parted: dict[Node, _Parted], new: dict[Node, Node]
) -> _Parted:
    if node.op is ops.MODDOWN:
        return _Parted(new[node.src[0]], None)
    if node.op is ops.MUL:
        factor = _factor(node, found, users)
        assert factor is not None  # the node is in `found`
        x, p, wide = factor
        return _each(parted[x], lambda part, by: make(ops.MUL, (part, by)), wide, new[p])
    if node.op in _UNARY:
        return _each(parted[node.src[0]], lambda part, arg: make(node.op, (part,), arg), node.arg)
    a, b = (parted[s] if _is_own(s, found, users) else _Parted(None, new[s]) for s in node.src)
    return _Parted(_sum(node.op, a.wide, b.wide), _sum(node.op, a.rest, b.rest))


def _each(part: _Parted, function: Callable[..., Node], wide: Any, rest: Any = None) -> _Parted:
    """`function` of both parts, each with an argument of its own."""
    return _Parted(
        None if part.wide is None else function(part.wide, wide),
        None if part.rest is None else function(part.rest, wide if rest is None else rest),
    )


def _sum(op: Op, a: Node | None, b: Node | None) -> Node | None:
    if a is not None and b is not None:
        return make(op, (a, b))
    if b is not None and op is ops.SUB:
        return make(ops.NEG, (b,))
    return b if a is None else a


def _joined(part: _Parted, like: Node) -> Node:
    """MD(wide) + rest, of the type of `like`."""
    assert part.wide is not None  # two terms or more
    total = _sum(ops.ADD, make(ops.MODDOWN, (part.wide,), RingArg(like.spec.ring)), part.rest)
    assert total is not None
    return to_domain(total, like.spec.domain)
