"""What is said at an exhausted depth: the operation, both levels and two remedies, all true."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ren.schemes import ckks

DEPTH = 14
MATRIX = np.arange(15.0).reshape(3, 5)
math = ckks.math

# What it is called, and the levels it takes of five numbers in 32 slots.
OPERATIONS = {
    "product": ("A product of ciphertexts", 1, lambda x: x * x),
    "array": ("A product with a plaintext", 1, lambda x: x * [1.0, 2.0, 3.0, 4.0, 5.0]),
    "number": ("A product with a number that is not an integer", 1, lambda x: 0.5 * x),
    "power": ("The power 9", 4, lambda x: x**9),
    "mask": ("mask()", 1, lambda x: x[1:].mask()),
    "factors": ("mask()", 1, lambda x: x.mask(np.ones(5))),
    "roll": ("roll(2)", 1, lambda x: ckks.pad(x, 20).roll(2)),
    "real": ("The real part", 1, lambda x: x.real),
    "imag": ("The imaginary part", 1, lambda x: x.imag),
    "sum": ("sum()", 1, lambda x: x[1:].sum()),
    "mean": ("mean()", 1, lambda x: x.mean()),
    "dot": ("dot()", 1, lambda x: x.dot(np.ones(5))),
    "encrypted dot": ("dot()", 2, lambda x: x[1:].dot(x[1:])),
    "cumsum": ("cumsum()", 1, lambda x: ckks.pad(x, 20).cumsum()),
    "tile": ("tile()", 1, lambda x: x[1:].tile(3)),
    "concat": ("concat()", 1, lambda x: ckks.concat([x, x[1:]])),
    "matrix": ("A product with a matrix", 1, lambda x: MATRIX @ x),
    "poly": ("A polynomial of degree 3", 2, lambda x: ckks.poly(x, [1, 2, 3, 4])),
    "chebyshev": ("A polynomial of degree 7", 3, lambda x: ckks.chebyshev(x, np.exp, (-1, 1), 7)),
    "exp": ("exp", 3, lambda x: math.exp(x, interval=(-1, 1), degree=7)),
    "inverse": ("inverse", 4, lambda x: math.inverse(x, interval=(0.1, 1), precision=8)),
    "sign": ("sign", 7, lambda x: math.sign(x, precision=5)),
    "max": ("max", 8, lambda x: math.max(x, 0.5, precision=5)),
    "min": ("min", 8, lambda x: math.min(x, x, precision=5)),
    "abs": ("abs", 8, lambda x: math.abs(x, precision=5)),
    "relu": ("relu", 8, lambda x: math.relu(x, precision=5)),
    "less": ("less", 7, lambda x: math.less(x, 0.1, precision=5)),
    "greater": ("greater", 7, lambda x: math.greater(x, 0.1, precision=5)),
    "where": ("where", 1, lambda x: math.where(x, x, x + 1)),
    "where of arrays": ("where", 1, lambda x: math.where(x, np.ones(5), np.zeros(5))),
    "round": ("round", 10, lambda x: math.round(x)),
    "any": ("any", 3, lambda x: math.any(x)),
    "all": ("all", 3, lambda x: math.all(x)),
    "all of a slice": ("all", 3, lambda x: math.all(x[1:])),
    "std": ("std()", 6, lambda x: ckks.stats.std(x, interval=(0.02, 1), precision=8)),
    "std of a slice": (
        "std()",
        7,
        lambda x: ckks.stats.std(x[:4], interval=(0.02, 1), precision=8),
    ),
    "var of rows": ("var()", 3, lambda x: ckks.pad(x, 32).reshape(4, 8).var(axis=1)),
    "mean of rows": ("mean()", 1, lambda x: x[:4].reshape(2, 2).mean(axis=0)),
    "sum of rows": ("sum()", 1, lambda x: x[:4].reshape(2, 2).sum(axis=1)),
    "histogram of a slice": (
        "histogram()",
        8,
        lambda x: ckks.stats.histogram(x[:4], [0, 0.5, 0.7, 1], gap=0.1, precision=8),
    ),
    "root by Newton": ("sqrt", 6, lambda x: math.sqrt(x, (0.1, 1), newton=True, precision=8)),
    "pow of two": ("pow", 8, lambda x: math.pow(x, x, (0.1, 1), precision=8)),
    "rotation of a slice": ("rotate(1)", 1, lambda x: x[:4].rotate(1)),
}


@pytest.fixture(scope="module")
def deep() -> ckks.Context:
    """n = 2^6, insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(DEPTH, n=64, security=None))


