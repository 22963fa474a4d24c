"""Diagrams as SVG: one self-contained picture, for notebooks and pages, light and dark."""

from __future__ import annotations

from xml.sax.saxutils import escape

from ren.core import node as nodes
from ren.core.html import themed
from ren.core.node import Node
from ren.lowering.inspect.diagram import Box, Diagram, graph_diagram, summary
from ren.lowering.inspect.layout import Point, Segment, layered

MOST_BOXES = 60
CHARACTER, LINE = 7.4, 16.0  # of the 12-pixel monospace text; wide enough for the usual fonts
PADDING = 20.0

_LIGHT = """--page: #ffffff; --text: #1c1c1c; --dim: #4b5563; --line: #7b8494;
  --coeff: #fcefd0; --coeff-line: #a86a00; --ntt: #dbe9fc; --ntt-line: #2563b0;
  --plain: #eef0f2; --plain-line: #6b7280;"""
_DARK = """--page: #16181c; --text: #eceef1; --dim: #b3bac4; --line: #8b94a3;
  --coeff: #4a3713; --coeff-line: #e0a93f; --ntt: #17345a; --ntt-line: #6cabf0;
  --plain: #2b3036; --plain-line: #98a1ad;"""
# An inline style reaches the whole page, so every selector names the picture's own class.
STYLE = (
    f"\n{themed('.ren-diagram', _LIGHT, _DARK)}"
    + """
.ren-diagram text { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  fill: var(--text); white-space: pre; }
.ren-diagram .ren-small { font-size: 11px; fill: var(--dim); }
.ren-diagram .ren-title { font-weight: 600; }
.ren-diagram .ren-middle { text-anchor: middle; }
.ren-diagram .ren-page { fill: var(--page); }
.ren-diagram .ren-edge { fill: none; stroke: var(--line); stroke-width: 1.2; }
.ren-diagram .ren-tip { fill: var(--line); }
.ren-diagram .ren-coeff { fill: var(--coeff); stroke: var(--coeff-line); }
.ren-diagram .ren-ntt { fill: var(--ntt); stroke: var(--ntt-line); }
.ren-diagram .ren-plain { fill: var(--plain); stroke: var(--plain-line); }
.ren-diagram .ren-ring { fill: none; }
"""
)

Size = tuple[float, float]


def to_svg(*roots: Node) -> str:
    """The graph under `roots` as an SVG picture; a long program is drawn summarized, and says so.

    Colours tell the domain, heights the work of a node next to the largest, double borders the
    results. Nothing outside the picture is referred to; equal programs give equal text.

    Example:
        >>> from ren.core import const, RingSpec
        >>> to_svg(const(3, RingSpec(8, (17,))))[:4]
        '<svg'
    """
    return svg(graph_diagram(*roots))


def svg(diagram: Diagram) -> str:
    """A diagram as an SVG picture, summarized when it has more than `MOST_BOXES` boxes."""
    if len(diagram.boxes) > MOST_BOXES:
        diagram = summary(diagram, MOST_BOXES)
    sizes = list(map(_box_size, diagram.boxes, diagram.weights))
    labels = {e.label: (len(e.label) * CHARACTER, LINE) for e in diagram.edges if e.label}
    ordered = {i for i, box in enumerate(diagram.boxes) if box.is_ordered}
    layout = layered(sizes, diagram.edges, labels, ordered)
    notes = diagram.notes
    words = [sum(36 + len(text) * CHARACTER for _, text in SWATCHES) + len(_KEY) * CHARACTER]
    words += [len(note) * CHARACTER for note in notes]
    width = max(layout.width, *words) + 2 * PADDING
    height = layout.height + 3 * PADDING + LINE * (len(notes) + 1)
    left = (width - layout.width) / 2
    drawing = [
        *(_segment(s) for s in layout.segments),
        *(_text(x, y + 4, v, "ren-middle ren-small") for (_, v), (x, y) in layout.labels.items()),
        *map(_box, diagram.boxes, layout.boxes, sizes),
    ]
    return "\n".join([
        f'<svg class="ren-diagram" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}">',
        f"<title>{escape(diagram.caption or 'a program')}</title>",
        f"<style>{STYLE}</style>",
        '<rect class="ren-page" width="100%" height="100%"/>',
        f'<g transform="translate({_n(left)} {_n(PADDING)})">',
        *drawing,
        "</g>",
        f'<g transform="translate({_n(PADDING)} {_n(layout.height + 2.5 * PADDING)})">',
        *_swatches(diagram),
        *(_text(0, LINE * (i + 1), note, "ren-small") for i, note in enumerate(notes)),
        "</g>",
        "</svg>",
    ])  # fmt: skip


