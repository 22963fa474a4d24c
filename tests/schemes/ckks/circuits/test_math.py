"""`ckks.math` against NumPy on grids: precision and levels."""

from __future__ import annotations

import numpy as np
import pytest

import ren
from ren.schemes import ckks
from ren.schemes.ckks.functions.remez import odd_minimax

math = ckks.math
FUNCTIONS = {
    "exp": (np.exp, (-1, 1), 3),
    "sin": (np.sin, (-np.pi, np.pi), 4),
    "cos": (np.cos, (-np.pi, np.pi), 5),
    "tan": (np.tan, (-1, 1), 4),
    "sinh": (np.sinh, (-1, 1), 3),
    "cosh": (np.cosh, (-1, 1), 3),
    "tanh": (np.tanh, (-2, 2), 5),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), (-4, 4), 5),
    "log": (np.log, (0.5, 2), 4),
    "sqrt": (np.sqrt, (0.25, 1), 4),
    "inverse": (lambda x: 1 / x, (0.5, 2), 4),
}


def bits(x: ckks.Ciphertext, want) -> float:
    return -np.log2(np.abs(x.decrypt() - want).max())


def drawn(low: float, high: float, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, count)


def spread(gap: float, count: int) -> np.ndarray:
    """A grid of gap <= |x| <= 1 with both ends."""
    half = np.linspace(gap, 1, count // 2)
    return np.concatenate([-half[::-1], half])


QUICK = ("sigmoid", "sqrt", "inverse")
EACH = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FUNCTIONS]


@pytest.mark.parametrize("name", EACH)
def test_elementary_functions(ctx6, name):
    f, interval, depth = FUNCTIONS[name]
    values = np.linspace(*interval, ctx6.slots)
    x = ctx6.encrypt(values, bound=max(interval))
    z = getattr(math, name)(x, interval=interval, precision=16)
    assert bits(z, f(values)) > 16 and x.level - z.level <= depth


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_twenty_bits(ctx14, name):
    """The polynomial leaves 2^-20, and noise no more: up to five bits are given for a level."""
    f, interval, _ = FUNCTIONS[name]
    values = np.linspace(*interval, ctx14.slots)
    x = ctx14.encrypt(values, bound=max(interval))
    assert bits(getattr(math, name)(x, interval), f(values)) > 19


def test_a_degree_instead_of_a_precision(ctx6):
    values = np.linspace(-1, 1, ctx6.slots)
    x = ctx6.encrypt(values)
    z = math.exp(x, degree=3)
    assert x.level - z.level == 2 and bits(z, np.exp(values)) > 7


@pytest.mark.slow
@pytest.mark.parametrize("interval", [(0.1, 1.0), (-3.0, -1.0), (1.0, 16.0)])
def test_inverse_by_iteration(ctx6, interval):
    values = np.linspace(*interval, ctx6.slots)
    x = ctx6.encrypt(values, bound=max(np.abs(interval)))
    z = math.inverse(x, interval, precision=12)
    assert bits(z, 1 / values) > 12
    assert np.abs(z.decrypt() - 1 / values).max() < z.estimate.error_bound < 2.0**-11


@pytest.mark.slow
def test_inverse_and_square_root_on_wide_intervals(ctx14):
    values = np.geomspace(0.01, 1, ctx14.slots)
    x = ctx14.encrypt(values)
    z = math.inverse(x, (0.01, 1))
    # What a fresh ciphertext is off by comes out times 1/x^2, the derivative, whatever computes it.
    fresh = np.abs(x.decrypt() - values).max()
    assert 2.0 ** -bits(z, 1 / values) < 2 * fresh / 0.01**2 + 2.0**-20
    assert x.level - z.level == 7
    off = 2.0 ** -bits(z, 1 / values)
    assert off < z.estimate.error_bound < 8 * off and 100 <= z.estimate.message_bound < 100.001
    plain, newton = (math.sqrt(x, (0.01, 1), newton=n) for n in (False, True))
    assert bits(plain, np.sqrt(values)) > 19.9 and bits(newton, np.sqrt(values)) > 19
    assert plain.level > newton.level


@pytest.mark.slow
def test_sign_and_what_follows_from_it(ctx6):
    a, b = spread(1 / 16, ctx6.slots), drawn(-0.5, 0.5, ctx6.slots)
    x, y = ctx6.encrypt(a), ctx6.encrypt(b)
    z = math.sign(x, precision=4)
    assert x.level - z.level == 6 and bits(z, np.sign(a)) > 4
    apart = np.abs(a - b) > 0.2
    more, fewer = (
        f(x, b, (-1, 1), gap=0.2, precision=3).decrypt() for f in (math.greater, math.less)
    )
    assert np.abs(more - (a > b))[apart].max() < 2.0**-3
    assert np.abs(fewer - (a < b))[apart].max() < 2.0**-3
    k = dict(gap=1 / 4, precision=3.0)
    assert np.abs(math.relu(x, **k).decrypt() - np.maximum(a, 0)).max() < 1 / 8
    assert np.abs(math.abs(x, **k).decrypt() - np.abs(a)).max() < 1 / 4
    chosen = math.where(ctx6.encrypt((a > 0) * 1.0), x, y)
    assert x.level - chosen.level == 1 and bits(chosen, np.where(a > 0, a, b)) > 20


