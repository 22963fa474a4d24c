"""Memory plans: lifetimes, arenas, donations that change no value."""

from __future__ import annotations

import random

import attrs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ren
from ren import Domain, Poly, RingSpec
from ren.lowering.backends.xla.backend import XLA
from ren.lowering.inspect.memory_report import memory_of
from ren.lowering.plan.lifetimes import values_of
from ren.lowering.plan.memory import memory_plan
from ren.lowering.plan.plan import CopyUnit, KernelUnit, Plan
from ren.lowering.program.steps import unit_segment
from ren.lowering.runtime.runner import run_plan
from tests.lowering.plans import RING, arrays, plan, poly, without_donations
from tests.programs import Program, Step, generate
from tests.rings import primes


def donations(p: Plan) -> list[tuple[int, int]]:
    """(value given, value that takes it over), over all units."""
    return [pair for pairs in memory_plan(p).donations for pair in pairs]


def program_polys(program: Program) -> list[Poly]:
    """The last registers of a random program, lazily."""
    pool = random.Random(program.n).sample(primes(program.n), program.primes)
    ring = RingSpec(program.n, tuple(pool[i] for i in program.basis))
    registers = [poly(i, ring) for i in range(program.inputs)]
    for step in program.steps:
        registers.append(_apply(step, [registers[i] for i in step.src], pool))
    return registers[-2:]


def _apply(step: Step, src: list[Poly], pool: list[int]) -> Poly:
    p, r, c = src[0], src[-1], step.arg if isinstance(step.arg, int) else 1
    if isinstance(step.arg, tuple):
        moduli = tuple(pool[i] for i in step.arg)
        ring = RingSpec(p.ring.n, moduli)
        return p.to_ring(ring) if step.op == "to_ring" else p.rescale(moduli)
    linear = {"add": p + r, "sub": p - r, "neg": -p, "add_int": p + c, "rsub_int": c - p}
    other = {"mul": p * r, "square": p * p, "ntt": p.ntt(), "intt": p.intt(), "mul_int": p * c}
    moved = {"rotate": p.rotate(c % 7)}
    moved["automorphism"] = p.automorphism(2 * c + 1)
    return {**linear, **other, **moved}[step.op]


PROGRAMS = st.builds(
    generate, st.integers(0, 2**32 - 1), st.just(16), st.integers(1, 4), st.integers(1, 25)
)


# ------------------------------------------------------------------- simulations


def live_at(p: Plan, number: int) -> set[int]:
    """Values made by units before `number` that it, a later unit or the caller still needs."""
    made = {v for u in p.units[:number] for v in u.outs}
    needed = set(p.outputs) | {v for u in p.units[number:] for v in u.ins}
    return made & needed


def peak_of(p: Plan) -> int:
    """The planned peak, unit by unit, without temporaries."""
    values = values_of(p)
    best = 0
    for i, unit in enumerate(p.units):
        held = live_at(p, i) | set(unit.outs)
        held -= {unit.ins[slot] for slot, _ in getattr(unit, "donate", ())}
        best = max(best, sum(values[v].size for v in held))
    return best


@given(PROGRAMS)
def test_lifetimes_are_those_of_the_units(program):
    p = plan(*program_polys(program))
    for v, value in enumerate(values_of(p)):
        if value.is_input:
            continue
        live = [i for i in range(len(p.units) + 1) if v in live_at(p, i)]
        assert live == list(range(value.first + 1, value.last + 1))


@given(PROGRAMS)
def test_peaks_are_those_of_a_simulation(program):
    p = plan(*program_polys(program))
    bare = without_donations(p)
    values, report = values_of(p), memory_of(p)
    bounds = [sum(values[v].size for v in live_at(p, i)) for i in range(len(p.units) + 1)]
    assert max(bounds) <= report.lower_bound_bytes == peak_of(p) <= peak_of(bare)
    assert peak_of(p) <= report.peak_bytes <= report.unplanned_bytes
    assert peak_of(bare) <= report.unplanned_bytes == memory_of(bare).peak_bytes
    assert report.input_bytes == sum(4 * np.prod(i.spec.shape) for i in p.inputs)


