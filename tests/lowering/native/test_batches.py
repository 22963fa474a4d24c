"""Whole plans as one native call on batches: broadcast, stacked, read in part, and under vmap."""

from __future__ import annotations

from itertools import pairwise

import jax
import numpy as np
import pytest

import ren
from ren.lowering.backends.native.bytecode import NativeProgram
from ren.lowering.runtime.runner import graph_runner, interpret_plan
from ren.poly.batching import stacked, unstacked
from tests.lowering.native.batched import batched_inputs, batched_program
from tests.lowering.native.calls import assert_one_call, form_of, native_program_of, ring
from tests.lowering.native.calls import compiler as compiler  # a fixture of all tests here
from tests.lowering.plans import arrays, plan, poly


@pytest.mark.parametrize(
    "batches",
    [
        ((3,), (3,)),
        ((3,), ()),
        ((2, 2), ()),
        ((1,), (1,)),
        ((3,), (1,)),
        ((2, 3), (3,)),
        ((2, 1), (3,)),
    ],
    ids=str,
)
def test_batches(batches):
    r = ring(1024, 3)
    x, y = (poly(i, r, batch=batch) for i, batch in enumerate(batches))
    (made,) = assert_one_call(plan((x * y + y).rescale(r.moduli[:2])))
    assert made.shape[:-2] == np.broadcast_shapes(*batches)


def test_vmap_of_vmap():
    r = ring(4096, 3)
    x, y, z = poly(0, r, batch=(2,)), poly(1, r, batch=(3,)), poly(2, r)

    def f(x, y):
        return (x * y + z).rescale(r.moduli[:2])

    made = jax.jit(jax.vmap(jax.vmap(f, (None, 0)), (0, None)))
    text = made.lower(x, y).as_text()
    assert text.count("ren_plan") == 1
    got = made(x, y)
    for i in range(2):
        for j in range(3):
            one = f(
                ren.Poly.from_limbs(x.limbs[i], r, x.domain),
                ren.Poly.from_limbs(y.limbs[j], r, y.domain),
            )
            np.testing.assert_array_equal(np.asarray(got.limbs[i, j]), np.asarray(one.limbs))


@pytest.mark.parametrize("own", [((3,), ()), ((), (3,)), ((2,), (3, 2)), ((2, 3), (1,))], ids=str)
def test_vmap_of_batches_of_several_ranks(own):
    r = ring(4096, 3)
    x, y = (poly(i, r, batch=(2, *batch)) for i, batch in enumerate(own))

    def f(x, y):
        return (x * y + x).rescale(r.moduli[:2])

    made = jax.jit(jax.vmap(f))
    assert made.lower(x, y).as_text().count("ren_plan") == 1
    got = made(x, y)
    for i in range(2):
        a, b = (ren.Poly.from_limbs(p.limbs[i], r, p.domain) for p in (x, y))
        np.testing.assert_array_equal(np.asarray(got.limbs[i]), np.asarray(f(a, b).limbs))


def test_an_output_without_the_batch():
    r = ring(1024, 2)
    x, y = poly(0, r, batch=(3,)), poly(1, r)
    made = assert_one_call(plan(x * y, y.ntt()))
    assert [a.shape for a in made] == [(3, 2, 1024), (2, 1024)]


def test_batches_that_are_stacked_and_read_in_part():
    r = ring(1024, 3)
    x, y = poly(0, r, batch=(4,)), poly(1, r)
    away = x.ntt() - y.ntt()
    each = unstacked(away)
    squares = (away * away).rescale(r.moduli[:2])
    pairs = stacked([(a * b).rescale(r.moduli[:2]) for a, b in pairwise(each)])
    made = assert_one_call(plan(squares, pairs, each[0] * y, stacked([x, y])))
    assert [a.shape[:-2] for a in made] == [(4,), (3,), (), (2, 4)]


@pytest.mark.parametrize(("batch", "loops"), [((5,), 1), ((2, 5), 2), ((7, 1, 5), 3)], ids=str)
def test_an_axis_that_is_not_stacked_is_a_loop(batch, loops):
    r = ring(1024, 2)
    x, y = poly(0, r, batch=batch), poly(1, r, batch=(5,))
    both = stacked([x.ntt(), y.ntt()])
    p = plan(both * y, stacked([x, y], -1), unstacked(both)[1].intt() + 1)
    assert_one_call(p)
    form = form_of(p)
    assert form is not None
    assert [axes for axes, _ in form.outputs] == [(2, *[0] * loops), (2,), ()]


def test_a_part_that_leaves_an_input_unread():
    r = ring(1024, 2)
    x, y = poly(0, r, batch=(3, 5)), poly(1, r, batch=(5,))
    (made,) = assert_one_call(plan(unstacked(stacked([x, y]))[1] + 1))
    assert made.shape == (3, 5, 2, 1024)


def test_batches_that_do_not_meet():
    r = ring(1024, 2)
    x, y = poly(0, r, batch=(2,)), poly(1, r, batch=(4, 3))
    made = assert_one_call(plan(x.ntt(), y * y))
    assert [a.shape[:-2] for a in made] == [(2,), (4, 3)]


def test_equal_code_for_batches_of_any_length():
    r = ring(1024, 2)
    found = []
    for batch in ((2,), (3,), (4, 5)):
        p = plan(poly(0, r, batch=batch).ntt() * poly(1, r).ntt())
        (step,) = graph_runner(p).steps
        found.append(native_program_of(step, arrays(p)))
    assert found[0] is found[1] is found[2] and isinstance(found[0], NativeProgram)


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_over_batches(seed):
    n = (4, 16, 1024)[seed % 3]
    p = plan(*batched_program(seed, 4 + seed, batched_inputs(seed, n)))
    if any(unit.name for unit in p.units):
        assert_one_call(p)


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_over_batches_under_vmap(seed):
    inputs = batched_inputs(seed, 4096, leading=(2,))
    own = batched_inputs(seed, 4096)
    axes = [0 if x.shape != y.shape else None for x, y in zip(inputs, own, strict=True)]

    def f(inputs):
        return ren.realize(batched_program(seed, 5 + seed, inputs))

    made = jax.jit(jax.vmap(f, in_axes=(axes,)))
    text = made.lower(inputs).as_text()
    assert text.count("ren_plan") == 1
    got = made(inputs)
    for i in range(2):
        one = [
            x if axis is None else ren.Poly.from_limbs(x.limbs[i], x.ring, x.domain)
            for x, axis in zip(inputs, axes, strict=True)
        ]
        p = plan(*batched_program(seed, 5 + seed, one))
        for all_of, want in zip(got, interpret_plan(p, arrays(p)), strict=True):
            np.testing.assert_array_equal(np.asarray(all_of.limbs[i]), np.asarray(want))


def test_an_empty_batch():
    x = poly(0, ring(1024, 2), batch=(0,))
    (made,) = graph_runner(p := plan(x.ntt()))(arrays(p))
    assert made.shape == (0, 2, 1024)
    (made,) = graph_runner(p := plan(stacked([x.ntt(), x.ntt() * 3])))(arrays(p))
    assert made.shape == (2, 0, 2, 1024)
