"""The rewrite driver, the verifier and the printer."""

from __future__ import annotations

import numpy as np
import pytest

from ren.core import Domain, RingSpec, buffer, const, make, print_graph, toposort
from ren.core import op as ops
from ren.core.errors import VerificationError
from ren.core.rewrite import rewrite, to_domain
from ren.core.spec import CopyArg, RingArg, RotateArg
from ren.lowering.passes.pipeline import PIPELINE, run_algebra, run_kernel_passes
from ren.lowering.passes.verify import verify

RING = RingSpec(8, (17, 97))


def leaf(domain: Domain = Domain.COEFF):
    return buffer(np.zeros((2, 8), np.uint32), RING, domain)


def test_rules_apply_bottom_up_until_none_fires():
    a = leaf()
    halve = {"NEG": (lambda node: node.src[0] if node.src[0].op is ops.NEG else None,)}
    x = a
    for _ in range(9):
        x = make(ops.NEG, (x,))
    drop_pairs = {"NEG": (lambda n: n.src[0].src[0] if n.src[0].op is ops.NEG else None,)}
    assert rewrite(x, drop_pairs) is make(ops.NEG, (a,))
    assert rewrite(x, halve) is make(ops.NEG, (a,))


def test_the_driver_is_iterative():
    x = a = leaf()
    for _ in range(20_000):
        x = make(ops.ADD, (x, a))
    b = leaf()
    assert rewrite(x, {}, {a: b}) is not x


def test_a_replacement_keeps_the_type_by_a_transform():
    a = leaf()
    x = make(ops.MUL, (a, make(ops.NEG, (const(1, RING),))))  # two proper factors: NTT
    assert x.spec.domain is Domain.NTT
    fold = {"NEG": (lambda node: const(-1, RING),)}
    assert rewrite(x, fold).spec == x.spec
    minus_one = const(-1, RING, Domain.NTT)
    assert rewrite(x, fold) is make(ops.MUL, (make(ops.NTT, (a,)), minus_one))


def test_a_rule_that_changes_the_ring_is_refused():
    a = leaf()
    wrong = {"NEG": (lambda n: make(ops.TO_RING, n.src, RingArg(RING.with_moduli((17,)))),)}
    with pytest.raises(VerificationError, match="changed its type"):
        rewrite(make(ops.NEG, (a,)), wrong)


def test_the_verifier_names_pass_rule_and_node():
    a = leaf()
    sink = make(ops.SINK, (make(ops.ROTATE, (a,), RotateArg(1)),))
    with pytest.raises(VerificationError, match=r"lower_ring_ops.*no high-level ring op.*ROTATE"):
        verify(sink, sink, ("lower_ring_ops",))
    mixed = make(ops.SINK, (make(ops.MUL, (a, leaf())),))
    with pytest.raises(VerificationError, match="domain wanted"):
        verify(mixed, mixed, ("insert_transforms",))
    other = make(ops.SINK, (to_domain(a, Domain.NTT),))
    with pytest.raises(VerificationError, match="changed a root"):
        verify(make(ops.SINK, (a,)), other, ("simplify_algebra",))


def test_each_pass_is_idempotent_on_a_program_with_every_ring_op():
    a, b = leaf(), leaf(Domain.NTT)
    small = RING.with_moduli((97,))
    wide = RING.with_moduli((97, 113))
    x = make(ops.MUL, (make(ops.ADD, (a, b)), make(ops.ROTATE, (b,), RotateArg(1))))
    roots = (
        make(ops.RESCALE, (x,), RingArg(wide)),
        make(ops.TO_RING, (x,), RingArg(small)),
        make(ops.MODDOWN, (x,), RingArg(small)),
        make(ops.TO_RING, (a,), RingArg(wide)),
    )
    graph = make(ops.SINK, roots)
    for step in PIPELINE:
        graph = step.run(graph)
        assert step.run(graph) is graph, step.name


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda a: make(ops.ADD, (a, const(0, RING))), "a"),
        (lambda a: make(ops.ADD, (const(0, RING), a)), "a"),
        (lambda a: make(ops.SUB, (a, const(0, RING))), "a"),
        (lambda a: make(ops.MUL, (a, const(1, RING))), "a"),
        (lambda a: make(ops.NEG, (make(ops.NEG, (a,)),)), "a"),
        (lambda a: make(ops.INTT, (make(ops.NTT, (a,)),)), "a"),
        (lambda a: make(ops.ROTATE, (a,), RotateArg(0)), "a"),
        (lambda a: make(ops.TO_RING, (a,), RingArg(RING)), "a"),
        (lambda a: make(ops.MUL, (a, const(0, RING))), "CONST"),
        (lambda a: make(ops.ADD, (const(2, RING), const(3, RING))), "CONST"),
        (lambda a: make(ops.SUB, (a, a)), "CONST"),
        (lambda a: make(ops.SUB, (make(ops.ADD, (a, const(5, RING))), const(5, RING))), "a"),
        (lambda a: make(ops.MUL, (make(ops.MUL, (a, const(2, RING))), const(825, RING))), "a"),
    ],
)
def test_algebra(build, expected):
    a = leaf()
    (root,) = PIPELINE[0].run(make(ops.SINK, (build(a),))).src
    assert root is a if expected == "a" else root.op is ops.CONST


def test_a_round_trip_through_a_view_is_cancelled():
    b = leaf(Domain.NTT)
    x = make(ops.TO_RING, (make(ops.INTT, (b,)),), RingArg(RING.with_moduli((17,))))
    lowered = run_kernel_passes(run_algebra(make(ops.SINK, (make(ops.NTT, (x,)),))))
    assert "NTT" not in [n.op.name for n in toposort(lowered)]


def test_a_rescale_transforms_only_the_limbs_that_it_converts():
    x = make(ops.RESCALE, (leaf(Domain.NTT),), RingArg(RING.with_moduli((17,))))
    graph = make(ops.SINK, (x,))
    for step in PIPELINE:
        graph = step.run(graph)
        if step.name == "reduce_transforms":
            break
    lowered = toposort(graph)
    limbs = {n.op.name: n.spec.ring.limbs for n in lowered if n.op in (ops.NTT, ops.INTT)}
    assert limbs == {"INTT": 1, "NTT": 1}


def test_the_printer_names_shared_nodes_once():
    a = leaf()
    s = make(ops.ADD, (a, a))
    text = print_graph(make(ops.SUB, (s, make(ops.NEG, (s,)))))
    assert text.splitlines() == [
        "%0 = BUFFER b0 : R0 coeff",
        "%1 = ADD %0 %0 : R0 coeff",
        "%2 = NEG %1 : R0 coeff",
        "%3 = SUB %1 %2 : R0 coeff",
        "R0: n=8, 2 limbs, moduli=(17, 97)",
    ]


def test_constants_are_reassociated_and_doubled_operands_are_products():
    a = leaf()

    def simplified(x):
        return PIPELINE[0].run(make(ops.SINK, (x,))).src[0]

    three, four = const(3, RING), const(4, RING)
    x = make(ops.SUB, (make(ops.ADD, (three, a)), four))
    assert simplified(x) is make(ops.ADD, (a, const(-1, RING)))
    twice = make(ops.ADD, (a, a))
    assert simplified(make(ops.MUL, (twice, three))) is make(ops.MUL, (a, const(6, RING)))
    copy = make(ops.COPY, (make(ops.COPY, (a,), CopyArg("cpu:1")),), CopyArg("python"))
    assert simplified(copy) is make(ops.COPY, (a,), CopyArg("python"))
