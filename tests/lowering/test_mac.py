"""MAC: sums of products with factors that lie along a batch axis."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import ren
from ren import Domain, Poly, RingSpec
from ren.core import make
from ren.core import op as ops
from ren.core.errors import DomainError
from ren.lowering.backends.native import library
from ren.lowering.plan.cost import cost_of
from ren.lowering.runtime.native_calls import NativeCalls, native_calls
from ren.lowering.runtime.planning import plan_of
from ren.poly.batching import item, multiply_accumulate
from ren.poly.poly import bounded
from tests.rings import primes

N = 16
POOL = primes(N)
RING = RingSpec(N, (POOL[0], POOL[1], POOL[-2], POOL[-1]))


def drawn(batch: tuple[int, ...], seed: int, ring: RingSpec = RING, is_largest: bool = False):
    rng = np.random.default_rng(seed)
    q = np.array(ring.moduli)[:, None]
    limbs = rng.integers(0, q, (*batch, ring.limbs, ring.n))
    limbs = np.broadcast_to(q - 1, limbs.shape) if is_largest else limbs
    return Poly.from_limbs(limbs.astype(np.uint32), ring, Domain.NTT).to("cpu").realize()


def of_products(w: Poly, terms: list[Poly], indices: list[int]) -> Poly:
    return sum(item(w, i, 0) * x for i, x in zip(indices, terms, strict=True))


@pytest.mark.parametrize("is_largest", [False, True])
@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 40])
def test_mac_equals_the_sum_of_products(count, is_largest):
    w = drawn((5,), 1, is_largest=is_largest)
    terms = [drawn((), 2 + i, is_largest=is_largest) for i in range(count)]
    indices = [i * 3 % 5 for i in range(count)]
    expected = np.asarray(of_products(w, terms, indices).limbs)
    assert np.array_equal(multiply_accumulate(w, terms, indices).limbs, expected)
    on_host = multiply_accumulate(w.to("python"), [x.to("python") for x in terms], indices)
    assert np.array_equal(on_host.limbs, expected)


@pytest.mark.parametrize("shapes", [((), (3,)), ((2, 3), (3,)), ((2, 1), (3,)), ((3,), ())])
def test_mac_broadcasts_batch_axes(shapes):
    own, batch = shapes
    w, x = drawn((4, *own), 1), drawn(batch, 2)
    made = multiply_accumulate(w, [x, x], [3, 1])
    expected = of_products(w, [x, x], [3, 1])
    assert made.shape == expected.shape and np.array_equal(made.limbs, expected.limbs)


@pytest.mark.parametrize("shapes", [((), ()), ((), (3,)), ((2, 3), (3,)), ((2, 1), (3,))])
def test_native_calls_equal_kernels(shapes):
    if library.outcome().reason or not ren.config.native:
        pytest.skip(library.outcome().reason or "native code is off")
    own, batch = shapes
    ring = RingSpec(4096, primes(4096)[-3:])
    part = ring.with_moduli(ring.moduli[1:])
    w = drawn((5, *own), 1, ring)
    terms = [drawn(batch, 2 + i, part) for i in range(20)]

    def f(w: Poly, *terms: Poly) -> Poly:
        factors = w.to_ring(part)
        return multiply_accumulate(factors, terms, [i % 5 for i in range(20)]).intt()

    expected = of_products(w.to_ring(part), terms, [i % 5 for i in range(20)]).intt()
    run = ren.jit(f)
    made = run(w, *terms)
    source = run.plans[0].plan.source
    assert isinstance(native_calls(source), NativeCalls)
    with ren.config.update(native=False):
        assert np.array_equal(ren.jit(f)(w, *terms).limbs, made.limbs)
        assert np.array_equal(expected.limbs, made.limbs)


def test_mac_under_vmap_of_terms_and_of_factors():
    w, x = drawn((4, 3), 1), drawn((4,), 2)

    def f(w: Poly, x: Poly) -> Poly:
        return multiply_accumulate(w, [x, x], [0, 2])

    made = jax.vmap(f)(w, x)
    assert np.array_equal(
        made.limbs, jax.vmap(lambda w, x: of_products(w, [x, x], [0, 2]))(w, x).limbs
    )
    assert np.array_equal(
        jax.vmap(f, (None, 0))(drawn((3,), 5), x).limbs, f(drawn((3,), 5), x).limbs
    )


def test_one_mod_down_for_a_sum_of_them():
    """As for a sum of products: one division by P, where each term is read once."""
    special = POOL[2]
    wide = RING.with_moduli((*RING.moduli, special))
    w, terms = drawn((3,), 1, wide), [drawn((), 2 + i, wide) for i in range(3)]
    factors = bounded(w, 8).to_ring(RING)
    rest = drawn((), 9)
    reduced = [x.mod_down(RING) for x in terms]
    made = multiply_accumulate(factors, [*reduced, rest], [0, 1, 2, 1])
    parts = [bounded(item(w, i, 0), 8).to_ring(RING) for i in (0, 1, 2, 1)]
    expected = sum(p * x for p, x in zip(parts, [*reduced, rest], strict=True))
    counts = [
        sum("CONVERT" in unit.name for unit in plan_of(make(ops.SINK, (p.node,))).units)
        for p in (made, expected)
    ]
    assert counts == [1, 1]
    assert np.array_equal(made.limbs, expected.limbs)


def test_work_is_counted():
    plan = plan_of(
        make(ops.SINK, [multiply_accumulate(drawn((2,), 1), [drawn((), 2)] * 3, [0, 1, 0]).node])
    )
    assert cost_of(plan).multiply_adds == 3 * RING.limbs * N


def test_a_mac_with_zero_factors_is_zero():
    w, x = drawn((2,), 1), drawn((), 2)
    assert multiply_accumulate(w * 0, [x], [1]).node.is_zero
    assert multiply_accumulate(w, [x * 0, x * 0], [1, 0]).node.is_zero
    assert not multiply_accumulate(w, [x * 0, x], [1, 0]).node.is_zero


@pytest.mark.parametrize(
    ("batch", "indices", "text"),
    [((2,), (0, 2), "up to 2"), ((), (0, 0), "shape"), ((2,), (0,), "1 ind")],
)
def test_indices_beyond_the_factors_are_told(batch, indices, text):
    w, x = drawn(batch, 1), drawn((), 2)
    with pytest.raises(DomainError, match=text):
        multiply_accumulate(w, [x, x], indices)
