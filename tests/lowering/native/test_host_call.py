"""Small native calls without XLA, against Python integers."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import ren
from ren import Domain, Poly, RingSpec
from ren.core.errors import DonatedBufferError, NativeError, OutOfMemoryError
from ren.lowering.backends.native import bytecode, host_call, library
from ren.lowering.backends.native.backend import NO_GAIN
from ren.lowering.backends.xla import jax_runtime
from ren.lowering.runtime.native_calls import NativeCalls, native_calls
from ren.lowering.runtime.runner import graph_runner, unit_runner
from tests.lowering.native.calls import compiler as compiler  # a fixture of all tests here
from tests.lowering.native.calls import ring
from tests.lowering.plans import arrays, plan, poly

RING = ring(1024, 3)
LARGE = ring(1 << 13, 12)  # arrays of more than the mebibyte that another thread is woken for
TASKS = Path("/proc/self/task")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls without XLA that are made."""
    made: list[Any] = []
    call = host_call.HostCall.__call__

    def noted(self: Any, given: Any) -> Any:
        made.append(self)
        return call(self, given)

    monkeypatch.setattr(host_call.HostCall, "__call__", noted)
    return made


def sums(ring: RingSpec, batch: tuple[int, ...] = ()) -> tuple[Any, Any]:
    """Two polynomials, and the residues of their sum by Python's integers."""
    x, y = poly(0, ring, batch=batch), poly(1, ring, batch=batch)
    total = np.asarray(x.limbs).astype(object) + np.asarray(y.limbs).astype(object)
    return (x, y), total % np.array(ring.moduli, object)[:, None]


@pytest.mark.parametrize("batch", [(), (3,), (2, 1)], ids=str)
def test_a_small_sum_is_called_without_xla(calls, batch):
    (x, y), want = sums(RING, batch)
    assert np.array_equal(np.asarray((x + y).limbs).astype(object), want)
    assert len(calls) == 1


def threads_by_name() -> list[str]:
    return [task.joinpath("comm").read_text().strip() for task in TASKS.iterdir()]


@pytest.mark.skipif(not TASKS.is_dir(), reason="the system does not list threads there")
def test_a_thread_of_its_own_works_on_large_arrays(calls):
    """Caches of the core that called keep what Python has in them."""
    (x, y), want = sums(LARGE)
    assert np.array_equal(np.asarray((x + y).limbs).astype(object), want)
    assert calls
    assert threads_by_name().count("ren-helper") == (len(os.sched_getaffinity(0)) > 1)


