"""The interface of backends: a fourth one, reasons against, calls that fail, plans that are cut."""

from __future__ import annotations

import logging
import operator
import re
from collections.abc import Sequence
from functools import reduce
from typing import Any

import attrs
import jax
import numpy as np
import pytest

import ren
from ren import Domain, Poly, RingSpec
from ren.core.errors import NativeError
from ren.core.op import OPS, Kind
from ren.lowering.backends.base import Call as Run
from ren.lowering.backends.base import Unsupported
from ren.lowering.backends.native import bytecode, library
from ren.lowering.backends.native.backend import NativeBackend
from ren.lowering.backends.native.limb_program import LoweringError
from ren.lowering.backends.native.ops import ABSENT, BATCH_STEPS, INDICES, STEPS
from ren.lowering.backends.reference.ops import REFERENCE
from ren.lowering.backends.xla.ops import EMIT
from ren.lowering.inspect.explain import explain
from ren.lowering.inspect.memory_report import memory_of
from ren.lowering.plan.partition import GRAPH, UNITS
from ren.lowering.plan.plan import Plan
from ren.lowering.program.graph import Call
from ren.lowering.program.instructions import INSTRUCTIONS
from ren.lowering.program.steps import Segment
from ren.lowering.runtime import native_calls as calls_of
from ren.lowering.runtime import planning, runner
from ren.lowering.runtime.native_calls import NativeCalls, listing, native_calls
from ren.lowering.runtime.planning import native_runner
from ren.lowering.runtime.runner import (
    graph_runner,
    interpret_plan,
    run_plan,
)
from ren.poly.batching import unstacked
from ren.schemes import ckks
from tests.lowering.plans import arrays, plan, poly
from tests.lowering.test_memory import program_polys
from tests.programs import generate
from tests.rings import primes

N = 4096
RING = RingSpec(N, primes(N)[-4:])
LONG = RingSpec(1 << 15, primes(1 << 15)[-40:])


def needs_native() -> None:
    if library.outcome().reason or not ren.config.native:
        pytest.skip(library.outcome().reason or "native code is off")


