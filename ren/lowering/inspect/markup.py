"""Diagrams as Mermaid and DOT, for pages and for Graphviz."""

from __future__ import annotations

from ren.lowering.inspect.diagram import Box, Diagram

# Fill, border, text; `ren.lowering.inspect.svg` has the same colours, and others for dark pages.
COLOURS = {
    "coeff": ("#fcefd0", "#a86a00", "#1c1c1c"),
    "ntt": ("#dbe9fc", "#2563b0", "#1c1c1c"),
    "plain": ("#eef0f2", "#6b7280", "#1c1c1c"),
}


def mermaid(diagram: Diagram) -> str:
    """A diagram as a Mermaid flowchart.

    Boxes are coloured by domain. A border is the wider the more work its box is; results have a
    double one. Rings are listed in a box of their own. Equal programs give equal text.
    """
    lines = ["flowchart TD"]
    lines += [f"  {_mermaid_box(f'n{i}', box)}" for i, box in enumerate(diagram.boxes)]
    for edge in diagram.edges:
        label = f'|"{_mermaid_text(edge.label)}"|' if edge.label else ""
        lines.append(f"  n{edge.source} -->{label} n{edge.target}")
    if diagram.notes:
        lines.append(f'  legend["{"<br/>".join(map(_mermaid_text, diagram.notes))}"]:::legend')
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
    """A diagram in the DOT language of Graphviz; boxes grow with their work."""
    lines = [
        "digraph ren {",
        '  graph [fontname="monospace", fontsize=10, labelloc=b, labeljust=l];',
        '  node [shape=box, style=filled, fontname="monospace", fontsize=10];',
        '  edge [fontname="monospace", fontsize=9, color="#6b7280"];',
    ]
    if diagram.notes:
        text = "".join(_dot_text(note) + "\\l" for note in diagram.notes)
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
