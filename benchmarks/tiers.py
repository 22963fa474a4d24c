"""`python -m benchmarks.tiers`: tier "auto" against the tiers between which it chooses.

For each program, each time on a new plan in a fresh process: the time of a call as units, as one
executable, and under "auto" after 50 calls and `plan.wait()`; then the total of the first 200 calls
under "auto", compiling and probing included, and as units. Kernels are compiled before: both totals
would contain that. Prints the medians of the repeats with their spread, and appends a JSON line a
program to benchmarks/results/tiers.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ren
from benchmarks.record import stamp
from ren import Domain, Poly, RingSpec
from ren.core.numtheory import ntt_primes_below
from ren.jit import Jitted
from ren.schemes import ckks

RESULTS = Path(__file__).parent / "results" / "tiers.jsonl"
REPEATS, CALLS, TIMED = 5, 200, 40
WORST_CALL, WORST_TOTAL = 1.15, 1.25
Program = tuple[Callable[..., Any], tuple[Any, ...]]


def _ring(n: int, limbs: int) -> RingSpec:
    found = ntt_primes_below(n, 1 << 30)
    return RingSpec(n, tuple(next(found) for _ in range(limbs)))


def _random(ring: RingSpec, seed: int, domain: Domain = Domain.COEFF) -> Poly:
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, q, (1, ring.n)) for q in ring.moduli]
    return Poly.from_limbs(jax.device_put(np.concatenate(rows).astype(np.uint32)), ring, domain)


def chain(n: int, limbs: int, length: int) -> Program:
    """Products and sums with a transform and a stored value after each: many small kernels."""
    ring = _ring(n, limbs)

    def run(x: Poly, y: Poly) -> Poly:
        for i in range(length):
            x = (x.ntt().contiguous() * y).contiguous().intt().contiguous() + i
        return x

    return run, (_random(ring, 0), _random(ring, 1, Domain.NTT))


def squares(n: int, limbs: int, length: int) -> Program:
    """x <- rescale(x^2) and lifted back: a program without stored values between."""
    ring = _ring(n, limbs)
    lower = ring.with_moduli(ring.moduli[:-1])

    def run(x: Poly) -> Poly:
        for _ in range(length):
            x = (x * x).rescale(lower.moduli).to_ring(ring)
        return x

    return run, (_random(ring, 0),)


def rotations(n: int, depth: int, count: int) -> Program:
    """A sum of rotations of one ciphertext: few large kernels."""
    context = ckks.context(params=ckks.Parameters.for_depth(depth, n=n, security=None))
    x = context.encrypt(np.linspace(-1, 1, n // 2))
    context.rotation_keys(list(range(1, count)))

    def run(x: ckks.Ciphertext) -> ckks.Ciphertext:
        assert context.key_id  # the context holds the keys
        return sum((x.rotate(i) for i in range(1, count)), x)

    return run, (x,)


def products(n: int, depth: int) -> Program:
    """x^(2^depth) by squaring: relinearizations and rescalings."""
    context = ckks.context(params=ckks.Parameters.for_depth(depth, n=n, security=None))
    x = context.encrypt(np.linspace(-1, 1, n // 2))

    def run(x: ckks.Ciphertext) -> ckks.Ciphertext:
        assert context.key_id
        for _ in range(depth):
            x = x * x
        return x

    run(x)  # makes the key
    return run, (x,)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "rotations of n = 2^14": lambda: rotations(1 << 14, 4, 8),
    "products of n = 2^13": lambda: products(1 << 13, 3),
    "rotations of n = 2^12": lambda: rotations(1 << 12, 3, 4),
    "squares of n = 2^14": lambda: squares(1 << 14, 8, 4),
    "chain of 39 units, n = 2^8": lambda: chain(1 << 8, 2, 10),
    "chain of 39 units, n = 2^10": lambda: chain(1 << 10, 2, 10),
    "chain of 159 units, n = 2^10": lambda: chain(1 << 10, 2, 40),
    "chain of 79 units, n = 2^12": lambda: chain(1 << 12, 4, 20),
}


def call_ms(jitted: Jitted, args: tuple[Any, ...], count: int) -> float:
    """The median time of one call, awaited."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        jax.block_until_ready(jitted(*args))
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def total_ms(jitted: Jitted, args: tuple[Any, ...]) -> float:
    """The time of the first calls together, each awaited."""
    start = time.perf_counter()
    for _ in range(CALLS):
        jax.block_until_ready(jitted(*args))
    return 1e3 * (time.perf_counter() - start)


