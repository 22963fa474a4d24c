"""Tables of mistakes, and the check of the error that each raises.

A row is a mistake: its name, the error, words that the message must have, and the lines that make
it. The last of them, or the one marked, is the line that the note under the message must show.
"""

from __future__ import annotations

import linecache
import traceback
from typing import Any

import attrs
import pytest

from ren import errors

MARK = "  # here"


@attrs.frozen
class Mistake:
    """Lines of a user, and the error that they end with."""

    name: str
    error: str
    words: str
    code: str

    @property
    def line(self) -> int:
        """The line at fault."""
        lines = self.code.splitlines()
        return next((i for i, text in enumerate(lines, 1) if MARK in text), len(lines))


def mistakes(table: str) -> list[Mistake]:
    """The rows of a table."""
    found: list[Mistake] = []
    for text in table.strip("\n").splitlines():
        if text.startswith("    "):
            last = found[-1]
            found[-1] = attrs.evolve(last, code=f"{last.code}{text[4:]}\n")
        else:
            found.append(Mistake(*(part.strip() for part in text.split(" | ")), code=""))
    return found


def check(mistake: Mistake, names: dict[str, Any]) -> None:
    """Run the lines with these names, and hold the error that they raise against the row."""
    lines = mistake.code.splitlines(keepends=True)
    linecache.cache["mistake.py"] = (len(mistake.code), None, lines, "mistake.py")
    expected = getattr(errors, mistake.error, AttributeError)
    with pytest.raises(expected) as caught:
        exec(compile(mistake.code, "mistake.py", "exec"), names)
    told = str(caught.value)
    for word in mistake.words.split("; "):
        assert word in told, f"{word!r} is not in:\n{told}"
    assert isinstance(caught.value, errors.RenError | AttributeError)
    if isinstance(caught.value, errors.RenError):
        assert all((caught.value.given, caught.value.needed, caught.value.do))
        note = caught.value.__notes__[0]
        place = f"In mistake.py:{mistake.line}: {lines[mistake.line - 1].strip()[:80]}"
        assert note == f"{place}  (docs/errors.md#{type(caught.value).__name__.lower()})"
        assert len(told.splitlines()) + 1 <= 4
    frames = traceback.extract_tb(caught.value.__traceback__)
    users = [f.lineno for f in frames if f.filename == "mistake.py"]
    assert mistake.line in users