@pytest.mark.slow
def test_sign_to_eight_bits(ctx14):
    a = spread(2.0**-8, ctx14.slots)
    x = ctx14.encrypt(a)
    z = math.sign(x)
    assert x.level - z.level == 12 and bits(z, np.sign(a)) > 8
    a = np.linspace(-1, 1, ctx14.slots)
    x = ctx14.encrypt(a)
    assert bits(math.abs(x), np.abs(a)) > 8
    assert bits(math.relu(x), np.maximum(a, 0)) > 9


@pytest.mark.slow
def test_maximum_minimum_equal_round(ctx14):
    a, b = drawn(-1, 1, ctx14.slots), drawn(-1, 1, ctx14.slots, 1)
    x, y = ctx14.encrypt(a), ctx14.encrypt(b)
    assert bits(math.max(x, y, precision=6), np.maximum(a, b)) > 6
    assert bits(math.min(x, y, precision=6), np.minimum(a, b)) > 6
    assert bits(math.max(x, 0.25, precision=6), np.maximum(a, 0.25)) > 6
    i, j = np.round(2 * a), np.round(2 * b)
    same = math.equal(ctx14.encrypt(i), ctx14.encrypt(j), (-2, 2), gap=1)
    assert bits(same, (i == j) * 1.0) > 8
    near = i + drawn(-0.4, 0.4, ctx14.slots, 2)
    assert bits(math.round(ctx14.encrypt(near, bound=2.4), (-2.5, 2.5)), i) > 15


@pytest.mark.parametrize("degree", [1, 7, 14, 15, 127])
def test_sign_of_a_degree_is_one_odd_polynomial(ctx6, degree):
    odd = degree - 1 + degree % 2
    gap = 2 / (odd + 2)
    a = np.concatenate([np.linspace(gap, 1, 40), -np.linspace(gap, 1, 40)])
    x = ctx6.encrypt(2 * a)
    if degree == 127:
        with pytest.raises(ckks.DepthError, match=r"sign with a gap .* at degree 127"):
            math.sign(x, (-2, 2), degree=degree)
        return
    z = math.sign(x, (-2, 2), degree=degree)
    error = np.abs(z.decrypt() - np.sign(a)).max()
    nearest = odd_minimax(odd, gap, 1.0).error
    assert 0.9 * nearest < error < nearest + 1e-3  # 0.2 of degree 1, 0.07 of degree 63
    assert x.level - z.level <= odd.bit_length() + 1


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
def test_degrees_in_place_of_precisions(ctx6):
    a = np.linspace(-1, 1, 101)
    x, y = ctx6.encrypt(a), ctx6.encrypt(np.cos(3 * a))
    b = np.cos(3 * a)
    for z, want, most in (
        (math.abs(x, degree=15), np.abs(a), 0.07),
        (math.relu(x, degree=15), np.maximum(a, 0), 0.04),
        (math.max(x, y, degree=15), np.maximum(a, b), 0.07),
        (math.min(x, y, degree=15), np.minimum(a, b), 0.07),
    ):  # fmt: skip
        assert np.abs(z.decrypt() - want).max() < most
    far = np.abs(a - b) > 0.25
    for z, want in (
        (math.greater(x, y, degree=15), a > b), (math.less(x, y, degree=15), a < b),
        (math.equal(x, y, degree=15), np.zeros(101)),
    ):  # fmt: skip
        assert np.abs(z.decrypt() - want)[far].max() < 0.2


@pytest.mark.long
@pytest.mark.usefixtures("interpreted")
def test_round_of_a_degree(ctx14):
    n = np.array([-1.9, -1.0, -0.2, 0.1, 1.0, 1.9])
    z = math.round(ctx14.encrypt(n), degree=31)
    assert np.abs(z.decrypt() - np.round(n)).max() < 1e-3


def test_a_degree_leaves_out_what_it_decides(ctx6):
    x = ctx6.encrypt([0.5])
    for call, match in (
        (lambda: math.sign(x, degree=7, precision=8), "Both precision"),
        (lambda: math.abs(x, degree=7, precision=8), "Both precision"),
        (lambda: math.relu(x, degree=7, gap=0.1), "knows no gap"),
        (lambda: math.greater(x, 0.0, degree=0), "from 1 to 127"),
        (lambda: math.sign(x, degree=1.5), "integer"),
    ):  # fmt: skip
        with pytest.raises(ckks.ParameterError, match=match):
            call()


def test_in_a_captured_function(ctx6):
    a = drawn(-1, 1, ctx6.slots)
    f = ren.jit(lambda x: math.sigmoid(x, (-1, 1), precision=12))
    for _ in range(2):
        assert bits(f(ctx6.encrypt(a)), 1 / (1 + np.exp(-a))) > 12
    assert f.cache_info().hits == 1


