"""p(X^k) in a ring of k times the degree, against Python ints: both domains, every way to run."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ren
from ren import Domain, Poly, RingSpec
from ren.core import Node, make, toposort
from ren.core import op as ops
from ren.lowering.backends.native import library
from ren.lowering.inspect.explain import explain
from ren.lowering.passes.pipeline import run_algebra, run_kernel_passes
from ren.poly.batching import multiply_accumulate
from tests import oracle
from tests.lowering.plans import plan, poly
from tests.properties.cases import (
    Case,
    all_examples,
    assert_equals,
    assert_same_limbs,
    cases,
    large_examples,
)
from tests.rings import LARGE_SHAPES, SHAPES, primes

FACTORS = (1, 2, 4, 32)


def halves(case: Case, k: int) -> tuple[RingSpec, list[list[int]]]:
    """The ring of a k-th of the degree, at least 4, and the operands cut to it."""
    m = max(case.ring.n // k, 4)
    return RingSpec(m, case.ring.moduli), [a[:m] for a in case.operands]


def check_embedding(case: Case, k: int, *, in_ntt: bool) -> None:
    small, (a,) = halves(case, k)
    for device in (None, "python"):
        x = Poly(a, small, device=device)
        made = (x.ntt() if in_ntt else x).embed(case.ring)
        assert made.domain is (Domain.NTT if in_ntt else Domain.COEFF)
        assert_equals(made, case.ring, oracle.embed(oracle.reduce(a, case.q), case.ring.n))


@all_examples
@given(case=cases(SHAPES, 1), k=st.sampled_from(FACTORS), in_ntt=st.booleans())
def test_embed_is_substitution(case: Case, k: int, in_ntt: bool) -> None:
    check_embedding(case, k, in_ntt=in_ntt)


@large_examples
@given(case=cases(LARGE_SHAPES, 1), k=st.sampled_from(FACTORS), in_ntt=st.booleans())
def test_embed_is_substitution_large(case: Case, k: int, in_ntt: bool) -> None:
    check_embedding(case, k, in_ntt=in_ntt)


@pytest.mark.long
@large_examples
@given(case=cases(SHAPES, 3), k=st.sampled_from(FACTORS), domains=st.tuples(*[st.booleans()] * 3))
def test_products_of_embedded_polynomials(case: Case, k: int, domains: tuple[bool, ...]) -> None:
    small, operands = halves(case, k)
    q, n = case.q, case.ring.n
    a, b, c = ([x % q for x in v] for v in (*operands[:2], case.operands[2]))

    def program(device: str | None) -> Poly:
        rings = (small, small, case.ring)
        given = [Poly(v, ring, device=device) for v, ring in zip((a, b, c), rings, strict=True)]
        x, y, z = (p.ntt() if d else p for p, d in zip(given, domains, strict=True))
        return (x.embed(case.ring) * y.embed(case.ring) - z) * (x * y).embed(case.ring) + 3

    squared = oracle.embed(oracle.mul(a, b, q), n)
    want = oracle.mul(oracle.sub(squared, c, q), squared, q)
    result = program(None).realize()
    assert_equals(result, case.ring, oracle.add(want, oracle.constant(3, n, q), q))
    assert_same_limbs(result, program("python").realize())


# ------------------------------------------------------------------- ways to run

N = 4096
BIG = RingSpec(N, primes(N)[-2:])
CASES = [
    (1, (), Domain.NTT),
    (2, (2,), Domain.COEFF),
    (4, (2, 1, 2), Domain.NTT),
    (16, (), Domain.COEFF),
]


def f(x: Poly, y: Poly) -> tuple[Poly, Poly]:
    """Embedded before and after products, with transforms in both rings."""
    z = (x * x).embed(y.ring)
    return z * y - x.embed(y.ring), z.intt() + y.intt()


def expected(x: Poly, y: Poly) -> list[list]:
    q, n = y.ring.q, y.ring.n
    results: list[list] = [[], []]
    a, b = (np.asarray(p.coefficients()).reshape(-1, p.ring.n).tolist() for p in (x, y))
    for p, r in zip(a, b, strict=True):
        z = oracle.embed(oracle.mul(p, p, q), n)
        results[0].append(oracle.sub(oracle.mul(z, r, q), oracle.embed(p, n), q))
        results[1].append(oracle.add(z, r, q))
    return results


def assert_equal(found: tuple[Poly, Poly], expected: list[list]) -> None:
    for p, want in zip(found, expected, strict=True):
        assert np.asarray(p.coefficients()).reshape(-1, p.ring.n).tolist() == want


def operands(k: int, batch: tuple[int, ...], domain: Domain) -> tuple[Poly, Poly]:
    small = RingSpec(N // k, BIG.moduli)
    return poly(1, small, domain, batch), poly(2, BIG, Domain.NTT, batch)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(("k", "batch", "domain"), CASES)
def test_every_way_to_run_embeddings(k, batch, domain, native):
    x, y = operands(k, batch, domain)
    want = expected(x, y)
    with ren.config.update(native=native):
        for run in (f, *(ren.jit(tier=tier)(f) for tier in ("units", "graph", "auto")), jax.jit(f)):
            assert_equal(run(x, y), want)
        if batch:
            assert_equal(jax.vmap(f)(x, y), want)


def needs_native() -> None:
    if library.outcome().reason or not ren.config.native:
        pytest.skip(library.outcome().reason or "native code is off")


def test_a_plan_that_embeds_coefficients_says_why_it_is_not_native():
    needs_native()
    x, y = operands(4, (), Domain.COEFF)
    assert "it embeds coefficients" in explain(plan(x.embed(y.ring).ntt().intt() + y.intt()))


@pytest.mark.parametrize("n", [256, 1 << 12, 1 << 16])
def test_native_embeddings_into_each_degree(n):
    """Those whose values repeat in blocks, and those whose values do not."""
    needs_native()
    ring = RingSpec(n, tuple(primes(n))[:2])
    y = poly(0, ring, Domain.NTT)
    b = np.asarray(y.coefficients(), dtype=object)
    for m in (1 << i for i in range(2, n.bit_length())):
        x = poly(m, RingSpec(m, ring.moduli), Domain.NTT)
        jitted = ren.jit(lambda x, y: (x.embed(y.ring) + y).intt())
        made = np.asarray(jitted(x, y).coefficients(), dtype=object)
        assert "one native call" in jitted.plans[0].explain()
        want = b.copy()
        want[:: n // m] += np.asarray(x.coefficients(), dtype=object)
        assert ((made - want) % ring.q == 0).all()


@pytest.mark.parametrize("k", [2, 64, 1024])
def test_sums_of_products_with_embedded_factors_are_one_native_call(k):
    needs_native()
    w, _ = operands(k, (3,), Domain.NTT)
    terms = [poly(i, BIG, Domain.NTT) for i in range(3)]

    def total(w: Poly, *terms: Poly) -> Poly:
        return multiply_accumulate(w.embed(BIG), terms, (2, 0, 1)).intt()

    jitted = ren.jit(total)
    made = jitted(w, *terms)
    assert "one native call" in jitted.plans[0].explain()
    factors = np.asarray(w.coefficients()).tolist()
    want = oracle.constant(0, N, BIG.q)
    for term, i in zip(terms, (2, 0, 1), strict=True):
        product = oracle.mul(
            oracle.embed(factors[i], N), np.asarray(term.coefficients()).tolist(), BIG.q
        )
        want = oracle.add(want, product, BIG.q)
    assert np.asarray(made.coefficients()).tolist() == want


# ------------------------------------------------------------------- programs that run

RINGS = [RingSpec(n, (193, 449)) for n in (8, 16, 32)]


def bodies(p: Poly) -> list[Node]:
    """The bodies of the kernels that compute a polynomial."""
    graph = run_kernel_passes(run_algebra(make(ops.SINK, [p.node])))
    return [node.arg.body for node in toposort(graph) if node.op is ops.KERNEL]


def transforms(p: Poly) -> list[int]:
    """The degree of each transform that computes a polynomial."""
    done = [node for body in bodies(p) for node in toposort(body)]
    return [node.spec.ring.n for node in done if node.op in (ops.NTT, ops.INTT)]


def test_transforms_run_in_the_smaller_ring():
    small, _, big = RINGS
    x = Poly(range(8), small)
    assert transforms(x.embed(big).ntt()) == [8]
    assert transforms(x.ntt().embed(big).intt()) == []
    y = poly(0, small, Domain.NTT)
    assert transforms((y * y).embed(big).intt()) == [8]


def test_an_embedding_of_an_embedding_is_one():
    x = Poly(range(8), RINGS[0])
    twice = x.embed(RINGS[1]).embed(RINGS[2])
    assert len(bodies(twice)) == 1
    assert ren.equal(twice, x.embed(RINGS[2]))
    assert not bodies(poly(0, RINGS[0]).embed(RINGS[0]))


def test_an_embedded_constant_is_that_constant():
    c = Poly.const(-7, RINGS[0]).embed(RINGS[2])
    assert c.tolist(centered=True) == [-7] + [0] * 31
    x = Poly(range(32), RINGS[2])
    assert ren.equal(c * x, -7 * x)
