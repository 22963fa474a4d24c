"""Donated polynomials: every way to their buffers raises, everything else goes on working."""

from __future__ import annotations

import gc
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ren
from ren import Domain, Poly
from ren.core.errors import DonatedBufferError
from ren.lowering.devices.donation import mark, may_donate
from ren.lowering.runtime.planning import run_planned
from ren.poly import realization
from ren.poly.poly import from_node
from ren.poly.realization import known_buffer
from ren.schemes import ckks
from tests.donation import address, call, held, planned
from tests.lowering.plans import RING, poly


def made(seed: int = 0, **options) -> Poly:
    """Computed, so that JAX owns its buffer."""
    return (poly(seed, **options) + 1).realize()


def step(w: Poly, g: Poly) -> Poly:
    return w - g * 3


def gone(p: Poly) -> Poly:
    mark([p.node.arg.array])
    return p


# ------------------------------------------------------------------- what happens


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)], ids=str)
def test_a_step_reuses_the_buffer_of_what_it_replaces(batch):
    w, g = made(1, batch=batch), made(2, batch=batch)
    want, before = step(w, g).tolist(), address(w)
    result = call(step, w, g)
    assert address(result) == before
    assert result.tolist() == want
    with pytest.raises(DonatedBufferError):
        w.tolist()
    assert g.tolist() == made(2, batch=batch).tolist()


def test_a_loop_of_steps_stays_in_one_buffer():
    w, g = made(1), made(2)
    want, before = w - g * 9, address(w)
    want = want.realize()
    for _ in range(3):
        w = call(step, w, g)
    assert address(w) == before and ren.equal(w, want)


def test_an_argument_of_another_shape_is_given_up_although_nothing_fits():
    w = made(1)
    result = call(lambda w: w.to_ring(RING.with_moduli(RING.moduli[:2])) + 1, w)
    want = made(1).to_ring(RING.with_moduli(RING.moduli[:2])) + 1
    assert ren.equal(result, want)
    with pytest.raises(DonatedBufferError):
        w.realize()


def test_an_argument_that_is_not_used_is_given_up():
    w, g = made(1), made(2)
    call(lambda w, g: g + 1, w, g)
    with pytest.raises(DonatedBufferError):
        np.copy(w)


def test_the_python_device_gives_up_too():
    w, g = made(1).to("python").realize(), made(2).to("python").realize()
    result = call(step, w, g)
    assert result.device == "python"
    assert ren.equal(result, step(made(1), made(2)))
    with pytest.raises(DonatedBufferError):
        w.tolist()
    assert ren.equal(g, made(2))


@pytest.mark.parametrize("device", ["cpu", "python"])
@pytest.mark.parametrize("function", [lambda w: w, Poly.contiguous], ids=["itself", "contiguous"])
def test_an_argument_handed_through_is_a_result_of_its_own(device, function):
    w = made(1).to(device).realize()
    result = call(function, w)
    assert ren.equal(result, made(1)) and result.device == w.device
    with pytest.raises(DonatedBufferError):
        w.tolist()


@pytest.mark.parametrize("options", [{}, {"prune": True}], ids=["closed over", "pruned"])
@pytest.mark.parametrize("device", ["cpu", "python"])
def test_a_result_that_a_plan_holds_may_be_given_away(device, options):
    """It is a copy: the plan gives it again, and what is closed over stays."""
    held_by_plan, x = (made(seed).to(device).realize() for seed in (1, 2))
    f = ren.jit(**options)(lambda a: (a * 2, held_by_plan * held_by_plan, held_by_plan))
    expected = [p.tolist() for p in f(x)]
    for _ in range(2):
        _, square, same = f(x)
        call(step, square, x)
        call(step, same, x)
    assert [p.tolist() for p in f(x)] == expected
    assert ren.equal(held_by_plan, made(1))


