"""Each op that native code is made for, as a plan of one call, against the reference and XLA."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from ren.lowering.backends.native import library
from ren.lowering.backends.reference import arithmetic as exact
from ren.lowering.backends.xla.emit import emit_graph
from tests.lowering.kernels.residues import all_residues, basis, random_residues
from tests.lowering.native.calls import native_op, one_op

REFERENCE = {"NTT": exact.ntt, "INTT": exact.intt, "CONVERT": exact.convert, "LIFT": exact.lift}
DEGREES = [1 << k for k in range(2, 17)]
SLOW = [pytest.param(1 << 17, marks=pytest.mark.slow)]
# Limbs that come in and go out: one, whole blocks of digits and sums and parts of them, more terms
# than one sum has.
SIZES = [(1, 1), (1, 6), (2, 5), (4, 4), (5, 3), (9, 6), (16, 1), (17, 2), (33, 4)]
BATCHES = [(), (1,), (3,), (2, 2), (0,)]


@pytest.fixture(scope="session")
def name() -> str:
    """The name of the library, built once a process."""
    outcome = library.outcome()
    if "no C++ compiler" in outcome.reason:
        pytest.skip(outcome.reason)
    assert not outcome.reason
    return outcome.name


def assert_equal(got: Any, want: Any) -> None:
    assert got.dtype == np.uint32
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def check(name: str, op: str, x: Any, *moduli: tuple[int, ...]) -> Any:
    """Compares a native call with the reference; returns the call."""
    f = native_op(name, op, x, *moduli)
    assert_equal(jax.jit(f)(x), REFERENCE[op](x, *moduli))
    return f


@pytest.mark.parametrize("op", ["NTT", "INTT"])
@pytest.mark.parametrize("n", DEGREES + SLOW)
def test_transforms_of_every_degree(name, op, n):
    for limbs in (1, 3):
        moduli = basis(n, limbs)
        check(name, op, all_residues(moduli, n), moduli)


@pytest.mark.parametrize("op", ["NTT", "INTT"])
@pytest.mark.parametrize("n", [8, 1024, 4096])
@pytest.mark.parametrize("batch", BATCHES)
def test_transforms_of_every_batch(name, op, n, batch):
    moduli = basis(n, 5)
    check(name, op, random_residues(moduli, n, *batch), moduli)


def test_many_limbs(name):
    moduli = basis(1024, 40)
    check(name, "NTT", random_residues(moduli, 1024), moduli)


@pytest.mark.parametrize("op", ["CONVERT", "LIFT"])
@pytest.mark.parametrize(("k", "m"), SIZES)
def test_conversions_between_bases(name, op, k, m):
    moduli = basis(64, k + m)
    check(name, op, all_residues(moduli[:k], 64), moduli[:k], moduli[k:])


@pytest.mark.parametrize("op", ["CONVERT", "LIFT"])
@pytest.mark.parametrize("n", [4, 8, 16, 32, 1024, 1 << 14, 1 << 16])
def test_conversions_of_every_degree(name, op, n):
    moduli = basis(n, 7)
    check(name, op, all_residues(moduli[:3], n), moduli[:3], moduli[3:])


@pytest.mark.parametrize("op", ["CONVERT", "LIFT"])
@pytest.mark.parametrize("batch", BATCHES)
def test_conversions_of_every_batch(name, op, batch):
    moduli = basis(1024, 5)
    x = random_residues(moduli[:3], 1024, *batch)
    f = check(name, op, x, moduli[:3], moduli[3:])
    if batch:
        assert_equal(jax.jit(jax.vmap(f))(x), REFERENCE[op](x, moduli[:3], moduli[3:]))


@pytest.mark.parametrize("n", [4, 64, 2048])
@pytest.mark.parametrize("op", REFERENCE)
def test_results_are_those_of_xla(name, op, n):
    moduli = basis(n, 14)
    bases = (moduli[:9], moduli[9:]) if op in ("CONVERT", "LIFT") else (moduli[:9],)
    x = all_residues(bases[0], n)
    graph, tables = one_op(op, n, *bases)
    with jax.enable_x64(True):
        built = tuple(table.build() for table in tables)
        (want,) = jax.jit(lambda x: emit_graph(graph, built, x))(x)
    assert_equal(check(name, op, x, *bases)(x), want)


def test_under_vmap_tables_are_not_multiplied(name):
    moduli = basis(1024, 2)
    x = random_residues(moduli, 1024, 2, 3)
    f = native_op(name, "NTT", x[0, 0], moduli)
    want = exact.ntt(x, moduli)
    assert_equal(jax.jit(jax.vmap(jax.vmap(f)))(x), want)
    assert_equal(jax.jit(jax.vmap(jax.vmap(f), in_axes=1, out_axes=1))(x), want)
    text = jax.jit(jax.vmap(f)).lower(x[0]).as_text()
    assert "tensor<1x4x1024" in text and "tensor<3x4x1024" not in text
