"""Ciphertexts as pytrees: ren.jit, jax.jit, vmap, scan, cond, device_put; display and dtypes."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

import ren
from ren.core.errors import OperandError, TracedValueError
from ren.schemes import ckks

BAR = 2.0**-20


@dataclasses.dataclass
class Request:
    x: ckks.Ciphertext
    note: str


def error(values, want) -> float:
    return float(np.abs(values - want).max())


def step(x, y):
    return x * y + x.rotate(1) - 0.5


def expected(a, b):
    return a * b + np.roll(a, -1) - 0.5


@pytest.fixture(scope="module")
def data(ctx):
    ctx.rotation_keys([1])
    a, b = np.random.default_rng(3).uniform(-1, 1, (2, ctx.slots))
    return a, b, ctx.encrypt(a), ctx.encrypt(b)


@pytest.fixture(params=[False, True], ids=["x32", "x64"])
def x64(request):
    with jax.enable_x64(request.param):
        yield request.param


def test_flatten_gives_three_leaves_and_back(data):
    *_, x, _ = data
    leaves, structure = jax.tree.flatten(x)
    assert [leaf.dtype for leaf in leaves] == [np.uint32, np.uint32, np.float32]
    y = jax.tree.unflatten(structure, leaves)
    assert [p.node for p in y.polys] == [p.node for p in x.polys]
    assert y.key_id == x.key_id and y.layout == x.layout
    assert jax.tree.structure(y) == structure
    assert jax.tree.unflatten(structure, [None, object(), None]).level == x.level


def test_flattening_realizes_both_polynomials_together(data):
    *_, x, y = data
    z = x * y
    assert not any(p.is_realized for p in z.polys)
    jax.tree.leaves(z)
    assert all(p.is_realized for p in z.polys)


def test_containers(data, x64):
    a, b, x, y = data
    tree = {"x": x, "pair": (y, [x])}
    moved = jax.tree.map(lambda leaf: leaf, jax.device_put(tree, jax.devices()[0]))
    assert error(moved["pair"][0].decrypt(), b) < BAR
    done = ren.realize({"z": step(x, y)})
    assert error(done["z"].decrypt(), expected(a, b)) < BAR


def test_ren_jit_replays(data, x64):
    a, b, x, y = data
    jitted = ren.jit(step)
    for left, right, want in ((x, y, expected(a, b)), (y, x, expected(b, a))):
        assert error(jitted(left, right).decrypt(), want) < BAR
    assert jitted.cache_info()[:2] == (1, 1)
    boxed = ren.jit(lambda r: Request(r.x * 0.5, "done"))(Request(x, "half"))
    assert boxed.note == "done" and error(boxed.x.decrypt(), a / 2) < BAR


def test_ren_jit_makes_a_missing_key_at_capture(small_params):
    owner = ckks.context(params=small_params)
    x = owner.encrypt([1.0, 2.0, 3.0])
    jitted = ren.jit(lambda x: x.rotate(1))
    for _ in range(2):
        assert error(jitted(x).decrypt(), [2, 3, 0]) < BAR


def test_two_contexts_of_equal_parameters_through_one_jitted_function(small_params):
    jitted = ren.jit(step)
    for seed in range(2):
        owner = ckks.context(params=small_params)
        a, b = np.random.default_rng(seed).uniform(-1, 1, (2, owner.slots))
        got = jitted(owner.encrypt(a), owner.encrypt(b))
        assert error(got.decrypt(), expected(a, b)) < BAR
    assert jitted.cache_info().misses == 1


def test_jax_jit_with_the_server_as_an_argument(ctx, data, x64):
    a, b, x, y = data

    @jax.jit
    def run(server, x, y):
        with server:
            return step(x, y)

    with jax.checking_leaks():
        z = run(ctx.server(), x, y)
    assert z.level == x.level - 1 and error(ctx.decrypt(z), expected(a, b)) < BAR


def test_ren_jit_with_the_server_as_an_argument(ctx, data):
    a, b, x, y = data

    @ren.jit
    def run(server, x, y):
        with server:
            return step(x, y)

    for _ in range(2):
        assert error(ctx.decrypt(run(ctx.server(), x, y)), expected(a, b)) < BAR
    assert run.cache_info().misses == 1
    with pytest.raises(ckks.ContextError, match=r"ctx\.server\(\)"):
        run(ctx, x, y)


def test_jax_jit_with_the_keys_as_constants(data):
    a, b, x, y = data
    assert error(jax.jit(step)(x, y).decrypt(), expected(a, b)) < BAR


def test_vmap_over_requests(ctx, data, x64):
    a, b, _, y = data
    rows = np.stack([a, b, a + b]), np.stack([b, b, a])
    xs, ys = (ctx.encrypt(r, pack="rows") for r in rows)
    assert error(xs.decrypt(), np.stack([a, b, a + b])) < BAR
    want = np.stack([expected(a, b), expected(b, b), expected(a + b, a)])
    assert error(jax.vmap(step)(xs, ys).decrypt(), want) < BAR
    want = np.stack([expected(a, b), expected(b, b), expected(a + b, b)])
    assert error(jax.vmap(step, in_axes=(0, None))(xs, y).decrypt(), want) < BAR
    assert error(step(xs, ys).decrypt()[0], expected(a, b)) < BAR


def test_scan_at_a_fixed_level(ctx, data, x64):
    a, b, x, _ = data

    def body(carry, other):
        carry = carry.rotate(1) + other
        return carry, carry - 1

    others = ctx.encrypt(np.stack([b, 2 * b]), pack="rows")
    final, trail = jax.lax.scan(body, x, others)
    once = np.roll(a, -1) + b
    twice = np.roll(once, -1) + 2 * b
    assert error(final.decrypt(), twice) < BAR
    assert error(trail.decrypt(), np.stack([once, twice]) - 1) < BAR


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_numbers_added_in_a_scan_keep_the_type_of_its_carry(ctx, shape):
    x = ctx.encrypt([1.0, 2.0, 3.0]).reshape(*shape)
    last, _ = jax.lax.scan(lambda c, _: (1 + (c - 0.5), None), x, None, length=3)
    assert last.layout == x.layout
    assert error(last.decrypt(), np.array([2.5, 3.5, 4.5]).reshape(shape)) < BAR


def test_cond_and_fori_loop(data):
    a, _, x, _ = data
    chosen = jax.jit(lambda p, x: jax.lax.cond(p, lambda x: x + x, lambda x: x * 3, x))
    assert error(chosen(True, x).decrypt(), 2 * a) < BAR
    assert error(chosen(False, x).decrypt(), 3 * a) < BAR
    looped = jax.lax.fori_loop(0, 3, lambda i, x: x + x, x)
    assert error(looped.decrypt(), 8 * a) < BAR


def test_plaintexts_pass_through_jit(ctx, data):
    a, b, x, _ = data
    p = ctx.encode(b)
    assert error(jax.jit(lambda x, p: x * p + p)(x, p).decrypt(), a * b + b) < BAR
    assert error(ren.jit(lambda x, p: x * p + p)(x, p).decrypt(), a * b + b) < BAR


def test_values_are_refused_where_there_are_none(ctx, data):
    *_, x, _ = data
    with pytest.raises(TracedValueError, match="decrypt"):
        jax.jit(lambda x: x + x.decrypt()[0])(x)
    with pytest.raises(TracedValueError, match="decrypt"):
        ren.jit(lambda x: x + x.decrypt()[0])(x)
    with pytest.raises(TracedValueError, match="Pass the array as a constant"):
        jax.jit(lambda x, v: v @ x)(x, np.ones((3, 3), np.float32))


def test_shape_and_dtype_that_went_in(ctx):
    for values in (
        [1, 2, 3],
        np.array([True, False]),
        np.float32([[0.5, 1.5]]),
        1j * np.ones((2, 1, 3)),
        0.5,
        np.arange(4).reshape(2, 2),
    ):
        got = ctx.encrypt(values).decrypt()
        want = np.asarray(values)
        assert got.shape == want.shape
        assert got.dtype == (want.dtype if isinstance(values, np.ndarray) else np.float64)
        got = got.astype(complex)
        assert error(got, want) < BAR


def test_repr(ctx, ctx13):
    x = ctx.encrypt([1.0], level=2)
    text = f"Ciphertext(level 2 of 3, scale 2^{np.log2(float(x.scale)):.2f}, 512 slots, "
    assert repr(x).startswith(text) and "MiB" in repr(x) and repr(x).endswith("INSECURE)")
    assert x.nbytes == sum(p.limbs.nbytes for p in x.polys)
    assert "INSECURE" not in repr(ctx13.encrypt([1.0]))
    assert x.n == ctx.params.n and x.slots == 512
    assert "Plaintext level 2" in repr(ctx.encode([1.0], level=2))


def test_arrays_on_the_left_do_not_take_ciphertexts_apart(data):
    _, b, x, _ = data
    for left in (b, jax.numpy.asarray(b), list(b), np.float64(2), 2, 2.0, 1j):
        for z in (left + x, left - x, left * x):
            assert isinstance(z, ckks.Ciphertext)


def test_a_ciphertext_of_the_python_device_decrypts(ctx, data):
    """The reference computes the same bits, and the owner's context takes them as they are."""
    a, _, x, y = data
    made, want = ren.jit(device="python")(step)(x, y), ren.jit(step)(x, y)
    assert made.polys[0].device == "python"
    assert all(map(ren.equal, made.polys, want.polys))
    assert np.array_equal(made.decrypt(), want.decrypt())
    assert error(jax.device_get(x).decrypt(), a) < BAR


