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

from ren.core.errors import DeviceError, NativeError, RenError
from ren.core.node import Node
from ren.core.printer import print_graph
from ren.core.ring import RingSpec
from ren.core.user_frame import user_line
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
from ren.lowering.plan.partition import GRAPH, UNITS, Step, partition
from ren.lowering.plan.plan import Plan, Source
from ren.lowering.program.graph import with_words
from ren.lowering.program.segment import Segment, unit_segment
from ren.lowering.program.steps import CopyUnit, Input, ViewUnit
from ren.lowering.runtime.native_calls import native_calls
from ren.lowering.runtime.planning import copy, plan_from
from ren.lowering.runtime.prepared import Binding, context_in_use, is_concrete, likeness
from ren.lowering.runtime.trace import active_trace
from ren.lowering.runtime.xla_streams import streams_for
from ren.progress import Progress

# A jitted function has a plan for each argument spec, and one binding does. More are for calls of
# one plan with other batch shapes or devices, in turns.
MAX_BINDINGS = 4
MOST_LINES = 40  # of a program that an error prints

Select = Callable[[Segment, Sequence[Any]], Executable]
_log = logging.getLogger("ren")
_logged: set[str] = set()  # reasons against native calls that were logged


class Runner:
    """A plan as steps: a function of the arrays of its inputs.

    Args:
        inputs: of the plan.
        steps: its partition.
        outputs: the values of its roots.
        select: the executable of a segment for some inputs.
        streams: for some inputs the stream of XLA of each step; empty where all run in one.
        program: where all steps are native calls their program, which an error of one prints.
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        steps: tuple[Step, ...],
        outputs: tuple[int, ...],
        select: Select = select_backend.compiled,
        streams: Callable[[Sequence[Any]], tuple[int, ...]] = lambda inputs: (),
        program: Node | None = None,
    ) -> None:
        self.inputs, self.steps, self.outputs = inputs, steps, outputs
        self._select, self._streams, self._program = select, streams, program
        self._held = frozenset(i for i, source in enumerate(inputs) if source.is_held)
        self._known: tuple[Binding, ...] = ()

    @property
    def is_native(self) -> bool:
        """Whether all steps are native calls."""
        return self._program is not None

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
            self._explain(error, inputs)
            raise

    def once(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The same for a runner that is used once: it remembers nothing."""
        try:
            return self._step_by_step(inputs)
        except (RuntimeError, ValueError) as error:
            self._explain(error, inputs)
            raise

    def _explain(self, error: Exception, inputs: Sequence[Any]) -> None:
        """Raises what says more than an error of JAX.

        Raises:
            DonatedBufferError: an input was given away.
            DeviceError: the arrays are on several devices.
            NativeError: a native call failed.
        """
        self._check_donations(inputs)
        if "incompatible devices" in str(error):
            raise DeviceError(
                f"{user_line()} computes with arrays on several devices.",
                "The arrays of one program are on one device, or divided over the same devices.",
                "Move them: x.to(y.device), or jax.device_put(x, device).",
            ) from error
        if self.is_native and not isinstance(error, RenError):
            raise self._failed(error) from error

    def _bound(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Runs the steps once, and remembers how to run them again on arrays like these."""
        held = tuple((i, inputs[i]) for i in sorted(self._held))
        free = tuple((i, likeness(a)) for i, a in enumerate(inputs) if i not in self._held)
        context = context_in_use()
        streams = self._streams(inputs)
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
        outputs, count = self.outputs, 1 + max(values, default=-1)
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
        return tuple(values[v] for v in self.outputs)

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
        for source, array in zip(self.inputs, inputs, strict=True):
            if not source.is_donated:
                check_not_donated(array)

    def _failed(self, error: Exception) -> NativeError:
        reason = str(error).partition("\n")[0] or type(error).__name__
        assert self._program is not None
        lines = print_graph(self._program).splitlines()
        more = [f"... and {len(lines) - MOST_LINES} lines more"] if len(lines) > MOST_LINES else []
        return NativeError(
            f"A native call failed: {reason}",
            f"It was one of {', '.join(step.name for step in self.steps)}.",
            "Compare with a run without native code, ren.config.native = False (REN_NATIVE=0), and "
            "please report the program:\n" + "\n".join([*lines[:MOST_LINES], *more]),
        )


def _told(step: Step) -> Any:
    """Step as a trace records it: the unit itself where the segment is one."""
    return step.units[0] if isinstance(step, Segment) and len(step.units) == 1 else step


def unit_runner(plan: Plan) -> Runner:
    """A plan unit by unit."""
    streams = partial(streams_for, plan)
    return Runner(plan.inputs, partition(plan, UNITS), plan.outputs, streams=streams)


def graph_runner(plan: Plan) -> Runner:
    """A plan as few executables: those between two copies, all on the same devices.

    Nothing is compiled until the first call; equal graphs share what they compile.

    Raises:
        DeviceError: a kernel of the plan runs on the python device, where there is no XLA.
    """
    return Runner(plan.inputs, partition(plan, GRAPH), plan.outputs)


def native_runner(
    source: Source | None,
    given: Sequence[Input],
    inputs: Sequence[Any],
    words: Mapping[int, RingSpec] | None = None,
) -> Runner | None:
    """A program as native calls on arrays like `inputs`; else None, and the log says why, once.

    Native calls leave nothing to compile that would pay only later.

    Args:
        source: what runs.
        given: its inputs in order.
        inputs: their arrays.
        words: the inputs that come as words of integers: see `with_words`.
    """
    if any(map(is_host, inputs)):
        return None
    is_traced = is_tracing() or any(map(is_tracer, inputs))
    if not is_traced and common_place(inputs) is None and not are_divided(inputs):
        return None
    calls = native_calls(source)
    if isinstance(calls, Unsupported) or source is None:
        reason = calls.reason if isinstance(calls, Unsupported) and not calls.is_choice else ""
        if reason and reason not in _logged:
            _logged.add(reason)
            _log.info("A plan does not run as native calls: %s.", reason)
        return None
    if not all(p.form.is_looped for p in calls.programs) and may_be_divided(placement(inputs)):
        return None
    steps = tuple(_of_words(s, words) for s in calls.segments) if words else calls.segments
    return Runner(given, steps, calls.outputs, program=source.sink)


def _of_words(segment: Segment, words: Mapping[int, RingSpec]) -> Segment:
    rings = {i: words[v] for i, v in enumerate(segment.ins) if v in words}
    graph, tables = with_words(segment.graph, segment.tables, rings)
    return attrs.evolve(segment, graph=graph, tables=tables)


def run_plan(plan: Plan, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The arrays of the plan's roots, unit by unit; see `Runner`."""
    return Runner(plan.inputs, partition(plan, UNITS), plan.outputs).once(inputs)


def run_once(source: Source, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The arrays of a program's roots, by native calls where it can be, else unit by unit.

    Under a JAX trace these calls become a part of the trace.
    """
    found = native_runner(source, source.inputs, inputs) if active_trace() is None else None
    if found is not None:
        return found.once(inputs)
    return run_plan(plan_from(source), inputs)


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
    interpreted = Runner(plan.inputs, tuple(steps), plan.outputs, lambda step, _: Interpreted(step))
    made = interpreted.once([np.asarray(a) for a in inputs])
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
