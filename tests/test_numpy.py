"""NumPy on polynomials: what it makes is right modulo q, or an error says what to write."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest

import ren
from ren import Poly, RingSpec
from ren.core.errors import CoefficientError, CoefficientTypeError, OperandError, RenError

RING = RingSpec(4, (17,))
WIDE = RingSpec(4, (1073479681, 1072496641, 1071513601))

# What is written, and the polynomial that it is; also a list of them, for arrays of objects.
RIGHT = {
    "np.add(p, q)": "p + q",
    "np.add(p, 1)": "p + 1",
    "np.add(np.int64(1), p)": "p + 1",
    "np.subtract(p, q)": "p - q",
    "np.subtract(1, p)": "1 - p",
    "np.multiply(p, q)": "p * q",
    "np.multiply(3, p)": "p * 3",
    "np.power(p, 3)": "p**3",
    "np.mod(p, 3)": "p % 3",
    "np.negative(p)": "-p",
    "np.positive(p)": "p",
    "p + np.int64(16)": "p + 16",
    "np.int64(16) + p": "p + 16",
    "p * np.uint8(200)": "p * 200",
    "np.int32(-3) * p": "p * -3",
    "np.int8(5) - p": "5 - p",
    "sum([p, q])": "p + q",
    "math.prod([p, q, q])": "p * q * q",
    "np.sum(polys)": "p + q",
    "polys.sum()": "p + q",
    "np.add.reduce(polys)": "p + q",
    "np.prod(polys)": "p * q",
    "np.dot([1, 2], polys)": "p + q * 2",
    "np.array([1, 2]) @ polys": "p + q * 2",
    "np.matmul(polys, polys)": "p * p + q * q",
    "np.inner([1, 2], polys)": "p + q * 2",
    "np.vdot([1, 2], [9, 9]) * p": "p * 27",
    "np.einsum('i,i->', [1, 2], polys)": "p + q * 2",
    "np.tensordot([1, 2], polys, 1)[()]": "p + q * 2",
    "polys + 1": "[p + 1, q + 1]",
    "polys * polys": "[p * p, q * q]",
    "np.cumsum(polys)": "[p, p + q]",
    "np.negative(polys)": "[-p, -q]",
    "np.outer([2, 3], polys)[1]": "[p * 3, q * 3]",
    "np.stack([polys, polys])[1]": "[p, q]",
}

# What is refused: NumPy would compute without q, or on what is no array.
REFUSED = """
np.sum([p, q]); np.sum((p, q)); np.sum(p); np.sum([p, q], dtype=np.int64); np.prod([p, q])
np.dot([1, 2], [p, q]); np.dot(p, q); np.vdot([1, 2], [p, q]); np.vdot(p, q)
np.inner([1, 2], [p, q]); np.inner(p, q); np.outer([1, 2], [p, q]); np.outer(p, q)
np.matmul([1, 2], [p, q]); np.matmul(p, q); np.vecdot(p, q); np.linalg.multi_dot([p, q])
np.add([p, q], 1); np.add([p, q], p); np.add([p], [q]); np.multiply([p, q], 2)
np.add([p, q], 1, dtype=np.int64); np.subtract([p], [q]); np.power([p], 2); np.negative([p])
np.add.reduce([p, q]); np.add.reduce(p); np.add.accumulate([p, q]); np.add.outer([p], [q])
np.add.at(a, 0, p); np.add(p, 1, out=a); np.square(p); np.absolute(p); np.maximum(p, 3)
np.cumsum([p, q]); np.cumsum(p); np.cumprod([p, q]); np.nansum([p, q]); np.nansum(p)
np.mean([p, q]); np.mean(p); np.average([p, q]); np.median([p, q]); np.std([p, q]); np.var(p)
np.mean(polys); np.einsum("i,i->", [1, 2], [p, q]); np.einsum("i,i->", p, q)
np.tensordot([1, 2], [p, q], 1); np.tensordot(p, q, 1); np.kron([1, 2], [p]); np.kron(p, q)
np.convolve([1, 2], p); np.correlate(p, q); np.polyval([1, 2], p); np.polyval([p, q], 2)
np.polyadd(p, q); np.polymul(p, q); np.poly1d(p); np.polynomial.Polynomial(p)
np.array(p); np.array([p, q]); np.asarray(p); np.asarray([p, q]); np.array([[p], [q]])
np.asarray((1, p)); np.stack(([p], [q])); np.ma.array([p]); np.full(2, p)
np.array([1, 2]) * p; p * np.array([1, 2]); a + p; p - a; np.zeros(2) + p; polys + p
np.array([1, 2]) @ p; a.dot([p, q]); np.float64(1) + p; p * np.float32(2); np.bool_(True) + p
np.mod(17, p); np.floor_divide(p, 2); np.divide(p, 2); np.fmod(p, 3); np.divmod(p, 2)
np.gcd(p, 2); np.bitwise_and(p, 1); np.left_shift(p, 1); np.sin(p); np.fft.fft(p); np.fft.fft([p])
np.linalg.norm(p); np.linalg.norm([p]); np.diff(p); np.diff([p, q]); np.trapezoid([p, q])
np.cross([p, p, p], [q, q, q]); np.trace([p]); np.clip(p, 0, 5); np.max([p, q]); np.sort(p)
np.allclose(p, q); np.isclose(p, q); np.round(p); np.real(p); np.histogram(p); np.cov(p)
np.vectorize(lambda x: x + 1)(p); np.apply_along_axis(np.sum, 0, p); np.equal([p], [q])
"""

# What reads or moves coefficients, and what it gives.
READ = {
    "np.asarray(p, np.int64)": [16, 2, 3, 10],
    "np.asarray(p, dtype=float)": [16.0, 2.0, 3.0, 10.0],
    "np.array([p, q], dtype=np.int64)": [[16, 2, 3, 10], [5, 0, 1, 0]],
    "np.stack([p, q], axis=-1)": [[16, 5], [2, 0], [3, 1], [10, 0]],
    "np.concatenate([p, q])": [16, 2, 3, 10, 5, 0, 1, 0],
    "np.reshape(p, (2, 2))": [[16, 2], [3, 10]],
    "np.copy(p)": [16, 2, 3, 10],
    "np.array_equal(p, [16, 2, 3, 10])": True,
    "np.array_equal(p, q)": False,
    "np.equal(p, p)": True,
    "np.not_equal(p, q)": True,
    "np.shape(p)": (4,),
    "np.ndim(p)": 1,
    "np.count_nonzero(q)": 2,
    "np.array2string(p)": "[16  2  3 10]",
    "Poly(p, RING).tolist()": [16, 2, 3, 10],
    "Poly([p, q], RING).tolist()": [[16, 2, 3, 10], [5, 0, 1, 0]],
    "np.save(io.BytesIO(), p)": None,
}


def names() -> dict[str, Any]:
    p, q = Poly([16, 2, 3, 10], RING), Poly([5, 0, 1, 0], RING)
    polys = np.array([p, q], dtype=object)
    a = np.array([1, 2, 3, 4])
    return {
        "np": np, "math": math, "io": io, "Poly": Poly, "RING": RING,
        "p": p, "q": q, "polys": polys, "a": a,
    }  # fmt: skip


@pytest.mark.parametrize("expression", RIGHT)
def test_numpy_computes_modulo_q(expression: str) -> None:
    given = names()
    got, want = eval(expression, given), eval(RIGHT[expression], given)
    if isinstance(want, Poly):
        got, want = [got], [want]
    assert len(got) == len(want)
    for made, expected in zip(got, want, strict=True):
        assert isinstance(made, Poly) and ren.equal(made, expected)


@pytest.mark.parametrize(
    "expression", [e.strip() for e in REFUSED.replace("\n", ";").split(";") if e]
)
def test_numpy_is_refused_where_it_would_compute_without_q(expression: str) -> None:
    with pytest.raises((OperandError, CoefficientTypeError)) as caught:
        eval(expression, names())
    assert isinstance(caught.value, RenError)
    assert all((caught.value.given, caught.value.needed, caught.value.do))


@pytest.mark.parametrize("expression", READ)
def test_numpy_reads_coefficients(expression: str) -> None:
    got = eval(expression, names())
    assert (got.tolist() if isinstance(got, np.ndarray) else got) == READ[expression]


def test_an_array_of_objects_holds_the_polynomials() -> None:
    given = names()
    assert given["polys"].shape == (2,) and given["polys"][0] is given["p"]
    assert np.asarray(given["p"], dtype=object)[()] is given["p"]


@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.float64, complex, bool, "S8"])
def test_coefficients_that_do_not_fit_a_type_are_refused(dtype: Any) -> None:
    p = Poly([-1, 1], WIDE)
    with pytest.raises(CoefficientError, match=r"p\.tolist\(\)"):
        np.asarray(p, dtype=dtype)
    assert np.stack([p, p]).tolist() == [p.tolist()] * 2  # Python integers


def test_coefficients_fit_a_type_up_to_its_largest() -> None:
    p = Poly([-1], RingSpec(4, (257,)))
    assert np.asarray(p, np.int16).tolist() == [256, 0, 0, 0]
    with pytest.raises(CoefficientError, match="uint8"):
        np.asarray(p, np.uint8)
