"""Tiers: the ways to run one plan. They compute the same residues, bit for bit."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import jax

from ren.config import TIERS, config
from ren.core.errors import DeviceError, JitError, NativeError
from ren.core.text_table import duration
from ren.core.user_frame import is_of_user
from ren.lowering.plan.partition import GRAPH, UNITS
from ren.lowering.plan.plan import Plan
from ren.lowering.runtime import runner as runners
from ren.lowering.runtime.planning import native_runner
from ren.lowering.runtime.tiers.auto import FAILURE, AutoRunner
from ren.lowering.runtime.tiers.budget import Cooldown
from ren.lowering.storage.telemetry import (
    MOST_DECISIONS,
    Clock,
    Decision,
    Runner,
    Store,
    Telemetry,
    TierReport,
)

__all__ = ["AUTO", "EAGER", "GRAPH", "TIERS", "UNITS", "Runner", "check_tier", "runner"]

EAGER, AUTO = "eager", "auto"
_log = logging.getLogger("ren")


def check_tier(tier: object) -> str:
    """`tier`, which is one of TIERS.

    Raises:
        JitError: it is not.
    """
    if isinstance(tier, str) and tier in TIERS:
        return tier
    raise JitError(
        f"ren.jit got tier={tier!r}.",
        'The tiers are "units" (compiled kernels, one by one), "graph" (the plan as one '
        'executable), "eager" (the NumPy reference, slow and exact), and "auto" (units or graph, '
        "whichever is faster).",
        'Leave it out for "auto".',
    )


def runner(
    plan: Plan,
    tier: str,
    digest: Callable[[], str] | None = None,
    store: Store | None = None,
    name: str = "A plan",
) -> Runner:
    """The function of the plan's inputs, concrete arrays, that replays it in a tier.

    Args:
        plan, name: the plan, and its name in the log.
        tier: one of TIERS; for "auto" the setting `jit_tier` decides, which is "auto" itself unless
            it was changed.
        digest, store: for "auto" what makes the key of the plan, and the measurements of all
            processes by key.
    """
    tier = config.jit_tier if tier == AUTO else tier
    if tier == AUTO:
        return AutoRunner(plan, name, digest, store)
    return ChosenTier(plan, tier, name)


class ChosenTier:
    """A plan in the tier that the caller chose.

    A graph that cannot be compiled fails at its first call; then, for a while, its units run. A
    native call that fails raises.
    """

    def __init__(
        self, plan: Plan, tier: str, name: str = "A plan", clock: Clock = time.perf_counter_ns
    ) -> None:
        self._plan, self._chosen, self._name, self._clock = plan, tier, name, clock
        self._graph: runners.Runner | None = None
        self._is_proven = tier != GRAPH
        self._compile_ns = self._calls = self._others = 0
        self._cooldown = Cooldown(clock)
        self._is_impossible = False
        self._decisions: deque[Decision] = deque(maxlen=MOST_DECISIONS)
        self._made_units: runners.Runner | None = None

    def __call__(self, inputs: Sequence[Any], /) -> tuple[Any, ...]:
        """The arrays of the plan's roots."""
        self._calls += 1
        if self._chosen != GRAPH or self.tier == UNITS:
            self._others += self._chosen == GRAPH
            return self._units(inputs)
        try:
            return self._run_graph(inputs)
        except NativeError:
            raise
        except Exception as error:
            if is_of_user(error):
                raise
            results = self._units(inputs)  # raises too when the inputs are at fault
            self._others += 1
            self._fail(error)
            return results

    @property
    def tier(self) -> str:
        """The tier chosen, or "units" while a graph cools down after a failure."""
        return UNITS if self._is_impossible or self._cooldown.left_ns else self._chosen

    @property
    def telemetry(self) -> Telemetry:
        """Calls and failures so far; of times only that of the first call of a graph."""
        chosen = TierReport(self._chosen, self._calls - self._others, compile_ns=self._compile_ns)
        tiers = (chosen, TierReport(UNITS, self._others)) if self._others else (chosen,)
        failures, left = self._cooldown.failures, self._cooldown.left_ns
        state = "cooling down" if left else "chosen by the caller"
        return Telemetry(self.tier, state, tiers, tuple(self._decisions), failures, left)

    def wait(self, timeout: float | None = None) -> bool:
        """True: nothing is compiled in the background."""
        return True

    def _units(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Runs the plan as units, or by the reference."""
        if self._chosen == EAGER:
            if self._calls == 1:
                _log.info("%s: runs on the backend %s", self._name, runners.REFERENCE.name)
            return runners.interpret_plan(self._plan, inputs)
        if self._made_units is None:
            self._made_units = runners.unit_runner(self._plan, self._name)
        return self._made_units(inputs)

    def _run_graph(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if self._graph is not None and self._is_proven:
            if self._graph.is_native and not config.native:  # it was switched off since
                return self._units(inputs)
            return self._graph(inputs)
        plan, start = self._plan, self._clock()
        if self._graph is None:
            native = native_runner(plan.source, plan.inputs, inputs, name=self._name)
            self._graph = native or runners.graph_runner(plan, self._name)
        results = jax.block_until_ready(self._graph(inputs))  # what fails there fails here
        self._compile_ns = self._clock() - start
        self._is_proven = True
        self._cooldown.succeed()
        took = duration(self._compile_ns / 1e9)
        _log.info("%s: compiled as one executable in %s", self._name, took)
        return results

    def _fail(self, error: Exception) -> None:
        self._is_impossible = isinstance(error, DeviceError)
        wait = "good" if self._is_impossible else duration(self._cooldown.fail() / 1e9)
        self._graph, self._is_proven = None, False
        reason = runners.reason_of(error)
        self._decisions.append(Decision(self._calls, UNITS, f"the graph failed: {reason}"))
        _log.warning(FAILURE, self._name, wait, reason)