def test_what_has_no_value_is_refused(ctx6):
    x = ctx6.encrypt([0.5])
    for f in (math.log, math.inverse):
        with pytest.raises(ckks.ParameterError, match=r"interval \[-1, 1\]"):
            f(x, interval=(-1, 1))
    with pytest.raises(ckks.ParameterError, match=r"sqrt got the interval \[-1, 1\]"):
        math.sqrt(x, interval=(-1, 1))
    with pytest.raises(ckks.ParameterError, match="gap=2"):
        math.sign(x, gap=2)
    with pytest.raises(ckks.ParameterError, match="margin=1"):
        math.round(x, margin=1)
    with pytest.raises(ckks.ParameterError, match=r"right 0\.0005 from the half-integers"):
        math.round(x, margin=0.0005)
    with pytest.raises(ckks.DepthError, match=r"sign with a gap .* takes 12 levels"):
        math.sign(x)
    with pytest.raises(ckks.DepthError, match="sin by a polynomial of degree 3 takes 2 levels"):
        math.sin(x.drop_to(1), (-1, 1), degree=3)


@pytest.mark.parametrize("margin", [0.02, 0.007, 0.005])
def test_integers_close_to_the_half_between_them(margin):
    """The less the margin, the more levels: its room shrinks with it."""
    ctx = ckks.context(depth=18, n=1 << 10, security=None)
    values = np.array([0.0, 0.5 - margin, 0.5 + margin, 1.5 - margin, 2.0, 1.5 + margin])
    x = math.round(ctx.encrypt(values), interval=(0, 2.5), margin=margin)
    assert np.abs(x.decrypt() - np.round(values)).max() < 2.0**-12
    assert np.abs(x.decrypt() - np.round(values)).max() <= x.estimate.error_bound


def test_a_condition_in_the_clear_is_truth(ctx):
    x, y = ctx.encrypt([1.0, 2.0]), ctx.encrypt([3.0, 4.0])
    for wrong in ([0, 2], 2, 0.5, np.array([1.0, np.nan])):
        with pytest.raises(ckks.ParameterError, match="other numbers than 0 and 1"):
            ckks.where(wrong, x, y)
    for right in ([0, 1], [False, True], np.array([0.0, 1.0])):
        assert np.allclose(ckks.where(right, x, y).decrypt(), [3, 2], atol=1e-6)
    assert np.allclose(ckks.where(1, x, y).decrypt(), [1, 2], atol=1e-6)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int64", "bool"])
def test_where_of_two_arrays_in_the_clear_wraps_nothing_around(ctx, dtype):
    t = ctx.encrypt(np.array([True, False]))
    low = -100 if dtype in ("int8", "int16", "int64") else 0
    a, b = np.array([low, 1], dtype), np.array([100, 0], dtype)
    for choose in (ckks.where, ren.jit(lambda t, a, b: ckks.where(t, a, b)), np.where):
        got = choose(t, a, b).decrypt(dtype=float)
        assert np.allclose(got, np.where([True, False], a, b).astype(float), atol=1e-5)


def _largest(*values):
    head, *rest = values
    return np.maximum(head, _largest(*rest)) if rest else head


CHAINS = {
    "largest of four": (_largest, [(32,)] * 4),
    "clip": (lambda x: np.clip(x, -0.5, 0.5), [(32,)]),
    "clip to arrays": (lambda x: np.clip(x, -np.linspace(0, 1, 32), 0.75), [(32,)]),
    "modulus": (lambda x, y: np.minimum(abs(x), y), [(32,), (32,)]),
    "rectifiers": (lambda x: math.relu(math.relu(x)), [(32,)]),
    "rows": (lambda x, y: np.minimum(np.maximum(x, y), 0.5), [(5, 6), (6,)]),
    "columns": (lambda x, y: np.minimum(np.maximum(x, y), 0.5), [(5, 6), (5, 1)]),
    "blocks": (lambda x, y: np.maximum(np.minimum(x, y), -0.5), [(3, 70), (3, 1)]),
}


@pytest.fixture(scope="module")
def far() -> ckks.Context:
    """32 slots, 45 levels, insecure; what cannot be told raises."""
    params = ckks.Parameters.for_depth(45, n=256, slots=32, security=None, strict=True)
    return ckks.context(params=params)


@pytest.mark.parametrize("how", [lambda f: f, ren.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_choices_keep_to_their_interval(far, name, how):
    """Ends of the interval among them: a result beyond it would be far off in the next step."""
    f, shapes = CHAINS[name]
    values = [drawn(-1, 1, int(np.prod(s)), seed).reshape(s) for seed, s in enumerate(shapes)]
    for v, end in zip(values, (1.0, -1.0, 1.0, -1.0), strict=False):
        v.flat[0], v.flat[-1] = end, -end
    z = how(f)(*map(far.encrypt, values))
    want = np.maximum(values[0], 0) if name == "rectifiers" else f(*values)
    assert np.abs(z.decrypt() - want).max() <= z.estimate.error_bound < 0.03
