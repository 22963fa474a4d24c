"""Pass 2: high-level ring ops into views, lifts, products with constants and joins.

Everything here is exact ring algebra. Only the choice of where a transform stands matters for
speed. Base conversions read coefficients, and everything around them stays in the operand's domain.
So only the limbs that are converted are transformed.
"""

from __future__ import annotations

import math

import attrs

from ren.core import op as ops
from ren.core.node import Node, const, make
from ren.core.op import Op
from ren.core.rewrite import Table, rewrite, to_domain
from ren.core.ring import Domain, RingSpec, basis_over, difference, intersection
from ren.core.spec import AutomorphismArg, RingArg


def lower_ring_ops(sink: Node) -> Node:
    """`sink` without TO_RING, RESCALE, MODUP, MODDOWN and ROTATE."""
    return rewrite(sink, RULES)


def view(x: Node, moduli: tuple[int, ...]) -> Node:
    """The limbs `moduli` of `x`, in that order; `x` itself if they are all of them in order."""
    if moduli == x.spec.ring.moduli:
        return x
    ring = x.spec.ring.with_moduli(moduli)
    if x.op is ops.CONST:
        return const(x.arg.value, ring, x.spec.domain)
    return make(ops.VIEW, (x,), RingArg(ring))


def join(parts: list[Node], ring: RingSpec) -> Node:
    """One polynomial over `ring` from disjoint groups of limbs."""
    if len(parts) == 1:
        return view(parts[0], ring.moduli)
    return make(ops.JOIN, parts, RingArg(ring))


def scaled(x: Node, factor: int) -> Node:
    """factor * x, in the domain of x."""
    if factor % x.spec.ring.q == 1:
        return x
    return make(ops.MUL, (x, const(factor, x.spec.ring, x.spec.domain)))


def _lower_rotate(node: Node) -> Node:
    """X -> X^(5^k)."""
    (x,) = node.src
    g = pow(5, node.arg.k, 2 * x.spec.ring.n)
    return make(ops.AUTOMORPHISM, (x,), AutomorphismArg(g))


def _lower_to_ring(node: Node) -> Node:
    """Shared limbs are kept; the others come from the exact centred lift."""
    x = _in_domain_of(node)
    return _extended(x, x, node.arg.ring, ops.LIFT)


def _in_domain_of(node: Node) -> Node:
    """The source, as coefficients where the ring that the node leads to has nothing else."""
    (x,) = node.src
    return to_domain(x, node.spec.domain) if node.spec.ring.is_general else x


def _lower_mod_up(node: Node) -> Node:
    """The digit's limbs are kept; the others come from its approximate centred lift.

    All digits of one polynomial read the same coefficients, so the whole of it is transformed once.
    """
    x = _in_domain_of(node)
    coefficients = view(to_domain(x, Domain.COEFF), node.arg.digit)
    return _extended(view(x, node.arg.digit), coefficients, node.arg.ring, ops.CONVERT)


def _extended(kept: Node, lifted: Node, ring: RingSpec, lift: Op) -> Node:
    shared = intersection(ring.moduli, kept.spec.ring.moduli)
    new = difference(ring.moduli, kept.spec.ring.moduli)
    parts = [view(kept, shared)] if shared else []
    if new:
        parts.append(make(lift, (lifted,), RingArg(ring.with_moduli(new))))
    return join(parts, ring)


def _lower_mod_down(node: Node) -> Node:
    """(x - u) / P with u the approximate centred lift of x mod P."""
    x, ring = _in_domain_of(node), node.arg.ring
    dropped = difference(x.spec.ring.moduli, ring.moduli)
    lifted = make(ops.CONVERT, (view(x, dropped),), RingArg(ring))
    return divided(make(ops.SUB, (view(x, ring.moduli), lifted)), dropped)


def _lower_rescale(node: Node) -> Node:
    x = _in_domain_of(node)
    dropped = difference(x.spec.ring.moduli, node.arg.ring.moduli)
    return rescaled(x, view(x, dropped), node.arg.ring)


def rescaled(x: Node, remainder: Node, ring: RingSpec, domain: Domain = Domain.COEFF) -> Node:
    """(M x - u) / D modulo `ring`: x M / D rounded to nearest.

    M is the product of the moduli that are new, D of those of `remainder`, which is x mod D. In
    `domain`, u is the exact centred lift of M x mod D (CKKS.md, BitPacker).
    """
    old = x.spec.ring.moduli
    kept, new = intersection(ring.moduli, old), difference(ring.moduli, old)
    factor = math.prod(new)
    lifted = to_domain(make(ops.LIFT, (scaled(remainder, factor),), RingArg(ring)), domain)
    parts = [scaled(view(x, kept), factor)] if kept else []
    if new:
        parts.append(const(0, ring.with_moduli(new), x.spec.domain))
    return divided(make(ops.SUB, (join(parts, ring), lifted)), remainder.spec.ring.moduli)


def divided(x: Node, dropped: tuple[int, ...]) -> Node:
    """x / (the product of `dropped`), modulo each limb of x."""
    ring = x.spec.ring
    return scaled(x, pow(math.prod(dropped), -1, ring.q))


def _narrowed_divide(node: Node) -> Node | None:
    """A division from or to wide moduli, through NTT primes that hold all integers in it."""
    (x,), arg = node.src, node.arg
    q, n = x.spec.ring.q, x.spec.ring.n
    if x.spec.ring.has_wide:  # a c above q/2 is lifted to c - q, which the primes hold as c - q + Q
        basis = basis_over(n, q)
        below = arg.below + arg.times * (q - basis.q)
        x = make(ops.LIFT, (x,), RingArg(basis))
        return make(ops.DIVIDE, (x,), attrs.evolve(arg, below=below))
    if not arg.ring.has_wide:
        return None
    largest = arg.times * q + abs(arg.plus) + abs(arg.below)
    largest = largest // arg.by if arg.kind == "quotient" else arg.by
    basis = basis_over(n, 2 * (largest + abs(arg.minus) + 1))
    found = make(ops.DIVIDE, (x,), attrs.evolve(arg, ring=basis))
    return make(ops.LIFT, (found,), RingArg(arg.ring))


RULES: Table = {
    "DIVIDE": (_narrowed_divide,),
    "BOUNDED": (lambda node: node.src[0],),
    "ROTATE": (_lower_rotate,),
    "TO_RING": (_lower_to_ring,),
    "MODUP": (_lower_mod_up,),
    "MODDOWN": (_lower_mod_down,),
    "RESCALE": (_lower_rescale,),
}
