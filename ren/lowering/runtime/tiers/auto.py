"""The tier "auto": a plan starts as units, and its graph is compiled when that is paid for. Then
both are timed and the faster one stays.

Ordinary calls only count. Some calls are sampled: the first few, then ever rarer ones. A sample
waits for its inputs and its results, which gives the time of the call. It then moves the state on:

    measuring -> compiling -> probing -> settled       a failure, wherever it happens, leads back
        ^------------------------------- rearm         to measuring, with a cooldown
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent import futures
from functools import partial
from typing import Any

import jax

from ren.config import config
from ren.core.errors import DeviceError
from ren.core.text_table import duration
from ren.core.user_frame import is_of_user
from ren.lowering.devices.devices import is_tracing
from ren.lowering.devices.donation import check_not_donated
from ren.lowering.plan.partition import GRAPH, UNITS
from ren.lowering.plan.plan import Plan
from ren.lowering.runtime.planning import native_runner
from ren.lowering.runtime.runner import Runner, reason_of, unit_runner
from ren.lowering.runtime.tiers.budget import Cooldown
from ren.lowering.runtime.tiers.compile_ahead import (
    RESOURCES,
    BackgroundCompile,
    CompileResources,
    Type,
    types_of,
)
from ren.lowering.runtime.tiers.timing import TierTimes
from ren.lowering.runtime.trace import active_trace
from ren.lowering.storage.telemetry import (
    MOST_DECISIONS,
    Decision,
    Entry,
    Samples,
    Store,
    Telemetry,
    TierReport,
)

MEASURING, COMPILING, PROBING, SETTLED = "measuring", "compiling", "probing", "settled"
FAILURE = "%s runs as units for %s, not as one executable: %s"  # a plan, a time, a reason
_LONGEST_GAP, _LONGEST_GAP_NS = 256, 1_000_000_000  # calls between two samples, and their time
_log = logging.getLogger("ren")


class AutoRunner:
    """Runs a plan in the tier that is faster; see the module."""

    def __init__(
        self,
        plan: Plan,
        name: str = "A plan",
        digest: Callable[[], str] | None = None,
        store: Store | None = None,
        resources: CompileResources = RESOURCES,
    ) -> None:
        """`name` stands in the log; `store` has the measurements of all processes by `digest()`."""
        self._plan, self._name, self._clock = plan, name, resources.clock
        self._digest, self._store = digest, store
        self._made_units: Runner | None = None
        self._graph: Runner | None = None
        self._tier, self._run, self._state = UNITS, self._units, MEASURING
        self._background = BackgroundCompile(plan, name, resources, self._wake)
        self._is_new = True
        self._types: tuple[Type, ...] | None = None
        self._calls = self._graph_calls = self._since = 0
        self._next = 1  # the call that is sampled next
        self._samples = {UNITS: Samples(), GRAPH: Samples()}
        self._first_ns = 0
        self._recent = Samples()  # of the chosen tier, since the choice
        self._times = TierTimes()
        self._decided_at = 0
        self._decisions: deque[Decision] = deque(maxlen=MOST_DECISIONS)
        self._cooldown = Cooldown(resources.clock)
        self._lock = threading.RLock()
        self._is_known_graph = False

    def __call__(self, inputs: Sequence[Any], /) -> tuple[Any, ...]:
        """The arrays of the plan's roots."""
        self._calls += 1
        if self._calls < self._next or not self._lock.acquire(blocking=False):
            return self._run(inputs)
        try:
            if is_tracing() or active_trace.get() is not None:
                return self._run(inputs)
            return self._sampled(inputs)
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
            calls, compile_ns = self._graph_calls, self._background.compile_ns
            units = TierReport(UNITS, self._calls - calls, self._samples[UNITS], self._first_ns)
            graph = TierReport(GRAPH, calls, self._samples[GRAPH], compile_ns)
            left = self._cooldown.left_ns
            state = "cooling down" if left else self._state
            if self._state == MEASURING and not config.jit_speculate:
                state = "nothing is compiled in the background (jit_speculate is off)"
            tiers = (units, graph) if calls or compile_ns else (units,)
            failures = self._cooldown.failures
            return Telemetry(self._tier, state, tiers, tuple(self._decisions), failures, left)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits, at most `timeout` seconds, for what is compiled in the background; true when done.

        A graph whose compile was put off until it is paid for is compiled now. Exceptions: that is
        forbidden (`jit_speculate`), over budget or cooling down. The next calls time both tiers.
        """
        with self._lock:
            if self._state == MEASURING and self._types is not None and self._is_allowed():
                self._compile()
            job = self._background.job
        if job is None:
            return True
        is_done = bool(futures.wait([job], timeout).done)
        if is_done:
            with self._lock:
                self._advance()
        return is_done

    def _sampled(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if self._is_new:
            results = self._first(inputs)
        else:
            self._advance()
            tier = self._times.turn if self._state == PROBING else self._tier
            results = self._timed(tier, inputs)
            if self._state == PROBING:
                self._conclude()
        self._set_next()
        return results

    def _first(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The first call; its time is that of compiling kernels."""
        # Native calls leave nothing to compile and are chosen at once. There is no fallback to
        # units: an error of one is raised.
        start = self._clock()
        self._graph = native_runner(self._plan.source, self._plan.inputs, inputs, name=self._name)
        if self._graph is not None:
            self._is_new = False
            calls = len(self._graph.steps)
            self._settle(GRAPH, "one native call" if calls == 1 else f"{calls} native calls")
            self._run, self._next = partial(self._native, self._graph), sys.maxsize
            return self._run(inputs)
        results = jax.block_until_ready(self._units(inputs))
        self._first_ns = self._clock() - start
        self._is_new = False
        self._types = types_of(inputs)
        if self._types is None:
            self._keep_units("the python device has no executables")
            return results
        if self._store is not None and self._digest is not None:
            known = self._store.known(self._digest())
            self._is_known_graph = known is not None and known.tier == GRAPH
            if known is not None and known.tier == UNITS:
                self._settle(UNITS, "known from an earlier process")
        self._advance()
        return results

    def _units(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Runs the plan as units, which are planned when that comes first."""
        if self._made_units is None:
            self._made_units = unit_runner(self._plan, self._name)
        return self._made_units(inputs)

    def _timed(self, tier: str, inputs: Sequence[Any]) -> tuple[Any, ...]:
        check_not_donated(*inputs)  # JAX's error of waiting for what was given away says less
        jax.block_until_ready(inputs)
        start = self._clock()
        run = self._graph_or_units if tier == GRAPH else self._units
        results = jax.block_until_ready(run(inputs))
        took = self._clock() - start
        if tier == GRAPH and self._graph is None:  # it failed, and units ran
            return results
        is_probe = self._state == PROBING
        if not is_probe or self._times.add(tier, took):
            self._samples[tier] = self._samples[tier].add(took)
            if not is_probe and tier == self._tier:
                self._recent = self._recent.add(took)
        return results

    def _set_next(self) -> None:
        if self._state == SETTLED and self._types is None:
            self._next = sys.maxsize
            return
        mean = self._recent.mean_ns or 1
        gap = min((self._calls - self._since) // 2, _LONGEST_GAP, int(_LONGEST_GAP_NS / mean))
        self._next = self._calls + (1 if self._state == PROBING else max(gap, 1))
        if self._state == COMPILING and self._background.is_done:  # it may have ended just before
            self._next = 0

    def _wake(self) -> None:
        """Has the next call sampled."""
        self._next = 0

    def _advance(self) -> None:
        if self._state == COMPILING and self._background.is_done:
            self._finish()
        elif self._state == SETTLED and self._types is not None and self._is_rearmed():
            self._recent, self._times = Samples(), TierTimes()
            self._state = PROBING if self._graph else MEASURING
        if self._state == MEASURING and self._is_allowed():
            calls, mean_ns = self._calls - self._graph_calls, self._samples[UNITS].mean_ns
            if self._is_known_graph or self._background.is_worth(calls, mean_ns):
                self._compile()

    def _is_allowed(self) -> bool:
        return config.jit_speculate and not self._cooldown.left_ns

    def _is_rearmed(self) -> bool:
        recent = self._recent
        if recent.count < config.rearm_min_samples:
            return False
        if self._clock() - self._decided_at < config.rearm_interval_ns:
            return False
        is_slow = recent.mean_ns >= config.rearm_min_observed_ns
        if is_slow and recent.volatility <= config.rearm_max_volatility:
            return True
        self._recent = Samples()  # a slower and quieter time may come
        return False

    def _compile(self) -> None:
        """Lowers the graph here and has it compiled in the background."""
        assert self._types is not None
        try:
            if not self._background.start(self._types):
                return
        except DeviceError as error:
            self._keep_units(reason_of(error))
        except Exception as error:
            if is_of_user(error):
                raise
            self._fail(error)
        else:
            self._state = COMPILING
            if self._background.job is None:
                self._finish()

    def _finish(self) -> None:
        try:
            self._graph = self._background.graph()
        except Exception as error:
            self._fail(error)
            return
        if self._graph is None:
            self._keep_units("the interpreter exits")
        elif self._is_known_graph:
            self._settle(GRAPH, "known from an earlier process")
        else:
            self._state, self._times = PROBING, TierTimes()

    def _conclude(self) -> None:
        """Takes the faster tier once the times tell, and stores them."""
        verdict = self._times.verdict(self._tier)
        if verdict is None:
            return
        if verdict.tier == UNITS and verdict.is_clear:
            self._keep_units(verdict.reason)
        else:
            self._settle(verdict.tier, verdict.reason)
        self._cooldown.succeed()
        if self._store is not None and self._digest is not None:
            samples = tuple(
                (tier, s.count, s.mean_ns, s.variance_ns2) for tier, s in self._samples.items()
            )
            entry = Entry(self._tier, samples, self._background.compile_ns, time.time())
            self._store.remember(self._digest(), entry)

    def _settle(self, tier: str, reason: str) -> None:
        message = "%s: stays with tier %s, %s" if tier == self._tier else "%s: tier %s, %s"
        _log.info(message, self._name, tier, reason)
        self._tier, self._run = tier, self._graph_or_units if tier == GRAPH else self._units
        self._state, self._is_known_graph = SETTLED, False
        self._since, self._decided_at = self._calls, self._clock()
        self._decisions.append(Decision(self._calls, tier, reason))
        self._recent = Samples()

    def _keep_units(self, reason: str) -> None:
        """Chooses units for good."""
        self._settle(UNITS, reason)
        self._graph = self._types = None

    def _native(self, run: Runner, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if not config.native:  # it was switched off since
            return self._units(inputs)
        results = run(inputs)
        self._graph_calls += 1
        return results

    def _graph_or_units(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The graph's results; the units' where it fails."""
        graph = self._graph
        if graph is None:  # another thread has just given it up
            return self._units(inputs)
        try:
            results = graph(inputs)
            if self._state == PROBING or self._calls >= self._next:  # what fails there fails here
                results = jax.block_until_ready(results)
        except Exception as error:
            if is_of_user(error):
                raise
            results = self._units(inputs)  # raises too when the inputs are at fault
            with self._lock:
                self._fail(error)
            return results
        self._graph_calls += 1
        return results

    def _fail(self, error: Exception) -> None:
        wait = duration(self._cooldown.fail() / 1e9)
        reason = reason_of(error)
        _log.warning(FAILURE, self._name, wait, reason)
        self._tier, self._run, self._state = UNITS, self._units, MEASURING
        self._graph, self._is_known_graph = None, False
        self._since = self._calls
        self._decisions.append(Decision(self._calls, UNITS, f"the graph failed: {reason}"))
