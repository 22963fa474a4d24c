"""ren.plan: from shapes alone to depth, parameters, keys and costs, and to a context for them."""

from __future__ import annotations

import gc

import jax
import numpy as np
import pytest

import ren
from ren.core.errors import ParameterError
from ren.core.node import next_serial
from ren.lowering.backends.native import bytecode
from ren.lowering.runtime import native_calls
from ren.schemes import ckks
from ren.schemes.ckks.encoding import encoder, plaintext
from ren.schemes.ckks.noise.around import around, with_around
from ren.schemes.rlwe.active_context import active_context
from ren.schemes.rlwe.keychain import Keychain
from tests.schemes.ckks.keys import keys_of

BAR = 2.0**-18
SMALL = {"n": 1 << 10, "security": None}


def step(x, y, w):
    return (x * y + x.rotate(-3) * w) * 0.5 + y.conj()


def test_a_plan_makes_a_context_that_suffices_and_no_more():
    rng = np.random.default_rng(0)
    a, w = rng.uniform(-1, 1, (2, 512))
    b = rng.uniform(-1, 1, 512) * 1j
    plan = ren.plan(step, ckks.spec(512), ckks.spec(512, complex), w, **SMALL)
    assert (plan.depth, plan.rotations, plan.needs_conjugation) == (2, (-3,), True)
    assert plan.keys == 3 and plan.key_bytes == 3 * plan.params.key_nbytes()
    ctx = ckks.context(plan)
    server = ctx.server()
    assert ctx.params == plan.params and len(keys_of(server).galois) == 2
    assert keys_of(server).nbytes == plan.key_bytes
    x, y = ctx.encrypt(a), ctx.encrypt(b)
    jitted = ren.jit(step)
    with server:
        got = jitted(x, y, w)
    want = (a * b + np.roll(a, 3) * w) * 0.5 + b.conj()
    assert got.level == 0 and np.abs(ctx.decrypt(got) - want).max() < BAR
    replay = jitted.plans[0]
    assert replay.cost.limb_ntts == plan.limb_ntts > 0
    assert plan.seconds > 0 and plan.peak_bytes > plan.key_bytes
    with pytest.raises(ckks.DepthError):
        step(x.drop_to(1), y, w)
    text = str(plan)
    for part in (
        "depth",
        "rotations: -3",
        "conjugation",
        "relinearization",
        "INSECURE",
        "limb-NTTs",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("function", "depth", "keys"),
    [
        (lambda x: x + 1, 0, 0), (lambda x: 3 * x.rotate(1), 0, 1), (lambda x: x**8, 3, 1),
        (lambda x: (x * 0.5).compress(), 1, 0), (lambda x: x.drop_to(2), 2, 0),
        (lambda x: [x * x, {"y": x.rotate(1) + x.rotate(2)}], 1, 3), (lambda x: x.roll(1), 0, 2),
        (ren.jit(lambda x: x * x), 1, 1),
    ],
)  # fmt: skip
def test_depths_and_keys(function, depth, keys):
    plan = ren.plan(function, ckks.spec(9), **SMALL)
    assert (plan.depth, plan.keys) == (depth, keys)


def test_degrees_are_secure_and_hold_the_vectors():
    for length, n in ((100, 1 << 12), (2048, 1 << 12), (2049, 1 << 13), (5000, 1 << 14)):
        plan = ren.plan(lambda x: x.rotate(1), ckks.spec(length))
        assert plan.params.n == n and plan.params.security_bits >= 128
    plan = ren.plan(lambda x: x + x, ckks.spec(1300), **SMALL)
    assert plan.params.n == 1 << 10  # three blocks
    plan = ren.plan(lambda x: x.rotate(1), ckks.spec(1300), **SMALL)
    assert (plan.params.n, plan.depth) == (1 << 10, 1)  # across blocks, for a level
    server, values = ckks.context(plan), np.linspace(-1, 1, 1300)
    got = server.encrypt(values).rotate(1).decrypt()
    np.testing.assert_allclose(got, np.append(values[1:], 0), atol=1e-5)


