"""A ModDown and the rescale after it divide once, and round to nearest."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ren.core import Domain, Node, RingSpec, Spec, make, placeholder, toposort
from ren.core import op as ops
from ren.core.spec import RingArg
from ren.lowering.passes.join_rescale import join_rescale
from tests import oracle, rings
from tests.lowering.passes.polynomials import polynomials
from tests.lowering.passes.test_pass_properties import limb_ntts, through

N = 16
PRIMES = rings.primes(N)[-7:]
OLD, SPECIALS, NEW = PRIMES[:4], PRIMES[4:6], rings.primes(N)[:1]
WIDE, RING = RingSpec(N, (*OLD, *SPECIALS)), RingSpec(N, OLD)
SMALLER = RING.with_moduli(OLD[2:])
OTHER = RING.with_moduli((*NEW, *OLD[2:]))  # it has a modulus that was not there


def leaf(ring: RingSpec, domain: Domain = Domain.NTT) -> Node:
    return placeholder(Spec(ring, domain))


def down(x: Node, ring: RingSpec = RING) -> Node:
    return make(ops.MODDOWN, (x,), RingArg(ring))


def rescaled(x: Node, ring: RingSpec) -> Node:
    return make(ops.SINK, (make(ops.RESCALE, (x,), RingArg(ring)),))


def drawn(*leaves: Node) -> dict[Node, np.ndarray]:
    rng = np.random.default_rng(5)
    draws = {}
    for x in leaves:
        q = x.spec.ring.q
        draws[x] = np.array([int.from_bytes(rng.bytes(32), "big") % q for _ in range(N)], object)
    return draws


def nearest(a: int, b: int) -> int:
    return (2 * a + b) // (2 * b)


WAYS = {
    "a": lambda a, c: down(a),
    "a + c": lambda a, c: make(ops.ADD, (down(a), c)),
    "c + a": lambda a, c: make(ops.ADD, (c, down(a))),
    "a - c": lambda a, c: make(ops.SUB, (down(a), c)),
}
SIGNS = {"a": 0, "a + c": 1, "c + a": 1, "a - c": -1}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ring", [SMALLER, OTHER], ids=["smaller", "other"])
def test_the_result_is_the_quotient_rounded_to_nearest(way: str, ring: RingSpec) -> None:
    a, c = leaf(WIDE), leaf(RING)
    sink = rescaled(WAYS[way](a, c), ring)
    after = join_rescale(sink)
    assert not any(node.op in (ops.MODDOWN, ops.RESCALE) for node in toposort(after))
    values = drawn(a, c)
    (found,) = polynomials(after, dict(values))
    p, d = math.prod(SPECIALS), math.prod(OLD[:2])
    m = math.prod(ring.moduli) * d // RING.q
    for x, y, got in zip(values[a], values[c], found, strict=True):
        whole = oracle.centred((x + SIGNS[way] * p * y) % WIDE.q, WIDE.q)
        assert got == nearest(m * whole, p * d) % ring.q


def test_it_saves_the_transforms_of_the_basis_between() -> None:
    sink = rescaled(make(ops.ADD, (down(leaf(WIDE)), leaf(RING))), SMALLER)
    needed = ("lower_ring_ops", "insert_transforms")
    before, after = (limb_ntts(through(s, *needed)) for s in (sink, join_rescale(sink)))
    assert (before, after) == (2 + 4 + 2 + 2, 2 + 2 + 2)


def test_a_value_that_others_read_is_divided_as_it_was() -> None:
    total = make(ops.ADD, (down(leaf(WIDE)), leaf(RING)))
    shared = make(ops.SINK, (make(ops.RESCALE, (total,), RingArg(SMALLER)), total))
    plain = rescaled(leaf(RING), SMALLER)
    coefficients = rescaled(down(leaf(WIDE, Domain.COEFF)), SMALLER)
    for sink in (shared, plain, coefficients):
        assert join_rescale(sink) is sink


def test_rounding_that_would_grow_stays() -> None:
    """Where little is divided away and much multiplied in, the error of the ModDown counts."""
    small = rings.primes(N)[:2]
    old = RingSpec(N, (small[0], *OLD[:2]))
    wide = old.with_moduli((*old.moduli, *SPECIALS))
    sink = rescaled(down(leaf(wide), old), old.with_moduli((small[1], *OLD[:2])))
    assert join_rescale(sink) is sink
