"""Plots: what is drawn is what the reports say, on the caller's axes or new ones, and not shown."""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module

import matplotlib
import numpy as np
import pytest
from matplotlib.collections import PolyCollection

import ren
from ren.core.errors import MissingPackageError
from ren.lowering.inspect.memory_plot import NAMED_UNITS, plot_memory, timeline
from ren.lowering.inspect.memory_report import memory_of
from ren.lowering.plan.plan import Plan
from ren.poly import Poly
from ren.ring import RingSpec
from ren.schemes import ckks

matplotlib.use("Agg")
pyplot = import_module("matplotlib.pyplot")

RING = RingSpec(16, (97, 193, 257))
PARAMS = ckks.Parameters.for_depth(2, n=256, security=None)


@pytest.fixture(autouse=True)
def shown(monkeypatch):
    """No plot may show itself; figures do not outlive their test."""
    calls: list[object] = []
    monkeypatch.setattr(pyplot, "show", lambda *args: calls.append(args))
    yield
    pyplot.close("all")
    assert not calls


@pytest.fixture(scope="module")
def context() -> ckks.Context:
    return ckks.context(params=PARAMS)


def collections(ax) -> list[PolyCollection]:
    return [c for c in ax.collections if isinstance(c, PolyCollection)]


def boxes(ax) -> int:
    return sum(len(c.get_paths()) for c in collections(ax))


def jitted(function, *args):
    f = ren.jit(function, tier="units")
    f(*args)
    return f


def plan(long: int = 3) -> Plan:
    def f(x, y):
        for _ in range(long):
            x = (x * y.rotate(1) + y).contiguous()
        return x, y + 1

    return jitted(f, Poly([1, 2], RING), Poly([3], RING)).plans[0].plan


def test_a_box_for_each_modulus_of_each_level_and_of_the_keys():
    ax = PARAMS.plot()
    levels = sum(PARAMS.ring(level).limbs for level in range(PARAMS.depth + 1))
    assert boxes(ax) == levels + len(PARAMS.union) + len(PARAMS.specials)
    right = max(c.get_paths()[i].vertices[:, 0].max() for c in collections(ax) for i in
                range(len(c.get_paths())))  # fmt: skip
    assert right == pytest.approx(PARAMS.log_qp)
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "level 0", "level 1", "level 2", "keys",
    ]  # fmt: skip


def test_the_scale_of_each_level_is_drawn():
    (line, *_) = PARAMS.plot().lines
    assert line.get_xdata() == pytest.approx([float(np.log2(float(s))) for s in PARAMS.scales])
    assert list(line.get_ydata()) == [0, 1, 2]


def test_insecure_parameters_say_so_in_the_title():
    assert "INSECURE" in PARAMS.plot().get_title(loc="left")
    secure = ckks.Parameters.for_depth(1)
    ax = secure.plot()
    assert "128-bit security" in ax.get_title(loc="left")
    assert "INSECURE" not in ax.get_title(loc="left")
    assert ax.lines[1].get_xdata()[0] == secure.log_qp + secure.security_margin


def test_the_stack_reaches_the_planned_peak_and_no_block_covers_another():
    for p in (plan(), plan(1), jitted(lambda x: x + 1, Poly([1], RING)).plans[0].plan):
        blocks = timeline(p)
        tops = [0] * len(p.units)
        for i in range(len(p.units)):
            here = sorted((b for b in blocks if b.first <= i <= b.last), key=lambda b: b.bottom)
            for block in here:
                assert block.bottom == tops[i] and block.size > 0
                tops[i] += block.size
        assert max(tops) == memory_of(p).peak_bytes


def test_a_plan_draws_its_blocks_and_both_peaks():
    p = plan()
    ax = plot_memory(p)
    assert boxes(ax) == len(timeline(p))
    unit = {"bytes": 1, "KiB": 1 << 10}[ax.get_ylabel().split()[0]]
    heights = [line.get_ydata()[0] * unit for line in ax.lines]
    assert heights == [memory_of(p).peak_bytes, memory_of(p).unplanned_bytes]
    assert ax.get_ylim()[1] * unit > max(heights)
    assert ax.get_xlim() == (-0.5, len(p.units) - 0.5)


def test_units_are_named_while_they_are_few():
    short, long = plan(1), plan(20)
    assert len(short.units) <= NAMED_UNITS < len(long.units)
    few, many = plot_memory(short), plot_memory(long)
    assert any("MUL" in label.get_text() for label in few.get_xticklabels())
    assert not any("MUL" in label.get_text() for label in many.get_xticklabels())


def test_a_plan_without_units_is_an_empty_plot():
    captured = jitted(lambda x: x, Poly([1], RING)).plans[0]
    assert captured.plan.units == ()
    assert boxes(captured.plot_memory()) == 0


def test_precision_draws_every_error_and_the_promise(context):
    x = context.encrypt(np.linspace(0, 1, 100))
    report = ckks.precision(x + x, 2 * np.linspace(0, 1, 100))
    assert report.errors.shape == (100,) and report.errors.max() == report.largest_error
    ax = report.plot()
    points, *lines = ax.lines
    assert np.array_equal(points.get_ydata(), report.errors)
    drawn = [line.get_ydata()[0] for line in lines]
    assert drawn == [report.rms_error, report.largest_error, 2**-report.estimated_bits]
    assert ax.get_yscale() == "log"


def test_errors_of_none_at_all_leave_a_plot():
    report = ckks.Precision(np.inf, np.inf, 0.0, 0.0, (0,), 1, np.nan, np.zeros((2, 3)))
    ax = report.plot()
    (points,) = ax.lines
    assert np.isnan(points.get_ydata()).all() and len(points.get_ydata()) == 6
    assert "batch" in ax.get_xlabel()


def test_errors_are_no_part_of_what_a_report_is_equal_to_and_prints(context):
    one = ckks.precision(context.encrypt([1.0, 2.0]), [1.0, 2.0])
    assert one == one and "array" not in repr(one) and "errors" not in repr(one)


def test_the_axes_of_the_caller_are_drawn_on(context):
    report = ckks.precision(context.encrypt([1.0]), [1.0])
    for draw in (PARAMS.plot, partial(plot_memory, plan()), report.plot):
        before = pyplot.get_fignums()
        _, ax = pyplot.subplots()
        assert draw(ax=ax) is ax and ax.has_data()
        assert len(pyplot.get_fignums()) == len(before) + 1


def test_without_matplotlib_the_way_to_get_it_is_told(monkeypatch, context):
    report = ckks.precision(context.encrypt([1.0]), [1.0])
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for draw in (PARAMS.plot, partial(plot_memory, plan(1)), report.plot):
        with pytest.raises(MissingPackageError, match=r"pip install 'ren\[notebooks\]'") as caught:
            draw()
        assert isinstance(caught.value, ren.RenError) and isinstance(caught.value, ImportError)
        assert len(str(caught.value).splitlines()) == 3
