"""Tracked bounds of message and error: that they hold, that they are close, and how they travel."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import ren
from ren.core.errors import MessageBoundWarning, ParameterError, TracedValueError
from ren.schemes import ckks
from ren.schemes.ckks.encoding.ciphertext_data import with_fields
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.bounds import WIDTH
from ren.schemes.ckks.noise.places import PLACES

SLOTS = 512
BATCH = 50
UNKNOWN = np.full(WIDTH, np.nan, np.float32)
BINARY = {"*": np.multiply, "+": np.add, "-": np.subtract}


@pytest.fixture(scope="module")
def params():
    return ckks.Parameters.for_depth(4, n=2 * SLOTS, security=None)


@pytest.fixture(scope="module")
def deep(params):
    return ckks.context(params=params)


def unit(draw, kind: str) -> np.ndarray:
    """Values of modulus 1."""
    if kind == "real":
        return draw.choice([-1.0, 1.0], (BATCH, SLOTS))
    return np.exp(2j * np.pi * draw.random((BATCH, SLOTS)))


def step(draw, kind, x, a, y, b):
    """A random operation on ciphertexts x and y that hold a and b; None where a level lacks."""
    linear = ["-", "plain", "number", "int", "rotate", "conj", "sum"]
    name = draw.choice(["*"] * 4 + ["+"] * 2 + linear)
    if name in ("*", "plain", "number", "sum") and min(x.level, y.level) == 0:
        return None
    if name in BINARY:
        return OPERATORS[name](x, y), BINARY[name](a, b)
    if name == "plain":
        m = unit(draw, kind)
        return x * m + m, a * m + m
    if name == "number":
        c = draw.uniform(-1, 1)
        return x * c - c, a * c - c
    if name == "int":
        k = int(draw.integers(1, 4))
        return x * k, a * k
    if name == "rotate":
        k = int(2 ** draw.integers(0, 9))
        return x.rotate(k), np.roll(a, -k, -1)
    if name == "sum":
        count, k = int(2 ** draw.integers(1, 7)), int(draw.choice([1, 3, 8]))
        moved = [np.roll(a, -k * i, -1) for i in range(count)]
        return ckks.strided_sum(x, count, k) * (1 / count), sum(moved) / count
    return x.conj(), a.conj()


OPERATORS = {
    "*": lambda x, y: x * y,
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
}


def pessimism(draw, ctx, kind: str) -> np.ndarray:
    """log2(bound / largest error) for a batch of inputs to a random program of depth up to 4."""
    owner = ctx if draw.random() < 0.7 else ctx.public()
    pool = []
    for m in (unit(draw, kind) for _ in range(draw.integers(1, 5))):
        pool.append((owner.encrypt(m, pack="rows"), m))
    for _ in range(draw.integers(1, 12)):
        i, j = draw.integers(len(pool), size=2)
        pool += [made] if (made := step(draw, kind, *pool[i], *pool[j])) else []
    x, want = pool[-1]
    errors = np.abs(x.decrypt() - want).max(-1)
    return np.log2(x.estimate.error_bound / np.maximum(errors, 1e-30))  # x - x has no error


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.filterwarnings(
    "ignore::ren.core.errors.MessageBoundWarning",
    "ignore::ren.core.errors.TransparentWarning",  # a difference of one ciphertext with itself
)
def test_bounds_hold_in_ten_thousand_trials_and_are_close(params, kind):
    draw, found = np.random.default_rng(5), []
    for _ in range(10):
        ctx = ckks.context(params=params)
        found += [pessimism(draw, ctx, kind) for _ in range(10)]
    found = np.concatenate(found)
    assert found.size == 5_000  # of each kind
    assert found.min() > 0
    assert np.median(found) <= 2


SLOW = [pytest.param(bits, marks=pytest.mark.slow) for bits in (30, 50)]


@pytest.mark.parametrize("bits", [*SLOW, 60])
def test_other_scales(bits):
    ctx = ckks.context(2, scale_bits=bits, n=2 * SLOTS, security=None)
    draw = np.random.default_rng(bits)
    a, b = (np.exp(2j * np.pi * draw.random((BATCH, SLOTS))) for _ in range(2))
    x, y = (ctx.encrypt(v, pack="rows") for v in (a, b))
    for z, want in [
        (x, a),
        (x * y, a * b),
        (x.rotate(3) * b, np.roll(a, -3, -1) * b),
        (x.drop_to(1), a),
    ]:
        loose = np.log2(z.estimate.error_bound / np.abs(z.decrypt() - want).max(-1))
        assert loose.min() > 0 and np.median(loose) < 2.5


@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")
def test_dependent_errors_add_up(deep):
    x, y = deep.encrypt(np.ones(SLOTS)), deep.encrypt(np.ones(SLOTS))
    v, w = x.estimate.variance, y.estimate.variance
    assert (x + x).estimate.variance == pytest.approx(4 * v, rel=1e-5)
    assert (x - x).estimate.variance == pytest.approx(4 * v, rel=1e-5)  # a bound
    assert (3 * x).estimate.variance == pytest.approx(9 * v, rel=1e-5)
    assert v + w <= (x + y).estimate.variance * (1 + 1e-5) <= 4 * v * (1 + 1e-4)
    moved = x.rotate(5).rotate(-5)
    lifted = (moved + x).estimate.variance
    assert lifted > moved.estimate.variance + 2.9 * v  # x meets itself again


def test_a_sum_over_the_slots_grows_as_its_root(deep):
    x = deep.encrypt(np.zeros(SLOTS))
    total, step = x, 1
    while step < PLACES:
        total, step = total + total.rotate(step), 2 * step
    terms = x.estimate.variance + sum(
        (x.rotate(1).estimate.variance - x.estimate.variance) / 2**i for i in range(5)
    )
    assert total.estimate.variance < 3 * PLACES * terms


@pytest.mark.slow
def test_sums_over_the_slots_are_close(params):
    draw = np.random.default_rng(0)
    loose = {"sum": [], "mean": [], "dot": [], "wide": [], "tile": []}
    for _ in range(8):
        ctx = ckks.context(params=params)
        a, b = draw.uniform(-1, 1, 100), draw.uniform(-1, 1, SLOTS)
        x, y = ctx.encrypt(a), ctx.encrypt(b)
        for name, made, want in [
            ("sum", x.sum(), a.sum()),
            ("mean", y.mean(), b.mean()),
            ("dot", x.dot(y[:100]), a @ b[:100]),
            ("wide", np.ones((1, SLOTS)) @ y, b.sum(keepdims=True)),
            ("tile", ctx.encrypt(b[:4]).tile(100), np.tile(b[:4], 100)),
        ]:
            error = np.abs(ctx.slots_of(made)[: np.size(want)] - want).max()
            loose[name].append(np.log2(made.estimate.error_bound / error))
    assert all(min(bits) > 0 and np.median(bits) < 6 for bits in loose.values()), loose


def test_a_sum_over_the_slots_meets_itself_again(deep):
    x = deep.encrypt(np.zeros(SLOTS))
    total = x.sum().within(1)  # the same in every slot: its error too
    v = total.estimate.variance
    assert (total + total.rotate(1)).estimate.variance > 3.9 * v
    again = ckks.strided_sum(total, SLOTS).estimate.variance
    assert again > 0.99 * SLOTS**2 * v
    assert (total + 50 * x).estimate.variance > v + 2500 * x.estimate.variance


def test_sums_of_products_count_one_rounding(deep):
    draw = np.random.default_rng(0)
    xs = [deep.encrypt(draw.choice([-1.0, 1.0], SLOTS)) for _ in range(4)]
    one = xs[0] * xs[1]
    late = xs[0] * xs[1] + xs[2] * xs[3]
    early = one.rescale() + (xs[2] * xs[3]).rescale()
    assert late.estimate.variance < early.estimate.variance


def test_message_bounds(deep):
    x = deep.encrypt([0.5, -0.25])
    assert x.estimate.message_bound == 1
    assert deep.encrypt([3.0]).estimate.message_bound == 4
    assert deep.encrypt([3.0], bound=10).estimate.message_bound == 10
    assert (x * 3 + 2).estimate.message_bound == 6  # numbers tell the power of two above them
    assert (x + x + x - 2).estimate.message_bound == 5
    assert (x * np.full(2, 0.3)).estimate.message_bound == 0.5
    assert (x * deep.encode([0.3, 0.1], bound=0.3)).estimate.message_bound == np.float32(0.3)
    assert (x * [0.5, 0.25]).estimate.message_bound == pytest.approx(0.5, rel=1e-5)
    assert (x * x - 0.5).within(0.75).estimate.message_bound == 0.75
    assert ((x * x).within(0.5) + x).estimate.message_bound == pytest.approx(1.5, rel=1e-5)
    assert (x * x).within(100).estimate.message_bound == pytest.approx(1, rel=1e-5)
    assert x.roll(1).estimate.message_bound == 1  # two masks that share no slot
    assert (x.roll(1) + x).estimate.message_bound == 2
    with pytest.raises(ParameterError, match="bound=2"):
        deep.encrypt([3.0], bound=2)


def test_a_batch_has_an_estimate_each(deep):
    x = deep.encrypt(np.array([[0.5], [8.0]]), pack="rows")
    assert x.noise.shape == (2, WIDTH) and x.noise.dtype == np.float32
    assert (x * x).noise[:, 0] == pytest.approx([1, 64], rel=1e-5)


def test_a_bound_that_is_left_warns_once_with_the_operation(deep):
    x = deep.encrypt([60.0])
    high = x * x  # level 3 holds it
    x = x.drop_to(1)
    with pytest.warns(MessageBoundWarning, match=r"a product: the message may reach 2\^12.0") as w:
        z = x * x
        z = z + z
    assert len(w) == 1 and w[0].filename == __file__
    with pytest.warns(MessageBoundWarning, match=r"drop_to\(\): the message may reach 2\^12.0"):
        high.compress()
    with pytest.warns(MessageBoundWarning, match=r"decrypt\(\): the message may reach 2\^13.0"):
        z.decrypt()
    f = ren.jit(lambda x: x * x)
    for _ in range(2):
        with pytest.warns(MessageBoundWarning):
            made = f(x)
        assert made.estimate.message_bound == pytest.approx(4096, rel=1e-5)
    assert (x.within(1) * 2).estimate.message_bound == pytest.approx(2)


@pytest.mark.slow
def test_a_plan_serves_all_estimates(deep):
    f = ren.jit(lambda x, y, c, w: (x * y + x * w) * c - y.rotate(1) * x)
    draw = np.random.default_rng(0)
    for bound in (1, 2, 4):
        x, y = (deep.encrypt(draw.uniform(-1, 1, 9), bound=bound) for _ in range(2))
        w, c = draw.uniform(-bound, bound, 9), 0.5 * bound
        made, want = f(x, y, c, w), (x * y + x * w) * c - y.rotate(1) * x
        np.testing.assert_allclose(made.noise, want.noise, rtol=1e-6)
        assert isinstance(made.noise, np.ndarray)
    assert f.cache_info()[:3] == (2, 1, 1)
    once = jax.jit(lambda x: x * x)(x)  # its estimate is an array of the device
    np.testing.assert_allclose(f(once, y, c, w).noise, f(x * x, y, c, w).noise, rtol=1e-5)


@pytest.mark.long
def test_long_programs_need_no_recursion(deep):
    def doubled(x):
        for _ in range(3_000):
            x = (x.within(1) + x).within(1)
        return x

    with pytest.warns(MessageBoundWarning, match="pass 2\\^60"):
        made = ren.jit(doubled)(deep.encrypt([0.0], level=0))
    assert is_unknown(made)  # errors beyond 2^60


@pytest.mark.slow
def test_estimates_in_transformations(deep):
    deep.rotation_keys([1])
    x, y = deep.encrypt([0.5]), deep.encrypt([0.25], bound=2)
    want = x * y
    np.testing.assert_allclose(jax.jit(lambda x, y: x * y)(x, y).noise, want.noise, rtol=1e-6)
    pair = jax.tree.map(lambda *leaves: jnp.stack(leaves), x, y)
    made = jax.vmap(lambda x: x * x.rotate(1))(pair)
    assert made.noise.shape == (2, WIDTH)
    np.testing.assert_allclose(made.noise[1], (y * y.rotate(1)).noise, rtol=1e-6)
    total, _ = lax.scan(lambda z, _: (z + z, None), x, None, length=3)
    assert float(total.noise[0]) == pytest.approx(8)
    either = lax.cond(True, lambda x: x + x, lambda x: x - 1.0, x)
    np.testing.assert_allclose(either.noise, (x + x).noise, rtol=1e-6)
    with pytest.raises(TracedValueError, match="test_noise"):
        jax.jit(lambda x: x * x.estimate.bits)(x)
    with pytest.raises(TracedValueError, match="test_noise"):
        ren.jit(lambda x: x + x.estimate.bits)(x)


def test_estimates_in_bytes_and_prints(deep):
    x = deep.encrypt([0.5, 1.5]) * 0.5
    y = ckks.Ciphertext.from_bytes(x.to_bytes())
    assert np.array_equal(y.noise, x.noise)
    assert f"~{int(x.estimate.bits)} bits" in repr(x) and "error <=" in str(x.estimate)
    seen = []
    jax.jit(lambda x: (seen.append(repr(x)), x)[1])(x)
    assert "bits" not in seen[0]


def is_unknown(x) -> bool:
    return bool(np.isnan(x.noise).all())


def test_what_is_not_known_stays_so_and_never_warns(deep):
    x = deep.encrypt(np.full(SLOTS, 0.5))
    loose = with_fields(x * x, noise=UNKNOWN, pending=None)
    many = loose * loose * 1000000 + x - 2.5
    made = [loose, many, many.rotate(3), many.within(1.0), (x + loose).conj(), loose.drop_to(0)]
    assert all(is_unknown(y) and "bits" not in repr(y) for y in made)
    assert str(many.estimate) == "unknown"
    with pytest.warns(MessageBoundWarning, match="is unknown"):  # it is read here
        assert "unknown" in str(ckks.precision(loose, 0.25))
    assert is_unknown(ckks.Ciphertext.from_bytes(loose.to_bytes()))
    assert is_unknown(ren.jit(lambda a, b: a * b)(x, loose))
    assert not is_unknown(x * x)
    with pytest.warns(MessageBoundWarning), pytest.raises(ParameterError, match="unknown"):
        deep.decrypt_shared(loose, loose.estimate, queries=1)


def by_hand(draw, ctx, x, y, a, b):
    """A random program of manual operations; `x` and `y` are at one level and scale."""
    m, c = np.exp(2j * np.pi * draw.random(SLOTS)), draw.uniform(-1, 1)
    z, e = [(x * y, a * b), (x * m, a * m), (x * c, a * c)][draw.integers(3)]
    z, e = [(z + m, e + m), (z - z * 2, -e), (z + c, e + c), (-z, -e)][draw.integers(4)]
    if draw.random() < 0.5:
        z = z.relinearize()
        z, e = z.rotate(3), np.roll(e, -3, -1)
    if draw.random() < 0.5:
        z = z.drop_to(2)
    z = z.rescale()
    return (z + ctx.encode(m, level=z.level), e + m) if z.own_scale is None else (z, e)


@pytest.mark.slow
def test_estimates_in_manual_mode(params):
    draw, found = np.random.default_rng(7), []
    for _ in range(4):
        ctx = ckks.context(params=params)
        for _ in range(4):
            a, b = (np.exp(2j * np.pi * draw.random((BATCH, SLOTS))) for _ in range(2))
            with ckks.manual():
                x, y = (ctx.encrypt(v, pack="rows") for v in (a, b))
                z, want = by_hand(draw, ctx, x, y, a, b)
                found.append(np.abs(z.decrypt() - want).max(-1) / z.estimate.error_bound)
            z, want = z * a, want * a  # back in normal form
            found.append(np.abs(z.decrypt() - want).max(-1) / z.estimate.error_bound)
    loose = -np.log2(np.concatenate(found))
    assert loose.min() > 0 and np.median(loose) < 3


def test_manual_and_automatic_estimates_agree(deep, monkeypatch):
    monkeypatch.setattr(noises, "serials", itertools.count())  # places of noise that do not meet
    x, y = deep.encrypt(np.full(SLOTS, 0.5)), deep.encrypt(np.full(SLOTS, 2.0))
    with ckks.manual():
        loose = (x * y + x * x).relinearize().rescale()
        f, m = ren.jit(lambda x, c, m: (x * c + m).rescale()), np.ones(SLOTS)
        jitted, eager = f(x, 0.5, m), (x * 0.5 + m).rescale()
    kept = x * y + x * x
    for name in ("message_bound", "error_bound", "variance"):
        assert getattr(loose.estimate, name) == pytest.approx(getattr(kept.estimate, name), rel=0.1)
    np.testing.assert_allclose(jitted.noise, eager.noise, rtol=1e-5)


def test_a_capture_knows_the_noise_of_blocks(deep):
    a = np.random.default_rng(0).uniform(-1, 1, (3, 2 * SLOTS))
    x = deep.encrypt(a)
    made, want = ren.jit(lambda x, m: x * m + m)(x, a), x * a + a
    np.testing.assert_allclose(made.noise, want.noise, rtol=1e-5)


def test_estimates_beside_batches_plaintexts_and_other_keys(deep):
    x, y = deep.encrypt(np.full(SLOTS, 0.5)), deep.encrypt(np.full(SLOTS, 2.0))
    stacked = ckks.stack([x, y * y])
    assert stacked.noise.shape == (2, WIDTH)
    assert [a.estimate.message_bound for a in ckks.unstack(stacked)] == [1, 4]
    assert jax.vmap(lambda a: a + a)(stacked).estimate.message_bound == 8
    p = ckks.Plaintext.from_bytes(deep.encode(3.0, bound=3).to_bytes())
    assert (x * p).estimate.message_bound == 3
    other = ckks.context(params=deep.params)
    moved = deep.switch_key(x, other)
    assert moved.estimate.error_bound > x.estimate.error_bound
    assert abs(other.decrypt(moved) - 0.5).max() < moved.estimate.error_bound


@pytest.mark.slow
def test_circuits_keep_to_bounds_that_are_evident(deep):
    values = np.linspace(-1, 1, SLOTS)
    x = deep.encrypt(values, bound=1)
    for made, expected, bound in [
        (x.sum(), values.sum(), SLOTS),
        (x.mean(), values.mean(), 1),
        (ckks.math.exp(x, degree=7), np.exp(values), 2.72),
        (ckks.chebyshev(x, [0.5, 0.5]), 0.5 + values / 2, 1),
    ]:
        estimate = made.estimate
        assert estimate.message_bound <= bound * (1 + 1e-5)
        assert np.abs(made.decrypt() - expected).max() < estimate.error_bound + 2e-6


def test_bounds_are_chosen_and_not_computed():
    """A small bound beside one 2^60 times as large stays what it is."""
    rng = np.random.default_rng(8)
    a, b = (np.exp2(rng.uniform(-30, 60, (200, noises.WIDTH))).astype(np.float32) for _ in "ab")
    for bound in (1e-9, 0.017146, 3.0, 2.0**59):
        narrow, wide = noises.within(a, bound), noises.reaching(a, bound)
        assert np.all(narrow[:, 0] >= np.minimum(a[:, 0].astype(float), bound))
        assert np.all(narrow[:, 0] <= np.minimum(a[:, 0].astype(float), bound) * (1 + 2**-22))
        assert np.all(wide[:, 0] >= np.maximum(a[:, 0].astype(float), bound))
        for made in (narrow, wide):
            assert np.array_equal(made[:, 1:], a[:, 1:])
    pairs = (noises.larger(a, b), np.maximum), (noises.within_that_of(a, b), np.minimum)
    for made, function in (*pairs, (noises.within_that_of(a, b, 1), np.minimum)):
        assert np.array_equal(made[:, 0], function(a, b)[:, 0])
        assert np.array_equal(made[:, 1:], a[:, 1:])
    assert np.isnan(noises.larger(a, UNKNOWN)).all()
    assert np.isnan(noises.within(UNKNOWN, 1.0)).all()


@pytest.mark.parametrize("taken", [0.0, 0.1, 0.5, 0.95, 1.0])
def test_a_source_finds_its_place_alone_as_in_a_batch(taken):
    rng, jitted = np.random.default_rng(0), jax.jit(lambda a: noises.with_source(a, 0.25))
    for _ in range(50):
        a = np.where(rng.uniform(size=noises.WIDTH) < taken, rng.uniform(size=noises.WIDTH), 0)
        a = a.astype(np.float32)
        alone, among = noises.with_source(a, 0.25), noises.with_source(a[None], 0.25)
        assert np.array_equal(alone, among[0]) and (alone > a).sum() == 2
        taken_places = np.flatnonzero(a[-PLACES:])
        search = (np.arange(PLACES) + (5 * taken_places + 7).sum()) % PLACES
        least = np.flatnonzero(a[-PLACES:] <= np.float32(1.5) * a[-PLACES:].min())
        free = [p for p in search if p not in taken_places] or least
        assert (alone - a)[-PLACES:].argmax() == free[0]
        assert np.array_equal(alone, jitted(a))


def test_noise_is_unknown_beyond_its_range_alone_in_a_batch_and_traced():
    a = np.zeros((5, noises.WIDTH), np.float32)
    for i in range(1, 5):
        a[i, i - 1] = noises.LARGEST
    a[3, noises.RANDOM] = noises.LARGEST
    doubled = noises.total(a, a)
    assert np.isnan(doubled[1:]).all() and not doubled[0].any()
    for i in range(5):
        assert np.array_equal(noises.total(a[i], a[i]), doubled[i], equal_nan=True)
        assert np.array_equal(noises.total(a[i], a[0]), a[i])
    assert np.array_equal(jax.jit(noises.total)(a, a), doubled, equal_nan=True)


def test_noise_of_parts_is_computed_once_a_replay(deep, monkeypatch):
    """Columns are parts of one noise: each call ran its rules again for each of them."""
    calls, place = [], noises.next_place
    monkeypatch.setattr(noises, "next_place", lambda of: calls.append(None) or place(of))
    found = {}
    for count in (4, 8):
        x = deep.encrypt(np.ones((5, count)), pack="columns")
        function = ren.jit(lambda v: v.var(axis=0))
        function(x)
        calls.clear()
        function(x)
        found[count] = len(calls)
    assert 0 < found[8] <= 3 * found[4] < 600


def test_a_loop_of_means_of_few_numbers_stays_near_its_error():
    """Zeros beyond the length add their own error to a sum, and not that of the numbers."""
    ctx = ckks.context(depth=14, n=1 << 11, security=None)
    v = np.linspace(-1, 1, 100)
    x = y = ctx.encrypt(v, bound=1.0)
    clear = v
    for _ in range(4):
        y, clear = (y - y.mean()).within(1) * x, (clear - clear.mean()) * v
    assert np.abs(ctx.decrypt(y) - clear).max() <= y.estimate.error_bound < 2.0**-19
