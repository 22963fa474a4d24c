"""Diagrams of node graphs, and what they look like in Mermaid and DOT."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ren.core import Domain, Node, RingSpec, buffer, const, make
from ren.core import op as ops
from ren.core.printer import shortened
from ren.core.spec import Work
from ren.lowering.inspect.diagram import (
    Box,
    Diagram,
    Edge,
    clipped,
    counted,
    describe_work,
    graph_diagram,
    operations,
    rounded,
    summary,
)
from ren.lowering.inspect.markup import dot, mermaid

RING = RingSpec(8, (17, 97))


def leaf(domain: Domain = Domain.COEFF) -> Node:
    return buffer(np.zeros((RING.limbs, RING.n), np.uint32), RING, domain)


def product_of_sums() -> Node:
    """(a + b) * (a + b) - 3 in the NTT domain: a sum that is read twice."""
    total = make(ops.NTT, (make(ops.ADD, (leaf(), leaf())),))
    return make(ops.SUB, (make(ops.MUL, (total, total)), const(3, RING)))


def test_each_node_is_one_box_and_each_use_one_arrow():
    diagram = graph_diagram(product_of_sums())
    ops_drawn = [box.op for box in diagram.boxes]
    assert ops_drawn == ["BUFFER", "BUFFER", "ADD", "NTT", "MUL", "CONST", "SUB"]
    arrows = [(e.source, e.target) for e in diagram.edges]
    assert arrows == [(0, 2), (1, 2), (2, 3), (3, 4), (3, 4), (4, 6), (5, 6)]


def test_boxes_say_domain_work_and_place():
    add, ntt, mul, number, sub = graph_diagram(product_of_sums()).boxes[2:]
    assert [b.role for b in (add, ntt, mul)] == ["coeff", "ntt", "ntt"]
    assert ntt.lines == ("%3 : R0 ntt", "2 limb-NTTs")
    assert mul.hint == "%4 = MUL %3 %3 : R0 ntt"
    assert number.is_leaf and number.title == "CONST 3"
    assert sub.is_result and sub.is_ordered
    assert not (mul.is_result or mul.is_ordered)


def test_areas_compare_like_work():
    weights = graph_diagram(product_of_sums()).weights
    # Two limb-NTTs of n = 8 are 2 * 4 * 3 butterflies, the product is 16 multiply-adds.
    assert weights == (0, 0, 0, 1, round((16 / 24) ** 0.5, 3), 0, 0)
    assert graph_diagram(leaf()).weights == (0,)


def test_equal_programs_are_drawn_alike():
    for write in (mermaid, dot):
        first, second = (write(graph_diagram(product_of_sums())) for _ in range(2))
        assert first == second


def test_mermaid():
    text = mermaid(graph_diagram(product_of_sums()))
    assert text.startswith("flowchart TD\n")
    assert 'n0(["BUFFER b0<br/>%0 : R0 coeff"]):::coeff' in text
    assert 'n6[["SUB<br/>%6 : R0 ntt"]]:::ntt' in text
    assert text.count("n3 --> n4") == 2
    assert "style n3 stroke-width:6.0px" in text
    assert "R0: n=8, 2 limbs, moduli=(17, 97)" in text


def test_dot():
    text = dot(graph_diagram(product_of_sums()))
    assert text.startswith("digraph ren {\n") and text.endswith("\n}")
    assert "R0: n=8, 2 limbs, moduli=(17, 97)\\l" in text
    assert text.count("n3 -> n4;") == 2
    (ntt,) = re.findall(r"^  n3 \[.*\];$", text, re.MULTILINE)
    assert 'label="NTT\\n%3 : R0 ntt\\n2 limb-NTTs"' in ntt and "height=1.20" in ntt
    assert re.findall(r"^  n(\d) \[.*peripheries=2", text, re.MULTILINE) == ["6"]


NASTY = 'a "quoted" <b>\\n & #35; `x`'


@pytest.mark.parametrize("write", [mermaid, dot])
def test_texts_cannot_leave_their_labels(write):
    boxes = (Box("a", NASTY, lines=(NASTY,), hint=NASTY), Box("b", "b"))
    text = write(Diagram(boxes, (Edge(0, 1, NASTY),), NASTY, (NASTY,)))
    for line in text.splitlines():
        assert len(re.sub(r'\\\\|\\"|[^"]', "", line)) % 2 == 0, line
    assert NASTY not in text
    if write is mermaid:
        assert not re.search(r"<(?!br/>)", text)


def test_a_summary_groups_what_does_the_same_at_one_depth():
    terms = [make(ops.MUL, (leaf(), leaf())) for _ in range(8)]
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=True)
        terms = [make(ops.ADD, pair) for pair in pairs]
    short = summary(graph_diagram(terms[0]), 10)
    assert [b.title for b in short.boxes] == ["BUFFER x16", "MUL x8", "ADD x4", "ADD x2", "ADD"]
    assert [(e.source, e.target) for e in short.edges] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert short.boxes[1].work == Work(multiply_adds=8 * 16)
    assert short.boxes[-1].is_result and short.boxes[0].is_leaf
    assert short.caption.startswith("Summarized: ") and "31 nodes" in short.caption


@pytest.mark.parametrize("length", [3, 100, 5000])
def test_a_summary_is_never_larger_than_asked(length):
    x = a = leaf(Domain.NTT)
    for i in range(length):
        x = make(ops.MUL if i % 2 else ops.ADD, (x, a))
    short = summary(graph_diagram(x), 12)
    assert len(short.boxes) <= 12
    assert all(e.source < e.target for e in short.edges)
    assert sum((b.work for b in short.boxes), Work()).multiply_adds == length // 2 * 16
    assert short.boxes[-1].is_result


def test_words():
    assert counted(["A", "B", "A", "C", "D", "E"]) == ["A x2, B", "C, 2 others"]
    assert [rounded(v) for v in (7, 999, 1234, 9_960, 56_789, 999_600)] == [
        "7", "999", "1.2k", "10k", "57k", "1.0M",
    ]  # fmt: skip
    assert describe_work(Work(1, 1500)) == "1 limb-NTT, 1.5k mul-adds"
    assert describe_work(Work()) == ""
    assert operations(Work(2, 5), 8) == 2 * 4 * 3 + 5
    assert clipped("x" * 40, 10) == "x" * 9 + "…"
    assert shortened(-(10**18)) == "-100000...000000 (19 digits)"
    assert shortened(10**18 - 1) == "9" * 18