def totals_ms(run: Callable[..., Any], args: tuple[Any, ...]) -> tuple[float, float]:
    """The first calls of a new plan, capture included: as units, the mean of before and after, and
    under "auto". Kernels are compiled by another plan before."""
    jax.block_until_ready(ren.jit(tier="units")(run)(*args))
    before = total_ms(ren.jit(tier="units")(run), args)
    auto = ren.jit(run)
    found = total_ms(auto, args)
    while auto.plans[0].telemetry.state == "compiling":  # it must not disturb what follows
        time.sleep(0.1)
    return (before + total_ms(ren.jit(tier="units")(run), args)) / 2, found


def measure(name: str) -> dict[str, Any]:
    """The figures of one program in this process."""
    run, args = PROGRAMS[name]()
    total_units, total_auto = totals_ms(run, args)
    units, graph, auto = (ren.jit(tier=tier)(run) for tier in ("units", "graph", "auto"))
    for _ in range(50):
        jax.block_until_ready(auto(*args))
    auto.plans[0].wait()
    for jitted in (units, graph, auto):  # 20 calls in which it chooses, and others start
        call_ms(jitted, args, 20)
    found = {tier: [] for tier in ("units", "graph", "auto")}
    turn = [("units", units), ("graph", graph), ("auto", auto)]
    for _ in range(TIMED):  # by turns, as the machine has other things to do too
        turn.reverse()  # a call after one with large intermediates finds the caches cold
        for tier, jitted in turn:
            found[tier].append(call_ms(jitted, args, 1))
    return {
        **{tier: statistics.median(times) for tier, times in found.items()},
        "total units": total_units, "total auto": total_auto,
        "chosen": auto.plans[0].telemetry.tier, "report": str(auto.plans[0].telemetry),
    }  # fmt: skip


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):9.3f} ({min(values):.3f} to {max(values):.3f})"


def _inside(name: str) -> dict[str, Any]:
    clean = {
        k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "REN_")) and k != "CI"
    }
    command = [sys.executable, "-m", "benchmarks.tiers", "--inside", name]
    made = subprocess.run(command, env=clean, capture_output=True, text=True, check=True)
    return json.loads(made.stdout.splitlines()[-1])


def main() -> None:
    """Measures each program in fresh processes; exits with 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--inside", metavar="PROGRAM", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(measure(options.inside)))
        return
    RESULTS.parent.mkdir(exist_ok=True)
    is_missed = False
    for name in options.programs:
        rows = [_inside(name) for _ in range(options.repeats)]
        print(f"{name}, ms (median of {options.repeats}, spread)")
        figures: dict[str, list[float]] = {
            key: [row[key] for row in rows]
            for key in ("units", "graph", "auto", "total units", "total auto")
        }
        figures["auto / better"] = [r["auto"] / min(r["units"], r["graph"]) for r in rows]
        figures["total auto / units"] = [r["total auto"] / r["total units"] for r in rows]
        for key, values in figures.items():
            print(f"  {key:<20} {_spread(values)}")
        print(f"  chosen               {' '.join(row['chosen'] for row in rows)}", flush=True)
        medians = {key: round(statistics.median(v), 4) for key, v in figures.items()}
        spread = {key: [round(min(v), 4), round(max(v), 4)] for key, v in figures.items()}
        row = {"program": name, "cores": os.cpu_count(), "median": medians, "spread": spread,
               "chosen": [row["chosen"] for row in rows]}  # fmt: skip
        with RESULTS.open("a") as file:
            file.write(json.dumps({**stamp(), **row}) + "\n")
        is_missed |= medians["auto / better"] > WORST_CALL
        is_missed |= medians["total auto / units"] > WORST_TOTAL
    raise SystemExit(int(is_missed))


if __name__ == "__main__":
    main()
