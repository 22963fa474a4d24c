"""The runner: the segments and copies of a plan in order, values dropped after their last use.

Every way to run a plan is a partition of it and a choice of backends. Units, graphs, native calls,
the interpreter and plans inside a JAX trace all run here. The first run on arrays of some shapes
and devices looks up tables and executables, and compiles what is missing. Later runs only call: a
step takes about a microsecond over its executable, an argument about one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import attrs
import jax
import numpy as np
from jax.profiler import TraceAnnotation

from ren.config import config
from ren.core.errors import DeviceError, NativeError, OutOfMemoryError, RenError
from ren.core.node import Node, collector_paused
from ren.core.printer import print_graph
from ren.core.user_frame import user_line
from ren.lowering.backends.base import Backend, Call, Executable, Unsupported
from ren.lowering.backends.native.backend import NATIVE
from ren.lowering.backends.reference.backend import REFERENCE, Interpreted
from ren.lowering.backends.xla import jax_runtime as runtime
from ren.lowering.backends.xla.backend import XLA
from ren.lowering.backends.xla.jax_executable import epoch
from ren.lowering.devices.devices import (
    DELETED,
    PYTHON,
    claim_of,
    default_device,
    is_host,
    is_tracer,
    is_tracing,
    likeness_reader,
    mesh_in_use,
    with_divided_results,
    without_mesh,
)
from ren.lowering.devices.donation import check_not_donated
from ren.lowering.plan.lifetimes import Value, values_of
from ren.lowering.plan.memory import memory_plan, peak, temporaries
from ren.lowering.plan.partition import GRAPH, UNITS, Step, partition
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import (
    CopyUnit,
    Input,
    Segment,
    ViewUnit,
    nbytes,
    unit_segment,
    value_specs,
)
from ren.lowering.runtime import free_memory
from ren.lowering.runtime.host_arrays import copy
from ren.lowering.runtime.trace import active_trace
from ren.lowering.runtime.xla_streams import streams_for
from ren.progress import Progress

BACKENDS: tuple[Backend, ...] = (NATIVE, REFERENCE, XLA)  # from the first choice to the last
# One binding is enough, unless calls with several batch shapes or devices take turns.
MAX_BINDINGS = 4
_EXHAUSTED = "RESOURCE_EXHAUSTED"  # begins what XLA says where memory ran out
_log = logging.getLogger("ren")
_GUARD = "Disallowed"  # begins what `jax.transfer_guard` says
MOST_LINES = 40  # of a program that an error prints

_Prepared = tuple[Call, tuple[int, ...], tuple[int, ...], tuple[int, ...], str]
_Values = dict[int, Any] | list[Any]  # by number


def executable_of(segment: Segment, args: Sequence[Any]) -> Executable:
    """The executable of a segment for inputs like `args`, of the first backend that supports it.

    Args:
        segment: what to run.
        args: its inputs; see `Backend.compile`.

    Raises:
        NotImplementedError: no backend supports it; XLA supports all.
    """
    reasons = []
    for backend in BACKENDS:
        found = backend.compile(segment, args)
        if not isinstance(found, Unsupported):
            return found
        reasons.append(f"{backend.name}: {found.reason}")
    raise NotImplementedError(f"No backend runs {segment.name} ({'; '.join(reasons)}).")


# ------------------------------------------------------------------- later runs


@attrs.frozen(eq=False)
class Binding:
    """A plan made ready for arrays like some that it has run on.

    Attributes:
        held: inputs that the plan holds, with their arrays.
        free: the other inputs, each with the type of its array, a `likeness_reader` for it, and
            what that reads.
        context: what else decides where results are.
        steps: of each the call, the values it reads and makes, those it drops, its name.
        values: how many values there are.
        outputs: the values of the plan's roots.
        streams: of each step, where some run beside each other; else empty.
        needs: bytes of memory that are checked before each run; 0 where they are few.
    """

    held: tuple[tuple[int, Any], ...]
    free: tuple[tuple[int, type, Callable[[Any], Any], tuple[Any, ...]], ...]
    context: tuple[Any, ...]
    steps: tuple[_Prepared, ...]
    values: int
    outputs: tuple[int, ...]
    streams: tuple[int, ...] = ()
    needs: int = 0

    def fits(self, inputs: Sequence[Any], context: tuple[Any, ...]) -> bool:
        """True when the steps are right for these arrays in a context."""
        if self.context != context:
            return False
        for i, array in self.held:
            if inputs[i] is not array:
                return False
        for i, kind, read, likeness in self.free:
            array = inputs[i]
            if type(array) is not kind:
                return False
            if array.is_deleted():  # asking for its layout would end the process
                raise RuntimeError(DELETED)
            if read(array) != likeness:
                return False
        return True

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The arrays of the plan's roots."""
        runtime.check_not_forked()
        if self.needs:
            free_memory.check_free(self.needs)
        values = [*inputs, *[None] * (self.values - len(inputs))]
        if self.streams:
            self._run_in_streams(values)
        else:
            for step in self.steps:
                _run(step, values)
        return tuple([values[i] for i in self.outputs])

    def _run_in_streams(self, values: list[Any]) -> None:
        own = runtime.stream()  # that of the first stream
        now = 0
        try:
            for stream, step in zip(self.streams, self.steps, strict=True):
                if stream != now:
                    runtime.set_stream(runtime.numbered_stream(stream) if stream else own)
                    now = stream
                _run(step, values)
        finally:
            runtime.set_stream(own)


