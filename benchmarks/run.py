"""`make bench`: every operation of CKKS, Ren and other libraries by turns in one run.

Each library runs in a process of its own that stays warm, with the same degree, depth and scale,
inside the same bound on log2 Q P, with those digits of its own that make its rotation fastest.
desilofhe is compared where it is installed already: of the same degree and depth, its moduli and
scale are its own, and it does not tell them. A figure is the median of `--repeats`, each the mean
of as many calls as take 20 ms. Rows whose repeats of all libraries take over a minute have fewer,
three at least. Keys and plaintexts are made before, and timed apart: a matrix of 1024 x 1024 has a
thousand diagonals. Rows that no parameters of 128 bits allow are left out, and those whose keys
take over 4 GiB, or whose plaintexts take over 2. Prints a table for each degree and appends a JSON
line a figure to benchmarks/results/bench.jsonl.

To compare with an older commit: `python -m benchmarks.older PATH_OF_CLONE` makes the same public
calls with the Ren of a clone, by turns with this one.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers.processes import PeerError, Process, built_openfhe, started
from benchmarks.peers.serving import OPERATIONS
from benchmarks.record import RESULTS, append, commit, device, stamp
from benchmarks.rows import REN, Row, aligned, calls_for, repeats_for, table, times
from ren.config import config
from ren.progress import Progress
from ren.schemes.rlwe.security import max_log_qp

DEPTHS = {13: 2, 14: 7, 15: 15, 16: 36}  # by log2 n: what all have room for, at scale 2^40
PEERS = ("seal", "openfhe", "desilofhe")
MODULES = ("bootstrap", "eager", "estimates", "models", "rings")
PAUSE_S = 0.02  # between turns: threads that spin for more work go to sleep
TUNING_REPEATS = 3


def main() -> None:
    """Measures; see the options. The names of other benchmarks run their modules."""
    if sys.argv[1:] and sys.argv[1] in MODULES:
        # They need TenSEAL, scikit-learn or python-flint, which this does not, or other keys.
        importlib.import_module(f"benchmarks.{sys.argv.pop(1)}").main()
        return
    options = parsed()
    output = None if options.dry_run else options.output
    print(f"{device()}, commit {commit()}, medians of {options.repeats}")
    sides = list(opened(options))
    try:
        with Progress(len(options.log_n) * len(options.ops), "measuring") as progress:
            for log_n in options.log_n:
                depth = options.depth if options.depth is not None else DEPTHS[log_n]
                rows = []
                for row in measured(sides, 1 << log_n, depth, options, progress):
                    rows.append(row)
                    if output:
                        append(output, row.to_json())
                progress.print(f"\n{heading(rows)}\n{table(rows)}\n")
    finally:
        for side in sides:
            side.close()


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log-n", type=int, nargs="+", choices=DEPTHS, default=list(DEPTHS))
    parser.add_argument("--ops", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--depth", type=int, help="in place of the usual one of each degree")
    parser.add_argument("--scale-bits", type=int, default=40)
    parser.add_argument("--dnum", type=int, help="of Ren; found by measuring if left out")
    parser.add_argument("--cores", type=int, help="that each library may use")
    parser.add_argument(
        "--native", choices=("default", "off", "on", "both"), default="default",
        help="native kernels of Ren; both makes a column each",
    )  # fmt: skip
    parser.add_argument("--tier", choices=("units", "graph", "auto"), help="of ren.jit")
    parser.add_argument("--memory", action="store_true", help="ask XLA for each kernel's memory")
    parser.add_argument("--openfhe-python", default=".venv-openfhe/bin/python", metavar="PATH")
    parser.add_argument(
        "--openfhe-prefix", type=Path, default=os.environ.get("OPENFHE_PREFIX"), metavar="PATH",
        help="where a build of OpenFHE is installed, libraries and the module for --openfhe-python;"
        " it is measured beside the wheel",
    )  # fmt: skip
    parser.add_argument(
        "--desilofhe-python", default=sys.executable, metavar="PATH",
        help="an interpreter where you have installed desilofhe; mind its licence",
    )  # fmt: skip
    parser.add_argument("--output", type=Path, default=RESULTS / "bench.jsonl")
    parser.add_argument("--dry-run", action="store_true", help="write no results")
    return parser.parse_args()


def opened(options: argparse.Namespace) -> Iterator[Process]:
    """The processes, Ren's first; each library that is not there takes one line."""
    natives = {"default": (None,), "off": ("0",), "on": ("1",), "both": ("1", "0")}
    wanted = natives[options.native]
    if wanted != (None,) and not hasattr(config, "native"):
        print("this version of Ren has no native kernels")
        wanted = (None,)
    for i, native in enumerate(wanted):
        name = REN if i == 0 else f"{REN}, XLA"
        variables = {"REN_CACHE_DIR": "off"} | ({"REN_NATIVE": native} if native else {})
        variables |= {"REN_JIT_TIER": options.tier} if options.tier else {}
        yield Process(name, sys.executable, "benchmarks.peers.ren_peer", variables, options.cores)
    if "seal" in options.peers:
        yield from started(
            "SEAL", sys.executable, "benchmarks.peers.seal_peer", "tenseal", cores=options.cores
        )
    if "openfhe" in options.peers:
        yield from opened_openfhe(options)
    if "desilofhe" in options.peers:
        yield from started(
            "desilofhe", options.desilofhe_python, "benchmarks.peers.desilofhe_peer", "desilofhe",
            cores=options.cores,
        )  # fmt: skip


