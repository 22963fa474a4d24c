"""Programs of many operations: no recursion, few distinct kernels, exact results."""

from __future__ import annotations

import pytest

import ren
from ren import Poly, RingSpec
from ren.lowering.backends.xla import jax_executable

RING = RingSpec(16, (97, 193))
OPERATIONS = 20_001  # of three to a step


def chain(x, a, b):
    for _ in range(OPERATIONS // 3):
        x = x * a + b
        b = b - x
    return x, b


def oracle(values: list[int], a: int, b: int, q: int) -> tuple[list[int], list[int]]:
    """The chain for a constant polynomial a = a0: it acts on each coefficient by itself."""
    xs, bs = [], []
    for x, b0 in zip(values, [b] + [0] * 15, strict=True):
        for _ in range(OPERATIONS // 3):
            x = (x * a + b0) % q
            b0 = (b0 - x) % q
        xs.append(x)
        bs.append(b0)
    return xs, bs


@pytest.mark.slow
def test_a_chain_of_twenty_thousand_operations():
    values = list(range(1, 17))
    x, a, b = Poly(values, RING), Poly([5], RING), Poly([7], RING)
    x, b = chain(x, a, b)
    assert str(x.node).count("\n") >= OPERATIONS
    before = jax_executable.compiled_count()
    x, b = ren.realize(x, b)
    assert jax_executable.compiled_count() - before <= 20
    assert (x.tolist(), b.tolist()) == oracle(values, 5, 7, RING.q)


@pytest.mark.slow
@pytest.mark.parametrize("width", [3000])
def test_a_wide_sum_and_a_deep_tree(width):
    terms = [Poly([i], RING) for i in range(50)]
    wide = Poly.zeros(RING)
    for i in range(width):
        wide = wide + terms[i % 50] * (i + 1)
    expected = sum((i % 50) * (i + 1) for i in range(width)) % RING.q
    assert wide.tolist() == [expected] + [0] * 15
    level = [terms[i % 50] for i in range(1024)]
    while len(level) > 1:
        level = [p + q for p, q in zip(level[::2], level[1::2], strict=True)]
    assert level[0].tolist()[0] == sum(i % 50 for i in range(1024)) % RING.q
