"""The thread that compiles: in order, only while there is work, harmless at exit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import wait
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from ren.lowering.runtime.tiers.compile_thread import CompileThread

ROOT = str(Path(__file__).parent.parent.parent)


def nothing() -> None:
    pass


def test_jobs_run_in_order_in_one_thread_that_ends():
    worker, order, told = CompileThread(), [], []
    gate = threading.Event()
    jobs = [worker.submit(gate.wait, nothing)]
    for i in range(5):
        work = lambda i=i: order.append((i, threading.current_thread()))  # noqa: E731
        jobs.append(worker.submit(work, lambda i=i: told.append(i)))
    assert not any(job.done() for job in jobs)
    assert not wait([jobs[-1]], 0).done
    gate.set()
    assert not wait(jobs, 10).not_done
    (thread,) = {t for _, t in order}
    thread.join(10)
    assert not thread.is_alive() and not thread.daemon
    assert [i for i, _ in order] == told == list(range(5))
    again = worker.submit(lambda: 7, nothing)
    assert again.result(10) == 7


def test_an_exception_is_the_jobs_and_the_thread_goes_on():
    worker = CompileThread()

    def broken():
        raise KeyError("broken")

    first, second = worker.submit(broken, nothing), worker.submit(lambda: 3, nothing)
    assert isinstance(first.exception(10), KeyError)
    assert (second.exception(10), second.result()) == (None, 3)


def test_the_thread_has_64_bit_types_of_its_own():
    job = CompileThread().submit(lambda: jnp.zeros(1, "uint64").dtype, nothing)
    assert job.result(30) == "uint64"
    assert not jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]


def run(program: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k != "CI"} | {"PYTHONPATH": ROOT}
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


AT_EXIT = """
import threading, time
from ren.lowering.runtime.tiers.compile_thread import CompileThread
worker, began = CompileThread(), threading.Event()
worker.submit(lambda: (began.set(), time.sleep(0.5), print("ended")), lambda: None)
worker.submit(lambda: print("never"), lambda: print("told"))
began.wait()
"""


@pytest.mark.long
def test_exit_waits_for_the_job_that_runs_and_drops_the_others():
    done = run(AT_EXIT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["ended", "told"]


WHILE_COMPILING = """
import jax, ren
ren.config.native = False  # small native calls are not compiled
ring = ren.RingSpec(64, (257, 641))
x = ren.Poly(range(64), ring).realize()
f = ren.jit(lambda x: (x * x).rescale((257,)).to_ring(ring) * x)
want = f(x).tolist()
began = []
compile = jax.stages.Lowered.compile
def slow(*args, **kwargs):
    began.append(1)
    made = compile(*args, **kwargs)
    print("compiled", flush=True)
    return made
jax.stages.Lowered.compile = slow
plan = f.plans[0]
while not plan.wait(0.001) and not began:
    pass
assert plan.telemetry.state == "compiling", plan.telemetry
"""


@pytest.mark.slow
def test_a_process_that_exits_while_a_graph_is_compiled_ends_well():
    done = run(WHILE_COMPILING)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["compiled"]
