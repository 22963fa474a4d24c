"""Nodes: interning, digests, walks that do not recurse."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest

from ren.core import Domain, RingSpec, buffer, const, make, toposort
from ren.core import op as ops
from ren.core.errors import DomainError, RingMismatchError
from ren.core.node import interned
from ren.core.spec import RingArg, ShiftArg, SinkArg

RING = RingSpec(8, (17, 97))


def leaf(*batch: int, ring: RingSpec = RING, domain: Domain = Domain.COEFF):
    return buffer(np.zeros((*batch, ring.limbs, ring.n), np.uint32), ring, domain)


def test_equal_programs_are_one_object():
    a, b = leaf(), leaf()
    assert a is not b
    assert make(ops.ADD, (a, b)) is make(ops.ADD, (a, b))
    assert make(ops.ADD, (a, b)) is not make(ops.ADD, (b, a))
    assert const(3, RING) is const(3 + 17 * 97, RING)
    assert const(3, RING) is not const(3, RING, Domain.NTT)


def test_one_buffer_node_for_one_array():
    array = np.zeros((2, 8), np.uint32)
    assert buffer(array, RING, Domain.COEFF) is buffer(array, RING, Domain.COEFF)
    assert buffer(array, RING, Domain.COEFF) is not buffer(array.copy(), RING, Domain.COEFF)
    assert buffer(array, RING, Domain.COEFF) is not buffer(array, RING, Domain.NTT)


def test_a_traced_buffer_is_never_interned():
    array = np.zeros((2, 8), np.uint32)
    first = buffer(array, RING, Domain.COEFF, traced=True)
    assert first is not buffer(array, RING, Domain.COEFF, traced=True)


def test_interned_nodes_die_with_their_last_user():
    chain = leaf()
    for _ in range(100):
        chain = make(ops.NEG, (make(ops.ADD, (chain, chain)),))
    live = weakref.WeakSet(toposort(chain))
    assert len(live) == 201
    del chain
    gc.collect()
    assert not live


def test_arguments_whose_hashes_meet_make_two_nodes():
    a = leaf()
    args = ShiftArg(-1), ShiftArg(-2)
    assert hash(args[0]) == hash(args[1])
    first, second = (make(ops.SHIFT, (a,), arg) for arg in args)
    assert (first.arg, second.arg) == args
    for _ in range(2):
        assert make(ops.SHIFT, (a,), ShiftArg(-1)) is first
        assert make(ops.SHIFT, (a,), ShiftArg(-2)) is second
    del first
    gc.collect()
    assert make(ops.SHIFT, (a,), ShiftArg(-2)) is second
    assert make(ops.SHIFT, (a,), ShiftArg(-1)) is make(ops.SHIFT, (a,), ShiftArg(-1))


def test_the_table_of_nodes_forgets_the_dead():
    a = leaf()
    kept = [make(ops.SHIFT, (a,), ShiftArg(k)) for k in range(1, 100)]
    most = 2 * len(interned) + 20_000
    for k in range(100, most + 60_000):
        make(ops.SHIFT, (a,), ShiftArg(k))
    assert len(interned) < most
    assert all(make(ops.SHIFT, (a,), node.arg) is node for node in kept)


def test_no_code_of_python_runs_where_a_node_dies():
    """An exception of the handler of a signal would be lost there."""
    a, called = leaf(), []
    program = make(ops.SHIFT, (make(ops.NEG, (a,)),), ShiftArg(3))
    sys.setprofile(lambda frame, event, _: called.append(frame) if event == "call" else None)
    try:
        del program
    finally:
        sys.setprofile(None)
    assert not called


def test_a_digest_names_the_program_also_when_the_node_is_gone():
    a, b = leaf(), leaf()
    digest = make(ops.SUB, (a, b)).digest
    gc.collect()
    assert make(ops.SUB, (a, b)).digest == digest
    assert make(ops.SUB, (b, a)).digest != digest
    assert leaf().digest != leaf().digest


@pytest.mark.long
def test_a_chain_of_fifty_thousand_ops_is_built_walked_printed_and_freed():
    x = a = leaf()
    for _ in range(50_000):
        x = make(ops.ADD, (x, a))
    assert len(toposort(x)) == 50_001
    assert str(x).count("\n") == 50_001
    del x
    gc.collect()


def test_toposort_lists_sources_first_and_once():
    a, b = leaf(), leaf()
    s = make(ops.ADD, (a, b))
    root = make(ops.SUB, (s, make(ops.NEG, (s,))))
    order = toposort(root)
    assert len(order) == len(set(order)) == 5
    assert all(order.index(src) < order.index(n) for n in order for src in n.src)


@pytest.mark.parametrize(
    ("domains", "op", "expected"),
    [
        ((Domain.COEFF, Domain.COEFF), ops.ADD, Domain.COEFF),
        ((Domain.COEFF, Domain.NTT), ops.ADD, Domain.NTT),
        ((Domain.NTT, Domain.COEFF), ops.SUB, Domain.NTT),
        ((Domain.COEFF, Domain.COEFF), ops.MUL, Domain.NTT),
    ],
)
def test_domains_of_results(domains, op, expected):
    a, b = (leaf(domain=d) for d in domains)
    assert make(op, (a, b)).spec.domain is expected


def test_a_node_and_its_ring_name_one_dtype():
    a = leaf(2)
    total = make(ops.ADD, (a, make(ops.NTT, (a,))))
    assert total.dtype == total.spec.dtype == RING.dtype == str(a.arg.array.dtype) == "uint32"
    assert make(ops.SINK, (total,), SinkArg(("",))).dtype is None


def test_a_product_with_a_constant_stays_in_its_domain():
    assert make(ops.MUL, (leaf(), const(3, RING))).spec.domain is Domain.COEFF
    x = leaf(domain=Domain.NTT)
    assert make(ops.MUL, (const(3, RING), x)).spec.domain is Domain.NTT


def test_batch_shapes_broadcast_as_in_numpy():
    assert make(ops.ADD, (leaf(3, 1), leaf(4))).spec.batch == (3, 4)
    with pytest.raises(DomainError, match="batch shapes"):
        make(ops.ADD, (leaf(3), leaf(4)))


def test_a_node_checks_its_sources_and_its_argument():
    with pytest.raises(TypeError, match="takes 2 sources"):
        make(ops.ADD, (leaf(),))
    with pytest.raises(TypeError, match="RingArg"):
        make(ops.TO_RING, (leaf(),))
    other = RingSpec(16, (97,))
    with pytest.raises(RingMismatchError, match="degree"):
        make(ops.TO_RING, (leaf(),), RingArg(other))