@pytest.mark.parametrize("device", ["cpu", "python"])
def test_one_array_given_twice_is_computed_with_and_then_given_up(device):
    w = made(1).to(device).realize()
    other = Poly.from_limbs(w.limbs, RING)
    assert ren.equal(call(lambda a, b: a + b * 2, w, other), made(1) * 3)
    for p in (w, other):
        with pytest.raises(DonatedBufferError):
            p.tolist()


def test_two_handles_on_one_buffer_are_both_given_up():
    w, g = made(1), made(2)
    same = w.to(jax.devices()[0]).realize()
    assert same.limbs is not w.limbs and address(same) == address(w)
    assert ren.equal(call(lambda a, b: a + b * 2, w, same), made(1) * 3)
    w, same = made(1), made(1)
    handle = jax.tree.map(lambda leaf: leaf, w)
    call(step, w, g)
    with pytest.raises(DonatedBufferError):
        handle.tolist()
    assert ren.equal(same, made(1))


def test_a_donated_polynomial_that_is_closed_over_too_is_not_overwritten_while_it_is_read():
    w = made(1)
    plan, _ = planned(lambda a: a.ntt() * w.ntt() + a.ntt(), [w])
    assert held(plan) == [w.limbs]
    assert not may_donate([w.limbs, *held(plan)], [0])
    result = call(lambda a: a.ntt() * w.ntt() + a.ntt(), w)
    assert ren.equal(result, made(1) * made(1) + made(1))
    with pytest.raises(DonatedBufferError):
        (w + 1).realize()
    with pytest.raises(DonatedBufferError):
        call(lambda a: a + w, made(2))


def test_jitted_functions_refuse_what_was_donated():
    f = ren.jit(step)
    w, g = gone(made(1)), made(2)
    with pytest.raises(DonatedBufferError, match="test_donation"):
        f(w, g)
    closed = ren.jit(lambda x: x + w)
    with pytest.raises(DonatedBufferError):
        closed(g)


# ------------------------------------------------------------------- lazy polynomials


def test_a_lazy_polynomial_that_reads_a_donated_one_raises():
    w = made(1)
    lazy = (w + 1).ntt() * w
    gone(w)
    for read in (lazy.realize, lazy.tolist, lambda: ren.realize([lazy]), lambda: lazy.limbs):
        with pytest.raises(DonatedBufferError):
            read()


def test_the_realization_map_computes_anew_what_was_donated():
    x = made(1)
    first, second = x * x + 1, x * x + 1
    above = first.ntt() + 2
    assert first.node is second.node
    want = first.realize().tolist()
    assert second.is_realized
    gone(first)
    assert not second.is_realized and known_buffer(second.node) is None
    assert second.tolist() == want
    assert ren.equal(above, made(1) * made(1) + 3)
    with pytest.raises(DonatedBufferError):
        first.tolist()


def test_the_realization_map_raises_where_the_sources_are_gone_too():
    x = made(1)
    first, second = x * x + 1, x * x + 1
    first.realize()
    gone(x)
    assert ren.equal(second, made(1) * made(1) + 1)  # through the map
    third = (made(2) + x).node
    gone(first)
    with pytest.raises(DonatedBufferError):
        second.tolist()
    with pytest.raises(DonatedBufferError):
        from_node(third).realize()


def test_the_python_device_is_forgotten_by_the_map_as_well():
    x = made(1).to("python").realize()
    first, second = x + 5, x + 5
    gone(first.realize())
    assert ren.equal(second, made(1) + 5)


# ------------------------------------------------------------------- every way to the buffer

