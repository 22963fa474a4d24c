"""Rotations, conjugation and roll: order of composition, signs, sparse slots, missing keys."""

from __future__ import annotations

import operator
from functools import partial, reduce

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ren
from ren.core.node import toposort
from ren.core.op import MODUP
from ren.schemes import ckks
from tests.properties.cases import EXAMPLES

BAR = 2.0**-20


def error(x, want) -> float:
    return float(np.abs(x.decrypt() - want).max())


@pytest.mark.parametrize("steps", [1, -1, 5, 511, 512, -512, 513, 1025, -700])
def test_result_i_is_x_i_plus_k(ctx, slots, steps):
    a = slots(ctx.slots)
    x = ctx.encrypt(a)
    assert error(x.rotate(steps), np.roll(a, -steps)) < BAR


def test_rotation_by_a_multiple_of_the_slots_is_the_identity(ctx):
    x = ctx.encrypt([1.0])
    assert x.rotate(0) is x and x.rotate(ctx.slots) is x and x.rotate(np.int64(-512)) is x


def test_composition_and_conjugation(ctx):
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, ctx.slots) + 1j * rng.uniform(-1, 1, ctx.slots)
    x = ctx.encrypt(z)
    assert error(x.rotate(1).rotate(5), np.roll(z, -6)) < BAR
    assert error(x.rotate(5).rotate(-1), np.roll(z, -4)) < BAR
    assert error(x.conj(), z.conj()) < BAR
    assert error(x.conj().rotate(1), np.roll(z.conj(), -1)) < BAR
    assert error(x.rotate(1).conj().conj(), np.roll(z, -1)) < BAR


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level(ctx, slots, level):
    a = slots(ctx.slots)
    assert error(ctx.encrypt(a, level=level).rotate(1), np.roll(a, -1)) < BAR


@pytest.mark.parametrize("count", [1, 4, 128])
def test_sparse_slots_wrap_at_their_number(small_params, slots, count):
    owner = ckks.context(params=small_params, slots=count)
    a = np.random.default_rng(count).uniform(-1, 1, count)
    x = owner.encrypt(a)
    assert x.slots == count and error(x, a) < BAR
    for steps in (1, -1, count, count + 1):
        assert error(x.rotate(steps), np.roll(a, -steps)) < BAR
    assert error(x * x + a, a * a + a) < BAR


@pytest.mark.parametrize("shift", [0, 1, -1, 4, 99])
def test_roll_over_the_logical_length(ctx, shift):
    a = np.arange(10) / 10
    x = ctx.encrypt(a) + 0.5  # padding is no longer zero
    assert error(x.roll(shift), np.roll(a + 0.5, shift)) < BAR
    full = np.random.default_rng(1).uniform(-1, 1, ctx.slots)
    assert error(ctx.encrypt(full).roll(1), np.roll(full, 1)) < BAR


def test_rotations_of_one_ciphertext_share_their_mod_up(ctx):
    x = ctx.encrypt([1.0, 2.0]).realize()
    z = x.rotate(1) + x.rotate(5) + x.conj()
    lifts = [n for n in toposort(z.polys[0].node, z.polys[1].node) if n.op is MODUP]
    digits = len(ctx.params.digits)
    assert 0 < len(lifts) <= digits


def test_a_server_lacks_keys_that_were_not_made(small_params):
    owner = ckks.context(params=small_params, rotations=[2, -3])
    server, x = owner.server(), owner.encrypt([1.0, 2.0, 3.0])
    with server:
        x.rotate(2), x.rotate(-3), x.rotate(2 + owner.slots)
        with pytest.raises(ckks.MissingKeyError) as info:
            x.rotate(7)
        assert "rotate(7)" in str(info.value) and "ctx.rotation_keys([7])" in str(info.value)
        with pytest.raises(ckks.MissingKeyError, match="conjugation_key"):
            x.conj()
    with pytest.raises(ckks.MissingKeyError, match="secret key"):
        server.rotation_keys([1])
    owner.rotation_keys(7)
    owner.conjugation_key()
    with owner.server():
        x.rotate(7), x.conj()


def test_keys_are_not_made_inside_a_trace(small_params):
    owner = ckks.context(params=small_params)
    x = owner.encrypt([1.0, 2.0])
    with pytest.raises(ckks.MissingKeyError, match=r"rotation_keys\(\[3\]\)"):
        jax.jit(lambda x: x.rotate(3))(x)
    owner.rotation_keys([3])
    assert error(jax.jit(lambda x: x.rotate(3))(x), [0, 0]) < BAR


KINDS = ("none", "negation", "integer", "number", "plaintext")


class Weighted:
    """Rotations of one vector, times weights of several kinds, summed."""

    def __init__(self) -> None:
        params = ckks.Parameters.for_depth(1, n=1 << 7, security=None)
        self.ctx = ckks.context(params=params, rotations=list(range(1, 7)))
        self.vector = np.linspace(-1, 1, params.slots)
        self.clear = np.linspace(0.5, 2, params.slots)
        self.plaintext = ren.realize(self.ctx.encode(self.clear))

    def term(self, kind: str, i: int, x):
        """A rotation by i + 1, weighted: of a ciphertext, or of an array in the clear."""
        is_clear = isinstance(x, np.ndarray)
        turned = np.roll(x, -i - 1) if is_clear else x.rotate(i + 1)
        if kind == "plaintext":
            return turned * (self.clear if is_clear else self.plaintext)
        return {"none": turned, "negation": -turned, "integer": turned * (i + 2),
                "number": (i + 0.5) * turned}[kind]  # fmt: skip

    def sum(self, kinds: list[str], x):
        return reduce(operator.add, (self.term(kind, i, x) for i, kind in enumerate(kinds)))


@pytest.fixture(scope="module")
def weighted() -> Weighted:
    return Weighted()


@pytest.mark.long
@given(kinds=st.lists(st.sampled_from(KINDS), min_size=2, max_size=6))
@settings(max_examples=15 if EXAMPLES >= 500 else 8)
def test_a_sum_of_rotations_takes_as_few_transforms_whatever_its_weights(weighted, kinds):
    x = weighted.ctx.encrypt(weighted.vector)
    made, least = (ren.jit(partial(weighted.sum, k)) for k in (kinds, ["plaintext"] * len(kinds)))
    assert error(made(x), weighted.sum(kinds, weighted.vector)) < BAR
    least(x)
    assert made.plans[0].cost.limb_ntts <= least.plans[0].cost.limb_ntts