def test_callers_at_once_have_their_own_results(calls):
    """One of them has the other thread work, and the others work themselves."""
    pairs = [(poly(i, LARGE).realize(), poly(i + 1, LARGE).realize()) for i in range(4)]
    moduli = np.array(LARGE.moduli)[:, None]
    together = threading.Barrier(4)

    def work(i: int) -> bool:
        x, y = pairs[i]
        want = (np.asarray(x.limbs).astype(np.int64) + np.asarray(y.limbs)) % moduli
        together.wait()
        return all(np.array_equal((x + y).limbs, want) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
    assert calls


def test_what_is_large_goes_through_xla(calls):
    (x, y), want = sums(ring(1 << 15, 40))
    assert np.array_equal(np.asarray((x + y).limbs).astype(object), want)
    assert not calls


def test_small_sums_are_one_call_and_large_ones_are_left_to_xla():
    def calls_of(ring: RingSpec) -> Any:
        x, y = poly(0, ring), poly(1, ring)
        return native_calls(plan(x + y, x - y, -x).source)

    small = calls_of(RING)
    assert isinstance(small, NativeCalls) and len(small.programs) == 1 and not small.has_gain
    assert calls_of(ring(1 << 15, 40)) is NO_GAIN  # its nodes tell
    for limbs in (20, 24, 28, 32, 36, 40):  # up to twice as long it is lowered first
        found, nodes = calls_of(ring(1 << 12, limbs)), 3 * limbs << 12
        is_small = nodes * bytecode.SECONDS_PER_MULTIPLY_ADD <= bytecode.MOST_SECONDS
        assert isinstance(found, NativeCalls) == is_small


def test_under_a_trace_small_sums_are_left_to_xla(calls):
    x, y = poly(0, RING).realize(), poly(1, RING).realize()
    text = str(jax.make_jaxpr(lambda x, y: x + y)(x, y))
    assert "ffi_call" not in text and not calls


def test_pages_do_not_wait_for_a_compiler(calls, monkeypatch):
    monkeypatch.setattr(library, "usable", None)  # it would build the library
    with ren.config.update(native="auto"):
        (x, y), want = sums(ring(128, 3))
        assert np.array_equal(np.asarray((x + y).limbs).astype(object), want)
    assert not calls


@pytest.mark.parametrize("is_bound", [False, True])
def test_results_are_where_those_of_xla_are(calls, is_bound):
    device = jax.devices()[0]
    place = device if is_bound else None
    p = plan(poly(0, RING) + 1, poly(1, RING) * poly(2, RING))
    inputs = [jax.device_put(a, place) for a in arrays(p)]
    found = graph_runner(p)(inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bytecode, "MOST_SECONDS", 0.0)
        want = graph_runner(p)(inputs)
    assert calls and all(isinstance(a, jax.Array) for a in found)
    for a, b in zip(found, want, strict=True):
        assert (a.sharding, a.committed, a.aval) == (b.sharding, b.committed, b.aval)
        assert np.array_equal(a, b)


def test_results_go_on_into_jax(calls):
    x, y = poly(0, RING).realize(), poly(1, RING).realize()
    made = (x + y).limbs
    assert calls
    doubled = jax.jit(lambda a: a ^ a, donate_argnums=0)(made)
    assert not np.asarray(doubled).any() and made.is_deleted()


def test_a_value_that_was_given_away_is_refused(calls):
    give = ren.jit(lambda x: x + 1, donate_argnums=0)
    x, y = poly(0, RING).realize(), poly(1, RING).realize()
    runner = unit_runner(p := plan(x + y))
    inputs = arrays(p)
    runner(inputs)
    give(x)
    with pytest.raises(DonatedBufferError):
        (x + y).realize()
    inputs[0].delete()
    with pytest.raises(DonatedBufferError, match="was donated"):
        runner(inputs)


def test_an_array_that_waits_is_waited_for(calls):
    """Inputs that XLA is still computing are read when they are done."""
    n = 1 << 11
    r = ring(n, 2)
    slow = jax.jit(lambda a: jax.lax.fori_loop(0, 200, lambda i, b: (b * 5 + 1) % 97, a))
    start = jax.numpy.asarray(np.ones((2, n), np.uint32))
    x = Poly.from_limbs(slow(start), r, Domain.COEFF)
    want = np.asarray(slow(start)).astype(object) * 2 % np.array(r.moduli, object)[:, None]
    assert np.array_equal(np.asarray((x + x).limbs).astype(object), want)
    assert calls


def test_threads_share_a_call():
    x, y = poly(0, RING).realize(), poly(1, RING).realize()
    f = ren.jit(lambda x, y: (x + y, x - y))
    want = [np.asarray(p.limbs) for p in f(x, y)]
    together = threading.Barrier(4)

    def work(_: int) -> bool:
        together.wait()
        made = [f(x, y) for _ in range(50)]
        return all(
            np.array_equal(p.limbs, w) for pair in made for p, w in zip(pair, want, strict=True)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_a_thread_that_donates_changes_no_result():
    """Another thread may give a value away while a call reads it: its memory stays as it is."""
    x = poly(0, RING).limbs
    before = np.array(x)
    view = memoryview(x)
    jax.jit(lambda a: a + 1, donate_argnums=0)(x).block_until_ready()
    assert np.array_equal(np.asarray(view), before)


@pytest.mark.parametrize("guard", ["disallow", "disallow_explicit"])
def test_nothing_is_transferred(calls, guard):
    x, y = poly(0, RING).realize(), poly(1, RING).realize()
    (x + y).realize()
    with jax.transfer_guard(guard):
        made = (y + x).realize()
    assert len(calls) == 2 and ren.equal(made, x + y)


def test_what_a_guard_refuses_is_said_by_jax():
    ring = RingSpec(1024, RING.moduli[:2])  # its tables are new
    x, y = poly(0, ring).realize(), poly(1, ring).realize()
    with jax.transfer_guard("disallow_explicit"), pytest.raises(RuntimeError, match="Disallowed"):
        ren.jit(lambda x, y: x * y.rotate(3))(x, y).realize()


def test_a_jax_without_its_private_names(calls, monkeypatch):
    """Results are put by the public call."""
    monkeypatch.setattr(jax_runtime, "is_supported", lambda: False)
    (x, y), want = sums(RING)
    made = graph_runner(p := plan(x + y))(arrays(p))[0]
    assert calls and np.array_equal(np.asarray(made).astype(object), want)


@pytest.mark.parametrize("times", [1, 2])
def test_memory_that_jax_gives_back_late_is_collected_first(calls, monkeypatch, times):
    (x, y), want = sums(RING)
    failures, empty = [], np.empty

    def scarce(*args: Any) -> Any:
        if len(failures) < times:
            failures.append(args)
            raise MemoryError
        return empty(*args)

    collected = []
    monkeypatch.setattr(jax_runtime.np, "empty", scarce)
    monkeypatch.setattr(jax_runtime.gc, "collect", lambda: collected.append(len(failures)))
    if times == 1:
        assert np.array_equal(np.asarray((x + y).limbs).astype(object), want)
    else:
        with pytest.raises(OutOfMemoryError, match=r"test_host_call.py:\d+ needs \d+ bytes"):
            (x + y).realize()
    assert collected == [1] and calls


def test_memory_that_xla_lacks_is_said(calls, monkeypatch):
    (x, y), _ = sums(RING)
    runner = graph_runner(p := plan(x + y))
    runner(arrays(p))
    text = "RESOURCE_EXHAUSTED: Out of memory allocating 576 bytes.\nmore"

    def broken(*_: Any) -> Any:
        raise jax.errors.JaxRuntimeError(text)

    monkeypatch.setattr(calls[0], "_run", broken)
    with pytest.raises(OutOfMemoryError, match=r"allocating 576 bytes\.\nA program needs"):
        runner(arrays(p))


def test_a_call_that_fails_says_so(calls, monkeypatch):
    (x, y), _ = sums(RING)
    runner = graph_runner(p := plan(x + y))
    runner(arrays(p))
    monkeypatch.setattr(calls[0], "_run", lambda *_: b"out of luck")
    with pytest.raises(NativeError, match="out of luck"):
        runner(arrays(p))
