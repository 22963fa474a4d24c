"""`python -m benchmarks.table`: the README's table, of the newest rows in results/bench.jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS
from benchmarks.rows import REN

SHOWN = ("rotation", "product", "8 rotations", "encode and encrypt", "decrypt and decode")


def main() -> None:
    """Prints it."""
    print(markdown(newest(RESULTS / "bench.jsonl")))


def newest(path: Path) -> list[dict[str, Any]]:
    """The last row of each library, operation and degree."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found[row["n"], row["op"], row["side"]] = row
    return list(found.values())


def markdown(rows: Iterable[dict[str, Any]]) -> str:
    """Medians in milliseconds; beside another library how many times Ren's it takes."""
    table = {(row["n"], row["op"], row["side"]): row["median"] for row in rows}
    degrees = sorted({n for n, _, _ in table})
    sides = list(dict.fromkeys(side for _, _, side in table))
    lines = [["ms", "n", *sides], ["---"] * (2 + len(sides))]
    for op in SHOWN:
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
