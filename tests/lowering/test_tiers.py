"""Tiers: which runner a plan gets, what each says of itself, and the same results from all."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given, settings

import ren
from ren import config
from ren.lowering.backends.xla import jax_executable
from ren.lowering.runtime.runner import interpret_plan
from ren.lowering.runtime.tiers.tiers import GRAPH, TIERS, ChosenTier, check_tier, runner
from tests.lowering.plans import RING, arrays, plan, poly
from tests.lowering.test_memory import PROGRAMS, program_polys

SECOND = 1_000_000_000


def same(made, want) -> bool:
    pairs = zip(made, want, strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


@pytest.mark.long
@settings(max_examples=8)
@given(PROGRAMS)
def test_all_tiers_agree_on_random_programs(program):
    p = plan(*program_polys(program))
    want = interpret_plan(p, arrays(p))
    with config.update(jit_speculate=True, compile_budget_ns=10**15):
        for tier in TIERS:
            run = runner(p, tier)
            for _ in range(6):
                assert same(run(arrays(p)), want), tier
                assert run.wait(120)
            assert not run.telemetry.failures


@pytest.mark.parametrize("tier", TIERS)
def test_each_counts_its_calls_and_prints_as_a_table(tier):
    p = plan(poly() * poly(1))
    run = runner(p, tier)
    for _ in range(4):
        run(arrays(p))
    told = run.telemetry
    assert sum(report.calls for report in told.tiers) == 4
    assert told.tier == run.tier == ("units" if tier == "auto" else tier)
    lines = str(told).splitlines()
    assert lines[0].split() == ["tier", "calls", "timed", "mean", "deviation", "compiling"]
    assert lines[1].split()[:2] == [told.tier, "4"]
    assert run.wait(60)


def test_a_setting_decides_for_auto_and_for_nothing_else():
    p = plan(poly() + 1)
    with config.update(jit_tier="graph"):
        assert runner(p, "auto").tier == "graph"
        assert runner(p, "units").tier == "units"
    assert runner(p, "auto").tier == "units"


def test_a_name_that_is_no_tier_is_refused():
    assert [check_tier(t) for t in TIERS] == list(TIERS)
    for wrong in ("fast", None, 1, ["auto"]):
        with pytest.raises(ren.errors.JitError, match="tier="):
            check_tier(wrong)


def test_jit_hands_telemetry_and_wait_through():
    with config.update(jit_speculate=True):
        f = ren.jit(lambda x: (x * x).rotate(1))
        x = poly()
        want = np.asarray((x * x).rotate(1).limbs)
        for _ in range(3):
            assert np.array_equal(np.asarray(f(x).limbs), want)
        (captured,) = f.plans
        assert captured.wait(60)
        for _ in range(8):
            assert np.array_equal(np.asarray(f(x).limbs), want)
        assert [report.tier for report in captured.telemetry.tiers] == ["units", "graph"]


@pytest.mark.usefixtures("through_xla")
def test_what_happens_is_logged_by_the_name_of_the_function(caplog):
    caplog.set_level(logging.INFO, "ren")

    def step(x):
        return (x * x).rescale(RING.moduli[:2])

    with config.update(jit_speculate=True, compile_budget_ns=10**15):
        f = ren.jit(step)
        f(poly())
        f(poly())
        f.plans[0].wait(60)
        for _ in range(20):
            f(poly())
    lines = [r.getMessage() for r in caplog.records if "step" in r.getMessage()]
    assert any("compiled as one executable" in line for line in lines)
    assert any(" tier " in line and " against " in line for line in lines)
    assert all("\n" not in line for line in lines)


def test_an_explicit_graph_cools_down_and_is_tried_again(monkeypatch, caplog):
    now = 0
    p = plan((poly() * poly(1)).rotate(1))
    run = ChosenTier(p, GRAPH, clock=lambda: now)
    want = interpret_plan(p, arrays(p))
    tried = []

    def broken(*args):
        tried.append(args)
        raise RuntimeError("no compiler today")

    with monkeypatch.context() as patch, config.update(native=False):
        patch.setattr(jax_executable, "graph_function", broken)
        for seconds, times in ((0, 1), (4, 1), (6, 2), (15, 2), (17, 3)):
            now = seconds * SECOND
            assert same(run(arrays(p)), want)
            assert len(tried) == len(caplog.records) == times
            assert run.tier == "units"
    now = 60 * SECOND
    assert same(run(arrays(p)), want)
    assert run.tier == "graph" and run.telemetry.failures == 0
    assert [d.tier for d in run.telemetry.decisions] == ["units"] * 3


def test_what_a_handler_of_the_user_raises_is_no_fault_of_the_graph(monkeypatch):
    class TooLate(Exception):
        pass

    def late(*_):
        raise TooLate

    run = ChosenTier(p := plan((poly() * poly(1)).rotate(2)), GRAPH)
    with config.update(native=False):
        with monkeypatch.context() as patch:
            patch.setattr(jax_executable, "graph_function", late)
            with pytest.raises(TooLate):
                run(arrays(p))
        assert run.tier == "graph" and run.telemetry.failures == 0
        assert same(run(arrays(p)), interpret_plan(p, arrays(p)))


def test_decisions_of_a_plan_are_bounded(monkeypatch):
    now, p = 0, plan((poly() * poly(1)).rotate(2))
    run = ChosenTier(p, GRAPH, clock=lambda: now)

    def broken(*args):
        raise RuntimeError("no compiler today")

    monkeypatch.setattr(jax_executable, "graph_function", broken)
    with config.update(native=False, compile_cooldown_base_ns=1, compile_cooldown_max_ns=SECOND):
        for _ in range(70):
            now += 2 * SECOND
            run(arrays(p))
    decisions = run.telemetry.decisions
    assert len(decisions) == 64 and [d.call for d in decisions] == list(range(7, 71))
