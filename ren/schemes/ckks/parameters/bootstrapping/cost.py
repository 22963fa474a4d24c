"""The work of a bootstrap by counting: transforms of limbs, multiply-adds, bytes, and seconds.

Counts are those of the stages as they are written; the compiled programs have up to a tenth more.
Seconds are by the model of native calls.
"""

from __future__ import annotations

from functools import lru_cache

import attrs

from ren.core.ring import RingSpec, intersection
from ren.lowering.plan.cost import rates
from ren.schemes.ckks.parameters.bootstrapping.chain import Chain
from ren.schemes.ckks.parameters.bootstrapping.labels import (
    diagonals_nbytes,
    folded,
    keys_nbytes,
    products,
    trace,
)
from ren.schemes.ckks.parameters.bootstrapping.matrices import Matrix
from ren.schemes.ckks.parameters.bootstrapping.sine import DOUBLINGS
from ren.schemes.rlwe.keyswitch import Gadget

_SQUARES = 1 + 4 + DOUBLINGS  # T_2(y), the powers of two up to T_8(u) and T_3, the double angles
_SUMS = 3  # of products, in the polynomial


@attrs.frozen
class Work:
    """Transforms and multiply-adds of one limb each, and limbs that base conversions move."""

    limb_ntts: int = 0
    limb_products: int = 0
    limbs_converted: int = 0

    def __add__(self, other: Work) -> Work:
        pairs = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return Work(*(a + b for a, b in pairs))

    def times(self, count: int) -> Work:
        """This work so many times."""
        return Work(*(a * count for a in attrs.astuple(self)))


@lru_cache(maxsize=16)
def work_of(chain: Chain, is_complex: bool = True) -> Work:
    """The work of one bootstrap."""
    down, up = products(chain)
    work = Work()
    for i, m in enumerate(down.matrices):
        work += _matrix(
            m, chain.low, chain.whole, chain.above.floor - i, None if i else down.offset
        )
    lowest, top = chain.rings[0], chain.rings[chain.top]
    special = len(chain.full.specials)
    work += _switch(chain.sparse, lowest) + _divided(lowest, 1).times(2)
    work += Work(2 * lowest.limbs + 2 * top.limbs + special, lowest.limbs * (top.limbs + special))
    for i, m in enumerate(up.matrices):
        offset = None if i else up.offset
        work += _matrix(m, chain.full, chain, chain.top - i, offset, i == 0)
    *groups, last = trace(chain)
    level = chain.rings[chain.gathered]
    for switches in (*(len(group) - 1 for group in groups), 2 * len(last) - 1):
        work += _babies(chain.full, level, switches) + _divided(level, special).times(2)
    parts = 2 if is_complex and not chain.is_sparse else 1
    first = chain.rings[chain.first]
    work += _divided(first, level.limbs - first.limbs).times(2 * (parts - 1))
    for i in range(_SQUARES + _SUMS):  # one after another over the levels of the sine
        level = chain.first - i * chain.above.sine.depth // (_SQUARES + _SUMS)
        ring, lower = chain.rings[level], chain.rings[level - 1]
        one = _switch(chain.full, ring)
        one += _divided(lower, special + ring.limbs - lower.limbs).times(2)
        work += (one + Work(0, 6 * ring.limbs)).times(parts)
    return work


def seconds_of(chain: Chain, is_complex: bool = True) -> float:
    """The time of one bootstrap by the model; one of n = 2^16 took 0.85 to 1.1 times as long."""
    n, work = chain.params.n, work_of(chain, is_complex)
    butterflies = n // 2 * (n.bit_length() - 1)
    moved = keys_nbytes(chain) + diagonals_nbytes(chain) + 2 * 4 * n * work.limbs_converted
    return rates().seconds(work.limb_ntts * butterflies, work.limb_products * n, moved)


def _matrix(
    m: Matrix, gadget: Gadget, chain: Chain, level: int, offset: int | None, is_raised: bool = False
) -> Work:
    ring, lower = chain.rings[level], chain.rings[level - 1]
    wide, special = ring.limbs + len(gadget.specials), len(gadget.specials)
    if is_raised:  # one product for each half of each key
        work = Work(0, 2 * wide * m.babies * len(folded(chain)))
    else:
        work = _babies(gadget, ring, m.babies if offset else m.babies - 1).times(m.bases)
    work += Work(0, 2 * wide * len(m.numbers))
    step = _divided(ring, special) + _switch(gadget, ring)  # from a giant to the next
    work += step.times(m.giants - 1)
    step = _divided(ring, special) + _products(gadget, ring)  # and from a base
    work += step.times(m.bases - 1)
    return work + _divided(lower, special + ring.limbs - lower.limbs).times(2)


def _babies(gadget: Gadget, ring: RingSpec, count: int) -> Work:
    return _lifted(gadget, ring) + _products(gadget, ring).times(count)


def _switch(gadget: Gadget, ring: RingSpec) -> Work:
    return _lifted(gadget, ring) + _products(gadget, ring)


def _lifted(gadget: Gadget, ring: RingSpec) -> Work:
    """The decomposition: from values to coefficients, and each digit to the values of all limbs."""
    parts = [len(intersection(d, ring.moduli)) for d in gadget.digits]
    wide = ring.limbs + len(gadget.specials)
    others = [wide - part for part in parts if part]
    moved = wide * len(others)  # what is read, and what is made of it
    return Work(ring.limbs + sum(others), sum(p * (wide - p) for p in parts if p), moved)


def _products(gadget: Gadget, ring: RingSpec) -> Work:
    digits = sum(bool(intersection(d, ring.moduli)) for d in gadget.digits)
    return Work(0, 2 * digits * (ring.limbs + len(gadget.specials)))


def _divided(ring: RingSpec, left_out: int) -> Work:
    """A division of one polynomial by so many limbs, onto a ring."""
    return Work(left_out + ring.limbs, left_out * ring.limbs, left_out + ring.limbs)
