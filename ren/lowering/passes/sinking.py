"""Sinking an additive operator f through sums: f(a) + f(b) = f(a + b), so that f runs once.

Used for ModDown (pass 1) and for the transforms (pass 4). A sum is sunk only where it saves: for
two operands of f or more, through values without other readers. So no count ever rises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from ren.core import op as ops
from ren.core.node import NO_ARG, Node, make, toposort
from ren.core.op import Op
from ren.core.rewrite import readers, rebuild, to_domain
from ren.core.ring import Domain, RingSpec

_SUMS = (ops.ADD, ops.SUB)


@attrs.frozen(eq=False)
class Sinkable:
    """An operator f, and what it commutes with.

    Args:
        op: the op of f.
        unary: ops g with g(f(a)) = f(g(a)).
        factor: `(p, ring)` -> the factor p' over the ring of a with p f(a) = f(p' a), or None.
        argument: `(node)` -> the argument of the f that makes a value of the type of `node`.
        inverse: the op that undoes f: of f(a) + c it is a and the inverse of c alone.
    """

    op: Op
    unary: tuple[Op, ...]
    factor: Callable[[Node, RingSpec], Node | None]
    argument: Callable[[Node], Any]
    inverse: Op | None = None


@attrs.frozen
class _Parted:
    """A value as f(inner) + rest; either may be missing, not both."""

    inner: Node | None
    rest: Node | None


@attrs.frozen
class _Source:
    """The ring of the operands of f below a value, and how many of them it alone reads.

    All are in one domain, that of the value, so that sinking asks for no transform.
    """

    ring: RingSpec
    domain: Domain
    terms: int


@attrs.frozen(eq=False)
class _Sinking:
    """One run over one graph."""

    f: Sinkable
    users: dict[Node, list[Node]]
    found: dict[Node, _Source] = attrs.field(factory=dict)
    parted: dict[Node, _Parted] = attrs.field(factory=dict)

    def find(self, node: Node) -> None:
        """Notes the operands of f that reach `node` through values with one reader."""
        below = [self.found[s] for s in node.src if self.is_own(s)]
        if node.op is self.f.op:
            self.found[node] = _Source(node.src[0].spec.ring, node.spec.domain, 1)
        elif self.passes(node) and self.is_alike(node, below):
            terms = sum(b.terms for b in below)
            self.found[node] = _Source(below[0].ring, below[0].domain, terms)

    def is_alike(self, node: Node, below: list[_Source]) -> bool:
        """True when all operands below are of one ring, and in the domain of `node`."""
        kinds = {(b.ring, b.domain) for b in below}
        return len(kinds) == 1 and kinds.pop()[1] is node.spec.domain

    def is_own(self, node: Node) -> bool:
        """True for a value with operands of f below it that has one reader."""
        return node in self.found and len(self.users[node]) == 1

    def passes(self, node: Node) -> bool:
        """True for ops through which f sinks."""
        if node.op in _SUMS or node.op in self.f.unary:
            return True
        return node.op is ops.MUL and self.factor(node) is not None

    def factor(self, product: Node) -> tuple[Node, Node, Node] | None:
        """(x, p, p') for a product of x, with operands of f below, and a factor p that commutes."""
        for x, p in (product.src, product.src[::-1]):
            if self.is_own(x):
                inner = self.f.factor(p, self.found[x].ring)
                if inner is not None:
                    return x, p, inner
        return None

    def sunk(self, node: Node, new: Mapping[Node, Node]) -> Node | None:
        """The node with f below the sum where that saves one; None where it stays."""
        undone = None
        if node.op is self.f.inverse and self.is_own(node.src[0]):
            undone = self.undone(self.parted[node.src[0]], node)
        if node not in self.found:
            return undone
        self.parted[node] = part = self.part(node, new)
        absorbed = len(self.users[node]) == 1 and self.users[node][0] in self.found
        is_joined = self.found[node].terms >= 2 and not absorbed
        return self.joined(part, node) if is_joined else undone

    def part(self, node: Node, new: Mapping[Node, Node]) -> _Parted:
        """`node` as f(inner) + rest."""
        if node.op is self.f.op:
            return _Parted(new[node.src[0]], None)
        if node.op is ops.MUL:
            factor = self.factor(node)
            assert factor is not None  # the node is in `found`
            x, p, inner = factor
            return _Parted(
                _applied(ops.MUL, self.parted[x].inner, inner),
                _applied(ops.MUL, self.parted[x].rest, new[p]),
            )
        if node.op in self.f.unary:
            x = self.parted[node.src[0]]
            return _Parted(*(_applied(node.op, v, arg=node.arg) for v in (x.inner, x.rest)))
        a, b = (self.parted[s] if self.is_own(s) else _Parted(None, new[s]) for s in node.src)
        return _Parted(_sum(node.op, a.inner, b.inner), _sum(node.op, a.rest, b.rest))

    def undone(self, part: _Parted, like: Node) -> Node:
        """The inverse of f(inner) + rest, for transforms."""
        rest = None if part.rest is None else to_domain(part.rest, like.spec.domain)
        total = _sum(ops.ADD, part.inner, rest)
        assert total is not None
        return total

    def joined(self, part: _Parted, like: Node) -> Node:
        """f(inner) + rest, of the type of `like`."""
        assert part.inner is not None  # two terms or more
        outer = make(self.f.op, (part.inner,), self.f.argument(like))
        total = _sum(ops.ADD, outer, part.rest)
        assert total is not None
        return to_domain(total, like.spec.domain)


def sink_through_sums(sink: Node, f: Sinkable) -> Node:
    """`sink` with every sum of two or more f(a), that it alone reads, as one f of their sum."""
    order = toposort(sink)
    least = 2 if f.inverse is None else 1
    if sum(node.op is f.op for node in order) < least:
        return sink
    run = _Sinking(f, readers(order))
    for node in order:
        run.find(node)
    return rebuild(order, run.sunk)[sink]


def _applied(op: Op, x: Node | None, *others: Node, arg: Any = NO_ARG) -> Node | None:
    return None if x is None else make(op, (x, *others), arg)


def _sum(op: Op, a: Node | None, b: Node | None) -> Node | None:
    if a is not None and b is not None:
        return make(op, (a, b))
    if b is not None and op is ops.SUB:
        return make(ops.NEG, (b,))
    return b if a is None else a
