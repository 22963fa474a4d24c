"""`python -m benchmarks.table`: the tables of the pages, of the newest rows in results/bench.jsonl.

The first stands in `README.md`, the second in `docs/performance.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS
from benchmarks.rows import REN

SHOWN = ("rotation", "product", "8 rotations", "encode and encrypt", "decrypt and decode")
MORE = ("add", "plaintext product", "matrix 16x16", "polynomial of degree 7")


def main() -> None:
    """Print both."""
    rows = newest(RESULTS / "bench.jsonl")
    print(markdown(rows), markdown(rows, MORE), sep="\n\n")


def newest(path: Path) -> list[dict[str, Any]]:
    """The last row of each library, operation and degree."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found[row["n"], row["op"], row["side"]] = row
    return list(found.values())


def markdown(rows: Iterable[dict[str, Any]], shown: Sequence[str] = SHOWN) -> str:
    """Medians in milliseconds; beside another library how many times Ren's it takes."""
    table = {(r["n"], r["op"], r["side"]): r["median"] for r in rows if r["op"] in shown}
    degrees = sorted({n for n, _, _ in table})
    sides = list(dict.fromkeys(side for _, _, side in table))
    lines = [["ms", "n", *sides], ["---"] * (2 + len(sides))]
    for op in shown:
        for n in degrees:
            ours = table.get((n, op, REN))
            if ours is not None:
                cells = (_cell(table.get((n, op, side)), ours, side) for side in sides)
                lines.append([op, f"2^{n.bit_length() - 1}", *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(seconds: float | None, ours: float, side: str) -> str:
    if seconds is None:
        return "-"
    text = f"{1e3 * seconds:.2f}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"
    return text if side == REN else f"{text} ({seconds / ours:.1f}x)"


if __name__ == "__main__":
    main()
