"""What a plan reports of its memory where it is one call of native code."""

from __future__ import annotations

import numpy as np
import pytest

import ren
from ren import Domain, Poly, RingSpec
from ren.lowering.backends.base import Unsupported
from ren.lowering.backends.native import library
from ren.lowering.devices.devices import threads
from ren.lowering.inspect.explain import explain
from ren.lowering.inspect.memory_report import memory_of, units_report
from ren.lowering.plan.cost import native_seconds
from ren.lowering.plan.plan import Plan
from ren.lowering.runtime.native_calls import NativeCalls, native_calls
from ren.poly.batching import stacked
from tests.lowering.plans import plan, poly
from tests.rings import primes

N = 4096


@pytest.fixture(autouse=True)
def compiler():
    """The tests need the library, whatever the setting is elsewhere."""
    if library.outcome().reason:
        pytest.skip(library.outcome().reason)
    with ren.config.update(native=True):
        yield


def products(batch=(), steps: int = 1) -> Plan:
    ring = RingSpec(N, primes(N)[-(steps + 1) :])
    x = poly(0, ring, Domain.NTT, batch=batch)
    for limbs in range(steps, 0, -1):
        x = (x * x).rescale(ring.moduli[:limbs])
    return plan(x)


def header(p: Plan) -> tuple[int, int, int]:
    """Phases, rows of a task and rows between phases, as the call reads them."""
    calls = native_calls(p.source)
    assert isinstance(calls, NativeCalls)
    (words,) = calls.programs[0].tables[-1].build()
    return tuple(map(int, words[:3]))  # type: ignore[return-value]


def test_the_peak_is_what_the_call_holds_and_returns():
    p = products()
    call, report = native_calls(p.source), memory_of(p)
    phases, own, kept = header(p)
    assert isinstance(call, NativeCalls) and call.phases == phases
    assert report.call_bytes == call.held_bytes
    assert 4 * N * (kept + own) <= call.held_bytes <= 4 * N * (kept + own * threads())
    assert report.peak_bytes == report.output_bytes + call.held_bytes
    assert report.donated_bytes == 0 and report.measured_bytes is None
    assert "held by native calls" in str(report)
    assert f"one native call of {phases} phases" in explain(p)
    assert f"estimated {native_seconds(p) * 1e3:.3f} ms" in explain(p)


def test_kernels_are_reported_where_they_run():
    p = products()
    with ren.config.update(native=False):
        assert memory_of(p) == units_report(p) and memory_of(p).call_bytes is None
        assert "kernel by kernel" in explain(p)
    small = plan(poly(0) * poly(1))
    assert isinstance(native_calls(small.source), Unsupported)
    assert "kernel by kernel" in explain(small)


def test_a_batch_holds_as_much_as_threads_work_on():
    one, many = native_calls(products().source), native_calls(products(batch=(64,)).source)
    assert isinstance(one, NativeCalls) and isinstance(many, NativeCalls)
    assert one.held_bytes <= many.held_bytes <= threads() * one.held_bytes


def test_rows_are_used_again_once_their_last_reader_is_done():
    short, long = header(products(steps=6)), header(products(steps=12))
    assert long[0] == 2 * short[0] - 1  # phases
    assert long[2] <= 2 * short[2] + 2  # the rows of the widest phases, not of all
    total = sum(limbs + 1 for limbs in range(1, 13))
    assert long[2] < total


def test_a_plan_on_the_python_device_is_no_call():
    x = poly(0, RingSpec(N, primes(N)[-2:])).to("python")
    p = plan(x * x)
    assert isinstance(native_calls(p.source), Unsupported)
    np.testing.assert_array_equal(ren.realize(x * x).limbs, (x * x).to("cpu").limbs)


@pytest.mark.parametrize("value", [0, 5])
def test_a_constant_beside_other_rows_is_transformed(value):
    """Of it one number stands for a row, which transforms and conversions read whole."""
    ring = RingSpec(N, primes(N)[-3:])
    x = poly(0, ring, Domain.NTT)

    def f(x: Poly) -> Poly:
        return stacked([x, (x * 0 + value).ntt()]).intt().rescale(ring.moduli[:2])

    with ren.config.update(native=False):
        expected = ren.jit(f)(x)
    run = ren.jit(f)
    assert np.array_equal(run(x).limbs, expected.limbs)
    assert isinstance(native_calls(run.plans[0].plan.source), NativeCalls)
