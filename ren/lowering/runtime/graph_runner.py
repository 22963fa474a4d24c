"""The graph runner: a plan as one XLA executable, or as few as device copies allow.

It replays what the units of the plan compute, bit for bit. It needs no call for each kernel, and
XLA fuses across kernels. XLA compiles one large program more slowly than many small shared ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import attrs
from jax.profiler import TraceAnnotation

from ren.core.ring import RingSpec
from ren.lowering.backends import emit
from ren.lowering.backends.emit import Prepared
from ren.lowering.backends.select_backend import is_one_call
from ren.lowering.devices.devices import is_host, is_tracer
from ren.lowering.devices.shardings import are_divided, common_place
from ren.lowering.devices.tracing import is_tracing
from ren.lowering.plan.partition import MAX_FUSED, GraphUnit, divided, single_graph
from ren.lowering.plan.plan import Plan
from ren.lowering.program.graph import with_words
from ren.lowering.program.steps import CopyUnit
from ren.lowering.runtime.execute import prepared_unit, run_plan
from ren.lowering.runtime.prepared import Bindings
from ren.lowering.runtime.trace import Trace, active_trace

__all__ = ["MAX_FUSED", "GraphRunner", "GraphUnit", "graph_runner", "one_call", "run_once"]


@attrs.frozen(eq=False)
class GraphRunner:
    """A plan as executables and copies; call it with the arrays of the plan's inputs.

    Attributes:
        steps: executables and copies in order; values are numbered as in the plan.
        outputs: the values of the plan's roots.
    """

    steps: tuple[GraphUnit | CopyUnit, ...]
    outputs: tuple[int, ...]
    _bindings: Bindings

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The arrays of the plan's roots; no input is donated."""
        trace = active_trace()
        made = self._bindings(inputs) if trace is None else None
        return self._step_by_step(inputs, trace) if made is None else made

    def _step_by_step(self, inputs: Sequence[Any], trace: Trace | None) -> tuple[Any, ...]:
        values = dict(enumerate(inputs))
        for step in self.steps:
            args = tuple(values[v] for v in step.ins)
            run = partial(_prepared(step, args).results, args)
            with TraceAnnotation(step.name):
                results = run() if trace is None else trace.timed(step, args, run)
            values.update(zip(step.outs, results, strict=True))
            for v in step.drops:
                del values[v]
        return tuple(values[v] for v in self.outputs)


def graph_runner(plan: Plan) -> GraphRunner:
    """Compile a plan to few executables: a function of concrete JAX arrays, equal to `run_plan`.

    An executable holds the kernels and views between two copies, all on the same devices. A plan
    without copies is one executable. Where kernels do not stay apart in it, more than `MAX_FUSED`
    elementwise steps in a row take several. Nothing is compiled until the first call; equal graphs
    share what they compile.

    Raises:
        DeviceError: a kernel of the plan runs on the python device, where there is no XLA.
    """
    return _runner(plan, divided(plan))


def _runner(plan: Plan, steps: tuple[GraphUnit | CopyUnit, ...]) -> GraphRunner:
    held = [i for i, source in enumerate(plan.inputs) if source.is_held]
    return GraphRunner(steps, plan.outputs, Bindings(steps, _prepared, held, plan.outputs))


def one_call(
    plan: Plan, inputs: Sequence[Any], words: Mapping[int, RingSpec] | None = None
) -> GraphRunner | None:
    """The graph of a plan where it is one call of native code on arrays like `inputs`, else None.

    There is nothing to compile then that would pay only later.

    Args:
        plan: what runs.
        inputs: its inputs.
        words: the inputs that come as words of integers: see `with_words`.
    """
    if any(map(is_host, inputs)):
        return None
    is_concrete = not (is_tracing() or any(map(is_tracer, inputs)))
    if is_concrete and common_place(inputs) is None and not are_divided(inputs):
        return None
    step = single_graph(plan)
    if step is None:
        return None
    if words:
        step = _of_words(step, words)
    if not is_one_call(step.graph, step.tables, [inputs[v] for v in step.ins]):
        return None
    return _runner(plan, (step,))


def _of_words(step: GraphUnit, words: Mapping[int, RingSpec]) -> GraphUnit:
    rings = {i: words[v] for i, v in enumerate(step.ins) if v in words}
    graph, tables = with_words(step.graph, step.tables, rings)
    return attrs.evolve(step, graph=graph, tables=tables)


def _traced(found: GraphRunner, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a runner of one graph as a part of the trace."""
    values = dict(enumerate(inputs))
    for step in found.steps:
        assert isinstance(step, GraphUnit)
        args = [values[v] for v in step.ins]
        values.update(zip(step.outs, emit.run_graph(step.graph, step.tables, args), strict=True))
    return tuple(values[v] for v in found.outputs)


def run_once(plan: Plan, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """`run_plan` for a plan that is run once: by one call of native code where there can be one.

    Under a JAX trace that call becomes a part of the trace.
    """
    found = one_call(plan, inputs) if active_trace() is None else None
    if found is None:
        return run_plan(plan, inputs)
    try:
        if is_tracing() or any(map(is_tracer, inputs)):
            return _traced(found, inputs)
        return found(inputs)
    except (RuntimeError, ValueError):  # an input was given away; this says so
        return run_plan(plan, inputs)


def _prepared(step: GraphUnit | CopyUnit, args: tuple[Any, ...]) -> Prepared:
    return prepared_unit(step, args) if isinstance(step, CopyUnit) else step.prepared(args)
