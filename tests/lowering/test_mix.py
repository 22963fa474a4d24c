"""MIX: products of a matrix of integers with a batch axis, on each backend, exactly."""

from __future__ import annotations

import operator
from functools import reduce

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ren
from ren import Poly, RingSpec
from ren.core.errors import (
    CoefficientTypeError,
    DomainError,
    OperandError,
    ParameterError,
    TracedValueError,
)
from ren.lowering.backends.native import library
from ren.lowering.kernels import mixing
from ren.lowering.runtime.native_calls import NativeCalls, native_calls
from tests.lowering.plans import plan
from tests.properties.cases import EXAMPLES
from tests.rings import primes

N = 16
POOL = primes(N)
RING = RingSpec(N, (POOL[0], POOL[1], POOL[-2], POOL[-1]))
RINGS = {
    "primes": RING,
    "small": RingSpec(4, (3, 5)),
    "general": RingSpec(8, (2**29 - 3, 101)),
    "wide": RingSpec(8, (2**61 - 1, 97, 2**45 + 59)),
}


def drawn(batch: tuple[int, ...], seed: int = 0, ring: RingSpec = RING, n: int | None = None):
    """Coefficients in [0, q), the largest among them, as Python integers."""
    rng = np.random.default_rng(seed)
    shape = (*batch, ring.n)
    bits = rng.integers(0, 2, (*shape, ring.q.bit_length() + 8)).astype(object)
    values = bits @ np.array([1 << i for i in range(bits.shape[-1])], object) % ring.q
    values[..., ::3] = ring.q - 1
    return values


def product(matrix: np.ndarray, values: np.ndarray, axis: int, q: int) -> np.ndarray:
    axis = axis if axis >= 0 else axis - 1
    found = np.tensordot(np.array(matrix, object), np.moveaxis(values, axis, 0), 1) % q
    return np.moveaxis(found, 0, axis)


def on_all(p: Poly, matrix: object, axis: int = 0) -> np.ndarray:
    """The coefficients, the same on each backend, and again."""
    first = p.mix(matrix, axis).coefficients()
    with ren.config.update(native=False):
        assert np.array_equal(p.mix(matrix, axis).coefficients(), first)
    assert np.array_equal(p.to("python").mix(matrix, axis).coefficients(), first)
    assert np.array_equal(p.mix(matrix, axis).coefficients(), first)
    return first


@pytest.mark.parametrize("columns", [1, 2, 15, 16, 17, 33, 100])
@pytest.mark.parametrize("rows", [1, 3, 4, 9])
def test_mix_equals_the_product_of_integers(rows, columns):
    values = drawn((columns,), rows)
    matrix = np.random.default_rng(columns).integers(-(2**62), 2**62, (rows, columns))
    matrix[0] = -1
    made = on_all(Poly(values, RING), matrix)
    assert np.array_equal(made, product(matrix, values, 0, RING.q))


@pytest.mark.parametrize("name", RINGS)
def test_mix_in_each_kind_of_ring(name):
    ring, entries = RINGS[name], [[2**70 + 5, -3, 1], [0, -(2**65), 9], [1, 1, 1]]
    values = drawn((3,), 1, ring)
    assert np.array_equal(on_all(Poly(values, ring), entries), product(entries, values, 0, ring.q))


@pytest.mark.long
@given(st.data())
@settings(max_examples=EXAMPLES if EXAMPLES >= 500 else 20)
def test_mix_of_any_axis_domain_and_integers(data):
    batch = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    axis = data.draw(st.integers(-len(batch), len(batch) - 1))
    ring = RING.with_moduli(RING.moduli[: data.draw(st.integers(1, 4))])
    bits, rows = data.draw(st.sampled_from((1, 7, 31, 63, 90))), data.draw(st.integers(1, 6))
    matrix = data.draw(
        st.lists(
            st.lists(st.integers(-(2**bits), 2**bits), min_size=batch[axis], max_size=batch[axis]),
            min_size=rows,
            max_size=rows,
        )
    )
    values = drawn(batch, bits, ring)
    p = Poly(values, ring)
    p = p.ntt() if data.draw(st.booleans()) else p
    made = p.mix(matrix, axis)
    assert made.domain is p.domain and made.ring == ring
    assert np.array_equal(on_all(p, matrix, axis), product(matrix, values, axis, ring.q))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "bool", "object"])