def same(made: Sequence[Any], want: Sequence[Any]) -> bool:
    pairs = zip(made, want, strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


def once(p: Plan, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a plan as a program that is run once gets them."""
    run = native_runner(p.source, p.inputs, inputs)
    return run_plan(p, inputs) if run is None else run(inputs)


# ------------------------------------------------------------------- a fourth backend


@attrs.frozen(eq=False)
class Integers:
    """A segment of sums and differences, computed with Python's integers, one by one."""

    segment: Segment
    backend: str = "integers"

    def bind(self, args: Sequence[Any]) -> Run:
        return self.traced

    def traced(self, args: Sequence[Any]) -> list[Any]:
        values = [np.asarray(a) for a in args]
        for step in self.segment.graph.steps:
            assert isinstance(step, Call)
            own = [values[v] for v in step.src]
            values += self._stored(step, own)
        return [jax.device_put(values[v]) for v in self.segment.graph.outputs]

    def _stored(self, call: Call, slots: list[np.ndarray]) -> list[np.ndarray]:
        made: list[Any] = []
        for instr in call.program.instrs:
            src = [made[i] for i in instr.src]
            match instr.op:
                case "SLOT":
                    made.append(slots[instr.structure] if instr.structure >= 0 else None)  # type: ignore[operator,index]
                case "LOAD":
                    made.append(src[0])
                case "STORE":
                    made.append(src[1])
                case "ADD" | "SUB":
                    (moduli,) = self.segment.tables[call.tables[instr.tables[0]]].args
                    sign = 1 if instr.op == "ADD" else -1
                    q = np.array(moduli, object)[:, None]  # type: ignore[arg-type]
                    exact = (src[0].astype(object) + sign * src[1].astype(object)) % q
                    made.append(exact.astype(np.uint32))
                case _:
                    made.append(None)
        return [made[i] for i in call.program.outputs]


class IntegerBackend:
    """Runs sums and differences of whole arrays."""

    name = "integers"

    def __init__(self) -> None:
        self.ran = 0

    def compile(self, segment: Segment, args: Sequence[Any]) -> Integers | Unsupported:
        instrs = [i for s in segment.graph.steps if isinstance(s, Call) for i in s.program.instrs]
        known = {"SLOT", "GIDX", "INDEX", "LOAD", "STORE", "ADD", "SUB"}
        is_plain = all(i.structure == (None, False) for i in instrs if i.op == "LOAD")
        if len(instrs) == 0 or not is_plain or not {i.op for i in instrs} <= known:
            return Unsupported("it has more than sums and differences")
        self.ran += 1
        return Integers(segment)


@pytest.mark.parametrize("policy", [UNITS, GRAPH])
def test_a_fourth_backend_is_one_class_and_one_entry(monkeypatch, policy):
    mine = IntegerBackend()
    monkeypatch.setattr(runner, "BACKENDS", (mine, *runner.BACKENDS))
    run = run_plan if policy == UNITS else lambda p, a: graph_runner(p)(a)
    x, y = poly(0, RING), poly(1, RING)
    p = plan(x + y, x - y)
    assert same(run(p, arrays(p)), interpret_plan(p, arrays(p))) and mine.ran
    other, mine.ran = plan((x * y).rotate(1)), 0
    assert same(run(other, arrays(other)), interpret_plan(other, arrays(other)))
    assert not mine.ran
    assert isinstance(mine.compile(Segment((), graph_of(other), (), (), ()), ()), Unsupported)


def graph_of(p: Plan) -> Any:
    (step,) = graph_runner(p).steps
    assert isinstance(step, Segment)
    return step.graph


# Ops that no kernel has: passes rewrite them, or make units and inputs of them.
OUTSIDE = (Kind.RING, Kind.ROOT, Kind.LEAF, Kind.MEMORY, Kind.BOUNDARY)
INSIDE = {"SLOT", "STORE", "CONTIGUOUS"}
REWRITTEN = {"CONST", "AUTOMORPHISM"}
BACKENDS = {
    "xla": (EMIT, {}),
    "reference": (REFERENCE, {}),
    "native": ({**STEPS, **BATCH_STEPS, **dict.fromkeys(INDICES)}, ABSENT),
}


def test_every_op_that_reaches_a_kernel_is_an_instruction():
    reaching = {name for name, op in OPS.items() if op.kind not in OUTSIDE} | INSIDE
    assert set(INSTRUCTIONS) == reaching - REWRITTEN


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_has_each_op_or_a_reason_against_it(backend):
    table, absent = BACKENDS[backend]
    assert set(table) | set(absent) == set(INSTRUCTIONS) - {"SLOT"}
    assert not set(table) & set(absent) and all(absent.values())


def forget_calls() -> None:
    """Lowers every program anew."""
    bytecode.lowered.cache_clear()
    calls_of.forget()


# ------------------------------------------------------------------- reasons


def test_the_reason_against_native_calls_is_shown_and_logged_once(monkeypatch, caplog):
    needs_native()
    caplog.set_level(logging.INFO, "ren")
    monkeypatch.setattr(planning, "_logged", set())
    monkeypatch.delitem(STEPS, "NEG")
    forget_calls()
    p = plan((-poly(0, RING)).ntt())
    want = interpret_plan(p, arrays(p))
    for _ in range(2):
        assert same(once(p, arrays(p)), want)
    lines = [r.getMessage() for r in caplog.records if "native calls" in r.getMessage()]
    assert lines == ["A plan does not run as native calls: it has no limb rows for NEG."]
    assert "no native calls: it has no limb rows for NEG" in explain(p)
    monkeypatch.undo()
    forget_calls()
    assert "one native call" in explain(p)


def test_an_absent_op_is_the_reason_with_its_own(monkeypatch):
    needs_native()
    monkeypatch.setitem(ABSENT, "NEG", "a row has no sign")
    forget_calls()
    assert "it has no limb rows for NEG: a row has no sign" in explain(plan((-poly(0, RING)).ntt()))
    forget_calls()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: poly(0, RingSpec(128, primes(128)[-2:])).ntt(), "degree is below 256"),
        (lambda: poly(0, LONG) + poly(1, LONG), "its work is elementwise"),
        (lambda: poly(0, RING).ntt().to("cpu"), "copies between devices"),
        (lambda: poly(0, RING).to("python").ntt(), "copies between devices"),
    ],
)
def test_each_reason_is_told(make, reason):
    needs_native()
    assert reason in explain(plan(make()))