def test_operations_ask_for_no_attribute_that_is_missing(ctx, monkeypatch):
    """An error that names the nearest attributes takes longer than the operation."""
    x, missed = ctx.encrypt([1.0, 2.0, 3.0]), []

    def missing(self, name):
        if not name.startswith("_"):
            missed.append(name)
        raise AttributeError(name)

    monkeypatch.setattr(ckks.Ciphertext, "__getattr__", missing)
    y = (x * x + x.rotate(1) - 0.5) * np.ones(3)
    (np.ones((3, 3)) @ y + x.sum()).realize()
    ren.jit(step)(x, x)
    assert not missed


def test_a_reshape_takes_the_order_of_numpy(ctx):
    a = np.arange(6.0)
    x = ctx.encrypt(a)
    for order in ("C", "A"):
        assert error(x.reshape(2, 3, order=order).decrypt(), a.reshape(2, 3, order=order)) < BAR
    y = x.reshape((2, 3), order="C")
    with pytest.raises(OperandError, match="order='F'") as caught:
        y.reshape(-1, order="F")
    assert "np.eye(k)[np.arange(k).reshape(ct.shape).T.ravel()] @ ct.reshape(-1)" in str(
        caught.value
    )
    turned = np.eye(6)[np.arange(6).reshape(y.shape).T.ravel()] @ y.reshape(-1)
    assert error(turned.decrypt(), a.reshape(2, 3).ravel(order="F")) < BAR
