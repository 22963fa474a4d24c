"""Every pass on random programs: values, types, fixpoints, and the count of transforms."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ren.core import OPS, Domain, Node, RingSpec, Spec, const, make, placeholder, toposort
from ren.core import op as ops
from ren.core.op import Kind
from ren.core.spec import RingArg, Work
from ren.lowering.passes.pipeline import PIPELINE
from ren.lowering.passes.verify import verify
from ren.lowering.plan.memory import with_donations
from ren.lowering.plan.plan import schedule
from ren.lowering.runtime.runner import run_plan
from tests.lowering.passes.interpreter import coefficients_of, interpret, limbs_of
from tests.lowering.passes.polynomials import MEANINGS, OF_BATCHES, polynomials
from tests.lowering.passes.programs import (
    ARGUMENTS,
    DRAWN,
    LOWERED,
    NOTED,
    OF_DEGREES,
    Program,
    generate,
    of_several_degrees,
    programs,
)

NEEDED = ("lower_ring_ops", "insert_transforms")  # without these nothing can run
OPTIMIZING = ("simplify_algebra", "simplify_lowered", "reduce_transforms")


def arrays_of(program: Program) -> dict[Node, np.ndarray]:
    return {
        node: limbs_of(values, node.spec.ring, node.spec.domain)
        for node, values in program.inputs.items()
    }


def limb_ntts(sink: Node) -> int:
    return sum((node.work for node in toposort(sink)), Work()).limb_ntts


def through(sink: Node, *names: str) -> Node:
    """`sink` after the passes called `names`, in pipeline order."""
    for step in PIPELINE:
        if step.name in names:
            sink = step.run(sink)
    return sink


def unoptimized(sink: Node) -> Node:
    return through(sink, *(step.name for step in PIPELINE if step.name not in OPTIMIZING))


def check_every_pass(program: Program) -> None:
    """Values against the oracle, types of roots, stage rules and fixpoints, after every pass.

    After a pass that changes rounding the values are those that the oracle gives to its result.
    """
    expected = [program.values[root] for root in program.sink.src]
    specs = [root.spec for root in program.sink.src]
    known = dict(arrays_of(program))
    graph, done = program.sink, ()
    for step in PIPELINE:
        after, done = step.run(graph), (*done, step.name)
        verify(graph, after, done)
        assert step.run(after) is after, f"{step.name} is not idempotent"
        assert [root.spec for root in after.src] == specs, f"{step.name} changed a type"
        if step.changes_rounding and after is not graph:
            expected = polynomials(after, program.inputs)
        for array, spec, values in zip(interpret(after, known), specs, expected, strict=True):
            assert array.shape == spec.shape and array.dtype == np.uint32, step.name
            found = coefficients_of(array, spec.ring, spec.domain)
            assert np.array_equal(found, values), f"{step.name} changed a value"
        graph = after


@given(programs())
def test_every_pass_keeps_values_and_types_and_is_idempotent(program):
    check_every_pass(program)


# Seed, degree and length of programs that a pass once broke: numbers known at each run behind
# transforms, in parts, and multiplied by constants; joined limbs of two batch shapes; values kept
# whole by a reader that went; a rescale onto a prime that a ModDown before it divides by.
BROKEN = (
    (737, 4, 23),
    (5319452, 4, 24),
    (3044020650, 4, 24),
    (3083831520, 8, 10),
    (2653029798, 8, 12),
    (2940816718, 4, 15),
    (1823709180, 4, 15),
    (1722042982, 8, 25),
)


@pytest.mark.parametrize(("seed", "n", "steps"), BROKEN)
def test_every_pass_on_programs_that_were_broken_once(seed, n, steps):
    check_every_pass(generate(seed, n, steps, among=NOTED))


@given(of_several_degrees())
def test_every_pass_on_programs_of_several_degrees(program):
    check_every_pass(program)


@pytest.mark.slow
@settings(max_examples=3000)
@given(st.integers(0, 2**32 - 1), st.sampled_from([4, 8]), st.integers(1, 24))
def test_every_pass_on_many_programs(seed, n, steps):
    check_every_pass(generate(seed, n, steps))


@pytest.mark.parametrize("op", DRAWN, ids=lambda op: op.name)
def test_every_pass_on_programs_full_of_one_op(op):
    run = settings(max_examples=6)(given(programs(steps=4, using=op))(check_every_pass))
    run()


def test_a_product_whose_factors_both_become_constants_is_folded():
    """Its domain changes with its sources, so that a transform goes around it."""
    ring = RingSpec(8, (17, 97))
    x = make(ops.LIFT, (const(3, ring, Domain.NTT),), RingArg(RingSpec(8, (113,))))
    (root,) = PIPELINE[0].run(make(ops.SINK, (make(ops.MUL, (x, x)),))).src
    assert root is const(9, RingSpec(8, (113,)), Domain.NTT)


@pytest.mark.parametrize("is_constant", [False, True])
def test_a_view_of_a_view_is_a_root_also_of_an_unoptimized_program(is_constant):
    ring = RingSpec(8, (17, 97, 113))
    x = const(3, ring) if is_constant else placeholder(Spec(ring, Domain.COEFF))
    for moduli in ((17, 97), (97,)):
        x = make(ops.VIEW, (x,), RingArg(ring.with_moduli(moduli)))
    values = np.arange(100, 108).astype(object)
    inputs = {leaf: values for leaf in toposort(x) if leaf.op is ops.PLACEHOLDER}
    arrays = arrays_of(Program(make(ops.SINK, (x,)), inputs))
    (found,) = run(unoptimized(make(ops.SINK, (x,))), arrays)
    want = [3] + [0] * 7 if is_constant else list(values % 97)
    assert list(coefficients_of(found, x.spec.ring, Domain.COEFF)) == want


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_every_op_is_drawn_or_made_by_a_pass(op):
    if op in DRAWN or op in OF_DEGREES:
        assert op.arg in ARGUMENTS, f"add a strategy for the argument of {op.name}"
        assert op.name in MEANINGS or op.name in OF_BATCHES, f"say what {op.name} means"
    elif op.name in LOWERED:
        assert LOWERED[op.name] in OPS
    else:
        assert op.kind in (Kind.LEAF, Kind.MEMORY, Kind.INDEX, Kind.ROOT)


@given(st.one_of(programs(), of_several_degrees()))
def test_no_pass_adds_transforms_and_the_pipeline_takes_no_more_than_it_needs(program):
    """Before pass 3 transforms are implied: they are counted as passes 2 and 3 insert them."""
    needed = limb_ntts(through(program.sink, *NEEDED))
    graph = program.sink
    for step in PIPELINE:
        after = step.run(graph)
        if step.number == 1:
            before = limb_ntts(through(graph, *NEEDED))
            assert limb_ntts(through(after, *NEEDED)) <= before, step.name
        if step.number in (4, 10):
            assert limb_ntts(after) <= limb_ntts(graph), step.name
        if step.name == "materialize":
            assert limb_ntts(after) <= needed
        graph = after


def known_scalars(sink: Node) -> dict[Node, np.ndarray]:
    found = [node for node in toposort(sink) if node.op is ops.SCALAR]
    return dict(zip(found, interpret(make(ops.SINK, found), {}), strict=True))


def run(sink: Node, arrays: dict[Node, np.ndarray]) -> list[np.ndarray]:
    """The roots of a graph after the last pass, computed by XLA."""
    plan = with_donations(schedule(sink))
    given_arrays = {node.arg: array for node, array in arrays.items()}
    scalars = {node.arg: array for node, array in known_scalars(sink).items()}
    inputs = [jnp.asarray({**given_arrays, **scalars}[i.arg]) for i in plan.inputs]
    return [np.asarray(a) for a in run_plan(plan, inputs)]


@pytest.mark.long
@settings(max_examples=16)
@given(st.one_of(programs(steps=8, degrees=(8,)), of_several_degrees(steps=3, degrees=(8,))))
def test_the_pipeline_equals_the_unoptimized_program_bit_for_bit(program):
    """Where a pass changed the rounding, what it made is the program to compare with."""
    arrays, graph = arrays_of(program), program.sink
    for step in PIPELINE:
        if step.changes_rounding:
            graph = step.run(graph)
    expected = polynomials(graph, program.inputs)
    first = run(through(program.sink, *(step.name for step in PIPELINE)), arrays)
    second = run(unoptimized(graph), arrays)
    for a, b, root, values in zip(first, second, graph.src, expected, strict=True):
        assert np.array_equal(a, b)
        assert np.array_equal(coefficients_of(a, root.spec.ring, root.spec.domain), values)
