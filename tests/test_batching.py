"""Steps of programs along the last batch axis: side by side, and one of several."""

from __future__ import annotations

import re

import jax
import numpy as np
import pytest

import ren
from ren.core.errors import DomainError, ParameterError, RingMismatchError
from ren.poly import Poly
from ren.poly.batching import item, stacked
from ren.ring import RingSpec

RING = RingSpec(n=8, moduli=(17, 97))


def drawn(*batch: int, device: str | None = None) -> Poly:
    values = np.random.default_rng(batch).integers(0, 17 * 97, (*batch, 8))
    return Poly(values, RING, device=device)


@pytest.mark.parametrize("device", [None, "python"])
def test_items_of_what_stands_side_by_side(device):
    a, b, c = (drawn(*batch, device=device) for batch in ((2,), (2,), ()))
    both = stacked([a, b.ntt(), c], -1)  # c stands beside each of the batch
    assert both.shape == (2, 3, 2, 8)
    assert both.tolist() == [
        [x, y, c.tolist()] for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert item(both, 1).tolist() == b.tolist()
    assert item(item(both, 2), 0).tolist() == c.tolist()


@pytest.mark.long
def test_under_jit_and_vmap():
    x = drawn(3, 2)

    def swapped(x):
        return stacked([item(x, 1) * item(x, 0), item(x, 0) - 1], -1)

    pairs = zip(item(x, 0).tolist(), item(x, 1).tolist(), strict=True)
    pairs = [(Poly(a, RING), Poly(b, RING)) for a, b in pairs]
    want = [[(a * b).tolist(), (a - 1).tolist()] for a, b in pairs]
    jitted = ren.jit(swapped)
    for made in (swapped(x), jitted(x), jitted(x), jax.jit(swapped)(x), jax.vmap(swapped)(x)):
        assert made.tolist() == want
    assert jitted.cache_info().hits == 1


def test_what_has_no_such_place():
    for poly, index in ((drawn(), 0), (drawn(2), 2), (drawn(2), -1)):
        with pytest.raises(DomainError, match="of the last one"):
            item(poly, index)
    with pytest.raises(DomainError, match="no polynomials"):
        stacked([], -1)
    with pytest.raises(RingMismatchError, match="two rings"):
        stacked([drawn(), Poly([1], RingSpec(n=8, moduli=(17,)))], -1)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("domain", ["intt", "ntt"])
def test_a_power_of_any_exponent_keeps_the_batch(batch, domain):
    p = getattr(Poly(np.zeros((*batch, 8), int) + 2, RING), domain)()
    for exponent in range(3):
        want = np.broadcast_to(Poly([2] * 8, RING).__pow__(exponent).tolist(), (*batch, 8))
        for power in (p**exponent, ren.jit(lambda p, e=exponent: p**e)(p)):
            assert power.shape[:-2] == batch
            assert np.array_equal(np.reshape(power.tolist(), (*batch, 8)), want)


ROWS = drawn(2)  # as many vectors as limbs: JAX could take one axis for the other
GRID = drawn(3, 2)


@pytest.mark.parametrize("wrap", [lambda f: f, ren.jit], ids=["jax", "ren.jit"])
@pytest.mark.parametrize(
    ("option", "f"),
    {
        "in_axes=1": lambda p: jax.vmap(lambda p: p + 1, in_axes=1)(p),
        "in_axes=-1": lambda p: jax.vmap(lambda p: p + 1, in_axes=-1)(p),
        "in_axes=(0, 1)": lambda p: jax.vmap(lambda p, q: p + q, in_axes=(0, 1))(p, p),
        "in_axes=({'a': 1},)": lambda p: jax.vmap(lambda d: d["a"] + 1, in_axes=({"a": 1},))(
            {"a": p}
        ),
        "out_axes=1": lambda p: jax.vmap(lambda p: p + 1, out_axes=1)(p),
        "out_axes=(0, -1)": lambda p: jax.vmap(lambda p: (p, p + 1), out_axes=(0, -1))(p),
        "in_axes=0": lambda p: jax.vmap(lambda p: p + 1)(p[0]),
    }.items(),
)
def test_axes_of_limbs_and_coefficients_are_not_mapped_over(option, f, wrap):
    with pytest.raises(ParameterError, match=re.escape(f"{option} on a polynomial")):
        wrap(f)(ROWS)


@pytest.mark.parametrize("wrap", [lambda f: f, ren.jit], ids=["jax", "ren.jit"])
@pytest.mark.parametrize(
    "go", [jax.lax.map, lambda f, p: jax.lax.scan(lambda c, p: (c, f(p)), 0, p)]
)
def test_loops_go_along_batches_only(go, wrap):
    with pytest.raises(ParameterError, match=r"a polynomial of shape .* without a batch axis"):
        wrap(lambda p: go(lambda p: p + 1, p))(ROWS[0])


@pytest.mark.parametrize(
    ("axes", "out"), [(0, 0), (1, 1), (1, 0), (-3, -3), (-4, 0), ((1,), 1), (0, -4)]
)
def test_every_axis_of_a_batch_is_mapped_over(axes, out):
    got = jax.vmap(lambda p: p * p, in_axes=axes, out_axes=out)(GRID)
    moved = (axes if isinstance(axes, int) else axes[0]) % 4 != out % 4
    want = np.array((GRID * GRID).tolist())
    assert np.array_equal(got.tolist(), want.swapaxes(0, 1) if moved else want)


def test_axes_may_be_a_tree_of_the_structure_of_a_polynomial():
    def axes(axis):
        return jax.tree.map(lambda _: axis, ROWS)

    want = np.array(ROWS.tolist())
    for given in (ROWS, jax.vmap(lambda p: p, in_axes=(axes(0),), out_axes=axes(0))(ROWS)):
        pair = jax.vmap(lambda d, q: d["a"] + q, in_axes=({"a": axes(0)}, axes(None)))
        assert np.array_equal(pair({"a": given}, ROWS[0]).tolist(), (want + want[0]) % RING.q)
    with pytest.raises(ParameterError, match=r"in_axes=.* on a polynomial"):
        jax.vmap(lambda p: p + 1, in_axes=(axes(1),))(ROWS)
    with pytest.raises(ParameterError, match=r"out_axes=.* on a polynomial"):
        jax.vmap(lambda p: p + 1, out_axes=axes(-1))(ROWS)


def test_arrays_beside_polynomials_are_mapped_over_any_axis():
    k = np.arange(4, dtype=np.uint32).reshape(2, 2)
    poly, array = jax.vmap(lambda p, k: (p, k), in_axes=(0, 1), out_axes=(0, 1))(ROWS, k)
    assert poly.tolist() == ROWS.tolist() and np.array_equal(array, k)
    same = jax.vmap(lambda p, q: p + q, in_axes=(0, None))(ROWS, ROWS[0])
    assert same.tolist() == (ROWS + ROWS[0]).tolist()


def test_a_function_of_the_user_may_be_called_scan():
    def scan(xs):
        return jax.tree.leaves(xs)

    (leaf,) = scan([ROWS[0]])
    assert leaf.shape == (2, 8)
