"""`make bench BENCH=eager`: lines of a notebook, written again and again, without `ren.jit`.

For each of twelve lines the time that it takes written and realized anew, that of its replay under
`ren.jit`, and that of the same line of TenSEAL, by turns in one process, at one ring degree, depth
and scale. A figure is the median of 9, each the mean of as many calls as take 20 ms. One call
before them, after a pause of 20 ms, is a figure of its own: caches and cores are cold then. The
first time of each line is shown too, its compilation included. A repeated line is to take at most
three times its replay and 0.2 ms, and at most 1.5 times as long as TenSEAL's. Prints a table in
milliseconds and appends a JSON line for each line to benchmarks/results/eager.jsonl.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import tenseal

import ren
from benchmarks.peers.seal import Seal, chain
from benchmarks.record import RESULTS, append, commit, device, stamp
from benchmarks.rows import aligned, calls_for
from ren.schemes import ckks

REPEATS = 9
WARM = 30  # calls before: tiers have chosen
PAUSE_S = 0.02  # between turns: threads that spin for more work go to sleep
MOST_TIMES, MOST_MORE_S, MOST_BESIDE = 3.0, 2e-4, 1.5
SCALE_BITS = 40
POLY = [0.5, 1, -1, 0.25, 0.1, 0.2, -0.3, 0.1]
SIGMOID = [0.5, 0.197, 0, -0.004]
SMALL = 16  # rows and columns of the matrix


@attrs.frozen
class Operands:
    """Two ciphertexts of all slots, one of SMALL numbers, an array, a matrix; and the context."""

    x: Any
    y: Any
    v: Any
    w: Any
    matrix: Any
    context: Any


Line = Callable[[Operands], Any]

LINES: dict[str, tuple[Line, Line]] = {  # of Ren, of TenSEAL
    "x + y": (lambda o: o.x + o.y, lambda o: o.x + o.y),
    "x * y": (lambda o: o.x * o.y, lambda o: o.x * o.y),
    "x * x - 0.5": (lambda o: o.x * o.x - 0.5, lambda o: o.x * o.x - 0.5),
    "x * w + 1": (lambda o: o.x * o.w + 1, lambda o: o.x * o.w + 1),
    "x.rotate(1)": (lambda o: o.x.rotate(1), lambda o: o.x.rotate(1)),
    "x.sum()": (lambda o: o.x.sum(), lambda o: o.x.sum()),
    "x.mean()": (lambda o: o.x.mean(), lambda o: o.x.sum() * (1 / len(o.w))),
    "x.dot(y)": (lambda o: o.x.dot(o.y), lambda o: o.x.dot(o.y)),
    "x.dot(w)": (lambda o: o.x.dot(o.w), lambda o: o.x.dot(o.w)),
    "v @ matrix": (lambda o: o.v @ o.matrix, lambda o: o.v.mm(o.matrix)),
    "polynomial of degree 7": (lambda o: ckks.poly(o.x, POLY), lambda o: o.x.polyval(POLY)),
    "sigmoid(x.dot(w) - 0.1)": (
        lambda o: ckks.poly(o.x.dot(o.w) - 0.1, SIGMOID),
        lambda o: (o.x.dot(o.w) - 0.1).polyval(SIGMOID),
    ),
}


class Rotated:
    """A vector of TenSEAL that rotates too, which TenSEAL's own do not, through SEAL."""

    def __init__(self, vector: Any, seal: Seal, values: np.ndarray) -> None:
        self._vector, self._seal = vector, seal
        self._ciphertext = seal.encrypt(seal.encode(values))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vector, name)

    def rotate(self, step: int) -> Any:
        """result[i] = x[i + step]."""
        return self._seal.rotate(self._ciphertext, step)

    def __add__(self, other: Any) -> Any:
        return self._vector + getattr(other, "_vector", other)

    def __mul__(self, other: Any) -> Any:
        return self._vector * getattr(other, "_vector", other)

    def dot(self, other: Any) -> Any:
        """The sum of products."""
        return self._vector.dot(getattr(other, "_vector", other))


