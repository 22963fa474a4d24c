"""The tier "auto": a plan starts as units; its graph is compiled when that is paid for, and then
both are timed and the faster one stays.

Ordinary calls only count. Some calls are looked at: the first few, then ever rarer ones. A look
waits for its inputs and its results, which gives the time of the call, and moves on what goes on:

    measuring -> compiling -> probing -> settled       a failure, wherever it happens, leads back
        ^------------------------------- rearm         to measuring, with a cooldown
"""

from __future__ import annotations

import logging
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import attrs
import jax

from ren.config import config
from ren.core.errors import DeviceError
from ren.lowering.ahead import Ahead, Type, types_of
from ren.lowering.background import Job, Worker
from ren.lowering.columns import duration
from ren.lowering.execute import run_plan
from ren.lowering.graph_runner import GraphRunner, graph_runner
from ren.lowering.pacing import Budget, Cooldown, Estimates, Size
from ren.lowering.plan import Plan
from ren.lowering.telemetry import Clock, Decision, Entry, Samples, Store, Telemetry, TierReport
from ren.lowering.trace import active_trace
from ren.lowering.tracing import is_tracing

UNITS, GRAPH = "units", "graph"
MEASURING, COMPILING, PROBING, SETTLED = "measuring", "compiling", "probing", "settled"

_LONGEST_GAP = 256  # calls between two looks
_PROBES, _FEW_PROBES = 8, 3  # of each tier; few where the difference is clear
_CLEAR = 1.3  # slower than the other by this factor
_HOPELESS = 2.5  # ... and by this one after a single probe
_CLOSE = 0.97  # another tier is taken when it takes at most this share of the time

_log = logging.getLogger("ren")


@attrs.frozen
class Means:
    """What the plans of a process share: time, the compiling thread, its budget, its estimates."""

    clock: Clock = time.perf_counter_ns
    worker: Worker = attrs.field(factory=Worker)
    budget: Budget = attrs.field(factory=Budget)
    estimates: Estimates = attrs.field(factory=Estimates)


# The process has one thread that compiles, one budget, and what it learnt of compile times.
MEANS = Means()


