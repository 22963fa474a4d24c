"""Programs that Ren itself runs: planned once, and equal to what is planned anew."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import ren
from ren import Poly, RingSpec
from ren.core.errors import TracedValueError
from ren.programs import replayed
from tests.rings import primes

RING = RingSpec(16, primes(16)[-3:])


def random_poly(seed: int, batch: tuple[int, ...] = ()) -> Poly:
    return Poly(np.random.default_rng(seed).integers(0, 2**40, (*batch, 16)), RING)


def mixed(factor: int, x: Poly, unused: Poly, y: Poly) -> tuple[Poly, Poly]:
    return (x.ntt() * y.ntt() * factor).intt(), y - x


def counted(calls: list[int], x: Poly) -> tuple[Poly]:
    calls_of[calls] += 1
    return (x * x,)


calls_of = {"first": 0}


@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_replay_computes_what_the_function_says(batch):
    x, unused, y = (random_poly(seed, batch) for seed in range(3))
    for factor in (1, 3):
        for pair in ((x, y), (y, x)):
            product, difference = replayed(mixed, factor, pair[0], unused, pair[1])
            expected = mixed(factor, pair[0], unused, pair[1])
            assert ren.equal(product, expected[0]) and product.domain is expected[0].domain
            assert ren.equal(difference, expected[1])


def test_it_is_planned_once_for_polynomials_of_one_type():
    for seed in range(3):
        x = random_poly(seed)
        (square,) = replayed(counted, "first", x)
        assert ren.equal(square, x * x)
    assert calls_of["first"] == 1
    replayed(counted, "first", random_poly(0, (2,)))
    replayed(counted, "first", random_poly(0).ntt())
    assert calls_of["first"] == 3


def test_arguments_are_realized_and_results_concrete_in_a_trace():
    seen = []

    def traced(x):
        seen.extend(replayed(mixed, 5, random_poly(1) + 1, random_poly(2), random_poly(3)))
        return x

    jax.jit(traced)(1)
    expected = mixed(5, random_poly(1) + 1, random_poly(2), random_poly(3))
    assert all(ren.equal(a, b) for a, b in zip(seen, expected, strict=True))


def test_arguments_of_a_capture_have_no_values():
    with pytest.raises(TracedValueError):
        ren.jit(lambda x: replayed(mixed, 7, x, x, x)[0])(random_poly(1))