WAYS = {
    "limbs": lambda w: w.limbs,
    "tolist": lambda w: w.tolist(),
    "centered": lambda w: w.tolist(centered=True),
    "tobytes": lambda w: w.tobytes(),
    "copy": np.copy,
    "jnp.asarray": lambda w: jnp.asarray(w.limbs),
    "equal": lambda w: ren.equal(made(2), w),
    "realize": lambda w: w.realize(),
    "ren.realize": lambda w: ren.realize({"a": [w, made(2)]}),
    "ntt": lambda w: w.ntt().realize(),
    "to": lambda w: w.to("python").realize(),
    "pickle": pickle.dumps,
    "leaves": jax.tree.leaves,
    "tree.map": lambda w: jax.tree.map(jnp.copy, w),
    "jit": lambda w: jax.jit(lambda x: x + 1)(w),
    "vmap": lambda w: jax.vmap(lambda x: x + 1)(w),
    "scan": lambda w: jax.lax.scan(lambda c, _: (c + 1, None), w, None, length=2),
    "closed over in jit": lambda w: jax.jit(lambda x: x + w)(made(2)),
    "device_put": lambda w: jax.device_put(w),
    "block_until_ready": jax.block_until_ready,
    "ren.jit": lambda w: ren.jit(lambda x: x + 1)(w),
    "ren.djit": lambda w: ren.djit(lambda x: x + 1)(w),
}


@pytest.mark.parametrize("device", ["cpu", "python"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_a_donated_buffer_raises(way, device):
    w = made(1).to(device).realize()
    untouched = jax.tree.unflatten(jax.tree.structure(w), [w.limbs])  # as JAX makes them
    gone(w)
    for p in (w, untouched):
        with pytest.raises(DonatedBufferError) as caught:
            WAYS[way](p)
        assert "test_donation.py:" in str(caught.value)


@pytest.mark.parametrize("device", ["cpu", "python"])
def test_what_a_polynomial_is_can_still_be_asked(device):
    w = made(1, batch=(2,)).to(device).realize()
    known = (hash(w), w.shape, w.device, w.ring, w.domain)
    gone(w)
    assert known == (hash(w), w.shape, w.device, w.ring, w.domain)
    assert w == w and w != made(2) and w.domain is Domain.COEFF
    assert repr(w).endswith("coeff, donated)")
    assert str(w.node).startswith("%0 = BUFFER") and "donated" in w._repr_html_()


def test_a_copy_kept_before_outlives_the_donation():
    w = made(1)
    kept = jax.tree.map(jnp.copy, w)
    call(step, w, made(2))
    assert ren.equal(kept, made(1))


def test_a_ciphertext_of_donated_polynomials_raises():
    context = ckks.context(depth=1, n=1024, security=None)
    x = context.encrypt([1.0, 2.0])
    y = x + x
    jax.block_until_ready(x)
    mark(jax.tree.leaves(x))
    for read in (x.decrypt, x.to_bytes, y.decrypt, lambda: jax.jit(lambda c: c)(x)):
        with pytest.raises(DonatedBufferError, match="test_donation"):
            read()
    assert "Ciphertext" in repr(x)


def test_another_thread_gives_a_buffer_away_in_the_middle_of_it():
    w, errors = made(1), []

    def read():
        try:
            for _ in range(200):
                (w + 1).realize()
        except Exception as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    mark([w.limbs])
    reader.join()
    assert all(isinstance(e, DonatedBufferError) for e in errors)
    with pytest.raises(DonatedBufferError):
        (w + 1).realize()


def test_a_buffer_of_the_map_that_another_thread_gives_away_is_computed_anew(monkeypatch):
    x = made(1)
    first, second = x * x + 1, x * x + 1
    above = second + 2
    first.realize()

    def meanwhile(plan, inputs):
        monkeypatch.undo()
        gone(first)
        return run_planned(plan, inputs)

    monkeypatch.setattr(realization, "run_planned", meanwhile)
    assert ren.equal(above, made(1) * made(1) + 3)

    def for_good(plan, inputs):
        gone(x)
        return run_planned(plan, inputs)

    monkeypatch.setattr(realization, "run_planned", for_good)
    with pytest.raises(DonatedBufferError):
        (x + 7).realize()


@pytest.mark.long
def test_marks_go_with_the_memory():
    w = made(1).to("python").realize()
    gone(w)
    del w
    gc.collect()
    assert made(1).to("python").realize().tolist()