def test_batches_scalars_and_containers():
    plan = ren.plan(
        lambda pair, named: pair[0] * named["k"] + pair[1],
        [ckks.spec((4, 100)), ckks.spec(())],
        {"k": ckks.spec(100)},
        **SMALL,
    )
    one = ren.plan(lambda x, y, z: x * y + z, *[ckks.spec(100)] * 3, **SMALL)
    assert plan.depth == one.depth == 1 and plan.limb_ntts > one.limb_ntts


def test_what_cannot_be_planned():
    with pytest.raises(ckks.ParameterError, match=r"no ckks\.spec"):
        ren.plan(lambda x: x, 1.0)
    for shape in (0, (3, 0), -1, "x", (2.5,), None):
        with pytest.raises(ckks.ParameterError, match="got the shape"):
            ckks.spec(shape)
    with pytest.raises(ckks.InsecureParametersError):
        ren.plan(lambda x: x**8, ckks.spec(10), n=1 << 12)


SPECS = {
    "a vector": (ckks.spec(100), np.ones(100)),
    "a number": (ckks.spec(()), 0.5),
    "complex": (ckks.spec(7, complex), np.full(7, 0.5 + 0.5j)),
    "a batch": (ckks.spec((3, 20)), np.ones((3, 20))),
    "blocks": (ckks.spec(600), np.ones(600)),
    "full slots": (ckks.spec(512), np.ones(512)),
    "columns": (ckks.spec((4, 3), pack="columns"), np.ones((4, 3))),
}


RUNS: list = []  # not bound to a function: what it is bound to is part of the key of its plans


@pytest.mark.parametrize("name", SPECS)
def test_a_jitted_call_after_its_plan_captures_nothing(name):
    spec, values = SPECS[name]

    @ren.jit
    def f(x, w):
        RUNS.append(x)
        return x * x * w + x.conj()

    plan = ren.plan(f, spec, 0.5, **SMALL)
    ctx, count = ckks.context(plan), len(RUNS)
    RUNS.clear()
    x = ctx.encrypt(values, **({"pack": "columns"} if name == "columns" else {}))
    for w in (0.5, 0.25):
        want = values * values * w + np.conj(values)
        assert np.abs(f(x, w).decrypt() - want).max() < BAR
    assert count and not RUNS and f.cache_info()[:3] == (2, 1, 1)


def test_a_method_and_a_function_of_lengths_are_captured_by_their_plan():
    class Model:
        @ren.jit
        def __call__(self, x):
            return self.step(x)

        @ren.jit(static_argnames=("self", "k"), donate_argnames="x")
        def step(self, x, k=1):
            RUNS.append(k)
            return x.sum() + x.roll(k)

    model = Model()
    plan = ren.plan(model.step, ckks.spec(10), 2, **SMALL)
    RUNS.clear()
    got = model.step(ckks.context(plan).encrypt(np.ones(10)), 2)
    assert np.abs(got.decrypt() - 11).max() < BAR and not RUNS


@pytest.mark.long
def test_planning_keeps_no_keys_and_no_context():
    f = ren.jit(lambda x: x * x + x.rotate(1))
    gc.collect()
    before = {id(c) for c in gc.get_objects() if isinstance(c, Keychain)}
    ren.plan(f, ckks.spec(10), **SMALL)
    gc.collect()
    assert {id(c) for c in gc.get_objects() if isinstance(c, Keychain)} <= before
    assert f.plans[0].memory.held_bytes == 0


def test_a_plan_of_a_function_that_needs_static_arguments_is_made_all_the_same():
    f = ren.jit(lambda x, k: x.rotate(k))
    assert ren.plan(f, ckks.spec(10), 2, **SMALL).rotations == (2,)
    assert f.cache_info().plans == 0


def test_programs_and_plans_of_abstract_ciphertexts():
    ctx = ckks.context(params=ckks.Parameters.for_depth(2, n=1 << 8, security=None))
    x, table = ctx.encrypt([1.0, 2.0]), np.ones((3, 4))
    square = lambda c, k=1.0: c * c + k  # noqa: E731
    abstract = jax.eval_shape(lambda c: c, x)
    assert ren.xpr(square, abstract) == ren.xpr(square, x)
    assert "ENCODE" in ren.xpr(square, abstract, jax.ShapeDtypeStruct((2,), float))
    assert repr(ckks.plan(square, abstract)) == repr(ckks.plan(square, ckks.spec(2)))
    for function in (square, ren.jit(square)):
        text = ren.xpr(function, ckks.spec(2), k=2.0)
        assert text.startswith("{ lambda ; a:R0[ntt] b:R0[ntt] . let\n    c:R0[ntt] = MUL a a\n")
        assert ren.stages(function, ckks.spec(2))["phases"]
    for pack in ("flat", "rows", "columns"):
        seen = jax.eval_shape(lambda c: c, ctx.encrypt(table, pack=pack))
        made, wanted = (
            ckks.plan(lambda c: c.sum(axis=0), v) for v in (seen, ckks.spec((3, 4), pack=pack))
        )
        assert repr(made) == repr(wanted)


