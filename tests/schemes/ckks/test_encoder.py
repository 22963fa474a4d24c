"""The encoder against direct evaluation at zeta^(5^j) in extended precision, and exact residues."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from ren.core.errors import ParameterError
from ren.schemes.ckks.encoding import encoder

PRIMES = (786433, 1146881, 1073479681, 1072496641, 1071513601)


def evaluate(coefficients, n: int) -> np.ndarray:
    """The sums of a_m zeta^(m 5^j), j < n/2, term by term in 80-bit floats."""
    powers = [pow(5, j, 2 * n) for j in range(n // 2)]
    exponents = np.outer(powers, np.arange(n)) % (2 * n)
    angles = exponents.astype(np.longdouble) * (np.longdouble("3.14159265358979323846") / n)
    a = np.array(coefficients, np.longdouble)
    return np.cos(angles) @ a + 1j * (np.sin(angles) @ a)


def random_slots(rng, *shape):
    return rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)


@pytest.mark.parametrize("n", [4, 8, 64, 512])
def test_decode_is_evaluation(n):
    rng = np.random.default_rng(n)
    a = np.rint(rng.uniform(-1e6, 1e6, n))
    got = encoder.decode(a, n, n // 2, Fraction(7, 3))
    want = evaluate(a, n) * 3 / 7
    assert np.abs(got - want).max() < 2**-48 * np.abs(want).max()


@pytest.mark.parametrize("n", [4, 16, 256])
@pytest.mark.parametrize("scale", [1 << 40, Fraction((1 << 41) + 1, 3), 1 << 80])
def test_encode_inverts_evaluation(n, scale):
    z = random_slots(np.random.default_rng(n), n // 2)
    a = encoder.encode(z, n, n // 2, scale)
    assert np.array_equal(a, np.rint(a))
    error = np.abs(evaluate(a, n) / float(scale) - z).max()
    assert error < n / float(scale) + 2**-49


@pytest.mark.parametrize("name", ["one", "two", "few", "periodic", "falling", "mask", "random"])
@pytest.mark.parametrize("n", [256, 2048, 16384])
def test_rounding_does_not_add_up_in_single_slots(name, n):
    """The error is below what `noise.bounds` takes: 6.5 deviations of n coefficients at random.

    A deviation of one slot has equal coefficients but for signs. Those round alike; without offsets
    its error passes the bound, at some sizes.
    """
    slots, scale = n // 2, 1 << 30
    rng = np.random.default_rng(n)
    for size in 2.0 ** np.arange(-6, 14, 0.5):  # of the coefficients
        d = size * slots / scale
        z = np.full(slots, 0.75)
        if name == "one":
            z[slots // 3] += d
        elif name == "two":
            z[[7, slots // 3]] += -d, d
        elif name == "few":
            z[:5] += d
        elif name == "periodic":
            z = np.tile(rng.normal(size=slots // 8), 8)
            z[3] += d
        elif name == "falling":
            z = d * 0.9 ** np.arange(slots)
        elif name == "mask":
            z = d * (np.arange(slots) < 20)
        else:
            z = rng.normal(size=slots) * d * n**-0.5
        made = encoder.encode(z, n, slots, scale)
        error = np.abs(encoder.decode(made, n, slots, scale) - z).max() * scale
        assert error < 6.5 * (n / 12) ** 0.5 + 2.0**-50 * scale


def test_whole_coefficients_take_no_offset():
    """Numbers whose coefficients are integers stay exact; so do equal numbers, and zeros."""
    n = 1024
    rng = np.random.default_rng(0)
    a = np.rint(rng.normal(size=n) * 3)
    z = encoder.decode(a, n, n // 2, 1 << 30)
    assert np.array_equal(encoder.encode(z, n, n // 2, 1 << 30), a)
    got = encoder.encode(np.stack([np.full(n // 2, 0.3), np.zeros(n // 2)]), n, n // 2, 1 << 40)
    want = np.zeros((2, n))
    want[0, 0] = round(Fraction(0.3) * 2**40)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("slots", [1, 2, 8, 32])
def test_sparse_packing_repeats_periodically(slots):
    n = 64
    z = random_slots(np.random.default_rng(slots), slots)
    a = encoder.encode(z, n, slots, 1 << 40)
    repeated = np.tile(z, n // 2 // slots)
    assert np.abs(evaluate(a, n) / 2**40 - repeated).max() < 2**-34
    assert np.abs(encoder.decode(a, n, slots, 1 << 40) - z).max() < 2**-34
    # decode averages the repetitions
    noisy = random_slots(np.random.default_rng(5), n // 2)
    a = encoder.encode(noisy, n, n // 2, 1 << 40)
    averaged = noisy.reshape(-1, slots).mean(axis=0)
    assert np.abs(encoder.decode(a, n, slots, 1 << 40) - averaged).max() < 2**-34


@pytest.mark.parametrize("k", [1, 3, 30])
def test_the_automorphism_5_to_the_k_rotates_slots_left(k):
    n = 64
    z = random_slots(np.random.default_rng(k), n // 2)
    a = encoder.encode(z, n, n // 2, 1 << 40)
    image = np.zeros(n)
    for m in range(n):
        e = m * pow(5, k, 2 * n) % (2 * n)
        image[e % n] += a[m] if e < n else -a[m]
    got = encoder.decode(image, n, n // 2, 1 << 40)
    assert np.abs(got - np.roll(z, -k)).max() < 2**-34


def test_batches_and_padding():
    z = random_slots(np.random.default_rng(0), 2, 3, 5)
    a = encoder.encode(z, 32, 16, 1 << 40)
    assert a.shape == (2, 3, 32)
    for index in np.ndindex(2, 3):
        assert np.array_equal(a[index], encoder.encode(z[index], 32, 16, 1 << 40))
    back = encoder.decode(a, 32, 16, 1 << 40)
    assert back.shape == (2, 3, 16)
    assert np.abs(back[..., :5] - z).max() < 2**-34 and np.abs(back[..., 5:]).max() < 2**-34


@pytest.mark.parametrize("value", [0, 1, -0.5, 3.25 + 2j, -1j, 1e-3])
def test_constants_are_exact(value):
    n, scale = 16, Fraction((1 << 60) + 1, 3)
    parts = encoder.encode_constant(value, n, scale)
    exact = {0: Fraction(complex(value).real) * scale, 8: Fraction(complex(value).imag) * scale}
    assert parts == {m: round(c) for m, c in exact.items() if round(c)}
    a = np.zeros(n)
    for m, c in parts.items():
        a[m] = c
    assert np.abs(encoder.decode(a, n, 8, scale) - value).max() < 2**-50 * max(1, abs(value))


@pytest.mark.parametrize("value", [0, 3, -2.5, 1.5 - 2j, 2.0**21, 2.0**22, -(2.0**40) + 1j])
def test_coefficients_of_a_constant_are_exact_in_either_type(value):
    n, scale = 16, Fraction(2**42 + 1, 3)
    got = encoder.constant_coefficients(value, n, scale)
    parts = encoder.encode_constant(value, n, scale)
    assert got.dtype == (np.int64 if abs(value) <= 2**21 else object)
    assert {m: int(c) for m, c in enumerate(got) if c} == parts


@pytest.mark.parametrize("kind", ["small", "int64", "float", "object"])
def test_residues_are_montgomery_forms(kind):
    rng = np.random.default_rng(3)
    if kind == "small":
        values = np.array([[0.0, 1, -1, 2**53 - 1], [-(2**53), 5, 6, -7]])
    elif kind == "int64":
        values = np.append(rng.integers(-(2**63), 2**63, 14), [2**63 - 1, -(2**63)])
    elif kind == "float":
        values = np.rint(rng.standard_normal(16) * 2.0 ** np.arange(0, 160, 10))
    else:
        values = np.array([7**60, -(7**61), 0, -1], object)
    got = encoder.residues(values, PRIMES)
    assert got.dtype == np.uint32
    for index in np.ndindex(values.shape):
        want = [int(values[index]) * 2**32 % q for q in PRIMES]
        assert got[(*index[:-1], slice(None), index[-1])].tolist() == want


def test_errors():
    with pytest.raises(ParameterError, match="finite"):
        encoder.encode([1.0, np.nan], 16, 8, 1)
    with pytest.raises(ParameterError, match="finite"):
        encoder.encode_constant(float("inf"), 16, 1)


@pytest.mark.parametrize("slots", [8, 512])
def test_rows_are_encoded_as_each_by_itself(slots, monkeypatch):
    """Bit for bit, on threads; of shorter vectors, and of complex ones."""
    monkeypatch.setattr(encoder, "_ROW_NUMBERS", 2 * slots)
    z = random_slots(np.random.default_rng(slots), 3, 5, slots - 3)
    for values in (z, z.real):
        made = encoder.encode(values, 1024, slots, 1 << 40)
        for index in np.ndindex(3, 5):
            assert np.array_equal(made[index], encoder.encode(values[index], 1024, slots, 1 << 40))
    assert encoder.encode(z[:0], 1024, slots, 1).shape == (0, 5, 1024)
    z[2, 4, 1] = 1e300
    with pytest.raises(ParameterError, match="too large"):
        encoder.encode(z, 1024, slots, 1 << 60)
