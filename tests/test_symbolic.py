"""Numbers and arrays among the arguments of a jitted function: symbolic, and exact at each call."""

from __future__ import annotations

import dataclasses
import math
import operator
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ren
from ren import Poly, RingSpec
from ren.core.errors import CoefficientTypeError, RenError, TracedValueError
from ren.poly.symbolic import Derived, Symbolic, as_symbol, derived, evaluator
from ren.schemes import ckks
from tests.oracle import mul

RING = RingSpec(n=8, moduli=(17, 97, 113))
COEFFS = [3, -1, 4, 1, -5, 9, 2, 6]


def x(domain: str = "coeff") -> Poly:
    p = Poly(COEFFS, RING)
    return p.ntt().realize() if domain == "ntt" else p


@pytest.mark.parametrize("domain", ["coeff", "ntt"])
@pytest.mark.parametrize("tier", ["units", "graph", "eager"])
def test_integers_are_residues_of_each_call(domain, tier):
    f = ren.jit(tier=tier)(lambda x, c, d: (c * x + d) * x - (x - c) + 5 * c)
    for c, d in [(3, 4), (-7, 10**30), (0, 1), (RING.q, -(2**70))]:
        square = mul([v % RING.q for v in COEFFS], [v % RING.q for v in COEFFS], RING.q)
        expected = [c * s + d * v - v for s, v in zip(square, COEFFS, strict=True)]
        expected[0] += 6 * c
        assert f(x(domain), c, d).tolist() == [e % RING.q for e in expected]
    assert f.cache_info()[:3] == (3, 1, 1)


def test_what_is_eager_stays_in_its_domain():
    f = ren.jit(lambda x, c: (x * c, x + c, c - x))
    for domain in ("coeff", "ntt"):
        p = x(domain)
        for got, want in zip(f(p, 5), (p * 5, p + 5, 5 - p), strict=True):
            assert got.domain is want.domain
            assert ren.equal(got, want)


def test_a_constant_times_a_number():
    f = ren.jit(lambda x, k, c: (x, k * c, k + c, (k - k) + c, (x - x + 3) * c))
    for c in (2, 9):
        k = Poly.const(4, RING)
        got = f(x(), k, c)[1:]
        for p, value in zip(got, (4 * c, 4 + c, c, 3 * c), strict=True):
            assert p.tolist() == [value] + [0] * 7


def test_numbers_are_computed_with_on_the_host():
    f = ren.jit(lambda x, a, b, w: x * (2 * a - b + w[1]) + (-w)[0] * a)
    for a_, b_, w in [(2, 3, np.array([4, 5])), (10**9, 1, np.array([-1, 7]))]:
        expected = x() * (2 * a_ - b_ + int(w[1])) + int(-w[0]) * a_
        assert ren.equal(f(x(), a_, b_, w), expected)
    assert f.cache_info().plans == 1


def test_coefficients_that_are_arguments():
    f = ren.jit(lambda x, w, c: x * Poly(w, x.ring) + Poly([c, 1], x.ring))
    for w in (np.arange(8), -np.arange(8) * 2**40):
        expected = x() * Poly(w, RING) + Poly([7, 1], RING)
        assert ren.equal(f(x(), w, 7), expected)
    assert f.cache_info()[:2] == (1, 1)
    with pytest.raises(CoefficientTypeError, match="integers"):
        f(x(), np.ones(8), 7)
    batch = np.arange(16).reshape(2, 8)
    assert ren.equal(f(x(), batch, 7), x() * Poly(batch, RING) + Poly([7, 1], RING))


def test_keyed_by_type_and_shape():
    f = ren.jit(lambda x, w: x + Poly(w, x.ring))
    for w in (np.arange(8), np.arange(8, 16), np.arange(4), np.arange(8, dtype=np.int32)):
        f(x(), w)
    f(x(), jnp.arange(8))
    assert f.cache_info()[:3] == (1, 4, 4)
    g = ren.jit(lambda x, c: x * c)
    for c in (1, 2, True, np.int64(3), np.int32(3), np.array(4), jnp.int32(5), jnp.int32(6)):
        assert ren.equal(g(x(), c), x() * int(c))
    assert g.cache_info()[:3] == (2, 6, 6)


