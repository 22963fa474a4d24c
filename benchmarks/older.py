"""`python -m benchmarks.older PATH_OF_CLONE`: rows of `make bench`, by turns with an older commit.

A clone or a worktree has the older commit: `git worktree add ../older 7338531`. Both sides make
the public calls of `benchmarks.peers.ren_peer` as this checkout has them, in the same environment.
So what is compared is the package `ren` alone. A turn is a new process, with PYTHONPATH set to a
folder of this checkout's `benchmarks` and one of the two packages. The sides take turns; each has a
cache on disk of its own, which its first turn fills. A figure of a turn is the least of ten means,
each of as many calls as take 20 ms, after the warm ones: other programs only add to a time.

Prints medians, and the median, least and largest of the ratios of turns that followed one another.
Rows that one of the commits does not know are left out, and named.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from benchmarks.peers.processes import ROOT, PeerError, Process
from benchmarks.peers.serving import OPERATIONS
from benchmarks.record import commit, device
from benchmarks.rows import aligned, calls_for
from benchmarks.run import DEPTHS
from ren.progress import Progress

WINDOWS = 10
Figures = dict[str, float]  # seconds of a call by operation


@attrs.frozen
class Side:
    """One of the two commits: its name, and the folder that its processes import from."""

    name: str
    folder: Path

    @classmethod
    def linked(cls, checkout: Path, folder: Path) -> Side:
        """The package `ren` of a checkout beside the benchmarks of this one, as links.

        Raises:
            FileNotFoundError: the checkout has no package `ren`.
        """
        package = checkout.resolve() / "ren"
        if not (package / "__init__.py").is_file():
            raise FileNotFoundError(f"{checkout} has no package ren: name a clone of Ren")
        folder.mkdir()
        (folder / "ren").symlink_to(package, target_is_directory=True)
        (folder / "benchmarks").symlink_to(ROOT / "benchmarks", target_is_directory=True)
        return cls(commit(checkout) or checkout.name, folder)


def main() -> None:
    """Measure; see the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clone", type=Path, help="a clone or a worktree at the older commit")
    parser.add_argument("--log-n", type=int, nargs="+", choices=DEPTHS, default=[14])
    parser.add_argument("--ops", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    parser.add_argument("--repeats", type=int, default=9, help="turns of each commit")
    parser.add_argument("--depth", type=int, help="in place of the usual one of each degree")
    parser.add_argument("--scale-bits", type=int, default=40)
    parser.add_argument(
        "--dnum", type=int, help="digits of keys; the default of each commit if left out"
    )
    parser.add_argument("--cores", type=int, help="that each side may use")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ren-") as folder:
        try:
            older = Side.linked(options.clone, Path(folder) / "older")
        except FileNotFoundError as error:
            parser.error(str(error))
        sides = older, Side.linked(ROOT, Path(folder) / "this")
        print(f"{device()}, {older.name} beside {sides[1].name}, medians of {options.repeats}")
        with Progress(2 * options.repeats * len(options.log_n), "measuring") as progress:
            for log_n in options.log_n:
                depth = DEPTHS[log_n] if options.depth is None else options.depth
                wanted = {
                    "n": 1 << log_n, "depth": depth, "scale_bits": options.scale_bits,
                    "dnum": options.dnum,
                }  # fmt: skip
                found = by_turns(sides, wanted, options, progress)
                progress.print(f"\nn = {1 << log_n}, depth {depth}\n{table(sides, found)}\n")


def by_turns(
    sides: tuple[Side, Side],
    wanted: Mapping[str, int | None],
    options: argparse.Namespace,
    progress: Progress,
) -> dict[str, list[tuple[float, float]]]:
    """Seconds of a call by operation: a pair, older and this, for each two turns."""
    ops = list(options.ops)
    pairs: dict[str, list[tuple[float, float]]] = {}
    for repeat in range(options.repeats):
        seen: dict[Side, Figures] = {}
        for side in sides if repeat % 2 == 0 else sides[::-1]:
            seen[side] = turn(side, wanted, ops, options.cores)
            progress.step()
        known = [op for op in ops if all(op in figures for figures in seen.values())]
        if missing := [op for op in ops if op not in known]:
            progress.print(f"left out: {', '.join(missing)}")
        ops = known
        for op in known:
            pairs.setdefault(op, []).append((seen[sides[0]][op], seen[sides[1]][op]))
    return {op: pairs[op] for op in ops}


def turn(
    side: Side, wanted: Mapping[str, int | None], ops: Iterable[str], cores: int | None
) -> Figures:
    """Seconds of a call of each operation that the side knows, in a new process.

    Raises:
        PeerError: it has no such parameters, or its process ended.
    """
    cache = {"REN_CACHE_DIR": str(side.folder / "cache")}
    module = "benchmarks.peers.ren_peer"
    process = Process(side.name, sys.executable, module, cache, cores, side.folder)
    figures = {}
    try:
        process.ask("setup", **wanted)
        for op in ops:
            try:
                fields = process.ask("prepare", op=op)
            except PeerError:  # a call that this commit does not have
                continue
            if fields:
                count = calls_for(fields["warm_s"])
                windows = [process.ask("time", count=count)["seconds"] for _ in range(WINDOWS)]
                figures[op] = min(windows)
    finally:
        process.close()
    return figures


def table(sides: Sequence[Side], pairs: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Medians in milliseconds, an operation a line; how many times as long the older one takes."""
    lines = [["ms", *(side.name for side in sides), "older / this", "least", "most"]]
    for op, seconds in pairs.items():
        medians = [statistics.median(column) for column in zip(*seconds, strict=True)]
        ratios = [older / this for older, this in seconds]
        shown = (statistics.median(ratios), min(ratios), max(ratios))
        lines.append([op, *(f"{1e3 * s:.3f}" for s in medians), *(f"{r:.2f}x" for r in shown)])
    return aligned(lines)


if __name__ == "__main__":
    main()
