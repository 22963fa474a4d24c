"""Part of pass 1: double hoisting, ModDown sunk through sums so that a sum is divided by P once.

With MD for ModDown from QP to Q, and p small and known over QP, or an integer of known length:

    MD(a) + MD(b) = MD(a + b)             changes the rounding, by one unit a term
    MD(a) + c = MD(a + P c)               exact; used from right to left: c stays over Q, cheaper
    sigma(MD(a)) = MD(sigma(a))           exact, since digits are centred
    p MD(a) = MD(p a)                     changes the rounding, to the better

Reference: Bossuat et al., "Efficient bootstrapping for approximate HE", 2021, 4.2 (double hoisting,
there written by hand).
"""

from __future__ import annotations

import math

import attrs

from ren.core import op as ops
from ren.core.node import Node, const, make
from ren.core.numtheory import centered, length
from ren.core.ring import Domain, RingSpec, is_subset
from ren.core.spec import ConstArg, RingArg
from ren.lowering.passes.lower_ring_ops import view
from ren.lowering.passes.sinking import Sinkable, sink_through_sums


def sink_mod_down(sink: Node) -> Node:
    """`sink` with the ModDowns of a sum as one ModDown of the sum."""
    return sink_through_sums(sink, _MOD_DOWN)


def _factor_over(p: Node, ring: RingSpec) -> Node | None:
    """p over QP, where p is a small integer, or a part of a small polynomial known there."""
    if isinstance(p.arg, ConstArg):
        value = centered(p.arg.value, p.spec.ring.q)
        return const(value, ring, p.spec.domain) if _is_small(length(value), p) else None
    if p.op is ops.SCALAR:  # over QP it is the same integer
        is_small = p.arg.bits is not None and _is_small(p.arg.bits, p)
        return make(ops.SCALAR, (), attrs.evolve(p.arg, ring=ring)) if is_small else None
    whole = p
    while whole.op is ops.TO_RING:
        whole = whole.src[0]
    if whole.op is not ops.BOUNDED or whole.spec.domain is not Domain.NTT:
        return None  # coefficients would be transformed over QP, not over Q
    if not is_subset(ring.moduli, whole.spec.ring.moduli):
        return None
    return view(whole, ring.moduli) if _is_small(whole.arg.bits, p) else None


def _is_small(bits: float, p: Node) -> bool:
    """Whether |p a| stays below QP also for the noise in a: p leaves ten bits of Q free."""
    return bits + 10 <= math.log2(p.spec.ring.q)


_MOD_DOWN = Sinkable(
    op=ops.MODDOWN,
    unary=(ops.NEG, ops.ROTATE, ops.AUTOMORPHISM),
    factor=_factor_over,
    argument=lambda like: RingArg(like.spec.ring),
)