@pytest.mark.filterwarnings("ignore::ren.core.errors.MessageBoundWarning")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_level_that_is_asked_for_is_the_least_that_will_do(deep, operation):
    name, needed, run = OPERATIONS[operation]
    values = np.linspace(0.1, 0.9, 5)  # real and imaginary parts of real numbers take no level
    x = deep.encrypt(values + 0j if operation in ("real", "imag") else values)
    for level in {0, needed - 1}:
        with pytest.raises(ckks.DepthError) as info:
            run(x.drop_to(level))
        given, _, remedies, *_ = str(info.value).splitlines()
        assert given.startswith(name) and f"takes {needed} level" in given
        assert f"is at level {level} of {DEPTH}." in given
        least = DEPTH + needed - level
        assert re.search(rf"context\(depth={least}\) or more, or use fewer", remedies)
        assert "ckks.plan(f, ...).depth" in remedies
    assert run(x.drop_to(needed)).level == 0


def test_what_takes_no_level_is_never_refused(deep):
    x = deep.encrypt(np.linspace(0.1, 0.9, deep.slots), level=0)
    for made in (x + x, x - 0.5, x * 3, x.rotate(5), x.conj(), x[2:5], x.sum(), x.real, x.mask(),
                 x.roll(3), x.tile(1), ckks.math.where(x, 3, 1)):  # fmt: skip
        assert made.level == 0


@pytest.mark.filterwarnings("ignore::ren.core.errors.MessageBoundWarning")
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x**9 + x,
        lambda x: (x * x) ** 4,
        lambda x: ckks.poly(x * 0.5, [1, 2, 3, 4, 5]),
        lambda x: math.exp(x * x, interval=(0, 1), degree=7),
        lambda x: MATRIX @ (x * x * x),
    ],
)
def test_the_depth_that_it_names_is_that_of_a_plan(f):
    x = ckks.context(depth=2, n=64, security=None).encrypt(np.linspace(0.1, 0.9, 5))
    with pytest.raises(ckks.DepthError) as info:
        f(x)
    least = int(info.value.do.partition("depth=")[2].partition(")")[0])
    assert least == ckks.plan(f, ckks.spec(5), n=64, security=None).depth


def test_what_is_encoded_or_encrypted_at_a_low_level_is_to_be_so_at_a_higher():
    """More depth would not help: the level was asked for."""
    for depth in (1, 3):
        ctx = ckks.context(depth=depth, n=64, security=None)
        x = ctx.encrypt([0.5])
        for f, words in (
            (lambda level, x=x, ctx=ctx: x * ctx.encode([0.5], level=level), "Encode it at a"),
            (lambda level, ctx=ctx: ctx.encrypt([0.5], level=level) * 0.5, "Encrypt it at a"),
            (lambda level, x=x, ctx=ctx: ctx.encrypt([0.5], level=level) * x, "Encrypt it at a"),
        ):
            with pytest.raises(ckks.DepthError) as info:
                f(0)
            assert words in info.value.do and "more depth" not in str(info.value)
            assert f(1).decrypt().shape == f(None).decrypt().shape == (1,)


@pytest.mark.parametrize("name", ["sign", "abs", "greater", "less", "equal", "max", "less_equal"])
def test_the_gap_that_was_passed_is_named(deep, name):
    x = deep.encrypt([0.1, -0.5]).drop_to(0)
    compared = (x,) if name in ("sign", "abs") else (x, 0.25)
    with pytest.raises(ckks.DepthError, match=f"{name} with a gap of 0.0625 at "):
        getattr(math, name)(*compared, interval=(-2, 2), gap=0.0625)
