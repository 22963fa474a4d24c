"""Bounds of errors in random circuits whose terms share errors: none is passed.

`noise_circuits` draws them. The truth is NumPy's, and the worst of all slots counts.
"""

from __future__ import annotations

import operator
from functools import reduce

import numpy as np
import pytest

from ren.schemes import ckks
from tests.properties.op_by_op import op_by_op
from tests.schemes.ckks.noise_circuits import SIZES, passed_bits

pytestmark = pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")
IGNORED = pytest.mark.filterwarnings("ignore::ren.core.errors.MessageBoundWarning")


@pytest.fixture(scope="module")
def pair():
    """A context, a source of randomness and a deeper context, with programs run op by op."""
    with op_by_op():
        deeper = ckks.context(3, n=1 << 10, security=None)
        yield ckks.context(2, n=1 << 10, security=None), np.random.default_rng(0), deeper


def bits_of(size: int, seed: int, count: int) -> np.ndarray:
    """log2(error / bound) of `count` circuits under one new key."""
    rng, ctx = np.random.default_rng([size, seed]), SIZES[size].context()
    public = ctx.public()
    with op_by_op():
        return np.array([passed_bits(rng, ctx, public) for _ in range(count)])


@pytest.mark.long
@IGNORED
@pytest.mark.parametrize("size", range(len(SIZES)))
def test_bounds_hold_in_random_circuits(size):
    assert bits_of(size, 0, 6).max() < 0


LIKE_TERMS = {
    "rotations": (lambda x: x.rotate(1), lambda a: np.roll(a, -1)),
    "conjugates": (lambda x: x.conj(), np.conj),
    "drops": (lambda x: x.drop_to(0), lambda a: a),
    "rescaled multiples": (lambda x: (x * 0.5).rescale(), lambda a: a * 0.5),
    "products with plaintexts": (lambda x: x * np.ones(x.slots), lambda a: a),
    "squares": (lambda x: (x * x).rescale(), np.square),
}


@IGNORED
@pytest.mark.parametrize("added", ["one object", "equal arrays", "different arrays", "numbers"])
@pytest.mark.parametrize("name", LIKE_TERMS)
def test_bounds_hold_for_sums_of_like_terms(pair, name, added):
    (ctx, rng, _), (f, clear) = pair, LIKE_TERMS[name]
    a, p = (np.exp(2j * np.pi * rng.random(ctx.slots)) for _ in range(2))
    x, shared = ctx.encrypt(a), ctx.encode(p)
    want = np.zeros_like(a)
    terms = []
    for i in range(32):
        q = np.roll(p, i) if added == "different arrays" else i / 32 if added == "numbers" else p
        terms.append(f(x + (shared if added == "one object" else q)))
        want += clear(a + q)
    made = reduce(operator.add, terms)
    assert np.abs(ctx.slots_of(made) - want).max() < made.estimate.error_bound


@IGNORED
def test_doubling_and_adding_have_one_bound(pair):
    ctx, rng, _ = pair
    x = ctx.encrypt(rng.choice([-1.0, 1.0], ctx.slots))
    y = (x * x).rescale()
    for z in (x, y, x.rotate(3), y.drop_to(0)):
        twice, added = (2 * z).estimate, (z + z).estimate
        assert twice.error_bound == pytest.approx(added.error_bound, rel=1e-4)


def rotations_of(x, count: int, step: int):
    """The sum of rotations of a ciphertext, or of numbers."""
    if isinstance(x, ckks.Ciphertext):
        return ckks.strided_sum(x, count, step)
    return sum(np.roll(x, -k * step, -1) for k in range(count))


def turned(x, steps: int):
    """A rotation of a ciphertext, or of numbers."""
    return x.rotate(steps) if isinstance(x, ckks.Ciphertext) else np.roll(x, -steps, -1)


SUMMED = {
    "a fresh one": lambda x, w: x,
    "two rotations": lambda x, w: x + turned(x, 1),
    "rotations of one place": lambda x, w: x - turned(x, 32) + turned(x, 64),
    "a product with numbers": lambda x, w: x * w,
    "a square": lambda x, w: x * x,
    "a sum before": lambda x, w: rotations_of(x, 16, 32) * w,
    "a sum of all before": lambda x, w: rotations_of(x, 512, 1) * w,
    "a sum of some before": lambda x, w: rotations_of(x, 24, 8) * w + x,
}
AFTERWARDS = {
    "nothing": lambda y, x: y,
    "the term again": lambda y, x: y + 8 * x,
    "its rotation": lambda y, x: y + turned(y, 32) - turned(y, 1),
    "another sum": lambda y, x: rotations_of(y, 8, 2),
}


STEPS = ((16, 32), (512, 1), (32, 16), (2, 32), (5, 64), (40, 3), (7, -32))


