"""No kernel of an operation on ciphertexts needs over three times its inputs and outputs."""

from __future__ import annotations

import pytest

import ren
from benchmarks.kernel_memory import largest_ratio, ratios
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
