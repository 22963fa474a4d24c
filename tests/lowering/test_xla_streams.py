"""Streams: which units run beside each other, and that nobody can tell from the results."""

import jax
import numpy as np
import pytest

import ren
from ren import Poly, RingSpec
from ren.lowering.backends.native import library
from ren.lowering.backends.xla import jax_runtime as runtime
from ren.lowering.runtime import xla_streams as streams
from ren.lowering.runtime.runner import run_plan, unit_runner
from tests.lowering import plans
from tests.lowering.plans import arrays, plan
from tests.rings import primes

RING = RingSpec(1 << 13, primes(1 << 13)[-4:])
needs_streams = pytest.mark.skipif(not runtime.has_streams(), reason="another JAX")


def poly(seed: int) -> Poly:
    return plans.poly(seed, RING)


def two_chains():
    """Two chains of transforms that meet in the end."""
    x, y = ((p.ntt() * p.ntt()).intt() + 1 for p in (poly(1), poly(2)))
    return plan((x.ntt() * y.ntt()).intt())


def test_a_chain_stays_in_its_stream_and_the_other_runs_beside_it():
    p = two_chains()
    found = streams.streams_of(p, 2)
    assert set(found) == {0, 1}
    stream = {v: found[i] for i, unit in enumerate(p.units) for v in unit.outs}
    crossings = [
        (v, unit) for unit, at in zip(p.units, found, strict=True)
        for v in unit.ins if stream.get(v, at) != at
    ]  # fmt: skip
    assert len(crossings) == 1
    assert streams.streams_of(p, 1) == ()


def test_work_that_streams_would_hardly_save_has_none():
    small = RingSpec(8, (17, 97))
    x, y = (Poly([i, 1, 2, 3, 4, 5, 6, 7], small) for i in (1, 2))
    p = plan((x.ntt() * x.ntt()).intt() + (y.ntt() * y.ntt()).intt())
    assert streams.streams_of(p, 4) == ()


@pytest.mark.long
@needs_streams
def test_streams_give_the_same_residues_and_leave_the_thread_its_own(monkeypatch):
    monkeypatch.setattr(streams, "threads", lambda: 3)
    with ren.config.update(native=False):
        p = two_chains()
        want = np.asarray(run_plan(p, arrays(p))[0])
        assert set(streams.streams_for(p, arrays(p))) == {0, 1}
        run, own = unit_runner(p), runtime.stream()
        for _ in range(8):
            many = [run(arrays(p)) for _ in range(4)]
            assert runtime.stream() == own
            for (got,) in many:
                np.testing.assert_array_equal(np.asarray(got), want)


@needs_streams
def test_a_failure_leaves_the_thread_its_own_stream(monkeypatch):
    monkeypatch.setattr(streams, "threads", lambda: 2)
    with ren.config.update(native=False):
        p = two_chains()
        run, own = unit_runner(p), runtime.stream()
        given = [jax.device_put(np.asarray(a)) for a in arrays(p)]
        run(given)
        given[0].delete()
        with pytest.raises(Exception, match=r"deleted|donated|given away"):
            run(given)
        assert runtime.stream() == own


def test_native_kernels_copies_and_one_core_have_no_streams(monkeypatch):
    monkeypatch.setattr(streams, "threads", lambda: 1)
    p = two_chains()
    assert streams.streams_for(p, arrays(p)) == ()
    monkeypatch.setattr(streams, "threads", lambda: 2)
    monkeypatch.setattr(library, "usable", lambda: library.Outcome("some"))
    assert streams.streams_for(p, arrays(p)) == ()
    moved = plan((poly(1).ntt().to("python").intt()).ntt())
    monkeypatch.setattr(library, "usable", lambda: library.Outcome(reason="none"))
    assert streams.streams_for(moved, arrays(moved)) == ()
