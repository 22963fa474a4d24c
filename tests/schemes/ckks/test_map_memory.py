"""Memory of a large linear map: what a process holds at most, beside what plans promise."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import gc, json, resource, sys
import numpy as np
import ren
from ren.schemes import ckks

N, ROWS, COLUMNS, SHARE = 2**14, 2000, 2001, float(sys.argv[1])

def encoded(matrix, ctx=None):
    memory = None if SHARE == 1 else int(SHARE * len(matrix) * WHOLE)
    return ckks.linear(matrix, ctx, leftovers=True, memory=memory)

def planned(matrix):
    return ckks.plan(lambda x: encoded(matrix) @ x, ckks.spec(matrix.shape[1]), n=N)

def run(ctx, matrix):
    made, product = encoded(matrix, ctx), ren.jit(lambda m, x: m @ x)
    y = product(made, ctx.encrypt(matrix[0]))
    assert np.abs(y.decrypt() - matrix @ matrix[0]).max() < 2**-10
    return made, product.plans[-1].memory

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

draw = np.random.default_rng(0)
small, matrix = (draw.uniform(-1, 1, shape) / shape[0] for shape in ((32, 33), (ROWS, COLUMNS)))
params = ckks.Parameters.for_depth(1, n=N)
WHOLE = 4 * N * params.ring(1).limbs  # bytes of a diagonal
run(ckks.context(planned(small)), small)  # tables and compiled code
gc.collect()
base = peak()
plan = planned(matrix)
made, memory = run(ckks.context(plan), matrix)
print(json.dumps({
    "held": peak() - base, "diagonals": len(made.places), "nbytes": made.nbytes,
    "whole": WHOLE * len(made.places),
    "plan": plan.peak_bytes, "captured": memory.peak_bytes + memory.input_bytes,
}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("share", [1, 0.75, 0.51])
def test_a_map_of_2000_diagonals_holds_what_plans_promise(share):
    """Measured in a process of its own, from planning to decryption, beside a small map before."""
    command = [sys.executable, "-c", PROGRAM, str(share)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert not done.returncode, done.stderr.decode()
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["diagonals"] == 2000 and found["whole"] > 5e8
    assert 0.95 * share < found["nbytes"] / found["whole"] <= share
    for promise in (found["plan"], found["captured"]):
        assert abs(found["held"] - promise) <= 0.15 * promise, found