USES = {
    "rotate": lambda x, k: x.rotate(k),
    "power": lambda x, k: x**k,
    "power of it": lambda x, k: x * k**2,
    "if": lambda x, k: x if k else -x,
    "comparison": lambda x, k: x if k == 3 else -x,
    "order": lambda x, k: x if k > 3 else -x,
    "range": lambda x, k: sum((x for _ in range(k)), x),
    "int": lambda x, k: x * int(k),
    "float": lambda x, k: x * round(float(k)),
    "index": lambda x, k: x * [1, 2, 3, 4][k],
    "numpy": lambda x, k: x * int(np.sqrt(k)),
    "hash": lambda x, k: x * {3: 1}[k],
    "automorphism": lambda x, k: x.automorphism(k),
    "constant": lambda x, k: x * Poly.const(k, x.ring),
    "attribute": lambda x, k: x * k.real,
    "method": lambda x, k: x * k.bit_length(),
    "divmod": lambda x, k: x * divmod(k, 2)[1],
    "trunc": lambda x, k: x * math.trunc(k),
    "format": lambda x, k: x * len(f"{k:d}"),
}


@pytest.mark.parametrize("use", USES)
def test_any_other_use_names_static_argnames(use):
    f = ren.jit(lambda x, k: USES[use](x, k))
    with pytest.raises(TracedValueError, match=r"(?s)'k'.*static_argnames='k'") as caught:
        f(x(), 3)
    assert "test_symbolic.py" in str(caught.value)
    assert f.cache_info()[:3] == (0, 0, 0)
    if use != "numpy":
        g = ren.jit(static_argnames="k")(lambda x, k: USES[use](x, k))
        assert ren.equal(g(x(), 3), USES[use](x(), 3))


