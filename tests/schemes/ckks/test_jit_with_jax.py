"""Encrypted functions under ren.jit and JAX's transformations: one set of keys for all."""

from __future__ import annotations

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.flatten_util import ravel_pytree

import ren
from ren.core.errors import OperandError
from ren.schemes import ckks

COUNT = 3


def score(x: ckks.Ciphertext, y: ckks.Ciphertext) -> ckks.Ciphertext:
    """A product, a rotation and a constant: keys of two kinds."""
    return x * y + x.rotate(1) - 0.5


def expected(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u * v + np.roll(u, -1) - 0.5


def encrypted(ctx: ckks.Context):
    """Messages and ciphertexts, `COUNT` pairs; the keys of `score` exist."""
    draw = np.random.default_rng(0)
    messages = draw.uniform(-1, 1, (COUNT, 2, ctx.params.slots))
    pairs = [tuple(map(ctx.encrypt, pair)) for pair in messages]
    score(*pairs[0]).realize()
    return messages, pairs


@pytest.fixture(scope="module")
def requests():
    """At n = 2^6, insecure: what is tested does not depend on the degree."""
    context = ckks.context(params=ckks.Parameters.for_depth(1, n=1 << 6, security=None))
    yield encrypted(context)
    assert context.key_id  # it holds the keys, and lives as long as the tests


def stacked(ciphertexts: list[ckks.Ciphertext]) -> ckks.Ciphertext:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *ciphertexts)


def element(ct: ckks.Ciphertext, i: int) -> ckks.Ciphertext:
    return jax.tree.map(lambda leaf: leaf[i], ct)


def same(a, b) -> bool:
    """Equal structure, limbs equal bit for bit, estimates of noise but for rounding."""
    a, b = jax.tree.flatten(a), jax.tree.flatten(b)
    return a[1] == b[1] and all(map(same_leaf, a[0], b[0]))


def same_leaf(a, b) -> bool:
    return np.array_equal(a, b) if a.dtype == np.uint32 else np.allclose(a, b, rtol=1e-5, atol=0)


@pytest.mark.long
def test_one_plan_serves_every_request(requests):
    messages, pairs = requests
    f = ren.jit(score)
    for (u, v), (x, y) in zip(messages, pairs, strict=True):
        made = f(x, y)
        assert same(made, score(x, y))
        assert np.abs(made.decrypt() - expected(u, v)).max() < 1e-6
    assert f.cache_info()[:3] == (COUNT - 1, 1, 1)


@pytest.mark.slow
def test_a_batch_of_requests_shares_the_keys(requests):
    check_batch(*requests)


@pytest.mark.slow
def test_a_batch_of_requests_at_a_secure_degree(ctx13):
    check_batch(*encrypted(ctx13))


def check_batch(messages, pairs) -> None:
    xs, ys = (stacked([pair[i] for pair in pairs]) for i in range(2))
    f = ren.jit(score)
    mapped = jax.vmap(f)(xs, ys)
    assert f.cache_info().misses == 0
    batch = f(xs, ys)  # the batch axis of the limbs alone
    assert same(batch, mapped)
    assert f.cache_info().misses == 1
    for i, (x, y) in enumerate(pairs):
        assert same(element(mapped, i), score(x, y))
    u, v = messages[1]
    assert np.abs(element(mapped, 1).decrypt() - expected(u, v)).max() < 1e-6


@pytest.mark.long
def test_one_of_two_ciphertexts_is_shared(requests):
    _, pairs = requests
    xs, y = stacked([x for x, _ in pairs]), pairs[0][1]
    mapped = jax.vmap(ren.jit(lambda x, y: x * y), in_axes=(0, None))(xs, y)
    assert same(element(mapped, 2), pairs[2][0] * y)


def test_scan_over_requests(requests):
    _, pairs = requests
    f = ren.jit(lambda total, x: total + x.rotate(1))
    xs = stacked([x for x, _ in pairs])
    total, _ = lax.scan(lambda carry, x: (f(carry, x), None), pairs[0][1], xs)
    want = pairs[0][1]
    for x, _ in pairs:
        want = (want + x.rotate(1)).realize()
    assert same(total, want)
    assert f.cache_info().misses == 0