def opened_openfhe(options: argparse.Namespace) -> Iterator[Process]:
    """The wheel, and the build that is at the prefix."""
    python, module = options.openfhe_python, "benchmarks.peers.openfhe_peer"
    builds = {"OpenFHE": {"OPENFHE_PREFIX": ""}}
    if options.openfhe_prefix is not None:
        builds["OpenFHE, built"] = built_openfhe(options.openfhe_prefix)
    for name, variables in builds.items():
        for side in started(
            name, python, module, "openfhe", environment=variables, cores=options.cores
        ):
            if "hexl" in side.versions:
                side.side = "OpenFHE, HEXL"
            yield side


def measured(
    sides: list[Process], n: int, depth: int, options: argparse.Namespace, progress: Progress
) -> Iterator[Row]:
    """The rows of one degree: for each operation, one a library that has it."""
    wanted = {"n": n, "depth": depth, "scale_bits": options.scale_bits}
    made = {side: setup(side, wanted, options) for side in sides}
    ready = {side: fields for side, fields in made.items() if fields is not None}
    shared = {
        "n": n, "depth": depth, "scale": options.scale_bits, "device": device(),
        "commit": commit(), "date": stamp()["date"],
    }  # fmt: skip
    for op in options.ops:
        found = {side: prepared(side, op, options.memory) for side in ready}
        turns = {side: calls_for(fields["warm_s"]) for side, fields in found.items() if fields}
        round_s = sum(count * found[side]["warm_s"] for side, count in turns.items())
        seconds = by_turns(turns, repeats_for(round_s, options.repeats))
        for side, figures in seconds.items():
            fields = {k: v for k, v in (ready[side] | found[side]).items() if k != "warm_s"}
            row = Row(
                side=side.side, op=op, calls=turns[side], versions=side.versions,
                **(shared | fields), **times(figures),
            )  # fmt: skip
            line = f"{row.side:<10} {op:<24} {1e3 * row.median:12.3f} ms"
            progress.print(f"{line}, prepared in {row.prepare_s:.2f} s")
            yield row
        progress.step()


def setup(side: Process, wanted: dict[str, Any], options: argparse.Namespace) -> Any:
    """The library with its fastest digits; None where it has no room or no such degree."""
    bound = int(max_log_qp(wanted["n"], 128))
    try:
        found = side.ask("digits", **wanted, bound=bound)["digits"]
        if not found:
            print(f"{side.side}: no parameters inside log2 Q P <= {bound} at n = {wanted['n']}")
            return None
        if options.dnum and side.side.startswith(REN):
            found = [options.dnum]
        best = (
            min(found, key=lambda dnum: rotation_s(side, wanted, dnum)) if found[1:] else found[0]
        )
        return side.ask("setup", **wanted, dnum=best)
    except PeerError as error:
        print(error)
        return None


def rotation_s(side: Process, wanted: dict[str, Any], dnum: int) -> float:
    """The time of a rotation with so many digits."""
    try:
        side.ask("setup", **wanted, dnum=dnum)
        side.ask("prepare", op="rotation")
        return min(side.ask("time", count=1)["seconds"] for _ in range(TUNING_REPEATS))
    except PeerError as error:
        print(error)
        return math.inf


def prepared(side: Process, op: str, with_memory: bool) -> dict[str, Any]:
    try:
        return side.ask("prepare", op=op, with_memory=with_memory)
    except PeerError as error:
        print(error)
        return {}


def by_turns(turns: dict[Process, int], repeats: int) -> dict[Process, list[float]]:
    """Seconds a call: every library once, then in the opposite order, and so on."""
    seconds: dict[Process, list[float]] = {side: [] for side in turns}
    order = list(turns)
    for _ in range(repeats):
        for side in list(order):
            time.sleep(PAUSE_S)
            try:
                seconds[side].append(side.ask("time", count=turns[side])["seconds"])
            except PeerError as error:
                print(error)
                order.remove(side)
                del seconds[side]
        order.reverse()
    return seconds


def heading(rows: list[Row]) -> str:
    """What stands above a table: the moduli of each library."""
    firsts = {row.side: row for row in rows}
    lines = [["", "log2 Q", "log2 QP", "limbs", "dnum", "threads", "native"]]
    for side, row in firsts.items():
        figures = (row.logQ, row.logQP, row.limbs, row.dnum, row.threads, row.native)
        lines.append([side, *("-" if x is None else str(x) for x in figures)])
    scale = next((f", scale 2^{row.scale}" for row in rows if row.scale is not None), "")
    title = f"n = {rows[0].n}, depth {rows[0].depth}{scale}\n" if rows else ""
    return title + aligned(lines)


if __name__ == "__main__":
    main()
