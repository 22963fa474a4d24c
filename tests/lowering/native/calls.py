"""Plans that are to run as one native call, beside the NumPy interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import ren
from ren import RingSpec
from ren.lowering.backends.native import library
from ren.lowering.backends.native.bytecode import Form, Whole, whole
from ren.lowering.plan.plan import Plan
from ren.lowering.runtime.execute import interpret_plan
from ren.lowering.runtime.graph_runner import GraphUnit, graph_runner
from tests.lowering.plans import arrays
from tests.rings import primes


@pytest.fixture(scope="module", autouse=True)
def compiler():
    """The tests need the library, whatever the setting is elsewhere."""
    outcome = library.outcome()
    if "no C++ compiler" in outcome.reason:
        pytest.skip(outcome.reason)
    assert not outcome.reason
    with ren.config.update(native=True):
        yield


def form_of(p: Plan, inputs=None) -> Form | None:
    """What the plan is as one call; None where XLA runs it."""
    (step,) = graph_runner(p).steps
    assert isinstance(step, GraphUnit)
    found = whole_of(step, arrays(p) if inputs is None else inputs)
    return None if found is None else found.form


def whole_of(step: GraphUnit, inputs) -> Whole | None:
    return whole(step.graph, step.tables, [inputs[v].shape for v in step.ins])


def assert_one_call(p: Plan, inputs=None) -> tuple:
    """The plan runs as one call, and computes what the interpreter does; its results."""
    inputs = arrays(p) if inputs is None else inputs
    assert form_of(p, inputs) is not None
    run = graph_runner(p)
    want = [np.asarray(a) for a in interpret_plan(p, inputs)]
    for made in (run(inputs), run(inputs)):
        for got, expected in zip(made, want, strict=True):
            assert got.dtype == np.uint32
            np.testing.assert_array_equal(np.asarray(got), expected)
    return run(inputs)


def ring(n: int, limbs: int) -> RingSpec:
    return RingSpec(n, primes(n)[-limbs:])