def test_a_small_sum_is_told_as_a_call_without_xla():
    needs_native()
    told = explain(plan(poly(0, RING) + poly(1, RING)))
    assert "runs as one native call without XLA of 1 phase, which holds 0 B" in told
    assert float(re.findall(r"estimated ([\d.]+) ms", told)[-1]) < 0.1


def test_a_sum_of_parts_is_one_native_call_and_the_sum_of_integers():
    """Kernels would be one for each index, each compiled apart."""
    needs_native()
    limbs = np.stack([np.asarray(poly(k, RING).limbs) for k in range(40)])
    parts = unstacked(Poly.from_limbs(limbs, RING).to("cpu").realize())
    total = reduce(operator.add, parts)
    calls = native_calls(plan(total).source)
    assert isinstance(calls, NativeCalls) and len(calls.programs) == 1
    want = limbs.astype(object).sum(axis=0) % np.array(RING.moduli, object)[:, None]
    assert same([total.limbs], [want.astype(np.uint32)])


def test_without_native_code_the_setting_is_the_reason():
    with ren.config.update(native=False):
        assert "ren.config.native is False" in explain(plan(poly(0, RING).ntt()))


# ------------------------------------------------------------------- calls that fail


class Failing:
    """An executable of which each run fails."""

    backend = "failing"

    def __init__(self) -> None:
        self.runs = 0

    def bind(self, args: Sequence[Any]) -> Run:
        return self.traced

    def traced(self, args: Sequence[Any]) -> list[Any]:
        self.runs += 1
        raise RuntimeError("INTERNAL: word 7\nmore")


@pytest.mark.parametrize("way", ["eager", "auto", "graph"])
def test_a_native_call_that_fails_raises_and_runs_nowhere_else(monkeypatch, way):
    needs_native()
    failing = Failing()
    x, y = poly(0, RING).realize(), poly(1, RING).realize()
    monkeypatch.setattr(NativeBackend, "compile", lambda *_: failing)
    planning.forget()  # what ran before has its executables

    def f(x: ren.Poly, y: ren.Poly) -> ren.Poly:
        return (x * y).intt()

    run = {"eager": lambda x, y: f(x, y).realize(), "auto": ren.jit(f)}
    run["graph"] = ren.jit(tier="graph")(f)
    for count in (1, 2):
        with pytest.raises(NativeError, match="word 7") as told:
            run[way](x, y)
        assert failing.runs == count
        assert "MUL" in str(told.value) and "REN_NATIVE=0" in str(told.value)
    monkeypatch.undo()
    assert ren.equal(f(x, y), ren.jit(f)(x, y))


# ------------------------------------------------------------------- plans that are cut


@pytest.fixture
def limits(monkeypatch):
    """Sets limits of one call; lowered plans are forgotten before and after."""
    forget_calls()

    def set_limits(
        rows: int | None = None, kept: int | None = None, buffers: int | None = None
    ) -> None:
        forget_calls()
        if buffers is not None:
            monkeypatch.setattr("ren.lowering.backends.native.bytecode.MOST_BUFFERS", buffers)
        if rows is not None:
            monkeypatch.setattr("ren.lowering.backends.native.limb_program.MOST_ROWS", rows)
        if kept is not None:
            monkeypatch.setattr("ren.lowering.backends.native.bytecode.MOST_KEPT", kept)

    yield set_limits
    monkeypatch.undo()
    forget_calls()