def test_integers_of_each_type(dtype):
    values, matrix = drawn((2,)), np.array([[0, 1], [1, 1]]).astype(dtype)
    if dtype == "uint64":
        matrix[0, 0] = 2**64 - 1
    made = Poly(values, RING).mix(matrix).coefficients()
    assert np.array_equal(made, product(matrix.astype(object), values, 0, RING.q))


def test_columns_in_pieces(monkeypatch):
    """XLA computes a few residues of each row at a time where there are many rows."""
    values, matrix = drawn((5,)), np.arange(35).reshape(7, 5)
    monkeypatch.setattr(mixing, "_RESIDUES", 4 * (2 * 5 + 4 * 7))
    assert mixing._width(N, 2 * 5 + 4 * 7) == 4
    with ren.config.update(native=False):
        made = Poly(values, RING).mix(matrix).coefficients()
    assert np.array_equal(made, product(matrix, values, 0, RING.q))


def test_under_transformations_of_jax():
    batch, matrix = Poly(drawn((3, 4)), RING).ntt().realize(), np.arange(12).reshape(3, 4) - 5

    def f(p: Poly) -> Poly:
        return (p * p).mix(matrix) + p.mix(matrix)

    want = (batch * batch).mix(matrix, 1) + batch.mix(matrix, 1)
    assert ren.equal(jax.vmap(f)(batch), want)
    assert ren.equal(jax.jit(jax.vmap(f))(batch), want)
    jitted = ren.jit(lambda p: (p * p).mix(matrix, 1) + p.mix(matrix, 1))
    assert ren.equal(jitted(batch), want) and ren.equal(jitted(batch), want)
    square = np.array([[1, 2, 0, 0], [0, 1, 0, 3], [1, 0, -1, 0], [2, 0, 0, 1]])

    def step(p: Poly, _: None) -> tuple[Poly, None]:
        return p.mix(square, 1), None

    power = np.linalg.matrix_power(square, 3)
    made, _ = jax.jit(lambda p: jax.lax.scan(step, p, None, length=3))(batch)
    assert ren.equal(made, batch.mix(power, 1))


def test_a_mix_among_others_is_one_native_call():
    if library.outcome().reason or not ren.config.native:
        pytest.skip("native code is off")
    ring = RingSpec(4096, primes(4096)[-2:])
    p = Poly(drawn((6,), 2, ring), ring).ntt().realize()
    matrix = np.arange(18).reshape(3, 6) - 7
    q = (p * p).mix(matrix)
    found = native_calls(plan(q[0] * q[1] + q[2]).source)
    assert isinstance(found, NativeCalls) and len(found.programs) == 1
    squares = [p[i] * p[i] for i in range(6)]
    terms = [reduce(operator.add, map(operator.mul, squares, row)) for row in matrix.tolist()]
    assert ren.equal(q[0] * q[1] + q[2], terms[0] * terms[1] + terms[2])


def test_the_work_is_counted():
    p = Poly(drawn((5, 2)), RING).mix(np.ones((3, 5), int))
    assert p.node.work.multiply_adds == 3 * 5 * 2 * RING.limbs * N


P = Poly(np.ones((3, N), int), RING)


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: P.mix([[1, 2]]), DomainError, "1 x 2"),
        (lambda: P.mix([1, 2, 3]), ParameterError, "shape (3,)"),
        (lambda: P.mix([[0.5, 1, 2]]), CoefficientTypeError, "0.5"),
        (lambda: P.mix([[1, 2, 3], [1]]), CoefficientTypeError, "rows of one length"),
        (lambda: P.mix([[P, P, P]]), OperandError, "as plain integers"),
        (lambda: P[0].mix([[1]]), DomainError, "there is none"),
        (lambda: P.mix([[1, 2, 3]], axis=1), DomainError, "from -1 to 0"),
        (lambda: P.mix([[1, 2, 3]], axis=0.5), CoefficientTypeError, "0.5"),  # type: ignore[arg-type]
        (lambda: P.mix(np.zeros((0, 3), int)), DomainError, "at least one row"),
        (lambda: jax.jit(P.mix)(np.ones((1, 3), int)), TracedValueError, "traced"),
        (
            lambda: ren.jit(lambda p, m: p.mix(m))(P, np.ones((1, 3), int)),
            TracedValueError,
            "matrix",
        ),
    ],
)
def test_errors_say_what_is_needed(call, error, told):
    with pytest.raises(error) as raised:
        call()
    assert told in str(raised.value)
