"""Buffers given away: what is marked, what XLA may take, plans that take it."""

from __future__ import annotations

import gc

import attrs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

from ren import Poly, RingSpec
from ren.core.errors import DonatedBufferError, VerificationError
from ren.core.spec import PlaceholderArg
from ren.lowering.devices import donation as donated
from ren.lowering.devices.donation import check_not_donated, is_donated, mark, may_donate
from ren.lowering.inspect.explain import explain
from ren.lowering.inspect.memory_report import memory_of
from ren.lowering.plan.lifetimes import values_of
from ren.lowering.plan.memory import donating, memory_plan
from ren.lowering.plan.plan import Plan
from ren.lowering.runtime.runner import interpret_plan, run_plan
from ren.lowering.runtime.tiers.tiers import TIERS, runner
from tests.lowering.measured import measure
from tests.lowering.plans import RING, arrays, plan, poly, with_units
from tests.lowering.test_memory import PROGRAMS, donations, live_at, program_polys
from tests.programs import generate
from tests.rings import primes

COUNT = 1 << 12
LONG = RingSpec(COUNT, primes(COUNT)[-1:])


def array(start: int = 0) -> jax.Array:
    """Computed, so that JAX owns its buffer."""
    return jnp.arange(COUNT, dtype=jnp.uint32) + start


def aligned() -> np.ndarray:
    """NumPy memory that JAX takes over without a copy: on a boundary of 64 bytes."""
    raw = np.zeros(4 * COUNT + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + 4 * COUNT].view(np.uint32)


def bound(p: Plan) -> Plan:
    """The plan whose held inputs are bound at each call."""

    def open_input(number: int, i):
        a = i.arg
        arg = PlaceholderArg(number, a.ring, a.domain, a.batch) if i.is_held else a
        return attrs.evolve(i, arg=arg)

    return attrs.evolve(p, inputs=tuple(open_input(v, i) for v, i in enumerate(p.inputs)))


# ------------------------------------------------------------------- marks


def test_a_marked_jax_array_is_gone_for_every_handle_on_its_buffer():
    x = array()
    same = jax.device_put(x, jax.devices()[0])
    assert same is not x and not is_donated(same)
    mark([x])
    assert is_donated(x) and is_donated(same)
    with pytest.raises(DonatedBufferError):
        check_not_donated(same)
    mark([x, same])  # again is no error
    assert not is_donated(array())


