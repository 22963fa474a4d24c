"""Count the lines of code of `ren/`: `python -m tests.code_lines`.

A line counts where a token of code stands on it. Docstrings, comments and blank lines do not count.
The largest rooms are printed with their counts. Above `CAP` the command fails. A change that
deletes code lowers the cap. A change that raises it gives its reason.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CAP = 36_650
_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def docstring_lines(source: str) -> set[int]:
    """Line numbers (from 1) of the docstrings of modules, classes and functions."""
    lines: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0] if node.body else None
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def code_lines(source: str) -> int:
    """Number of lines of `source` that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstring_lines(source))


def rooms(folder: Path = ROOT / "ren") -> Counter[str]:
    """Lines of code of each room: the first folder below `folder`, the second below `schemes/`."""
    counts: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).parts
        depth = 2 if parts[0] == "schemes" else 1
        counts["/".join(parts[:depth]) if len(parts) > depth else parts[0]] += code_lines(
            path.read_text()
        )
    return counts


def main() -> int:
    """Print the counts. The exit status is 1 above the cap."""
    counts = rooms()
    total = sum(counts.values())
    print(f"ren/ has {total:,} lines of code (cap {CAP:,}): ", end="")
    print(", ".join(f"{room} {lines:,}" for room, lines in counts.most_common(6)))
    return int(total > CAP)


if __name__ == "__main__":
    sys.exit(main())
