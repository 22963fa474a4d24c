"""Remainders, rounded quotients, digits, shifts, norms and values equal Python's integers."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from itertools import islice

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ren
from ren import Domain, Poly, RingSpec
from ren.core.errors import (
    BatchIndexError,
    CoefficientTypeError,
    DomainError,
    OperandError,
    ParameterError,
    RingError,
)
from ren.core.numtheory import ntt_primes_below
from tests import oracle
from tests.properties.cases import EXAMPLES, Case
from tests.properties.test_general_rings import NAMED, SMALL, examples
from tests.rings import integers, operands, primes

NARROW = tuple(RingSpec(8, primes(8)[-k:]) for k in (1, 2, 6))
WIDE = (NAMED["mersenne"], NAMED["product"])
RINGS = (*NARROW, *SMALL[:3], *NAMED.values())
DIVISORS = st.one_of(st.sampled_from([1, 2, 3, 256, 3329]), st.integers(1, 1 << 130))
BASES = (2, 3, 16, 1000, 1 << 20)
# What is compiled: few sizes, each of which has a program of its own.
COMPILED = (NARROW[1], SMALL[1], *(NAMED.values() if EXAMPLES >= 500 else [NAMED["kyber"]]))
SIZED = st.sampled_from([3329, (1 << 61) - 1]).flatmap(lambda t: st.integers(max(t // 2 + 1, 1), t))


@st.composite
def cases(draw: st.DrawFn, rings: tuple[RingSpec, ...] = RINGS) -> Case:
    ring = draw(st.sampled_from(rings))
    return Case(ring, (draw(operands(ring.n, ring.q)),), draw(integers(ring.q)))


def over_rings(**more: st.SearchStrategy):
    """Runs a test on the reference device."""
    return lambda test: examples(given(case=cases(), **more)(test))


def over_compiled(**more: st.SearchStrategy):
    """Runs a test on JAX's device."""
    few = settings(max_examples=EXAMPLES if EXAMPLES >= 500 else 12)
    return lambda test: few(given(case=cases(COMPILED), **more)(test))


def centred(values: list[int], q: int) -> list[int]:
    return [oracle.centred(v, q) for v in values]


def rounded(a: int, c: int, b: int) -> int:
    return math.floor(Fraction(a * c, b) + Fraction(1, 2))