def svg_in_html(*roots: Node) -> str:
    """`to_svg` in a block that scrolls when the page is narrower than the picture."""
    return f'<div style="overflow-x: auto">{to_svg(*roots)}</div>'


def _box_size(box: Box, weight: float) -> Size:
    longest = max(len(line) for line in (box.title, *box.lines))
    height = LINE * (1 + len(box.lines)) + 12 + 40 * weight
    return longest * CHARACTER + 20, height


def _box(box: Box, at: Point, size: Size) -> str:
    (x, y), (width, height) = at, size
    radius = 12 if box.is_leaf else 3
    shapes = [_rect(x, y, width, height, radius, f"ren-box ren-{box.role}")]
    if box.is_result:
        inner = max(radius - 3, 1)
        shapes.append(_rect(x, y, width - 6, height - 6, inner, f"ren-{box.role} ren-ring"))
    lines = [box.title, *box.lines]
    first = y - LINE * (len(lines) - 1) / 2 + 4  # 4: from the middle of a line to its baseline
    words = [
        _text(x, first + LINE * i, line, f"ren-middle {'ren-small' if i else 'ren-title'}")
        for i, line in enumerate(lines)
    ]
    hint = f"<title>{escape(box.hint)}</title>" if box.hint else ""
    return f"<g>{hint}{''.join(shapes)}{''.join(words)}</g>"


def _rect(x: float, y: float, width: float, height: float, radius: float, role: str) -> str:
    return (
        f'<rect class="{role}" x="{_n(x - width / 2)}" y="{_n(y - height / 2)}" '
        f'width="{_n(width)}" height="{_n(height)}" rx="{_n(radius)}"/>'
    )


def _segment(segment: Segment) -> str:
    (x0, y0), (_, y1), (x2, y2), (_, y3) = segment.points
    end = y3 - 5 if segment.is_last else y3  # the tip is 6 long
    middle = (y1 + y2) / 2
    path = (
        f"M{_n(x0)} {_n(y0)}V{_n(y1)}C{_n(x0)} {_n(middle)} {_n(x2)} {_n(middle)} "
        f"{_n(x2)} {_n(min(y2, end))}V{_n(end)}"
    )
    line = f'<path class="ren-edge" d="{path}"/>'
    tip = f'<path class="ren-tip" d="M{_n(x2)} {_n(y3)}l-3.5 -6.5h7z"/>'
    return line + tip if segment.is_last else line


SWATCHES = (("coeff", "coefficients"), ("ntt", "NTT values"), ("plain", "other"))
_KEY = "taller: more work   double border: result"


def _swatches(diagram: Diagram) -> list[str]:
    roles = {box.role for box in diagram.boxes}
    drawn, x = [], 0.0
    for role, text in SWATCHES:
        if role in roles:
            drawn.append(_rect(x + 7, -4, 14, 12, 3, f"ren-{role}"))
            drawn.append(_text(x + 20, 0, text, "ren-small"))
            x += 20 + len(text) * CHARACTER + 16
    return [*drawn, _text(x, 0, _KEY, "ren-small")]


def _text(x: float, y: float, text: str, role: str) -> str:
    return f'<text x="{_n(x)}" y="{_n(y)}" class="{role}">{escape(text)}</text>'


def _n(value: float) -> str:
    """A coordinate with one decimal at most."""
    return f"{round(value, 1) + 0.0:g}"  # + 0.0 makes -0.0 zero


nodes.html_of = svg_in_html
