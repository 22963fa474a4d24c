"""Modular arithmetic against Python ints, at the edges of every range that the docstrings state."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from ren.lowering.backends.reference import arithmetic as exact
from ren.lowering.kernels import modular, tables
from tests.lowering.kernels.residues import R, all_residues, basis, run

MODULI = basis(4, 8)  # 17 first, then the largest below 2^30
N = 64
Q, QINV = tables.modulus(MODULI)
A, B = all_residues(MODULI, N, seed=1), all_residues(MODULI, N, seed=2)[[1, 1, 2, 3, 4]]


def _expect(result: np.ndarray, oracle: object, *operands: np.ndarray) -> None:
    rows = [np.broadcast_to(a, result.shape).astype(object) for a in operands]
    q = np.array(MODULI, object)[:, None]
    assert (result.astype(object) == oracle(*rows, q)).all()  # type: ignore[operator]


def test_add_sub_neg() -> None:
    _expect(run(modular.add, A, B, Q), lambda a, b, q: (a + b) % q, A, B)
    _expect(run(modular.sub, A, B, Q), lambda a, b, q: (a - b) % q, A, B)
    _expect(run(modular.neg, A, Q), lambda a, q: -a % q, A)


def test_inverse_of_the_modulus() -> None:
    products = Q.astype(object) * QINV.astype(object) % R
    assert (products == 1).all()


def test_mont_mul() -> None:
    inverses = np.array([pow(R, -1, q) for q in MODULI], object)[:, None]
    _expect(run(modular.mont_mul, A, B, Q, QINV), lambda a, b, q: a * b * inverses % q, A, B)


def test_mont_mul_takes_any_word_as_its_first_operand() -> None:
    words = np.array([0, 1, R - 1, R // 2, R - 2**30], np.uint32).reshape(5, 1, 1)
    inverses = np.array([pow(R, -1, q) for q in MODULI], object)[:, None]
    _expect(
        run(modular.mont_mul, words, B, Q, QINV), lambda a, b, q: a * b * inverses % q, words, B
    )


@pytest.mark.parametrize("terms", [1, 2, 4, 5, 15, 16, 17, 20, 33])
def test_mul_sum_at_its_bounds(terms: int) -> None:
    # First operands just under 2^30 whatever the modulus is, second ones q - 1: the largest sums.
    a = [np.full((1, 1), (1 << 30) - 1 - t, np.uint32) for t in range(terms)]
    b = [Q - 1 - (t % 3 == 2) for t in range(terms)]
    out = run(lambda a, b, q, i: modular.mul_sum(list(zip(a, b, strict=True)), q, i), a, b, Q, QINV)
    for q, row, *factors in zip(MODULI, out, *b, strict=True):
        total = sum(int(x[0, 0]) * int(w[0]) for x, w in zip(a, factors, strict=True))
        assert int(row[0]) == total * pow(R, -1, q) % q


def test_mul_sum_of_zeros() -> None:
    zero = np.zeros((1, 1), np.uint32)
    assert not run(lambda a, b, q, i: modular.mul_sum([(a, b)], q, i), zero, zero, Q, QINV).any()


def test_shoup_products() -> None:
    w, companions = tables.shoup(B[4].astype(np.uint64), MODULI)
    words = np.array([0, 1, R - 1, R // 2, 12345], np.uint32).reshape(5, 1, 1)
    _expect(run(modular.shoup_mul, words, w, companions, Q), lambda a, b, q: a * b % q, words, w)
    lazy = run(modular.shoup_mul_lazy, words, w, companions, Q)
    assert (lazy < 2 * Q.astype(np.uint64)).all()
    _expect(lazy % Q, lambda a, b, q: a * b % q, words, w)


def test_reduce_lazy() -> None:
    wide = np.stack([A[1] + k * Q for k in range(4)] + [A[2] + k * Q for k in range(4)])
    _expect(run(modular.reduce_lazy, wide, Q), lambda a, q: a % q, wide)


def test_without_64_bit_types_jax_warns() -> None:
    with pytest.warns(UserWarning, match="uint64"):
        modular.mul_wide(jnp.ones(3, jnp.uint32), jnp.ones(3, jnp.uint32))


def test_the_reference_agrees_bit_for_bit() -> None:
    assert (run(modular.add, A, B, Q) == exact.add(A, B, MODULI)).all()
    assert (run(modular.sub, A, B, Q) == exact.sub(A, B, MODULI)).all()
    assert (run(modular.neg, A, Q) == exact.neg(A, MODULI)).all()
    assert (run(modular.mont_mul, A, B, Q, QINV) == exact.mul(A, B, MODULI)).all()


@pytest.mark.parametrize("value", [0, 1, -1, 3, -(2**100) + 7, 10**50])
def test_products_with_constants(value: int) -> None:
    constant = tables.montgomery_constant(value, MODULI)
    out = run(modular.mont_mul, A, constant, Q, QINV)
    _expect(out, lambda a, q: a * value % q, A)
