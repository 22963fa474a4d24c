"""Integers to residues and back, against Python integers."""

from __future__ import annotations

import math
from itertools import islice

import jax
import numpy as np
import pytest

import ren
from ren.core.numtheory import ntt_primes_below
from ren.lowering.backends.xla import jax_executable
from ren.lowering.devices.devices import wide
from ren.lowering.kernels import integers as kernels
from ren.lowering.runtime import host_arrays
from ren.poly.integers import to_limbs
from tests.rings import primes

N = 64
ENDS = (0, 1, -1, 2**31, -(2**31), 2**32 - 1, 2**62, -(2**62), 2**63 - 1, -(2**63))


def limbs_of(values: list[int], moduli: tuple[int, ...]) -> np.ndarray:
    """The Montgomery residues of Python integers, uint32 [limb, n]."""
    return np.array([[v * 2**32 % q for v in values] for q in moduli], np.uint32)


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize("limbs", [1, 5])
def test_residues_of_any_int64(limbs, batch):
    moduli = (*primes(N)[: limbs // 2], *primes(N)[limbs // 2 - limbs :])
    rng = np.random.default_rng(limbs)
    values = rng.integers(-(2**63), 2**63, (*batch, N))
    values[..., : len(ENDS)] = ENDS
    got = host_arrays.residues(values, moduli)
    assert got.dtype == np.uint32 and got.shape == (*batch, limbs, N)
    for index in np.ndindex(batch):
        assert np.array_equal(got[index], limbs_of(values[index].tolist(), moduli))


@pytest.mark.parametrize("kind", ["small", "int64", "uint64", "object"])
@pytest.mark.parametrize("batch", [(), (3,), (2, 700), (0,)], ids=str)
def test_coefficients_to_limbs(kind, batch):
    """On the host, piece by piece: small moduli in Montgomery form, wide ones as words."""
    moduli = (97, 2**30 - 35, 2**61 - 1)
    rng = np.random.default_rng(2)
    values = rng.integers(-(2**63), 2**63, (*batch, N))
    if values.size:
        values[..., : len(ENDS)] = ENDS
    if kind == "small":
        values = values % 193 - 96
    elif kind == "uint64":
        values = values.astype(np.uint64)
    elif kind == "object":
        values = values.astype(object) * 2**70 + 5
    got = to_limbs(values, moduli)
    assert got.dtype == np.uint32 and got.shape == (*batch, 4, N)
    given = values.astype(object)
    for i, q in enumerate(moduli[:2]):
        assert np.array_equal(got[..., i, :], given * 2**32 % q)
    words = got[..., 2, :].astype(object) + got[..., 3, :].astype(object) * 2**32
    assert np.array_equal(words, given % moduli[2])


def test_residues_stand_on_aligned_memory_and_are_concrete_in_a_trace():
    values = host_arrays.empty((3, N), np.int64)
    assert values.shape == (3, N) and values.ctypes.data % 64 == 0 and values.flags.c_contiguous
    values[:] = np.arange(N) - 7
    moduli = primes(N)[-3:]
    seen = []

    def traced(x):
        seen.append(host_arrays.residues(values, moduli))
        return x + 1

    jax.jit(traced)(1)
    assert isinstance(seen[0], jax.Array) and not isinstance(seen[0], jax.core.Tracer)
    assert np.array_equal(seen[0][1], limbs_of(values[1].tolist(), moduli))


@pytest.mark.parametrize("batch", [(), (3,)])
def test_words_of_any_int64(batch):
    values = np.random.default_rng(1).integers(-(2**63), 2**63, (*batch, N))
    values[..., : len(ENDS)] = ENDS
    words = host_arrays.words(values)
    assert words.dtype == np.uint32 and words.shape == (*batch, 2, N)
    joined = words[..., 0, :].astype(object) + words[..., 1, :].astype(object) * 2**32 - 2**63
    assert np.array_equal(joined, values)
    assert np.array_equal(host_arrays.words(values[..., ::2]), words[..., ::2])


def some_values(moduli: tuple[int, ...], count: int) -> list[int]:
    """Integers in (-Q/2, Q/2] of all sizes, the extreme ones among them."""
    half = math.prod(moduli) // 2
    rng = np.random.default_rng(len(moduli))
    values = [0, 1, -1, half, -half, half - 1, 1 - half]
    for bits in range(1, half.bit_length()):
        random = int.from_bytes(rng.bytes(200), "little") >> (1600 - bits)
        values += [(-1) ** bits * random, (1 << bits) - 1, -(1 << bits)]
    spread = len(values) // count + 1
    return [*values[:7], *values[7::spread], *[half] * count][:count]


def check_floats(got: np.ndarray, values: list[int]) -> None:
    for x, v in zip(got.tolist(), values, strict=True):
        assert abs(int(x) - v) << 52 <= abs(v)


@pytest.fixture(params=["auto", False], ids=["native", "xla"])
def setting(request):
    """With native kernels, where there is a compiler, and without."""
    with ren.config.update(native=request.param):
        yield request.param


@pytest.mark.parametrize("n", [4, 64, 1024])
@pytest.mark.parametrize("limbs", [1, 2, 3, 4, 5, 8, 9, 13, 20])
def test_centered_is_within_52_bits(setting, limbs, n):
    # The last moduli are of all sizes: the largest, the smallest and one between.
    chosen = primes(N)
    moduli = (*chosen[1:18], chosen[20], chosen[-1], chosen[0])[-limbs:]
    values = some_values(moduli, n)
    residues = jax.device_put(limbs_of(values, moduli))
    got = host_arrays.centered(residues, moduli)
    assert got.dtype == np.float64 and got.shape == (n,)
    check_floats(got, values)


def test_centered_of_batches(setting):
    moduli = primes(N)[-6:]
    values = [some_values(moduli, N), [0] * N, some_values(moduli[1:], N), [-1] * N]
    limbs = np.stack([limbs_of(v, moduli) for v in values]).reshape(2, 2, 6, N)
    for given in (limbs, jax.device_put(limbs)):  # of the python device, and of JAX's
        got = host_arrays.centered(given, moduli)
        assert got.shape == (2, 2, N)
        for found, expected in zip(got.reshape(4, N), values, strict=True):
            check_floats(found, expected)


def test_centered_is_exact_below_53_bits(setting):
    moduli = primes(N)[-4:]
    rng = np.random.default_rng(1)
    values = [*rng.integers(-(2**53), 2**53, N - 2).tolist(), 2**53, -(2**53)]
    got = host_arrays.centered(jax.device_put(limbs_of(values, moduli)), moduli)
    assert [int(x) for x in got] == values and not np.signbit(got[np.array(values) == 0]).any()


@pytest.mark.long
def test_centered_by_native_code_is_that_of_xla():
    moduli, rng = primes(N)[-9:], np.random.default_rng(9)
    limbs = np.stack([rng.integers(0, q, 1 << 12) for q in moduli])
    found = []
    for native in ("auto", False):
        with ren.config.update(native=native):
            found.append(host_arrays.centered(jax.device_put(limbs.astype(np.uint32)), moduli))
    assert np.array_equal(*found)


@pytest.mark.long
def test_centered_of_long_moduli_is_finite(setting):
    moduli = tuple(islice(ntt_primes_below(N, 1 << 30), 40))  # Q is near 2^1200
    large = [(-1) ** i * (math.prod(moduli) >> i) // 2 for i in range(1, N - 4)]
    values = [0, 1, -1, 5**400, -(5**400), *large]
    got = host_arrays.centered(jax.device_put(limbs_of(values, moduli)), moduli)
    check_floats(got[:5], values[:5])
    assert np.isfinite(got).all() and np.array_equal(got < 0, np.array(values, object) < 0)


def test_centered_has_no_control_flow():
    """The kernel is one sequence of elementwise operations: none of them depends on a value."""
    moduli = primes(N)[-6:]
    tables = kernels.float_tables(moduli)
    with wide():
        made = jax.make_jaxpr(kernels.floats)(tables, np.zeros((6, N), np.uint32))
    names = {eqn.primitive.name for eqn in made.jaxpr.eqns}
    assert names.isdisjoint({"cond", "while", "scan", "sort", "reduce_or", "reduce_max"})


def test_it_runs_through_jax_too(monkeypatch):
    monkeypatch.setattr(jax_executable, "common_place", lambda arrays: None)
    moduli = primes(N)[-4:]
    values = np.array([*ENDS, *range(-27, 27)])
    limbs = host_arrays.residues(values, moduli)
    assert np.array_equal(limbs, limbs_of(values.tolist(), moduli))
    with ren.config.update(native=False):
        check_floats(host_arrays.centered(limbs, moduli), values.tolist())
