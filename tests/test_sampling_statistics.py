"""Statistics of the samplers beyond test_sampling.py: exact tables, moments, tails, independence.

Seeds are fixed, so each test has one outcome. Bounds are `Z_LIMIT` standard deviations.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from ren import sampling
from ren.sampling import (
    Xof,
    gaussian,
    sparse_ternary,
    ternary,
    uniform_integers,
    uniform_residues,
)
from tests.test_sampling import Z_LIMIT, chi_square, source

COUNT = 1 << 18
SIGMA = 3.2
Q = 786433


def exact_masses(sigma: float, digits: int = 60) -> list[Decimal]:
    """P(x) of the discrete Gaussian for x from -t to t, t the end of the sampler's table."""
    half = len(sampling.gaussian_table(sigma)) // 2
    with localcontext() as context:
        context.prec = digits
        scale = -1 / (2 * Decimal(sigma) ** 2)
        weights = [(scale * x * x).exp() for x in range(-half, half + 1)]
        total = sum(weights, Decimal(0))
        return [weight / total for weight in weights]


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.19, 3.2, 19.5])
def test_gaussian_table_is_the_exact_distribution(sigma):
    table, running = sampling.gaussian_table(sigma).tolist(), Decimal(0)
    masses = exact_masses(sigma)
    assert len(masses) == len(table) + 1
    with localcontext() as context:
        context.prec = 60
        for step, mass in zip(table, masses, strict=False):
            running += mass
            assert abs(running * (1 << 64) - step) <= 1


def test_gaussian_table_ends_where_no_mass_is_left():
    """The tail beyond the table has less mass than one step of it."""
    with localcontext() as context:
        context.prec = 60
        first = 10 * Decimal(SIGMA)
        beyond = sum((-((first + x) ** 2) / (2 * Decimal(SIGMA) ** 2)).exp() for x in range(64))
        assert 2 * beyond / Decimal(SIGMA) < Decimal(2) ** -64


def test_gaussian_moments():
    """Mean, variance, skewness and kurtosis are those of the exact table."""
    values = gaussian(source("moments"), 1 << 20, SIGMA).astype(np.float64)
    mass = np.array([float(m) for m in exact_masses(SIGMA)])
    half = len(mass) // 2
    support = np.arange(-half, half + 1, dtype=np.float64)
    for power in (1, 2, 3, 4, 6):
        mean, square = (float((support**k * mass).sum()) for k in (power, 2 * power))
        deviation = math.sqrt((square - mean**2) / len(values))
        assert abs((values**power).mean() - mean) < Z_LIMIT * deviation


def test_gaussian_counts_are_those_of_the_exact_table():
    values = gaussian(source("counts"), 1 << 21, SIGMA)
    mass = np.array([float(m) for m in exact_masses(SIGMA)])
    half = len(mass) // 2
    counts = np.bincount(values + half, minlength=len(mass))
    common = mass * len(values) > 20
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(mass[common], mass[~common].sum())
    assert chi_square(observed, expected) < Z_LIMIT


@pytest.mark.parametrize("least", [3, 4, 5])
def test_gaussian_tails_hold_their_mass_on_both_sides(least):
    values = gaussian(source("tails"), 1 << 22, SIGMA)
    bound = math.ceil(least * SIGMA)
    masses = exact_masses(SIGMA)
    expected = float(sum(masses[len(masses) // 2 + bound :])) * len(values)
    for side in (values, -values):
        found = int((side >= bound).sum())
        assert abs(found - expected) < Z_LIMIT * math.sqrt(expected) + 1


def drawn(name: str, xof: Xof, count: int = COUNT) -> NDArray[np.float64]:
    """Samples of one sampler, centred and of variance 1."""
    made = {
        "residues": lambda: uniform_residues(xof, count, (Q,))[0],
        "integers": lambda: uniform_integers(xof, -1000, 1001, count),
        "ternary": lambda: ternary(xof, count),
        "sparse": lambda: sparse_ternary(xof, count, count // 4),
        "gaussian": lambda: gaussian(xof, count, SIGMA),
    }[name]().astype(np.float64)
    return (made - made.mean()) / made.std()


SAMPLERS = ("residues", "integers", "ternary", "sparse", "gaussian")


def assert_uncorrelated(a: NDArray, b: NDArray) -> None:
    """Products of samples have mean 0: values, and sizes, which signs do not hide."""
    for x, y in ((a, b), (np.abs(a), np.abs(b))):
        x, y = x - x.mean(), y - y.mean()
        deviation = x.std() * y.std() * math.sqrt(len(x))
        assert abs(float((x * y).sum())) < Z_LIMIT * deviation


@pytest.mark.parametrize("name", SAMPLERS)
def test_streams_of_other_seeds_and_domains_are_independent(name):
    seeds = (b"\0" * 32, b"\0" * 31 + b"\1", b"\1" + b"\0" * 31)
    streams = [Xof(seed, domain) for seed in seeds for domain in (b"a", b"b")]
    for a, b in combinations([drawn(name, xof) for xof in streams], 2):
        assert_uncorrelated(a, b)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("lag", [1, 2, 8, 510, 1020, 4080])
def test_samples_of_one_stream_are_independent(name, lag):
    """The lags meet words, vectors of lanes and whole chunks of the stream."""
    values = drawn(name, source(f"lag {name}"))
    assert_uncorrelated(values[lag:], values[:-lag])


@pytest.mark.parametrize("name", SAMPLERS)
def test_draws_that_follow_each_other_are_independent(name):
    xof = source(f"again {name}")
    assert_uncorrelated(drawn(name, xof), drawn(name, xof))


def test_residues_of_several_limbs_are_independent():
    """Pairs of residues are uniform on a grid of 16 by 16 cells."""
    moduli = (Q, (1 << 30) - 35, 65537)
    limbs = uniform_residues(source("limbs"), COUNT, moduli).astype(np.int64)
    cells = [limb * 16 // q for limb, q in zip(limbs, moduli, strict=True)]
    edges = [np.array([-(-c * q // 16) for c in range(17)]) for q in moduli]
    for i, j in combinations(range(3), 2):
        counts = np.bincount(16 * cells[i] + cells[j], minlength=256)
        shares = np.outer(np.diff(edges[i]) / moduli[i], np.diff(edges[j]) / moduli[j])
        assert chi_square(counts, shares.ravel()) < Z_LIMIT


def test_ternary_neighbours_are_uniform_pairs():
    values = ternary(source("pairs"), 900_000).astype(np.int64) + 1
    counts = np.bincount(3 * values[::2] + values[1::2], minlength=9)
    assert chi_square(counts, np.full(9, 1 / 9)) < Z_LIMIT


@pytest.mark.parametrize("n", [1 << 10, 1 << 13])
def test_sparse_ternary_signs_and_halves_are_balanced(n):
    """As many +1 as -1, and as many positions in each half, as draws without replacement give."""
    weight, rounds = n // 8, 200
    xof = source(f"balance {n}")
    draws = np.stack([sparse_ternary(xof, n, weight) for _ in range(rounds)]).astype(np.int64)
    assert abs(draws.sum()) < Z_LIMIT * math.sqrt(rounds * weight)
    left = np.abs(draws[:, : n // 2]).sum(1)
    variance = weight / 4 * (n - weight) / (n - 1)
    assert abs(left.sum() - rounds * weight / 2) < Z_LIMIT * math.sqrt(rounds * variance)
    assert abs(left.var() / variance - 1) < Z_LIMIT * math.sqrt(2 / rounds)
