"""Native kernels against the emitters that they replace and the NumPy reference, bit for bit."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ren.lowering.backends.native import library
from ren.lowering.backends.native.overrides import emitter
from ren.lowering.kernels import convert, ntt
from ren.lowering.kernels import reference_ops as exact
from tests.lowering.kernels.residues import all_residues, basis, random_residues

REFERENCE = {"NTT": exact.ntt, "INTT": exact.intt, "CONVERT": exact.convert, "LIFT": exact.lift}
TABLES = {
    "NTT": partial(ntt.merged_tables, is_inverse=False),
    "INTT": partial(ntt.merged_tables, is_inverse=True),
}
USUAL = {"NTT": ntt.ntt_tables, "INTT": ntt.intt_tables}
CONVERSIONS = {"CONVERT": convert.convert_tables, "LIFT": convert.lift_tables}
DEGREES = [1 << k for k in range(2, 17)]
SLOW = [pytest.param(1 << 17, marks=pytest.mark.slow)]


@pytest.fixture(scope="session")
def name() -> str:
    """The name of the library, built once a process."""
    outcome = library.outcome()
    if "no C++ compiler" in outcome.reason:
        pytest.skip(outcome.reason)
    assert not outcome.reason
    return outcome.name


def transform(op: str, name: str, x: Any, moduli: tuple[int, ...], **how: Any) -> Any:
    made = (TABLES if name else USUAL)[op](x.shape[-1], moduli)
    tables = tuple(map(jnp.asarray, made))
    return partial(emitter(op, name, **how), None, [tables])


def assert_equal(got: Any, want: Any) -> None:
    assert got.dtype == np.uint32
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize("op", ["NTT", "INTT"])
@pytest.mark.parametrize("n", DEGREES + SLOW)
def test_transforms_of_every_degree(name, op, n):
    for limbs in (1, 3):
        moduli = basis(n, limbs)
        x = all_residues(moduli, n)
        assert_equal(jax.jit(transform(op, name, x, moduli))(x), REFERENCE[op](x, moduli))


@pytest.mark.parametrize("op", ["NTT", "INTT"])
@pytest.mark.parametrize("n", [8, 1024, 4096])
@pytest.mark.parametrize("batch", [(), (1,), (3,), (2, 2), (0,)])
def test_transforms_of_every_batch(name, op, n, batch):
    moduli = basis(n, 5)
    x = random_residues(moduli, n, *batch)
    assert_equal(jax.jit(transform(op, name, x, moduli))(x), REFERENCE[op](x, moduli))


@pytest.mark.parametrize("op", ["NTT", "INTT"])
@pytest.mark.parametrize("n", [4, 64, 2048])
def test_transforms_are_those_of_the_emitters(name, op, n):
    moduli = basis(n, 2)
    x = all_residues(moduli, n)
    with jax.enable_x64(True):
        want = jax.jit(transform(op, "", x, moduli))(x)
    assert_equal(jax.jit(transform(op, name, x, moduli))(x), want)


def test_many_limbs(name):
    moduli = basis(1024, 40)
    x = random_residues(moduli, 1024)
    assert_equal(jax.jit(transform("NTT", name, x, moduli))(x), exact.ntt(x, moduli))


def test_under_vmap_tables_are_not_multiplied(name):
    moduli = basis(1024, 2)
    x = random_residues(moduli, 1024, 2, 3)
    f = transform("NTT", name, x, moduli)
    want = exact.ntt(x, moduli)
    assert_equal(jax.jit(jax.vmap(f))(x), want)
    assert_equal(jax.jit(jax.vmap(jax.vmap(f), in_axes=1, out_axes=1))(x), want)
    assert "tensor<2x2x1024" not in jax.jit(jax.vmap(f)).lower(x).as_text()


@pytest.mark.parametrize("op", ["NTT", "INTT"])
@pytest.mark.parametrize("n", [16, 1024, 8192])
def test_a_result_may_stand_in_the_buffer_of_its_source(name, op, n):
    moduli = basis(n, 3)
    x = random_residues(moduli, n, 2)
    f = transform(op, name, x, moduli, overwrites=True)
    given = jnp.array(x)
    compiled = jax.jit(f, donate_argnums=0).lower(given).compile()
    assert compiled.memory_analysis().temp_size_in_bytes == 0
    assert_equal(compiled(given), REFERENCE[op](x, moduli))
    kept = jnp.array(x)
    assert_equal(jax.jit(f)(kept), REFERENCE[op](x, moduli))
    assert_equal(kept, x)


def conversion(op: str, name: str, source: tuple[int, ...], target: tuple[int, ...]) -> Any:
    tables = tuple(map(jnp.asarray, CONVERSIONS[op](source, target)))
    return partial(emitter(op, name), None, [tables])


# Limbs that come in and go out: one, whole blocks of digits and sums and parts of them, more terms
# than one sum has.
SIZES = [(1, 1), (2, 5), (4, 4), (5, 3), (9, 6), (16, 1), (17, 2), (33, 4)]


@pytest.mark.parametrize("op", ["CONVERT", "LIFT"])
@pytest.mark.parametrize(("k", "m"), SIZES)
def test_conversions_between_bases(name, op, k, m):
    moduli = basis(64, k + m)
    source, target = moduli[:k], moduli[k:]
    x = all_residues(source, 64)
    got = jax.jit(conversion(op, name, source, target))(x)
    assert_equal(got, REFERENCE[op](x, source, target))


@pytest.mark.parametrize("op", ["CONVERT", "LIFT"])
@pytest.mark.parametrize("n", [4, 8, 16, 32, 1024, 1 << 14, 1 << 16])
def test_conversions_of_every_degree(name, op, n):
    moduli = basis(n, 7)
    source, target = moduli[:3], moduli[3:]
    x = all_residues(source, n)
    got = jax.jit(conversion(op, name, source, target))(x)
    assert_equal(got, REFERENCE[op](x, source, target))


@pytest.mark.parametrize("op", ["CONVERT", "LIFT"])
@pytest.mark.parametrize("batch", [(), (1,), (3,), (2, 2), (0,)])
def test_conversions_of_every_batch(name, op, batch):
    moduli = basis(1024, 5)
    source, target = moduli[:3], moduli[3:]
    f, x = conversion(op, name, source, target), random_residues(source, 1024, *batch)
    want = REFERENCE[op](x, source, target)
    assert_equal(jax.jit(f)(x), want)
    if batch:
        assert_equal(jax.jit(jax.vmap(f))(x), want)


@pytest.mark.parametrize("op", ["CONVERT", "LIFT"])
def test_conversions_are_those_of_the_emitters(name, op):
    moduli = basis(64, 14)
    source, target = moduli[:9], moduli[9:]
    x = all_residues(source, 64)
    with jax.enable_x64(True):
        want = jax.jit(conversion(op, "", source, target))(x)
    assert_equal(jax.jit(conversion(op, name, source, target))(x), want)
