"""The transforms against evaluation and schoolbook products by python-flint, and the reference."""

from __future__ import annotations

import math

import flint
import jax
import numpy as np
import pytest

from ren.core.numtheory import primitive_root_of_unity
from ren.lowering.backends.reference import arithmetic as exact
from ren.lowering.kernels import keeps_calls, ntt, order
from tests import oracle
from tests.lowering.kernels.residues import (
    all_residues,
    basis,
    large_basis,
    plain,
    random_residues,
    run,
)

DEGREES = [1 << k for k in range(2, 18)]


def _forward(x: np.ndarray, moduli: tuple[int, ...]) -> np.ndarray:
    return run(ntt.ntt, x, *ntt.ntt_tables(x.shape[-1], moduli))


def _backward(x: np.ndarray, moduli: tuple[int, ...]) -> np.ndarray:
    return run(ntt.intt, x, *ntt.intt_tables(x.shape[-1], moduli))


@pytest.mark.parametrize("n", DEGREES)
def test_exponents_are_the_odd_numbers(n: int) -> None:
    exponents = order.evaluation_exponents(n)
    assert sorted(exponents.tolist()) == list(range(1, 2 * n, 2))
    with pytest.raises(ValueError, match="read-only"):
        exponents[0] = 1


def test_bit_reversal() -> None:
    assert order.bit_reversed(0).tolist() == [0]
    assert order.bit_reversed(3).tolist() == [0, 4, 2, 6, 1, 5, 3, 7]


@pytest.mark.long
@pytest.mark.parametrize("n", DEGREES)
def test_transforms_evaluate_and_agree_with_the_reference(n: int) -> None:
    moduli = basis(n, 2)
    x = all_residues(moduli, n)
    y = _forward(x, moduli)
    assert (y == exact.ntt(x, moduli)).all()
    positions = range(n) if n <= 64 else [0, 1, n // 2, n // 3, n - 1]
    for i, q in enumerate(moduli):
        psi, exponents = primitive_root_of_unity(n, q), order.evaluation_exponents(n)
        for row in range(x.shape[0]):
            p = flint.nmod_poly(x[row, i].tolist(), q)
            values = {j: int(p(pow(psi, int(exponents[j]), q))) for j in positions}
            assert values == {j: int(y[row, i, j]) for j in positions}
    assert (_backward(y, moduli) == x).all()
    assert (exact.intt(y, moduli) == x).all()
    # Extreme inputs of the inverse are not images of extreme coefficients.
    assert (_backward(x, moduli) == exact.intt(x, moduli)).all()


@pytest.mark.long
@pytest.mark.parametrize(("n", "limbs"), [(4, 1), (8, 5), (32, 3), (256, 4)])
def test_products_of_values_are_negacyclic_products(n: int, limbs: int) -> None:
    moduli = basis(n, limbs)
    a, b = random_residues(moduli, n, seed=1), random_residues(moduli, n, seed=2)
    product = exact.mul(_forward(a, moduli), _forward(b, moduli), moduli)
    out = _backward(product, moduli)
    for i, q in enumerate(moduli):
        expected = oracle.mul(plain(a[i], q), plain(b[i], q), q)
        assert plain(out[i], q) == expected
        if n <= 32:
            assert expected == oracle.mul_schoolbook(plain(a[i], q), plain(b[i], q), q)


@pytest.mark.parametrize("batch", [(), (1,), (3,), (2, 2)])
def test_batches_are_transformed_one_by_one(batch: tuple[int, ...]) -> None:
    moduli = large_basis(64, 3)
    x = random_residues(moduli, 64, *batch)
    y = _forward(x, moduli)
    assert y.shape == x.shape
    assert (y == exact.ntt(x, moduli)).all()
    assert (_backward(y, moduli) == x).all()
    if batch:
        alone = np.stack([_forward(p, moduli) for p in x.reshape(-1, 3, 64)])
        assert (y.reshape(alone.shape) == alone).all()


def test_many_limbs() -> None:
    moduli = basis(64, 24)
    x = random_residues(moduli, 64)
    assert (_forward(x, moduli) == exact.ntt(x, moduli)).all()


@pytest.mark.parametrize(("limbs", "count"), [(1, 1), (4, 2), (5, 3)])
def test_chunks_of_limbs_are_transformed_apart(
    monkeypatch: pytest.MonkeyPatch, limbs: int, count: int
) -> None:
    monkeypatch.setattr(keeps_calls, "CHUNK", 2 * 64)
    monkeypatch.setattr(keeps_calls, "LEAST", 2 * 64)
    moduli = basis(64, limbs)
    x = random_residues(moduli, 64, 2)
    forward, inverse = (t.__wrapped__(64, moduli) for t in (ntt.ntt_tables, ntt.intt_tables))
    assert len(forward) == len(inverse) == 3 * count
    y = run(ntt.ntt, x, *forward)
    assert (y == exact.ntt(x, moduli)).all()
    assert (run(ntt.intt, y, *inverse) == x).all()


@pytest.mark.parametrize("n", [4, 64, 1 << 11])
def test_merged_twiddles_are_powers_in_bit_reversed_order(n: int) -> None:
    (modulus,) = basis(n, 1)
    psi, rows = primitive_root_of_unity(n, modulus), n // order.columns(n)
    exponents = order.bit_reversed(n.bit_length() - 1).tolist()
    (table,) = ntt.row_tables(n, modulus)
    w, companions = table[:1], table[1:2]
    assert w[0, :rows].tolist() == [pow(psi, e, modulus) for e in exponents[:rows]]
    for m in (1 << k for k in range(n.bit_length() - 1)):
        expected = sorted(pow(psi, e, modulus) for e in exponents[m : 2 * m])
        assert sorted(w[0, m : 2 * m].tolist()) == expected
    assert (companions == (w.astype(np.uint64) << np.uint64(32)) // modulus).all()


def test_programs_hold_no_moduli() -> None:
    # Tables are arguments: rings of one shape share one program.
    n, texts = 16, set()
    for moduli in (basis(n, 2), large_basis(n, 2)):
        with jax.enable_x64(True):
            lowered = jax.jit(ntt.ntt).lower(random_residues(moduli, n), *ntt.ntt_tables(n, moduli))
        texts.add(lowered.as_text())
    assert len(texts) == 1


@pytest.mark.parametrize("n", [64, 4096])
def test_no_polynomials_have_no_values(n):
    moduli = basis(n, 2)
    x = np.zeros((0, 2, n), np.uint32)
    with jax.enable_x64(True):
        for run, tables in ((ntt.ntt, ntt.ntt_tables), (ntt.intt, ntt.intt_tables)):
            assert jax.jit(run)(x, *tables(n, moduli)).shape == (0, 2, n)


@pytest.mark.parametrize("log_n", range(2, 18))
def test_passes_make_every_stage_once_and_their_number_is_even(log_n):
    n = 1 << log_n
    for first, second in (order.forward_passes(n), order.inverse_passes(n)):
        passes = (*first, *second)
        assert math.prod(p.size for p in passes) == n
        assert all(math.prod(p.axes) == n and p.axes[p.parts] == p.size for p in passes)
        assert log_n < 6 or (len(passes) + 1) % 2 == 0  # the transposition is one
