"""Ciphertexts of polynomials that the user made, and numbers of polynomials."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ren
from ren import Poly
from ren.schemes import ckks
from tests.schemes.ckks.conftest import SMALL


def test_polynomials_of_a_scheme_become_a_ciphertext(ctx) -> None:
    """c0 + c1 s with the secret zero: a polynomial with numbers times the scale."""
    values = np.array([0.5, -0.25, 3.0])
    for level in (3, 1):
        message = ctx.encode(values, level).poly
        zero, stated = Poly.zeros(message.ring), {"bound": 4.0, "error": 2.0**-25}
        x = ckks.from_polys(ctx, message, zero, level, length=3, **stated)
        assert x.level == level and x.shape == (3,)
        assert np.allclose(x.decrypt(), values, atol=2.0**-25)
        assert np.allclose((x * 2.0 + 1).decrypt(), 2 * values + 1, atol=2.0**-25)


def test_a_ciphertext_taken_apart_is_the_same_again(ctx) -> None:
    values = np.array([1.0 + 2j, -0.5j])
    x = ctx.encrypt(values)
    again = ckks.from_polys(ctx, *x.polys, length=2, dtype=complex, bound=4.0, error=2.0**-20)
    assert np.array_equal(again.decrypt(), x.decrypt())
    assert again.estimate.message_bound == 4.0
    assert again.estimate.error_bound == pytest.approx(2.0**-20)
    assert np.allclose((again * x).decrypt(), values**2, atol=2.0**-18)
    in_coefficients = [p.intt() for p in x.polys]
    real = ckks.from_polys(ctx.server(), *in_coefficients, length=2, bound=4.0, error=2.0**-20)
    assert np.allclose(ctx.decrypt(real), [1, 0], atol=2.0**-20)


def test_without_a_stated_bound_nothing_is_known(ctx) -> None:
    x = ctx.encrypt([1.0, 2.0])
    for stated in ({}, {"bound": 2.0}, {"error": 2.0**-20}):
        y = ckks.from_polys(ctx, *x.polys, length=2, **stated)
        assert math.isinf(y.estimate.error_bound)
        with pytest.warns(ckks.MessageBoundWarning, match="ckks.from_polys"):
            assert np.allclose(y.decrypt(), [1, 2], atol=2.0**-20)
        with pytest.warns(ckks.MessageBoundWarning), pytest.raises(ckks.PrecisionError):
            y.decrypt(dtype=int)
    known = ckks.from_polys(ctx, *x.polys, length=2, bound=2.0, error=2.0**-20)
    assert known.decrypt(dtype=int).tolist() == [1, 2]


def test_batches_and_plans(ctx) -> None:
    x = ctx.encrypt(np.arange(6.0).reshape(2, 3), pack="rows")
    stated = {"length": 3, "bound": 8.0, "error": 2.0**-20}
    y = ckks.from_polys(ctx, *x.polys, **stated)
    assert np.allclose(y.decrypt(), np.arange(6.0).reshape(2, 3), atol=2.0**-20)
    f = ren.jit(lambda a, b: ckks.from_polys(ctx, a, b, **stated) * 2.0)
    for z in (x, ctx.encrypt(np.ones((2, 3)), pack="rows")):
        assert np.allclose(f(*z.polys).decrypt(), 2 * z.decrypt(), atol=2.0**-18)
    assert f.cache_info()[:2] == (1, 1)


def test_polynomials_are_decoded(ctx) -> None:
    """Against the definition: slot j is p at exp(i pi 5^j / n), over the scale."""
    n, ring, scale = SMALL, ctx.params.ring(1), float(ctx.params.scale(1))
    c = np.random.default_rng(1).integers(-(1 << 45), 1 << 45, n)
    roots = np.exp(1j * np.pi / n * np.array([pow(5, j, 2 * n) for j in range(8)]))
    want = np.array([np.sum(c * root ** np.arange(n)) for root in roots]) / scale
    p = Poly(c.tolist(), ring)
    assert np.allclose(ctx.decode(p, 1, 8, complex), want, rtol=1e-9)
    assert np.allclose(ctx.decode(p.ntt(), length=8), want.real, rtol=1e-9)
    assert ctx.decode(p).shape == (ctx.slots,)
    assert np.array_equal(ctx.decode(Poly([c.tolist()] * 2, ring))[1], ctx.decode(p))


def test_plaintexts_are_decoded_as_they_went_in(ctx) -> None:
    table = np.arange(6.0).reshape(2, 3)
    assert np.allclose(ctx.decode(ctx.encode(table)), table, atol=2.0**-25)
    assert np.allclose(ctx.decode(ctx.encode([1j, 2.0])), [1j, 2.0], atol=2.0**-25)
    whole = ctx.decode(ctx.encode([4.0, -3.0]).poly, length=2, dtype=int)
    assert whole.tolist() == [4, -3] and whole.dtype == int


def test_what_is_no_ciphertext_says_what_is(ctx) -> None:
    p, low = (Poly.zeros(ctx.params.ring(level)) for level in (3, 0))
    other = Poly.zeros(ren.RingSpec(SMALL, ren.RingSpec.primes(SMALL, 25, 2)))
    for call, match in (
        (lambda: ckks.from_polys(ctx, p, low), r"not the ring of level 3"),
        (lambda: ckks.from_polys(ctx, p, p, level=0), r"not the ring of level 0"),
        (lambda: ckks.from_polys(ctx, other, other), r"not the ring of any level"),
        (lambda: ckks.from_polys(ctx, p, p, length=0), r"length is 0"),
        (lambda: ckks.from_polys(ctx, p, p, length=513), r"length is 513"),
        (lambda: ckks.from_polys(ctx, p, p, bound=-1, error=1), r"bound=-1"),
        (lambda: ckks.from_polys(ctx, np.ones(3), p), r"got an? .*array"),
        (lambda: ckks.from_polys(ctx.params, p, p), r"as the context"),
        (lambda: ctx.decode(other), r"decode\(\) got a polynomial over"),
        (lambda: ctx.decode([1.0]), r"decode\(\) got a list"),
        (lambda: ren.jit(ctx.decode)(p), r"symbolic|captured"),
    ):
        with pytest.raises(ren.RenError, match=match):
            call()
