"""Part of pass 1: a ModDown and the rescale that follows it divide once, by P D.

With MD for ModDown from QP to Q, and rescale from Q to B, which multiplies by M and divides by D:

    rescale(MD(a) + c) = (M (a + P c) - u) / (P D), u the exact centred lift mod P D

which is rounded to nearest once, where it was twice; so it is nearer to the quotient than before.
It saves the NTTs of Q.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ren.core import op as ops
from ren.core.node import Node, make, toposort
from ren.core.rewrite import readers, rebuild, to_domain
from ren.core.ring import Domain, RingSpec, difference, intersection
from ren.lowering.passes.lower_ring_ops import join, rescaled, scaled, view

Users = Mapping[Node, list[Node]]


def join_rescale(sink: Node) -> Node:
    """`sink` with every rescale of a ModDown, or of its sum with a value, as one division."""
    order = toposort(sink)
    if not any(node.op is ops.RESCALE for node in order):
        return sink
    users = readers(order)
    return rebuild(order, lambda node, new: _joined(node, users, new))[sink]


def _joined(node: Node, users: Users, new: Mapping[Node, Node]) -> Node | None:
    if node.op is not ops.RESCALE:
        return None
    (x,) = node.src
    down, rest = _terms(x, users)
    if down is None or not _is_apt(down, x, node.arg.ring):
        return None
    wide, old, ring = new[down.src[0]], x.spec.ring, node.arg.ring
    specials = difference(wide.spec.ring.moduli, old.moduli)
    gone = difference(old.moduli, ring.moduli)
    total = view(wide, old.moduli)
    if rest is not None:
        total = make(x.op, (total, scaled(new[rest], math.prod(specials))))
    remainders = [to_domain(v, Domain.COEFF) for v in (view(total, gone), view(wide, specials))]
    remainder = join(remainders, old.with_moduli((*gone, *specials)))
    return rescaled(total, remainder, ring, Domain.NTT)


def _terms(x: Node, users: Users) -> tuple[Node | None, Node | None]:
    """(MD(a), c) of MD(a), MD(a) + c, c + MD(a) or MD(a) - c, that nothing else reads."""
    if len(users[x]) > 1:
        return None, None
    if x.op is ops.MODDOWN:
        return x, None
    ways = {ops.ADD: (x.src, x.src[::-1]), ops.SUB: (x.src,)}.get(x.op, ())
    for down, rest in ways:
        if down.op is ops.MODDOWN and len(users[down]) == 1:
            return down, rest
    return None, None


def _is_apt(down: Node, x: Node, ring: RingSpec) -> bool:
    """True in the NTT domain, over primes of their own, where the error is small enough.

    That of the ModDown, k / 2, is to be at most D / (2 M).
    """
    (wide,) = down.src
    if any(v.spec.domain is not Domain.NTT for v in (wide, x, *x.src)):
        return False
    specials = difference(wide.spec.ring.moduli, x.spec.ring.moduli)
    if intersection(specials, ring.moduli):  # what is divided by cannot be a modulus of the result
        return False
    factor = math.prod(difference(ring.moduli, x.spec.ring.moduli))
    dropped = math.prod(difference(x.spec.ring.moduli, ring.moduli))
    return len(specials) * factor <= dropped
