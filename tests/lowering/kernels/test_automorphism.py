"""X -> X^g on coefficients and on values, against substitution in Python ints."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ren.lowering.backends.reference import arithmetic as exact
from ren.lowering.kernels import modular, substitution, tables
from tests import oracle
from tests.lowering.kernels.residues import all_residues, basis, run


def _coefficients(x: np.ndarray, g: int, moduli: tuple[int, ...]) -> np.ndarray:
    q = tables.modulus(moduli)[0]
    permutation = substitution.coefficient_permutation(x.shape[-1], g)
    return run(_permuted_and_signed, x, q, *permutation)


def _permuted_and_signed(
    x: jax.Array, q: jax.Array, index: jax.Array, negate: jax.Array
) -> jax.Array:
    """The kernels of PERMUTE and FLIP together: out[j] = x[index[j]], negated at negate[j]."""
    moved = substitution.permute_evaluations(x, index)
    return jnp.where(negate, modular.neg(moved, q), moved)


def _substituted(x: np.ndarray, g: int, moduli: tuple[int, ...]) -> np.ndarray:
    """x(X^g), row by row in Python ints."""
    rows = [
        [oracle.automorphism(row.tolist(), g, q) for row, q in zip(rows, moduli, strict=True)]
        for rows in x
    ]
    return np.array(rows, np.uint32)


def _values(x: np.ndarray, g: int) -> np.ndarray:
    permutation = substitution.evaluation_permutation(x.shape[-1], g)
    return run(substitution.permute_evaluations, x, permutation)


def _galois_elements(n: int) -> list[int]:
    return [1, 3, 5, 25 % (2 * n), n - 1, n + 1, 2 * n - 1, 2 * n + 3, -5, -1]


@pytest.mark.parametrize("n", [4, 8, 64])
def test_coefficients_are_substituted(n: int) -> None:
    moduli = basis(n, 3)
    x = all_residues(moduli, n)
    for g in _galois_elements(n):
        assert (_coefficients(x, g, moduli) == _substituted(x, g, moduli)).all()


@pytest.mark.parametrize("n", [4, 8, 64, 1 << 11])
def test_both_domains_agree(n: int) -> None:
    moduli = basis(n, 2)
    x = all_residues(moduli, n)
    y = exact.ntt(x, moduli)
    for g in _galois_elements(n):
        out = _values(y, g)
        assert (out == exact.permute_evaluations(y, g)).all()
        assert (out == exact.ntt(_substituted(x, g, moduli), moduli)).all()


def test_largest_degree() -> None:
    n, g = 1 << 17, pow(5, 12345, 1 << 18)
    moduli = basis(n, 1)
    x = all_residues(moduli, n)
    assert (_coefficients(x, g, moduli) == _substituted(x, g, moduli)).all()
    assert (_values(x, g) == exact.permute_evaluations(x, g)).all()


def test_composition_multiplies_galois_elements() -> None:
    n, moduli = 32, basis(32, 2)
    x = all_residues(moduli, n)
    twice = _coefficients(_coefficients(x, 5, moduli), 7, moduli)
    assert (twice == _coefficients(x, 35, moduli)).all()
    assert (_values(_values(x, 5), 7) == _values(x, 35)).all()


def test_zero_stays_zero_where_the_sign_flips() -> None:
    moduli = basis(8, 2)
    zero = np.zeros((2, 8), np.uint32)
    assert not _coefficients(zero, 15, moduli).any()