def main() -> None:
    """Measures; see the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log-n", type=int, default=14)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=LINES, default=list(LINES))
    parser.add_argument("--output", type=Path, default=RESULTS / "eager.jsonl")
    parser.add_argument("--dry-run", action="store_true", help="write no results")
    options = parser.parse_args()
    n, depth = 1 << options.log_n, options.depth
    own, peer = of_ren(n, depth), of_tenseal(n, depth)
    print(f"{device()}, commit {commit()}, n = {n}, depth {depth}, medians of {REPEATS}, ms")
    rested = ["after a pause", "TenSEAL's"]
    head = ["", "first", "again", "ren.jit", "TenSEAL", "/ ren.jit", "/ TenSEAL", "limits", *rested]
    lines = [head]
    for name in options.only:
        row = measured(*LINES[name], own, peer)
        again, replay, beside = (row[side][0] for side in ("again", "replay", "tenseal"))
        is_kept = again <= MOST_TIMES * replay + MOST_MORE_S and again <= MOST_BESIDE * beside
        shown = [f"{1e3 * s:.3f}" for s in (row["first"], again, replay, beside)]
        ratios = [f"{again / replay:.2f}", f"{again / beside:.2f}"]
        pauses = [f"{1e3 * row[f'{side}_rested'][0]:.3f}" for side in ("again", "tenseal")]
        lines.append([name, *shown, *ratios, "kept" if is_kept else "missed", *pauses])
        fields = {"line": name, "n": n, "depth": depth, "scale": SCALE_BITS, **row}
        versions = {"tenseal_version": version("tenseal"), "commit": commit(), "device": device()}
        if not options.dry_run:
            append(options.output, {**stamp(), **versions, **fields})
    print(aligned(lines))


def of_ren(n: int, depth: int) -> Operands:
    """Ciphertexts of Ren, with keys for powers of two."""
    ctx = ckks.context(params=ckks.Parameters.for_depth(depth, n=n, scale_bits=SCALE_BITS))
    ctx.rotation_keys([1 << i for i in range(ctx.slots.bit_length() - 1)])
    x, y, v, w, matrix = values(ctx.slots)
    return Operands(*(ren.realize(ctx.encrypt(a)) for a in (x, y, v)), w, matrix, ctx)


def of_tenseal(n: int, depth: int) -> Operands:
    """Vectors of TenSEAL, with the galois keys that it makes."""
    bits = chain(depth, SCALE_BITS)
    ctx = tenseal.context(tenseal.SCHEME_TYPE.CKKS, n, coeff_mod_bit_sizes=bits)
    ctx.global_scale = 2.0**SCALE_BITS
    ctx.generate_galois_keys()
    seal = Seal(n, bits, SCALE_BITS)
    x, y, v, w, matrix = values(n // 2)
    made = [tenseal.ckks_vector(ctx, a.tolist()) for a in (x, y, v)]
    return Operands(Rotated(made[0], seal, x), made[1], made[2], w.tolist(), matrix.tolist(), ctx)


def values(slots: int) -> tuple[np.ndarray, ...]:
    """The operands in the clear."""
    x = np.linspace(-1, 1, slots)
    matrix = np.random.default_rng(0).normal(size=(SMALL, SMALL))
    return x, x[::-1].copy(), x[:SMALL].copy(), np.cos(x), matrix


def measured(own: Line, peer: Line, mine: Operands, theirs: Operands) -> dict[str, Any]:
    """Seconds of the first time, of later ones, of replays, of TenSEAL: median, least, most.

    Those after a pause are named so.
    """

    def again() -> None:
        ready(ren.realize(own(mine)))

    encrypted = (mine.x, mine.y, mine.v)
    jitted = ren.jit(lambda x, y, v: own(attrs.evolve(mine, x=x, y=y, v=v)))

    def replay() -> None:
        ready(jitted(*encrypted))

    first = seconds(again, 1)
    for _ in range(WARM):
        replay()
    jitted.plans[0].wait()
    runs = {"again": again, "replay": replay, "tenseal": lambda: peer(theirs)}
    times: dict[str, list[float]] = {name: [] for name in (*runs, *(f"{r}_rested" for r in runs))}
    for _ in range(REPEATS):
        for name, run in runs.items():
            time.sleep(PAUSE_S)
            rested = seconds(run, 1)
            times[f"{name}_rested"].append(rested)
            times[name].append(seconds(run, calls_for(rested)))
    return {"first": round(first, 5), **{name: spread(t) for name, t in times.items()}}


def ready(made: ckks.Ciphertext) -> None:
    """Waits for the arrays of a result."""
    for poly in made.polys:
        poly.limbs.block_until_ready()


def seconds(run: Callable[[], Any], calls: int) -> float:
    """The time of a call, of so many in a row."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def spread(times: list[float]) -> list[float]:
    """Median, least and most, to a microsecond."""
    return [round(t, 6) for t in (statistics.median(times), min(times), max(times))]


if __name__ == "__main__":
    main()
