"""Hybrid key switching with digits: from c under one secret to two polynomials under another.

Written once, in ring operations. Several switches of one polynomial share their ModUp because equal
programs are the same node. So there is no hoisted variant here.

Reference: Han and Ki, "Better bootstrapping for approximate homomorphic encryption", 2020, 3.1.
"""

from __future__ import annotations

from ren.core.ring import intersection
from ren.poly import Poly
from ren.schemes.rlwe.gadget import Gadget
from ren.schemes.rlwe.keys import SwitchingKey


def key_switch(c: Poly, key: SwitchingKey, gadget: Gadget) -> tuple[Poly, Poly]:
    """(k0, k1) with k0 + k1 t = c s' + noise, for a key that encrypts s' under t.

    Args:
        c: in the NTT domain, over a ring whose moduli are limbs of `gadget`.
        key: made for the same gadget.

    Returns:
        Two polynomials over the ring of `c`, NTT domain. The noise is at most about
        sum_j n D_j / P (gaussian) + n / 2 (rounding) in each coefficient, far less on average.

    Cost: with L limbs of `c`, k special primes and d digits that meet them: L + d (L + k) - L
    + 2 (L + k) limb-NTTs, 2 d (L + k) n multiply-adds.
    """
    ring, extended = c.ring, gadget.extended(c.ring)
    sum0: Poly | None = None
    sum1: Poly | None = None
    for digit, b, a in zip(gadget.digits, key.b, key.a, strict=True):
        part = intersection(digit, ring.moduli)
        if not part:
            continue
        lifted = c.mod_up(part, extended)
        term0, term1 = lifted * b.to_ring(extended), lifted * a.to_ring(extended)
        sum0 = term0 if sum0 is None else sum0 + term0
        sum1 = term1 if sum1 is None else sum1 + term1
    assert sum0 is not None and sum1 is not None  # the digits cover every level basis
    return sum0.mod_down(ring), sum1.mod_down(ring)
