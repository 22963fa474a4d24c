"""General rings, of any odd moduli up to 2^61, equal big-integer arithmetic."""

from __future__ import annotations

import operator
import pickle
import random
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flint import fmpz, fmpz_mod_poly_ctx
from hypothesis import given, settings
from hypothesis import strategies as st

import ren
from ren import Domain, Poly, RingSpec
from ren.core.errors import (
    DomainError,
    RingError,
    RingMismatchError,
    SerializationError,
    TracedValueError,
)
from tests import oracle
from tests.properties.cases import EXAMPLES, Case, assert_equals, assert_same_limbs
from tests.properties.test_arithmetic import BINARY, check_binary, check_constants
from tests.rings import integers, operands

MERSENNE = 2**61 - 1  # prime
NAMED = {
    "kyber": RingSpec(256, 3329),
    "7681": RingSpec(256, 7681),
    "mersenne": RingSpec(1024, MERSENNE),
    "product": RingSpec(256, (3329, 7681, MERSENNE)),
}
SMALL = (
    RingSpec(2, (17, 3329)),
    RingSpec(8, (9, 25, MERSENNE)),
    RingSpec(16, 2**30 - 35),  # the largest prime of one limb
    RingSpec(16, 2**30 + 3),  # the least prime of two
)
RINGS = (*NAMED.values(), *SMALL)
SEVERAL = tuple(ring for ring in RINGS if len(ring.moduli) > 1)
named = pytest.mark.parametrize("name", NAMED)


@st.composite
def general(draw: st.DrawFn, count: int, rings: tuple[RingSpec, ...] = RINGS) -> Case:
    """A ring and `count` operands."""
    ring = draw(st.sampled_from(rings))
    drawn = tuple(draw(operands(ring.n, ring.q)) for _ in range(count))
    return Case(ring, drawn, draw(integers(ring.q)))


examples = settings(max_examples=EXAMPLES if EXAMPLES >= 500 else 40)


def over_rings(count: int, rings: tuple[RingSpec, ...] = RINGS) -> Callable:
    """Runs a test on 40 cases, or on 500 in `make slow`."""
    return lambda test: examples(given(case=general(count, rings))(test))


@pytest.mark.parametrize("operation", BINARY)
@over_rings(2)
def test_binary(operation: str, case: Case) -> None:
    check_binary(operation, case)


@pytest.mark.parametrize("operation", BINARY)
@pytest.mark.parametrize("value", [0.5, 1.0])
@named
def test_binary_at_the_bounds(name: str, value: float, operation: str) -> None:
    ring = NAMED[name]  # the centred lifts of all coefficients at once are q/2, -q/2 or -1
    largest = [int(value * (ring.q - 1))] * ring.n
    for other in (largest, [largest[0] + 1] * ring.n):
        check_binary(operation, Case(ring, (largest, other), 0))


@pytest.mark.long
@over_rings(1, (NAMED["kyber"], NAMED["mersenne"], SMALL[1]))
def test_constants_and_negation(case: Case) -> None:
    check_constants(case)


@over_rings(1, (NAMED["kyber"], NAMED["mersenne"], *SMALL))
def test_powers(case: Case) -> None:
    (p,), (a,) = case.polys(), case.reduced()
    assert_equals(p**3, case.ring, oracle.power(a, 3, case.q))
    assert_equals(
        p**0 + p, case.ring, oracle.add(a, oracle.constant(1, case.ring.n, case.q), case.q)
    )


@examples
@given(case=general(1), g=st.integers(-300, 300).map(lambda i: 2 * i + 1))
def test_automorphisms(case: Case, g: int) -> None:
    (p,), (a,) = case.polys(), case.reduced()
    result = p.automorphism(g).realize()
    assert_equals(result, case.ring, oracle.automorphism(a, g, case.q))
    assert_same_limbs(result, case.polys("python")[0].automorphism(g).realize())


@over_rings(2, (NAMED["kyber"], NAMED["mersenne"], *SMALL))
def test_sums_of_products(case: Case) -> None:
    (p, r), (a, b) = case.polys(), case.reduced()
    square = oracle.mul(a, a, case.q)
    total = oracle.sub(oracle.mul(a, b, case.q), oracle.mul(b, b, case.q), case.q)
    expected = oracle.add(oracle.add(total, square, case.q), b, case.q)
    assert_equals(p * r - r * r + p**2 + r, case.ring, expected)


TARGETS = ((97,), (MERSENNE,), (3329, 2**60 - 93), (12289, 40961), (17, 3329))


@pytest.mark.long
@examples
@given(case=general(1, SMALL), target=st.sampled_from(TARGETS))
def test_change_of_ring(case: Case, target: tuple[int, ...]) -> None:
    ring = RingSpec(case.ring.n, target)
    (p,), (a,) = case.polys(), case.reduced()
    result = p.to_ring(ring).realize()
    assert_equals(result, ring, oracle.to_ring(a, case.q, ring.q))
    assert_same_limbs(result, case.polys("python")[0].to_ring(ring).realize())