def calls(p: Plan) -> NativeCalls:
    found = native_calls(p.source)
    assert isinstance(found, NativeCalls), found
    return found


def chained(depth: int, seed: int = 0) -> Poly:
    """Products that are rescaled, one after the other."""
    ring = RingSpec(N, primes(N)[-(depth + 1) :])
    x, y = poly(seed, ring, Domain.NTT), poly(seed + 1, ring, Domain.NTT)
    for limbs in range(depth, 0, -1):
        x = (x * x + x * y.to_ring(x.ring)).rescale(ring.moduli[:limbs])
    return x


def chain(depth: int) -> Plan:
    return plan(x := chained(depth), x + 1)


@pytest.mark.parametrize("count", [5, 17, 40])
def test_a_plan_with_too_many_inputs_is_cut_before_it_is_lowered(limits, monkeypatch, count):
    needs_native()
    ring = RingSpec(N, primes(N)[-2:])
    x = [poly(i, ring, Domain.NTT) for i in range(2 * count)]
    y = x[0] * x[1]
    for a, b in zip(x[2::2], x[3::2], strict=True):
        y = (y + a) * b
    p = plan(y.intt())
    want = interpret_plan(p, arrays(p))
    limits(buffers=16)
    reasons, lowered = [], bytecode.lowering_of

    def noted(*args):
        try:
            return lowered(*args)
        except LoweringError as error:
            reasons.append(str(error))
            raise

    monkeypatch.setattr(bytecode, "lowering_of", noted)
    found = calls(p)
    assert all(len(s.ins) + len(s.outs) < 16 for s in found.segments)
    assert (len(found.segments) > 1) == (count > 5) and len(reasons) <= len(found.segments)
    run = native_runner(p.source, p.inputs, arrays(p))
    assert run is not None and same(run(arrays(p)), want)


@pytest.mark.parametrize(("rows", "kept"), [(150, None), (None, 4 * N * 6)])
def test_a_plan_beyond_the_limits_of_a_call_is_several(limits, rows, kept):
    needs_native()
    p = chain(6)
    want = interpret_plan(p, arrays(p))
    assert len(calls(p).programs) == 1
    limits(rows, kept)
    found = calls(p)
    assert len(found.programs) > 1
    assert f"runs as {len(found.programs)} native calls" in explain(p)
    run = native_runner(p.source, p.inputs, arrays(p))
    assert run is not None and len(run.steps) == len(found.segments)
    for _ in range(2):
        assert same(run(arrays(p)), want)
    assert same(jax.jit(lambda *a: once(p, a))(*arrays(p)), want)
    batch = [np.stack([np.asarray(a)] * 2) for a in arrays(p)]
    many = jax.vmap(lambda *a: once(p, a))(*batch)
    for i in range(2):
        assert same([m[i] for m in many], want)


@pytest.mark.parametrize("seed", range(6))
def test_random_plans_that_are_cut_compute_the_same(limits, monkeypatch, seed):
    needs_native()
    monkeypatch.setattr(calls_of, "LEAST_N", 16)
    p = plan(*program_polys(generate(seed, 16, 1 + seed % 4, 12 + 2 * seed)))
    want = interpret_plan(p, arrays(p))
    for rows in (40, 80, 160):
        limits(rows)
        assert same(once(p, arrays(p)), want)


def test_a_plan_that_no_cut_helps_runs_as_kernels(limits):
    needs_native()
    limits(rows=3)
    p = chain(3)
    assert isinstance(native_calls(p.source), Unsupported)
    assert same(once(p, arrays(p)), interpret_plan(p, arrays(p)))


