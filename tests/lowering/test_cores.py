"""Processor time that control groups of Linux grant."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ren.lowering.devices.cores import granted
from ren.lowering.devices.devices import threads

UNIFIED = {"own": "0::/a/b"}
DIVIDED = {"own": "5:memory:/a\n3:cpu,cpuacct:/a"}


def files(folder: Path, texts: dict[str, str]) -> dict[str, Path]:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n")
    return {"root": folder, "own": folder / "own"}


@pytest.mark.parametrize(
    ("texts", "want"),
    [
        ({}, None),
        ({**UNIFIED, "a/b/cpu.max": "max 100000"}, None),
        ({**UNIFIED, "a/b/cpu.max": "50000 100000"}, 0.5),
        ({**UNIFIED, "a/cpu.max": "20000 100000", "a/b/cpu.max": "max 100000"}, 0.2),
        ({**UNIFIED, "cpu.max": "90000 100000", "a/cpu.max": "100000 100000"}, 0.9),
        ({"own": "0::/", "cpu.max": "75000 100000"}, 0.75),
        ({**UNIFIED, "a/b/cpu.max": "1000000000 100000"}, None),
        ({**UNIFIED, "a/b/cpu.max": ""}, None),
        ({**UNIFIED, "a/b/cpu.max": "50000"}, None),
        ({"own": "nonsense"}, None),
        ({"own": "0::a/b", "a/b/cpu.max": "50000 100000"}, 0.5),
        ({**DIVIDED, "cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, None),
        ({**DIVIDED, "cpu/a/cpu.cfs_quota_us": "25000", "cpu/a/cpu.cfs_period_us": "50000"}, 0.5),
        ({**DIVIDED, "cpu/cpu.cfs_quota_us": "10000", "cpu/cpu.cfs_period_us": "50000"}, 0.2),
        ({**DIVIDED, "a/cpu.max": "10000 100000"}, None),  # of the other kind
    ],
)
def test_the_least_quota_of_all_groups_counts(tmp_path, texts, want):
    assert granted(**files(tmp_path, texts)) == (threads() if want is None else want)


CALLS = """
from pathlib import Path
import jax.numpy as jnp
import numpy as np
from ren import Domain, Poly, RingSpec
from ren.core.numtheory import ntt_primes_below
from ren.lowering.backends.native import hashing

if given[0] == "alone":
    hashing.granted = lambda: 1.0
n = 1 << 13
primes = ntt_primes_below(n, 1 << 30)
ring = RingSpec(n, tuple(next(primes) for _ in range(12)))
x = Poly.from_limbs(jnp.ones((12, n), jnp.uint32), ring, Domain.NTT)
assert np.array_equal((x + x).limbs, np.full((12, n), 2))
names = [task.joinpath("comm").read_text() for task in Path("/proc/self/task").iterdir()]
print("ren-helper\\n" in names)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no other thread")
@pytest.mark.skipif(threads() < 2, reason="there is one core")
@pytest.mark.parametrize("given", ["alone", "free"])
def test_a_process_that_is_granted_one_core_has_no_thread_for_large_arrays(given):
    code = f"given = [{given!r}]\n{CALLS}"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "REN_NATIVE": "1"},
        check=True,
    )
    assert run.stdout.split() == [str(given == "free")]
