"""Polynomials as the user's contract describes them: the example, constructors, identity, bytes."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import ren
from ren.poly import Poly
from ren.ring import Domain, RingSpec
from tests import oracle

A, B = [1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1]


def expected_example(q: int) -> list[int]:
    minus_one = oracle.constant(-1, 8, q)
    return oracle.mul(oracle.add(A, B, q), oracle.add(A, minus_one, q), q)


def test_the_first_example_runs_as_written() -> None:
    import ren
    from ren.poly import Poly
    from ren.ring import RingSpec

    ring = RingSpec(n=8, moduli=(17, 97))  # Z_q[X]/(X^n + 1), q = 17 * 97
    a = Poly([1, 2, 3, 4, 5, 6, 7, 8], ring)  # any Python ints, negative or huge
    b = Poly([8, 7, 6, 5, 4, 3, 2, 1], ring)
    expr = (a + b) * (a - 1)  # lazy: nothing has run
    assert not expr.is_realized
    print(expr.node)  # the DAG, readable, shared nodes named once
    assert expr.realize() is expr  # runs; returns a realized Poly
    assert expr.is_realized
    assert expr.tolist() == expected_example(ring.q)
    assert expr.tolist(centered=True) == [oracle.centred(x, ring.q) for x in expr.tolist()]
    data = expr.tobytes()
    assert Poly.frombytes(data).tolist() == expr.tolist()
    assert ren.Poly is Poly


def test_printing_a_node_names_every_operation(ring: RingSpec) -> None:
    a = Poly(A, ring)
    text = str(((a + 1) * (a + 1)).node)
    assert "ADD" in text.upper()
    assert "MUL" in text.upper()
    assert text.upper().count("ADD") == 1  # shared, so named once


@pytest.mark.parametrize(
    "coefficients",
    [
        [-1, 2**100, -(2**100), 0, 1, 1648, 1649, 1650],
        np.arange(8),
        np.arange(8, dtype=np.uint8),
        np.array([-(2**63), 2**63 - 1, 0, 1, 2, 3, 4, 5], dtype=np.int64),
        np.array([2**64 - 1] * 8, dtype=np.uint64),
        [np.int32(-5)] * 8,
        range(8),
        (3,) * 8,
    ],
)
def test_coefficients_of_any_integer_kind(ring: RingSpec, coefficients) -> None:
    assert Poly(coefficients, ring).tolist() == [int(c) % ring.q for c in coefficients]


def test_properties(ring: RingSpec) -> None:
    a = Poly(A, ring)
    assert (a.ring, a.domain) == (ring, Domain.COEFF)
    assert a.ntt().domain is Domain.NTT
    assert (a * a).domain is Domain.NTT
    assert a.limbs.shape == (2, 8)
    assert a.limbs.dtype == np.uint32
    assert Poly.const(3, ring).ntt().intt().tolist() == [3, 0, 0, 0, 0, 0, 0, 0]
    assert a.contiguous().tolist() == a.tolist()


def test_constants_allocate_nothing(ring: RingSpec) -> None:
    assert Poly.const(-1, ring).tolist() == oracle.constant(-1, 8, ring.q)
    assert Poly.zeros(ring).tolist() == [0] * 8
    assert jax.tree.leaves([Poly.const(5, ring), Poly.zeros(ring)]) == []
    assert (Poly.const(5, ring) + Poly.const(2**70, ring)).tolist()[0] == (5 + 2**70) % ring.q
    assert len(jax.tree.leaves(Poly.const(5, ring) + Poly(A, ring))) == 1


def test_rotation_by_the_order_of_five_is_the_identity(ring: RingSpec) -> None:
    a = Poly(A, ring)
    assert a.rotate(1).tolist() == oracle.automorphism(A, 5, ring.q)
    assert a.rotate(-1).rotate(1).tolist() == A
    assert a.rotate(ring.n // 2).tolist() == A
    assert a.automorphism(-1).automorphism(-1).tolist() == A


def test_realize_runs_pytrees_as_one_program(ring: RingSpec) -> None:
    a, b = Poly(A, ring), Poly(B, ring)
    shared = a * b
    out = ren.realize({"sum": shared + a}, [shared - b, 3])
    assert out[0]["sum"].is_realized
    assert out[1][0].is_realized
    assert out[1][1] == 3
    product = oracle.mul(A, B, ring.q)
    assert out[0]["sum"].tolist() == oracle.add(product, A, ring.q)
    assert out[1][0].tolist() == oracle.sub(product, B, ring.q)
    one = ren.realize(shared)
    assert one.tolist() == product


def test_realize_runs_others_in_the_same_program(ring: RingSpec) -> None:
    a, b = Poly(A, ring), Poly(B, ring)
    shared = a * b
    total, rest = shared + a, shared - b
    with ren.trace() as trace:
        assert total.realize(rest) is total and rest.is_realized
    work = [(record.name, record.device) for record in trace.records]
    again, other = Poly(A, ring), Poly(B, ring)
    with ren.trace() as trace:
        ren.realize(again * other + again, again * other - other)
    assert work == [(record.name, record.device) for record in trace.records]
    assert total.tolist() == oracle.add(oracle.mul(A, B, ring.q), A, ring.q)
    assert rest.tolist() == oracle.sub(oracle.mul(A, B, ring.q), B, ring.q)
    with pytest.raises(ren.errors.OperandError, match=r"(?s)got a list.*ren\.realize"):
        (total + 1).realize([rest])  # pyright: ignore[reportArgumentType]


def test_equality_is_of_programs_and_survives_realization(ring: RingSpec) -> None:
    a, b = Poly(A, ring), Poly(B, ring)
    first, second, other = a * b + 1, a * b + 1, a * b + 2
    assert first == second
    assert hash(first) == hash(second)
    assert first != other
    assert first.node is second.node
    before = hash(first)
    first.realize()
    assert first == second and second.is_realized
    assert hash(first) == before
    assert first != A
    assert len({first, second, other}) == 2
    assert Poly(A, ring) == Poly(A, ring) or ren.equal(Poly(A, ring), Poly(A, ring))


def test_equal_compares_values(ring: RingSpec) -> None:
    a, b = Poly(A, ring), Poly(B, ring)
    assert ren.equal((a + b) * a, a * a + b * a)
    assert ren.equal(a, a.ntt())
    assert not ren.equal(a, b)


def test_to_a_device_and_back(ring: RingSpec) -> None:
    a = Poly(A, ring)
    there = a.to("python")
    assert isinstance(there.realize().limbs, np.ndarray)
    assert there.device == "python"
    assert (there * there).tolist() == oracle.mul(A, A, ring.q)
    assert there.to(jax.devices()[0]).tolist() == A
    assert isinstance((there * there).realize().limbs, np.ndarray)


def test_batches(ring: RingSpec) -> None:
    rows = [[A, B, A], [B, B, A]]
    p = Poly(np.array(rows), ring)
    assert p.limbs.shape == (2, 3, 2, 8)
    assert p.tolist() == rows
    single = Poly(B, ring)
    assert (p * single).tolist() == [[oracle.mul(x, B, ring.q) for x in row] for row in rows]
    assert (single - p + 1).tolist() == [
        [oracle.add(oracle.sub(B, x, ring.q), oracle.constant(1, 8, ring.q), ring.q) for x in row]
        for row in rows
    ]
    assert p.rotate(-3).tolist() == [[oracle.rotate(x, -3, ring.q) for x in row] for row in rows]
    assert p.rescale((97,)).tolist() == [
        [oracle.rescale(x, (17, 97), (97,)) for x in row] for row in rows
    ]
    assert Poly.frombytes(p.tobytes()).tolist() == rows


# --- random polynomials ---------------------------------------------------------------------

RANDOM = {
    "uniform": lambda ring, seed: Poly.uniform(ring, seed=seed),
    "uniform_on_interval": lambda ring, seed: Poly.uniform_on_interval(-3, 4, ring, seed=seed),
    "ternary": lambda ring, seed: Poly.ternary(ring, seed=seed),
    "sparse_ternary": lambda ring, seed: Poly.sparse_ternary(ring, 16, seed=seed),
    "gaussian": lambda ring, seed: Poly.gaussian(ring, sigma=3.2, seed=seed),
}


@pytest.mark.parametrize("name", RANDOM)
def test_a_seed_is_reproducible_and_none_never_repeats(name: str, wide_ring: RingSpec) -> None:
    make = RANDOM[name]
    assert make(wide_ring, b"seed").tolist() == make(wide_ring, b"seed").tolist()
    assert make(wide_ring, b"seed").tolist() != make(wide_ring, b"other").tolist()
    first, second = make(wide_ring, None), make(wide_ring, None)
    assert first != second
    assert first.node is not second.node
    assert first.tolist() != second.tolist()
    assert first.tolist() == first.tolist()


def test_ranges_of_random_polynomials(wide_ring: RingSpec) -> None:
    values = {name: make(wide_ring, b"x").tolist(centered=True) for name, make in RANDOM.items()}
    assert set(values["ternary"]) == {-1, 0, 1}
    assert sum(map(abs, values["sparse_ternary"])) == 16
    assert set(values["sparse_ternary"]) == {-1, 0, 1}
    assert set(values["uniform_on_interval"]) <= set(range(-3, 5))
    assert {-3, 3} <= set(values["uniform_on_interval"])
    assert max(map(abs, values["gaussian"])) < 40
    assert max(map(abs, values["uniform"])) > wide_ring.q // 4


def test_seeds_differ_between_kinds_of_polynomial(wide_ring: RingSpec) -> None:
    assert (
        Poly.ternary(wide_ring, seed=b"s").tolist()
        != Poly.uniform_on_interval(-1, 1, wide_ring, seed=b"s").tolist()
    )


# --- bytes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", ["coeff", "ntt"])
def test_bytes_keep_ring_domain_and_value(wide_ring: RingSpec, domain: str) -> None:
    p = Poly.uniform(wide_ring)
    p = p.ntt() if domain == "ntt" else p
    back = Poly.frombytes(p.tobytes())
    assert (back.ring, back.domain) == (p.ring, p.domain)
    assert back.tolist() == p.tolist()
    assert back.tobytes() == p.tobytes()


def test_bytes_of_a_constant(ring: RingSpec) -> None:
    assert Poly.from_bytes(Poly.const(7, ring).to_bytes()).tolist() == [7, 0, 0, 0, 0, 0, 0, 0]


def test_damaged_bytes_raise(ring: RingSpec) -> None:
    data = Poly(A, ring).tobytes()
    for length in range(len(data)):
        with pytest.raises(ren.errors.SerializationError):
            Poly.frombytes(data[:length])
    for i in range(len(data)):
        with pytest.raises(ren.errors.SerializationError):
            Poly.frombytes(data[:i] + bytes([data[i] ^ 0x41]) + data[i + 1 :])
    for foreign in (b"", b"PK\x03\x04" * 40, data + b"\0", data * 2):
        with pytest.raises(ren.errors.SerializationError):
            Poly.frombytes(foreign)


def test_a_polynomial_does_not_change_with_the_array_that_it_was_made_of() -> None:
    ring = RingSpec(n=8, moduli=(17, 97))
    x = Poly(range(8), ring, device="python")
    array = np.array(x.limbs)
    y = Poly.from_limbs(array, ring)
    array[:] = 0
    assert ren.equal(x, y)


def test_limbs_on_the_host_are_read_only() -> None:
    """Programs read them later: what they hold is what was given."""
    ring = RingSpec(n=8, moduli=(17, 97))
    for x in (
        Poly(range(8), ring, device="python"),
        Poly.uniform(ring, device="python"),
        Poly(range(8), ring).to("python"),
        Poly.from_limbs(np.zeros((2, 8), np.uint32), ring),
    ):
        with pytest.raises(ValueError, match="read-only"):
            x.limbs[:] = 0
    array = np.zeros((2, 8), np.uint32)
    view = array.view()
    view.flags.writeable = False
    x = Poly.from_limbs(view, ring)
    array[:] = 1
    assert x.tolist() == [0] * 8


@pytest.mark.parametrize("n", [2, 4, 8, 64])
@pytest.mark.parametrize("count", [1, 3])
def test_values_are_those_at_odd_powers_of_the_root(n: int, count: int) -> None:
    ring = RingSpec(n, RingSpec.primes(n, 30, count))
    q, psi = ring.q, ring.root
    assert pow(psi, n, q) == q - 1
    draw = np.random.default_rng(n)
    batch = [[int(c) << 40 for c in draw.integers(-(1 << 40), 1 << 40, n)] for _ in range(2)]
    points = [pow(psi, 2 * j + 1, q) for j in range(n)]
    want = [[sum(c * pow(x, i, q) for i, c in enumerate(p)) % q for x in points] for p in batch]
    p = Poly(batch, ring)
    assert p.values().tolist() == want
    assert (p[0] * p[1]).values().tolist() == [a * b % q for a, b in zip(*want, strict=True)]
    back = Poly.from_values(want, ring)
    assert back.domain is Domain.NTT and back.tolist() == [[c % q for c in p] for p in batch]
    shifted = [[w - 5 * q for w in row] for row in want]  # of any size and sign
    assert Poly.from_values(shifted, ring).tolist() == back.tolist()


def test_values_among_the_arguments_are_inputs_of_the_plan(ring: RingSpec) -> None:
    f = ren.jit(lambda v, p: Poly.from_values(v, p.ring) * p)
    p = Poly(A, ring)
    for v in (np.arange(8), np.array(B)):
        want = [int(a) * b % ring.q for a, b in zip(v, p.values(), strict=True)]
        assert f(v, p).values().tolist() == want
    assert f.cache_info()[:2] == (1, 1)


def test_what_has_no_values_says_what_to_take(ring: RingSpec) -> None:
    general = RingSpec(256, 3329)
    for call in (Poly([1], general).values, lambda: Poly.from_values([1] * 256, general)):
        with pytest.raises(ren.RenError, match=r"q = 1 \(mod 512\).*\n.*RingSpec\.primes\(256"):
            call()
    with pytest.raises(ren.RenError, match=r"shape \(3,\) for n = 8.*\n.*8 values"):
        Poly.from_values([1, 2, 3], ring)
    with pytest.raises(ren.RenError, match=r"Poly\.from_values\(\) got the number 1\.5"):
        Poly.from_values([1.5] * 8, ring)
    with pytest.raises(ren.RenError, match=r"shape \(\) for n = 8"):
        Poly.from_values(3, ring)
