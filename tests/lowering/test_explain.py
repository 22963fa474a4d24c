"""Plans in words: a row a unit, totals, views, donations, what is held and what was pruned."""

from __future__ import annotations

import re
import threading

import attrs

import ren
from ren import Domain, RingSpec
from ren.lowering.inspect.explain import explain
from ren.lowering.inspect.memory_report import memory_of
from ren.lowering.plan.cost import cost_of
from ren.lowering.plan.plan import Plan
from tests.lowering.plans import RING, plan, poly


def rows(p: Plan, trace=None) -> list[str]:
    """The lines of the table between its header and its totals."""
    lines = explain(p, trace).splitlines()
    return lines[2 : 2 + len(p.units)]


def test_one_row_a_unit_with_its_ops_and_shape():
    x, y = poly(1), poly(2)
    p = plan((x + y) * (x - 1))
    assert [row.split()[1] for row in rows(p)] == [unit.name.split()[0] for unit in p.units]
    assert all(f"{RING.limbs} x {RING.n}" in row for row in rows(p))
    assert "3 x " in rows(plan(poly(batch=(3,)).ntt()))[0]


def test_repeated_ops_are_counted():
    x = poly(1, domain=Domain.NTT)
    assert "MULx2 ADD" in rows(plan(x * x * x + x))[0]


def test_totals_are_those_of_cost_and_memory():
    p = plan((poly(1) * poly(2)).intt())
    text = explain(p)
    (total,) = [line for line in text.splitlines() if "total:" in line]
    assert f"total: {cost_of(p).kernels} kernels" in total
    assert f" {cost_of(p).limb_ntts} " in total
    assert f"{cost_of(p).multiply_adds:,} multiply-adds" in total
    assert str(memory_of(p)) in text


def test_a_view_says_which_limbs_it_reads():
    part = RingSpec(RING.n, RING.moduli[1:3])
    x = poly(1, domain=Domain.NTT)
    assert "view: limbs 1-2 of %0" in rows(plan(x.to_ring(part) + poly(2, part, Domain.NTT)))[0]
    apart = RingSpec(RING.n, (RING.moduli[0], RING.moduli[2]))
    assert "limbs 0,2 of %0" in rows(plan(x.to_ring(apart) * 2))[0]
    assert "limbs 3 of %0" in rows(plan(x.to_ring(RingSpec(RING.n, RING.moduli[3:])) * 2))[0]


def test_asking_for_a_view_alone_slices_once_and_says_so():
    p = plan(poly(1).to_ring(RingSpec(RING.n, RING.moduli[:2])))
    assert "reading limbs slices once: limbs 0-1 of %0" in explain(p)


def test_donations_are_named():
    assert "%2 takes over %1" in rows(plan((poly(1) + 1).ntt()))[1]


def test_copies_have_rows():
    assert "COPY to python" in rows(plan((poly(1) + 1).to("python")))[1]


def test_what_is_held_and_what_was_pruned_is_said():
    key = poly(2)
    step = ren.jit(lambda x: x + key)
    step(poly(1))
    p = step.plans[0].plan
    first = explain(p).splitlines()[0]
    assert re.match(
        r"2 inputs: 1 bound at each call \(256 B\), 1 held by the plan \(256 B\)", first
    )
    marked = [attrs.evolve(i, is_pruned=i.is_held) for i in p.inputs]
    assert "1 of them pruned" in explain(attrs.evolve(p, inputs=tuple(marked)))


def test_measured_times_come_from_a_trace():
    step = ren.jit(lambda x, y: (x + y) * (x - 1))
    x, y = poly(1), poly(2)
    step(x, y)
    (captured,) = step.plans
    assert captured.explain() == explain(captured.plan)
    bare = rows(captured.plan)
    with ren.trace() as trace:
        step(x, y)
        inside = rows(captured.plan)
    assert inside == rows(captured.plan, trace) != bare
    assert all(row.count(" ms") == 2 for row in inside)
    assert all(row.count(" ms") == 1 for row in bare)


def test_explaining_is_the_same_in_every_thread():
    p = plan((poly(1) + 1).ntt())
    told: list[str] = []
    with ren.trace():
        thread = threading.Thread(target=lambda: told.append(explain(p)))
        thread.start()
        thread.join()
    assert told == [explain(p)]


def test_a_notebook_shows_a_table():
    text = explain(plan((poly() + 1).ntt()))
    html = text._repr_html_()
    assert isinstance(text, str)
    table, _, memory = html.partition("</tbody>")
    assert table.count("<tr>") == 4  # head, two units, total
    assert "limb-NTTs</th>" in table and "peak, planned" in memory
    assert "<script" not in html and "&lt;" not in text
