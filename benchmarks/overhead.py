"""`python -m benchmarks.overhead`: what a replay takes over the executables that it calls.

For a plan of one kernel and one of 200: the median time of a call under `ren.jit`, of the unit
runner alone, and of the bare `jax.jit` executables of the same kernels on the same arrays, one call
after the other under 64-bit types. Calls are taken in turns; each is awaited, and in a second round
only started. Then a product and a rotation of ciphertexts on one jitted function, of one tenant and
of 100 by turns. Prints the figures in microseconds and appends a JSON line to
benchmarks/results/overhead.jsonl; exits with 1 where a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

import ren
from benchmarks.record import stamp
from ren.core.numtheory import ntt_primes_below
from ren.lowering.backends.xla import emit
from ren.lowering.plan.plan import KernelUnit, Plan
from ren.lowering.runtime.runner import unit_runner
from ren.schemes import ckks

RESULTS = Path(__file__).parent / "results" / "overhead.jsonl"
REPEATS = 1000
ONE_LIMIT_US, UNIT_LIMIT_US = 25.0, 15.0
N, UNITS = 64, 200
TENANTS, TENANTS_DEGREE, TENANTS_LIMIT, ROUNDS = 100, 1 << 12, 1.1, 300
_PRIMES = ntt_primes_below(N, 1 << 30)
RING = ren.RingSpec(N, (next(_PRIMES), next(_PRIMES)))


def one_kernel(x: ren.Poly, y: ren.Poly) -> ren.Poly:
    return x + y


def many_kernels(x: ren.Poly, y: ren.Poly) -> ren.Poly:
    """Transforms there and back: each of them is a kernel of its own."""
    for _ in range(UNITS // 2):
        x = x.ntt().contiguous().intt().contiguous()
    return x


def bare(plan: Plan, inputs: list[Any]) -> Callable[[], Any]:
    """The kernels of a plan as jitted functions called in order, values in a list; no donation."""
    steps = []
    for unit in plan.units:
        assert isinstance(unit, KernelUnit)
        tables = tuple(tuple(map(jax.device_put, t.build())) for t in unit.kernel.tables)
        steps.append((emit.kernel_function(unit.kernel.program).function, tables, unit.ins))

    def run() -> Any:
        values = list(inputs)
        for function, tables, ins in steps:
            values.extend(function(tables, *[values[i] for i in ins]))
        return [values[i] for i in plan.outputs]

    return run


def medians(runs: dict[str, Callable[[], Any]], waits: bool) -> dict[str, float]:
    """The median of each, in microseconds; they take turns."""
    times: dict[str, list[int]] = {name: [] for name in runs}
    for _ in range(REPEATS + 50):
        for name, run in runs.items():
            with jax.enable_x64(name == "bare"):
                start = time.perf_counter_ns()
                made = run()
                if waits:
                    jax.block_until_ready(made)
                times[name].append(time.perf_counter_ns() - start)
                jax.block_until_ready(made)
    return {name: statistics.median(t[50:]) / 1e3 for name, t in times.items()}


def overheads(function: Callable[..., Any]) -> dict[str, Any]:
    """What a replay of the function takes over its bare kernels."""
    x, y = (ren.Poly.uniform(RING).realize() for _ in range(2))
    jitted = ren.jit(function)
    jitted(x, y)
    plan = jitted.plans[0].plan
    arrays = {id(a): a for a in (x.limbs, y.limbs)}
    inputs = list(arrays.values())[: len(plan.inputs)]
    runner = unit_runner(plan)
    row: dict[str, Any] = {"units": len(plan.units)}
    with jax.enable_x64(True):
        alone = bare(plan, inputs)
        alone()
    for label, waits in (("awaited", True), ("started", False)):
        runs = {"replay": lambda: jitted(x, y), "runner": lambda: runner(inputs), "bare": alone}
        found = medians(runs, waits)
        row[label] = {name: round(us, 2) for name, us in found.items()}
        over = found["replay"] - found["bare"], found["runner"] - found["bare"]
        row[label] |= {"replay_over": round(over[0], 2), "runner_over": round(over[1], 2)}
    return row


def tenants() -> dict[str, Any]:
    """Replays of one function for one tenant and for many, and how often it was captured."""
    params = ckks.Parameters.for_depth(2, n=TENANTS_DEGREE, security=None)
    owners = [ckks.context(params=params, rotations=[1]) for _ in range(TENANTS)]
    given = [owner.encrypt([0.5, 0.25]).realize() for owner in owners]
    score = ren.jit(lambda x: x * x + x.rotate(1))
    for x in given:
        score(x)
    times: dict[str, list[int]] = {"one": [], "turns": []}
    for i in range(ROUNDS):
        for name, x in (("one", given[0]), ("turns", given[i % TENANTS])):
            start = time.perf_counter_ns()
            made = score(x)
            jax.block_until_ready([p.limbs for p in made.polys])
            times[name].append(time.perf_counter_ns() - start)
    found = {name: round(statistics.median(t) / 1e3, 2) for name, t in times.items()}
    ratio = round(found["turns"] / found["one"], 3)
    return {"tenants": TENANTS, "n": TENANTS_DEGREE, **found, "ratio": ratio,
            "captures": score.cache_info().misses}  # fmt: skip


def main() -> None:
    """Measures both plans."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    one, many = overheads(one_kernel), overheads(many_kernels)
    assert (one["units"], many["units"]) == (1, UNITS)
    row = {**stamp(), "cores": os.cpu_count(), "n": N, "one": one, "many": many}
    row["tenants"] = found = tenants()
    with RESULTS.open("a") as file:
        file.write(json.dumps(row) + "\n")
    missed = found["ratio"] > TENANTS_LIMIT or found["captures"] > 1
    print(f"{TENANTS} tenants by turns, us a call: {found['turns']}; one tenant: {found['one']}")
    for name, found, limit in (("1 unit", one, ONE_LIMIT_US), ("200 units", many, UNIT_LIMIT_US)):
        for label in ("awaited", "started"):
            each = {k: v / found["units"] for k, v in found[label].items()}
            missed |= each["replay_over"] > limit
            figures = "  ".join(f"{k} {v:.2f}" for k, v in each.items())
            print(f"{name}, {label}, us a unit: {figures}")
    raise SystemExit(int(missed))


if __name__ == "__main__":
    main()
