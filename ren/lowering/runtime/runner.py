"""The runner: the segments and copies of a plan in order, values dropped after their last use.

Every way to run a plan is a partition of it and a choice of backends. Units, graphs, native calls,
the interpreter and plans inside a JAX trace all run here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import jax
import numpy as np
from jax.profiler import TraceAnnotation

from ren.core.errors import NativeError, RenError
from ren.core.ring import RingSpec
from ren.lowering.backends import select_backend
from ren.lowering.backends.base import Bound, Executable, Unsupported
from ren.lowering.backends.native.backend import may_be_divided
from ren.lowering.backends.reference.backend import Interpreted
from ren.lowering.backends.xla.tables import placement
from ren.lowering.devices.devices import PYTHON, claim_of, is_host, is_tracer
from ren.lowering.devices.donation import check_all, check_not_donated, has_host_marks
from ren.lowering.devices.shardings import are_divided, common_place
from ren.lowering.devices.tracing import is_tracing
from ren.lowering.plan.lifetimes import Value, values_of
from ren.lowering.plan.native_calls import native_calls
from ren.lowering.plan.partition import GRAPH, UNITS, Step, partition
from ren.lowering.plan.plan import Plan
from ren.lowering.program.graph import with_words
from ren.lowering.program.segment import Segment, unit_segment
from ren.lowering.program.steps import CopyUnit, ViewUnit
from ren.lowering.runtime.planning import copy
from ren.lowering.runtime.prepared import Binding, context_in_use, is_concrete, likeness
from ren.lowering.runtime.trace import active_trace
from ren.lowering.runtime.xla_streams import streams_for
from ren.progress import Progress

# A jitted function has a plan for each argument spec, and one binding does. More are for calls of
# one plan with other batch shapes or devices, in turns.
MAX_BINDINGS = 4

Select = Callable[[Segment, Sequence[Any]], Executable]
_log = logging.getLogger("ren")
_logged: set[str] = set()  # reasons against native calls that were logged


class Runner:
    """A plan as steps: a function of the arrays of its inputs.

    Args:
        plan: what runs.
        steps: its partition.
        select: the executable of a segment for some inputs.
        has_streams: whether steps may run beside each other in streams of XLA.
        is_native: whether all steps are native calls; an error of one then says so.
    """

    def __init__(
        self,
        plan: Plan,
        steps: tuple[Step, ...],
        select: Select = select_backend.compiled,
        has_streams: bool = False,
        is_native: bool = False,
    ) -> None:
        self.plan, self.steps = plan, steps
        self._select, self._has_streams, self.is_native = select, has_streams, is_native
        self._held = frozenset(i for i, source in enumerate(plan.inputs) if source.is_held)
        self._known: tuple[Binding, ...] = ()

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The arrays of the plan's roots.

        Args:
            inputs: an array `uint32[*batch, limb, n]` for each of the plan's inputs, in order.

        Raises:
            DonatedBufferError: an input was given away before, or is now, by another thread.
            NativeError: a native call failed.
        """
        try:
            if active_trace() is None and not is_tracing():
                for binding in self._known:
                    if binding.fits(inputs):
                        return binding(inputs)
                if all(map(is_concrete, inputs)):
                    return self._bound(inputs)
            return self._step_by_step(inputs)
        except (RuntimeError, ValueError) as error:  # JAX raises the one on dispatch, XLA the other
            self._check_donations(inputs)
            if self.is_native and not isinstance(error, RenError):
                raise self._failed(error) from error
            raise

    def _bound(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Runs the steps once, and remembers how to run them again on arrays like these."""
        held = tuple((i, inputs[i]) for i in sorted(self._held))
        free = tuple((i, likeness(a)) for i, a in enumerate(inputs) if i not in self._held)
        context = context_in_use()
        streams = streams_for(self.plan, inputs) if self._has_streams else ()
        values, steps = dict(enumerate(inputs)), []
        with Progress(len(self.steps), "compiling and running kernels") as progress:
            for step in self.steps:
                args = [values[i] for i in step.ins]
                bound = self._prepared(step, args)
                with TraceAnnotation(step.name):
                    values.update(zip(step.outs, bound.results(args), strict=True))
                for i in step.drops:
                    values[i] = None
                ins = tuple(step.ins[i] for i in bound.ins)
                outs = tuple(step.outs[i] for i in bound.outs)
                steps.append((bound.call, ins, outs, step.drops, step.name))
                progress.step()
        outputs, count = self.plan.outputs, 1 + max(values, default=-1)
        binding = Binding(held, free, context, tuple(steps), count, outputs, streams)
        self._known = (binding, *self._known)[:MAX_BINDINGS]
        return tuple(values[i] for i in outputs)

    def _step_by_step(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if has_host_marks():
            check_all(filter(is_host, inputs))
        # Under a JAX trace nothing runs yet: nothing may be overwritten, and there is nothing to
        # time.
        is_traced = is_tracing() or any(map(is_tracer, inputs))
        trace = None if is_traced else active_trace()
        values: dict[int, Any] = dict(enumerate(inputs))
        with Progress(len(self.steps), "compiling and running kernels") as progress:
            for step in self.steps:
                args = [values[v] for v in step.ins]
                run = partial(self._traced if is_traced else self._run, step, args)
                with TraceAnnotation(step.name):
                    results = run() if trace is None else trace.timed(_told(step), args, run)
                values.update(zip(step.outs, results, strict=True))
                for v in step.drops:
                    del values[v]
                progress.step()
        return tuple(values[v] for v in self.plan.outputs)

    def _prepared(self, step: Step, args: Sequence[Any]) -> Bound:
        if isinstance(step, CopyUnit):
            return Bound(lambda arrays: (copy(arrays[0], step.device),), (0,), (0,))
        return self._select(step, args).bind(args)

    def _run(self, step: Step, args: Sequence[Any]) -> Sequence[Any]:
        return self._prepared(step, args).results(args)

    def _traced(self, step: Step, args: Sequence[Any]) -> Sequence[Any]:
        if isinstance(step, CopyUnit):
            return (copy(args[0], step.device),)
        bare = attrs.evolve(step, donate=()) if step.donate else step
        return self._select(bare, args).traced(args)

    def _check_donations(self, inputs: Sequence[Any]) -> None:
        """Raises DonatedBufferError where an input, not donated in this call, was given away."""
        for source, array in zip(self.plan.inputs, inputs, strict=True):
            if not source.is_donated:
                check_not_donated(array)

    def _failed(self, error: Exception) -> NativeError:
        reason = str(error).partition("\n")[0] or type(error).__name__
        calls = "; ".join(step.name for step in self.steps)
        return NativeError(
            f"A native call failed: {reason}",
            f"The call was one of {calls}, of {self.plan!r}.",
            "Run the plan without native code to compare: ren.config.native = False "
            "(REN_NATIVE=0). Please report the plan, as plan.explain() prints it.",
        )


def _told(step: Step) -> Any:
    """Step as a trace records it: the unit itself where the segment is one."""
    return step.units[0] if isinstance(step, Segment) and len(step.units) == 1 else step


def unit_runner(plan: Plan) -> Runner:
    """A plan unit by unit."""
    return Runner(plan, partition(plan, UNITS), has_streams=True)


def graph_runner(plan: Plan) -> Runner:
    """A plan as few executables: those between two copies, all on the same devices.

    Nothing is compiled until the first call; equal graphs share what they compile.

    Raises:
        DeviceError: a kernel of the plan runs on the python device, where there is no XLA.
    """
    return Runner(plan, partition(plan, GRAPH))


def native_runner(
    plan: Plan, inputs: Sequence[Any], words: Mapping[int, RingSpec] | None = None
) -> Runner | None:
    """A plan as native calls on arrays like `inputs`; else None, and one line in the log says why.

    Native calls leave nothing to compile that would pay only later.

    Args:
        plan: what runs.
        inputs: its inputs.
        words: the inputs that come as words of integers: see `with_words`.
    """
    if any(map(is_host, inputs)):
        return None
    is_traced = is_tracing() or any(map(is_tracer, inputs))
    if not is_traced and common_place(inputs) is None and not are_divided(inputs):
        return None
    calls = native_calls(plan)
    if isinstance(calls, Unsupported):
        if not calls.is_choice and calls.reason not in _logged:
            _logged.add(calls.reason)
            _log.info("A plan does not run as native calls: %s.", calls.reason)
        return None
    if not all(p.form.is_looped for p in calls.programs) and may_be_divided(placement(inputs)):
        return None
    steps = tuple(_of_words(s, words) for s in calls.segments) if words else calls.segments
    return Runner(plan, steps, is_native=True)


def _of_words(segment: Segment, words: Mapping[int, RingSpec]) -> Segment:
    rings = {i: words[v] for i, v in enumerate(segment.ins) if v in words}
    graph, tables = with_words(segment.graph, segment.tables, rings)
    return attrs.evolve(segment, graph=graph, tables=tables)


def run_plan(plan: Plan, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The arrays of the plan's roots, unit by unit; see `Runner`."""
    return unit_runner(plan)(inputs)


def run_once(plan: Plan, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The same for a plan that is run once: by native calls where it can be.

    Under a JAX trace these calls become a part of the trace.
    """
    found = native_runner(plan, inputs) if active_trace() is None else None
    return run_plan(plan, inputs) if found is None else found(inputs)


def interpret_plan(plan: Plan, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Runs a plan by the NumPy reference; results are put where `run_plan` would put them.

    Args:
        plan, inputs: as of `run_plan`; the arrays are concrete.

    Raises:
        DonatedBufferError: an input was given away before.
    """
    check_all(inputs)
    values = values_of(plan)
    steps = (_still(s, values) if isinstance(s, CopyUnit) else s for s in partition(plan, UNITS))
    run = Runner(plan, tuple(steps), select=lambda segment, args: Interpreted(segment))
    made = run([np.asarray(a) for a in inputs])
    return tuple(
        _returned(a, values[v].device, inputs) for a, v in zip(made, plan.outputs, strict=True)
    )


def _still(copy: CopyUnit, values: Sequence[Value]) -> Segment:
    """A copy as a view of all limbs: the interpreter moves nothing."""
    spec = values[copy.ins[0]].spec
    return unit_segment(ViewUnit(spec, 0, spec.ring.limbs, copy.ins, copy.outs, copy.drops))


def _returned(array: np.ndarray, claim: Any, inputs: Sequence[Any]) -> Any:
    """A host array where a value with this claim is: on the device of the inputs that have it."""
    if claim == PYTHON:
        return array
    if claim is None:
        return jax.device_put(array)
    alike = (a for a in inputs if claim_of(a) == claim and a.ndim == array.ndim)
    place = next((a.sharding for a in alike), None)
    return jax.device_put(array, place or _over(claim))


def _over(claim: frozenset[Any]) -> Any:
    """The one device of a claim, or a sharding with the whole array on each of its devices."""
    if len(claim) == 1:
        return next(iter(claim))
    mesh = jax.sharding.Mesh(np.array(sorted(claim, key=lambda d: d.id)), ("devices",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
