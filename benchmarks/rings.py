"""`make bench BENCH=rings`: products in general rings, beside python-flint.

For each ring the median of 9 turns of a product under `ren.jit`, of one without it, and of
python-flint's fastest way: `nmod_poly` products, and the high half subtracted from the low half.
All run by turns in one process, each turn a mean of 30 calls. Prints a table in microseconds and
appends a JSON line for each ring to benchmarks/results/rings.jsonl.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
from flint import nmod_poly

import ren
from benchmarks.record import RESULTS, append, commit, device, stamp
from benchmarks.rows import aligned
from ren import Poly, RingSpec

TURNS, CALLS, WARM = 9, 30, 300
WIDE = 2**60 - 93  # prime
RINGS = (
    *(RingSpec(n, 3329) for n in (256, 4096)),
    RingSpec(1024, 2**61 - 1),
    *(RingSpec(n, WIDE) for n in (4096, 32768)),
)


def main() -> None:
    """Measures; see the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / "rings.jsonl")
    parser.add_argument("--dry-run", action="store_true", help="append nothing")
    options = parser.parse_args()
    lines = [["n", "q", "replay", "again", "flint", "flint / replay"]]
    for ring in RINGS:
        found = measured(ring)
        middle = {name: statistics.median(times) for name, times in found.items()}
        shown = [
            f"{1e6 * middle[name]:.0f} ({1e6 * min(times):.0f} to {1e6 * max(times):.0f})"
            for name, times in found.items()
        ]
        ratio = middle["flint"] / middle["replay"]
        lines.append([str(ring.n), str(ring.q), *shown, f"{ratio:.1f}"])
        if not options.dry_run:
            row: dict[str, Any] = {
                "n": ring.n,
                "q": ring.q,
                "turns": TURNS,
                "calls": CALLS,
                **found,
            }
            versions = {"flint": version("python-flint"), "commit": commit(), "device": device()}
            append(options.output, {**stamp(), **versions, **row})
    print(aligned(lines))


def measured(ring: RingSpec) -> dict[str, list[float]]:
    """Seconds of a product in each turn: replayed, written again, and by python-flint."""
    n, q = ring.n, ring.q
    x, y = Poly.uniform(ring).realize(), Poly.uniform(ring).realize()
    a, b = nmod_poly(x.tolist(), q), nmod_poly(y.tolist(), q)
    jitted = ren.jit(lambda x, y: x * y)

    def flint() -> Any:
        product = a * b
        return product.truncate(n) - product.right_shift(n)

    runs: dict[str, Callable[[], Any]] = {
        "replay": lambda: jax.block_until_ready(jitted(x, y)),
        "again": lambda: jax.block_until_ready((x * y).realize()),
        "flint": flint,
    }
    want = [int(c) for c in flint().coeffs()]
    assert jitted(x, y).tolist() == want + [0] * (n - len(want))
    for _ in range(WARM):
        runs["replay"]()
    jitted.plans[0].wait()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(TURNS):
        for name, run in runs.items():
            run()
            start = time.perf_counter()
            for _ in range(CALLS):
                run()
            times[name].append((time.perf_counter() - start) / CALLS)
    return times


if __name__ == "__main__":
    main()
