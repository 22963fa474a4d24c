"""`ckks.while_loop`, masked sums, any and all, and NaN at encryption, against NumPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import ren
from ren import errors
from ren.core.errors import LoopError, TracedValueError
from ren.schemes import ckks

VALUES = np.array([0.25, 0.6, 1.3, 1.9])


@pytest.fixture(scope="module")
def deep() -> ckks.Context:
    """n = 2^8, depth 20; insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(20, n=1 << 8, security=None))


@pytest.fixture(scope="module")
def ctx() -> ckks.Context:
    """n = 2^8, depth 3, 8 slots, repeated; insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(3, n=1 << 8, security=None), slots=8)


def below_one(v: Any) -> Any:
    if isinstance(v, np.ndarray):
        return v < 1
    return ckks.math.less(v, 1, (0, 3), gap=0.08, precision=7)


def doubled(v: Any) -> Any:
    return v * 2 if isinstance(v, np.ndarray) else (v * 2).within(0, 2.5)


def looped(v: Any, steps: int = 2) -> Any:
    if not isinstance(v, np.ndarray):
        return ckks.while_loop(below_one, doubled, v, max_steps=steps)
    for _ in range(steps):
        v = np.where(below_one(v), doubled(v), v)
    return v


@pytest.mark.long
def test_each_slot_goes_on_while_its_condition_holds(deep: ckks.Context) -> None:
    x = deep.encrypt(VALUES)
    once, low = (lambda v: looped(v, 1)), x.drop_to(10)
    for got, steps in ((looped(x), 2), (ren.jit(once)(low), 1)):
        assert np.abs(got.decrypt() - looped(VALUES, steps)).max() < 0.01
        assert got.level == 0 and not np.isinf(got.estimate.error_bound)


@pytest.mark.long
def test_a_loop_is_mapped_over_a_batch(ctx: ckks.Context) -> None:
    def raised(v: Any, mask: Any) -> Any:
        return ckks.while_loop(lambda v: mask, lambda v: v + 0.5, v, max_steps=2)

    x, mask = ctx.encrypt(VALUES), ctx.encrypt(VALUES > 1)
    mapped = jax.vmap(raised, in_axes=(0, None))(ckks.stack([x, 2 * x]), mask)
    want = np.stack([VALUES, 2 * VALUES]) + (VALUES > 1)
    assert np.abs(mapped.decrypt() - want).max() < mapped.estimate.error_bound < 1e-4


@pytest.mark.long
def test_a_state_is_a_pytree_and_a_condition_may_be_given(deep: ckks.Context) -> None:
    """A count of steps beside the numbers; what a body returns as it was stays as it was."""
    x, mask = deep.encrypt(VALUES), deep.encrypt(VALUES > 1)

    def body(state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "x": state["x"] + 0.5, "steps": state["steps"] + 1}

    start = {"x": x, "steps": deep.encrypt(np.zeros(4)), "mask": mask}
    end = ckks.while_loop(lambda state: state["mask"], body, start, max_steps=3)
    assert end["mask"] is mask and (end["x"].level, end["steps"].level) == (17, 17)
    for name, want in (("x", VALUES + 1.5 * (VALUES > 1)), ("steps", 3 * (VALUES > 1))):
        off = np.abs(end[name].decrypt() - want).max()
        assert off < end[name].estimate.error_bound < 1e-5


@pytest.mark.long
def test_a_plan_tells_the_depth_of_a_loop_before_it_runs() -> None:
    plan = ckks.plan(lambda v: looped(v, 1), ckks.spec(4, bound=2), n=1 << 8, security=None)
    assert plan.depth == 10
    x = ckks.context(plan).encrypt(VALUES)
    with pytest.raises(errors.DepthError, match=r"ckks\.plan"):
        looped(x)
    truth = ckks.spec(4, dtype=bool)
    assert ckks.plan(lambda g: (g & ~g).any(), truth, n=1 << 8, security=None).depth == 3


@pytest.mark.parametrize(
    ("cond", "body", "steps", "error", "words"),
    [
        (lambda v: True, lambda v: v, 1, errors.OperandError, "gave a bool"),
        (lambda v: v, lambda v: v + 1, 1, errors.OperandError, "others than 0 and 1"),
        (lambda v: v.within(0, 1), lambda v: (v, v), 1, errors.ParameterError, "keeps the struct"),
        (lambda v: v.within(0, 1), lambda v: v, 0, errors.ParameterError, "one at least"),
        (lambda v: v.within(0, 1), lambda v: v, 1.5, errors.OperandError, "takes an integer"),
        (3, lambda v: v, 1, errors.OperandError, "calls a function"),
    ],
)
def test_a_loop_says_what_it_lacks(ctx: ckks.Context, cond, body, steps, error, words) -> None:
    with pytest.raises(error, match=words):
        ckks.while_loop(cond, body, ctx.encrypt([0.0, 1.0]), steps)


# ------------------------------------------------------------------- masks


@pytest.mark.long
@pytest.mark.parametrize("length", [1, 5])
def test_any_and_all_of_truth_are_truth(deep: ckks.Context, length: int) -> None:
    drawn = np.random.default_rng(length)
    for truth in (drawn.integers(0, 2, length) > 0, np.ones(length, bool), np.zeros(length, bool)):
        mask = drawn.integers(0, 2, length) > 0
        x, hidden = deep.encrypt(truth), deep.encrypt(mask)
        for got, want in ((x.any(), truth.any()), (x.all(), truth.all()),
                          (x.any(where=mask), truth[mask].any()),
                          (x.all(where=hidden), truth[mask].all())):  # fmt: skip
            error = got.estimate.error_bound
            assert np.abs(got.decrypt(float) - want) < error < 1e-2
            assert got.span.is_truth and got.shape == ()


@pytest.mark.long
def test_any_and_all_of_blocks(deep: ckks.Context) -> None:
    """Three ciphertexts of 128 slots, of which the last is not full."""
    for at, name in ((324, "any"), (175, "all")):
        truth = (np.arange(325) == at) == (name == "any")
        got = getattr(deep.encrypt(truth), name)()
        assert np.abs(got.decrypt(float) - (name == "any")) < got.estimate.error_bound < 1e-2
        assert got.level == 20 - 9


@pytest.mark.long
def test_masks_under_capture_and_traces(ctx: ckks.Context) -> None:
    values, mask = np.array([1.5, 0.5, -0.5, 1.0]), np.array([True, False, True, True])
    x, hidden, want = ctx.encrypt(values), ctx.encrypt(mask), values[mask].sum()
    f = lambda v, m: v.sum(where=m)  # noqa: E731
    both = ckks.stack([x, x])
    for got in (f(x, hidden), ren.jit(f)(x, hidden), ren.jit(f)(x, mask),
                jax.jit(f)(x, jnp.asarray(mask)),
                jax.vmap(f, in_axes=(0, None))(both, hidden)):  # fmt: skip
        assert np.abs(got.decrypt() - want).max() < got.estimate.error_bound < 1e-4
    assert f(x, True).level == x.level  # no mask, no product


def test_a_choice_by_truth_is_bounded_by_what_is_chosen(ctx: ckks.Context) -> None:
    x, g = ctx.encrypt([1.0, -2.0]), ctx.encrypt([True, False])
    p = x.within(-2, 1.5)
    assert ckks.where(g, x, x).estimate.message_bound == pytest.approx(2, rel=1e-5)
    assert ckks.where(g, x, 3.0).estimate.message_bound == pytest.approx(4, rel=1e-5)
    assert ckks.where(g, 3.0, x).estimate.message_bound == pytest.approx(4, rel=1e-5)
    span = ckks.where(g, p, p + 1).span
    assert (span.low, span.high) == (-2, 2.5) and ckks.where(g, x, p).span is None
    chosen = ckks.where(g, p, [5.0, 6.0])
    assert np.abs(chosen.decrypt() - [1, 6]).max() < chosen.estimate.error_bound < 1e-5
    assert ckks.where(x, x, x).estimate.message_bound > 4  # no truth: a sum of products


# ------------------------------------------------------------------- NaN


@pytest.mark.parametrize(
    ("values", "index"),
    [
        ([1.0, np.nan], "nan at the index 1"),
        (np.array([[1.0, 2.0], [np.nan, np.nan]]), r"nan at the index \(1, 0\)"),
        (np.array([1.0, np.inf]), "inf at the index 1"),
        (np.array([1j, complex(0, np.nan)]), "nanj at the index 1"),
        (np.nan, r"nan at the index \(\)"),
    ],
)
def test_nan_raises_with_its_index(ctx: ckks.Context, values: Any, index: str) -> None:
    with pytest.raises(errors.ParameterError, match=index):
        ctx.encrypt(values)


def test_nan_counts_as_the_number_that_is_given(ctx: ckks.Context) -> None:
    table = np.array([[1.0, np.nan], [np.nan, 2.0]])
    for pack in ("flat", "rows", "columns"):
        got = ctx.encrypt(table, pack=pack, nan=0)
        np.testing.assert_allclose(got.decrypt(), np.nan_to_num(table), atol=1e-6)
    got = ctx.encrypt([1.0, np.nan], nan=-0.5).decrypt()
    np.testing.assert_allclose(got, [1, -0.5], atol=1e-6)
    np.testing.assert_allclose(ctx.encrypt([1, 2], nan=0).decrypt(), [1, 2], atol=1e-6)
    captured = ren.jit(lambda x, v: x + ctx.encrypt(v, nan=0))
    np.testing.assert_allclose(
        captured(ctx.encrypt([1.0, 1.0]), np.array([1.0, np.nan])).decrypt(), [2, 1], atol=1e-6
    )
    with pytest.raises(errors.ParameterError, match="inf at the index 0"):
        ctx.encrypt([np.inf, np.nan], nan=0)


DECIDED = {
    "cond": lambda x: lax.cond(x, lambda v: v + v, lambda v: v, x),
    "cond of a comparison": lambda x: lax.cond(
        ckks.math.less(x, 1, (0, 2), degree=3), lambda v: v + v, lambda v: v, x
    ),
    "cond of truth": lambda x: lax.cond(x.within(0, 1).any(), lambda: x, lambda: -x),
    "switch": lambda x: lax.switch(x, [lambda v: v, lambda v: v + v], x),
    "switch by a number": lambda x: lax.switch(x.sum(), [lambda v: v, lambda v: v + v], x),
    "while_loop": lambda x: lax.while_loop(lambda v: v, lambda v: v + v, x),
    "while_loop with a counter": lambda x: lax.while_loop(
        lambda c: (c[0] < 3) & ckks.math.less(c[1], 1, (0, 2), degree=3),
        lambda c: (c[0] + 1, c[1] + c[1]),
        (0, x),
    )[1],
}


@pytest.mark.parametrize("transform", [lambda f: f, ren.jit, ren.djit, jax.jit])
@pytest.mark.parametrize("name", DECIDED)
def test_an_encrypted_condition_of_jax_names_the_remedy(ctx, name, transform) -> None:
    words = rf"(?s)jax\.lax\.{name.split()[0]}.*ckks\.where.*ckks\.while_loop.*max_steps="
    with pytest.raises(TracedValueError, match=words):
        transform(DECIDED[name])(ctx.encrypt([0.5, 1.0]))


def test_loops_and_branches_by_clear_conditions_run(ctx) -> None:
    """A condition in the clear may flatten ciphertexts, and so may bodies and branches."""
    x, keep = ctx.encrypt([0.5, 1.0]), lambda v: jax.tree.map(lambda leaf: leaf, v)
    going_on = lambda c: (keep(c[1]).level == 3) & (c[0] < 3)  # noqa: E731
    body = lambda c: (c[0] + 1, lax.cond(c[0] > 1, lambda v: keep(v), lambda v: v + v, c[1]))  # noqa: E731
    for transform in (lambda f: f, ren.jit, jax.jit):
        got = transform(lambda x: lax.while_loop(going_on, body, (0, x))[1])(x)
        np.testing.assert_allclose(got.decrypt(), [2.0, 4.0], atol=1e-4)


def test_branches_of_other_intervals_name_them(ctx) -> None:
    x = ctx.encrypt([0.5, 1.0]).within(0, 2)
    flipped = ren.jit(lambda v, k: lax.cond(k > 0, lambda u: u, lambda u: -u, v))
    with pytest.raises(LoopError, match=r"interval of the numbers Span.*\s.*\s.*x\.within\(None\)"):
        flipped(x, 1)