def reason_of(error: Exception) -> str:
    """The first line of an error, for logs and reports."""
    return str(error).partition("\n")[0] or type(error).__name__


def _run(step: _Prepared, values: _Values) -> None:
    """Puts what a step makes into `values`."""
    call, ins, outs, drops, name = step
    with TraceAnnotation(name):
        results = call([values[i] for i in ins])
    for i, result in zip(outs, results, strict=True):
        values[i] = result
    for i in drops:
        values[i] = None


def _likeness(array: Any) -> tuple[type, Callable[[Any], Any], tuple[Any, ...]]:
    """All that tells an array from others for an executable, its value left out."""
    if array.is_deleted():
        raise RuntimeError(DELETED)
    read = likeness_reader(array)
    return type(array), read, read(array)


def _context_in_use() -> tuple[Any, ...]:
    """State that decides what runs besides the arrays: devices, epoch of the kernels, `native`."""
    return epoch(), default_device(), mesh_in_use(), config.native


# ------------------------------------------------------------------- runs


class Runner:
    """A plan as steps: a function of the arrays of its inputs.

    Args:
        inputs: of the plan.
        steps: its partition.
        outputs: the values of its roots.
        select: the executable of a segment for some inputs.
        streams: for some inputs the stream of XLA of each step; empty where all run in one.
        program: where all steps are native calls their program, which an error of one prints.
        name: the plan in the log, which names each backend that is chosen; empty logs none.
        needs: the bytes of a run, planned, beside its inputs.
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        steps: tuple[Step, ...],
        outputs: tuple[int, ...],
        select: Callable[[Segment, Sequence[Any]], Executable] = executable_of,
        streams: Callable[[Sequence[Any]], tuple[int, ...]] = lambda inputs: (),
        program: Node | None = None,
        name: str = "",
        needs: Callable[[], int] = lambda: 0,
    ) -> None:
        self.inputs, self.steps, self.outputs = inputs, steps, outputs
        self._select, self._streams, self._program = select, streams, program
        self._needs = cache(needs)
        self._held = frozenset(i for i, source in enumerate(inputs) if source.is_held)
        self._known: tuple[Binding, ...] = ()
        self._name, self._logged = name, set[str]()

    @property
    def is_native(self) -> bool:
        """True where all steps are native calls."""
        return self._program is not None

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The arrays of the plan's roots.

        Args:
            inputs: an array `uint32[*batch, limb, n]` for each of the plan's inputs, in order.

        Raises:
            DonatedBufferError: an input was given away before, or is now, by another thread.
            NativeError: a native call failed.
        """
        if (again := self.again(inputs)) is not None:
            return again
        if not mesh_in_use().empty and not is_tracing():
            with without_mesh():
                return self(inputs)
        try:
            is_concrete = all(isinstance(a, jax.Array) and not is_tracer(a) for a in inputs)
            if is_concrete and active_trace.get() is None and not is_tracing():
                return self._bound(inputs)
            return self._step_by_step(inputs)
        except (RuntimeError, ValueError) as error:  # JAX raises the one on dispatch, XLA the other
            self._explain(error, inputs)
            raise

    def again(self, inputs: Sequence[Any]) -> tuple[Any, ...] | None:
        """The same where it ran on arrays like these before, outside of any trace; else None."""
        if not self._known or active_trace.get() is not None or is_tracing():
            return None
        context = _context_in_use()
        try:
            for binding in self._known:
                if binding.fits(inputs, context):
                    return binding(inputs)
        except (RuntimeError, ValueError) as error:
            self._explain(error, inputs)
            raise
        return None

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
            OutOfMemoryError: there is not enough memory.
            NativeError: a native call failed.
        """
        given = zip(self.inputs, inputs, strict=True)
        check_not_donated(*[array for source, array in given if not source.is_donated])
        check_one_device(error)
        if _EXHAUSTED in str(error):
            raise OutOfMemoryError(
                f"{user_line()} needs more memory than there is: {reason_of(error)}",
                "A program needs memory for its results, and for what it holds between its steps.",
                "Drop results that are not needed, then call gc.collect(): JAX gives memory back "
                "when it collects. Compute a batch in parts.",
            ) from error
        if self._program is None or isinstance(error, RenError | RecursionError):
            return
        if _GUARD in str(error):  # it is the user's, and says what it refuses
            return
        reason = reason_of(error)
        lines = print_graph(self._program).splitlines()
        more = [f"... and {len(lines) - MOST_LINES} lines more"] if len(lines) > MOST_LINES else []
        raise NativeError(
            f"A native call failed: {reason}",
            f"It was one of {', '.join(step.name for step in self.steps)}.",
            "Compare with a run without native code, ren.config.native = False (REN_NATIVE=0), and "
            "please report the program:\n" + "\n".join([*lines[:MOST_LINES], *more]),
        ) from error

    def _bound(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Runs the steps once, and remembers how to run them again on arrays like these."""
        held = tuple((i, inputs[i]) for i in sorted(self._held))
        free = tuple((i, *_likeness(a)) for i, a in enumerate(inputs) if i not in self._held)
        context = _context_in_use()
        needs = self._checked_memory(inputs)
        streams = self._streams(inputs)
        values, steps = dict(enumerate(inputs)), []
        title = "compiling and running kernels"
        with collector_paused(), Progress(len(self.steps), title) as progress:
            for step in self.steps:
                call = self._prepared(step, [values[i] for i in step.ins])
                steps.append((call, step.ins, step.outs, step.drops, step.name))
                _run(steps[-1], values)
                progress.step()
        outputs, count = self.outputs, 1 + max(values, default=-1)
        binding = Binding(held, free, context, tuple(steps), count, outputs, streams, needs)
        self._known = (binding, *self._known)[:MAX_BINDINGS]
        return tuple(values[i] for i in outputs)

    def _checked_memory(self, inputs: Sequence[Any]) -> int:
        """The bytes that a run needs, which are free now; 0 where they are few, or not the host's.

        Raises:
            OutOfMemoryError: they are not free.
        """
        needs = self._needs()
        if needs <= free_memory.LEAST or not all(map(_is_on_cpu, inputs)):
            return 0
        free_memory.check_free(needs)
        return needs

    def _step_by_step(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        check_not_donated(*filter(is_host, inputs))  # XLA refuses the others itself
        # Under a JAX trace nothing runs yet: nothing may be overwritten, and nothing is timed.
        is_traced = is_tracing() or any(map(is_tracer, inputs))
        trace = None if is_traced else active_trace.get()
        if not is_traced:
            self._checked_memory(inputs)
        if is_traced and not mesh_in_use().empty:
            return with_divided_results(lambda *own: self._stepped(own, True, None), inputs)
        return self._stepped(inputs, is_traced, trace)

    def _stepped(self, inputs: Sequence[Any], is_traced: bool, trace: Any) -> tuple[Any, ...]:
        values: dict[int, Any] = dict(enumerate(inputs))
        with Progress(len(self.steps), "compiling and running kernels") as progress:
            for step in self.steps:
                args = [values[v] for v in step.ins]
                run = partial(self._results, step, args, is_traced)
                with TraceAnnotation(step.name):
                    results = run() if trace is None else trace.timed(_told(step), args, run)
                values.update(zip(step.outs, results, strict=True))
                for v in step.drops:
                    del values[v]
                progress.step()
        return tuple(values[v] for v in self.outputs)

    def _prepared(self, step: Step, args: Sequence[Any]) -> Call:
        if isinstance(step, CopyUnit):
            return lambda arrays: (copy(arrays[0], step.device),)
        found = self._select(step, args)
        if self._name and found.backend not in self._logged:
            self._logged.add(found.backend)
            _log.info("%s: runs on the backend %s", self._name, found.backend)
        return found.bind(args)

    def _results(self, step: Step, args: Sequence[Any], is_traced: bool) -> Sequence[Any]:
        if isinstance(step, CopyUnit) or not is_traced:
            return self._prepared(step, args)(args)
        bare = attrs.evolve(step, donate=()) if step.donate else step
        return self._select(bare, args).traced(args)


def _is_on_cpu(array: Any) -> bool:
    """True where an array is in the memory of this host, whole."""
    if is_host(array):
        return True
    return array.is_fully_addressable and all(d.platform == "cpu" for d in array.devices())


def _needs_of(plan: Plan) -> int:
    """The bytes of a run of the units, planned; 0 where all that they make is small."""
    specs = value_specs(plan.inputs, plan.units)
    most = free_memory.LEAST // 4  # with their temporaries
    if sum(map(nbytes, specs[len(plan.inputs) :])) <= most:
        return 0
    memory = memory_plan(plan)
    return peak(plan, memory.values, memory.donations, temporaries(plan, memory))


def _told(step: Step) -> Any:
    """Step as a trace records it: the unit itself where the segment is one."""
    return step.units[0] if isinstance(step, Segment) and len(step.units) == 1 else step


def check_one_device(error: Exception) -> None:
    """Say what an error of JAX means, where it is about arrays on several devices.

    Raises:
        DeviceError: it is.
    """
    if "incompatible devices" in str(error):
        raise DeviceError(
            f"{user_line()} computes with arrays on several devices.",
            "The arrays of one program are on one device, or divided over the same devices.",
            "Move them: x.to(y.device), or jax.device_put(x, device).",
        ) from error


def unit_runner(plan: Plan, name: str = "") -> Runner:
    """A plan unit by unit; `name` is as of `Runner`."""
    steps, streams = partition(plan, UNITS), partial(streams_for, plan)
    needs = partial(_needs_of, plan)
    return Runner(plan.inputs, steps, plan.outputs, streams=streams, needs=needs, name=name)


def graph_runner(plan: Plan, name: str = "") -> Runner:
    """A plan as few executables: those between two copies, all on the same devices.

    Nothing is compiled until the first call; equal graphs share what they compile. `name` is as of
    `Runner`.

    Raises:
        DeviceError: a kernel of the plan runs on the python device, where there is no XLA.
    """
    steps = partition(plan, GRAPH)
    return Runner(plan.inputs, steps, plan.outputs, needs=partial(_needs_of, plan), name=name)


def run_plan(plan: Plan, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The arrays of the plan's roots, unit by unit; see `Runner`."""
    return unit_runner(plan).once(inputs)


def interpret_plan(plan: Plan, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Runs a plan by the NumPy reference; results are put where `run_plan` would put them.

    Args:
        plan, inputs: as of `run_plan`; the arrays are concrete.

    Raises:
        DonatedBufferError: an input was given away before.
    """
    check_not_donated(*inputs)
    values = values_of(plan)
    steps = (_still(s, values) if isinstance(s, CopyUnit) else s for s in partition(plan, UNITS))
    interpreted = Runner(plan.inputs, tuple(steps), plan.outputs, lambda step, _: Interpreted(step))
    made = interpreted.once([np.asarray(a) for a in inputs])
    return tuple(
        _returned(a, values[v].device, inputs) for a, v in zip(made, plan.outputs, strict=True)
    )


def _still(copy: CopyUnit, values: Sequence[Value]) -> Segment:
    """A view of all limbs in place of a copy: the interpreter moves nothing."""
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
    if place is None and len(claim) > 1:  # the whole array on each of the devices
        mesh = jax.sharding.Mesh(np.array(sorted(claim, key=lambda d: d.id)), ("devices",))
        place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return jax.device_put(array, place or next(iter(claim)))
