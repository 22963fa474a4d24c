"""Ranges: tracked bounds against what a level holds, and against intervals of functions."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest

import ren
from ren.core import errors
from ren.schemes import ckks
from ren.schemes.ckks.noise.range_checks import largest_message
from ren.schemes.ckks.noise.sigmas import switch_sigma

math = ckks.math


@pytest.fixture(scope="module")
def narrow():
    """Ten integer bits at level 0, as few as before sums were planned for."""
    return ckks.context(depth=1, n=1 << 11, security=None, integer_bits=10)


@pytest.fixture(scope="module")
def strict():
    return ckks.context(depth=4, n=1 << 11, security=None, integer_bits=10, strict=True)


@pytest.fixture(scope="module")
def deep():
    return ckks.context(depth=8, n=1 << 10, security=None)


@pytest.mark.parametrize("depth", [1, 3, 4, 7, 9])
def test_planner_leaves_room_for_sums_over_all_slots(depth):
    params = ckks.Parameters.for_depth(depth)
    assert largest_message(params, 0) >= params.slots
    given = ckks.Parameters.for_depth(depth, integer_bits=10)
    assert given.integer_bits == 10 and given.n == params.n
    assert len(given.union) == len(params.union) and given.ring(0).limbs == params.ring(0).limbs


@pytest.mark.long
@pytest.mark.parametrize("depth, scale_bits, n", [(26, 30, 1 << 15), (3, 40, 1 << 13)])
def test_room_for_sums_costs_half_a_bit_of_noise_at_most(depth, scale_bits, n):
    given = ckks.Parameters.for_depth(depth, scale_bits=scale_bits, n=n, integer_bits=10)
    params = ckks.Parameters.for_depth(depth, scale_bits=scale_bits, n=n)
    assert switch_sigma(params, depth) <= 2**0.5 * switch_sigma(given, depth)


@pytest.mark.parametrize("depth", [2, 5, 6, 8])
def test_planner_keeps_ten_bits_where_more_cost_a_limb(depth):
    assert ckks.Parameters.for_depth(depth).integer_bits == 10


def test_sum_at_level_0_is_right_or_warns(narrow):
    x = narrow.encrypt(np.ones(1000))
    with pytest.warns(ckks.MessageBoundWarning, match=r"sum\(\): the message may reach 2\^9.97"):
        total = x.drop_to(0).sum()
    with pytest.warns(ckks.MessageBoundWarning, match=r"decrypt\(\): .* may have wrapped around"):
        total.decrypt()
    high = x.sum()
    assert abs(high.decrypt() - 1000) < high.estimate.error_bound  # level 1 holds it
    with pytest.warns(ckks.MessageBoundWarning, match=r"drop_to\(\)"):
        high.compress()
    roomy = ckks.context(depth=1)
    assert abs(roomy.encrypt(np.ones(4096)).drop_to(0).sum().decrypt() - 4096) < 1e-3


@pytest.mark.parametrize(
    "circuit",
    [
        lambda x: x.dot(np.ones(1000)),
        lambda x: np.ones((3, 1000)) @ x,
        lambda x: ckks.strided_sum(x.drop_to(0), 1000),
        lambda x: ckks.poly(x, [0.5, 1000.5]),
        lambda x: (x * 1000.0).compress(),
        lambda x: x.drop_to(0) * 1000,
    ],
    ids=["dot", "matrix", "strided_sum", "poly", "number", "integer"],
)
def test_every_circuit_checks_its_bound(narrow, strict, circuit):
    with pytest.warns(ckks.MessageBoundWarning, match="integer_bits"):
        circuit(narrow.encrypt(np.full(1000, 0.9)))
    with pytest.raises(ckks.MessageBoundError, match=r"the range that integer_bits=10 gives"):
        circuit(strict.encrypt(np.full(1000, 0.9)).drop_to(1))


def test_strictness_and_bound_travel(strict):
    server = ckks.Context.from_bytes(strict.server().to_bytes())
    x = ckks.Ciphertext.from_bytes(strict.encrypt(np.full(10, 300.0)).to_bytes())
    assert server.params.strict
    with server, pytest.raises(ckks.MessageBoundError):
        (x + x + x).compress()
    assert (x + x + x).within(500).compress().level == 0
    ctx = ckks.context(params=strict.params, bound=2.0, strict=False)
    public = ckks.Context.from_bytes(ctx.public().to_bytes())
    assert public.encrypt([0.1]).estimate.message_bound == 2
    with pytest.raises(ckks.ParameterError, match="bound=2 was stated"):
        public.encrypt([2.5])
    assert public.encrypt([2.5], bound=3).estimate.message_bound == 3


@pytest.mark.parametrize("bad", [{"bound": 0}, {"bound": -1.0}, {"bound": "1"}, {"strict": 1}])
def test_context_refuses_what_is_no_bound(bad):
    with pytest.raises(ckks.ParameterError, match=next(iter(bad))):
        ckks.context(depth=1, n=1 << 10, security=None, **bad)


def test_certain_overflow_raises(narrow):
    x = narrow.encrypt([1.0], level=0)
    with pytest.raises(ckks.MessageBoundError, match="wrap around"):
        x + 1e7
    with pytest.raises(ckks.MessageBoundError, match="wrap around"):
        1e7 - x


def test_plan_chooses_integer_bits_from_bounds():
    small = {"n": 1 << 11, "security": None}
    plan = ren.plan(lambda x: x.sum(), ckks.spec(1000, bound=100.0), **small)
    assert largest_message(plan.params, plan.depth and 0) >= 100_000
    ctx = ckks.context(plan)
    values = np.full(1000, 99.0)
    assert abs(ctx.encrypt(values, bound=100).sum().decrypt() - 99_000) < 1e-2
    assert (
        ren.plan(lambda x: x + 1, ckks.spec(10), integer_bits=5, **small).params.integer_bits == 5
    )


OUTSIDE = [
    lambda x: math.sign(x, degree=7),
    lambda x: math.sqrt(x, degree=3),
    lambda x: math.exp(x, degree=3),
    lambda x: math.log(x, interval=(0.5, 2), degree=3),
    lambda x: math.inverse(x, interval=(0.5, 2), degree=3),
    lambda x: math.greater(x, 0.5, degree=7),
    lambda x: math.max(x, 0.5, degree=7),
    lambda x: math.abs(x, degree=8),
    lambda x: math.relu(x, precision=3),
    lambda x: math.round(x, precision=6, margin=0.3),
    lambda x: ckks.chebyshev(x, np.exp, (-1, 1), 7),
]


@pytest.mark.parametrize("function", OUTSIDE)
def test_interval_is_held_against_the_bound(deep, function):
    x = deep.encrypt([20.0, -20.0, 3.0])
    with pytest.warns(ckks.MessageBoundWarning, match="the interval is") as told:
        made = function(x)
    assert {w.filename for w in told} == {__file__}
    assert np.isinf(made.estimate.error_bound) and "bits" not in repr(made)
    f = ren.jit(function, device="python")  # interpreted
    with pytest.warns(ckks.MessageBoundWarning):
        again = f(x)
    assert np.isinf(again.estimate.error_bound)
    with pytest.warns(ckks.MessageBoundWarning, match=r"decrypt\(\): the error .* is unknown"):
        ckks.Ciphertext.from_bytes(made.to_bytes()).decrypt()
    strict = ckks.context(params=deep.params, strict=True)
    with pytest.raises(ckks.MessageBoundError, match="interval"):
        function(strict.encrypt([20.0, -20.0, 3.0]))


def test_interval_is_checked_at_each_replay(deep):
    f = ren.jit(lambda x: math.exp(x, degree=5))
    assert f(deep.encrypt([0.5])).estimate.bits > 5
    with pytest.warns(ckks.MessageBoundWarning, match="exp: the numbers may reach modulus 8"):
        assert f(deep.encrypt([5.0])).estimate.bits == 0
    assert f.cache_info().plans == 1


@pytest.mark.parametrize("donated", [(), ("x",)])
def test_bounds_are_checked_at_each_replay(narrow, donated):
    f = ren.jit(lambda x: (x * x) - 1, donate_argnames=donated)
    few = f(narrow.encrypt([0.5, 0.25]))
    with pytest.warns(
        ckks.MessageBoundWarning, match=r"a product \(test_ranges.py:\d+\): .* 2\^16"
    ):
        f(narrow.encrypt([200.0, 1.0]))
    assert np.allclose(few.decrypt(), [-0.75, -0.9375])
    assert np.allclose(f(narrow.encrypt([2.0, 1.0])).decrypt(), [3, 0])
    strict = ckks.context(params=narrow.params, strict=True)
    g = ren.jit(lambda x: (x * x) - 1, donate_argnames=donated)
    g(strict.encrypt([0.5, 0.25]))
    beyond = strict.encrypt([20.0, 100.0])
    for _ in range(2):
        with pytest.raises(ckks.MessageBoundError, match=r"a product \(test_ranges.py"):
            g(beyond)
    assert np.allclose(beyond.decrypt(), [20, 100])  # what raises gives nothing away
    assert g.cache_info().plans == f.cache_info().plans == 1


def test_default_interval_on_one_side_of_zero_is_a_statement_to_make(deep):
    x = deep.encrypt([0.3, 0.9])
    for function in (math.sqrt, math.log, math.inverse):
        with pytest.warns(ckks.MessageBoundWarning, match="State where the numbers lie"):
            function(x, degree=5)
        made = function(x, interval=(0.25, 1.0), degree=5)
        assert made.estimate.error_bound < 1


@pytest.mark.parametrize(
    ("function", "exact", "interval"),
    [
        (math.sqrt, np.sqrt, (0.25, 1)),
        (math.log, np.log, (0.25, 1)),
        (math.inverse, np.reciprocal, (0.25, 1)),
        (math.exp, np.exp, (-1, 1)),
        (math.sigmoid, lambda v: 1 / (1 + np.exp(-v)), (-1, 1)),
        (math.abs, np.abs, (-1, 1)),
        (math.relu, lambda v: np.maximum(v, 0), (-1, 1)),
    ],
)
@pytest.mark.parametrize("degree", [2, 3, 7])
def test_estimate_holds_the_error_of_the_approximation(deep, function, exact, interval, degree):
    values = np.linspace(*interval, deep.slots)
    made = function(deep.encrypt(values, bound=1), interval=interval, degree=degree)
    errors = np.abs(made.decrypt() - exact(values))
    assert errors.max() < made.estimate.error_bound < 1.3 * errors.max() + 1e-6


def test_estimate_counts_on_a_gap_only_where_it_is_stated(deep):
    values = np.linspace(-1, 1, deep.slots)
    x = deep.encrypt(values, bound=1)
    for function, exact in ((math.sign, np.sign), (math.greater, None)):
        args = () if exact else (0.0,)
        want = np.sign(values) if exact else (values > 0) * 1.0
        made = function(x, *args, degree=7)
        assert np.abs(made.decrypt() - want).max() < made.estimate.error_bound
        stated = function(x, *args, degree=7, gap=0.5)
        there = np.abs(values) >= (0.5 if exact else 1.0)
        assert np.abs(stated.decrypt() - want)[there].max() < stated.estimate.error_bound < 1


def test_tail_is_moved_into_the_interval(deep):
    values = np.linspace(0.1, 1, 5)
    for x in (deep.encrypt(values), deep.encrypt(values - 3) + 3, deep.encrypt([7.0, *values])[1:]):
        made = math.inverse(x.within(1), interval=(0.1, 1), precision=6)
        assert np.abs(made.decrypt() - 1 / values).max() < 2.0**-6
        assert np.abs(deep.slots_of(made)).max() < 11


def test_noise_beyond_floats_is_unknown(deep):
    x = deep.encrypt([1.0])
    with pytest.warns(ckks.MessageBoundWarning):
        y = x * 2**70
    assert np.isinf(y.estimate.error_bound) and "unknown" in str(y.estimate)


def test_a_line_warns_once_of_its_bounds(narrow):
    x = narrow.encrypt([1.0], level=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for k in range(3):
            x * (1 << 10 + k)
        x * (1 << 20)
    assert [t.lineno - told[0].lineno for t in told] == [0, 1]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for k in range(3):
            x * (1 << 10 + k)
    assert len(told) == 3


def test_a_modulus_beyond_floats_has_a_range():
    """Its ratio to the scale has more than 1024 bits from depth 26 on."""
    ctx = ckks.context(params=ckks.Parameters.for_depth(30, n=1 << 10, security=None))
    x = ctx.encrypt([1.5])
    np.testing.assert_allclose((x + x).decrypt(), [3.0], atol=1e-6)


STATED = {  # what is stated, the interval, and whether it holds
    "both beyond": ((-2.5, 2.5), (-3, 1), False),
    "above": ((0, 1.5), (0, 1), False),
    "below": ((-1, 0.5), (0, 1), False),
    "of one sign": ((-1, 1), (0.5, 2), False),
    "inside": ((0.25, 0.75), (0, 1), True),
    "less than the bound": ((0.1, 1.1), (0.1, 1.1), True),
}
APPROXIMATED = {
    "exp": lambda x, span: math.exp(x, interval=span, degree=7),
    "relu": lambda x, span: math.relu(x, interval=span, precision=4),
    "max": lambda x, span: math.max(x, span[0], interval=span, precision=4),
    "greater": lambda x, span: math.greater(x, span[1], interval=span, precision=4, gap=0.1),
    "chebyshev": lambda x, span: ckks.chebyshev(x, np.exp, span, 7),
    "in a block": lambda x, span: in_a_block(x, span),
}


def in_a_block(x: ckks.Ciphertext, span: tuple[float, float]) -> ckks.Ciphertext:
    with ckks.intervals(span, precision=6):
        return np.exp(x)


@pytest.mark.parametrize("function", APPROXIMATED)
@pytest.mark.parametrize("case", STATED)
@pytest.mark.parametrize("how", [lambda f: f, ren.jit], ids=["eager", "jit"])
def test_what_is_stated_is_held_against_both_ends(deep, function, case, how):
    """Also where the tracked bound alone, here 4, says less, or is beyond the interval."""
    stated, interval, holds = STATED[case]
    f = how(lambda x: APPROXIMATED[function](x * 1.0, interval))
    x = deep.encrypt([stated[0], stated[1]], bound=4).within(*stated)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            made = f(x)
        assert len(told) == (not holds)
        assert np.isinf(made.estimate.error_bound) == (not holds)
    if holds:
        return
    assert "may lie anywhere in what is known, and" in str(told[0].message)
    strict = ckks.context(params=deep.params, strict=True)
    with pytest.raises(ckks.MessageBoundError, match="interval"):
        f(strict.encrypt([0.5], bound=4).within(*stated))


@pytest.mark.parametrize("name", ["relu", "abs", "max"])
def test_more_precision_is_less_error(name):
    """The error of a steep polynomial is no more than what it may be off by."""
    ctx = ckks.context(depth=25, slots=32, n=256, security=None)
    values = np.linspace(-1, 1, 32)
    x = ctx.encrypt(values)
    want = {"relu": np.maximum(values, 0), "abs": np.abs(values), "max": np.maximum(values, 0.1)}
    before = 1.0
    for precision in (4, 8, 12, 16):
        other = (0.1,) if name == "max" else ()
        made = getattr(math, name)(x, *other, precision=precision)
        bound, largest = made.estimate.error_bound, 2.0 if name == "max" else 1.0
        assert np.abs(made.decrypt() - want[name]).max() <= bound < before
        if precision < 16:  # then the noise counts too
            assert bound <= 1.3 * largest * 2.0**-precision / (1 + (name != "abs"))
        before = bound


def test_an_operator_on_numbers_that_left_an_interval_says_so(deep):
    with pytest.warns(ckks.MessageBoundWarning):
        left = math.exp(deep.encrypt([3.0]), degree=3)
    with pytest.raises(errors.OperandError, match="nothing is known any more"):
        np.clip(left, 0, 1)
    with pytest.raises(errors.OperandError, match="no interval is known here"):
        jax.jit(lambda x: np.clip(x, 0, 1))(deep.encrypt([0.5]))


def test_numbers_beyond_what_is_tracked_are_reported_where_they_enter(deep, strict):
    with pytest.warns(ckks.MessageBoundWarning, match=r"encrypt\(\): the numbers pass 2\^60"):
        x = deep.encrypt([1e19])
    assert np.isinf(x.estimate.error_bound)
    for bound in (None, 1e19):
        with pytest.raises(ckks.MessageBoundError, match="Scale the values down"):
            strict.encrypt([1e19], bound=bound)


@pytest.mark.parametrize("how", [lambda f: f, ren.jit], ids=["eager", "jit"])
def test_an_error_that_leaves_the_interval_is_told(how):
    """A function with little precision comes before one with more: a larger interval helps."""
    ctx = ckks.context(depth=24, n=256, slots=32, security=None)
    values = np.linspace(-1, 1, 32)
    rough = math.abs(ctx.encrypt(values), precision=4).realize()
    with pytest.warns(ckks.MessageBoundWarning, match="error of the numbers, up to .* larger int"):
        left = how(lambda x: math.relu(x.within(1), precision=8))(rough)
    assert np.isinf(left.estimate.error_bound)
    kept = how(lambda x: math.relu(x, interval=(-1.2, 1.2), precision=8))(rough)
    assert np.abs(kept.decrypt() - np.abs(values)).max() <= kept.estimate.error_bound < 0.06


@pytest.mark.parametrize("how", [{"degree": 15}, {"precision": 6}, {"precision": 6, "gap": 0.05}])
@pytest.mark.parametrize("name", ["max", "min", "abs", "relu"])
def test_the_error_of_an_argument_is_in_that_of_the_result(name, how):
    """Far below the end of the interval, where the polynomials take it for the message."""
    ctx = ckks.context(depth=22, n=256, slots=32, security=None)
    x = ctx.encrypt(np.full(32, 0.25), bound=0.5)
    rough = math.exp(x, interval=(-0.5, 0.5), degree=1) * 0.25
    other = (-0.25,) if name in ("max", "min") else ()
    made, alone = (getattr(math, name)(v, *other, **how).estimate for v in (rough, x))
    assert rough.estimate.error_bound > 2.0**-7
    assert made.error_bound > 0.95 * (rough.estimate.error_bound + alone.error_bound)