def test_shapes_stand_for_numbers_and_arrays_in_the_clear():
    """A plan is that of an array of ones; a number is one number, and its value is not asked."""
    shape = jax.ShapeDtypeStruct
    for function, given in (
        (lambda x, w: x * w + w, shape((3,), np.float64)),
        (lambda x, k: x * k + 1, shape((), np.int32)),
        (lambda x, w: x.dot(w), shape((3,), np.float32)),
        (lambda x, k: jax.lax.fori_loop(0, k, lambda i, c: c + 1, x), shape((), np.int32)),
    ):
        ones = np.ones(given.shape, given.dtype)
        plan, same = (ren.plan(function, ckks.spec(3), w, **SMALL) for w in (given, ones))
        assert (plan.params, plan.rotations) == (same.params, same.rotations)
        assert plan.limb_ntts == same.limb_ntts
        assert "a:R0[ntt]" in (shown := ren.xpr(function, ckks.spec(3), given)) or "loop" in shown


@pytest.mark.parametrize("shape", [(20, 20), (600, 40), (40, 600)])
def test_a_plan_of_matrices_and_arrays_encodes_nothing(monkeypatch, shape):
    """Its requirements are those of a plan that encodes."""
    rng = np.random.default_rng(0)
    matrix, mask = rng.normal(size=shape), rng.normal(size=shape[0])

    def f(x: ckks.Ciphertext) -> ckks.Ciphertext:
        return (matrix @ x) * mask + mask

    with monkeypatch.context() as patch:
        patch.setattr(plaintext, "_surely_fits", lambda *_: False)
        expected = ren.plan(f, ckks.spec(shape[1]), **SMALL)
    patched = lambda *_: pytest.fail("something was encoded")  # noqa: E731
    monkeypatch.setattr(encoder, "encode", patched)
    made = ren.plan(f, ckks.spec(shape[1]), **SMALL)
    assert (made.params, made.rotations, made.keys) == (
        expected.params, expected.rotations, expected.keys
    )  # fmt: skip
    assert made.peak_bytes == expected.peak_bytes and made.limb_ntts == expected.limb_ntts


def test_plans_of_values_that_do_not_fit_and_of_zeros():
    def planned(value: float) -> ckks.Requirements:
        return ren.plan(lambda x: np.full((3, 5), value) @ x, ckks.spec(5), **SMALL)

    for value in (1e30, np.nan):
        with pytest.raises(ParameterError):
            planned(value)
    assert {planned(value).depth for value in (0.0, 1e-30, 1e-13)} == {1}


def test_a_plaintext_in_a_plan_is_encoded_again_in_another_shape():
    def f(x: ckks.Ciphertext) -> ckks.Ciphertext:
        return x * active_context(ckks.Parameters).encode(np.arange(30.0))  # type: ignore[union-attr]

    assert ren.plan(f, ckks.spec((4, 30), pack="rows"), **SMALL).depth == 1
    assert ren.plan(f, ckks.spec((4, 30)[1:]), **SMALL).depth == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.drop_to(0) * x,
        lambda x: (x.drop_to(1) * x) * x,
        lambda x: (x.drop_to(1) * 2.5).rotate(1) * (x * x * x * x),
    ],
)
def test_a_level_that_no_depth_raises_is_told_at_once(function):
    with pytest.raises(ckks.DepthError, match=r"^No depth suffices(.|\n)*at level 0 of \d\."):
        ren.plan(function, ckks.spec(4))


