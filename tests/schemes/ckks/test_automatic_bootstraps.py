"""bootstrapping="auto": programs of any depth, and `ckks.plan` of programs with bootstraps."""

from __future__ import annotations

import logging
import re

import jax
import numpy as np
import pytest

import ren
from ren.schemes import ckks

# Without native code XLA compiles each stage for minutes; a slow test compares the bits of both.
pytestmark = pytest.mark.once
N, FLOOR = 1 << 12, 2


@pytest.fixture(scope="module")
def ctx() -> ckks.Context:
    return ckks.context(depth=10, bootstrapping="auto", n=N, security=None)


@pytest.fixture(scope="module")
def low() -> ckks.Context:
    return ckks.context(depth=3, bootstrapping="auto", n=1 << 11, security=None)


@pytest.fixture
def v() -> np.ndarray:
    return np.linspace(0.1, 0.9, 16)


@pytest.fixture
def x(ctx, v) -> ckks.Ciphertext:
    return ctx.encrypt(v, bound=1.0).drop_to(FLOOR)


def power(y, x, count):
    for _ in range(count):
        y = y * x
    return y


@pytest.mark.long
def test_a_product_of_any_length(ctx, v):
    x = ctx.encrypt(v, bound=1.0)
    y = power(x, x, 25)
    assert np.abs(ctx.decrypt(y) - v**26).max() < 2**-18
    assert np.abs(ctx.decrypt(y) - v**26).max() <= y.estimate.error_bound


def test_an_operand_is_bootstrapped_once_and_told_once(ctx, x, v, caplog):
    with caplog.at_level(logging.INFO, "ren"):
        y, z = x * 0.5, x * x
    told = [r.getMessage() for r in caplog.records if "bootstrapped at level 2" in r.getMessage()]
    assert len(told) == 1 and "test_automatic_bootstraps.py" in told[0]
    assert np.abs(ctx.decrypt(y + z) - (v / 2 + v**2)).max() < 2**-18


def test_a_ciphertext_that_was_bootstrapped_is_used_at_its_new_level(ctx, x, v):
    square = x * x
    assert (x - square).level == square.level and (square + x).level == square.level
    assert np.abs(ctx.decrypt(x - square) - (v - v * v)).max() < 2**-18


def test_two_real_operands_share_one_run(ctx, v, monkeypatch):
    from ren.schemes.ckks.bootstrapping import pipeline

    runs = []
    lowered = pipeline.lowered
    monkeypatch.setattr(pipeline, "lowered", lambda *a: runs.append(1) or lowered(*a))
    a, b = (ctx.encrypt(u, bound=1.0).drop_to(FLOOR) for u in (v, v[::-1]))
    assert np.abs(ctx.decrypt(a * b) - v * v[::-1]).max() < 2**-18
    assert len(runs) == 1