def test_quotients_are_those_of_each_call():
    f = ren.jit(lambda x, k, j: x * (k // 2 + 7 % j) + 9 // k)
    for k, j in ((3, 2), (-4, 5), (9, -3)):
        assert f(x(), k, j).tolist() == (x() * (k // 2 + 7 % j) + 9 // k).tolist()
    assert f.cache_info().plans == 1
    with pytest.raises(ZeroDivisionError):
        f(x(), 0, 1)
    with pytest.raises(CoefficientTypeError, match="float"):
        ren.jit(lambda x, k: x * (k / 2))(x(), 4)


ARRAY_USES = {
    "sum": lambda w: w.sum(),
    "astype": lambda w: w.astype(int),
    "ravel": lambda w: w.ravel(),
    "tolist": lambda w: w.tolist(),
    "assignment": lambda w: operator.setitem(w, 0, 1),
    "np.sum": np.sum,
}


@pytest.mark.parametrize("use", ARRAY_USES)
def test_any_other_use_of_an_array_names_static_argnames(use):
    f = ren.jit(lambda x, w: x + Poly(ARRAY_USES[use](w), x.ring))
    with pytest.raises(TracedValueError, match=r"(?s)test_symbolic.py.*static_argnames='w'"):
        f(x(), np.arange(8))
    asked = ren.jit(lambda x, w: x if hasattr(w, "no such thing") else x * w.shape[0])
    assert ren.equal(asked(x(), np.arange(8)), x() * 8)


def test_floats_and_arrays_are_no_factors_of_polynomials():
    f = ren.jit(lambda x, c: x * c)
    for wrong in (0.5, np.arange(8), 1j):
        with pytest.raises(CoefficientTypeError, match="'c'"):
            f(x(), wrong)


def test_numbers_and_arrays_among_the_results():
    f = ren.jit(lambda x, c, w: {"x": x * c, "sum": c + 1, "w": w * 2, "fixed": 7})
    for c in (3, 4):
        r = f(x(), c, np.arange(3.0))
        assert (r["sum"], r["fixed"]) == (c + 1, 7)
        assert list(r) == ["x", "sum", "w", "fixed"]
        np.testing.assert_array_equal(r["w"], np.arange(3.0) * 2)


@dataclasses.dataclass
class Model:
    weights: np.ndarray
    bias: int


def test_objects_that_hold_arrays_are_inputs():
    f = ren.jit(lambda x, m: x * Poly(m.weights, x.ring) + m.bias)
    for bias in (1, 2):
        m = Model(np.arange(8) + bias, bias)
        assert ren.equal(f(x(), m), x() * Poly(m.weights, RING) + bias)
    assert f.cache_info()[:2] == (1, 1)


def test_defaults_are_part_of_the_program():
    f = ren.jit(lambda x, k=2, *, c=3: x.rotate(k) * c)
    assert ren.equal(f(x()), x().rotate(2) * 3)
    assert ren.equal(f(x(), c=5), x().rotate(2) * 5)


def test_the_python_device():
    f = ren.jit(lambda x, c: (x + c) * x * c)
    p = x().to("python").realize()
    assert f(p, 6).device == "python"
    assert ren.equal(f(p, 6), (x() + 6) * x() * 6)


def test_static_and_symbolic_together():
    f = ren.jit(static_argnames=("k",))(lambda x, k, c: x.rotate(k) * c)
    for k, c in [(1, 2), (1, 3), (2, 3)]:
        assert ren.equal(f(x(), k, c), x().rotate(k) * c)
        assert ren.equal(f(x(), c=c, k=k), x().rotate(k) * c)
    assert f.cache_info()[:3] == (4, 2, 2)


OPERATIONS = st.sampled_from(["+", "-", "*", "r-"])
STEPS = st.lists(st.tuples(OPERATIONS, st.integers(0, 2)), min_size=1, max_size=6)


def _run(p, numbers, steps):
    for operation, i in steps:
        c = numbers[i] if i < 2 else numbers[0] * numbers[1] - 3
        p = {"+": p + c, "-": p - c, "*": p * c, "r-": c - p}[operation]
    return p * p


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(STEPS, st.lists(st.tuples(st.integers(), st.integers()), min_size=2, max_size=3))
def test_random_programs_of_numbers(steps, calls):
    f = ren.jit(lambda p, numbers: _run(p, numbers, steps))
    for numbers in calls:
        assert ren.equal(f(x(), list(numbers)), _run(x(), numbers, steps))
    assert f.cache_info().plans == 1


def test_a_fraction_is_keyed_by_value():
    f = ren.jit(lambda x, q: x * q.numerator)
    assert ren.equal(f(x(), Fraction(3, 4)), x() * 3)
    assert ren.equal(f(x(), Fraction(5, 4)), x() * 5)


def test_derived_values_are_computed_once_at_each_call():
    calls = []

    def double(v):
        calls.append(v)
        return v + v

    x = derived(double, Symbolic(1, lambda values: values[0], "x"))
    for _ in range(5_000):  # without sharing 2^5000 steps, and beyond Python's recursion
        x = derived(lambda a, b: (a + b) % 1_000_003, x, x)
    assert isinstance(x, Derived) and x.sample == pow(2, 5_001, 1_000_003)
    calls.clear()
    assert evaluator([x, x])([5]) == [5 * pow(2, 5_001, 1_000_003) % 1_000_003] * 2
    assert calls == [5]
    assert derived(double, 3) == 6


def test_arrays_of_several_axes_are_named_too():
    with pytest.raises(RenError, match=r"(?s)'w'.*static_argnames='w'"):
        ren.jit(lambda x, w: x.reshape(w, -1))(
            ckks.context(depth=1, n=64, security=None).encrypt([0.5, 0.25]), np.ones((2, 3))
        )


@pytest.mark.parametrize(
    "use",
    [
        lambda x, k: x.within(k), lambda x, k: x.reshape(k, -1), lambda x, k: x.var(ddof=k),
        lambda x, k: x.drop_to(k),
        lambda x, k: ckks.math.exp(x, interval=(-2, 2), degree=k),
        lambda x, k: ckks.math.exp(x, interval=(-2, 2), precision=k), lambda x, k: x[k],
    ],
)  # fmt: skip
def test_an_error_that_shows_an_argument_that_is_not_known_names_static_argnames(use):
    x = ckks.context(depth=2, n=64, security=None).encrypt([0.5, 0.25])
    with pytest.raises(RenError, match=r"(?s)'k'.*static_argnames='k'") as caught:
        ren.jit(use)(x, 1)
    assert caught.value.args == (caught.value.given, caught.value.needed, caught.value.do)


WIDE = (2**61 - 1, 2**61 - 31)  # over one basis of primes both
PARTS = [
    ((3, 5), 4), ((17, 3), 4), ((97, 113, 2**31 - 1), 4), ((3, 2**61 - 1), 4), (WIDE, 4),
    (WIDE, 64),
]  # fmt: skip


def in_parts(u, v, k):
    """Programs in which a number is read modulus by modulus."""
    return [(u * v + k) * v, u * v * k * v, (u * v - k) * (u * v - k), k * (u + k) * (v - k), u * k]


class Integers:
    """Coefficients of a polynomial modulo q, as Python has them."""

    def __init__(self, coefficients, q):
        self.coefficients, self.q = [c % q for c in coefficients], q

    def __add__(self, k):
        return Integers([self.coefficients[0] + k, *self.coefficients[1:]], self.q)

    def __sub__(self, k):
        return self + -k

    def __mul__(self, other):
        if isinstance(other, int):
            return Integers([c * other for c in self.coefficients], self.q)
        return Integers(mul(self.coefficients, other.coefficients, self.q), self.q)

    __rmul__ = __mul__


@pytest.mark.once
@pytest.mark.parametrize(("moduli", "n"), PARTS)
@pytest.mark.parametrize("tier", ["auto", "units", "eager"])
def test_numbers_that_are_read_modulus_by_modulus(moduli, n, tier):
    """Each modulus takes its own residue; modulo a wide one it is centred before."""
    ring, q = RingSpec(n=n, moduli=moduli), math.prod(moduli)
    rng = np.random.default_rng(n)
    a, b = ([int(c) for c in rng.integers(0, 1000, n)] for _ in range(2))
    f = ren.jit(in_parts, tier=tier)
    g = ren.jit(lambda u, v, k: (u * v + k) % 10, tier=tier)
    for k in (5, -7, moduli[0] // 2 + 11, moduli[-1] + 5, 3 * q + 1):
        found = [p.tolist() for p in f(Poly(a, ring), Poly(b, ring), k)]
        clear = Integers(a, q), Integers(b, q)
        assert found == [p.coefficients for p in in_parts(*clear, k)]
        total = clear[0] * clear[1] + k
        assert g(Poly(a, ring), Poly(b, ring), k).tolist() == [c % 10 for c in total.coefficients]


@pytest.mark.once
@pytest.mark.parametrize("moduli", [(97, 113, 193), (3, 5, 7), (2**61 - 1, 97, 2**61 - 31)])
def test_numbers_of_which_the_first_and_the_last_residue_are_read(moduli):
    ring = RingSpec(n=8, moduli=moduli)
    low = ring.with_moduli((moduli[0], moduli[2]))
    a, b = [*range(1, 9)], [*range(3, 11)]
    f = ren.jit(lambda u, v, k: (u * v * k).to_ring(low) + k)
    q = math.prod(moduli)
    for k in (5, -moduli[0] // 2):
        product = [c * k % q for c in mul(a, b, q)]
        centred = [c - q if c > q // 2 else c for c in product]
        want = [(c + k * (i == 0)) % low.q for i, c in enumerate(centred)]
        assert f(Poly(a, ring), Poly(b, ring), k).tolist() == want


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (lambda x, w, k: x + Poly(w + (k - 1), RING), (np.arange(8, dtype=np.uint64), 3)),
        (lambda x, w, k: x * (w * (k - 1)), (np.uint8(9), 3)),
        (lambda x, w, k: x * (w + (k - 1)), (jnp.uint8(3), 3)),
        (lambda x, w, k: x * (w - 1) + k, (np.uint8(3), 1)),
        (lambda x, w, k: x * ((w - 2) * (k - 5)), (np.uint16(300), np.uint16(7))),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_overflows_with_zeros_alone_is_computed(function, values):
    """The sample of a symbol is zero, and zero minus one fits no unsigned type."""
    jitted = ren.jit(function)
    for _ in range(2):
        assert jitted(x(), *values).tolist() == function(x(), *values).tolist()
    assert len(jitted.plans) == 1


def test_coefficients_that_are_no_integers_are_told_by_their_type():
    with pytest.raises(CoefficientTypeError, match=r"argument 'w', float64\[3\]"):
        ren.jit(lambda x, w: x + Poly(w, RING))(x(), np.ones(3))


@pytest.mark.parametrize(
    "use", [lambda c: pow(c, -1, 97), lambda c: 1 << c, lambda c: 1 >> c, lambda c: 3 ^ c]
)
def test_numbers_on_the_left_of_what_is_refused(use):
    with pytest.raises(TracedValueError, match="static_argnames='c'"):
        ren.jit(lambda x, c: x * use(c))(x(), 3)


def test_each_step_of_a_computation_with_numbers_runs_once_a_call() -> None:
    """A number that many steps read is computed once, in arithmetic, indexing and functions."""
    p, calls = Poly([1, 2], RingSpec(8, (17, 97))), []

    def counted(value):
        calls.append(None)
        return value

    @ren.jit
    def function(p, k, v):
        k, v = as_symbol(k).map(counted), as_symbol(v).map(counted)
        for _ in range(30):
            k, v = k + k, v[::-1] + v
        return p * k + p * v[0]

    for k, v in ((3, [1, 2]), (5, [4, 7])):
        calls.clear()
        made = function(p, k, np.array(v))
        assert made.tolist()[0] == (k * 2**30 + sum(v) * 2**29) % (17 * 97)
        assert 0 < len(calls) <= 6
