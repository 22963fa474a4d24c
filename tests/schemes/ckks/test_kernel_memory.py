"""No kernel of an operation on ciphertexts needs over three times its inputs and outputs."""

from __future__ import annotations

import numpy as np
import pytest

import ren
from benchmarks.kernel_memory import CALL, largest_ratio, ratios
from ren.lowering.backends.native import library
from ren.schemes import ckks

PROGRAMS = {
    "product": lambda x: x * x,
    "rotation": lambda x: x.rotate(1),
    "sum of rotations": lambda x: x.rotate(1) + x.rotate(2) * 0.5 + x.rotate(3),
    "polynomial": lambda x: ckks.poly(x, [0.1, 0.2, 0.3, 0.4, 0.5]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_need_little_beside_what_they_read_and_write(ctx, name):
    jitted = ren.jit(PROGRAMS[name], tier="units")
    jitted(ctx.rotation_keys([1, 2, 3]).encrypt([0.5, 0.25]))
    found = dict(ratios(jitted.plans[0].plan))
    print(found)
    assert "NTT" in found and min(found.values()) >= 1
    assert largest_ratio(jitted.plans[0].plan) <= 3


WIDE = {
    **PROGRAMS,
    "rotations": lambda x: [x.rotate(i) for i in range(1, 9)],
    "sum of products": lambda x: sum((x.rotate(i) * 0.5 for i in range(1, 9)), start=x * x),
    "sum of slots": lambda x: x.sum(),
    "batches": lambda x: ckks.stack([x * x, x]),
}


@pytest.fixture(scope="module")
def wide() -> ckks.Context:
    """n = 2^12, depth 3; insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(3, n=1 << 12, security=None))


@pytest.mark.parametrize("name", WIDE)
def test_native_calls_hold_little_beside_what_they_read_and_write(wide, name, monkeypatch):
    monkeypatch.setattr("ren.lowering.runtime.native_calls.threads", lambda: 2)
    if library.outcome().reason:
        pytest.skip(library.outcome().reason)
    with ren.config.update(native=True):
        jitted = ren.jit(WIDE[name])
        jitted(wide.encrypt(np.linspace(-1, 1, 8)))
        call, ratio = next(ratios(jitted.plans[0].plan))  # the first; kernels are not compiled
    assert call == CALL and 1 < ratio <= 3