def test_cond_and_shapes(requests):
    (_, (x, y), _) = requests[1]
    product, total = ren.jit(lambda x, y: x * y), ren.jit(lambda x, y: (x + y) * 1.0)
    shape = jax.eval_shape(product, x, y)
    assert (shape.level, shape.key_id) == ((x * y).level, x.key_id)
    assert [leaf.shape for leaf in jax.tree.leaves(shape)] == [
        leaf.shape for leaf in jax.tree.leaves(x * y)
    ]
    assert (shape.shape, shape.nbytes) == ((x * y).shape, (x * y).nbytes)
    assert repr(shape).startswith("Ciphertext(level 0 of 1, ") and shape._repr_html_()
    for flag, want in ((True, x * y), (False, (x + y) * 1.0)):
        assert same(lax.cond(flag, product, total, x, y), want)


COUNT_OF_MAPS, SIZE = 2, 6


@pytest.fixture(scope="module")
def weights():
    """A context, a vector and maps, plaintexts and stacks of both, in the clear and encoded."""
    ctx = ckks.context(depth=2, n=1 << 6, security=None)
    draw = np.random.default_rng(1)
    v = draw.uniform(-1, 1, SIZE)
    matrices = draw.uniform(-1, 1, (COUNT_OF_MAPS, SIZE, SIZE))
    rows = draw.uniform(-1, 1, (COUNT_OF_MAPS, SIZE))
    maps = [ckks.linear(m, ctx) for m in matrices]
    ctx.rotation_keys(maps[0].rotations)
    clear = {"m": matrices[0], "p": rows[0], "ms": matrices, "ps": rows}
    encoded = {
        "m": maps[0],
        "p": ctx.encode(rows[0]),
        "ms": stacked(maps),
        "ps": ctx.encode(rows, pack="rows"),
    }
    return v, ctx.encrypt(v), clear, encoded


