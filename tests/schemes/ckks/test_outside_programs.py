"""Programs of outside testers that gave wrong numbers, lost a warning or raised from inside."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import jax
import numpy as np
import pytest

import ren
from ren.schemes import ckks

pytestmark = pytest.mark.usefixtures("interpreted")

BAR = 2.0**-20
HIDDEN = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])


@pytest.fixture(scope="module")
def own():
    return ckks.context(depth=3, n=1 << 10, security=None)


@pytest.fixture(scope="module")
def x(own):
    return own.encrypt([1.0, 2.0, 3.0])


def told(function: Callable[[], object]) -> set[str]:
    """The kinds of warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return {w.category.__name__ for w in caught}


def test_scalars_meet_arrays_of_as_many_numbers_as_slots(own, x):
    w, three = np.arange(1.0, own.slots + 1), own.encrypt(3.0)
    wide = np.stack([w, -w])
    added = ren.jit(lambda c, v: c + v)
    for made, want in (
        (x.sum() * w, 6 * w),
        (w - three, w - 3),
        (three / w, 3 / w),
        (three + wide, 3 + wide),
        (added(three, w), 3 + w),
        (own.encrypt(np.ones((2, 3)), pack="rows").sum() * [2.0, 3.0], np.array([6.0, 9.0])),
    ):
        got = made.decrypt()
        assert got.shape == made.shape == want.shape
        assert np.abs(got - want).max() < BAR * own.slots
    with ckks.manual():
        made = (three * w).rescale()
    assert np.abs(made.decrypt() - 3 * w).max() < BAR * own.slots


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64", "bfloat16"])
def test_divisors_are_inverted_in_double_precision(x, dtype):
    divisor = np.array([3, 7, 11]).astype(jax.numpy.dtype(dtype))
    exact = np.array([1.0, 2.0, 3.0]) / np.array([3, 7, 11])
    made = x / divisor
    assert np.abs(made.decrypt() - exact).max() <= made.estimate.error_bound
    made = x / divisor[0]
    assert np.abs(made.decrypt() - np.array([1, 2, 3]) / 3).max() <= made.estimate.error_bound


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize(
    "f",
    [lambda x, m: x * m, lambda x, m: m * x, lambda x, m: m @ x, lambda x, m: x + m],
    ids=["x * m", "m * x", "m @ x", "x + m"],
)
def test_matrices_of_numpy_are_refused(own, x, f):
    """Their `*` is a matrix product, and their vectors have two axes."""
    with own, pytest.raises(ren.RenError, match=r"numpy.matrix(.|\n)*np\.asarray"):
        f(x, np.asmatrix(np.eye(len(x))))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / HIDDEN,
        lambda x: np.ma.array(np.ones((2, 3)), mask=np.eye(2, 3)) @ x,
        lambda x: ckks.linear(np.ma.array(np.ones((2, 3)), mask=np.eye(2, 3))) @ x,
        lambda x: x.mask(HIDDEN),
        lambda x: x.dot(HIDDEN),
        lambda x: ckks.poly(x, HIDDEN),
        lambda x: ckks.conv1d(x, HIDDEN[:2]),
        lambda x: ren.jit(lambda c, w: c * w)(x, HIDDEN),
    ],
)
def test_masked_arrays_are_refused_everywhere(own, x, function):
    with own, pytest.raises(ren.RenError, match=r"masked(.|\n)*filled"):
        function(x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.within(10**400),
        lambda x: ckks.spec(3, bound=10**400),
        lambda x: ckks.math.exp(x, interval=(0, 10**400), precision=5),
        lambda x: x / [1, 2, None],
        lambda x: x / ["1", "2", "3"],
        lambda x: x / np.timedelta64(3, "s"),
        lambda x: x + np.timedelta64(3, "s"),
        lambda x: x + 10**400,
    ],
)
def test_what_is_no_number_of_a_slot_is_refused(x, function):
    with pytest.raises(ren.RenError):
        function(x)


def test_integers_of_any_size_are_told_of(x):
    added, times = ren.jit(lambda c, k: c + k), ren.jit(lambda c, k: c * k)
    added(x, 1), times(x, 1)
    for function in (
        lambda: x + 2**64,
        lambda: 10**30 - x,
        lambda: x - np.uint64(2**64 - 1),
        lambda: added(x, 2**64),
    ):
        assert told(function) == {"MessageBoundWarning"}
    for f in (added, times, lambda c, k: c + k, lambda c, k: c * k):  # what wraps around
        with pytest.raises(ckks.MessageBoundError):
            f(x, 10**400)


def test_bounds_stated_after_a_wrap_do_not_hide_it(own):
    strict = ckks.context(depth=3, n=1 << 10, security=None, strict=True)
    strict.rotation_keys([256])
    v = np.ones(strict.slots)
    v[:256] = np.random.default_rng(0).uniform(-1, 1, 256) * 2.0**30
    x = strict.encrypt(v)

    def hidden(c):
        return c.drop_to(0)[256:].within(1)  # the statement is true: these are ones

    captured = ren.jit(hidden)
    for _ in range(2):
        with pytest.raises(ckks.MessageBoundError, match=r"drop_to\(\)"):
            hidden(x)
        with pytest.raises(ckks.MessageBoundError, match=r"drop_to\(\)"):
            captured(x)
    with pytest.raises(ckks.MessageBoundError, match="unknown"):
        jax.jit(hidden)(x).decrypt()
    with pytest.raises(ckks.MessageBoundError, match="unknown"):
        jax.vmap(hidden)(ckks.stack([x, x])).decrypt()


@pytest.mark.parametrize(
    "function",
    [lambda c: c * 0.0, lambda c: c - c, lambda c: c**0, lambda c: ckks.poly(c, [3.0])],
)
def test_transparent_results_of_captured_functions_warn_at_each_call(x, function):
    captured = ren.jit(function)
    for _ in range(3):
        assert told(lambda: captured(x)) == {"TransparentWarning"}
