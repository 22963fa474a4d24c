"""Maps whose diagonals are the real and the imaginary parts of others: half as many products."""

from __future__ import annotations

import pickle

import hypothesis
import jax
import numpy as np
import pytest
from hypothesis import strategies as st

import ren
from ren.schemes import ckks
from ren.schemes.ckks.circuits import linear
from ren.schemes.slots.diagonals import split
from tests.properties.cases import EXAMPLES
from tests.schemes.ckks.frames import header_of, with_header

BAR = 2.0**-18


@pytest.fixture(scope="module")
def ctx() -> ckks.Context:
    """n = 2^10, depth 4; insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(4, n=1 << 10, security=None))


@pytest.fixture(scope="module")
def few(ctx: ckks.Context) -> ckks.Context:
    """The same with 64 slots, repeated."""
    return ckks.context(params=ctx.params, slots=64)


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).uniform(-1, 1, shape)


def error(x: ckks.Ciphertext, want: np.ndarray) -> float:
    got = x.decrypt()
    assert got.shape == want.shape and got.dtype == want.dtype
    return float(np.abs(got - want).max())


def sparse(m: int, k: int) -> np.ndarray:
    """Few diagonals, far apart, and rows that are empty."""
    matrix = np.zeros((m, k))
    matrix[:: max(1, m // 3), :: max(1, k // 4)] = drawn(m, k)[:: max(1, m // 3), :: max(1, k // 4)]
    return matrix


@pytest.mark.parametrize("name", ["ctx", "few"])
@pytest.mark.parametrize("make", [drawn, sparse])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 40), (40, 3), (16, 16), (90, 70)])
def test_products_are_those_of_the_matrix_and_their_imaginary_parts_are_gone(
    request, name, make, shape
):
    ctx, matrix, values = request.getfixturevalue(name), make(*shape), drawn(shape[1])
    m = ckks.linear(matrix, ctx, paired=True)
    x = ctx.encrypt(values)
    y = m @ x
    assert y.level == x.level - 1 and not y.layout.is_complex
    assert error(y, matrix @ values) < BAR
    assert np.abs((1j * y).decrypt().real).max() < BAR  # of what was imaginary
    assert error(y * y, (matrix @ values) ** 2) < 8 * BAR
    low = m @ x.drop_to(2)
    assert low.level == 1 and error(low, matrix @ values) < BAR


def test_pairs_are_half_of_the_diagonals_and_of_the_memory(ctx):
    matrix, values = drawn(64, 64), drawn(64)
    whole, m = (ckks.linear(matrix, ctx, paired=p) for p in (False, True))
    assert len(whole.places) == 64 and len(m.places) <= 36
    assert m.nbytes * 64 == whole.nbytes * len(m.places)
    assert m.needs_conjugation and not whole.needs_conjugation
    assert f"{len(m.places)} pairs of diagonals" in repr(m) and " pairs" in m._repr_html_()
    assert "pairs" not in repr(whole)
    y = m @ ctx.encrypt(values)
    assert y.estimate.message_bound <= 2 * (whole @ ctx.encrypt(values)).estimate.message_bound


@pytest.mark.parametrize("keys", [3, 5, 12])
def test_one_key_for_many_steps(ctx, keys):
    matrix, values = drawn(12, 12), drawn(12)
    m = ckks.linear(matrix, ctx, keys=keys, paired=True)
    assert len(m.rotations) <= keys
    assert error(m @ ctx.encrypt(values), matrix @ values) < BAR


def test_each_baby_is_in_one_pair():
    for steps in ([0], [0, 1, 5], range(7), [3, 9, 27, 81]):
        found = split(steps, is_paired=True)
        members = [b for pair in found.pairs.items() for b in pair if b is not None]
        assert members == list(found.babies)
        assert all(a == b or found.pairs[a] == b for b, a in found.first_of.items())
        assert {*found.first_of} == {*found.babies}


def test_parts_of_a_map_end_between_pairs(ctx, monkeypatch):
    matrix, values = drawn(9, 9), drawn(2, 9)
    x = ctx.encrypt(values, pack="rows")
    want = ren.realize(ckks.linear(matrix, ctx, paired=True) @ x)
    for least in (1, 2, 3):
        monkeypatch.setattr(linear, "_PART", 1)
        monkeypatch.setattr(linear, "_LEAST", least)
        m = ckks.linear(matrix, ctx, paired=True)
        assert {p.wide.shape[0] for p in m.plaintexts[:-1]} == {least}
        y = ren.realize(m @ x)
        assert all(map(ren.equal, y.polys, want.polys))


@pytest.mark.once
@pytest.mark.parametrize("share", [0.5, 0.8])
def test_kept_as_coefficients_and_in_bytes_they_give_the_same_bits(ctx, monkeypatch, share):
    monkeypatch.setattr(linear, "_PART", 1)
    monkeypatch.setattr(linear, "_LEAST", 4)
    matrix, values = drawn(20, 20), drawn(20)
    whole = ckks.linear(matrix, ctx, paired=True)
    found = ckks.linear(matrix, ctx, memory=int(whole.nbytes * share), paired=True)
    assert found.nbytes <= whole.nbytes * share
    x = ctx.encrypt(values)
    want = ren.realize(whole @ x)
    again = pickle.loads(pickle.dumps(found))
    assert (again.split, again.places) == (found.split, found.places)
    made = (
        ren.realize(found @ x),
        ren.realize(again @ x),
        ren.jit(lambda m, x: m @ x)(found, x),
    )
    assert error(jax.jit(lambda m, x: m @ x)(whole, x), matrix @ values) < BAR
    with ren.config.update(native=False):
        made += (ren.realize(ckks.LinearMap.from_bytes(whole.to_bytes()) @ x),)
    for y in made:
        assert all(map(ren.equal, y.polys, want.polys))
        assert error(y, matrix @ values) < BAR


@pytest.mark.once
def test_batches_and_images(ctx):
    matrix, values = drawn(10, 30), drawn(3, 30)
    m = ckks.linear(matrix, ctx, paired=True)
    x = ctx.encrypt(values, pack="rows")
    for y in (m @ x, jax.vmap(m.__matmul__)(x)):
        assert error(y, values @ matrix.T) < BAR
    kernels, image = drawn(2, 1, 3, 3), drawn(1, 8, 8)
    pair, plain = (
        ckks.convolution(kernels, (1, 8, 8), ctx, padding="same", paired=p) for p in (True, False)
    )
    y, want = (m @ ctx.encrypt(image) for m in (pair, plain))
    assert y.shape == (2, 8, 8) and error(y, want.decrypt()) < BAR


def test_a_server_needs_the_conjugation_key_and_a_plan_says_so(ctx):
    matrix, values = drawn(12, 12), drawn(12)
    owner = ckks.context(params=ctx.params)
    m = ckks.linear(matrix, owner, paired=True)
    owner.rotation_keys(m.rotations, m.level)
    x = owner.encrypt(values)
    with owner.server(), pytest.raises(ckks.MissingKeyError, match=r"conjugation_key\(\)"):
        (m @ x).realize()
    f = lambda x: ckks.linear(matrix, paired=True) @ x  # noqa: E731
    plan = ren.plan(f, ckks.spec(12), n=1 << 10, security=None)
    assert plan.needs_conjugation and list(plan.rotations) == m.rotations
    owner.conjugation_key(m.level)
    for server in (
        owner.server(),
        owner.server(m.rotations, conjugation=True),
        owner.server(dict.fromkeys(m.rotations, m.level), False, conjugation=True),
    ):
        with server:
            y = (m @ x).realize()
        with owner:
            assert error(y, matrix @ values) < BAR
    for server in (owner.server(conjugation=False), owner.server(m.rotations)):
        with server, pytest.raises(ckks.MissingKeyError, match="takes conjugation=True too"):
            (m @ x).realize()
    with owner.server():  # the owner has it still
        y = (m @ x).realize()
    assert error(y, matrix @ values) < BAR


def test_what_is_not_real_is_refused(ctx):
    m = ckks.linear(drawn(3, 3), ctx, paired=True)
    with pytest.raises(ckks.ParameterError, match="met a ciphertext of complex numbers"):
        m @ ctx.encrypt(drawn(3) * 1j)
    with pytest.raises(ckks.ParameterError, match="paired=True and a matrix of complex"):
        ckks.linear(drawn(3, 3) * 1j, ctx, paired=True)
    for bad in ("yes", 1, None):
        with pytest.raises(ckks.ParameterError, match="got paired="):
            ckks.linear(drawn(3, 3), ctx, paired=bad)  # type: ignore[arg-type]


def test_damaged_pairs_are_refused(ctx):
    data = ckks.linear(drawn(9, 9), ctx, paired=True).to_bytes()
    held = header_of(data)["pairs"]
    with pytest.raises(ckks.SerializationError, match="complex matrix are paired"):
        ckks.LinearMap.from_bytes(with_header(data, is_complex=1))
    assert ckks.LinearMap.from_bytes(data).needs_conjugation
    for pairs in (held[1:], held[::-1], [*held, held[-1]], [*held, 1 << 20], [0.5], "a", [True]):
        with pytest.raises(ckks.SerializationError, match="not a linear map"):
            ckks.LinearMap.from_bytes(with_header(data, pairs=pairs))


@pytest.mark.long
@pytest.mark.once
@hypothesis.settings(max_examples=EXAMPLES if EXAMPLES >= 500 else 12)
@hypothesis.given(st.data())
def test_any_real_map_equals_its_pairs(ctx, few, data):
    ctx = data.draw(st.sampled_from([ctx, few]))
    m, k = (data.draw(st.integers(1, 90)) for _ in range(2))
    level = data.draw(st.integers(2, ctx.params.depth))
    matrix = data.draw(st.sampled_from([drawn, sparse]))(m, k)
    given = {"level": level, "keys": data.draw(st.sampled_from([None, 12]))}
    made = ckks.linear(matrix, ctx, leftovers=data.draw(st.booleans()), paired=True, **given)
    found = ckks.LinearMap.from_bytes(made.to_bytes())
    values = drawn(k)
    x = ctx.encrypt(values).drop_to(level)
    y = ren.realize(found @ x)
    assert all(map(ren.equal, y.polys, ren.realize(made @ x).polys))
    assert (found.split, found.places) == (made.split, made.places)
    assert error(y, matrix @ values) < 4 * BAR
    assert np.abs(y.decrypt() - matrix @ values).max() <= y.estimate.error_bound
