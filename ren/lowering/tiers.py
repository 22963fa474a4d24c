"""Tiers: the ways to run one plan. They compute the same residues, bit for bit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

from ren.core.errors import JitError
from ren.lowering.execute import UnitRunner, interpret_plan, run_plan
from ren.lowering.graph_runner import graph_runner
from ren.lowering.plan import Plan

Runner = Callable[[Sequence[Any]], tuple[Any, ...]]

EAGER, UNITS, GRAPH = "eager", "units", "graph"
TIERS = (EAGER, UNITS, GRAPH)

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
        'executable) and "eager" (the NumPy reference, slow and exact). None of them is chosen by '
        "measuring yet.",
        'Leave it out for "units".',
    )


def runner(plan: Plan, tier: str) -> Runner:
    """The function of the plan's inputs, concrete arrays, that replays it in a tier."""
    if tier == GRAPH:
        return _GraphOrUnits(plan)
    return partial(interpret_plan, plan) if tier == EAGER else UnitRunner(plan)


class _GraphOrUnits:
    """Runs a plan's graph; from its first failure on, its units."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._graph: Runner | None = None
        self._is_proven = False
        self._has_failed = False

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if self._has_failed:
            return run_plan(self._plan, inputs)
        try:
            return self._run_graph(inputs)
        except Exception as error:
            made = run_plan(self._plan, inputs)  # raises too when the inputs are at fault
            self._has_failed = True
            reason = str(error).partition("\n")[0]
            _log.warning("A plan runs as units, not as one executable: %s", reason)
            return made

    def _run_graph(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if self._graph is None:
            self._graph = graph_runner(self._plan)
        made = self._graph(inputs)
        if not self._is_proven:  # JAX returns before it has run: what fails there fails here
            made = jax.block_until_ready(made)
            self._is_proven = True
        return made
