"""p(Y) -> p(X^k) on coefficients and on values, against the definition in Python ints."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from ren.core.numtheory import primitive_root_of_unity
from ren.lowering.backends.reference import arithmetic as exact
from ren.lowering.kernels import substitution
from ren.lowering.kernels.order import evaluation_exponents
from tests import oracle
from tests.lowering.kernels.residues import all_residues, basis, run

DEGREES = [(4, 4), (4, 8), (4, 64), (8, 16), (16, 128), (64, 64), (32, 1 << 11)]


def _values(p: list[int], n: int, q: int) -> list[int]:
    """p(psi^e) for each exponent of degree n, by Horner's rule."""
    psi = primitive_root_of_unity(n, q)
    values = []
    for e in evaluation_exponents(n).tolist():
        point, value = pow(psi, e, q), 0
        for coefficient in reversed(p):
            value = (value * point + coefficient) % q
        values.append(value)
    return values


@pytest.mark.parametrize(("m", "n"), DEGREES)
def test_embed_coefficients_moves_coefficient_i_to_i_k(m: int, n: int) -> None:
    x = all_residues(basis(n, 3), m)
    found = run(lambda x: substitution.embed_coefficients(x, n // m), x)
    assert found.shape == (*x.shape[:-1], n)
    assert found.tolist() == [[oracle.embed(row, n) for row in limbs] for limbs in x.tolist()]


@pytest.mark.parametrize(("m", "n"), [d for d in DEGREES if d[1] <= 128])
def test_embed_values_are_those_of_p_at_powers(m: int, n: int) -> None:
    moduli, rng = basis(n, 6), np.random.default_rng(n + m)
    p = [[int(c) for c in rng.integers(0, q, m)] for q in moduli]
    small = np.array([_values(row, m, q) for row, q in zip(p, moduli, strict=True)], np.uint32)
    large = [_values(oracle.embed(row, n), n, q) for row, q in zip(p, moduli, strict=True)]
    found = run(substitution.embed_values, small, substitution.embedding_index(n, m))
    assert found.tolist() == exact.embed_evaluations(small, n).tolist() == large


@pytest.mark.parametrize(("m", "n"), [*DEGREES, (1 << 10, 1 << 17)])
def test_embed_values_is_the_transform_of_embed_coefficients(m: int, n: int) -> None:
    moduli = basis(n, 2)
    x = all_residues(moduli, m)
    wide = np.zeros((*x.shape[:-1], n), np.uint32)
    wide[..., :: n // m] = x
    found = run(substitution.embed_values, exact.ntt(x, moduli), substitution.embedding_index(n, m))
    assert np.array_equal(found, exact.ntt(wide, moduli))


@pytest.mark.parametrize("n", [4, 16, 64, 256, 1 << 12, 1 << 16, 1 << 17])
def test_repeats_tell_blocks_of_the_index_with_a_period(n: int) -> None:
    """Whole vectors of 16, or one residue; at least twice each."""
    for m in (1 << i for i in range(2, n.bit_length())):
        index, found = substitution.embedding_index(n, m), substitution.repeats(n, m)
        if found is None:
            assert n < 256 or m == n
            continue
        block, period = found
        assert block <= 2048 and n % block == 0 and (period == 1 or period % 16 == 0)
        assert block >= 2 * period and _is_periodic(index, block, period)


def _is_periodic(index: np.ndarray, block: int, period: int) -> bool:
    rows = index.reshape(-1, block)
    return all(np.array_equal(row, np.tile(row[:period], block // period)) for row in rows)


def test_embed_values_keeps_one_number_for_each_limb() -> None:
    x = np.array([[3], [5]], np.uint32)
    index = jax.numpy.asarray(substitution.embedding_index(8, 4))
    assert substitution.embed_values(x, index) is x
