"""Runs that are planned at more memory than is free."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

import ren
from ren.config import config
from ren.core.errors import OutOfMemoryError
from ren.lowering.devices.cores import free_bytes
from ren.lowering.runtime import free_memory
from ren.schemes import ckks
from tests.lowering.test_cores import DIVIDED, UNIFIED, files

INFO = {"meminfo": "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 4000 kB"}
V1 = "memory/a/memory."


@pytest.mark.parametrize(
    ("texts", "want"),
    [
        ({}, math.inf),
        (INFO, 4000 * 1024),
        ({**UNIFIED, "a/b/memory.max": "max", "a/b/memory.current": "5"}, math.inf),
        ({**UNIFIED, "a/b/memory.max": "900", "a/b/memory.current": "300"}, 600),
        ({**UNIFIED, "a/memory.max": "900", "a/memory.current": "300", **INFO}, 600),
        ({**UNIFIED, "memory.max": "9000000", "memory.current": "0", **INFO}, 4000 * 1024),
        (
            {
                **UNIFIED, "a/b/memory.max": "900", "a/b/memory.current": "800",
                "a/b/memory.stat": "anon 500\ninactive_file 250\nactive_file 50",
            },
            350,
        ),
        ({**UNIFIED, "a/b/memory.max": "900", "a/b/memory.current": "1000"}, 0),
        ({**UNIFIED, "a/b/memory.max": "", "a/b/memory.current": "x"}, math.inf),
        ({**DIVIDED, V1 + "limit_in_bytes": "700", V1 + "usage_in_bytes": "100"}, 600),
        (
            {
                **DIVIDED, V1 + "limit_in_bytes": "700", V1 + "usage_in_bytes": "600",
                V1 + "stat": "inactive_file 7\ntotal_inactive_file 40",
            },
            140,
        ),
    ],
)  # fmt: skip
def test_the_least_room_of_machine_and_groups_counts(tmp_path, texts, want):
    assert free_bytes(**files(tmp_path, texts), memory=tmp_path / "meminfo") == want


@pytest.fixture
def free(monkeypatch):
    """What the system says is free, in bytes; reads are counted. Every run is checked."""
    said = {"bytes": math.inf, "reads": 0}

    def read():
        said["reads"] += 1
        return said["bytes"]

    monkeypatch.setattr(free_memory, "free_bytes", read)
    monkeypatch.setattr(free_memory, "LEAST", 0)
    return said


def squared(x):
    return x * x + x.rotate(1)


@pytest.mark.parametrize("native", [True, False])
def test_a_run_that_does_not_fit_raises_before_anything_runs(free, native):
    ctx, v = ckks.context(depth=1), np.linspace(-1, 1, 10)
    with config.update(native=native):
        x, jitted = ctx.encrypt(v), ren.jit(squared)
        needed = ckks.plan(squared, ckks.spec(10)).peak_bytes
        made = jitted(x)  # its inputs are there already
        planned = jitted.plans[0].memory.peak_bytes
        assert 0 < planned < needed
        for function in (jitted, ren.jit(lambda x: squared(x))):
            free["bytes"] = planned - 1
            with pytest.raises(OutOfMemoryError, match="by its plan") as caught:
                jax.block_until_ready(function(x))
            assert f"{planned / 2**20:.2f}"[:3] in str(caught.value)
            assert "check_memory = False" in caught.value.do and "memory=" in caught.value.do
            with config.update(check_memory=False):
                assert np.abs(function(x).decrypt() - made.decrypt()).max() < 1e-6
            free["bytes"] = planned
            assert np.abs(function(x).decrypt() - made.decrypt()).max() < 1e-6


def test_a_run_without_a_plan_of_the_user_is_checked_too(free):
    ctx = ckks.context(depth=1)
    x = ctx.encrypt([1.0, 2.0])
    free["bytes"] = 1000
    with pytest.raises(OutOfMemoryError, match="by its plan"):
        (x * x).decrypt()
    free["bytes"] = math.inf
    assert np.abs((x * x).decrypt() - [1, 4]).max() < 1e-6


def test_small_runs_read_nothing(free, monkeypatch):
    monkeypatch.setattr(free_memory, "LEAST", 1 << 28)
    ctx = ckks.context(depth=1)
    x, jitted = ctx.encrypt([1.0, 2.0]), ren.jit(squared)
    jitted(x), jitted(x), x * x
    assert not free["reads"]
