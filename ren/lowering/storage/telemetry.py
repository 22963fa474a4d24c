"""Telemetry: what each tier of a plan took, what was decided, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs

from ren.core import html
from ren.core.text_table import columns, duration

MOST_DECISIONS = 64  # of one plan: a process that runs for months decides again and again


@attrs.frozen
class Samples:
    """Timed calls, summed up; `add` gives the summary with one more.

    Attributes:
        count: how many.
        mean_ns, variance_ns2: of their times, nanoseconds and their squares.
    """

    count: int = 0
    mean_ns: float = 0.0
    variance_ns2: float = 0.0

    def add(self, ns: float) -> Samples:
        """The summary after a call that took `ns`."""
        count = self.count + 1
        off = ns - self.mean_ns
        mean = self.mean_ns + off / count
        squares = self.variance_ns2 * self.count + off * (ns - mean)
        return Samples(count, mean, squares / count)

    @property
    def deviation_ns(self) -> float:
        """The standard deviation."""
        return math.sqrt(max(self.variance_ns2, 0.0))

    @property
    def volatility(self) -> float:
        """The deviation over the mean; 0 without samples."""
        return self.deviation_ns / self.mean_ns if self.mean_ns else 0.0


@attrs.frozen
class Entry:
    """Measurements of a plan that are kept between processes.

    Attributes:
        tier: the one that was chosen.
        samples: (tier, count, mean_ns, variance_ns2) of each that was timed.
        compile_ns: what compiling the graph took; 0 when it was not compiled.
        updated_s: when, in seconds since the epoch.
    """

    tier: str
    samples: tuple[tuple[str, int, float, float], ...]
    compile_ns: int
    updated_s: float


class Store(Protocol):
    """Keeps entries between processes, by the digest of a plan."""

    def known(self, digest: str) -> Entry | None:
        """Entry of a plan, or None."""
        ...

    def remember(self, digest: str, entry: Entry) -> None:
        """Keeps an entry; it may be written later."""
        ...


@attrs.frozen
class TierReport:
    """One tier of one plan: calls, the timed ones among them, and nanoseconds spent compiling."""

    tier: str
    calls: int
    samples: Samples = Samples()
    compile_ns: int = 0


@attrs.frozen
class Decision:
    """From which call on which tier ran, and why."""

    call: int
    tier: str
    reason: str


@attrs.frozen
class Telemetry:
    """Telemetry of the runs of one plan; prints as a table.

    Attributes:
        tier: the tier that runs now.
        state: what is going on, in words.
        tiers: each tier that has run.
        decisions: the latest 64, in order.
        failures: of the graph tier, in a row.
        cooldown_ns: how long the graph tier is still not tried; 0 when it may be.
    """

    tier: str
    state: str
    tiers: tuple[TierReport, ...]
    decisions: tuple[Decision, ...] = ()
    failures: int = 0
    cooldown_ns: int = 0

    def __str__(self) -> str:
        return "\n".join([columns(self._rows()), *self._notes()])

    def _repr_html_(self) -> str:
        return html.card("Telemetry", html.table(self._rows()), *map(html.note, self._notes()))

    def _rows(self) -> list[Sequence[str]]:
        head = ("tier", "calls", "timed", "mean", "deviation", "compiling")
        return [head, *map(_row, self.tiers)]

    def _notes(self) -> list[str]:
        lines = [f"now {self.tier}: {self.state}"]
        lines += [f"from call {d.call}: {d.tier}, {d.reason}" for d in self.decisions]
        if self.failures:
            left = f"for {duration(self.cooldown_ns / 1e9)}" if self.cooldown_ns else "no longer"
            lines.append(f"failures in a row: {self.failures}; cooling down {left}")
        return lines


def _row(report: TierReport) -> Sequence[str]:
    timed = report.samples
    mean = duration(timed.mean_ns / 1e9) if timed.count else "-"
    spread = duration(timed.deviation_ns / 1e9) if timed.count > 1 else "-"
    compiling = duration(report.compile_ns / 1e9) if report.compile_ns else "-"
    return report.tier, str(report.calls), str(timed.count), mean, spread, compiling


class Runner(Protocol):
    """A plan that runs in some tier: call it with the arrays of the plan's inputs."""

    def __call__(self, inputs: Sequence[Any], /) -> tuple[Any, ...]:
        """The arrays of the plan's roots."""
        ...

    @property
    def tier(self) -> str:
        """The tier that runs now."""
        ...

    @property
    def telemetry(self) -> Telemetry:
        """Telemetry of the runs so far."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for what the plan compiles in the background; true when nothing is left."""
        ...


Clock = Callable[[], int]
