"""Charts of the pages as SVG: times beside other libraries, and curves side by side.

Every picture stands by itself, follows light and dark, and is the same text for the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from xml.sax.saxutils import escape

from benchmarks.rows import REN
from benchmarks.table import SHOWN
from ren.core.html import themed

_LIGHT = """--page: #ffffff; --text: #1c1c1c; --dim: #4b5563; --grid: #d9dde3;
  --a: #2563b0; --b: #a86a00; --c: #a3266f; --d: #2e7d32;"""
_DARK = """--page: #16181c; --text: #eceef1; --dim: #b3bac4; --grid: #3a4048;
  --a: #6cabf0; --b: #e0a93f; --c: #f08cc8; --d: #7bd389;"""
_STYLE = f"""
{themed(".ren-chart", _LIGHT, _DARK)}
.ren-chart text {{ font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  fill: var(--text); white-space: pre; }}
.ren-chart .dim {{ fill: var(--dim); }}
.ren-chart .head {{ font-weight: 600; }}
.ren-chart .end {{ text-anchor: end; }}
.ren-chart .middle {{ text-anchor: middle; }}
.ren-chart .page {{ fill: var(--page); }}
.ren-chart .grid {{ stroke: var(--grid); }}
.ren-chart .span {{ stroke: var(--dim); stroke-width: 1; }}
.ren-chart .a {{ fill: var(--a); stroke: var(--a); }}
.ren-chart .hollow {{ fill: var(--page); stroke: var(--a); }}
.ren-chart .b {{ fill: var(--b); stroke: var(--b); }}
.ren-chart .c {{ fill: var(--c); stroke: var(--c); }}
.ren-chart .d {{ fill: var(--d); stroke: var(--d); }}
.ren-chart .mark {{ stroke-width: 1.5; }}
.ren-chart .curve {{ fill: none; stroke-width: 1.4; }}
"""
CHARACTER = 7.4  # width of the text, in the widest of the usual fonts

# Style and shape of each library: paths around (0, 0).
_CIRCLE = "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z"
_MARKS = {
    REN: ("a", _CIRCLE),
    "Ren, XLA": ("hollow", _CIRCLE),
    "SEAL": ("b", "M-4 -4H4V4H-4Z"),
    "OpenFHE": ("c", "M0 -5.5L5.5 0L0 5.5L-5.5 0Z"),
    "OpenFHE, HEXL": ("d", "M0 -5L5 4.5H-5Z"),
}
_LEFT, _RIGHT, _WIDTH, _ROW = 70.0, 500.0, 720.0, 20.0

Times = dict[tuple[str, int, str], float]


def times_chart(times: Times) -> str:
    """Draw seconds by operation, degree and library: a row a degree, logarithmic, left is faster.

    Args:
        times: medians in seconds, keyed by operation, degree and library.
    """
    rows = [(op, n) for op in SHOWN for n in _degrees(times, op)]
    values = [1e3 * t for (op, _, _), t in times.items() if op in SHOWN]
    low, high = math.log10(min(values)) - 0.08, math.log10(max(values)) + 0.08

    def x_of(milliseconds: float) -> float:
        return _LEFT + (math.log10(milliseconds) - low) / (high - low) * (_RIGHT - _LEFT)

    sides = [side for side in _MARKS if any(key[2] == side for key in times)]
    parts = _legend(sides)
    parts += [
        _text(_RIGHT + 80, 52, "Ren, ms", "dim end"),
        _text(708, 52, "SEAL, OpenFHE", "dim end"),
    ]
    y, first = 60.0, 60.0
    drawn: list[str] = []
    for i, (op, n) in enumerate(rows):
        if not i or rows[i - 1][0] != op:
            y += 22
            drawn.append(_text(12, y + 4, op, "head"))
            y += 18
        found = {side: 1e3 * times[op, n, side] for side in sides if (op, n, side) in times}
        drawn += _times_row(found, f"2^{n.bit_length() - 1}", y, x_of)
        y += _ROW
    for power in range(math.ceil(low), math.floor(high) + 1):
        at = x_of(10.0**power)
        parts.append(_line(at, first, at, y, "grid"))
        parts.append(_text(at, y + 14, f"{10**power:g} ms", "dim middle"))
    title = "Milliseconds a call, on a logarithmic scale: left is faster"
    return _svg(_WIDTH, y + 26, title, [_text(12, 22, title, "head"), *parts, *drawn])


def _degrees(times: Times, op: str) -> list[int]:
    return sorted({n for other, n, side in times if (other, side) == (op, REN)})


def _times_row(
    found: dict[str, float], label: str, y: float, x_of: Callable[[float], float]
) -> list[str]:
    """A degree: its label, a mark for each library, Ren's time, and ratios of others to it."""
    at = {side: x_of(value) for side, value in found.items()}
    ratios = [value / found[REN] for side, value in found.items() if not side.startswith(REN)]
    return [
        _text(_LEFT - 10, y + 4, label, "dim end"),
        _line(min(at.values()), y, max(at.values()), y, "span"),
        *(_mark(side, at[side], y) for side in reversed(found)),
        _text(_RIGHT + 80, y + 4, f"{found[REN]:.2f}", "end"),
        _text(_WIDTH - 12, y + 4, f"{min(ratios):.1f}x to {max(ratios):.1f}x", "end"),
    ]


def _legend(sides: Sequence[str]) -> list[str]:
    parts, x = [], 18.0
    for side in sides:
        parts += [_mark(side, x, 46), _text(x + 12, 50, side)]
        x += 12 + (len(side) + 3) * CHARACTER
    return parts


def _mark(side: str, x: float, y: float) -> str:
    role, path = _MARKS[side]
    return f'<path class="mark {role}" d="{path}" transform="translate({x:.1f} {y:.1f})"/>'


# ------------------------------------------------------------------------------------------ curves


def curves_chart(title: str, panels: Iterable[tuple[str, Sequence[Sequence[float]], str]]) -> str:
    """Draw panels side by side: each a caption, curves over equal steps, a style for the last."""
    width, height, gap, top = 216.0, 120.0, 24.0, 62.0
    parts, x = [], 12.0
    for caption, curves, role in panels:
        low = min(min(c) for c in curves)
        high = max(max(c) for c in curves)
        parts.append(_text(x, top - 12, caption))
        parts.append(_line(x, top + height + 6, x + width, top + height + 6, "grid"))
        for i, curve in enumerate(curves):
            step = width / (len(curve) - 1)
            points = " ".join(
                f"{x + step * k:.1f},{top + (high - v) / (high - low) * height:.1f}"
                for k, v in enumerate(curve)
            )
            style = f"curve {role}" if i == len(curves) - 1 else "curve grid"
            parts.append(f'<polyline class="{style}" points="{points}" style="fill:none"/>')
        x += width + gap
    return _svg(x - gap + 12, top + height + 18, title, [_text(12, 22, title, "head"), *parts])


# ------------------------------------------------------------------------------------------- parts


def _svg(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    return "\n".join([
        f'<svg class="ren-chart" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        '<rect class="page" width="100%" height="100%"/>',
        *parts,
        "</svg>\n",
    ])  # fmt: skip


def _text(x: float, y: float, text: str, role: str = "") -> str:
    return f'<text class="{role}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _line(x0: float, y0: float, x1: float, y1: float, role: str) -> str:
    return f'<line class="{role}" x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"/>'
