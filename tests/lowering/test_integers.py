"""Integers to residues and back, against Python integers."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from ren.lowering import integers
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
    got = integers.residues(values, moduli)
    assert got.dtype == np.uint32 and got.shape == (*batch, limbs, N)
    for index in np.ndindex(batch):
        assert np.array_equal(got[index], limbs_of(values[index].tolist(), moduli))


def test_residues_stand_on_aligned_memory_and_are_concrete_in_a_trace():
    values = integers.empty((3, N), np.int64)
    assert values.shape == (3, N) and values.ctypes.data % 64 == 0 and values.flags.c_contiguous
    values[:] = np.arange(N) - 7
    moduli = primes(N)[-3:]
    seen = []

    def traced(x):
        seen.append(integers.residues(values, moduli))
        return x + 1

    jax.jit(traced)(1)
    assert isinstance(seen[0], jax.Array) and not isinstance(seen[0], jax.core.Tracer)
    assert np.array_equal(seen[0][1], limbs_of(values[1].tolist(), moduli))


@pytest.mark.parametrize("batch", [(), (3,)])
def test_words_of_any_int64(batch):
    values = np.random.default_rng(1).integers(-(2**63), 2**63, (*batch, N))
    values[..., : len(ENDS)] = ENDS
    words = integers.words(values)
    assert words.dtype == np.uint32 and words.shape == (*batch, 2, N)
    joined = words[..., 0, :].astype(object) + words[..., 1, :].astype(object) * 2**32 - 2**63
    assert np.array_equal(joined, values)
    assert np.array_equal(integers.words(values[..., ::2]), words[..., ::2])


def value_of(digits: np.ndarray, negative: bool, moduli: tuple[int, ...]) -> int:
    weights = [math.prod(moduli[:i]) for i in range(len(moduli))]
    total = sum(int(v) * w for v, w in zip(digits, weights, strict=True))
    return total - math.prod(moduli) * bool(negative)


@pytest.mark.parametrize(("limbs", "count"), [(1, 1), (2, 1), (2, 2), (5, 2), (6, 3), (7, 4)])
def test_digits_of_small_integers(limbs, count):
    # The last moduli are of all sizes: the largest, the smallest and one between.
    chosen = primes(N)
    moduli = (*chosen[1:7], chosen[20], chosen[-1], chosen[0])[-limbs:]
    last = moduli[-count:]
    half = math.prod(last) // 2
    rng = np.random.default_rng(limbs)
    values = [0, 1, -1, half, -half, half - 1, 1 - half]
    values += [
        int(rng.integers(2**62)) ** 3 % (2 * half + 1) - half for _ in range(N - len(values))
    ]
    found, negative = integers.digits(jax.device_put(limbs_of(values, moduli)), moduli, count)
    assert found.dtype == np.uint32 and found.shape == (count, N)
    for i, v in enumerate(values):
        assert value_of(found[:, i], negative[i], last) == v
        assert negative[i] == (v < 0)


@pytest.mark.parametrize("place", [0, 31, N - 1])
@pytest.mark.parametrize("batch", [0, 1])
def test_digits_tell_of_one_larger_integer(place, batch):
    moduli = primes(N)[-6:]
    small = math.prod(moduli[-2:])
    for value in (small // 2 + 1, -(small // 2) - 1, small, math.prod(moduli) // 2, 5**60):
        values = [[3] * N, [-4] * N]
        values[batch][place] = value
        limbs = jax.device_put(np.stack([limbs_of(v, moduli) for v in values]))
        assert integers.digits(limbs, moduli, 2) is None
        values[batch][place] = small // 2
        limbs = jax.device_put(np.stack([limbs_of(v, moduli) for v in values]))
        found, negative = integers.digits(limbs, moduli, 2)
        found, negative = found[batch, :, place], negative[batch, place]
        assert value_of(found, negative, moduli[-2:]) == small // 2


@pytest.mark.parametrize("limb", range(6))
def test_digits_are_checked_against_every_limb(limb):
    moduli = primes(N)[-6:]
    limbs = limbs_of([12345] * N, moduli)
    assert integers.digits(jax.device_put(limbs), moduli, 2) is not None
    limbs[limb, 17] ^= 1
    assert integers.digits(jax.device_put(limbs), moduli, 2) is None


def test_it_runs_through_jax_too(monkeypatch):
    monkeypatch.setattr(integers, "common_place", lambda arrays: None)
    moduli = primes(N)[-4:]
    values = np.array([*ENDS, *range(-27, 27)])
    limbs = integers.residues(values, moduli)
    assert np.array_equal(limbs, limbs_of(values.tolist(), moduli))
    assert integers.digits(limbs, moduli, 2) is None  # 2^63 is above 2^60
    found, negative = integers.digits(limbs, moduli, 3)
    for i, v in enumerate(values.tolist()):
        assert value_of(found[:, i], negative[i], moduli[-3:]) == v