@given(PROGRAMS)
def test_live_values_have_disjoint_places_in_the_arena(program):
    p = plan(*program_polys(program))
    made = memory_plan(p)
    (used,) = [used for _, used in made.arenas] or [0]
    for i in range(len(p.units) + 1):
        placed = sorted(
            (made.values[v].offset, made.values[v].size)
            for v in live_at(p, i)
            if made.values[v].is_optimizable
        )
        ends = [offset + size for offset, size in placed]
        starts = [offset for offset, _ in placed[1:]]
        assert all(end <= start for end, start in zip(ends, starts, strict=False))
        assert all(end <= used for end in ends)


@given(PROGRAMS)
def test_only_dead_intermediates_are_taken_over_and_once(program):
    p = plan(*program_polys(program))
    values, made = values_of(p), memory_plan(p)
    given_away = [v for v, _ in donations(p)]
    assert len(given_away) == len(set(given_away))
    for i, pairs in enumerate(made.donations):
        assert len({taker for _, taker in pairs}) == len(pairs)
        for dead, taker in pairs:
            assert values[dead].last == i == values[taker].first
            assert dead not in p.outputs and not values[dead].is_input
            assert values[dead].spec.shape == values[taker].spec.shape
            if made.values[taker].is_optimizable:
                assert made.values[taker].offset == made.values[dead].offset


# ------------------------------------------------------------------- what runs


LISTED = [generate(seed, 16, 3, 12) for seed in range(6)]


@pytest.mark.parametrize("program", LISTED, ids=range(6))
def test_donation_changes_no_result_and_no_input(program):
    p = plan(*program_polys(program))
    before = [np.asarray(a).copy() for a in arrays(p)]
    expected = [np.asarray(a) for a in run_plan(without_donations(p), arrays(p))]
    for _ in range(2):
        for got, want in zip(run_plan(p, arrays(p)), expected, strict=True):
            assert np.array_equal(np.asarray(got), want)
    assert all(np.array_equal(np.asarray(a), b) for a, b in zip(arrays(p), before, strict=True))


def test_a_dead_intermediate_is_overwritten_in_place():
    p = plan((poly(1) + poly(2)).ntt())
    (pair,) = donations(p)
    assert [p.units[1].donate, pair] == [((0, 0),), (2, 3)]
    first, second = (unit_segment(unit) for unit in p.units if isinstance(unit, KernelUnit))
    (kept,) = XLA.compile(first, arrays(p)).bind(arrays(p))(arrays(p))
    jax.block_until_ready(kept)
    XLA.compile(second, [kept]).bind([kept])([kept])
    assert kept.is_deleted()


def test_results_of_several_stores_come_back_in_order():
    x, y = poly(1).ntt(), poly(2).ntt()
    p = plan(y + 1, x * 2, x - y)
    for got, want in zip(
        run_plan(p, arrays(p)), run_plan(without_donations(p), arrays(p)), strict=True
    ):
        assert np.array_equal(got, want)


def test_the_second_of_two_stores_takes_over_the_buffer_that_it_alone_reads():
    e = poly(1).ntt() + poly(2, domain=Domain.NTT)
    p = plan(e, poly(3).ntt() * e)
    last = p.units[-1]
    assert isinstance(last, KernelUnit)
    assert [store for _, store in last.donate] == [1]
    values = values_of(p)
    slots = tuple(jax.ShapeDtypeStruct(values[v].spec.shape, jnp.uint32) for v in last.ins)
    stated = XLA.compile(unit_segment(last), slots).analysis(slots)
    assert stated.alias_size_in_bytes == values[last.outs[1]].size
    assert stated.temp_size_in_bytes == 0
    for got, want in zip(
        run_plan(p, arrays(p)), run_plan(without_donations(p), arrays(p)), strict=True
    ):
        assert np.array_equal(got, want)


