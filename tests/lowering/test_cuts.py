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
from tests.lowering.test_backends import forget_calls, needs_native, once, same
from tests.rings import primes

N = 1 << 12


@pytest.mark.long
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


@pytest.mark.long
@given(st.integers(4, 6), st.integers(16, 24), st.integers(0, 9))
@settings(max_examples=4, deadline=None)
def test_transformed_factors_do_not_wait_for_the_second_half(giants, babies, seed):
    """Sums of both halves over the same factors: a task holds the rotations and few factors."""
    needs_native()
    n = 1 << 14
    ring = RingSpec(n, primes(n)[-1:])
    rng = random.Random(seed)
    factors = [[poly(g * babies + b, ring, Domain.COEFF) for b in range(babies)]
               for g in range(giants)]  # fmt: skip
    turns = rng.sample(range(1, n // 2), babies)
    roots = []
    for half in (poly(7001, ring, Domain.NTT), poly(7002, ring, Domain.NTT)):
        turned = [half.automorphism(pow(5, k, 2 * n)) for k in turns]
        for of_giant in factors:
            terms = [w.ntt() * x for w, x in zip(of_giant, turned, strict=True)]
            roots.append(sum(terms[1:], start=terms[0]))
    p = plan(*roots)
    found = native_calls(p.source)
    assert isinstance(found, NativeCalls)
    (program,) = found.programs
    assert program.own <= 2 * babies + 40
    assert same(once(p, arrays(p)), interpret_plan(p, arrays(p)))