@pytest.mark.long
@over_rings(1, SEVERAL)
def test_rescale(case: Case) -> None:
    (p,), (a,), old = case.polys(), case.reduced(), case.ring.moduli
    for new in (old[1:], old[:-1], (*old[1:], 101)):
        ring = RingSpec(case.ring.n, new)
        assert_equals(p.rescale(new), ring, oracle.rescale(a, old, new))


def has_inverse(a: list[int], ring: RingSpec) -> bool:
    """Without a factor in common with X^n + 1, modulo the prime of each modulus."""
    primes = [fmpz(m).factor()[0][0] for m in ring.moduli]
    wrap = [1, *[0] * (ring.n - 1), 1]
    return all(
        fmpz_mod_poly_ctx(p)(a).gcd(fmpz_mod_poly_ctx(p)(wrap)).degree() == 0 for p in primes
    )


@over_rings(1, (SMALL[0], SMALL[3], NAMED["kyber"], RingSpec(4, (5, 49)), RingSpec(8, (17, 97))))
def test_inverses(case: Case) -> None:
    (p,), (a,) = case.polys(), case.reduced()
    if not has_inverse(a, case.ring):
        with pytest.raises(RingError, match="the inverse of a polynomial that has none"):
            p.inverse()
        return
    inverse = p.inverse()
    one = oracle.constant(1, case.ring.n, case.q)
    assert oracle.mul(inverse.tolist(), a, case.q) == one
    assert inverse.ring == case.ring


@named
def test_inverses_of_batches(name: str) -> None:
    ring = NAMED[name]
    p = Poly.uniform(ring, seed=b"s", batch=(2, 1))
    for x in (p, p.to("python")):
        assert (x.inverse() * x).tolist() == [[oracle.constant(1, ring.n, ring.q)]] * 2


def test_an_inverse_takes_values() -> None:
    ring = NAMED["kyber"]
    p = drawn(ring, 1)
    assert (Poly.const(3, ring).inverse() * 3).tolist() == oracle.constant(1, ring.n, ring.q)
    assert Poly.const(3, ring).inverse().is_constant
    assert ren.jit(lambda x: x * p.inverse())(p).tolist() == oracle.constant(1, ring.n, ring.q)
    for transform in (ren.jit, jax.jit, jax.vmap):
        with pytest.raises(TracedValueError, match="Take the inverse outside"):
            transform(lambda x: x.inverse())(Poly.uniform(ring, batch=(2,)))
    with pytest.raises(RingError, match=r"batch position \(1,\).*\nModulo 3329"):
        Poly([[1], [0]], ring).inverse()
    with pytest.raises(RingError, match="Modulo 25"):
        Poly.const(10, RingSpec(4, (9, 25))).inverse()


@over_rings(1)
def test_bytes_and_pickles(case: Case) -> None:
    (p,), (a,) = case.polys(), case.reduced()
    for back in (Poly.from_bytes(p.to_bytes()), pickle.loads(pickle.dumps(p))):
        assert_equals(back, case.ring, a)
    constant = Poly.const(case.constant, case.ring)
    back = Poly.from_bytes(constant.to_bytes())
    assert back.is_constant
    assert_equals(back, case.ring, oracle.constant(case.constant, case.ring.n, case.q))


# ------------------------------------------------------------------- under transformations


def drawn(ring: RingSpec, seed: int, batch: tuple[int, ...] = ()) -> Poly:
    return Poly.uniform(ring, seed=b"%d" % seed, batch=batch)


def program(x: Poly, y: Poly) -> Poly:
    return (x * y - y) * 7 + x.automorphism(5) * x


def expected(x: Poly, y: Poly) -> list[int]:
    a, b, q = x.tolist(), y.tolist(), x.ring.q
    first = [7 * c % q for c in oracle.sub(oracle.mul(a, b, q), b, q)]
    return oracle.add(first, oracle.mul(oracle.automorphism(a, 5, q), a, q), q)


@named
def test_one_program_in_every_way(name: str) -> None:
    ring = NAMED[name]
    jitted = ren.jit(program)
    for seed in range(3):  # captured, replayed, replayed
        x, y = drawn(ring, seed), drawn(ring, seed + 9)
        want = expected(x, y)
        assert jitted(x, y).tolist() == want
        assert program(x, y).tolist() == want
        assert jax.jit(program)(x, y).tolist() == want
    assert jitted.cache_info().hits == 2
    for tier in ("eager", "units", "graph") if name == "kyber" else ():
        assert ren.jit(program, tier=tier)(x, y).tolist() == want


@named
def test_batches(name: str) -> None:
    ring = NAMED[name]
    x, y = drawn(ring, 1, (3,)), drawn(ring, 2)
    assert x.shape == (3, ring.limbs, ring.n)
    want = [expected(Poly(a, ring), y) for a in x.tolist()]
    assert program(x, y).tolist() == want
    assert jax.vmap(program, (0, None))(x, y).tolist() == want
    assert ren.jit(program)(x, y).tolist() == want


