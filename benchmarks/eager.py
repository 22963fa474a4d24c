"""`python -m benchmarks.eager`: repeated expressions without `ren.jit`, beside the jitted call.

For each expression the median of 9 times that it is written and realized anew, and of its replay
under `ren.jit`, by turns in one process. The first time of each is shown too, its compilation
included. A repeated expression is to take at most three times its replay and 0.2 ms. Prints a table
in milliseconds and appends a JSON line for each expression to benchmarks/results/eager.jsonl.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import ren
from benchmarks.record import RESULTS, append, commit, device, stamp
from benchmarks.rows import aligned
from ren.schemes import ckks

REPEATS = 9
WARM = 30  # calls before: tiers have chosen
MOST_TIMES, MOST_MORE_S = 3.0, 2e-4

EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "x + y": lambda x, y: x + y,
    "x * y": lambda x, y: x * y,
    "x * x + 2 * y - 1": lambda x, y: x * x + 2 * y - 1,
    "x.rotate(1)": lambda x, y: x.rotate(1),
    "x.sum()": lambda x, y: x.sum(),
    "x.dot(y)": lambda x, y: x.dot(y),
    "ckks.poly(x, degree 7)": lambda x, y: ckks.poly(x, [0.5, 1, -1, 0.25, 0.1, 0.2, -0.3, 0.1]),
}


def main() -> None:
    """Measures; see the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--only", nargs="+", choices=EXPRESSIONS, default=list(EXPRESSIONS))
    options = parser.parse_args()
    ctx = ckks.context(depth=options.depth)
    ctx.rotation_keys([1 << i for i in range(ctx.slots.bit_length() - 1)])
    values = np.linspace(-1, 1, ctx.slots)
    x, y = (ren.realize(ctx.encrypt(v)) for v in (values, values[::-1].copy()))
    print(f"{device()}, commit {commit()}, n = {ctx.params.n}, medians of {REPEATS}, ms")
    lines = [["", "first", "again", "replay", "times", "limit"]]
    for name in options.only:
        row = measured(EXPRESSIONS[name], x, y)
        limit = MOST_TIMES * row["replay"][0] + MOST_MORE_S
        shown = [row["first"], row["again"][0], row["replay"][0]]
        times = row["again"][0] / row["replay"][0]
        kept = "kept" if row["again"][0] <= limit else "missed"
        lines.append([name, *(f"{1e3 * s:.3f}" for s in shown), f"{times:.2f}", kept])
        fields = {"expression": name, "n": ctx.params.n, "depth": options.depth, **row}
        append(RESULTS / "eager.jsonl", {**stamp(), "device": device(), **fields})
    print(aligned(lines))


def measured(expression: Callable[..., Any], x: Any, y: Any) -> dict[str, Any]:
    """Seconds of the first time and of later ones, and of replays: median, least, most."""

    def again() -> None:
        jax.block_until_ready(ren.realize(expression(x, y)))

    jitted = ren.jit(expression)

    def replay() -> None:
        jax.block_until_ready(jitted(x, y))

    first = seconds(again)
    for _ in range(WARM):
        replay()
    jitted.plans[0].wait()
    times: dict[str, list[float]] = {"again": [], "replay": []}
    for _ in range(REPEATS):
        for name, run in (("again", again), ("replay", replay)):
            run()
            times[name].append(seconds(run))
    return {"first": round(first, 5), **{name: spread(t) for name, t in times.items()}}


def seconds(run: Callable[[], None]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def spread(times: list[float]) -> list[float]:
    """Median, least and most, to a microsecond."""
    return [round(t, 6) for t in (statistics.median(times), min(times), max(times))]


if __name__ == "__main__":
    main()
