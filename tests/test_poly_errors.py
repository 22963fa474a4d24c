"""Bad input says what was given, what is needed and what to do."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import ren
from ren.poly import Poly
from ren.ring import RingSpec

OTHER = RingSpec(n=8, moduli=(113,))


def error(kind: type, builtin: type, *parts: str):
    """The context that expects a `ren` error of `kind`, also a `builtin`, naming all `parts`."""
    assert issubclass(kind, ren.RenError)
    assert issubclass(kind, builtin)
    return pytest.raises(kind, match="(?s)" + "".join(f"(?=.*(?:{part}))" for part in parts))


@pytest.mark.parametrize("n", [0, 1, 3, 12, -8, 2**18, 8.0, "8", None, True])
def test_degrees(n: object) -> None:
    with error(ren.errors.RingError, ValueError, r"n=", "power of two from 2 to 131072"):
        RingSpec(n=n, moduli=(17,))  # pyright: ignore[reportArgumentType]


def test_the_nearest_degree_is_named() -> None:
    with error(ren.errors.RingError, ValueError, "n=12", "8 or 16"):
        RingSpec(n=12, moduli=(17,))


@pytest.mark.parametrize("moduli", [(15,), (17, 21), (17, 2**61), (17, 1), (-17,), (0,), (17, 2)])
def test_moduli_that_are_no_odd_prime_powers(moduli: tuple[int, ...]) -> None:
    with error(ren.errors.RingError, ValueError, str(moduli[-1]), "prime", "nearest valid primes"):
        RingSpec(n=8, moduli=moduli)


def test_the_nearest_primes_are_named() -> None:
    with error(ren.errors.RingError, ValueError, "15", "17", r"moduli=\(3, 5\)"):
        RingSpec(n=8, moduli=(15,))


@pytest.mark.parametrize("moduli", [(), (17, 17), None, (17.0,), ("17",)])
def test_moduli_of_the_wrong_kind(moduli: object) -> None:
    with error(ren.errors.RingError, ValueError, "modul"):
        RingSpec(n=8, moduli=moduli)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("count", [9, 16])
def test_too_many_coefficients(ring: RingSpec, count: int) -> None:
    with error(ren.errors.CoefficientError, ValueError, rf"\b{count}\b", r"\b8\b"):
        Poly(list(range(count)), ring)


@pytest.mark.parametrize(
    "coefficients",
    [[0.5] * 8, [1.0] * 8, np.ones(8), [None] * 8, ["1"] * 8, [1j] * 8, 3, "12345678"],
)
def test_coefficients_that_are_no_integers(ring: RingSpec, coefficients: object) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        Poly(coefficients, ring)  # pyright: ignore[reportArgumentType]
    assert isinstance(caught.value, ren.RenError)
    assert "int" in str(caught.value)


@pytest.mark.parametrize("operate", [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b])
def test_two_rings_in_one_operation(ring: RingSpec, operate) -> None:
    a, b = Poly.const(1, ring) + Poly([0] * 8, ring), Poly([1] * 8, OTHER)
    with error(ren.errors.RingMismatchError, ValueError, "97", "113", "to_ring|rescale"):
        operate(a, b)


@pytest.mark.parametrize("moduli", [(17, 97), (97, 17), (17, 97, 113)])
def test_a_rescale_that_divides_nothing_away(ring: RingSpec, moduli: tuple[int, ...]) -> None:
    with error(ren.errors.RingMismatchError, ValueError, "rescale", "to_ring"):
        Poly([1] * 8, ring).rescale(moduli)


def test_rescale_to_moduli_of_another_degree(ring: RingSpec) -> None:
    with error(ren.errors.RingError, ValueError, "21"):
        Poly([1] * 8, ring).rescale((21,))
    with error(ren.errors.RingMismatchError, ValueError, "16"):
        Poly([1] * 8, ring).to_ring(RingSpec(n=16, moduli=(97,)))


@pytest.mark.parametrize("operand", [0.5, 1.0, "x", None, 1j, np.float64(2)])
def test_operands_that_are_no_integers(ring: RingSpec, operand: object) -> None:
    a = Poly([1] * 8, ring)
    with pytest.raises(TypeError):
        a + operand  # pyright: ignore[reportOperatorIssue]
    with pytest.raises(TypeError):
        operand * a  # pyright: ignore[reportOperatorIssue]


@pytest.mark.parametrize("exponent", [-1, 0.5, 2.0, "2", None])
def test_exponents(ring: RingSpec, exponent: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        Poly([1] * 8, ring) ** exponent  # pyright: ignore[reportOperatorIssue]


@pytest.mark.parametrize("g", [0, 2, -4])
def test_even_automorphisms(ring: RingSpec, g: int) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        Poly([1] * 8, ring).automorphism(g)
    assert isinstance(caught.value, ren.RenError)
    assert "odd" in str(caught.value)


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        (RingSpec(4, (17, 97)), ("degree 4", "degree 8", "same or a larger degree")),
        (RingSpec(16, (97,)), ("never the moduli", r"RingSpec\(n=16, moduli=x.ring.moduli\)")),
        (RingSpec(8, (97, 17)), ("or their order",)),
    ],
)
def test_embeddings_that_do_not_fit(ring: RingSpec, target: RingSpec, parts: tuple) -> None:
    with error(ren.errors.RingMismatchError, ValueError, "embed got", *parts):
        Poly([1] * 8, ring).embed(target)


def test_an_embedding_into_what_is_not_a_ring(ring: RingSpec) -> None:
    with error(ren.errors.RingError, ValueError, "RingSpec"):
        Poly([1] * 8, ring).embed(16)  # pyright: ignore[reportArgumentType]


def test_a_sum_of_two_degrees_names_embed() -> None:
    a, b = (Poly([1] * 4, RingSpec(n, (97,))) for n in (8, 16))
    with error(ren.errors.RingMismatchError, ValueError, "n=8", "n=16", r"x\.embed\(ring\)"):
        a + b


def test_polynomials_on_two_devices(ring: RingSpec) -> None:
    a, b = Poly([1] * 8, ring), Poly([1] * 8, ring, device="python")
    with error(ren.errors.DeviceError, ValueError, "python", r"\.to\("):
        (a + b).realize()


def test_devices_that_do_not_exist(ring: RingSpec) -> None:
    with error(ren.errors.DeviceError, ValueError, "abacus"):
        Poly([1] * 8, ring).to("abacus").realize()


@pytest.mark.parametrize("seed", ["text", 7, 0.5])
def test_seeds_that_are_no_bytes(ring: RingSpec, seed: object) -> None:
    with pytest.raises(ren.RenError, match="bytes"):
        Poly.uniform(ring, seed=seed)  # pyright: ignore[reportArgumentType]


def test_distributions_that_cannot_be(ring: RingSpec) -> None:
    for make in (
        lambda: Poly.sparse_ternary(ring, 9),
        lambda: Poly.sparse_ternary(ring, -1),
        lambda: Poly.uniform_on_interval(3, 2, ring),
        lambda: Poly.gaussian(ring, sigma=-1.0),
    ):
        with pytest.raises(ren.RenError):
            make()


def test_a_polynomial_has_no_truth_value_and_no_length(ring: RingSpec) -> None:
    a = Poly([1] * 8, ring)
    with pytest.raises(TypeError):
        len(a)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        iter(a)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("data", [b"", b"ren", "text", None, 7])
def test_bytes_that_are_none(data: object) -> None:
    with pytest.raises(ren.errors.SerializationError):
        Poly.frombytes(data)  # pyright: ignore[reportArgumentType]


def test_traced_coefficients_are_told(ring: RingSpec) -> None:
    with pytest.raises(ren.errors.TracedValueError, match=r"test_poly_errors.py:\d+ makes a poly"):
        jax.jit(lambda c: Poly(c, ring))(np.arange(8))


@pytest.mark.parametrize("batch", [(-1,), (2.0,), (True,), "ab", None, (2, -1)])
def test_batches_of_random_polynomials(ring: RingSpec, batch: object) -> None:
    for draw in (Poly.uniform, Poly.ternary, ren.spec):
        with error(ren.errors.DomainError, ValueError, "batch=", r"batch=\(8,\)"):
            draw(ring, batch=batch)
    with error(ren.errors.DomainError, ValueError, "batch="):
        ren.jit(lambda p: p + Poly.uniform(ring, batch=batch))(Poly([1], ring))


@pytest.mark.parametrize("batch", [(0,), (2, 0), [3], 3, np.int64(2)])
def test_batches_of_any_length(ring: RingSpec, batch: object) -> None:
    shape = tuple(np.atleast_1d(batch))
    for p in (Poly.uniform(ring, batch=batch), Poly.gaussian(ring, sigma=3.2, batch=batch)):  # pyright: ignore[reportArgumentType]
        assert p.shape[:-2] == (p * p + 1).shape[:-2] == shape
        assert np.shape((p * 3).coefficients()) == (*shape, 8)


def test_limbs_that_are_no_residues(ring: RingSpec) -> None:
    limbs = np.zeros((2, 8), np.uint32)
    limbs[1, 3] = 97
    with error(ren.errors.DomainError, ValueError, "97 for the modulus 97", "Poly\\(coefficients"):
        Poly.from_limbs(limbs, ring)
    limbs[1, 3] = 96
    assert (-Poly.from_limbs(limbs, ring) + Poly.from_limbs(limbs, ring)).tolist() == [0] * 8
    wide = RingSpec(8, ((1 << 61) - 1,))
    with error(ren.errors.DomainError, ValueError, f"for the modulus {wide.q}"):
        Poly.from_limbs(np.full((2, 8), (1 << 32) - 1, np.uint32), wide)
    assert Poly.from_limbs(Poly([-1], wide).to("python").limbs, wide).tolist()[0] == wide.q - 1
    with error(ren.errors.DomainError, ValueError, "'NTT'", "ren.Domain.NTT"):
        Poly.from_limbs(limbs, ring, "NTT")  # pyright: ignore[reportArgumentType]


def test_a_rescale_by_what_has_no_inverse() -> None:
    for moduli, new in (((3, 17), (9,)), ((9, 17), (3, 17))):
        with error(ren.errors.RingMismatchError, ValueError, "a multiple of 3", "to_ring"):
            Poly([1, 2, 3], RingSpec(8, moduli)).rescale(new)


def test_a_power_with_a_modulus(ring: RingSpec) -> None:
    with error(ren.errors.OperandError, TypeError, "pow\\(\\)", "% m"):
        pow(Poly([1], ring), 2, 3)  # pyright: ignore[reportArgumentType, reportCallIssue]
