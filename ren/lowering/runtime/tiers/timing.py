"""Timing: both tiers of a plan are timed by turns, until it is clear which one is faster."""

from __future__ import annotations

import statistics

import attrs

from ren.core.text_table import duration
from ren.lowering.plan.partition import GRAPH, UNITS

_SAMPLES, _FEW_SAMPLES = 8, 3  # of each tier; few where the difference is clear
_CLEAR = 1.3  # slower than the other by this factor
_HOPELESS = 2.5  # ... and by this one after a single sample
_CLOSE = 0.97  # another tier is taken when it takes at most this share of the time


@attrs.frozen
class Verdict:
    """The tier to keep, why, and whether the other was slower by far."""

    tier: str
    reason: str
    is_clear: bool


class TierTimes:
    """The times of both tiers, in nanoseconds, from one round of timing."""

    def __init__(self) -> None:
        self._times: dict[str, list[int]] = {UNITS: [], GRAPH: []}
        self._is_warm = False

    @property
    def turn(self) -> str:
        """The tier that runs next: the graph, whose first run is not counted; then by turns."""
        if not self._is_warm:
            return GRAPH
        return UNITS if len(self._times[UNITS]) <= len(self._times[GRAPH]) else GRAPH

    def add(self, tier: str, ns: int) -> bool:
        """Adds the time of a call; false when it does not count."""
        is_counted, self._is_warm = self._is_warm, True
        if is_counted:
            self._times[tier].append(ns)
        return is_counted

    def verdict(self, now: str) -> Verdict | None:
        """The faster tier, or the one that runs `now` where they are close; None for not yet."""
        count = min(map(len, self._times.values()))
        if not count:
            return None
        medians = {tier: statistics.median(times) for tier, times in self._times.items()}
        ratio = medians[GRAPH] / medians[UNITS]
        is_clear = not 1 / _CLEAR < ratio < _CLEAR
        if not (count >= _SAMPLES or (is_clear and count >= _FEW_SAMPLES) or ratio > _HOPELESS):
            return None
        other = GRAPH if now == UNITS else UNITS
        tier, loser = (other, now) if medians[other] < _CLOSE * medians[now] else (now, other)
        reason = f"{duration(medians[tier] / 1e9)} against {duration(medians[loser] / 1e9)}"
        return Verdict(tier, reason, is_clear)
