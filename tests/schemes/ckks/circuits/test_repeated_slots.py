"""Fewer slots than n/2 repeat: smaller diagonals, and results that need no copies made."""

from __future__ import annotations

import math
import pickle
from typing import Any

import jax
import numpy as np
import pytest

import ren
from ren.schemes import ckks
from ren.schemes.ckks.arithmetic.evolve import evolve_layout
from ren.schemes.ckks.circuits import linear
from ren.schemes.ckks.encoding.layout import LEFTOVERS, ZEROS, Layout, number_tail
from tests.schemes.ckks.frames import header_of, with_header

BAR = 2.0**-19
SLOTS = 64


@pytest.fixture(scope="module")
def ctx() -> ckks.Context:
    """n = 2^10, 64 slots, depth 4; insecure."""
    return ckks.context(4, n=1 << 10, slots=SLOTS, security=None)


def error(x: ckks.Ciphertext, want: np.ndarray) -> float:
    got = x.decrypt()
    assert got.shape == np.shape(want)
    return float(np.abs(got - want).max())


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).uniform(-1, 1, shape)


def all_slots(x: ckks.Ciphertext) -> np.ndarray:
    return evolve_layout(x, length=x.slots, shape=None, tail=ZEROS).decrypt()


BAND = np.triu(np.tril(drawn(60, 60), 1), -1)
MAPS: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
    "wide": (drawn(5, 40), {}),
    "square": (drawn(20, 20), {}),
    "tall": (drawn(40, 5), {}),
    "of all slots": (drawn(64, 64), {}),
    "of several blocks": (drawn(100, 7), {}),
    "complex": (drawn(6, 9) + 1j * drawn(6, 9)[::-1], {}),
    "paired": (drawn(20, 20), {"paired": True}),
    "with the special primes": (BAND, {"leftovers": True}),
    "of few keys": (drawn(12, 12), {"keys": 3}),
}