def test_what_fails_alike_at_many_depths_is_tried_further():
    def powers(x):
        for _ in range(9):
            x = x * x
        return x

    assert ren.plan(powers, ckks.spec(4)).depth == 9
    step = ren.plan(lambda x: ckks.math.sign(x, (-1, 1), gap=0.01, precision=12), ckks.spec(4))
    assert step.depth > 8
    assert ren.plan(lambda x: x.drop_to(7) * x, ckks.spec(4)).depth == 7
    for below in (5, 20):
        found = ren.plan(lambda x, k=below: x.drop_to(max(0, x.level - k)) * x, ckks.spec(4))
        assert found.depth == below + 1


@pytest.mark.parametrize(
    "function",
    [lambda x: x**256, lambda x: x**256 + x.rotate(1), lambda x: ckks.math.sign(x, gap=0.01)],
)
def test_a_plan_records_a_function_few_times_however_deep_it_is(function):
    depths = []

    def f(x):
        depths.append(x.params.depth)
        return function(x)

    plan = ren.plan(f, ckks.spec(9), **SMALL)
    assert plan.depth >= 8 and len(depths) <= 4
    assert set(depths[1:]) == {plan.depth - 1, plan.depth}  # after one that counts levels


def test_a_plan_of_many_columns_makes_few_nodes_and_no_native_code(monkeypatch):
    """Nodes grow no faster than the columns; printing a plan makes none."""
    lowered = lambda *_: pytest.fail("a large program was lowered")  # noqa: E731
    monkeypatch.setattr(bytecode, "lowered", lowered)

    def made(columns: int) -> int:
        before = next_serial()
        plan = ren.plan(lambda x: x.var(axis=0), ckks.spec((400, columns), pack="columns"), **SMALL)
        after = next_serial()
        assert "peak memory" in str(plan) and next_serial() == after + 1
        return after - before

    few, more, many = map(made, (12, 24, 36))
    assert many - more <= 1.1 * (more - few)


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (lambda x: x.var(axis=0), ckks.spec((400, 12), pack="columns")),
        (ckks.stats.cov, ckks.spec((100, 4), pack="columns")),
    ],
)
def test_the_memory_of_a_large_program_is_estimated(monkeypatch, function, spec):
    """Within a tenth of that of its calls, although these are not lowered."""
    made = [ren.plan(function, spec, **SMALL).peak_bytes]
    monkeypatch.setattr(native_calls, "FEW_ROWS", 1 << 30)
    made.append(ren.plan(function, spec, **SMALL).peak_bytes)
    assert made[0] != made[1] and abs(made[0] / made[1] - 1) < 0.1


def test_debugging_sees_the_operations_of_a_plan():
    seen = []
    with with_around(watcher=lambda name, *_: seen.append(name)):
        ren.plan(lambda x: x * x + 1, ckks.spec(4))
        assert around().watcher is not None
    assert len(seen) >= 2


def test_an_array_meets_a_ciphertext_at_a_modulus_beyond_float64():
    def deep(x):
        y = x * np.array([1.0, 2.0, 3.0])
        for _ in range(27):
            y = y * x
        return y

    assert ren.plan(deep, ckks.spec(3)).depth == 28


def test_keys_of_low_levels_are_counted_once_in_the_memory_of_a_plan() -> None:
    """Rotations at level 0 read one digit of a key: what a plan cuts off was not in its inputs."""
    plan = ren.plan(lambda x: ckks.strided_sum(x**16, 64), ckks.spec(64), n=1 << 10, security=None)
    assert plan.peak_bytes > plan.key_bytes


@pytest.mark.parametrize("size", [(8, 8), (4, 4096)])
def test_a_plan_of_the_shape_of_a_matrix_is_that_of_ones(size) -> None:
    shape, ones, x = jax.ShapeDtypeStruct(size, float), np.ones(size), ckks.spec(size[1])
    of_shape, of_ones = (ckks.plan(lambda m, x: m @ x, a, x) for a in (shape, ones))
    assert (of_shape.depth, of_shape.rotations) == (1, of_ones.rotations)
    assert of_shape.params == of_ones.params


def test_a_plan_of_a_jitted_function_knows_what_its_arrays_reach() -> None:
    def f(m, w, x):
        return (2 * m) @ x + 3 * w

    given = 100 * np.ones((8, 8)), np.full(8, 1000.0), ckks.spec(8)
    assert ckks.plan(ren.jit(f), *given).params == ckks.plan(f, *given).params