# Functions of weights w and a vector x, and the same in the clear.
NESTED = {
    "jit": (lambda w, x: jax.jit(lambda m, x: m @ x)(w["m"], x), lambda w, v: w["m"] @ v),
    "checkpoint": (
        lambda w, x: jax.checkpoint(lambda p, x: p * x)(w["p"], x),
        lambda w, v: w["p"] * v,
    ),
    "cond on a map": (
        lambda w, x: lax.cond(True, lambda m: m @ x, lambda m: m @ x * 1, w["m"]),
        lambda w, v: w["m"] @ v,
    ),
    "cond on a plaintext": (
        lambda w, x: lax.cond(False, lambda p: p - x, lambda p: p + x, w["p"]),
        lambda w, v: w["p"] + v,
    ),
    "scan over maps": (
        lambda w, x: lax.scan(lambda c, m: (c, m @ x), 0, w["ms"])[1],
        lambda w, v: w["ms"] @ v,
    ),
    "scan over plaintexts": (
        lambda w, x: lax.scan(lambda c, p: (c + p, c * p), x, w["ps"])[1],
        lambda w, v: np.stack([v * w["ps"][0], (v + w["ps"][0]) * w["ps"][1]]),
    ),
    "a map as carry": (
        lambda w, x: lax.scan(lambda m, y: (m, m @ y), w["m"], ckks.stack([x, x + x]))[1],
        lambda w, v: np.stack([w["m"] @ v, w["m"] @ (2 * v)]),
    ),
    "vmap of maps": (lambda w, x: jax.vmap(lambda m: m @ x)(w["ms"]), lambda w, v: w["ms"] @ v),
    "vmap of plaintexts": (
        lambda w, x: jax.vmap(lambda p: p * x)(w["ps"]),
        lambda w, v: w["ps"] * v,
    ),
    "tree.map": (
        lambda w, x: jax.tree.map(lambda leaf: leaf[1], w["ms"]) @ x,
        lambda w, v: w["ms"][1] @ v,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", NESTED)
def test_maps_and_plaintexts_go_through_transformations_of_jax(weights, name) -> None:
    v, x, clear, encoded = weights
    function, in_the_clear = NESTED[name]
    want, jitted = in_the_clear(clear, v), ren.jit(function)
    whole = (jax.jit(function),) if name == "scan over maps" else ()
    for call in (function, *whole, jitted, jitted):
        np.testing.assert_allclose(call(encoded, x).decrypt(), want, atol=1e-5)
    assert len(jitted.plans) == 1


def test_a_stack_of_maps_is_taken_apart_first(weights) -> None:
    _, x, _, encoded = weights
    for use in (lambda ms: ms @ x, lambda ms: ms.to_bytes()):
        with pytest.raises(OperandError, match=r"in a stack of shape \(2,\)"):
            use(encoded["ms"])


# ------------------------------------------------------------------- what JAX would do to residues


@pytest.fixture(scope="module")
def small() -> ckks.Context:
    return ckks.context(depth=1, n=512, security=None)


ROWS = np.arange(12.0).reshape(4, 3) / 12


@pytest.mark.parametrize("name", ["psum", "pmax", "pmin", "pmean", "psum_scatter"])
def test_collectives_that_reduce_residues_raise(small, name):
    x = small.encrypt(ROWS, pack="rows")
    p = ren.Poly(np.arange(32).reshape(4, 8), ren.RingSpec(n=8, moduli=(17, 97)))
    for given in (x, p):
        with pytest.raises(
            ckks.ParameterError, match=rf"calls jax\.lax\.{name} on .*\n.*\n.*gather"
        ):
            jax.vmap(lambda row: getattr(lax, name)(row, "i"), axis_name="i")(given)
    gathered = jax.vmap(
        lambda row: lax.all_gather(row, "i").sum(axis=0), axis_name="i", out_axes=None
    )(x)
    assert np.abs(small.decrypt(gathered) - ROWS.sum(0)).max() <= gathered.estimate.error_bound


LONG = np.linspace(-1, 1, 600)  # in three blocks
OF_ONE = {
    "vmap": lambda x: jax.vmap(lambda row: row + 0.5)(x),
    "vmap of a sum": lambda x: jax.vmap(lambda row: row.sum())(x),
    "map": lambda x: lax.map(lambda row: row + 0.5, x),
    "scan": lambda x: lax.scan(lambda c, row: (c, row), 0.0, x),
    "a leaf's block": lambda x: jax.tree.map(lambda leaf: leaf[0], x),
}


@pytest.mark.parametrize("use", OF_ONE)
def test_blocks_of_one_vector_are_no_batch(small, use):
    with pytest.raises(ckks.ParameterError, match=r"ckks\.stack\(\[x, y\]\)"):
        OF_ONE[use](small.encrypt(LONG))


@pytest.mark.parametrize("use", ["vmap", "map", "a leaf's block"])
def test_blocks_of_one_plaintext_are_no_batch(small, use):
    x, p = small.encrypt(LONG), small.encode(LONG)
    added = {
        "vmap": lambda: jax.vmap(lambda p: x + p)(p),
        "map": lambda: lax.map(lambda p: x + p, p),
        "a leaf's block": lambda: jax.tree.map(lambda leaf: leaf[0], p),
    }
    with pytest.raises(ckks.ParameterError, match="a batch"):
        added[use]()


def test_columns_of_a_plaintext_are_mapped_to_a_batch(small):
    table = np.arange(12.0).reshape(4, 3) / 12
    x, p = small.encrypt(np.ones(4)), small.encode(table, pack="columns")
    for f, clear in ((lambda p: x + p, 1 + table.T), (lambda p: (x + p)[:2], 1 + table.T[:, :2])):
        made = jax.vmap(f)(p)
        assert np.abs(small.decrypt(made) - clear).max() <= made.estimate.error_bound


def test_a_batch_of_vectors_in_blocks_is_mapped(small):
    x = small.encrypt(LONG)
    made = jax.vmap(lambda row: row + 0.5)(ckks.stack([x, x]))
    assert np.abs(small.decrypt(made) - (LONG + 0.5)).max() <= made.estimate.error_bound
    kept = jax.vmap(lambda k, row: row * k, in_axes=(0, None))(np.arange(1, 3), x)
    assert np.abs(small.decrypt(kept)[1] - 2 * LONG).max() <= kept.estimate.error_bound


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_the_smallest_integer_of_a_type_counts_as_large_as_it_is(small, dtype):
    a, k = np.array([1.0, 2.0, 3.0]), dtype(np.iinfo(dtype).min)
    made = jax.jit(lambda x, k: x * k)(small.encrypt(a), k)
    assert np.abs(small.decrypt(made) - a * float(k)).max() <= made.estimate.error_bound
    assert made.estimate.message_bound >= -float(k)


ON_LEAVES = {
    "difference": lambda x: jax.tree.map(lambda a, b: a - b, x[0], x[1]),
    "multiple": lambda x: jax.tree.map(lambda a: a * 3, x),
    "sum": lambda x: jax.tree.map(lambda a: a.sum(0), x),
}


@pytest.mark.parametrize("use", ON_LEAVES)
def test_arithmetic_on_residues_is_found_at_decryption(small, use):
    x = small.encrypt(ROWS, pack="rows")
    with pytest.raises(ren.errors.DomainError, match="not below their moduli"):
        small.decrypt(ON_LEAVES[use](x))
    assert np.abs(small.decrypt(jax.tree.map(jnp.copy, x)) - ROWS).max() < 1e-6


def test_ciphertexts_are_not_raveled(ctx):
    """Their estimates are floats, and residues would be rounded beside them."""
    x = ctx.encrypt([1.0, 2.0])
    for tree in (x, {"x": x}, ctx.encode([1.0, 2.0]), ckks.linear(np.eye(2), ctx)):
        with pytest.raises(ckks.ParameterError, match="ravel polynomials alone"):
            ravel_pytree(tree)
    flat, unravel = ravel_pytree(x.polys)
    assert all(map(ren.equal, unravel(flat), x.polys))


def test_lengths_that_push_one_another_out_are_told_once(ctx):
    total = ren.jit(max_plans=3)(lambda x: x.sum())
    for k in range(2, 5):
        total(ctx.encrypt(np.ones(k)))
    with pytest.warns(
        ren.errors.RecaptureWarning, match=r"(?s)captured 4 times.*one length"
    ) as told:
        total(ctx.encrypt(np.ones(5)))
    assert told[0].filename == __file__
    total(ctx.encrypt(np.ones(6)))
    mean = ren.jit(max_plans=3)(lambda x, count: x.sum() / count)
    for k in range(2, 9):
        values = np.r_[np.arange(k) + 1.0, np.zeros(9 - k)]
        assert abs(mean(ctx.encrypt(values), k).decrypt() - (k + 1) / 2) < 1e-6
    assert mean.cache_info()[:3] == (6, 1, 1)


def in_finally(u):
    made = u * 7
    try:
        made = u.sum()
    finally:
        return made  # noqa: B012


def in_suppress(u):
    made = u * 7
    with contextlib.suppress(BaseException):
        made = np.ones((2, 4)) @ u
    return made


def in_except(u):
    try:
        return lax.fori_loop(0, 2, lambda i, c: c + u, u)
    except BaseException:
        raise ValueError("the function's own") from None


@pytest.mark.filterwarnings("ignore:'return' in a 'finally'")
@pytest.mark.parametrize("function", [in_finally, in_suppress, in_except])
def test_a_capture_starts_again_whatever_the_function_catches(ctx, function):
    x = ctx.encrypt([1.0, 2.0, 3.0, 4.0])
    want, jitted = function(x).decrypt(), ren.jit(function)
    for _ in range(2):
        np.testing.assert_allclose(jitted(x).decrypt(), want, atol=1e-5)
    named = ren.jit(lambda u: u * numbers(u))

    def numbers(u):
        try:
            return {x.key_id: 3.0}[u.key_id]
        except BaseException:
            return 1.0

    np.testing.assert_allclose(named(x).decrypt(), [3, 6, 9, 12], atol=1e-5)