OFTEN = ("wide", "paired", "with the special primes")  # traced too
# XLA compiles the first two for a minute without native code; the third shows the same there.
MARKS = {n: (pytest.mark.once, pytest.mark.long) for n in OFTEN[:2]} | {
    n: pytest.mark.long for n in MAPS if n not in OFTEN
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=MARKS.get(n, ())) for n in MAPS])
def test_diagonals_lie_in_the_smaller_ring_and_give_the_same_bits(ctx, monkeypatch, name):
    matrix, given = MAPS[name]
    monkeypatch.setattr(linear, "_PART", 1)
    whole = ckks.linear(matrix, ctx, **given)
    found = ckks.linear(matrix, ctx, memory=whole.nbytes * 2 * SLOTS // ctx.params.n, **given)
    assert {p.wide.ring.n for p in found.plaintexts} == {2 * SLOTS}
    assert found.nbytes * ctx.params.n == whole.nbytes * 2 * SLOTS
    if name == "with the special primes":
        assert found.split.is_wide
    x = ctx.encrypt(drawn(matrix.shape[1]))
    want = ren.realize(whole @ x)
    assert error(want, matrix @ drawn(matrix.shape[1])) < BAR
    data = found.to_bytes()
    assert len(data) * 3 < len(whole.to_bytes())
    assert {form for _, _, form in header_of(data)["batches"]} == {3}
    for m in (found, ckks.LinearMap.from_bytes(data), pickle.loads(pickle.dumps(found))):
        assert all(map(ren.equal, ren.realize(m @ x).polys, want.polys))
    ways = [ren.jit(lambda m, x: m @ x, tier=tier) for tier in ("units", "graph")]
    for run in (*ways, jax.jit(lambda m, x: m @ x)) if name in OFTEN else ways[1:]:
        assert all(map(ren.equal, run(found, x).polys, run(whole, x).polys))
    low = x.drop_to(2)
    below, expected = ren.realize(found @ low), ren.realize(whole @ low)
    assert all(map(ren.equal, below.polys, expected.polys))


@pytest.mark.once
def test_coefficients_are_kept_where_they_are_smaller_still(monkeypatch):
    """Under a memory budget, where slots repeat a few times."""
    monkeypatch.setattr(linear, "_PART", 1)
    ctx = ckks.context(4, n=1 << 10, slots=256, scale_bits=26, security=None)
    matrix, x = drawn(40, 40), ctx.encrypt(drawn(40))
    whole = ckks.linear(matrix, ctx)
    limbs = whole.plaintexts[0].wide.ring.limbs
    want = ren.realize(whole @ x)
    for share, forms in ((0.8, {1, 3}), (0.5, {3}), (0.45, {2}), (1 / limbs, {2})):
        some = ckks.linear(matrix, ctx, memory=math.ceil(whole.nbytes * share))
        assert some.nbytes <= math.ceil(whole.nbytes * share)
        assert {form for _, _, form in header_of(some.to_bytes())["batches"]} == forms
        for m in (some, ckks.LinearMap.from_bytes(some.to_bytes())):
            assert all(map(ren.equal, ren.realize(m @ x).polys, want.polys))
    least = whole.nbytes // limbs
    with pytest.raises(ckks.ParameterError, match=f"They take {least} bytes at least"):
        ckks.linear(matrix, ctx, memory=least - 1)


@pytest.mark.once
def test_bytes_of_another_form_are_refused(ctx):
    data = ckks.linear(drawn(5, 3), ctx, memory=1 << 15).to_bytes()
    ((count, bits, _),) = header_of(data)["batches"]
    for form in (0, 1, 4):
        with pytest.raises(ckks.SerializationError):
            ckks.LinearMap.from_bytes(with_header(data, batches=[[count, bits, form]]))
    full = ckks.context(params=ckks.Parameters.for_depth(2, n=1 << 10, security=None))
    data = ckks.linear(drawn(5, 3), full).to_bytes()
    ((count, bits, _),) = header_of(data)["batches"]
    with pytest.raises(ckks.SerializationError, match="slots that repeat, and these do not"):
        ckks.LinearMap.from_bytes(with_header(data, batches=[[count, bits, 3]]))


def test_a_wide_product_repeats_and_the_next_map_takes_no_copies_of_it(ctx):
    first, second, third = drawn(8, 60) / 8, drawn(8, 8), drawn(20, 8)
    owner = ckks.context(params=ctx.params)
    x, values = owner.encrypt(drawn(60)), drawn(60)
    maps = [ckks.linear(m, owner, level=level) for m, level in ((first, 4), (second, 2))]
    assert [len(m.places) for m in maps] == [8, 8]
    own, other = ({step % SLOTS for step in m.rotations} for m in maps)
    needed = own | (other - {-maps[1].split.period})
    owner.rotation_keys(sorted(needed))
    with owner.server(rotations=sorted(needed)):
        hidden = maps[0] @ x
        assert hidden.layout.tail.period == 8
        y = maps[1] @ (hidden * hidden)
    clear = second @ (first @ values) ** 2
    assert y.level == 4 - 3 and error(y, clear) < 100 * BAR
    assert np.allclose(all_slots(hidden).reshape(-1, 8), first @ values, atol=BAR)
    for m in (second, third):  # the same where it is encoded in place
        y = m @ (0.5 * hidden + 1)
        assert y.level == 1 and error(y, m @ (0.5 * (first @ values) + 1)) < 10 * BAR


@pytest.mark.once
def test_a_plan_needs_no_copies_and_no_level_for_them(ctx):
    first, second = drawn(8, 60) / 8, drawn(8, 8)
    plan = ren.plan(
        lambda x: second @ (first @ x) ** 2, ckks.spec(60), n=1 << 10, slots=SLOTS, security=None
    )
    assert plan.depth == 3
    assert -8 % SLOTS not in {step % SLOTS for step in plan.rotations}


@pytest.mark.once
@pytest.mark.parametrize("shape", [(5, 5), (3, 5), (8, 7), (60, 5), (1, 5)])
def test_maps_of_other_widths_meet_a_vector_that_repeats(ctx, shape):
    m, values = drawn(*shape), drawn(50)
    wide = drawn(shape[1], 50) / 8
    x = wide @ ctx.encrypt(values)
    assert x.layout.tail.period in (0, 8)
    want = m @ (wide @ values)
    assert error(m @ x, want) < 10 * BAR
    assert error(ckks.linear(m, ctx, level=3) @ x, want) < 10 * BAR
    batch = ctx.encrypt(drawn(2, 50), pack="rows")
    y = batch @ wide.T @ m.T
    assert error(y, drawn(2, 50) @ wide.T @ m.T) < 10 * BAR
    with pytest.raises(ckks.ParameterError, match=r"batch @ matrix.T"):
        wide @ batch


def test_the_tail_tells_of_what_repeats():
    eight, four = (attr_of(LEFTOVERS, period=p) for p in (8, 4))
    assert eight.plus(four).period == eight.times(four).period == 8
    assert eight.plus(LEFTOVERS).period == eight.times(LEFTOVERS).period == 0
    assert eight.plus(ZEROS).period == eight.times(ZEROS).period == 0
    assert eight.plus(number_tail(0.5)).period == eight.times(number_tail(2)).period == 8
    assert eight.moved(3).period == eight.mapped(1.0).period == 8
    assert eight.moved(3).has_leftovers
    layout = Layout(5, False, tail=eight)
    assert Layout.of_static(5, layout.static, None) == layout
    assert layout.static != layout.with_tail(four).static


def attr_of(tail: Any, **changes: Any) -> Any:
    return type(tail)(tail.before, tail.after, **changes)


def test_a_carry_that_repeats_may_repeat_no_more(ctx):
    """A loop keeps to one type; and a period is lost where JAX takes a ciphertext apart."""
    wide, values, w = drawn(8, 60) / 8, drawn(60), drawn(8)
    ctx.rotation_keys(range(1, SLOTS))  # traces make none
    x, y = wide @ ctx.encrypt(values), ctx.encrypt(w)
    assert x.layout.tail.period == 8
    made, _ = jax.lax.scan(lambda c, _: (c + y, None), x, None, length=3)
    assert error(made, wide @ values + 3 * w) < BAR
    assert jax.tree.map(lambda a: a, x).layout.tail.period == 0
    assert error(jax.jit(lambda v: drawn(8, 8) @ v)(x), drawn(8, 8) @ (wide @ values)) < 10 * BAR
    assert ren.jit(lambda v: v + 1)(x).layout.tail.period == 8


@pytest.mark.once
def test_what_changes_the_slots_forgets_that_they_repeat(ctx):
    x = drawn(8, 60) @ ctx.encrypt(drawn(60))
    assert x.layout.tail.period == 8
    kept = {
        "x * x": x * x, "2 * x - 1": 2 * x - 1, "-x": -x, "x[2:5]": x[2:5],
        "stack": ckks.stack([x, x]), "rescaled": x.rescale() if x.pending else x,
        "polynomial": ckks.poly(x, [0.5, 1, 0.25]),
    }  # fmt: skip
    for name, y in kept.items():
        assert y.layout.tail.period == 8, name
        slots = all_slots(y)
        copies = slots.reshape(*slots.shape[:-1], -1, 8)
        assert np.allclose(copies, copies[..., :1, :], atol=BAR), name
    masked, vector = x.mask(np.arange(8) < 3), x * drawn(8)
    for y in (masked, vector, x.rotate(1), x + ctx.encrypt(drawn(8)), ckks.concat([x, x])):
        assert y.layout.tail.period == 0