class AutoRunner:
    """Runs a plan in the tier that is faster; see the module."""

    def __init__(
        self,
        plan: Plan,
        name: str = "A plan",
        digest: str | None = None,
        store: Store | None = None,
        means: Means = MEANS,
    ) -> None:
        """Args:
        plan: what runs.
        name: what it is called in the log.
        digest, store: what another process learnt of it, and where to keep what is learnt.
        means: what the plans of a process share.
        """
        self._plan, self._name, self._means = plan, name, means
        self._digest, self._store = digest, store
        self._units = partial(run_plan, plan)
        self._graph: GraphRunner | None = None
        self._tier, self._run, self._state = UNITS, self._units, MEASURING
        self._size: Size | None = None
        self._types: tuple[Type, ...] | None = None
        self._calls = self._graph_calls = self._since = 0
        self._next = 1  # the call that is looked at next
        self._samples = {UNITS: Samples(), GRAPH: Samples()}
        self._compile_ns = {UNITS: 0, GRAPH: 0}
        self._fresh = Samples()  # of the tier chosen, since it was
        self._probes: dict[str, list[int]] = {}
        self._decided_at = 0
        self._decisions: list[Decision] = []
        self._cooldown = Cooldown(means.clock)
        self._job: Job | None = None
        self._is_denied = False
        self._lock = threading.RLock()
        self._known = store.known(digest) if store is not None and digest is not None else None
        if self._known is not None and self._known.tier == UNITS:
            self._settle(UNITS, "known from an earlier process")

    def __call__(self, inputs: Sequence[Any], /) -> tuple[Any, ...]:
        """The arrays of the plan's roots."""
        self._calls += 1
        if self._calls < self._next or not self._lock.acquire(blocking=False):
            return self._run(inputs)
        try:
            if is_tracing() or active_trace() is not None:
                return self._run(inputs)
            return self._looked(inputs)
        finally:
            self._lock.release()

    @property
    def tier(self) -> str:
        """The tier of an ordinary call now."""
        return self._tier

    @property
    def telemetry(self) -> Telemetry:
        """Calls, times, decisions and failures so far."""
        with self._lock:
            calls = {UNITS: self._calls - self._graph_calls, GRAPH: self._graph_calls}
            tiers = [
                TierReport(t, calls[t], self._samples[t], self._compile_ns[t])
                for t in (UNITS, GRAPH)
                if t == UNITS or calls[t] or self._compile_ns[t]
            ]
            left = self._cooldown.left_ns
            state = "cooling down" if left else self._state
            if self._state == MEASURING and not config.jit_speculate:
                state = "nothing is compiled in the background (jit_speculate is off)"
            decisions, failures = tuple(self._decisions), self._cooldown.failures
            return Telemetry(self._tier, state, tuple(tiers), decisions, failures, left)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until nothing of this plan is compiled in the background.

        A graph whose compile was put off until it is paid for is compiled now, unless that is
        forbidden (`jit_speculate`), over budget or cooling down. The next calls time both tiers.

        Args:
            timeout: at most so many seconds.

        Returns:
            True when nothing is left.
        """
        with self._lock:
            if self._state == MEASURING and self._types is not None and self._is_allowed():
                self._speculate()
            job = self._job
        if job is None:
            return True
        is_done = job.wait(timeout)
        if is_done:
            with self._lock:
                self._advance()
        return is_done

    # --------------------------------------------------------------- a call that is looked at

    def _looked(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if self._size is None:
            made = self._first(inputs)
        else:
            self._advance()
            made = self._timed(self._turn(), inputs)
            if self._state == PROBING:
                self._conclude()
        self._set_next()
        return made

    def _first(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The first call, whose time is that of compiling kernels."""
        start = self._means.clock()
        made = jax.block_until_ready(self._units(inputs))
        self._compile_ns[UNITS] = self._means.clock() - start
        self._size = Size.of(self._plan)
        self._types = types_of(inputs)
        if self._types is None:
            self._rest("the python device has no executables")
        else:
            self._advance()
        return made

    def _turn(self) -> str:
        """The tier of this call: in turns while both are probed."""
        if self._state != PROBING:
            return self._tier
        graph = self._probes.get(GRAPH)
        if graph is None:  # the first run of an executable is not counted
            return GRAPH
        return UNITS if len(self._probes[UNITS]) <= len(graph) else GRAPH

    def _timed(self, tier: str, inputs: Sequence[Any]) -> tuple[Any, ...]:
        jax.block_until_ready(inputs)
        start = self._means.clock()
        run = self._graph_or_units if tier == GRAPH else self._units
        made = jax.block_until_ready(run(inputs))
        took = self._means.clock() - start
        if tier == UNITS or self._graph is not None:  # else it failed, and units ran
            self._note(tier, took)
        return made

    def _note(self, tier: str, ns: int) -> None:
        if self._state == PROBING and tier == GRAPH and GRAPH not in self._probes:
            self._probes = {UNITS: [], GRAPH: []}
            return
        self._samples[tier] = self._samples[tier].add(ns)
        if self._state == PROBING:
            self._probes[tier].append(ns)
        elif tier == self._tier:
            self._fresh = self._fresh.add(ns)

    def _set_next(self) -> None:
        gap = min(max((self._calls - self._since) // 2, 1), _LONGEST_GAP)
        if self._state == SETTLED and self._types is None:
            self._next = sys.maxsize
            return
        self._next = self._calls + (1 if self._state == PROBING else gap)
        if self._job is not None and self._job.is_done:  # it may have ended just before
            self._next = 0

    def _wake(self) -> None:
        """Has the next call looked at."""
        self._next = 0

    # --------------------------------------------------------------- what is going on

    def _advance(self) -> None:
        if self._state == COMPILING and self._job is not None and self._job.is_done:
            self._finish(self._job)
        elif self._state == SETTLED and self._types is not None and self._is_rearmed():
            self._fresh = Samples()
            self._state, self._probes = (PROBING if self._graph else MEASURING), {}
        if self._state == MEASURING and self._is_allowed() and self._is_worth():
            self._speculate()

    def _is_allowed(self) -> bool:
        return config.jit_speculate and not self._cooldown.left_ns

    def _is_worth(self) -> bool:
        if self._known is not None and self._known.tier == GRAPH:
            return True
        assert self._size is not None
        units = self._calls - self._graph_calls
        mean = self._samples[UNITS].mean_ns
        return self._means.estimates.is_worth(self._size, units, mean)

    def _is_rearmed(self) -> bool:
        fresh = self._fresh
        if fresh.count < config.rearm_min_samples:
            return False
        if self._means.clock() - self._decided_at < config.rearm_interval_ns:
            return False
        if fresh.volatility <= config.rearm_max_volatility:
            return True
        self._fresh = Samples()  # a quieter time may come
        return False

    def _speculate(self) -> None:
        """Lowers the graph here and has it compiled in the background."""
        assert self._size is not None and self._types is not None
        means, reserved = self._means, self._means.estimates.compile_ns(self._size)
        start = means.clock()
        if not means.budget.reserve(reserved, start):
            if not self._is_denied:
                _log.info("%s: not compiled, the compile budget is used up", self._name)
            self._is_denied = True
            return
        ahead = None
        try:
            ahead = Ahead(graph_runner(self._plan), self._types)
            is_complete = ahead.lower()
        except DeviceError as error:
            self._rest(_first_line(error))
        except Exception as error:
            self._fail(error)
        else:
            lowering = means.clock() - start
            if is_complete:
                means.budget.settle(reserved, 0, start)
                self._start_graph(ahead)
                return
            work = partial(self._compile, ahead, lowering, reserved)
            self._state, self._job = COMPILING, means.worker.submit(work, self._wake)
            return
        means.budget.settle(reserved, 0, start)

    def _compile(self, ahead: Ahead, lowering: int, reserved: float) -> Ahead:
        """In the background."""
        means = self._means
        start = means.clock()
        try:
            ahead.compile()
        finally:
            took = means.clock() - start
            means.budget.settle(reserved, took, means.clock())
        assert self._size is not None
        means.estimates.observe(self._size, lowering, took)
        self._compile_ns[GRAPH] = lowering + took
        _log.info(
            "%s: compiled as one executable in %s, lowered in %s",
            self._name, duration(took / 1e9), duration(lowering / 1e9),
        )  # fmt: skip
        return ahead

    def _finish(self, job: Job) -> None:
        self._job = None
        if job.error is not None:
            self._fail(job.error)
        elif job.dropped:
            self._rest("the interpreter exits")
        else:
            self._start_graph(job.result)

    def _start_graph(self, ahead: Ahead) -> None:
        self._graph = ahead.runner()
        if self._known is not None and self._known.tier == GRAPH:
            self._settle(GRAPH, "known from an earlier process")
        else:
            self._state, self._probes = PROBING, {}

    def _conclude(self) -> None:
        """Takes the faster tier once the probes tell."""
        units, graph = self._probes.get(UNITS, []), self._probes.get(GRAPH, [])
        if not units or not graph:
            return
        times = {UNITS: statistics.median(units), GRAPH: statistics.median(graph)}
        count, ratio = min(len(units), len(graph)), times[GRAPH] / times[UNITS]
        is_clear = not 1 / _CLEAR < ratio < _CLEAR
        if not (count >= _PROBES or (is_clear and count >= _FEW_PROBES) or ratio > _HOPELESS):
            return
        other = GRAPH if self._tier == UNITS else UNITS
        tier = other if times[other] < _CLOSE * times[self._tier] else self._tier
        loser = GRAPH if tier == UNITS else UNITS
        reason = f"{duration(times[tier] / 1e9)} against {duration(times[loser] / 1e9)}"
        if tier == UNITS and is_clear:
            self._rest(reason)
        else:
            self._settle(tier, reason)
        self._cooldown.succeed()
        self._remember()

    def _settle(self, tier: str, reason: str) -> None:
        message = "%s: stays with tier %s, %s" if tier == self._tier else "%s: tier %s, %s"
        _log.info(message, self._name, tier, reason)
        self._tier, self._run = tier, self._graph_or_units if tier == GRAPH else self._units
        self._state, self._known = SETTLED, None
        self._since, self._decided_at = self._calls, self._means.clock()
        self._decisions.append(Decision(self._calls, tier, reason))
        self._fresh = Samples()

    def _rest(self, reason: str) -> None:
        """Keeps units for good."""
        self._settle(UNITS, reason)
        self._graph = self._types = None

    def _remember(self) -> None:
        if self._store is None or self._digest is None:
            return
        samples = tuple(
            (tier, s.count, s.mean_ns, s.variance_ns2) for tier, s in self._samples.items()
        )
        entry = Entry(self._tier, samples, self._compile_ns[GRAPH], time.time())
        self._store.remember(self._digest, entry)

    # --------------------------------------------------------------- failures

    def _graph_or_units(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The graph's results; the units' where it fails."""
        graph = self._graph
        if graph is None:  # another thread has just given it up
            return self._units(inputs)
        try:
            made = graph(inputs)
            if self._state == PROBING or self._calls >= self._next:  # what fails there fails here
                made = jax.block_until_ready(made)
        except Exception as error:
            made = self._units(inputs)  # raises too when the inputs are at fault
            with self._lock:
                self._fail(error)
            return made
        self._graph_calls += 1
        return made

    def _fail(self, error: Exception) -> None:
        wait = self._cooldown.fail()
        reason = _first_line(error)
        _log.warning(
            "%s runs as units for %s, not as one executable: %s",
            self._name, duration(wait / 1e9), reason,
        )  # fmt: skip
        self._tier, self._run, self._state = UNITS, self._units, MEASURING
        self._graph = self._known = self._job = None
        self._since = self._calls
        self._decisions.append(Decision(self._calls, UNITS, f"the graph failed: {reason}"))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