OPERATIONS = {
    "product": lambda x, v: (x * x, v * v),
    "number": lambda x, v: (x * 0.5, v * 0.5),
    "quotient": lambda x, v: (x / 3, v / 3),
    "array": lambda x, v: (x * v, v * v),
    "array first": lambda x, v: (v * x, v * v),
    "square": lambda x, v: (x**2, v**2),
    "power": lambda x, v: (x**5, v**5),
    "matrix": lambda x, v: (np.eye(16) * 0.5 @ x, v / 2),
    "row": lambda x, v: (x @ (np.eye(16) * 0.5), v / 2),
    "mean": lambda x, v: (x.mean(), v.mean()),
    "dot": lambda x, v: (x.dot(x), v @ v),
    "dot with an array": lambda x, v: (x.dot(v), v @ v),
    "sum of some": lambda x, v: (x.sum(where=np.arange(16) > 3), v[4:].sum()),
    "poly": lambda x, v: (ckks.poly(x, [0, 1, 2]), v + 2 * v**2),
    "chebyshev": lambda x, v: (ckks.chebyshev(x, np.exp, (-1, 1), 7), np.exp(v)),
    "sigmoid": lambda x, v: (ckks.math.sigmoid(x, interval=(-1, 1)), 1 / (1 + np.exp(-v))),
    "root": lambda x, v: (ckks.math.sqrt(x, (0.1, 1), newton=True, precision=16), np.sqrt(v)),
    "var": lambda x, v: (x.var(), v.var()),
    "std": lambda x, v: (ckks.stats.std(x, interval=(0.02, 0.2), precision=16), v.std()),
    "slice times slice": lambda x, v: (x[2:].within(1) * x[2:], v[2:] ** 2),
    "convolution": lambda x, v: (
        ckks.conv1d(x, [0.5, 0.25]),
        np.correlate(v, [0.5, 0.25], "valid"),
    ),
    "nested": lambda x, v: ((x * 0.5 + x * x) * x, (v / 2 + v * v) * v),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_operation_that_lacks_levels_bootstraps(ctx, x, v, name):
    made, clear = OPERATIONS[name](x, v)
    assert made.level > FLOOR
    assert np.abs(ctx.decrypt(made) - clear).max() < 2**-14


OF_LEFTOVERS = OPERATIONS | {
    "cumsum": lambda x, v: (x.cumsum(), v.cumsum()),
    "roll": lambda x, v: (x.roll(3), np.roll(v, 3)),
    "pad": lambda x, v: (ckks.pad(x, 20), np.pad(v, (0, 4))),
    "tile": lambda x, v: (x.tile(2), np.tile(v, 2)),
    "concat": lambda x, v: (ckks.concat([x, x]), np.concatenate([v, v])),
}


DEEP = ("std", "root", "var", "sigmoid")  # more levels than a bootstrap to depth 3 gives


@pytest.mark.parametrize(
    ("name", "levels"), [(k, d) for k in OF_LEFTOVERS for d in (3, 10) if d == 10 or k not in DEEP]
)
def test_so_does_each_with_leftovers_beyond_the_bound(ctx, low, v, name, levels):
    """Leftovers are cleared at the top, a level lower. A second bootstrap gives that level."""
    context = low if levels == 3 else ctx
    x = context.encrypt([*v, 3.0, 3.0], bound=3.0)[:16].within(1).drop_to(FLOOR)
    made, clear = OF_LEFTOVERS[name](x, v)
    error = np.abs(context.decrypt(made) - clear).max()
    assert error <= made.estimate.error_bound and error < 2**-13


def test_a_bootstrap_inside_that_keeps_the_promised_bits_warns_of_nothing(ctx, v):
    """The difference that a comparison bootstraps may be larger than the bound."""
    x = ctx.encrypt(2 * v - 1, bound=1.0)
    with ckks.intervals(precision=8):
        y = np.clip(x, -0.5, 0.5)
    error = np.abs(ctx.decrypt(y) - np.clip(2 * v - 1, -0.5, 0.5)).max()
    assert error <= y.estimate.error_bound < 2**-7


def test_a_power_with_an_encrypted_exponent_bootstraps_both_at_once(ctx, x, v, caplog):
    """It takes all levels that one bootstrap gives."""
    y = ctx.encrypt(v[::-1], bound=1.0).drop_to(FLOOR)
    with caplog.at_level(logging.INFO, "ren"):
        made = ckks.math.pow(x, y, (0.1, 1), precision=14)
    assert sum("bootstrapped at level 2" in r.getMessage() for r in caplog.records) == 2
    error = np.abs(ctx.decrypt(made) - v ** v[::-1]).max()
    assert error <= made.estimate.error_bound < 2**-10


def test_what_takes_no_level_does_not_bootstrap(ctx, x, v):
    for made in (x + x, -x, x.rotate(1), x * 3, x - v, x[2:5], x.sum(), x.compress()):
        assert made.level <= FLOOR


@pytest.mark.long
def test_under_jit_it_is_a_part_of_the_plan(ctx, v, caplog):
    jitted = ren.jit(lambda x: power(x, x, 24))
    x = ctx.encrypt(v, bound=1.0)
    with caplog.at_level(logging.INFO, "ren"):
        for _ in range(2):
            assert np.abs(ctx.decrypt(jitted(x)) - v**25).max() < 2**-18
    (plan,) = jitted.plans
    count = sum("bootstrapped at level" in record.getMessage() for record in caplog.records)
    lines = [line for line in str(plan.explain()).splitlines() if line.startswith("bootstrap()")]
    assert count > 1 and len(lines) == 1
    assert re.search(rf"level 2 to level {ctx.params.depth}: .*\.py:\d+, {count} times$", lines[0])


@pytest.mark.long
def test_what_a_capture_bootstraps_stays_in_it(ctx, x, v):
    """A ciphertext that is closed over is another one outside."""
    factor = ctx.encrypt(v, bound=1.0)
    for transform in (ren.jit, jax.jit):
        inside = transform(lambda y: x * y + x)(factor)
        assert np.abs(ctx.decrypt(inside) - (v * v + v)).max() < 2**-18
        outside = x * x + x
        assert np.abs(ctx.decrypt(outside) - (v * v + v)).max() < 2**-18


def center(x, count=5):
    y = x
    for _ in range(count):
        y = (y - y.mean()).within(1) * x
    return y


def smooth(x, count=5):
    for _ in range(count):
        x = (x.rotate(1) * 0.5 + x * x * 0.25).within(1)
    return x.sum()


@pytest.mark.long
@pytest.mark.parametrize("depth", [4, 5])
def test_loops_with_leftovers_at_any_depth(depth):
    """They may end at the floor with leftovers, whose bound is not known."""
    context = ckks.context(depth=depth, bootstrapping="auto", n=1 << 10, security=None)
    v = np.linspace(-1, 1, 100)
    x, centered, moved = context.encrypt(v, bound=1.0), v, v
    for _ in range(5):
        centered = (centered - centered.mean()) * v
        moved = np.append(moved[1:], 0) * 0.5 + moved**2 * 0.25  # zeros follow
    for f, clear in ((center, centered), (smooth, moved.sum())):
        for made in (f(x), ren.jit(f)(x)):
            error = np.abs(context.decrypt(made) - clear).max()
            assert error <= min(made.estimate.error_bound, 2**-15)


@pytest.mark.long
@pytest.mark.parametrize("f", [center, smooth])
def test_a_plan_of_loops_with_leftovers(f):
    spec = ckks.spec(100)
    plan = ckks.plan(lambda x: f(x, 10), spec, bootstrapping="auto", n=1 << 10, security=None)
    assert plan.bootstraps > 0
    made = plan.params.bootstrapping.keys
    assert plan.keys == len(plan.rotations) + plan.needs_products + made
    assert f"{made} for bootstraps" in str(plan)


def test_nothing_is_inserted_in_manual_mode(ctx, x):
    with ckks.manual(), pytest.raises(ckks.DepthError):
        (x * x).rescale()
        x.drop_to(0).rescale()


@pytest.mark.long
def test_more_than_all_levels_is_an_error(ctx, x):
    with pytest.raises(ckks.DepthError, match="bootstraps begin at level 2") as caught:
        ckks.poly(x, np.ones(1 << 11))
    assert "depth=11 or more" in str(caught.value)


# ------------------------------------------------------------------- more than one bootstrap gives


@pytest.fixture(scope="module")
def shallow() -> ckks.Context:
    return ckks.context(depth=5, bootstrapping="auto", n=1 << 10, security=None)


W = np.random.default_rng(3).uniform(-0.9, 0.9, 500)
FAR = np.abs(W - 0.1) > 2.0**-9  # from the threshold: elsewhere a comparison is undecided
FINE = {"interval": (-1, 1), "gap": 2.0**-9}
COMPOUND = {
    "power": (lambda x: x**33, W**33),
    "greater": (lambda x: ckks.math.greater(x, 0.1, **FINE, precision=16), W > 0.1),
    "less_equal": (lambda x: ckks.math.less_equal(x, 0.1, **FINE, precision=10), W <= 0.1),
    "equal": (lambda x: ckks.math.equal(x, x * 1.0, **FINE, precision=10), W == W),
    "abs": (lambda x: ckks.math.abs(x, interval=(-1, 1), precision=12), np.abs(W)),
    "max": (
        lambda x: ckks.math.max(x, x * 0.5, interval=(-1, 1), precision=12),
        np.maximum(W, W / 2),
    ),
    "std": (lambda x: ckks.stats.std(x, interval=(0.05, 1), precision=12), W.std()),
}


JITTED = ("power", "equal", "std")


@pytest.mark.long
@pytest.mark.parametrize("name", COMPOUND)
def test_what_takes_more_levels_than_a_bootstrap_gives_has_one_inside(shallow, name):
    f, clear = COMPOUND[name]
    decided = FAR if name in ("greater", "less_equal") else slice(None)
    x = shallow.encrypt(W, bound=1.0)
    jitted = ren.jit(f)
    for made in (f(x), jitted(x), jitted(x)) if name in JITTED else (f(x),):
        error = np.abs(shallow.decrypt(made) - clear)
        assert np.max(error[decided] if error.ndim else error) <= made.estimate.error_bound
        assert made.estimate.error_bound < 2.0**-7


@pytest.fixture(scope="module")
def few() -> ckks.Context:
    """With few slots a bootstrap ends below the top: 5 levels of 6 remain after it."""
    return ckks.context(depth=5, bootstrapping="auto", slots=16, n=1 << 10, security=None)


ROUGH = {"interval": (-1, 1), "gap": 0.25, "precision": 5}  # of max, it takes 6 levels


@pytest.mark.long
@pytest.mark.parametrize("length", [16, 10])
@pytest.mark.parametrize("down", [0, 1, 6])
def test_few_slots_have_one_inside_too(few, length, down):
    """From the top no bootstrap is needed; leftovers are cleared by a level."""
    a, b = np.linspace(-1, 1, 16), np.linspace(1, -1, 16)
    top = few.params.depth
    assert (top, few.params.bootstrapping.levels, few.params.bootstrapping.floor) == (7, 5, 1)
    x, y = (few.encrypt(v, bound=1.0).drop_to(top - down)[:length] for v in (a, b))
    made = ckks.math.max(x, y, **ROUGH)
    error = np.abs(few.decrypt(made) - np.maximum(a, b)[:length]).max()
    assert error <= made.estimate.error_bound < 0.2


def test_a_level_that_leftovers_take_is_named():
    ctx = ckks.context(depth=6, n=1 << 10, security=None)
    full, zeros = ctx.encrypt(np.linspace(-1, 1, 512)), ctx.encrypt(np.linspace(-1, 1, 10))
    left = ctx.encrypt(np.linspace(-1, 1, 20))[:10]
    calls = {
        "max": lambda x: ckks.math.max(x.within(1.0), x.within(1.0), **ROUGH),
        "dot()": lambda x: x.drop_to(1).dot(x),
        "var()": lambda x: ckks.stats.var(x.drop_to(2)),
        "A polynomial": lambda x: ckks.poly(x.drop_to(2).within(0.5), [1.0, 2, 3, 4]),
    }
    for what, call in calls.items():
        with pytest.raises(ckks.DepthError) as caught:
            call(left)
        assert str(caught.value).startswith(what)
        assert "the slots beyond the length, which may hold leftovers" in caught.value.needed, what
    for x in (full, zeros):
        with pytest.raises(ckks.DepthError) as caught:
            ckks.math.max(x.drop_to(5), x, **ROUGH)
        assert "leftovers" not in str(caught.value)


def test_a_server_has_the_mode_from_bytes(ctx, x, v):
    server = ckks.load_server(ctx.bootstrapping_keys().server().to_bytes())
    with server:
        y = x * x
    assert np.abs(ctx.decrypt(y) - v * v).max() < 2**-18


# ------------------------------------------------------------------- plans


def with_one(x):
    return (power(x, x, 4).within(1.0).bootstrap() * x).within(1.0)


@pytest.mark.long
def test_a_plan_finds_the_fewest_levels_and_counts_bootstraps():
    plan = ckks.plan(with_one, ckks.spec(16), bootstrapping=True, n=N, security=None)
    assert plan.params.bootstrapping.levels == 4 and plan.bootstraps == 1
    assert plan.key_bytes > plan.params.bootstrapping.key_nbytes
    assert plan.limb_ntts > plan.params.bootstrapping.limb_ntts / 2
    assert "bootstraps" in str(plan) and "a run fails with 2^-85.9" in str(plan)
    ctx = ckks.context(plan)
    assert "for bootstrapping" in str(ctx)
    v = np.linspace(-1, 1, 16)
    y = with_one(ctx.encrypt(v, bound=1.0))
    assert np.abs(ctx.decrypt(y) - v**6).max() < 2**-18


@pytest.mark.long
def test_a_plan_counts_where_levels_run_out():
    def f(x):
        for _ in range(40):
            x = (x * 0.9 + x * x * 0.05).within(1.0)
        return x

    plan = ckks.plan(f, ckks.spec(16), bootstrapping="auto")
    assert plan.params.n == 1 << 16 and plan.bootstraps == 5


def test_a_plan_without_a_wish_for_it_says_what_to_write():
    with pytest.raises(ckks.ParameterError, match="bootstrapping=True"):
        ckks.plan(with_one, ckks.spec(16))


@pytest.mark.long
def test_a_jitted_function_is_planned_too():
    jitted = ren.jit(with_one)
    plan = ckks.plan(jitted, ckks.spec(16), bootstrapping=True, n=N, security=None)
    assert plan.bootstraps == 1
    v = np.linspace(-1, 1, 16)
    ctx = ckks.context(plan)
    assert np.abs(ctx.decrypt(jitted(ctx.encrypt(v, bound=1.0))) - v**6).max() < 2**-18


def test_by_hand_the_levels_below_the_floor_are_the_users(ctx, x, v):
    with ckks.manual():
        y = (x * x).relinearize().rescale()
        z = ckks.stack([x * x, x])
    assert y.level == FLOOR - 1 and z.level < FLOOR
    assert np.abs(y.decrypt() - v * v).max() < 1e-5
    assert np.abs(z.decrypt() - [v * v, v]).max() < 1e-5
    assert (x * x).level > FLOOR  # outside it is bootstrapped
