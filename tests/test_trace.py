"""ren.trace(): what is recorded, where, and that it changes nothing."""

from __future__ import annotations

import threading

import jax
import numpy as np
import pytest

import ren
from ren import Poly, RingSpec

RING = RingSpec(8, (17, 97))


def polys() -> tuple[Poly, Poly]:
    return Poly(range(8), RING), Poly(range(8, 0, -1), RING)


def test_every_unit_that_runs_is_recorded():
    x, y = polys()
    with ren.trace() as trace:
        ((x + y).ntt() * 3).realize()
    assert [r.name for r in trace.records] == ["ADD", "NTT", "MUL"]
    assert [r.shapes for r in trace.records] == [((2, 8),)] * 3
    assert [r.bytes for r in trace.records] == [192, 128, 128]
    assert all(r.seconds > 0 for r in trace.records)
    assert trace.seconds == sum(r.seconds for r in trace.records)


def test_replays_are_recorded_unit_by_unit():
    step = ren.jit(tier="units")(lambda x, y: (x + y) * (x - 1))
    x, y = polys()
    want = step(x, y)
    with ren.trace() as trace:
        got = [step(x, y) for _ in range(3)]
    assert all(ren.equal(g, want) for g in got)
    units = step.plans[0].plan.units
    assert [r.unit for r in trace.records] == [*units] * 3
    mean = trace.mean_seconds(units[0])
    assert mean == sum(r.seconds for r in trace.records if r.unit is units[0]) / 3
    other = (x * 5).realize()
    assert other.is_realized and len(trace.records) == 3 * len(units)


def test_nothing_is_recorded_outside_and_nothing_is_lost_after_an_error():
    x, _ = polys()
    with pytest.raises(ZeroDivisionError), ren.trace() as trace:
        (x + 1).realize()
        raise ZeroDivisionError
    (x + 2).realize()
    assert len(trace.records) == 1


def test_an_inner_trace_records_alone():
    x, _ = polys()
    with ren.trace() as outer:
        (x + 1).realize()
        with ren.trace() as inner:
            (x + 2).realize()
        (x + 3).realize()
    assert (len(outer.records), len(inner.records)) == (2, 1)


def test_threads_have_traces_of_their_own():
    x, y = polys()
    found: dict[int, int] = {}
    go = threading.Barrier(3)

    def work(count: int) -> None:
        with ren.trace() as trace:
            go.wait()
            for k in range(count):
                (x + y + k + 1).realize()
        found[count] = len(trace.records)

    with ren.trace() as here:
        threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert found == {1: 1, 2: 2, 3: 3}
    assert here.records == ()


def test_the_numpy_device_and_copies_are_recorded():
    x, _ = polys()
    host = x.to("python")
    with ren.trace() as trace:
        (host + 1).realize()
    assert [r.name for r in trace.records] == ["COPY to python", "ADD"]


def test_what_jax_traces_is_not_recorded():
    x, _ = polys()

    def f(limbs: jax.Array) -> jax.Array:
        return (Poly.from_limbs(limbs, RING) + 1).limbs

    with ren.trace() as trace:
        got = jax.jit(f)(x.limbs)
        jax.vmap(f)(x.limbs[None])
    assert trace.records == ()
    assert np.array_equal(got, f(x.limbs))


def test_a_trace_prints_as_a_table():
    x, y = polys()
    with ren.trace() as trace:
        assert repr(trace) == "<Trace: 0 units, 0.000 ms>"
        (x + y).ntt().realize()
    head, first, second, total = str(trace).splitlines()
    assert head.split() == ["unit", "shapes", "bytes", "time"]
    assert first.split()[:2] == ["0", "ADD"] and "[2, 8]" in first
    assert second.split()[:2] == ["1", "NTT"] and second.endswith(" ms")
    assert "320 B" in total


def test_units_have_names_in_profiles(tmp_path):
    x, y = polys()
    step = ren.jit(lambda x, y: (x + y).ntt() * 3)
    step(x, y)
    with jax.profiler.trace(str(tmp_path)):
        jax.block_until_ready(step(x, y))
    (profile,) = tmp_path.rglob("*.xplane.pb")
    data = profile.read_bytes()
    assert b"ADD" in data and b"NTT" in data
