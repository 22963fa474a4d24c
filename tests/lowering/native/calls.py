"""Plans and single ops that are to run as one native call, beside the NumPy interpreter."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

import ren
from ren import Domain, RingSpec
from ren.core import op as ops
from ren.core.node import make
from ren.core.spec import RingArg, SlotArg, Spec, StoreArg
from ren.lowering.backends.base import Unsupported
from ren.lowering.backends.native import bytecode, library
from ren.lowering.backends.native.bytecode import (
    Form,
    NativeProgram,
    emit_native,
    native_program,
)
from ren.lowering.plan.plan import Plan
from ren.lowering.program.graph import Call, Graph, kernel_of
from ren.lowering.program.instructions import Table
from ren.lowering.program.steps import Segment
from ren.lowering.runtime.runner import graph_runner, interpret_plan
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
    assert isinstance(step, Segment)
    found = native_program_of(step, arrays(p) if inputs is None else inputs)
    return None if isinstance(found, Unsupported) else found.form


def native_program_of(step: Segment, inputs) -> NativeProgram | Unsupported:
    return native_program(step.graph, step.tables, [inputs[v].shape for v in step.ins])


def assert_one_call(p: Plan, inputs=None) -> tuple:
    """The plan runs as one call, and computes what the interpreter does; its results.

    It is called through XLA and without it, by the thread of the test.
    """
    inputs = arrays(p) if inputs is None else inputs
    assert form_of(p, inputs) is not None
    want = [np.asarray(a) for a in interpret_plan(p, inputs)]
    for most in (0.0, math.inf):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bytecode, "MOST_SECONDS", most)
            run = graph_runner(p)
            for made in (run(inputs), run(inputs)):
                for got, expected in zip(made, want, strict=True):
                    assert got.dtype == np.uint32
                    np.testing.assert_array_equal(np.asarray(got), expected)
    return run(inputs)


def ring(n: int, limbs: int) -> RingSpec:
    return RingSpec(n, primes(n)[-limbs:])


def one_op(
    name: str, n: int, moduli: tuple[int, ...], target: tuple[int, ...] = ()
) -> tuple[Graph, tuple[Table, ...]]:
    """The graph of a transform over some moduli, or of a conversion from them to `target`."""
    domain = Domain.NTT if name == "INTT" else Domain.COEFF
    source = RingSpec(n, moduli)
    slot = make(ops.SLOT, (), SlotArg(0, Spec(source, domain)))
    arg = (RingArg(source.with_moduli(target)),) if target else ()
    node = make(ops.OPS[name], (slot,), *arg)
    place = make(ops.SLOT, (), SlotArg(-1, node.spec))
    kernel = kernel_of(make(ops.SINK, (make(ops.STORE, (place, node), StoreArg()),)))
    call = Call(kernel.program, tuple(range(len(kernel.tables))), (0,))
    return Graph(1, (call,), (1,)), kernel.tables


def native_op(library: str, name: str, x: Any, moduli: Any, target: Any = ()) -> Any:
    """The function of arrays like `x` that computes one op by a native call of a library."""
    graph, tables = one_op(name, x.shape[-1], moduli, target)
    found = native_program(graph, tables, [x.shape])
    assert isinstance(found, NativeProgram), found
    built = tuple(table.build() for table in found.tables)
    return lambda x: partial(emit_native, found.form, library, built)(x)[0]
