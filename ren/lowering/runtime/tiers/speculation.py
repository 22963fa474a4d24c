"""Speculation: the graph of a plan, compiled in the background inside a budget."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

import attrs

from ren.core.text_table import duration
from ren.lowering.plan.plan import Plan
from ren.lowering.runtime.runner import Runner, graph_runner
from ren.lowering.runtime.tiers.budget import Budget, Estimates, Size
from ren.lowering.runtime.tiers.compile_ahead import Ahead, Type
from ren.lowering.runtime.tiers.compile_thread import Job, Worker
from ren.lowering.storage.telemetry import Clock

_log = logging.getLogger("ren")


@attrs.frozen
class Means:
    """Resources that the plans of a process share: clock, compiling thread, budget, estimates."""

    clock: Clock = time.perf_counter_ns
    worker: Worker = attrs.field(factory=Worker)
    budget: Budget = attrs.field(factory=Budget)
    estimates: Estimates = attrs.field(factory=Estimates)


# The process has one thread that compiles, one budget, and what it learnt of compile times.
MEANS = Means()


class Speculation:
    """The graph of one plan on its way: `start`, and once `is_done`, `graph`.

    Attributes:
        compile_ns: what lowering and compiling have taken.
    """

    def __init__(self, plan: Plan, name: str, means: Means, wake: Callable[[], None]) -> None:
        """Args:
        plan, name: what is compiled, and what it is called in the log.
        means: what the plans of a process share.
        wake: called in the background thread when it is done.
        """
        self._plan, self._name, self._means, self._wake = plan, name, means, wake
        self._size: Size | None = None
        self._ahead: Ahead | None = None
        self._job: Job | None = None
        self._is_denied = False
        self.compile_ns = 0

    def is_worth(self, calls: int, mean_ns: float) -> bool:
        """Whether the plan should be compiled after so many calls of so long each."""
        return self._means.estimates.is_worth(self._measured(), calls, mean_ns)

    def start(self, types: Sequence[Type]) -> bool:
        """Lowers the graph, in this thread, and hands it to the other; false without a budget.

        Raises:
            Exception: whatever lowering raises; a DeviceError where there can be no graph.
        """
        means, reserved = self._means, self._means.estimates.compile_ns(self._measured())
        start = means.clock()
        if not means.budget.reserve(reserved, start):
            if not self._is_denied:
                _log.info("%s: not compiled, the compile budget is used up", self._name)
            self._is_denied = True
            return False
        self._job, is_complete = None, True
        try:
            self._ahead = ahead = Ahead(graph_runner(self._plan), types)
            is_complete = ahead.lower()
        finally:
            if is_complete:  # nothing to compile, or nothing that can be
                means.budget.settle(reserved, 0, start)
        if not is_complete:
            lowering = means.clock() - start
            self._job = means.worker.submit(
                lambda: self._compile(ahead, lowering, reserved), self._wake
            )
        return True

    @property
    def is_done(self) -> bool:
        """True when nothing is being compiled."""
        return self._job is None or self._job.is_done

    @property
    def job(self) -> Job | None:
        """Job that the background thread does, or did."""
        return self._job

    def graph(self) -> Runner | None:
        """The compiled graph; None when the interpreter exits before it was compiled.

        Raises:
            Exception: whatever compiling raised.
        """
        ahead, job = self._ahead, self._job
        self._ahead = self._job = None
        if job is not None and job.error is not None:
            raise job.error
        return None if ahead is None or (job is not None and job.dropped) else ahead.graph

    def _measured(self) -> Size:
        if self._size is None:
            self._size = Size.of(self._plan)
        return self._size

    def _compile(self, ahead: Ahead, lowering: int, reserved: float) -> None:
        """In the background."""
        means = self._means
        start = means.clock()
        try:
            ahead.compile()
        finally:
            took = means.clock() - start
            means.budget.settle(reserved, took, means.clock())
        means.estimates.observe(self._measured(), lowering, took)
        self.compile_ns = lowering + took
        message = "%s: compiled as one executable in %s, lowered in %s"
        _log.info(message, self._name, duration(took / 1e9), duration(lowering / 1e9))
