"""Tables as text, and readable numbers, for the reports of plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized


class Shown(str):
    """Text that a notebook shows as HTML."""

    __slots__ = ("_html",)
    _html: str

    def __new__(cls, text: str, html: str) -> Shown:
        shown = super().__new__(cls, text)
        shown._html = html
        return shown

    def __getnewargs__(self) -> tuple[str, str]:
        return str(self), self._html

    def _repr_html_(self) -> str:
        return self._html


def columns(rows: Iterable[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Rows under each other; the columns named in `left` are aligned left, the others right."""
    rows = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths, left) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int], left: Sequence[int]) -> str:
    cells = zip(row, widths, strict=True)
    padded = [c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(cells)]
    return "  ".join(padded).rstrip()


def size(count: int) -> str:
    """Bytes with a binary unit: 512 B, 1.5 KiB, 64 MiB."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.4g} {unit}"


def duration(seconds: float) -> str:
    """Seconds in milliseconds below one."""
    return f"{seconds:.3f} s" if seconds >= 1 else f"{seconds * 1e3:.3f} ms"


def counted(things: Sized, name: str) -> str:
    """The count of things with their name: `1 input`, `2 inputs`."""
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"
