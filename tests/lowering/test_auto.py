"""The tier "auto": what it compiles, when, what it keeps, and what a failure costs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import jax
import numpy as np
import pytest

import ren
from ren import Poly, RingSpec, config
from ren.core.errors import DeviceError
from ren.lowering.runtime.runner import interpret_plan, run_plan
from ren.lowering.runtime.tiers import auto, compile_ahead
from ren.lowering.runtime.tiers.auto import AutoRunner
from ren.lowering.runtime.tiers.budget import Size
from ren.lowering.runtime.tiers.compile_ahead import CompileResources
from ren.lowering.runtime.tiers.compile_thread import run_job
from ren.lowering.storage.telemetry import Entry
from tests.lowering.plans import arrays, plan, poly
from tests.lowering.test_memory import program_polys
from tests.programs import generate

MS, SECOND = 1_000_000, 1_000_000_000


class Machine:
    """A clock that only runs when plans do, a thread that only works when told, a graph to order.

    `fails` is where the graph fails: "lower", "compile", "first" or "later".
    """

    def __init__(self, units_ms: float = 10, graph_ms: float = 2, compile_ms: float = 500) -> None:
        self.now = 0
        self.units_ms, self.graph_ms, self.compile_ms = units_ms, graph_ms, compile_ms
        self.fails: str | None = None
        self.jobs: list[tuple[Future, Callable]] = []
        self.lowered = self.runs = 0
        self.resources = CompileResources(lambda: self.now, self)  # type: ignore[arg-type]

    def submit(self, function, then) -> Future:
        job: Future = Future()
        job.add_done_callback(lambda _: then())
        self.jobs.append((job, function))
        return job

    def work(self) -> None:
        while self.jobs:
            run_job(*self.jobs.pop(0))

    def pass_ms(self, ms: float) -> None:
        self.now += int(ms * MS)

    def units(self, p, name):
        def run(inputs):
            self.pass_ms(self.units_ms)
            return run_plan(p, inputs)

        return run

    # What stands in for `GraphCompiler`, and for the runner that it makes.

    def compiler(self, graph, types) -> Machine:
        assert len(types) == len(self.plan.inputs)
        return self

    def lower(self) -> bool:
        self.pass_ms(5)
        self.lowered += 1
        if self.fails == "lower":
            raise ValueError("cannot be lowered\nat all")
        return False

    def compile(self) -> None:
        self.pass_ms(self.compile_ms)
        if self.fails == "compile":
            raise MemoryError("cannot be compiled")

    @property
    def graph(self):
        runs = 0

        def run(inputs):
            nonlocal runs
            runs += 1
            self.runs += 1
            self.pass_ms(self.graph_ms)
            if self.fails == ("first" if runs == 1 else "later"):
                raise RuntimeError("cannot be run")
            return interpret_plan(self.plan, inputs)

        return run

    def runner_of(self, p, **options) -> AutoRunner:
        self.plan = p
        return AutoRunner(p, resources=self.resources, **options)


@pytest.fixture
def machine(monkeypatch) -> Iterator[Machine]:
    made = Machine()
    monkeypatch.setattr(compile_ahead, "GraphCompiler", made.compiler)
    monkeypatch.setattr(auto, "unit_runner", made.units)
    with config.update(jit_speculate=True):
        yield made


@pytest.fixture
def p():
    return plan((poly() * poly(1)).rotate(3) + 1)


def calls(run: AutoRunner, p, count: int) -> None:
    want = [np.asarray(a) for a in interpret_plan(p, arrays(p))]
    for _ in range(count):
        for got, expected in zip(run(arrays(p)), want, strict=True):
            assert np.array_equal(np.asarray(got), expected)


def settled(machine: Machine, p, **options) -> AutoRunner:
    """A runner that has compiled its graph and chosen."""
    run = machine.runner_of(p, **options)
    calls(run, p, 3)
    assert not run.wait(0)
    machine.work()
    assert run.wait(0)
    calls(run, p, 20)
    assert run.telemetry.state == "settled"
    return run


# ------------------------------------------------------------------- choosing


def test_the_faster_tier_is_kept(machine, p):
    run = settled(machine, p)
    assert run.tier == "graph"
    units, graph = run.telemetry.tiers
    assert (units.samples.mean_ns, graph.samples.mean_ns) == (10 * MS, 2 * MS)
    assert graph.compile_ns == 505 * MS
    assert graph.calls + units.calls == 23
    before = machine.runs
    calls(run, p, 100)
    assert machine.runs == before + 100
    (decision,) = run.telemetry.decisions
    assert decision.tier == "graph" and decision.reason == "2.000 ms against 10.000 ms"


@pytest.mark.parametrize("graph_ms", [30, 15, 10.2, 9.9])
def test_units_are_kept_where_the_graph_is_not_faster(machine, p, graph_ms):
    machine.graph_ms = graph_ms
    run = settled(machine, p)
    assert run.tier == "units"
    before = machine.runs
    calls(run, p, 100)
    assert machine.runs == before
    assert before <= {30: 2, 15: 4}.get(graph_ms, 9)


@pytest.mark.long
def test_nothing_is_compiled_before_it_is_paid_for(machine, p):
    run = machine.runner_of(p)
    calls(run, p, 5)
    assert not machine.lowered
    calls(run, p, 1000)  # ten seconds
    assert machine.lowered == 1
    assert run.telemetry.state == "compiling"
    cost = machine.resources.estimates
    size = Size.of(p)
    spent = run.telemetry.tiers[0].calls * 10 * MS
    assert cost.lower_ns(size) + 0.2 * cost.compile_ns(size) <= 0.2 * spent


@pytest.mark.long
def test_a_setting_delays_it_further(machine, p):
    with config.update(jit_speculate_after_ns=100 * SECOND):
        run = machine.runner_of(p)
        calls(run, p, 1000)
    assert not machine.lowered


@pytest.mark.long
def test_without_speculation_units_run(machine, p):
    with config.update(jit_speculate=False):
        run = machine.runner_of(p)
        calls(run, p, 1000)
        assert run.wait()
        assert not machine.lowered
        assert "jit_speculate" in str(run.telemetry)
    assert not run.wait(0)


def test_units_run_while_the_graph_is_compiled(machine, p):
    run = machine.runner_of(p)
    calls(run, p, 2)
    assert not run.wait(0)
    calls(run, p, 50)
    assert (run.tier, machine.runs) == ("units", 0)
    machine.work()
    calls(run, p, 10)
    assert run.tier == "graph"


@pytest.mark.long
def test_few_calls_are_sampled(machine, p):
    machine.graph_ms = 10
    run = machine.runner_of(p)
    with config.update(jit_speculate=False):
        calls(run, p, 600)
    assert 5 < run.telemetry.tiers[0].samples.count < 20


def test_a_trace_and_jax_transformations_are_not_timed(machine, p):
    run = machine.runner_of(p)
    calls(run, p, 1)
    with ren.trace() as trace:
        for _ in range(20):
            run(arrays(p))
    assert len(trace.records) == 20 * len(p.units)
    jax.make_jaxpr(lambda *inputs: run(inputs))(*arrays(p))
    assert not run.telemetry.tiers[0].samples.count


@pytest.mark.long
def test_the_budget_is_shared_and_per_window(machine, p, caplog):
    caplog.set_level(logging.INFO, "ren")
    with config.update(compile_budget_ns=1000 * MS, compile_window_ns=60 * SECOND):
        settled(machine, p)
        other = machine.runner_of(p)
        calls(other, p, 3)
        assert other.wait(0) and machine.lowered == 1
        calls(other, p, 1000)
        assert machine.lowered == 1
        assert [r.getMessage() for r in caplog.records if "budget" in r.getMessage()] == [
            "A plan: not compiled, the compile budget is used up"
        ]
        machine.pass_ms(60_000)
        calls(other, p, 300)
        assert machine.lowered == 2


# ------------------------------------------------------------------- rearming


@pytest.mark.long
def test_a_choice_is_revisited_after_the_interval(machine, p):
    with config.update(rearm_interval_ns=10 * SECOND, rearm_min_samples=4):
        run = settled(machine, p)
        machine.graph_ms = 12
        calls(run, p, 600)  # 7.2 seconds
        assert run.tier == "graph"
        calls(run, p, 1500)
        assert run.tier == "units"
        machine.graph_ms = 2
        calls(run, p, 2000)
        assert run.tier == "graph"
    assert machine.lowered == 1


@pytest.mark.long
def test_it_is_not_revisited_without_samples_or_when_they_scatter(machine, p):
    run = settled(machine, p)
    machine.graph_ms = 12
    with config.update(rearm_interval_ns=0, rearm_min_samples=1000):
        calls(run, p, 700)
        assert run.tier == "graph"
    with config.update(rearm_interval_ns=0, rearm_min_samples=2, rearm_max_volatility=0.2):
        for i in range(700):
            machine.graph_ms = (12, 40)[run.telemetry.tiers[1].samples.count % 2]
            calls(run, p, 1)
            assert run.tier == "graph", i
    machine.graph_ms = 12
    with config.update(rearm_interval_ns=0, rearm_min_samples=2, rearm_max_volatility=1.0):
        calls(run, p, 700)
    assert run.tier == "units"


@pytest.mark.long
def test_it_is_not_revisited_while_its_calls_are_quick(machine, p):
    ms = SECOND // 1000
    run = settled(machine, p)
    machine.graph_ms = 12
    with config.update(rearm_interval_ns=0, rearm_min_samples=2, rearm_min_observed_ns=20 * ms):
        calls(run, p, 700)
        assert run.tier == "graph"
        machine.graph_ms = 40  # it degrades
        calls(run, p, 700)
        assert run.tier == "units"


# ------------------------------------------------------------------- failures


@pytest.mark.parametrize("place", ["lower", "compile", "first", "later"])
def test_a_failure_costs_one_line_and_no_result(machine, p, place, caplog):
    machine.fails = place
    run = machine.runner_of(p)
    calls(run, p, 3)
    run.wait(0)
    machine.work()
    calls(run, p, 10)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("ren", "WARNING")
    assert record.getMessage().startswith("A plan runs as units for 5.000 s, not as one executable")
    assert "\n" not in record.getMessage()
    told = run.telemetry
    assert (told.tier, told.state, told.failures) == ("units", "cooling down", 1)
    assert 0 < told.cooldown_ns < 5 * SECOND
    assert "failures in a row: 1" in str(told)


def test_the_cooldown_doubles_up_to_its_bound_and_ends_with_success(machine, p, caplog):
    machine.fails = "lower"
    base, most = 1 * SECOND, 3 * SECOND
    with config.update(compile_cooldown_base_ns=base, compile_cooldown_max_ns=most):
        run = machine.runner_of(p)
        calls(run, p, 3)
        for failures, wait in enumerate((base, 2 * base, most, most), start=1):
            run.wait(0)
            assert run.telemetry.failures == machine.lowered == failures
            assert run.telemetry.cooldown_ns == wait
            calls(run, p, 5)
            machine.now += wait - 60 * MS
            run.wait(0)
            assert machine.lowered == failures
            machine.pass_ms(20)
        machine.fails = None
        run.wait(0)
        machine.work()
        calls(run, p, 10)
    assert (run.tier, run.telemetry.failures) == ("graph", 0)
    assert len(caplog.records) == 4


@pytest.mark.long
def test_after_a_failure_it_is_tried_again_by_itself(machine, p):
    machine.fails = "compile"
    run = machine.runner_of(p)
    calls(run, p, 3)
    run.wait(0)
    machine.work()
    calls(run, p, 300)
    assert machine.lowered == 1
    machine.fails = None
    calls(run, p, 800)
    machine.work()
    calls(run, p, 10)
    assert run.tier == "graph"


def test_a_graph_that_fails_when_it_is_the_choice_gives_way(machine, p, caplog):
    run = settled(machine, p)
    machine.fails = "later"
    calls(run, p, 30)
    assert run.tier == "units"
    assert len(caplog.records) == 1


def test_what_fails_in_units_too_is_no_fault_of_the_graph(machine, p, caplog):
    run = settled(machine, p)
    machine.fails = "later"
    with pytest.raises(AttributeError):
        run([None for _ in arrays(p)])
    machine.fails = None
    calls(run, p, 3)
    assert run.tier == "graph"
    assert not caplog.records


@pytest.mark.long
def test_a_plan_that_cannot_be_a_graph_stays_with_units(machine, monkeypatch, p, caplog):
    def refused(_):
        raise DeviceError("not on this device")

    monkeypatch.setattr(compile_ahead, "graph_runner", refused)
    run = machine.runner_of(p)
    calls(run, p, 2000)
    assert run.telemetry.decisions[0].reason == "not on this device"
    assert not caplog.records


def test_a_job_that_is_cancelled_at_exit_is_no_failure(machine, p, caplog):
    run = machine.runner_of(p)
    calls(run, p, 3)
    run.wait(0)
    job, _ = machine.jobs.pop()
    assert job.cancel()
    calls(run, p, 3)
    assert run.telemetry.failures == 0
    assert not caplog.records


# ------------------------------------------------------------------- what another process learnt


class Memory:
    def __init__(self, **entries: Entry) -> None:
        self.entries = entries

    def known(self, digest: str) -> Entry | None:
        return self.entries.get(digest)

    def remember(self, digest: str, entry: Entry) -> None:
        self.entries[digest] = entry


def entry(tier: str) -> Entry:
    return Entry(tier, (("units", 3, 10.0 * MS, 0.0), ("graph", 3, 2.0 * MS, 0.0)), 500 * MS, 1.0)


def test_what_is_learnt_is_remembered(machine, p):
    store = Memory()
    settled(machine, p, digest=lambda: "d", store=store)
    (found,) = store.entries.values()
    assert (found.tier, found.compile_ns) == ("graph", 505 * MS)
    samples = {tier: (count, mean) for tier, count, mean, _ in found.samples}
    assert samples["graph"] == (3, 2 * MS) and samples["units"][1] == 10 * MS
    assert found.updated_s > 1e9


def test_a_known_graph_is_compiled_at_once_and_not_probed(machine, p):
    run = machine.runner_of(p, digest=lambda: "d", store=Memory(d=entry("graph")))
    calls(run, p, 1)
    assert machine.lowered == 1 and run.tier == "units"
    machine.work()
    calls(run, p, 50)
    assert run.tier == "graph"
    assert machine.runs == 50
    assert run.telemetry.tiers[0].calls == 1


def test_a_known_graph_that_fails_is_not_trusted_again(machine, p):
    machine.fails = "first"
    run = machine.runner_of(p, digest=lambda: "d", store=Memory(d=entry("graph")))
    calls(run, p, 1)
    machine.work()
    calls(run, p, 3)
    assert (run.tier, run.telemetry.failures, machine.lowered) == ("units", 1, 1)


@pytest.mark.long
def test_known_units_are_not_compiled_until_rearmed(machine, p):
    with config.update(rearm_interval_ns=30 * SECOND):
        run = machine.runner_of(p, digest=lambda: "d", store=Memory(d=entry("units")))
        calls(run, p, 2000)
        assert run.wait()
        assert not machine.lowered
        calls(run, p, 2000)
        assert machine.lowered == 1


# ------------------------------------------------------------------- real graphs


@pytest.fixture
def speculating() -> Iterator[None]:
    with config.update(jit_speculate=True, compile_budget_ns=10**15):
        yield


@pytest.mark.usefixtures("speculating")
@pytest.mark.parametrize("seed", range(5))
def test_random_programs_are_the_same_in_all_tiers(seed):
    p = plan(*program_polys(generate(100 + seed, 16, 1 + seed % 4, 4 + 2 * seed)))
    run = AutoRunner(p)
    calls(run, p, 2)
    assert run.wait(60)
    calls(run, p, 20)
    graph = next(t for t in run.telemetry.tiers if t.tier == "graph")
    assert graph.calls >= 2 and graph.samples.count >= 1 and not run.telemetry.failures


@pytest.mark.usefixtures("speculating")
def test_parts_between_copies_are_compiled_ahead(monkeypatch):
    p = plan((poly() + 1).to("cpu") * poly(1).to("cpu"), (poly() * 2).to("python"))
    run = AutoRunner(p)
    calls(run, p, 2)
    assert run.wait(60)
    monkeypatch.setattr(jax.stages.Lowered, "compile", None)
    calls(run, p, 20)
    assert not run.telemetry.failures
    assert next(t for t in run.telemetry.tiers if t.tier == "graph").calls >= 2


@pytest.mark.usefixtures("speculating", "through_xla")
def test_equal_graphs_share_an_executable(monkeypatch):
    def runner():
        p = plan((poly() * poly(1)).rescale(poly().ring.moduli[:2]))
        run = AutoRunner(p)
        calls(run, p, 2)
        assert run.wait(60)
        calls(run, p, 2)
        return run

    first = runner()
    monkeypatch.setattr(jax.stages.Lowered, "compile", None)
    second = runner()
    assert not first.telemetry.failures + second.telemetry.failures
    assert first.telemetry.tiers[1].compile_ns and second.telemetry.tiers[1].calls


def test_the_python_device_is_left_alone(caplog):
    p = plan(poly().to("python") + 1)
    run = AutoRunner(p)
    calls(run, p, 20)
    assert run.wait()
    assert run.tier == "units" and not caplog.records
    ring = RingSpec(8, (17, 97))
    f = ren.jit(lambda x: x * x)
    for _ in range(3):
        assert f(Poly(range(8), ring).to("python")).device == "python"
    assert f.plans[0].wait()
    assert "python device" in str(f.plans[0].telemetry)
