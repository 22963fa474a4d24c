"""ren.submit: results, context, errors, the bound on waiting calls, and the end of the program."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, wait
from contextvars import ContextVar
from pathlib import Path

import jax
import numpy as np
import pytest

import ren
from ren import Poly, RingSpec
from ren.capture import submit as submitting
from ren.schemes import ckks

ROOT = Path(__file__).resolve().parents[1]
RING = RingSpec(n=8, moduli=(17, 97))
A, B = list(range(1, 9)), list(range(8, 0, -1))
LIMIT = 60  # seconds after which a test has hung


@pytest.fixture
def one_worker(monkeypatch) -> Iterator[submitting.Pool]:
    """One call at a time, three that wait."""
    pool = submitting.Pool()
    monkeypatch.setattr(submitting, "_pool", pool)
    with ren.config.update(submit_workers=1, submit_max_waiting=3):
        yield pool


class Gate:
    """A call that says when it has begun, and goes on when told."""

    def __init__(self) -> None:
        self.begun, self.open = threading.Event(), threading.Event()

    def __call__(self, value=None):
        self.begun.set()
        assert self.open.wait(LIMIT)
        return value


def test_results_come_as_futures():
    future = ren.submit(lambda x, *, y: x - y, Poly(A, RING), y=Poly(B, RING))
    assert isinstance(future, Future)
    assert ren.equal(future.result(LIMIT), Poly(A, RING) - Poly(B, RING))
    assert ren.submit(divmod, 17, 5).result(LIMIT) == (3, 2)
    assert ren.submit(int).result(LIMIT) == 0


def test_lazy_polynomials_of_the_result_are_computed():
    x = Poly(A, RING)
    result = ren.submit(lambda: {"sum": (x + 1, "text"), "all": [x * x, x, Poly.const(3, RING)]})
    made = result.result(LIMIT)
    assert made["sum"][0].is_realized and made["all"][0].is_realized
    assert made["sum"][1] == "text" and made["all"][2].is_constant
    assert ren.equal(made["all"][0], x * x)


def test_a_result_without_polynomials_comes_as_it_is():
    value = {"list": [1, 2], "set": {3}}
    assert ren.submit(lambda: value).result(LIMIT) is value


def test_another_thread_runs_it():
    assert ren.submit(threading.get_ident).result(LIMIT) != threading.get_ident()


def test_one_plan_serves_all_calls():
    square = ren.jit(lambda x: x * x + 1)
    square(Poly(A, RING))
    polys = [Poly([i, 1], RING) for i in range(40)]
    futures = [ren.submit(square, p) for p in polys]
    for p, future in zip(polys, futures, strict=True):
        assert ren.equal(future.result(LIMIT), p * p + 1)
    assert square.cache_info()[:3] == (40, 1, 1)


def test_context_variables_are_those_of_the_caller():
    variable: ContextVar[int] = ContextVar("variable", default=0)
    variable.set(5)
    future = ren.submit(lambda: (variable.get(), variable.set(7)))
    variable.set(6)
    assert future.result(LIMIT)[0] == 5
    assert variable.get() == 6
    assert ren.submit(variable.get).result(LIMIT) == 6


def test_the_active_ckks_context_is_there():
    params = ckks.Parameters.for_depth(1, n=1 << 6, security=None)
    owner = ckks.context(params=params)
    other = ckks.context(params=params)
    x = owner.encrypt([1.0, 2.0, 3.0])
    square = ren.submit(lambda: x * x).result(LIMIT)
    assert all(p.is_realized for p in square.polys)
    assert square.decrypt().round(2).tolist() == [1, 4, 9]
    with owner:
        inside = ren.submit(lambda: (x + 1).decrypt().round(2).tolist())
    assert inside.result(LIMIT) == [2, 3, 4]
    with other:
        refused = ren.submit(lambda: x * x)
    with pytest.raises(ren.errors.ContextError, match="is active"):
        refused.result(LIMIT)


def broken(x):
    raise LookupError(f"not here: {x}")


def test_exceptions_keep_their_traceback():
    error = ren.submit(broken, 3).exception(LIMIT)
    assert isinstance(error, LookupError) and str(error) == "not here: 3"
    assert traceback.extract_tb(error.__traceback__)[-1].name == "broken"
    with pytest.raises(LookupError, match="not here: 4"):
        ren.submit(broken, 4).result(LIMIT)
    assert ren.submit(int, "5").result(LIMIT) == 5


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_ends_a_program_ends_no_worker(one_worker, kind):
    def leave():
        raise kind

    with pytest.raises(kind):
        ren.submit(leave).result(LIMIT)
    assert ren.submit(int).result(LIMIT) == 0


def test_an_error_while_the_result_is_computed_is_in_the_future():
    x, y = Poly(A, RING), Poly(B, RING).to("python")
    with pytest.raises(ren.errors.DeviceError, match="two devices"):
        ren.submit(lambda: x + y).result(LIMIT)


def test_calls_run_in_order_and_wait_for_a_worker(one_worker):
    gate, order = Gate(), []
    first = ren.submit(gate, "first")
    rest = [ren.submit(order.append, i) for i in range(3)]
    assert gate.begun.wait(LIMIT)
    assert not any(f.done() for f in (first, *rest)) and order == []
    gate.open.set()
    wait([first, *rest], LIMIT)
    assert (first.result(LIMIT), order) == ("first", [0, 1, 2])


def test_settings_say_how_many_calls_run_at_a_time(one_worker):
    first, second, third = Gate(), Gate(), Gate()
    futures = [ren.submit(first)]
    assert first.begun.wait(LIMIT)
    with ren.config.update(submit_workers=2):
        futures.append(ren.submit(second))
        assert second.begun.wait(LIMIT) and one_worker.running == 2
    futures.append(ren.submit(third))
    first.open.set()
    futures[0].result(LIMIT)
    while one_worker.running == 2:  # its thread ends, as one is the bound again
        assert not third.begun.wait(0.01)
    assert not third.begun.is_set() and len(one_worker.waiting) == 1
    second.open.set()
    assert third.begun.wait(LIMIT)
    third.open.set()
    wait(futures, LIMIT)


POOL = """
import threading, ren