@pytest.mark.long
def test_a_plan_of_twenty_thousand_rows_is_native():
    needs_native()
    p = plan(*(chained(36, 2 * i) for i in range(6)))
    found = calls(p)
    assert listing(p.source)["limb_program"].count("\n%") > 20_000
    assert memory_of(p).call_bytes == found.held_bytes
    assert same(once(p, arrays(p)), run_plan(p, arrays(p)))


def test_a_polynomial_of_degree_27_is_native_throughout():
    needs_native()
    ctx = ckks.context(params=ckks.Parameters.for_depth(5, n=1 << 12, security=None))
    x = ctx.encrypt(np.linspace(-1, 1, 100))
    coefficients = np.linspace(0.1, -0.1, 28)
    f = ren.jit(lambda x: ckks.poly(x, coefficients))
    want = np.polynomial.polynomial.polyval(np.linspace(-1, 1, 100), coefficients)
    np.testing.assert_allclose(f(x).decrypt(), want, atol=1e-3)
    (captured,) = f.plans
    assert captured.telemetry.tier == "graph" and "native call" in captured.explain()
    assert captured.memory.call_bytes
    source = captured.plan.source
    assert source is not None
    (program,) = native_calls(source).programs  # type: ignore[union-attr]
    limbs = [given.spec.shape[-2] for given in source.inputs]
    limbs += [root.spec.ring.limbs for root in source.sink.src]
    assert program.kept <= 3 * sum(limbs)  # rows between its phases, inputs and outputs


def test_parts_of_a_cut_program_are_whole_arrays_and_native(monkeypatch):
    """Two degrees are cut. A part without transforms is native too, with constants and joins."""
    needs_native()
    answers, usual = [], NativeBackend.compile

    def noted(self: NativeBackend, segment: Segment, args: Sequence[Any]) -> Any:
        found = usual(self, segment, args)
        if not segment.units:  # a part of a program
            answers.append(found)
        return found

    monkeypatch.setattr(NativeBackend, "compile", noted)
    small, wide = RingSpec(N, primes(N)[-2:]), RingSpec(N, primes(N)[-4:])
    other = RingSpec(2 * N, primes(2 * N)[-2:])
    a, w, s = poly(0, small), poly(1, wide), poly(2, other)

    def f(a: Poly, w: Poly, s: Poly) -> tuple[Poly, ...]:
        joined = w.to_ring(small).mod_up(small.moduli, wide)
        return s * s, a + 1, a.ntt() * 0 + 3, a.ntt() ** 0, joined, s + 1

    made, jitted = ren.realize(f(a, w, s)), ren.jit(f)(a, w, s)
    assert len(answers) >= 4 and not any(isinstance(found, Unsupported) for found in answers)
    want = f(*(p.to("python") for p in (a, w, s)))
    for got, again, exact in zip(made, jitted, want, strict=True):
        assert got.limbs.shape[-1] == got.ring.n
        assert ren.equal(got, exact.to("cpu")) and ren.equal(again, exact.to("cpu"))
    assert ren.equal(made[2].intt() * a, Poly([3], small) * a)


def test_native_code_is_switched_off_for_functions_that_were_captured(monkeypatch):
    needs_native()
    x = poly(0, RING).realize()
    answers = []
    usual = NativeBackend.compile

    def noted(self: NativeBackend, segment: Segment, args: Sequence[Any]) -> Any:
        answers.append(usual(self, segment, args))
        return answers[-1]

    for tier in ("auto", "graph", "units"):
        f = ren.jit(lambda x: (x * x).intt(), tier=tier)
        want = f(x)
        with ren.config.update(native=False):
            monkeypatch.setattr(NativeBackend, "compile", noted)
            assert ren.equal(f(x), want)
            monkeypatch.undo()
        assert ren.equal(f(x), want)
    assert answers and all(isinstance(answer, Unsupported) for answer in answers)