@IGNORED
@pytest.mark.parametrize("pairs", [STEPS[:2], pytest.param(STEPS[2:], marks=pytest.mark.slow)])
@pytest.mark.parametrize("after", AFTERWARDS)
@pytest.mark.parametrize("before", SUMMED)
def test_bounds_and_variances_hold_for_sums_of_rotations(pair, before, after, pairs):
    """Numbers near 1 keep errors that are equal in many slots so. A batch is of six trials."""
    ctx, rng = pair[2], np.random.default_rng([*before.encode(), *after.encode()])
    for count, step in pairs:
        a, w = rng.uniform(-1, 1, (6, ctx.slots)), rng.uniform(0.9, 1, (6, ctx.slots))

        def function(x, w=w, count=count, step=step):
            term = SUMMED[before](x, w)
            return AFTERWARDS[after](rotations_of(term, count, step), term)

        y = function(ctx.encrypt(a, pack="rows"))
        error = np.abs(y.decrypt() - function(a))
        assert (error.max(-1) < y.estimate.error_bound).all()
        shares = (error**2).mean(-1) / y.estimate.variance
        assert shares.shape == (6,)
        assert shares.mean() < 1.5  # about 0.4 are expected, with few independent slots


@pytest.mark.slow
@IGNORED
@pytest.mark.parametrize("size", range(len(SIZES)))
def test_bounds_hold_in_ten_thousand_random_circuits_and_stay_close(size):
    found = np.concatenate([bits_of(size, seed, 340) for seed in range(1, 6)])
    assert found.max() < 0
    assert np.median(found) > -5


# Sums of few numbers among many slots: of the slots beyond the length only their own error counts.
FEW = {
    "var": (lambda x, y, w: x.var(), lambda a, b, w: a.var()),
    "dot": (lambda x, y, w: x.dot(y), lambda a, b, w: a @ b),
    "dot of numbers": (lambda x, y, w: x.dot(w), lambda a, b, w: a @ w),
    "mean": (lambda x, y, w: x.mean(), lambda a, b, w: a.mean()),
    "cov": (lambda x, y, w: ckks.stats.cov(x, y, ddof=0),
            lambda a, b, w: np.mean((a - a.mean()) * b)),
    "sums": (lambda x, y, w: (x * y + x * w - y * y).sum(),
             lambda a, b, w: (a * b + a * w - b * b).sum()),
    "one sum thrice": (lambda x, y, w: 2 * x.dot(y) + (x * y).sum(), lambda a, b, w: 3 * (a @ b)),
    "a difference": (lambda x, y, w: x * y.dot(x) - (x * x).sum(),
                     lambda a, b, w: a * (a @ b) - a @ a),
    "a chain": (lambda x, y, w: (x * x * y).sum() * x, lambda a, b, w: (a * a * b).sum() * a),
    "numbers beyond": (lambda x, y, w: ((x + 1) * y).sum(), lambda a, b, w: ((a + 1) * b).sum()),
    "leftovers": (lambda x, y, w: ((x[1:] - 1) * y[1:] * w[1:]).sum(),
                  lambda a, b, w: ((a[1:] - 1) * b[1:] * w[1:]).sum()),
    "distances": (lambda x, y, w: (x - x.mean()).dot(x - x.mean()),
                  lambda a, b, w: len(a) * a.var()),
}  # fmt: skip


@IGNORED
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long if n in ("var", "cov") else ()) for n in FEW]
)
def test_bounds_hold_for_sums_of_few_numbers(name):
    """Of lengths about the count of places, of numbers in [-1, 1] and of equal ones."""
    function, clear = FEW[name]
    rng, ctx = np.random.default_rng([*name.encode()]), ckks.context(4, n=1 << 12, security=None)
    for length in (2, 3, 31, 33, ctx.slots // 16, ctx.slots // 16 + 1):
        for draw in (lambda k: rng.uniform(-1, 1, k), lambda k: np.ones(k)):
            a, b, w = draw(length), draw(length), draw(length)
            y = function(ctx.encrypt(a), ctx.encrypt(b), w)
            assert np.abs(y.decrypt() - clear(a, b, w)).max() < y.estimate.error_bound


@pytest.mark.long
def test_variances_of_few_numbers_have_close_estimates(pair):
    rng = pair[1]
    deep = ckks.context(4, n=1 << 13, security=None)
    for length in (3, 100):
        v = rng.uniform(-1, 1, (length, 5))
        for values, pack in ((v[:, 0], None), (v, "columns")):
            y = deep.encrypt(values, pack=pack).var(axis=0)
            error = np.abs(y.decrypt() - values.var(axis=0)).max()
            assert error < y.estimate.error_bound < 2.0**-13
        z = ckks.stats.cov(deep.encrypt(v, pack="columns"))
        error = np.abs(z.decrypt() - np.cov(v, rowvar=False)).max()
        assert error < z.estimate.error_bound < 2.0**-10


def test_noises_of_a_thousand_products_wait_for_no_recursion(pair):
    x = pair[2].encrypt([0.5, 0.25])
    y = reduce(operator.add, [x * x] * 1_500).sum()
    assert abs(y.decrypt() - 1_500 * 0.3125) < y.estimate.error_bound
