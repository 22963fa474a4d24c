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
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax

from ren.config import config
from ren.core.errors import DeviceError
from ren.core.text_table import duration
from ren.lowering.devices.donation import check_all
from ren.lowering.devices.tracing import is_tracing
from ren.lowering.plan.partition import GRAPH, UNITS
from ren.lowering.plan.plan import Plan
from ren.lowering.runtime.runner import Runner, native_runner, unit_runner
from ren.lowering.runtime.tiers.budget import Cooldown
from ren.lowering.runtime.tiers.compile_ahead import Type, types_of
from ren.lowering.runtime.tiers.speculation import MEANS, Means, Speculation
from ren.lowering.runtime.tiers.timing import Probes
from ren.lowering.runtime.trace import active_trace
from ren.lowering.storage.telemetry import Decision, Entry, Samples, Store, Telemetry, TierReport

MEASURING, COMPILING, PROBING, SETTLED = "measuring", "compiling", "probing", "settled"

_LONGEST_GAP, _LONGEST_GAP_NS = 256, 1_000_000_000  # calls between two samples, and their time
_log = logging.getLogger("ren")


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
        self._units = unit_runner(plan)
        self._graph: Runner | None = None
        self._tier, self._run, self._state = UNITS, self._units, MEASURING
        self._speculation = Speculation(plan, name, means, self._wake)
        self._is_new = True
        self._types: tuple[Type, ...] | None = None
        self._calls = self._graph_calls = self._since = 0
        self._next = 1  # the call that is looked at next
        self._samples = {UNITS: Samples(), GRAPH: Samples()}
        self._first_ns = 0
        self._fresh = Samples()  # of the tier chosen, since it was
        self._probes = Probes()
        self._decided_at = 0
        self._decisions: list[Decision] = []
        self._cooldown = Cooldown(means.clock)
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
            units, compiling = self._calls - self._graph_calls, self._speculation.compile_ns
            tiers = [TierReport(UNITS, units, self._samples[UNITS], self._first_ns)]
            if self._graph_calls or compiling:
                graph = self._samples[GRAPH]
                tiers.append(TierReport(GRAPH, self._graph_calls, graph, compiling))
            left = self._cooldown.left_ns
            state = "cooling down" if left else self._state
            if self._state == MEASURING and not config.jit_speculate:
                state = "nothing is compiled in the background (jit_speculate is off)"
            decisions, failures = tuple(self._decisions), self._cooldown.failures
            return Telemetry(self._tier, state, tuple(tiers), decisions, failures, left)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until nothing of this plan is compiled in the background.

        A graph whose compile was put off until it is paid for is compiled now. Exceptions: that is
        forbidden (`jit_speculate`), over budget or cooling down. The next calls time both tiers.

        Args:
            timeout: at most so many seconds.

        Returns:
            True when nothing is left.
        """
        with self._lock:
            if self._state == MEASURING and self._types is not None and self._is_allowed():
                self._speculate()
            job = self._speculation.job
        if job is None:
            return True
        is_done = job.wait(timeout)
        if is_done:
            with self._lock:
                self._advance()
        return is_done

    # --------------------------------------------------------------- a call that is looked at

    def _looked(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if self._is_new:
            made = self._first(inputs)
        else:
            self._advance()
            made = self._timed(self._probes.turn if self._state == PROBING else self._tier, inputs)
            if self._state == PROBING:
                self._conclude()
        self._set_next()
        return made

    def _first(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The first call; its time is that of compiling kernels. Native calls leave nothing to
        compile and are chosen at once instead. They have no units to fall back on: an error of one
        is raised."""
        start = self._means.clock()
        self._graph = native_runner(self._plan.source, self._plan.inputs, inputs)
        if self._graph is not None:
            self._is_new = False
            calls = len(self._graph.steps)
            self._settle(GRAPH, "one native call" if calls == 1 else f"{calls} native calls")
            self._run, self._next = partial(self._native, self._graph), sys.maxsize
            return self._run(inputs)
        made = jax.block_until_ready(self._units(inputs))
        self._first_ns = self._means.clock() - start
        self._is_new = False
        self._types = types_of(inputs)
        if self._types is None:
            self._rest("the python device has no executables")
        else:
            self._advance()
        return made

    def _timed(self, tier: str, inputs: Sequence[Any]) -> tuple[Any, ...]:
        check_all(inputs)  # JAX's own error of waiting for what was given away says less
        jax.block_until_ready(inputs)
        start = self._means.clock()
        run = self._graph_or_units if tier == GRAPH else self._units
        made = jax.block_until_ready(run(inputs))
        took = self._means.clock() - start
        if tier == UNITS or self._graph is not None:  # else it failed, and units ran
            self._note(tier, took)
        return made

    def _note(self, tier: str, ns: int) -> None:
        if self._state == PROBING and not self._probes.note(tier, ns):
            return
        self._samples[tier] = self._samples[tier].add(ns)
        if self._state != PROBING and tier == self._tier:
            self._fresh = self._fresh.add(ns)

    def _set_next(self) -> None:
        if self._state == SETTLED and self._types is None:
            self._next = sys.maxsize
            return
        mean = self._fresh.mean_ns or 1
        gap = min((self._calls - self._since) // 2, _LONGEST_GAP, int(_LONGEST_GAP_NS / mean))
        self._next = self._calls + (1 if self._state == PROBING else max(gap, 1))
        if self._state == COMPILING and self._speculation.is_done:  # it may have ended just before
            self._next = 0

    def _wake(self) -> None:
        """Has the next call looked at."""
        self._next = 0

    # --------------------------------------------------------------- what is going on

    def _advance(self) -> None:
        if self._state == COMPILING and self._speculation.is_done:
            self._finish()
        elif self._state == SETTLED and self._types is not None and self._is_rearmed():
            self._fresh, self._probes = Samples(), Probes()
            self._state = PROBING if self._graph else MEASURING
        if self._state == MEASURING and self._is_allowed() and self._is_worth():
            self._speculate()

    def _is_allowed(self) -> bool:
        return config.jit_speculate and not self._cooldown.left_ns

    def _is_worth(self) -> bool:
        if self._known is not None and self._known.tier == GRAPH:
            return True
        units = self._calls - self._graph_calls
        return self._speculation.is_worth(units, self._samples[UNITS].mean_ns)

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
        assert self._types is not None
        try:
            if not self._speculation.start(self._types):
                return
        except DeviceError as error:
            self._rest(_first_line(error))
        except Exception as error:
            self._fail(error)
        else:
            self._state = COMPILING
            if self._speculation.job is None:
                self._finish()

    def _finish(self) -> None:
        try:
            self._graph = self._speculation.graph()
        except Exception as error:
            self._fail(error)
            return
        if self._graph is None:
            self._rest("the interpreter exits")
        elif self._known is not None and self._known.tier == GRAPH:
            self._settle(GRAPH, "known from an earlier process")
        else:
            self._state, self._probes = PROBING, Probes()

    def _conclude(self) -> None:
        """Takes the faster tier once the probes tell."""
        verdict = self._probes.verdict(self._tier)
        if verdict is None:
            return
        if verdict.tier == UNITS and verdict.is_clear:
            self._rest(verdict.reason)
        else:
            self._settle(verdict.tier, verdict.reason)
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
        entry = Entry(self._tier, samples, self._speculation.compile_ns, time.time())
        self._store.remember(self._digest, entry)

    def _native(self, run: Runner, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if not config.native:  # it was switched off since
            return self._units(inputs)
        made = run(inputs)
        self._graph_calls += 1
        return made

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
        self._graph = self._known = None
        self._since = self._calls
        self._decisions.append(Decision(self._calls, UNITS, f"the graph failed: {reason}"))


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
