"""Cuts of programs into native calls: no cut changes a bit, and none is lowered in vain."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ren import Domain, RingSpec
from ren.lowering.runtime.native_calls import NativeCalls, native_calls
from ren.lowering.runtime.planning import native_runner
from ren.lowering.runtime.runner import interpret_plan
from tests.lowering.plans import arrays, plan, poly
from tests.lowering.test_backends import forget_calls, needs_native, same
from tests.rings import primes

N = 1 << 12


@given(
    st.integers(2, 40), st.integers(40, 90), st.sampled_from([None, 200, 400]), st.integers(0, 9)
)
@settings(max_examples=15, deadline=None)
def test_sums_over_the_same_factors_are_cut_together(terms, buffers, rows, seed):
    """Both halves of a rotated sum, and the sum of a second one: no cut changes a bit."""
    needs_native()
    ring = RingSpec(N, primes(N)[-2:])
    rng = random.Random(seed)
    x = [poly(i, ring, Domain.NTT) for i in range(2)]
    w = [poly(10 + i, ring, Domain.NTT) for i in range(terms)]
    galois = [pow(5, rng.randrange(1, 9), 2 * N) for _ in w]
    halves = [sum((half.automorphism(g) * v for g, v in zip(galois, w, strict=True)),
                  start=half.intt().ntt()) for half in x]  # fmt: skip
    p = plan(*halves, sum(w[1:], start=w[0]).intt())
    want = interpret_plan(p, arrays(p))
    with pytest.MonkeyPatch.context() as patch:
        forget_calls()
        patch.setattr("ren.lowering.backends.native.bytecode.MOST_BUFFERS", buffers)
        if rows is not None:
            patch.setattr("ren.lowering.backends.native.limb_program.MOST_ROWS", rows)
        found = native_calls(p.source)
        run = native_runner(p.source, p.inputs, arrays(p))
    forget_calls()
    assert isinstance(found, NativeCalls) and run is not None, found
    assert all(len(s.ins) + len(s.outs) < buffers for s in found.segments)
    assert same(run(arrays(p)), want)
