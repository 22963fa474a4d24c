"""`python -m benchmarks.roofline`: how far each kernel is from what the machine can do.

Two rates are measured, with one core and with all: bytes copied between arrays far larger than any
cache, and 32x32 -> 64 bit products in registers. For each kernel of a rotation, a product and the
transforms alone: its time, and the times that its bytes and its multiplications would take at
these rates. A kernel whose values stay in a cache can be ahead of the first.

Counted are the bytes of inputs and outputs, once each; three multiplications a butterfly (one wide
and two low ones, Shoup) and one a multiply-add. Reductions outside transforms are not counted.
Prints a table for each degree and appends a JSON line a kernel to results/roofline.jsonl.
"""

from __future__ import annotations

import argparse
import functools
import json
import operator
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import jax
import jax.numpy as jnp
import numpy as np

import ren
from benchmarks.peers.processes import on_cores
from benchmarks.record import RESULTS, append, commit, cores, device, stamp
from benchmarks.rows import aligned
from benchmarks.run import DEPTHS
from ren.lowering.plan.cost import unit_cost
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import KernelUnit, unit_segment, value_specs
from ren.lowering.runtime.runner import executable_of
from ren.schemes import ckks

COPIED = 1 << 28  # bytes of each array
PRODUCTS, CHAINS, LANES = 64, 8, 1 << 15  # in a row, of so many side by side, on so many numbers
PER_BUTTERFLY = 3


def best_s(call: Callable[[], Any], repeats: int) -> float:
    """The least time of a call; the first is not counted."""
    call()
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def bandwidth(repeats: int) -> float:
    """Bytes a second, read and written, of copies by one thread a core."""
    arrays = [[np.ones(COPIED // 8) for _ in range(2)] for _ in range(cores())]

    def call() -> None:
        threads = [threading.Thread(target=np.copyto, args=pair) for pair in arrays]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return 2 * COPIED * len(arrays) / best_s(call, repeats)


def multiply_rate(repeats: int) -> float:
    """Products of two 32-bit numbers to 64 bits in a second, as XLA compiles them."""

    def chains(x: Any, y: Any) -> Any:
        found = [x ^ jnp.uint32(i) for i in range(CHAINS)]  # one alone waits for itself
        for _ in range(PRODUCTS):
            wide = [v.astype(jnp.uint64) * y.astype(jnp.uint64) for v in found]
            found = [(w >> 32).astype(jnp.uint32) for w in wide]
        return functools.reduce(operator.xor, found)

    with jax.enable_x64(True):
        x = jnp.arange(LANES * cores(), dtype=jnp.uint32) + jnp.uint32(1 << 31)
        y = x - 12345
        function = jax.jit(chains)
        seconds = best_s(lambda: jax.block_until_ready(function(x, y)), 10 * repeats)
    return PRODUCTS * CHAINS * x.size / seconds


def rates(repeats: int) -> dict[str, Any]:
    """Both rates of this process."""
    return {"threads": cores(), "bytes": bandwidth(repeats), "products": multiply_rate(repeats)}


def rates_on(count: int, repeats: int) -> dict[str, Any]:
    """Both rates of a process that may use so many cores."""
    command = [sys.executable, "-m", "benchmarks.roofline", "--inside", "--repeats", str(repeats)]
    made = subprocess.run(
        [*on_cores(count), *command], stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(made.stdout.splitlines()[-1])


def plans(n: int, depth: int) -> Iterator[tuple[str, Plan]]:
    """Programs at the top level of the parameters that `make bench` uses."""
    context = ckks.context(depth=depth, n=n)
    x = context.encrypt(np.linspace(-1, 1, context.slots))
    polys: dict[str, Callable[..., Any]] = {"NTT": ren.Poly.ntt, "INTT": ren.Poly.intt}
    for name, function in polys.items():
        jitted = ren.jit(function, tier="units")
        jitted(x.polys[0].intt().realize() if name == "NTT" else x.polys[0])
        yield name, jitted.plans[0].plan
    context.rotation_keys(1)
    programs: dict[str, Callable[..., Any]] = {
        "rotation": lambda x: x.rotate(1),
        "product": lambda x: x * x,
    }
    for name, function in programs.items():
        jitted = ren.jit(function, tier="units")
        jitted(x)
        yield name, jitted.plans[0].plan


def kernels(plan: Plan, repeats: int) -> Iterator[dict[str, Any]]:
    """The figures of each distinct kernel of a plan."""
    specs = value_specs(plan.inputs, plan.units)
    seen = set()
    for unit in plan.units:
        if not isinstance(unit, KernelUnit) or unit.kernel.program in seen:
            continue
        seen.add(unit.kernel.program)
        args = tuple(jnp.ones(specs[i].shape, jnp.uint32) for i in unit.ins)
        bare = attrs.evolve(unit_segment(unit), donate=())
        run = executable_of(bare, args).bind(args)
        cost = unit_cost(unit, specs)
        n = specs[unit.outs[0]].ring.n
        butterflies = cost.limb_ntts * (n // 2) * (n.bit_length() - 1)
        yield {
            "kernel": unit.name,
            "limbs": specs[unit.outs[0]].ring.limbs,
            "seconds": best_s(lambda r=run, a=args: jax.block_until_ready(r(a)), repeats),
            "bytes": cost.bytes_read + cost.bytes_written,
            "products": PER_BUTTERFLY * butterflies + cost.multiply_adds,
        }


def limits(figures: dict[str, Any], rate: dict[str, Any]) -> dict[str, float]:
    """Seconds at the memory rate, at the multiply rate, and the time over the larger."""
    memory, multiply = (figures[k] / rate[k] for k in ("bytes", "products"))
    larger = max(memory, multiply)
    return {
        "memory_s": memory,
        "multiply_s": multiply,
        "over": figures["seconds"] / larger if larger else 0.0,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Microseconds, and how many times as long as the nearer limit a kernel takes."""
    lines = [["", "limbs", "us", "memory", "multiply", "over"]]
    for row in rows:
        times = (f"{1e6 * row[k]:.0f}" for k in ("seconds", "memory_s", "multiply_s"))
        name = f"{row['program']}: {row['kernel']}"[:60]
        lines.append([name, str(row["limbs"]), *times, f"{row['over']:.1f}"])
    return aligned(lines)


def main() -> None:
    """Measures rates, then kernels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log-n", type=int, nargs="+", choices=DEPTHS, default=list(DEPTHS))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--dry-run", action="store_true", help="write no results")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(rates(options.repeats)))
        return
    print(device())
    for rate in (rates_on(count, options.repeats) for count in sorted({1, cores()})):
        gigabytes, products = rate["bytes"] / 1e9, rate["products"] / 1e9
        print(f"{rate['threads']} threads: {gigabytes:.1f} GB/s, {products:.2f} G products/s")
    shared = {"device": device(), "commit": commit(), **stamp(), "rates": rate}
    for log_n in options.log_n:
        rows = [
            {"program": name, "n": 1 << log_n, **figures, **limits(figures, rate)}
            for name, plan in plans(1 << log_n, DEPTHS[log_n])
            for figures in kernels(plan, options.repeats)
        ]
        print(f"\nn = {1 << log_n}, depth {DEPTHS[log_n]}\n{table(rows)}", flush=True)
        if not options.dry_run:
            for row in rows:
                append(RESULTS / "roofline.jsonl", shared | row)


if __name__ == "__main__":
    main()
