"""`python -m benchmarks.compile`: what compiling costs a process that starts with nothing.

A relinearization, c -> (k0, k1), at n = 2^14 with 11 limbs over 4 digits of 3 special primes, in a
fresh process without any compilation cache. Prints the time of the first run, of each distinct
kernel alone, of a second plan that uses the same kernels, and of a replay; appends a JSON line to
benchmarks/results/compile.jsonl.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np

from benchmarks.record import stamp
from ren.core import Domain, RingSpec, make, toposort
from ren.core import op as ops
from ren.core.numtheory import ntt_primes_below
from ren.lowering.backends.xla import jax_executable
from ren.lowering.backends.xla.backend import XLA
from ren.lowering.plan.plan import KernelUnit, Plan
from ren.lowering.program.steps import read_slots, unit_segment
from ren.lowering.runtime.planning import plan_of
from ren.lowering.runtime.runner import run_plan
from ren.poly import Poly

RESULTS = Path(__file__).parent / "results" / "compile.jsonl"
N, LIMBS, DIGIT = 1 << 14, 11, 3
LIMIT_S = 4.0
_PRIMES = ntt_primes_below(N, 1 << 30)
RING = RingSpec(N, tuple(next(_PRIMES) for _ in range(LIMBS)))
SPECIALS = tuple(next(_PRIMES) for _ in range(DIGIT))
WIDE = RING.with_moduli((*RING.moduli, *SPECIALS))


def random_poly(ring: RingSpec, seed: int) -> Poly:
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, q, (1, ring.n)) for q in ring.moduli]
    return Poly.from_limbs(jax.device_put(np.concatenate(rows).astype(np.uint32)), ring, Domain.NTT)


def relinearization(seed: int) -> Plan:
    """(sum_j ModUp_j(c) b_j) / P and the same with a_j."""
    moduli = RING.moduli
    digits = [moduli[i : i + DIGIT] for i in range(0, LIMBS, DIGIT)]
    lifted = [random_poly(RING, seed).mod_up(digit, WIDE) for digit in digits]
    halves = []
    for half in range(2):
        keys = [random_poly(WIDE, 100 * seed + 10 * half + j + 1) for j in range(len(digits))]
        total = lifted[0] * keys[0]
        for x, key in zip(lifted[1:], keys[1:], strict=True):
            total = total + x * key
        halves.append(total.mod_down(RING))
    return plan_of(make(ops.SINK, [p.node for p in halves]))


def timed(plan: Plan) -> float:
    inputs = [i.arg.array for i in plan.inputs]
    start = time.perf_counter()
    jax.block_until_ready(run_plan(plan, inputs))
    return time.perf_counter() - start


def compile_times(plan: Plan) -> list[tuple[str, float]]:
    """Seconds to compile each distinct kernel, alone and from nothing."""
    jax_executable.clear_kernels()
    jax.clear_caches()
    rows, seen = [], set()
    for unit in plan.units:
        if not isinstance(unit, KernelUnit) or (unit.kernel.program, unit.donate) in seen:
            continue
        seen.add((unit.kernel.program, unit.donate))
        slots = sorted(read_slots(toposort(unit.kernel.body)), key=lambda slot: slot.arg.index)
        args = tuple(jax.ShapeDtypeStruct(slot.spec.shape, np.uint32) for slot in slots)
        start = time.perf_counter()
        XLA.compile(unit_segment(unit), args).analysis(args)
        limbs = unit.kernel.body.src[0].spec.ring.limbs
        rows.append((f"{unit.name}, {limbs} limbs", time.perf_counter() - start))
    return rows


def measure() -> dict[str, object]:
    """The figures of this process, which has compiled nothing yet."""
    start = time.perf_counter()
    plan = relinearization(1)
    planning = time.perf_counter() - start
    jax.block_until_ready(jax.numpy.zeros(3) + 1)  # JAX itself is up
    first = timed(plan)
    count = jax_executable.compiled_count()
    second = relinearization(2)
    again = timed(second)
    new = jax_executable.compiled_count() - count
    replay = min(timed(plan) for _ in range(5))
    kernels = compile_times(plan)
    return {
        "n": N, "limbs": LIMBS, "cores": os.cpu_count(), "units": len(plan.units),
        "kernels": count, "planning_s": round(planning, 3), "cold_s": round(first, 3),
        "second_plan_s": round(again, 3), "second_plan_new_kernels": new,
        "replay_s": round(replay, 4), "compile_s": [[name, round(s, 3)] for name, s in kernels],
    }  # fmt: skip


def main() -> None:
    """Measures in a fresh process; exits with 1 where the limit is missed."""
    if "--inside" in sys.argv:
        print(json.dumps(measure()))
        return
    clean = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    command = [sys.executable, "-m", "benchmarks.compile", "--inside"]
    made = subprocess.run(command, env=clean, capture_output=True, text=True, check=True)
    row = json.loads(made.stdout.splitlines()[-1])
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps({**stamp(), **row}) + "\n")
    for name, value in row.items():
        if name != "compile_s":
            print(f"{name:<26} {value}")
    for name, seconds in row["compile_s"]:
        print(f"{seconds:8.3f} s  {name}")
    raise SystemExit(int(row["cold_s"] > LIMIT_S or row["second_plan_new_kernels"] > 0))


if __name__ == "__main__":
    main()
