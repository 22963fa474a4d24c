"""A Poly is a pytree: JAX's transformations work on it and on whatever holds it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ren
from ren.core.errors import CoefficientTypeError, TracedValueError
from ren.poly import Poly
from ren.ring import Domain, RingSpec
from tests import oracle

A, B = [1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1]


@jax.tree_util.register_dataclass
@dataclass
class Pair:
    """A user's own container."""

    first: Poly
    second: dict[str, Poly]


@pytest.fixture(params=[False, True], ids=["x32", "x64"], autouse=True)
def leak_checked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everything here runs with 64-bit mode on and off, and no tracer may survive a trace."""
    with jax.enable_x64(request.param), jax.checking_leaks():
        yield


def product(q: int) -> list[int]:
    return oracle.mul(A, B, q)


def cube_plus_one(x: Poly, y: Poly) -> Poly:
    return (x * y * x + 1).intt()


def expected_cube(q: int) -> list[int]:
    return oracle.add(oracle.mul(product(q), A, q), oracle.constant(1, 8, q), q)


def test_flatten_and_unflatten_give_the_same_node(ring: RingSpec) -> None:
    p = Poly(A, ring) + 1
    leaves, tree = jax.tree.flatten(p)
    assert len(leaves) == 1
    back = jax.tree.unflatten(tree, leaves)
    assert back.node is p.node
    assert (back.ring, back.domain) == (p.ring, p.domain)
    again, same_tree = jax.tree.flatten(back)
    assert again[0] is leaves[0]
    assert same_tree == tree


def test_unflattening_accepts_what_jax_passes(ring: RingSpec) -> None:
    _, tree = jax.tree.flatten(Poly(A, ring))
    for leaf in (None, object(), jax.ShapeDtypeStruct((2, 8), np.uint32), 0):
        assert jax.tree.flatten(jax.tree.unflatten(tree, [leaf]))[0] in ([leaf], [])


def test_tree_map(ring: RingSpec) -> None:
    held = {"a": (Poly(A, ring), [Poly(B, ring) * 2])}
    same = jax.tree.map(lambda leaf: leaf, held)
    assert same["a"][0].tolist() == A
    assert same["a"][1][0].tolist() == [2 * x for x in B]
    doubled = jax.tree.map(lambda p: p * 2, held, is_leaf=lambda x: isinstance(x, Poly))
    assert doubled["a"][0].tolist() == [2 * x for x in A]


def test_jit(ring: RingSpec) -> None:
    step = jax.jit(cube_plus_one)
    for _ in range(2):
        assert step(Poly(A, ring), Poly(B, ring)).tolist() == expected_cube(ring.q)


def test_jit_of_containers(ring: RingSpec) -> None:
    @jax.jit
    def step(pair: Pair, others: tuple[dict[str, Poly], ...]) -> tuple[Pair, Poly]:
        p = pair.first * pair.second["y"]
        return Pair(p + others[0]["z"], {"y": -pair.first}), p.rotate(1)

    x, y = Poly(A, ring), Poly(B, ring)
    pair, rotated = step(Pair(x, {"y": y}), ({"z": x},))
    assert pair.first.tolist() == oracle.add(product(ring.q), A, ring.q)
    assert pair.second["y"].tolist() == oracle.neg(A, ring.q)
    assert rotated.tolist() == oracle.rotate(product(ring.q), 1, ring.q)


def test_vmap_over_the_leading_axis(ring: RingSpec) -> None:
    rows = [A, B, [0] * 8]
    batch = Poly(np.array(rows), ring)
    out = jax.vmap(cube_plus_one, in_axes=(0, None))(batch, Poly(B, ring))
    assert out.limbs.shape == (3, 2, 8)
    for got, row in zip(out.tolist(), rows, strict=True):
        cube = oracle.mul(oracle.mul(row, B, ring.q), row, ring.q)
        assert got == oracle.add(cube, oracle.constant(1, 8, ring.q), ring.q)


def test_vmap_of_basis_changes(ring: RingSpec) -> None:
    rows = [A, B]
    out = jax.vmap(lambda p: p.rescale((97,)))(Poly(np.array(rows), ring))
    assert out.tolist() == [oracle.rescale(row, (17, 97), (97,)) for row in rows]


def test_scan(ring: RingSpec) -> None:
    y = Poly(B, ring)

    def body(carry: Poly, step: jax.Array) -> tuple[Poly, Poly]:
        new = (carry * y).intt() + 1
        return new, new.rotate(1)

    last, seen = jax.lax.scan(body, Poly(A, ring), jnp.arange(3))
    expected, rotated = A, []
    for _ in range(3):
        expected = oracle.add(
            oracle.mul(expected, B, ring.q), oracle.constant(1, 8, ring.q), ring.q
        )
        rotated.append(oracle.rotate(expected, 1, ring.q))
    assert last.tolist() == expected
    assert seen.tolist() == rotated


def test_fori_loop_and_cond(ring: RingSpec) -> None:
    x, y = Poly(A, ring).ntt(), Poly(B, ring).ntt()
    looped = jax.lax.fori_loop(0, 4, lambda _, p: p * y + 1, x)
    expected = A
    for _ in range(4):
        expected = oracle.mul(expected, B, ring.q)
        expected = oracle.add(expected, oracle.constant(1, 8, ring.q), ring.q)
    assert looped.domain is Domain.NTT
    assert looped.tolist() == expected
    for flag, outcome in ((True, product(ring.q)), (False, oracle.add(A, B, ring.q))):
        got = jax.lax.cond(flag, lambda p, r: p * r, lambda p, r: p + r, x, y)
        assert got.tolist() == outcome


def test_device_put_and_block_until_ready(ring: RingSpec) -> None:
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    held = jax.device_put({"p": Poly(A, ring) * 2}, sharding)
    assert jax.block_until_ready(held)["p"].tolist() == [2 * x for x in A]


def test_a_lazy_poly_first_realized_inside_a_trace_is_usable_afterwards(ring: RingSpec) -> None:
    outside = Poly(A, ring) * Poly(B, ring)

    @jax.jit
    def inside(x: Poly) -> Poly:
        outside.realize()
        return x + outside

    assert inside(Poly(A, ring)).tolist() == oracle.add(A, product(ring.q), ring.q)
    assert outside.tolist() == product(ring.q)
    assert (outside * 2).tolist() == [2 * x % ring.q for x in product(ring.q)]


def test_a_lazy_poly_first_realized_inside_a_scan_is_usable_afterwards(ring: RingSpec) -> None:
    outside = Poly(A, ring) * Poly(B, ring)

    def body(carry: Poly, _: None) -> tuple[Poly, None]:
        return (carry + outside).intt(), None

    out, _ = jax.lax.scan(body, Poly(A, ring), None, length=2)
    twice = [2 * x for x in product(ring.q)]
    assert out.tolist() == oracle.add(A, twice, ring.q)
    assert outside.tolist() == product(ring.q)


def test_a_random_poly_cannot_be_fresh_inside_a_trace(ring: RingSpec) -> None:
    def noisy(x: Poly) -> Poly:
        return x + Poly.ternary(x.ring)

    for transform in (jax.vmap, jax.jit):
        with pytest.raises(ren.errors.RandomnessError, match="seed"):
            transform(noisy)(Poly(np.array([A, B]), ring))


def test_values_cannot_be_read_inside_a_trace(ring: RingSpec) -> None:
    for read in (Poly.tolist, Poly.tobytes, lambda p: np.asarray(p, np.int64), bool):
        with pytest.raises((ren.errors.TracedValueError, TypeError)):
            jax.jit(lambda p, read=read: (read(p), p)[1])(Poly(A, ring))


def test_nested_jit_and_ren_jit(ring: RingSpec) -> None:
    inner = ren.jit(cube_plus_one)
    outer = jax.jit(lambda x, y: jax.jit(inner)(x, y) + x)
    expected = oracle.add(expected_cube(ring.q), A, ring.q)
    assert outer(Poly(A, ring), Poly(B, ring)).tolist() == expected


_IMPORT = """
import jax, jax.numpy as jnp
before = dict(jax.config.values)
import ren
assert dict(jax.config.values) == before
assert jnp.ones(3).dtype == jnp.float32 and not jax.config.jax_enable_x64
p = ren.Poly([1, 2, 3, 4], ren.RingSpec(n=4, moduli=(17,)))
assert (p * p).tolist() == [10, 14, 11, 3], (p * p).tolist()
assert jnp.ones(3).dtype == jnp.float32 and not jax.config.jax_enable_x64
assert dict(jax.config.values) == before
"""


@pytest.mark.long
def test_importing_ren_changes_no_setting_of_jax() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", _IMPORT], check=True)


def test_settings_of_jax_that_forbid_broadcasting() -> None:
    """Kernels of their own shapes, so that they are traced and compiled under the setting."""
    degree32 = RingSpec(n=32, moduli=(193, 257, 449))
    low = RingSpec(n=32, moduli=(193,))
    x = Poly(np.arange(96).reshape(3, 32), degree32)

    def f(x: Poly) -> Poly:
        return (x * x + 3).rescale(low).rotate(1) * 5 + x.to_ring(low)

    want = f(x.to("python")).limbs
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        for made in (f(x).realize(), ren.jit(f)(x), jax.jit(f)(x), jax.vmap(f)(x)):
            assert np.array_equal(made.limbs, want)
        assert f(x).tolist() == f(x.to("python")).tolist()


@pytest.mark.parametrize("made", [lambda k: [k, 1], lambda k: (0, k)])
def test_a_list_of_traced_integers_makes_no_polynomial(made):
    ring = RingSpec(8, (17, 97))
    with pytest.raises(TracedValueError, match="traced integers inside a JAX transformation"):
        jax.jit(lambda p, k: p * Poly(made(k), ring))(Poly(A, ring), 3)


@pytest.mark.parametrize(
    ("factor", "named"), [(2.5, r"float\d+\[\]"), (np.arange(8), r"int\d+\[8\]")]
)
def test_the_error_of_a_traced_factor_names_its_type(factor, named):
    with pytest.raises(CoefficientTypeError, match=rf"poly \* a traced {named} was"):
        jax.jit(lambda p, k: p * k)(Poly(A, RingSpec(8, (17, 97))), factor)


@pytest.mark.parametrize("moduli", [(17, 97), (2**61 - 1,)], ids=["primes with roots", "general"])
def test_a_traced_integer_scales_coefficients_as_a_known_one_does(moduli):
    """Loops whose body scales their carry keep its domain."""
    p = Poly(A, RingSpec(8, moduli))
    q = p.ring.q

    def check(made: Poly, factor: int) -> None:
        assert made.domain is Domain.COEFF
        assert made.tolist() == [c * factor % q for c in A]

    for factor in (3, -5, 0, 2**31 - 1):
        check(jax.jit(lambda p, k: p * k)(p, factor), factor)
        check(jax.jit(lambda p, k: k * p)(p, factor), factor)

    def loop(p):
        return jax.lax.fori_loop(1, 6, lambda i, carry: carry * i, p)

    for run in (loop, jax.jit(loop)):  # tests/test_jit_loops.py has ren.jit
        check(run(p), 120)
    check(jax.lax.scan(lambda carry, k: (k * carry, None), p, np.array([2, -3]))[0], -6)
    made = jax.vmap(lambda k: p * k)(np.arange(4))
    assert made.domain is Domain.COEFF
    assert made.tolist() == [[c * k % q for c in A] for k in range(4)]
    values = p if p.ring.is_general else p.ntt()
    made = jax.jit(lambda p, k: p * k)(values, 3)
    assert made.domain is values.domain and made.tolist() == [c * 3 % q for c in A]


def test_raveled_trees_keep_residues_or_raise():
    p = Poly(range(8), RingSpec(8, (17, 1073741441))).realize()
    for tree in (p, [p, p * 3], {"p": p, "k": np.uint32(5)}):
        flat, unravel = ravel_pytree(tree)
        for made, given in zip(jax.tree.leaves(unravel(flat)), jax.tree.leaves(tree), strict=True):
            assert np.array_equal(made, given)
    for other in (1.0, np.ones(2), jnp.ones(2, jnp.float32), 1j):
        with pytest.raises(ren.errors.ParameterError, match="rounds the residues"):
            ravel_pytree({"p": p, "w": other})
