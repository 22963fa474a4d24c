"""`python -m benchmarks.planning`: how planning time grows with the size of a program.

Plans chains, trees and wide sums of 1,000 to 50,000 operations: all passes, scheduling, the memory
plan; nothing is compiled or run. Prints a table and the exponents of growth, and appends a JSON
line a figure to benchmarks/results/planning.jsonl.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.record import stamp
from ren.core import Domain, RingSpec, make, toposort
from ren.core import op as ops
from ren.core.node import Node, buffer
from ren.core.numtheory import ntt_primes_below
from ren.lowering.passes import pipeline as passes
from ren.lowering.plan.memory import with_donations
from ren.lowering.plan.plan import schedule
from ren.lowering.runtime.planning import plan_of

RESULTS = Path(__file__).parent / "results" / "planning.jsonl"
SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
LIMIT_S = 20.0  # for the largest size
LEAVES = 64
_PRIMES = ntt_primes_below(64, 1 << 30)
RING = RingSpec(64, (next(_PRIMES), next(_PRIMES)))


def leaves(count: int, domain: Domain = Domain.NTT) -> list[Node]:
    return [buffer(np.zeros((2, 64), np.uint32), RING, domain) for _ in range(count)]


def chain(size: int) -> Node:
    """x <- x a, x <- x + b, over and over: every operation reads the one before it."""
    x, a, b = leaves(3)
    for i in range(size):
        x = make(ops.ADD, (x, b)) if i % 2 else make(ops.MUL, (x, a))
    return x


def recurrence(size: int) -> Node:
    """x <- x a + b, b <- b - x: two values live, each read more than once."""
    x, a, b = leaves(3)
    for _ in range(size // 3):
        x = make(ops.ADD, (make(ops.MUL, (x, a)), b))
        b = make(ops.SUB, (b, x))
    return make(ops.ADD, (x, b))


def tree(size: int) -> Node:
    """Products and sums of pairs by turns, from size / 2 inputs down to one value."""
    level, depth = leaves(size // 2), 0
    while len(level) > 1:
        op, rest = (ops.ADD, ops.MUL)[depth % 2], level[len(level) // 2 * 2 :]
        level = [make(op, pair) for pair in zip(level[::2], level[1::2], strict=False)] + rest
        depth += 1
    return level[0]


def wide_sum(size: int) -> Node:
    """One sum of size / 2 products of 64 inputs with as many others."""
    pool, others = leaves(LEAVES), leaves(size // 2)
    total = pool[0]
    for i, y in enumerate(others):
        total = make(ops.ADD, (total, make(ops.MUL, (pool[i % LEAVES], y))))
    return total


def transforms(size: int) -> Node:
    """A sum of squares of coefficients: kernels of their own, and many values alive."""
    pool, others = leaves(LEAVES, Domain.COEFF), leaves(size // 4, Domain.COEFF)
    total = pool[0]
    for i, y in enumerate(others):
        x = make(ops.ADD, (pool[i % LEAVES], y))
        total = make(ops.ADD, (total, make(ops.MUL, (x, x))))
    return total


SHAPES: dict[str, Callable[[int], Node]] = {
    "chain": chain,
    "recurrence": recurrence,
    "tree": tree,
    "wide sum": wide_sum,
    "transforms": transforms,
}


def measured(shape: str, size: int) -> dict[str, object]:
    """One row: the time to plan a new program, and what came out."""
    sink = make(ops.SINK, (SHAPES[shape](size),))
    nodes = len(toposort(sink))
    gc.collect()
    start = time.perf_counter()
    plan = plan_of(sink)
    seconds = time.perf_counter() - start
    return {
        "shape": shape,
        "operations": size,
        "nodes": nodes,
        "seconds": round(seconds, 3),
        "units": len(plan.units),
        "programs": len(plan.programs),
    }


def by_pass(shape: str, size: int) -> Iterator[tuple[str, float]]:
    """Seconds in each pass, without the verifier; then in scheduling and the memory plan."""
    graph = make(ops.SINK, (SHAPES[shape](size),))
    for step in passes.PIPELINE:
        start = time.perf_counter()
        graph = step.run(graph)
        yield step.name, time.perf_counter() - start
    start = time.perf_counter()
    plan = schedule(graph)
    yield "schedule", time.perf_counter() - start
    start = time.perf_counter()
    with_donations(plan)
    yield "memory plan", time.perf_counter() - start


def exponent(rows: list[dict]) -> float:
    """The slope of log time over log size, by least squares over the larger half."""
    points = [(math.log(r["nodes"]), math.log(max(r["seconds"], 1e-3))) for r in rows[-4:]]
    x, y = np.array(points).T
    return float(np.polyfit(x, y, 1)[0])


def main() -> None:
    """Prints the growth curves; exits with 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--by-pass", type=int, metavar="SIZE", help="time each pass, and stop")
    options = parser.parse_args()
    if options.by_pass:
        for shape in options.shapes:
            for name, seconds in by_pass(shape, options.by_pass):
                print(f"{shape:<12} {name:<22} {seconds:9.3f} s")
        return
    missed = False
    RESULTS.parent.mkdir(exist_ok=True)
    print(f"{'program':<12} {'nodes':>8} {'seconds':>9} {'units':>7} {'kernels':>8}")
    with RESULTS.open("a") as file:
        for shape in options.shapes:
            rows = []
            for size in options.sizes:
                row = measured(shape, size)
                rows.append(row)
                file.write(json.dumps({**stamp(), **row}) + "\n")
                print("{shape:<12} {nodes:>8,} {seconds:>9.3f} {units:>7,} {programs:>8,}"
                      .format(**row), flush=True)  # fmt: skip
            grown = exponent(rows)
            print(f"{shape:<12} time grows like nodes^{grown:.2f}")
            missed |= grown > 2.1 or rows[-1]["seconds"] > LIMIT_S
    raise SystemExit(int(missed))


if __name__ == "__main__":
    main()
