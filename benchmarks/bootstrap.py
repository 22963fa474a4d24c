"""`make bench BENCH=bootstrap`: bootstraps at n = 2^16 and 128 bits, Ren and OpenFHE by turns.

Each runs in a process of its own that stays warm, with all 2^15 slots; Ren with 2^10 of them too.
Ren has the parameters of `ckks.context(bootstrapping=True)`. OpenFHE's wheel has its sparse
encapsulated secret and the most levels that its own check of 128 bits allows, at the scale of its
examples and at a smaller one. A figure is the median of `--repeats` calls, each after one that is
not timed: while the other runs, the system takes memory back. The time divided by the levels that a
bootstrap leaves is the price of a product beyond itself. Prints a table and appends a JSON line a
figure to benchmarks/results/bootstrap.jsonl.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers.processes import PeerError, Process, started
from benchmarks.record import RESULTS, append, commit, device, stamp
from benchmarks.rows import REN, aligned

OPENFHE = {
    "OpenFHE, scale 2^59": {"scale_bits": 59, "first_bits": 60, "dnum": 4},
    "OpenFHE, scale 2^50": {"scale_bits": 50, "first_bits": 55, "dnum": 4},
}
FEW = 10  # log2 of the slots of messages that repeat
OPERATIONS = ("bootstrap", "bootstrap of real numbers", "bootstrap of two of real numbers")


def main() -> None:
    """Measures; see the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cores", type=int, help="that each library may use")
    parser.add_argument("--openfhe-python", default=".venv-openfhe/bin/python", metavar="PATH")
    parser.add_argument("--output", type=Path, default=RESULTS / "bootstrap.jsonl")
    parser.add_argument("--dry-run", action="store_true", help="append nothing")
    options = parser.parse_args()
    print(f"{device()}, commit {commit()}, medians of {options.repeats}")
    ren = Process(REN, sys.executable, "benchmarks.peers.ren_bootstrap", {}, options.cores)
    lines = [["", "library", "s", "from", "to", "levels", "s a level", "worst bits", "rms", "keys"]]
    try:
        setups = {ren: ren.ask("setup")}
        for name, wanted in OPENFHE.items():  # one at a time: its keys take several GiB
            for side in started(
                name, options.openfhe_python, "benchmarks.peers.openfhe_bootstrap", "openfhe",
                cores=options.cores,
            ):  # fmt: skip
                try:
                    setups[side] = side.ask("setup", **wanted)
                    lines += measured(OPERATIONS[0], [ren, side], setups, options)
                except PeerError as error:
                    print(error)
                finally:
                    side.close()
        for op in OPERATIONS if len(lines) == 1 else OPERATIONS[1:]:
            lines += measured(op, [ren], setups, options)
        few = Process(
            f"{REN}, 2^{FEW} slots",
            sys.executable,
            "benchmarks.peers.ren_bootstrap",
            {},
            options.cores,
        )
        try:
            setups[few] = few.ask("setup", slots=1 << FEW)
            lines += [
                line for op in OPERATIONS[:2] for line in measured(op, [ren, few], setups, options)
            ]
        finally:
            few.close()
    finally:
        ren.close()
    print(aligned(lines))


def measured(
    op: str, sides: list[Process], setups: dict[Process, Any], options: argparse.Namespace
) -> list[list[str]]:
    """The rows of one operation, the libraries by turns."""
    ready = {side: side.ask("prepare", op=op) for side in sides}
    seconds: dict[Process, list[float]] = {side: [] for side in ready}
    for _ in range(options.repeats):
        for side, found in seconds.items():
            side.ask("time", count=1)
            found.append(side.ask("time", count=1)["seconds"])
    lines = []
    for side, found in seconds.items():
        middle, fields = statistics.median(found), {**setups[side], **ready[side]}
        row = {"side": side.side, "op": op, "n": 1 << 16, "seconds": found, "median": middle}
        if not options.dry_run:
            shared = {**stamp(), "commit": commit(), "device": device(), **side.versions}
            append(options.output, {**shared, **row, **fields})
        levels = fields["levels"]
        lines.append([
            op, side.side, f"{middle:.2f}", f"{min(found):.2f}", f"{max(found):.2f}", str(levels),
            f"{middle / levels:.3f}", str(fields["worst_bits"]), str(fields["rms_bits"]),
            f"{fields['keys_s']:.1f} s",
        ])  # fmt: skip
    return lines


if __name__ == "__main__":
    main()
