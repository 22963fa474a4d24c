"""ModDown sinks through sums: the rules, where they fire and where they must not."""

from __future__ import annotations

import random

import numpy as np
import pytest

import ren
from ren import Poly, RingSpec
from ren.core import make, toposort
from ren.core import op as ops
from ren.lowering.passes.sink_mod_down import sink_mod_down
from ren.poly.poly import bounded
from tests import oracle
from tests.rings import primes

N = 64
POOL = primes(N)[-7:]
Q, P = RingSpec(N, POOL[:4]), POOL[4:]
QP = RingSpec(N, POOL)


def wide(seed: int) -> tuple[Poly, list[int]]:
    rng = random.Random(seed)
    values = [rng.randrange(QP.q) for _ in range(N)]
    return Poly(values, QP), values


def small(seed: int, bits: int = 20) -> tuple[Poly, list[int]]:
    """A polynomial with small coefficients, over QP, as a part of it that is marked so."""
    rng = random.Random(seed)
    values = [rng.randint(-(2**bits) + 1, 2**bits - 1) for _ in range(N)]
    return bounded(Poly(values, QP).ntt(), bits).to_ring(Q), values


def mod_downs(*polys: Poly) -> tuple[int, int]:
    """How many ModDowns there are before the pass and after it."""
    before = make(ops.SINK, [p.node for p in polys])
    counts = [
        sum(n.op is ops.MODDOWN for n in toposort(g)) for g in (before, sink_mod_down(before))
    ]
    return counts[0], counts[1]


def distance(x: Poly, y: list[int]) -> int:
    """The largest difference of two polynomials mod q, centred."""
    pairs = zip(x.tolist(), y, strict=True)
    return max(min((a - b) % Q.q, (b - a) % Q.q) for a, b in pairs)


def down(values: list[int]) -> list[int]:
    return oracle.mod_down(values, POOL, Q.moduli)


def test_a_sum_is_divided_once():
    terms = [wide(i) for i in range(8)]
    total = sum((x.mod_down(Q) for x, _ in terms[1:]), start=terms[0][0].mod_down(Q))
    assert mod_downs(total) == (8, 1)
    expected = [0] * N
    for _, values in terms:
        expected = oracle.add(expected, down(values), Q.q)
    assert distance(total, expected) <= 8 * (len(P) + 1)


def test_rotations_differences_and_addends_pass():
    (a, av), (b, bv) = wide(0), wide(1)
    c = Poly(range(N), Q)
    x = (a.mod_down(Q).rotate(3) + c) - b.mod_down(Q).rotate(-1)
    assert mod_downs(x) == (2, 1)
    expected = oracle.add(oracle.rotate(down(av), 3, Q.q), list(range(N)), Q.q)
    expected = oracle.sub(expected, oracle.rotate(down(bv), -1, Q.q), Q.q)
    assert distance(x, expected) <= 2 * (len(P) + 1)


def test_small_factors_known_over_qp_pass():
    (a, av), (b, bv) = wide(0), wide(1)
    (p, pv), (r, rv) = small(2), small(3)
    x = a.ntt().mod_down(Q) * p + r * b.ntt().mod_down(Q)
    assert mod_downs(x) == (2, 1)
    # p MD(a) itself is p times the rounding away from p a / P: compare with the exact quotient.
    product = oracle.add(oracle.mul(av, pv, QP.q), oracle.mul(bv, rv, QP.q), QP.q)
    assert distance(x, down(product)) <= len(P) + 1


@pytest.mark.parametrize(("low", "high"), [(3, -5), (2**40, -(2**39) + 1), (0, 1)])
def test_integers_pass(low, high):
    (a, av), (b, bv) = wide(0), wide(1)
    x = a.mod_down(Q) * low - high * b.mod_down(Q)
    before, after = mod_downs(x)
    assert after == min(before, 1)
    exact = [(low * v - high * w) % QP.q for v, w in zip(av, bv, strict=True)]
    assert distance(x, down(exact)) <= len(P) + 1


def test_integers_that_leave_no_room_stay():
    (a, _), (b, _) = wide(0), wide(1)
    large = Q.q // 2**9
    assert mod_downs(a.mod_down(Q) * large + b.mod_down(Q) * large) == (2, 2)


@pytest.mark.parametrize("bits", [2, 20, 40])
def test_a_factor_keeps_the_message(bits):
    """For a = P m + e with small e, p MD(a) is near p m: what the rule is for."""
    rng = random.Random(bits)
    big_p = QP.q // Q.q
    m = [rng.randrange(-(2**30), 2**30) for _ in range(N)]
    a = Poly([big_p * v + rng.randint(-(2**20), 2**20) for v in m], QP).ntt()
    p, pv = small(7, bits)
    x = a.mod_down(Q) * p + a.mod_down(Q).rotate(1) * p
    assert mod_downs(x) == (1, 1)  # one ModDown that two read: nothing to save
    y = a.mod_down(Q) * p + (a + 1).mod_down(Q) * p
    assert mod_downs(y) == (2, 1)
    expected = oracle.mul([2 * v % Q.q for v in m], pv, Q.q)
    assert distance(y, expected) <= 2 * N * 2 ** max(0, bits + 20 - 80) + len(P) + 1


def test_it_does_not_fire_where_it_would_not_save():
    (a, _), (b, _) = wide(0), wide(1)
    x, y = a.mod_down(Q), b.mod_down(Q)
    assert mod_downs(x + y, x - y, x) == (2, 2)
    assert mod_downs(x + Poly(range(N), Q)) == (1, 1)
    assert mod_downs(x * y) == (2, 2)
    coefficients, (p, _) = a.mod_down(Q), small(2)
    assert mod_downs(coefficients * p + y * p) == (2, 2)  # p over QP would cost more transforms
    x, y = a.ntt().mod_down(Q), b.ntt().mod_down(Q)
    large = bounded(Poly(range(N), QP).ntt(), 115).to_ring(Q)
    assert mod_downs(x * large + y * large) == (2, 2)
    unknown = Poly(range(N), Q).ntt()
    assert mod_downs(x * unknown + y * unknown) == (2, 2)


def test_it_is_idempotent_and_leaves_other_programs_alone():
    (a, _), (b, _) = wide(0), wide(1)
    graph = make(ops.SINK, [(a.mod_down(Q) + b.mod_down(Q)).node])
    once = sink_mod_down(graph)
    assert sink_mod_down(once) is once
    plain = make(ops.SINK, [(a * b).node])
    assert sink_mod_down(plain) is plain


def test_the_python_device_agrees():
    (a, _), (b, _) = wide(0), wide(1)
    x = a.mod_down(Q).rotate(3) + b.mod_down(Q)
    a, b = a.to("python"), b.to("python")
    y = a.mod_down(Q).rotate(3) + b.mod_down(Q)
    assert np.array_equal(np.asarray(x.limbs), y.limbs)
    assert ren.equal(x, y)
