"""Diagrams as Mermaid and DOT, for pages and for Graphviz."""

from __future__ import annotations

from ren.core.node import Node
from ren.lowering.inspect.diagram import Box, Diagram, graph_diagram

# Fill, border, text; `ren.lowering.inspect.svg` has the same colours, and others for dark pages.
COLOURS = {
    "coeff": ("#fcefd0", "#a86a00", "#1c1c1c"),
    "ntt": ("#dbe9fc", "#2563b0", "#1c1c1c"),
    "plain": ("#eef0f2", "#6b7280", "#1c1c1c"),
}


def to_mermaid(*roots: Node) -> str:
    """The graph under `roots` as a Mermaid flowchart.

    A node is drawn once, whatever the number of its readers, coloured by its domain. Its border is
    the wider the more work it is; results have a double border. Rings are listed in a box of their
    own. Equal programs give equal text.

    Example:
        >>> from ren.core import const, RingSpec
        >>> print(to_mermaid(const(3, RingSpec(8, (17,)))).splitlines()[0])
        flowchart TD
    """
    return mermaid(graph_diagram(*roots))


def to_dot(*roots: Node) -> str:
    """The graph under `roots` in the DOT language of Graphviz; see `to_mermaid`.

    Boxes grow with the work of their nodes.
    """
    return dot(graph_diagram(*roots))


def mermaid(diagram: Diagram) -> str:
    """A diagram as a Mermaid flowchart."""
    lines = ["flowchart TD"]
    lines += [f"  {_mermaid_box(f'n{i}', box)}" for i, box in enumerate(diagram.boxes)]
    for edge in diagram.edges:
        label = f'|"{_mermaid_text(edge.label)}"|' if edge.label else ""
        lines.append(f"  n{edge.source} -->{label} n{edge.target}")
    notes = [note for note in (diagram.caption, *diagram.legend) if note]
    if notes:
        lines.append(f'  legend["{"<br/>".join(map(_mermaid_text, notes))}"]:::legend')
    for role, (fill, border, text) in COLOURS.items():
        lines.append(f"  classDef {role} fill:{fill},stroke:{border},color:{text}")
    lines.append("  classDef legend fill:none,stroke:none,text-align:left")
    for i, weight in enumerate(diagram.weights):
        if weight:
            lines.append(f"  style n{i} stroke-width:{1 + 5 * weight:.1f}px")
    return "\n".join(lines)


def _mermaid_box(name: str, box: Box) -> str:
    text = "<br/>".join(map(_mermaid_text, (box.title, *box.lines)))
    before, after = ("([", "])") if box.is_leaf else ("[", "]")
    if box.is_result:
        before, after = "[[", "]]"
    return f'{name}{before}"{text}"{after}:::{box.role}'


def _mermaid_text(text: str) -> str:
    """Quotes would end a label; the others begin markup. Mermaid writes characters as #code;."""
    return "".join(f"#{ord(c)};" if c in '#"&<>`\\' else c for c in text)


def dot(diagram: Diagram) -> str:
    """A diagram in the DOT language."""
    lines = [
        "digraph ren {",
        '  graph [fontname="monospace", fontsize=10, labelloc=b, labeljust=l];',
        '  node [shape=box, style=filled, fontname="monospace", fontsize=10];',
        '  edge [fontname="monospace", fontsize=9, color="#6b7280"];',
    ]
    notes = [note for note in (diagram.caption, *diagram.legend) if note]
    if notes:
        text = "".join(_dot_text(note) + "\\l" for note in notes)
        lines.append(f'  label="{text}";')
    for i, (box, weight) in enumerate(zip(diagram.boxes, diagram.weights, strict=True)):
        lines.append(f"  n{i} [{_dot_attributes(box, weight)}];")
    for edge in diagram.edges:
        label = f' [label="{_dot_text(edge.label)}"]' if edge.label else ""
        lines.append(f"  n{edge.source} -> n{edge.target}{label};")
    return "\n".join([*lines, "}"])


def _dot_attributes(box: Box, weight: float) -> str:
    fill, border, text = COLOURS[box.role]
    label = "\\n".join(map(_dot_text, (box.title, *box.lines)))
    parts = [
        f'label="{label}"',
        f'fillcolor="{fill}"',
        f'color="{border}"',
        f'fontcolor="{text}"',
        f"height={0.4 + 0.8 * weight:.2f}",
        f'tooltip="{_dot_text(box.hint or box.title)}"',
    ]
    if box.is_leaf:
        parts.append('style="filled,rounded"')
    if box.is_result:
        parts.append("peripheries=2")
    return ", ".join(parts)


def _dot_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