together, last = threading.Barrier(3, timeout=30), threading.Event()
futures = [ren.submit(together.wait) for _ in range(3)]
late = ren.submit(last.set)
[future.result(30) for future in futures], late.result(30)
gate, begun = threading.Event(), threading.Semaphore(0)

def held():
    begun.release()
    gate.wait(30)

held = [ren.submit(held) for _ in range(4)]
for _ in range(3):
    assert begun.acquire(timeout=30)
assert not begun.acquire(timeout=0.2)
gate.set()
print(ren.config.submit_workers)
"""


@pytest.mark.long
def test_the_environment_gives_the_size_of_the_pool():
    env = {**os.environ, "PYTHONPATH": str(ROOT), "REN_SUBMIT_WORKERS": "3"}
    command = [sys.executable, "-W", "error", "-c", POOL]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


def test_beyond_the_bound_submit_waits(one_worker):
    gate = Gate()
    ren.submit(gate)
    assert gate.begun.wait(LIMIT)
    waiting = [ren.submit(int) for _ in range(3)]
    came_back = threading.Event()
    more: list[Future] = []

    def beyond() -> None:
        more.append(ren.submit(int))
        came_back.set()

    thread = threading.Thread(target=beyond)
    thread.start()
    assert not came_back.wait(0.1)
    assert len(one_worker.waiting) == 3
    gate.open.set()
    assert came_back.wait(LIMIT)
    thread.join()
    assert [f.result(LIMIT) for f in waiting + more] == [0] * 4


def test_a_waiting_call_can_be_cancelled(one_worker):
    gate, ran = Gate(), []
    first = ren.submit(gate)
    second = ren.submit(ran.append, 1)
    assert gate.begun.wait(LIMIT)
    assert second.cancel() and not first.cancel()
    gate.open.set()
    assert ren.submit(int).result(LIMIT) == 0
    with pytest.raises(CancelledError):
        second.result(LIMIT)
    assert ran == []


def test_a_call_inside_a_call_does_not_wait_for_a_worker(one_worker):
    def outer(depth: int) -> int:
        return 1 + ren.submit(outer, depth - 1).result(LIMIT) if depth else 0

    assert ren.submit(outer, 5).result(LIMIT) == 5
    inner = ren.submit(lambda: ren.submit(lambda: Poly(A, RING) + 1)).result(LIMIT)
    assert inner.result(LIMIT).is_realized


@pytest.mark.long
def test_workers_end_and_keep_nothing(one_worker):
    class Value:
        pass

    future = ren.submit(lambda value: Value(), Value())
    gone = weakref.ref(future.result(LIMIT))
    del future
    for thread in threading.enumerate():
        if thread.name == "ren.submit":
            thread.join(LIMIT)
    assert one_worker.running == 0
    gc.collect()
    assert gone() is None


def test_a_future_can_be_awaited():
    async def run():
        futures = [asyncio.wrap_future(ren.submit(pow, i, 2)) for i in range(5)]
        return await asyncio.gather(*futures)

    assert asyncio.run(run()) == [0, 1, 4, 9, 16]


def test_it_is_refused_while_a_program_is_recorded():
    x = Poly(A, RING)

    def inside(p):
        return ren.submit(lambda: p + 1).result(LIMIT)

    for transformed in (ren.jit(inside), ren.djit(inside), jax.jit(inside)):
        with pytest.raises(ren.errors.JitError, match="captured or traced") as e:
            transformed(x)
        assert e.value.needed and e.value.do
    with pytest.raises(ren.errors.JitError, match="captured or traced"):
        jax.vmap(inside)(Poly(np.array([A, B]), RING))


def test_only_functions_are_submitted():
    with pytest.raises(ren.errors.JitError, match="got a Poly") as e:
        ren.submit(Poly(A, RING))
    assert e.value.needed and e.value.do


END = r"""
import threading, time
import ren
from ren import Poly, RingSpec

ren.config.update(submit_workers=2, submit_max_waiting=8)
begun = [threading.Event(), threading.Event()]

def slow(i, end):
    begun[i].set()
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    square = Poly([1, 2, 3], RingSpec(8, (17, 97)))
    print(f"ran {(square * square).tolist()[0]}\n", end="", flush=True)

running = [ren.submit(slow, i, 0) for i in range(2)]
waiting = [ren.submit(print, "never", flush=True) for _ in range(8)]
waiting[0].add_done_callback(lambda f: print(f"cancelled {f.cancelled()}\n", end="", flush=True))
assert all(event.wait(30) for event in begun)

def more():
    try:
        ren.submit(print, "never")
    except ren.errors.JitError as error:
        print(f"refused {error.given}\n", end="", flush=True)

threading.Thread(target=more).start()
"""


@pytest.mark.long
def test_the_end_of_the_program():
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", END],
        env=env, capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    refused = "refused ren.submit was called after the main thread had ended."
    assert sorted(done.stdout.splitlines()) == ["cancelled True", "ran 1", "ran 1", refused]