def test_replays_leave_earlier_results_and_arguments_alone():
    step = ren.jit(lambda x, y: ((x + y) * (x - 1)).rescale(RING.moduli[:2]).intt())
    x, y = poly(1), poly(2)
    first = step(x, y)
    kept = np.asarray(first.limbs).copy()
    again = step(y, x)
    assert any(u.donate for u in step.plans[0].plan.units)
    assert np.array_equal(first.limbs, kept)
    assert not np.array_equal(again.limbs, kept)
    assert ren.equal(step(x, y), first)


def test_a_loop_that_feeds_its_result_back_stays_right():
    step = ren.jit(lambda x, y: (x * y + 1).intt().ntt() * y)
    x, y = poly(1).ntt(), poly(2).ntt()
    want = x
    for _ in range(4):
        x = step(x, y)
        want = (want * y + 1) * y
    assert ren.equal(x, want)


# ------------------------------------------------------------------- what keeps its identity


def optimizable(p: Plan) -> set[int]:
    return {v for v, value in enumerate(values_of(p)) if value.is_optimizable}


def test_outputs_inputs_and_contiguous_buffers_are_nobodys_to_take():
    x = poly(1)
    shown = (x + 1).contiguous()
    p = plan(shown.ntt() * 2, x.ntt())
    protected = {*range(len(p.inputs)), *p.outputs, *p.units[0].outs}
    assert not protected & {v for v, _ in donations(p)}
    assert not protected & optimizable(p)


def test_a_value_stored_for_a_user_too_is_not_taken():
    x = poly(1, domain=Domain.NTT)
    y = x * x + 1
    p = plan(y.contiguous(), y.intt())
    (first, *_) = p.units
    assert not optimizable(p) & set(first.outs)
    for got, want in zip(
        run_plan(p, arrays(p)), run_plan(without_donations(p), arrays(p)), strict=True
    ):
        assert np.array_equal(got, want)


def test_copies_and_their_sources_are_not_taken():
    x = poly(1)
    y = x + 1
    moved = y.to(jax.devices()[0])
    p = plan(moved.ntt(), y.ntt())
    copied = {v for u in p.units if isinstance(u, CopyUnit) for v in (*u.ins, *u.outs)}
    assert copied and not copied & optimizable(p)
    one, two = run_plan(p, arrays(p))
    assert np.array_equal(one, two)


def test_the_numpy_device_and_shards_have_no_arena():
    host = plan((poly(1).to("python") + 1).ntt().intt() * 2)
    assert not donations(host)
    x = ren.jit(lambda x: (x + 1).ntt())
    x(poly(1))
    p = x.plans[0].plan
    (slot,) = p.inputs
    two = attrs.evolve(slot, arg=attrs.evolve(slot.arg, device=frozenset({"a", "b"})))
    assert optimizable(p) and not optimizable(attrs.evolve(p, inputs=(two,)))


def test_gathers_are_not_done_in_place():
    x = poly(1, domain=Domain.NTT)
    assert not donations(plan((x * x).automorphism(5)))


def test_nothing_is_donated_under_a_jax_trace():
    x = poly(1)

    def f(limbs):
        return ((Poly.from_limbs(limbs, RING) + 1).ntt() * 2).intt().limbs

    want = f(x.limbs)
    text = str(jax.make_jaxpr(f)(x.limbs))
    flags = [
        t for part in text.split("donated_invars=(")[1:] for t in part.split(")")[0].split(",")
    ]
    assert "True" not in {t.strip() for t in flags}
    assert np.array_equal(jax.jit(f)(x.limbs), want)
    batch = jnp.stack([x.limbs, x.limbs])
    assert np.array_equal(jax.vmap(f)(batch)[1], want)


def test_concrete_work_inside_a_trace_may_donate():
    x = poly(1)

    @jax.jit
    def f(limbs):
        held = ((x + 1).ntt() * 2).intt()
        return (Poly.from_limbs(limbs, RING) + held).limbs

    assert np.array_equal(f(x.limbs), (x + ((x + 1).ntt() * 2).intt()).limbs)