def test_symbolic_numbers() -> None:
    ring = NAMED["product"]
    x = drawn(ring, 3)
    step = ren.jit(lambda p, c: p * c + c - c * (p * p))
    a, q = x.tolist(), ring.q
    for c in (3, -(2**50), 5):
        scaled, number = [v * c % q for v in a], oracle.constant(c, ring.n, q)
        product = [v * c % q for v in oracle.mul(a, a, q)]
        assert step(x, c).tolist() == oracle.sub(oracle.add(scaled, number, q), product, q)
    assert step.cache_info().misses == 1


def test_random_polynomials_are_spread_over_the_ring() -> None:
    for ring in NAMED.values():
        values = np.array(Poly.uniform(ring, seed=b"s", batch=(8,)).tolist(), object) / ring.q
        assert 0 <= values.min() < 0.01 < 0.99 < values.max() < 1
        assert abs(values.mean() - 0.5) < 0.03
        assert set(Poly.ternary(ring, seed=b"s").tolist()) == {0, 1, ring.q - 1}
        assert Poly.gaussian(ring).ring == ring
        assert Poly.uniform_on_interval(-3, 2**70, ring, seed=b"s").ring == ring


def test_sums_are_reduced_once() -> None:
    x, y = drawn(NAMED["mersenne"], 1), drawn(NAMED["mersenne"], 2)

    def lifts(f: Callable[[Poly, Poly], Poly]) -> tuple[int, int]:
        text = ren.stages(f, x, y)["reduce_transforms"]
        return text.count("= LIFT"), text.count("NTT %")

    assert lifts(operator.mul) == (3, 3)  # to the primes twice, and back
    assert lifts(lambda p, r: p * p) == (2, 2)
    assert lifts(lambda p, r: p * r + r * r - p * p) == (3, 3)


def test_long_sums_are_reduced_before_the_primes_overflow() -> None:
    ring = RingSpec(4, (2**57 - 13,))
    basis = 2**120  # four primes; a product is below 2 * 2^114, so that they hold 16 of them
    assert ring.products == "products through 4 exact primes"
    largest = Poly([ring.q // 2] * 3 + [ring.q // 2 + 1], ring)
    others = [
        Poly([ring.q // 2 - i, ring.q // 2, ring.q // 2, ring.q // 2], ring) for i in range(40)
    ]
    total = sum((largest * other for other in others[1:]), largest * others[0])
    want = [0] * 4
    for other in others:
        want = oracle.add(want, oracle.mul(largest.tolist(), other.tolist(), ring.q), ring.q)
    assert 40 * 4 * (ring.q // 2) ** 2 * 2 > basis
    assert total.tolist() == want


# ------------------------------------------------------------------- rules


def test_there_is_no_ntt_domain() -> None:
    p = drawn(NAMED["kyber"], 1)
    assert (p * p).domain is Domain.COEFF
    assert p.intt() is p
    for wrong in (
        p.ntt,
        lambda: Poly.from_limbs(p.limbs, p.ring, Domain.NTT),
        lambda: Poly.const(3, p.ring).ntt(),
        lambda: ren.spec(p.ring, Domain.NTT),
    ):
        with pytest.raises(DomainError, match="Leave out ntt"):
            wrong()


def test_limbs_of_a_wide_modulus_are_words() -> None:
    ring = RingSpec(4, (17, MERSENNE))
    a = [5, MERSENNE * 17 - 1, 2**40 + 3, 0]
    limbs = np.asarray(Poly(a, ring).limbs)
    assert limbs.shape == (3, 4)
    assert (limbs[1].astype(object) + limbs[2].astype(object) * 2**32).tolist() == [
        c % MERSENNE for c in a
    ]
    assert Poly.from_limbs(jnp.asarray(limbs), ring).tolist() == a


def test_approximate_lifts_take_one_limb_for_each_modulus() -> None:
    p = drawn(NAMED["product"], 1)
    with pytest.raises(RingMismatchError, match="to_ring and rescale"):
        p.mod_up((3329,), p.ring)
    with pytest.raises(RingMismatchError, match="to_ring and rescale"):
        p.mod_down(RingSpec(256, 3329))
    narrow = RingSpec(64, (3329, 101, 103))
    rng = random.Random(1)
    a = [rng.randrange(narrow.q) for _ in range(64)]
    down = Poly(a, narrow).mod_down(RingSpec(64, (3329, 103)))
    assert down.tolist() == oracle.mod_down(a, narrow.moduli, (3329, 103))


def test_damaged_bytes_of_general_rings() -> None:
    data = drawn(NAMED["mersenne"], 1).to_bytes()
    for i in (8, 10, 11, 12, 16, 40, len(data) - 1):
        with pytest.raises(SerializationError):
            Poly.from_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])


def test_lifts_within_a_program_stay_in_ntt_form_in_rings_of_ntt_primes() -> None:
    general, friendly = RingSpec(8, (17, 19)), RingSpec(8, (17, 97))
    p = Poly(range(8), general)
    assert (p.to_ring(friendly) * p.to_ring(friendly)).domain is Domain.NTT
    value = (p.to_ring(friendly) ** 2).to_ring(general)
    assert value.domain is Domain.COEFF
    assert value.tolist() == oracle.to_ring(
        oracle.power(list(range(8)), 2, 17 * 97), 17 * 97, 17 * 19
    )