@pytest.mark.long
def test_a_marked_numpy_array_is_remembered_as_long_as_it_lives():
    before = len(donated._given)
    x, other = np.arange(COUNT, dtype=np.uint32), np.arange(COUNT, dtype=np.uint32)
    whole, part = x[:], x[: COUNT // 2]
    mark([x])
    assert is_donated(x) and is_donated(whole)
    assert not is_donated(part) and not is_donated(other)
    del x
    gc.collect()
    assert is_donated(whole)
    del whole, part
    gc.collect()
    assert len(donated._given) == before


def test_what_is_no_array_was_not_donated():
    assert not any(map(is_donated, (None, object(), 3, jax.ShapeDtypeStruct((3,), jnp.uint32))))

    @jax.jit
    def f(x):
        check_not_donated(x)
        assert not may_donate([x], [0])
        return x + 1

    assert f(jnp.uint32(1)) == 2


def test_the_error_names_the_line_what_is_read_and_the_remedy():
    x = array()
    mark([x])
    with pytest.raises(DonatedBufferError) as caught:
        check_not_donated(array(), x, what="the argument w")
    text = str(caught.value)
    assert "test_donated.py:" in text and "the argument w" in text
    assert "donate_argnames" in text and "jax.tree.map(jnp.copy, x)" in text
    assert isinstance(caught.value, RuntimeError)
    assert text.count("\n") <= 3


def test_a_result_in_a_donated_buffer_is_copied_out_of_it():
    x = array()
    shared = jax.device_put(x, jax.devices()[0])
    host = np.arange(COUNT, dtype=np.uint32)
    results = mark([x, host], (shared, x, array(1), host, host[:]))
    assert is_donated(x) and is_donated(host)
    assert not any(map(is_donated, results))
    for got, start in zip(results, (0, 0, 1, 0, 0), strict=True):
        assert np.array_equal(got, np.arange(COUNT) + start)
    assert [type(r) for r in results[3:]] == [np.ndarray] * 2


def test_a_result_in_a_buffer_of_its_own_is_not_copied():
    x, y = array(), array()
    assert mark([x], (y,))[0] is y


# ------------------------------------------------------------------- what XLA may take


def test_only_what_is_unique_in_a_call_may_be_taken():
    x, y = array(), array()
    same = jax.device_put(x, jax.devices()[0])
    assert may_donate([x, y], [0]) and may_donate([x, y], [0, 1]) and may_donate([x, x], [])
    assert not may_donate([x, x], [0])
    assert not may_donate([x, same], [1])
    assert not may_donate([x, same, y], [0, 2])
    assert may_donate([x, same, y], [2])


def test_what_is_gone_traced_or_on_the_python_device_may_not_be_taken():
    x, y, host = array(), array(), np.zeros(3, np.uint32)
    assert not may_donate([x, host], [1])
    assert may_donate([x, host], [0])
    jax.jit(lambda a: pytest.fail("taken") if may_donate([x, a], [0]) else a)(y)
    mark([y])
    assert not may_donate([x, y], [1])


@pytest.mark.parametrize("alias", [jax.device_put, jnp.from_dlpack], ids=["put", "dlpack"])
def test_a_donation_never_writes_into_numpy_memory(alias):
    host = aligned().reshape(1, COUNT)
    host[:] = 7
    limbs = alias(host)
    assert limbs.unsafe_buffer_pointer() == host.ctypes.data
    p = donating(bound(plan(Poly.from_limbs(array().reshape(1, COUNT), LONG) + 1)), [0])
    assert donations(p) == [(0, 1)] and may_donate([limbs], [0])
    (result,) = jax.block_until_ready(run_plan(p, [limbs]))
    mark([limbs])
    assert np.all(host == 7)
    assert result.unsafe_buffer_pointer() != host.ctypes.data


@pytest.mark.long
def test_a_numpy_view_of_a_donated_buffer_stays_as_it_is():
    x = array().reshape(1, COUNT)
    view = np.asarray(x)
    p = donating(bound(plan(Poly.from_limbs(array().reshape(1, COUNT), LONG) + 1)), [0])
    run_plan(p, [x])
    mark([x])
    del x
    gc.collect()
    jax.block_until_ready([array(i) for i in range(8)])
    assert np.array_equal(view, np.arange(COUNT).reshape(1, COUNT))


# ------------------------------------------------------------------- plans that take it


def descent() -> tuple[Plan, list[jax.Array]]:
    """w - g * 3, as a plan of w and g, and two arrays."""
    w, g = poly(1), poly(2)
    p = plan(w - g * 3)
    assert arrays(p) == [w.limbs, g.limbs]
    return bound(p), [w.limbs + 0, g.limbs + 0]


def test_a_step_writes_into_the_buffer_that_is_given_away():
    p, inputs = descent()
    want = np.asarray(run_plan(p, inputs)[0])
    before = inputs[0].unsafe_buffer_pointer()
    (got,) = run_plan(donating(p, [0]), inputs)
    assert got.unsafe_buffer_pointer() == before
    assert [a.is_deleted() for a in inputs] == [True, False]
    assert np.array_equal(got, want)


def test_the_report_counts_what_the_caller_gives():
    p, _ = descent()
    size = values_of(p)[0].size
    bare, report = memory_of(p), measure(donating(p, [0]))
    assert (bare.donated_input_bytes, bare.peak_bytes) == (0, size)
    assert (report.donated_input_bytes, report.donated_bytes) == (size, size)
    assert report.peak_bytes == report.measured_bytes == report.lower_bound_bytes == 0
    assert report.unplanned_bytes == size
    assert report.input_bytes == 2 * size
    assert "1 of them donated by the caller" in explain(donating(p, [0]))
    assert "%2 takes over %0" in explain(donating(p, [0]))


def test_a_donation_of_an_input_that_xla_cannot_use_is_found():
    # Another program than in test_measured_memory: JAX warns once for each that it compiles.
    p = bound(plan(-poly(1).to_ring(RING.with_moduli(RING.moduli[:3]))))
    (unit,) = p.units
    assert not donations(donating(p, [0]))
    wrong = with_units(p, [attrs.evolve(unit, donate=((0, 0),))])
    with pytest.warns(UserWarning, match="not usable"), pytest.raises(VerificationError):
        measure(wrong)


def test_what_a_plan_holds_is_never_given_away():
    p = plan(poly(1) - poly(2) * 3)
    assert not donations(donating(p, [0, 1]))


def test_intermediates_pass_a_donated_buffer_on():
    y = (poly(1) + 1).ntt()
    p = donating(bound(plan((y * y + 1).intt())), [0])
    values = memory_plan(p).values
    assert len(p.units) > 1
    assert donations(p) == [(v, v + 1) for v in range(len(p.units))]
    assert all(v.is_hosted and v.offset is None for v in values[1:])
    assert memory_of(p).arena_bytes == 0 and memory_of(p).donated_input_bytes == values[0].size


def test_an_input_that_others_may_see_is_not_taken():
    x = poly(1)
    small = RING.with_moduli(RING.moduli[:2])
    for roots in (
        (x.to(jax.devices()[0]), x + 1),  # a copy to where it is shares its buffer
        (x.contiguous(), x + 1),  # an output
        (x.to_ring(small), x + 1),  # a view
        (x.automorphism(5),),  # a gather reads elsewhere
    ):
        assert not donations(donating(bound(plan(*roots)), [0])), roots


def test_arrays_of_the_python_device_and_shards_are_left_alone():
    p, _ = descent()
    for claim in ("python", frozenset({"a", "b"})):
        inputs = tuple(attrs.evolve(i, arg=attrs.evolve(i.arg, device=claim)) for i in p.inputs)
        assert not donations(donating(attrs.evolve(p, inputs=inputs), [0]))


def test_buffers_on_two_devices_do_not_take_each_other_over():
    p, _ = descent()
    w, g = p.inputs
    other = attrs.evolve(g, arg=attrs.evolve(g.arg, device=frozenset({"a"})))
    assert not donations(donating(attrs.evolve(p, inputs=(w, other)), [0]))


@given(PROGRAMS)
def test_donated_inputs_are_dead_when_taken_and_the_peak_is_that_of_a_simulation(program):
    p = bound(plan(*program_polys(program)))
    given = donating(p, range(len(p.inputs)))
    values, made = values_of(given), memory_plan(given)
    away = [v for v, _ in donations(given)]
    assert len(away) == len(set(away)) and not set(away) & set(given.outputs)
    for i, pairs in enumerate(made.donations):
        for dead, taker in pairs:
            assert values[dead].last == i == values[taker].first
            assert values[dead].spec.shape == values[taker].spec.shape
    assert simulated_peak(given) <= memory_of(given).peak_bytes <= memory_of(p).peak_bytes
    assert memory_of(given).lower_bound_bytes <= simulated_peak(given)
    inputs = [v for v in away if values[v].is_input]
    assert memory_of(given).donated_input_bytes == sum(values[v].size for v in inputs)


def simulated_peak(p: Plan) -> int:
    """The most bytes beside the inputs, a unit at a time, without temporaries."""
    values, best = values_of(p), 0
    borrowed: set[int] = {v for v, value in enumerate(values) if value.is_input}
    for i, (unit, pairs) in enumerate(zip(p.units, memory_plan(p).donations, strict=True)):
        borrowed |= {taker for dead, taker in pairs if dead in borrowed}
        held = (live_at(p, i) | set(unit.outs)) - {dead for dead, _ in pairs} - borrowed
        best = max(best, sum(values[v].size for v in held))
    return best


LISTED = [generate(seed, 16, 3, 12) for seed in range(6, 10)]


@pytest.mark.parametrize("program", LISTED, ids=range(6, 10))
def test_giving_everything_away_changes_no_result(program):
    p = bound(plan(*program_polys(program)))
    held = arrays(plan(*program_polys(program)))
    want = [np.asarray(a) for a in run_plan(p, [a + 0 for a in held])]
    given = donating(p, range(len(p.inputs)))
    measure(given)
    inputs = [a + 0 for a in held]
    got = mark(inputs, run_plan(given, inputs))
    assert all(map(is_donated, inputs))
    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


def test_nothing_is_taken_under_a_trace():
    p, inputs = descent()
    given = donating(p, [0])
    (want,) = run_plan(p, inputs)
    (got,) = jax.jit(lambda *a: run_plan(given, a))(*inputs)
    assert np.array_equal(got, want)
    assert not any(map(is_donated, inputs))


def test_a_run_on_an_array_that_is_gone_says_so():
    p, inputs = descent()
    mark(inputs[1:])
    with pytest.raises(DonatedBufferError):
        run_plan(p, inputs)
    with pytest.raises(DonatedBufferError):
        run_plan(donating(p, [0]), inputs)


@pytest.mark.parametrize("tier", TIERS)
def test_every_tier_runs_a_plan_with_donated_inputs(tier):
    p, inputs = descent()
    (want,) = [np.asarray(a) for a in run_plan(p, inputs)]
    run = runner(donating(p, [0]), tier)
    for _ in range(12):
        w = inputs[0] + 0
        (got,) = mark([w], run([w, inputs[1]]))
        assert is_donated(w) and np.array_equal(got, want)
    assert not is_donated(inputs[1])
    mark(inputs[1:])
    with pytest.raises(DonatedBufferError):
        run(inputs)


def test_a_run_on_the_python_device_reads_nothing_that_was_given_away():
    p = plan(poly(1).to("python").realize() + 1)
    (held,) = arrays(p)
    run_plan(p, [held])
    mark([held])
    for run in (run_plan, interpret_plan):
        with pytest.raises(DonatedBufferError):
            run(p, [held])
