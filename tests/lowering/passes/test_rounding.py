"""Passes that change rounding: within one unit a term of the program as it was written."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ren.core import Domain, Node, RingSpec, Spec, make, placeholder, toposort
from ren.core import op as ops
from ren.core.spec import AutomorphismArg, BoundArg, RingArg
from ren.lowering.passes.pipeline import PIPELINE
from tests import oracle, rings
from tests.lowering.passes.polynomials import polynomials
from tests.lowering.passes.test_pass_properties import limb_ntts, through

CHANGING = tuple(step for step in PIPELINE if step.changes_rounding)
LARGEST = 3  # the coefficients of small factors; bits + 10 stay below log2 Q


class Sum:
    """sum_j +-sigma_j(p_j MD(a_j)) + c, MD from QP to Q; p_j is small and known over QP.

    `weight` is the sum of |p_j|_1: what the rounding of each ModDown is multiplied by.
    """

    def __init__(self, seed: int, n: int, limbs: int, specials: int, domains: list[Domain]) -> None:
        self.rng, self.n, self.specials = random.Random(seed), n, specials
        primes = rings.primes(n)[-limbs - specials :]
        self.wide, self.ring = RingSpec(n, primes), RingSpec(n, primes[:limbs])
        self.values: dict[Node, np.ndarray] = {}
        self.weight = 0
        self.terms = len(domains)
        total = self.term(domains[0])
        for domain in domains[1:]:
            op = self.rng.choice([ops.ADD, ops.SUB])
            src = [total, self.term(domain)]
            self.rng.shuffle(src)
            total = make(op, src)
        if self.rng.random() < 0.5:
            total = make(ops.ADD, (total, self.leaf(self.ring, self.ring.q, domains[0])))
        self.sink = make(ops.SINK, (total,))

    def leaf(self, ring: RingSpec, below: int, domain: Domain) -> Node:
        node = placeholder(Spec(ring, domain))
        draw = [self.rng.randint(-below, below) % ring.q for _ in range(self.n)]
        self.values[node] = np.array(draw, object)
        return node

    def term(self, domain: Domain) -> Node:
        x = make(ops.MODDOWN, (self.leaf(self.wide, self.wide.q, domain),), RingArg(self.ring))
        norm = 1
        if self.rng.random() < 0.5:
            p = self.leaf(self.wide, LARGEST, domain)
            norm = sum(abs(oracle.centred(c, self.wide.q)) for c in self.values[p])
            bounded = make(ops.BOUNDED, (p,), BoundArg(2.0))
            x = make(ops.MUL, (x, make(ops.TO_RING, (bounded,), RingArg(self.ring))))
        self.weight += norm
        if self.rng.random() < 0.5:
            x = make(ops.AUTOMORPHISM, (x,), AutomorphismArg(self.rng.randrange(1, 2 * self.n, 2)))
        return make(ops.NEG, (x,)) if self.rng.random() < 0.2 else x


def sums(domains: st.SearchStrategy[Domain]) -> st.SearchStrategy[Sum]:
    """Sums of one to six terms, n = 4 or 16, one to three limbs and special primes."""
    return st.builds(
        Sum,
        st.integers(0, 2**32 - 1),
        st.sampled_from((4, 16)),
        st.integers(1, 3),
        st.integers(1, 3),
        st.lists(domains, min_size=1, max_size=6),
    )


ANY, NTT = st.sampled_from(list(Domain)), st.just(Domain.NTT)


@given(sums(ANY))
def test_rounding_moves_by_half_a_unit_a_special_prime_for_each_division(drawn):
    """|MD(a) - a/P| <= k/2 for k special primes, in each of the terms and in their sum."""
    q = drawn.ring.q
    (expected,) = polynomials(drawn.sink, dict(drawn.values))
    for step in CHANGING:
        (found,) = polynomials(step.run(drawn.sink), dict(drawn.values))
        off = max(abs(oracle.centred(a - b, q)) for a, b in zip(found, expected, strict=True))
        assert 2 * off <= drawn.specials * (1 + drawn.weight), step.name


@given(sums(ANY))
def test_a_pass_that_changes_rounding_never_adds_transforms(drawn):
    needed = ("lower_ring_ops", "insert_transforms")
    for step in CHANGING:
        after = limb_ntts(through(step.run(drawn.sink), *needed))
        assert after <= limb_ntts(through(drawn.sink, *needed)), step.name


@given(sums(NTT))
def test_a_sum_in_the_ntt_domain_is_divided_once(drawn):
    graph = through(drawn.sink, *(step.name for step in CHANGING))
    assert sum(node.op is ops.MODDOWN for node in toposort(graph)) == 1
