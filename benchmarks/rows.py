"""A row of `make bench`: one operation of one library, timed; and the tables made of rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

REN = "Ren"


@attrs.frozen(kw_only=True)
class Row:
    """What one JSON line of results/bench.jsonl holds.

    Attributes:
        side: the library, "Ren" for this one.
        op: the operation, a name of `benchmarks.peers.serving.OPERATIONS`.
        n, depth, scale: ring degree, rescales, bits of the scale.
        logQ, logQP: bits of the top modulus and of what security counts.
        limbs, dnum: moduli of the top modulus, digits of a key. These four and the scale are None
            where a library does not tell.
        threads: that it may use.
        median, spread: seconds a call, and the least and the most of the repeats.
        repeats, calls: how many figures the median is of, each over so many calls in a row.
        compile_s: of the first call, compilation included.
        prepare_s: of keys and plaintexts before it, as the diagonals of a matrix; None of old rows.
        peak_bytes: the most that the process held in memory during a call, keys and all; None
            where the system does not tell.
        memory_ratio: the most that a kernel needs, over its inputs and outputs; Ren's alone.
        native: whether native kernels ran; None where there are none.
        device, versions, commit, date: where, of what, when.
    """

    side: str
    op: str
    n: int
    depth: int
    scale: int | None
    logQ: float | None
    logQP: float | None
    limbs: int | None
    dnum: int | None
    threads: int
    median: float
    spread: tuple[float, float]
    repeats: int
    calls: int
    compile_s: float
    peak_bytes: int | None
    prepare_s: float | None = None
    memory_ratio: float | None = None
    native: Any = None
    device: str = ""
    versions: dict[str, str] = attrs.field(factory=dict)
    commit: str = ""
    date: str = ""

    def __attrs_post_init__(self) -> None:
        log_q, log_qp = self.logQ or 0.0, self.logQP or math.inf
        if not self.spread[0] <= self.median <= self.spread[1] or not log_q <= log_qp:
            raise ValueError(f"impossible figures in {self!r}")

    def to_json(self) -> dict[str, Any]:
        """The fields, for one line; times to a tenth of a microsecond."""
        row = attrs.asdict(self)
        row |= {"median": round(self.median, 7), "compile_s": round(self.compile_s, 3)}
        if self.prepare_s is not None:
            row["prepare_s"] = round(self.prepare_s, 3)
        return row | {"spread": [round(t, 7) for t in self.spread]}


def times(seconds: Sequence[float]) -> dict[str, Any]:
    """The fields of a row that repeats give."""
    return {
        "median": statistics.median(seconds),
        "spread": (min(seconds), max(seconds)),
        "repeats": len(seconds),
    }


def calls_for(seconds: float, least: float = 0.02) -> int:
    """How many calls in a row take about `least` seconds, where one takes `seconds`."""
    return max(1, min(1000, math.ceil(least / max(seconds, 1e-9))))


def repeats_for(seconds: float, most: int, least: int = 3, limit: float = 60.0) -> int:
    """Number of repeats of `seconds` that fit into the limit: fewer where calls are long."""
    return min(most, max(least, int(limit / max(seconds, 1e-9))))


def table(rows: Iterable[Row]) -> str:
    """The medians in milliseconds, an operation a line, a library a column; beside each other
    library how many times as long as Ren it takes."""
    rows = list(rows)
    sides = list(dict.fromkeys(row.side for row in rows))
    found = {(row.op, row.side): row.median for row in rows}
    lines = [["ms", *sides]]
    for op in dict.fromkeys(row.op for row in rows):
        ours = found.get((op, REN))
        lines.append([op, *(_cell(found.get((op, side)), ours, side) for side in sides)])
    return aligned(lines)


def _cell(seconds: float | None, ours: float | None, side: str) -> str:
    if seconds is None:
        return "-"
    text = f"{1e3 * seconds:.3f}"
    return text if ours is None or side == REN else f"{text} {seconds / ours:6.2f}x"


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Cells in columns: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    made = []
    for first, *rest in lines:
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        made.append("  ".join((first.ljust(widths[0]), *cells)).rstrip())
    return "\n".join(made)
