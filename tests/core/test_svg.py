"""Pictures: well-formed, nothing on top of anything else, nothing from outside, readable."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ren.core import Domain, Node, RingSpec, buffer, make
from ren.core import op as ops
from ren.core.spec import CopyArg, Work
from ren.lowering.inspect.diagram import Box, Diagram, Edge
from ren.lowering.inspect.layout import layered
from ren.lowering.inspect.svg import MOST_BOXES, svg, svg_in_html, to_svg

RING = RingSpec(8, (17, 97))
SPACE = "{http://www.w3.org/2000/svg}"


def leaf() -> Node:
    return buffer(np.zeros((RING.limbs, RING.n), np.uint32), RING, Domain.COEFF)


def rectangles(text: str) -> list[tuple[float, float, float, float]]:
    """Left, top, right, bottom of each box."""
    found = []
    for rect in ElementTree.fromstring(text).iter(f"{SPACE}rect"):
        if "ren-box" in rect.get("class", "").split():
            x, y, w, h = (float(rect.get(k, "nan")) for k in ("x", "y", "width", "height"))
            found.append((x, y, x + w, y + h))
    return found


def words(text: str) -> list[str]:
    return ["".join(t.itertext()) for t in ElementTree.fromstring(text).iter(f"{SPACE}text")]


@st.composite
def diagrams(draw: st.DrawFn, labels: bool) -> Diagram:
    count = draw(st.integers(1, 30))
    boxes = tuple(
        Box(
            op=draw(st.sampled_from(["ADD", "AUTOMORPHISM", "x"])),
            title="t" * draw(st.integers(1, 28)),
            lines=("line",) * draw(st.integers(0, 3)),
            role=draw(st.sampled_from(["coeff", "ntt", "plain"])),
            work=Work(multiply_adds=draw(st.integers(0, 100))),
            is_result=draw(st.booleans()),
            is_ordered=draw(st.booleans()),
        )
        for _ in range(count)
    )
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    pairs = draw(st.lists(ends, max_size=2 * count))
    edges = [(min(p), max(p)) for p in pairs if p[0] != p[1]]
    return Diagram(boxes, tuple(Edge(a, b, f"%{a} 64 KiB" * labels) for a, b in edges))


def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@given(st.booleans().flatmap(diagrams))
def test_no_box_covers_another_and_all_lie_inside(diagram):
    text = svg(diagram)
    boxes = rectangles(text)
    assert len(boxes) == len(diagram.boxes)
    assert not [p for p in itertools.combinations(boxes, 2) if overlap(*p)]
    picture = ElementTree.fromstring(text)
    width, height = float(picture.get("width", 0)), float(picture.get("height", 0))
    assert all(a >= -0.1 and b >= -0.1 for a, b, _, _ in boxes)
    assert all(c <= width and d <= height for _, _, c, d in boxes)


@given(diagrams(labels=True))
def test_arrows_pass_beside_boxes_and_labels(diagram):
    sizes = [(100.0, 30.0 + 10 * len(box.lines)) for box in diagram.boxes]
    edges = [(e.source, e.target, e.label) for e in diagram.edges]
    layout = layered(sizes, edges, {e.label: (70.0, 16.0) for e in diagram.edges})
    placed = [*zip(layout.boxes, sizes, strict=True)]
    placed += [(at, (70.0, 16.0)) for at in layout.labels.values()]
    solid = [
        (x - w / 2 + 0.01, y - h / 2 + 0.01, x + w / 2 - 0.01, y + h / 2 - 0.01)
        for (x, y), (w, h) in placed
    ]
    assert not [p for p in itertools.combinations(solid, 2) if overlap(*p)]
    for segment in layout.segments:
        (x0, y0), (_, y1), (x2, y2), (_, y3) = segment.points
        assert y0 <= y1 <= y2 <= y3
        gap = (min(x0, x2), y1, max(x0, x2), y2)
        for strip in ((x0, y0, x0, y1), gap, (x2, y2, x2, y3)):
            assert not [s for s in solid if overlap(strip, s)]
    ends = sum(segment.is_last for segment in layout.segments)
    assert ends == len(diagram.edges)


def test_operands_arrive_from_left_to_right_where_their_order_matters():
    sizes = [(60.0, 20.0)] * 3
    free = layered(sizes, [(0, 2, ""), (1, 2, "")])
    kept = layered(sizes, [(1, 2, ""), (0, 2, "")], ordered={2})
    assert free.boxes[0][0] < free.boxes[1][0]
    (first, *_), (second, *_) = (s.points for s in free.segments)
    assert first[0] < second[0]
    ends = [(s.points[0][0], s.points[3][0]) for s in kept.segments]
    left, right = sorted(ends, key=lambda e: e[1])
    assert left[0] == kept.boxes[1][0] and right[0] == kept.boxes[0][0]


def test_texts_are_escaped():
    nasty = "<script>alert('&')</script> \"\u2026\""
    boxes = (Box("a", nasty, lines=(nasty,), hint=nasty), Box("b", "b"))
    text = svg(Diagram(boxes, (Edge(0, 1, nasty),), nasty, (nasty,)))
    assert "<script" not in text
    assert words(text).count(nasty) == 5
    assert "<script" not in to_svg(make(ops.COPY, (leaf(),), CopyArg("<script>")))


def test_nothing_comes_from_outside():
    text = to_svg(make(ops.ADD, (leaf(), leaf())))
    bare = text.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"http|href|url\(|@import|<script|<image|<use|\bid=", bare)
    style = text.partition("<style>")[2].partition("</style>")[0]
    rules = re.findall(r"([^{}]+) \{[^{}]*\}", style.replace("{ .ren", "{} .ren"))
    selectors = [s.strip() for rule in rules for s in rule.split(",") if "@media" not in s]
    assert len(selectors) > 15 and all(".ren-diagram" in s for s in selectors), selectors


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_on_every_colour(scheme):
    light, dark = to_svg(leaf()).split("@media (prefers-color-scheme: dark)")
    declared = (light if scheme == "light" else dark).partition("}")[0]
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", declared))
    for text, ground in itertools.product(("text", "dim"), ("page", "coeff", "ntt", "plain")):
        high, low = sorted((luminance(colours[text]), luminance(colours[ground])), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)


def test_a_large_graph_is_summarized_and_says_so():
    x = a = leaf()
    for _ in range(MOST_BOXES - 1):
        x = make(ops.ADD, (x, a))
    whole = to_svg(x)
    assert len(rectangles(whole)) == MOST_BOXES
    assert not any("Summarized" in w for w in words(whole))
    for _ in range(5000):
        x = make(ops.ADD, (x, a))
    short = to_svg(x)
    assert len(rectangles(short)) <= MOST_BOXES
    assert any(w.startswith("Summarized: ") and "5,060 nodes" in w for w in words(short))


def test_equal_programs_give_the_same_picture():
    first, second = (make(ops.MUL, (leaf(), leaf())) for _ in range(2))
    assert first is not second
    assert to_svg(first) == to_svg(second)


def test_results_have_a_second_border():
    root = make(ops.ADD, (leaf(), leaf()))
    text = to_svg(root, root.src[0])
    assert text.count("ren-ring") - text.count(".ren-ring") == 2


def test_notebooks_show_a_node():
    node = make(ops.ADD, (leaf(), leaf()))
    assert node._repr_html_() == svg_in_html(node)
    ElementTree.fromstring(node._repr_html_())


def test_a_box_without_anything_else():
    text = svg(Diagram((Box("a", "a"),), ()))
    assert len(rectangles(text)) == 1
    assert rectangles(svg(attrs.evolve(Diagram((), ()), caption="nothing"))) == []