def check_remainder(ring: RingSpec, values: list[int], t: int, device: str | None = None) -> None:
    p = Poly(values, ring, device)
    values = [v % ring.q for v in values]
    assert (p % t).tolist() == [v % t % ring.q for v in values]
    want = [oracle.centred(c % t, t) for c in centred(values, ring.q)]
    if t % 2 == 0:  # (-t/2, t/2]
        want = [t // 2 if 2 * abs(w) == t else w for w in want]
    assert p.mod(t, centered=True).tolist() == [w % ring.q for w in want]


def check_quotient(
    ring: RingSpec,
    values: list[int],
    fraction: tuple[int, int],
    target: RingSpec,
    device: str | None = None,
) -> None:
    a, b = fraction
    want = [rounded(a, c, b) % target.q for c in centred(values, ring.q)]
    assert Poly(values, ring, device).round_div(a, b, ring=target).tolist() == want


def check_digits(ring: RingSpec, values: list[int], base: int, device: str | None = None) -> None:
    p = Poly(values, ring, device)
    for is_centred in (False, True)[: 1 + (base > 2)]:
        found = p.digits(base, centered=is_centred)
        rows = np.array(found.tolist(centered=is_centred), object)
        low, high = (-(base // 2), base - base // 2) if is_centred else (0, base)
        if base < ring.q:  # else a digit is not its residue
            assert ((low <= rows) & (rows < high)).all()
            weights = np.array([base**i for i in range(len(rows))], object)
            want = centred(values, ring.q) if is_centred else [v % ring.q for v in values]
            assert (weights @ rows).tolist() == want
        gadget = Poly.gadget(base, ring, is_centred)
        assert gadget.shape[0] == len(found)
        if len(found) < 8:
            rows = gadget if device is None else gadget.to(device)
            product = p.gadget_product(rows, base, is_centred)
            assert product.tolist() == [v % ring.q for v in values]


@over_rings(t=DIVISORS)
def test_remainders(case: Case, t: int) -> None:
    check_remainder(case.ring, case.operands[0], t, "python")


@pytest.mark.long
@over_compiled(t=SIZED)
def test_remainders_compiled(case: Case, t: int) -> None:
    check_remainder(case.ring, case.operands[0], t)


@over_rings(a=st.integers(-(1 << 90), 1 << 90), b=DIVISORS, sign=st.sampled_from([1, -1]))
def test_rounded_quotients(case: Case, a: int, b: int, sign: int) -> None:
    target = NAMED["kyber"] if case.ring.n == 256 else case.ring
    check_quotient(case.ring, case.operands[0], (a, sign * b), target, "python")


@pytest.mark.long
@over_compiled(a=SIZED, b=SIZED, sign=st.sampled_from([1, -1]))
def test_rounded_quotients_compiled(case: Case, a: int, b: int, sign: int) -> None:
    check_quotient(case.ring, case.operands[0], (sign * a, b), case.ring)


@pytest.mark.long
@over_rings(base=st.sampled_from(BASES))
def test_digits_and_gadget_products(case: Case, base: int) -> None:
    check_digits(case.ring, case.operands[0], base, "python")


@pytest.mark.long
@over_compiled(base=st.sampled_from([3, 1 << 10]))
def test_digits_and_gadget_products_compiled(case: Case, base: int) -> None:
    check_digits(case.ring, case.operands[0], base)


@pytest.mark.long
@over_rings(k=st.integers(-1000, 1000))
def test_shifts_norms_and_values(case: Case, k: int) -> None:
    ring, values = case.ring, case.operands[0]
    p, (n, q) = Poly(values, ring), (ring.n, ring.q)
    power = [0] * n
    power[k % n] = -1 if k // n % 2 else 1
    want = oracle.mul(values, power, q)
    assert p.shift(k).tolist() == want and p.shift(k).domain is Domain.COEFF
    if not ring.is_general:
        assert p.ntt().shift(k).tolist() == want and p.ntt().shift(k).domain is Domain.NTT
    assert p.norm() == max(map(abs, centred(values, q)))
    assert p.evaluate(case.constant) == sum(c * case.constant**i for i, c in enumerate(values)) % q


@pytest.mark.long
@pytest.mark.parametrize("ring", WIDE, ids=["mersenne", "product"])
def test_wide_moduli(ring: RingSpec) -> None:
    """Through NTT primes that hold the integers; half of q and its neighbours among them."""
    rng = np.random.default_rng(ring.n)
    q = ring.q
    values = [int.from_bytes(rng.bytes(20)) % q for _ in range(ring.n)]
    values[:4] = [0, q - 1, q // 2, q // 2 + 1]
    for t in (3329, 3 * q):
        check_remainder(ring, values, t)
    for a, b in ((17, q), (-3, 2**40)):
        check_quotient(ring, values, (a, b), ring)
    check_digits(ring, values, 1 << 20)


def test_the_scheme_of_bfv_rounds_from_a_larger_ring() -> None:
    """round(t c / q) of c over q p, as a result over q: what a product in BFV takes."""
    small, large = NARROW[1], NARROW[2]
    values = [(-1) ** i * 7**i * small.q // 3 for i in range(8)]
    check_quotient(large, values, (257, small.q), small)


FUNCTIONS = {
    "mod": lambda p: p % 1000,
    "round_div": lambda p: p.round_div(5, 777),
    "digits": lambda p: p.digits(1 << 10)[1],
    "shift": lambda p: (p.shift(3) + p).shift(-1).mod(16, centered=True),
    "part": lambda p: p.digits(1 << 20)[1:] * p,
}


@pytest.mark.long
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_way_to_run_gives_the_same(name: str) -> None:
    ring, f = NARROW[1], FUNCTIONS[name]
    rows = np.array([[i * 31**k for k in range(8)] for i in (1, -5, 99)], object)
    one, batch = Poly(rows[0], ring), Poly(rows, ring)
    want = f(one).tolist()
    assert f(one.to("python")).tolist() == want  # the reference
    assert f(one.ntt()).tolist() == want
    jitted = ren.jit(f)
    assert [jitted(p).tolist() for p in (one, Poly(rows[1], ring))] == [
        want, f(Poly(rows[1], ring)).tolist(),
    ]  # fmt: skip
    assert jax.jit(f)(one).tolist() == want
    each = [f(Poly(row, ring)).tolist() for row in rows]
    assert jax.vmap(f)(batch).tolist() == each
    own = f(batch)
    if own.shape[0] == 3 and own.shape[1:] == f(one).shape:
        assert own.tolist() == each
    assert pickle.loads(pickle.dumps(f(one))).tolist() == want


@pytest.mark.long
def test_integers_of_many_words() -> None:
    """Sums of 100 products, and 137 words."""
    ring = RingSpec(2, tuple(islice(ntt_primes_below(2, 1 << 30), 100)))
    values = [-sum(ring.q // m for m in ring.moduli) % ring.q, ring.q - 1]
    assert (Poly(values, ring) % 65537).tolist() == [v % 65537 for v in values]


@pytest.mark.parametrize("base", [5, 2047, 2049, (1 << 22) - 1, 10**9 + 7])
def test_digits_at_the_edges_of_words(base: int) -> None:
    """Bases of which a word holds several, two, one and a part; half of q and its neighbours."""
    ring = NARROW[1]
    edges = [0, 1, base - 1, base, ring.q - 1, ring.q // 2, ring.q // 2 + 1, -base]
    check_digits(ring, edges, base)


def test_digits_beside_native_calls() -> None:
    """At n = 4096 the rest of such programs would be native calls."""
    ring = RingSpec(4096, primes(4096)[-2:])
    p = Poly.uniform(ring, seed=b"digits")
    gadget = Poly.gadget(1 << 30, ring)
    assert p.gadget_product(gadget, 1 << 30).tolist() == p.tolist()
    for f in (lambda x: x.digits(1 << 30)[1] * x, lambda x: x.shift(5) * x + x.shift(-1)):
        want = f(p.to("python")).tolist()
        assert f(p).tolist() == want and ren.jit(f)(p).tolist() == want


@pytest.mark.parametrize("ring", [RingSpec(64, primes(64)[-2:]), NAMED["product"]])
@pytest.mark.parametrize("k", [1, -1, 63, 65, 127, 300])
def test_shifts_move_coefficients(ring: RingSpec, k: int) -> None:
    p = Poly.uniform(ring, seed=b"shift", batch=(2,))
    want = [oracle.shift(row, k, ring.q) for row in p.tolist()]
    twice = ren.jit(lambda x: x.shift(k).shift(-k - 1).shift(1) + x.shift(k))
    assert p.shift(k).tolist() == p.to("python").shift(k).tolist() == want
    assert jax.vmap(lambda x: x.shift(k))(p).tolist() == want
    sums = [oracle.add(a, b, ring.q) for a, b in zip(p.tolist(), want, strict=True)]
    assert twice(p).tolist() == sums
    text = str(ren.stages(lambda x: x.shift(k).shift(-k - 1), p)["reduce_transforms"])
    assert text.count("SHIFT") == 1 and "NTT" not in text


def test_parts_of_batches() -> None:
    values = np.arange(2 * 3 * 8).reshape(2, 3, 8)
    p = Poly(values, NARROW[0])
    indices = (0, -1, slice(1), (1, 2), (0, slice(None, None, -1)), (..., 1), (slice(None), 0), ...)
    for index in indices:
        whole = (*index, slice(None)) if isinstance(index, tuple) else (index,)
        whole = (*index[:-1], index[-1], slice(None)) if index == (..., 1) else whole
        assert p[index].tolist() == values[whole].tolist(), index
    assert len(p) == 2 and [q.tolist() for q in p] == values.tolist()
    assert p[0][1].tolist() == values[0, 1].tolist()
    assert p.norm().tolist() == np.abs(values).max(-1).tolist()
    assert p.evaluate(2).tolist() == (values * 2 ** np.arange(8)).sum(-1).tolist()


def test_bad_input_is_refused() -> None:
    p, ring = Poly([1, 2], NARROW[0]), NARROW[0]
    batch = Poly(np.ones((2, 8), int), ring)
    for call, error in {
        (lambda: p % 0, ParameterError),
        (lambda: p % True, CoefficientTypeError),
        (lambda: p.round_div(1, np.True_), CoefficientTypeError),
        (lambda: p.mod(-3), ParameterError),
        (lambda: p.round_div(1, 0), ParameterError),
        (lambda: p.round_div(1, 2, ring=7), RingError),
        (lambda: p.digits(1), ParameterError),
        (lambda: p.digits(2, centered=True), ParameterError),
        (lambda: p.gadget_product(batch, 2), OperandError),
        (lambda: p.gadget_product(3, 2), OperandError),
        (lambda: p[0], OperandError),
        (lambda: list(p), OperandError),
        (lambda: len(p), OperandError),
        (lambda: batch[2], BatchIndexError),
        (lambda: batch[0, 0], OperandError),
        (lambda: batch[[0, 1]], OperandError),
        (lambda: batch[1:1], DomainError),
        (lambda: 3 % p, OperandError),
    }:
        with pytest.raises(error):
            call()
