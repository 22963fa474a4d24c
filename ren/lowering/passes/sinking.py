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
from ren.core.ring import RingSpec
from ren.core.spec import MacArg


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


Parted = tuple[Node | None, Node | None]  # (a, b) of a value f(a) + b; one may be missing


@attrs.frozen(eq=False)
class _Sinking:
    """One run over one graph.

    Attributes:
        ring: of each value with operands of f below it, the ring of these. Their domain is that of
            the value, so that sinking asks for no transform.
        terms: how many of them it alone reads.
    """

    f: Sinkable
    users: dict[Node, list[Node]]
    ring: dict[Node, RingSpec] = attrs.field(factory=dict)
    terms: dict[Node, int] = attrs.field(factory=dict)
    parted: dict[Node, Parted] = attrs.field(factory=dict)

    def find(self, node: Node) -> None:
        """Notes the operands of f that reach `node` through values with one reader."""
        below = [s for s in node.src if self.is_own(s)]
        kinds = {(self.ring[s], s.spec.domain) for s in below}
        if node.op is self.f.op:
            self.ring[node], self.terms[node] = node.src[0].spec.ring, 1
        elif self.passes(node) and len(kinds) == 1 and kinds.pop()[1] is node.spec.domain:
            self.ring[node] = self.ring[below[0]]
            self.terms[node] = sum(self.terms[s] for s in below)

    def is_own(self, node: Node) -> bool:
        """True for a value with operands of f below it that has one reader."""
        return node in self.terms and len(self.users[node]) == 1

    def passes(self, node: Node) -> bool:
        """True for ops through which f sinks."""
        if node.op in (ops.ADD, ops.SUB, *self.f.unary):
            return True
        return node.op in (ops.MUL, ops.MAC) and self.factor(node) is not None

    def factor(self, product: Node) -> tuple[Node, Node, Node] | None:
        """(x, p, p') for a product of x, with operands of f below, and a factor p that commutes.

        Of a MAC, p are the factors of all terms, and x is the first with operands of f below.
        """
        if product.op is ops.MAC:
            p = product.src[0]
            x = next((s for s in product.src[1:] if self.is_own(s)), None)
            inner = None if x is None else self.f.factor(p, self.ring[x])
            return None if x is None or inner is None else (x, p, inner)
        for x, p in (product.src, product.src[::-1]):
            if self.is_own(x):
                inner = self.f.factor(p, self.ring[x])
                if inner is not None:
                    return x, p, inner
        return None

    def sunk(self, node: Node, new: Mapping[Node, Node]) -> Node | None:
        """The node with f below the sum where that saves one; None where it stays."""
        if node in self.terms:
            self.parted[node] = inner, rest = self.part(node, new)
            absorbed = len(self.users[node]) == 1 and self.users[node][0] in self.terms
            if self.terms[node] >= 2 and not absorbed:
                assert inner is not None  # two terms or more
                outer = make(self.f.op, (inner,), self.f.argument(node))
                total = outer if rest is None else make(ops.ADD, (outer, rest))
                return to_domain(total, node.spec.domain)
        if node.op is self.f.inverse and self.is_own(node.src[0]):
            inner, rest = self.parted[node.src[0]]
            undone = None if rest is None else to_domain(rest, node.spec.domain)
            return _sum(ops.ADD, inner, undone)
        return None

    def part(self, node: Node, new: Mapping[Node, Node]) -> Parted:
        """`node` as f(a) + b."""
        if node.op is self.f.op:
            return new[node.src[0]], None
        if node.op is ops.MUL:
            factor = self.factor(node)
            assert factor is not None  # the node has terms
            x, p, inner = factor
            a, b = self.parted[x]
            return _applied(ops.MUL, a, inner), _applied(ops.MUL, b, new[p])
        if node.op is ops.MAC:
            return self._part_of_mac(node, new)
        if node.op in self.f.unary:
            a, b = self.parted[node.src[0]]
            return _applied(node.op, a, arg=node.arg), _applied(node.op, b, arg=node.arg)
        (a, b), (c, d) = (self.parted[s] if self.is_own(s) else (None, new[s]) for s in node.src)
        return _sum(node.op, a, c), _sum(node.op, b, d)

    def _part_of_mac(self, node: Node, new: Mapping[Node, Node]) -> Parted:
        factor = self.factor(node)
        assert factor is not None  # the node has terms
        _, p, inner = factor
        terms = [self.parted[s] if self.is_own(s) else (None, new[s]) for s in node.src[1:]]
        sums = []
        for factors, parts in ((inner, [a for a, _ in terms]), (new[p], [b for _, b in terms])):
            pairs = zip(node.arg.indices, parts, strict=True)
            held = [(i, x) for i, x in pairs if x is not None]
            arg = MacArg(tuple(i for i, _ in held))
            sums.append(make(ops.MAC, (factors, *(x for _, x in held)), arg) if held else None)
        return sums[0], sums[1]


def sink_through_sums(sink: Node, f: Sinkable) -> Node:
    """`sink` with every sum of two or more f(a), that it alone reads, as one f of their sum."""
    order = toposort(sink)
    if sum(node.op is f.op for node in order) < (2 if f.inverse is None else 1):
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
