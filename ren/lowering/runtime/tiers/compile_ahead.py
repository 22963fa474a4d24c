"""Compiling ahead of time: the graph of a plan, in the background, inside a budget.

The types of the inputs are enough. Lowering runs Python code and belongs to the thread that calls
the plan. Compiling does not, and another thread can do it. Between two device copies stands one
executable. The first run of the graph finds what is compiled here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import Any

import attrs
import jax
from jax.sharding import SingleDeviceSharding

from ren.core.text_table import duration
from ren.lowering.backends.xla.jax_executable import JaxExecutable
from ren.lowering.devices.devices import PYTHON, Place, default_device, is_host
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import CopyUnit, Segment
from ren.lowering.runtime.runner import Runner, executable_of, graph_runner
from ren.lowering.runtime.tiers.budget import Budget, Estimates, Size
from ren.lowering.runtime.tiers.compile_thread import CompileThread
from ren.lowering.storage.telemetry import Clock

Type = jax.ShapeDtypeStruct
_log = logging.getLogger("ren")


def types_of(inputs: Sequence[Any]) -> tuple[Type, ...] | None:
    """Shape, dtype, and sharding where JAX may not move them, of arrays; None for NumPy arrays."""
    if any(map(is_host, inputs)):
        return None
    return tuple(
        Type(a.shape, a.dtype, sharding=a.sharding if a.committed else None) for a in inputs
    )


@attrs.frozen
class CompileResources:
    """Resources that the plans of a process share: clock, compiling thread, budget, estimates."""

    clock: Clock = time.perf_counter_ns
    thread: CompileThread = attrs.field(factory=CompileThread)
    budget: Budget = attrs.field(factory=Budget)
    estimates: Estimates = attrs.field(factory=Estimates)


RESOURCES = CompileResources()  # of this process


class BackgroundCompile:
    """The graph of one plan, compiled in the background: `start`, and once `is_done`, `graph`.

    Attributes:
        job: the work of the background thread; None where nothing is compiled.
        compile_ns: the time that lowering and compiling have taken.
    """

    def __init__(
        self, plan: Plan, name: str, resources: CompileResources, wake: Callable[[], None]
    ) -> None:
        """`name` stands in the log; `wake` is called in the background thread when it is done."""
        self._plan, self._name, self._resources, self._wake = plan, name, resources, wake
        self._compiler: GraphCompiler | None = None
        self._is_denied = False
        self.job: Future[Any] | None = None
        self.compile_ns = 0

    @cached_property
    def _size(self) -> Size:
        return Size.of(self._plan)

    def is_worth(self, calls: int, mean_ns: float) -> bool:
        """Whether the plan should be compiled after so many calls of so long each."""
        return self._resources.estimates.is_worth(self._size, calls, mean_ns)

    def start(self, types: Sequence[Type]) -> bool:
        """Lowers the graph, in this thread, and hands it to the other; false without a budget.

        Raises:
            Exception: an error of lowering; a DeviceError where there can be no graph.
        """
        clock, budget = self._resources.clock, self._resources.budget
        reserved, start = self._resources.estimates.compile_ns(self._size), clock()
        if not budget.reserve(reserved, start):
            if not self._is_denied:
                _log.info("%s: not compiled, the compile budget is used up", self._name)
            self._is_denied = True
            return False
        self.job, is_complete = None, True
        try:
            self._compiler = compiler = GraphCompiler(graph_runner(self._plan), types)
            is_complete = compiler.lower()
        finally:
            if is_complete:  # nothing to compile, or nothing that can be
                budget.settle(reserved, 0, start)
        if not is_complete:
            lowering = clock() - start
            self.job = self._resources.thread.submit(
                lambda: self._compile(compiler, lowering, reserved), self._wake
            )
        return True

    @property
    def is_done(self) -> bool:
        """True when nothing is being compiled."""
        return self.job is None or self.job.done()

    def graph(self) -> Runner | None:
        """The compiled graph; None when the interpreter exits before it was compiled.

        Raises:
            Exception: an error of compiling.
        """
        compiler, job = self._compiler, self.job
        self._compiler = self.job = None
        if compiler is None or (job is not None and job.cancelled()):
            return None
        if job is not None:
            job.result()
        return compiler.graph

    def _compile(self, compiler: GraphCompiler, lowering: int, reserved: float) -> None:
        """Compiles in the background."""
        clock, start = self._resources.clock, self._resources.clock()
        try:
            compiler.compile()
        finally:
            took = clock() - start
            self._resources.budget.settle(reserved, took, clock())
        self._resources.estimates.observe(self._size, lowering, took)
        self.compile_ns = lowering + took
        message = "%s: compiled as one executable in %s, lowered in %s"
        _log.info(message, self._name, duration(took / 1e9), duration(lowering / 1e9))


class GraphCompiler:
    """The graph of a plan on its way to executables for inputs of some types.

    Attributes:
        graph: compiles nothing more in its runs after `lower` and `compile`.
    """

    def __init__(self, graph: Runner, types: Sequence[Type]) -> None:
        self.graph = graph
        self._types: dict[int, Type] = dict(enumerate(types))
        self._lowered: list[tuple[Segment, Callable[[], Any]]] = []
        self._next = 0

    def lower(self) -> bool:
        """Lowers the segments whose types are known; true when none is left to compile.

        The types behind a segment on several devices are not known: XLA chooses how its results are
        divided. Segments that read them are lowered when it is compiled.
        """
        steps = self.graph.steps
        while self._next < len(steps):
            step = steps[self._next]
            if not all(v in self._types for v in step.ins):
                return False
            self._next += 1
            if isinstance(step, CopyUnit):
                self._types[step.outs[0]] = _moved(self._types[step.ins[0]], step.device)
            else:
                self._lower_segment(step)
        return not self._lowered

    def compile(self) -> None:
        """Compiles what has been lowered, and lowers and compiles what had to wait for it."""
        while not self.lower():
            lowered, self._lowered = self._lowered, []
            for segment, work in lowered:
                shardings = work()
                if not all(v in self._types for v in segment.outs):
                    self._set_types(segment, shardings)

    def _lower_segment(self, segment: Segment) -> None:
        types, executable = self._executable(segment)
        work = None if executable is None else executable.ahead(types, _place(types))
        if work is not None:
            self._lowered.append((segment, work))
        shardings = [t.sharding for t in types if t.sharding is not None]
        if all(len(sharding.device_set) == 1 for sharding in shardings):
            self._set_types(segment, [shardings[0] if shardings else None] * len(segment.outs))

    def _set_types(self, segment: Segment, shardings: Sequence[Any]) -> None:
        if self._next == len(self.graph.steps):
            return  # nothing reads them
        types, executable = self._executable(segment)
        if executable is not None:
            outs = zip(segment.outs, executable.output_types(types), shardings, strict=True)
            self._types.update({v: Type(t.shape, t.dtype, sharding=s) for v, t, s in outs})

    def _executable(self, segment: Segment) -> tuple[tuple[Type, ...], JaxExecutable | None]:
        """The types of a segment's inputs; its executable, None where none is compiled ahead."""
        types = tuple(self._types[v] for v in segment.ins)
        executable = executable_of(segment, types)
        return types, executable if isinstance(executable, JaxExecutable) else None


def _place(types: Sequence[Type]) -> Place | None:
    """The one device where arrays of these types are, as `common_place` finds it."""
    bound = [t.sharding for t in types if t.sharding is not None]
    device = default_device()
    if bound and len(bound) == len(types):
        place = bound[0]
    elif device is not None:
        place = SingleDeviceSharding(device)
    else:
        return None
    is_one = type(place) is SingleDeviceSharding and all(s == place for s in bound)
    return Place(place, bool(bound)) if is_one else None


def _moved(type_: Type, device: Any) -> Type:
    if device == PYTHON:  # no executable reads it there
        return Type(type_.shape, type_.dtype)
    is_sharding = isinstance(device, jax.sharding.Sharding)
    place = device if is_sharding else SingleDeviceSharding(device)
    return Type(type_.shape, type_.dtype, sharding=place)
