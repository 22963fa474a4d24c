"""Transparent results, whose c1 is zero: each warns once, at the line that made it."""

import inspect
import warnings

import numpy as np
import pytest

import ren
from ren.core import op as ops
from ren.core.node import buffer, const, make
from ren.core.ring import Domain
from ren.schemes import ckks

A, B = np.array([1.0, -2.0, 3.0]), np.array([0.5, 0.25, -1.0])
TINY = 1e-20  # rounds to zero at every scale
IMAGE = np.arange(9.0).reshape(3, 3)


@pytest.fixture(scope="module")
def ctx():
    return ckks.context(depth=2, n=1024, security=None)


@pytest.fixture(scope="module")
def x(ctx):
    return ctx.encrypt(A).realize()


@pytest.fixture(scope="module")
def y(ctx):
    return ctx.encrypt(B).realize()


def transparent_warnings(caught):
    return [w for w in caught if issubclass(w.category, ckks.TransparentWarning)]


def run(function, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = function(*args)
    assert len(caught) == len(transparent_warnings(caught))
    return made, caught


# The name in the warning, the program, and what decrypts.
FORMS = {
    "an integer": ("a product with an integer", lambda c, x, y: x * 0, 0 * A),
    "a number": ("a product with a number", lambda c, x, y: 0.0 * x, 0 * A),
    "a tiny number": ("a product with a number", lambda c, x, y: x * TINY, 0 * A),
    "a complex zero": ("a product with a number", lambda c, x, y: x * 0j, 0 * A),
    "an array": ("a product with an array", lambda c, x, y: x * np.zeros(3), 0 * A),
    "a list": ("a product with an array", lambda c, x, y: [0, 0, 0] * x, 0 * A),
    "a tiny array": ("a product with an array", lambda c, x, y: x * np.full(3, TINY), 0 * A),
    "an array with a batch": (
        "a product with an array", lambda c, x, y: x * np.zeros((2, 3)), np.zeros((2, 3)),
    ),
    "a plaintext": ("a product with a plaintext", lambda c, x, y: x * c.encode(0 * A), 0 * A),
    "a plaintext from bytes": (
        "a product with a plaintext",
        lambda c, x, y: x * ckks.Plaintext.from_bytes(c.encode(0 * A).to_bytes()),
        0 * A,
    ),
    "x - x": ("a difference", lambda c, x, y: x - x, 0 * A),
    "x + (-x)": ("a sum", lambda c, x, y: x + (-x), 0 * A),
    "-x + x": ("a sum", lambda c, x, y: -x + x, 0 * A),
    "(x + 1) - x": ("a difference", lambda c, x, y: (x + 1) - x, 0 * A + 1),
    "equal products": ("a difference", lambda c, x, y: x * y - x * y, 0 * A),
    "a matrix": ("a product with a matrix", lambda c, x, y: np.zeros((2, 3)) @ x, np.zeros(2)),
    "a matrix behind": (
        "a product with a matrix", lambda c, x, y: x @ np.zeros((3, 2)), np.zeros(2),
    ),
    "a matrix of matrices": (
        "a product with a matrix",
        lambda c, x, y: x.reshape(3, 1) @ np.zeros((1, 2)),
        np.zeros((3, 2)),
    ),
    "a linear map": (
        "a product with a matrix",
        lambda c, x, y: ckks.linear(np.zeros((2, 3)), c) @ x,
        np.zeros(2),
    ),
    "dot": ("dot()", lambda c, x, y: x.dot(np.zeros(3)), 0.0),
    "a mask": ("mask()", lambda c, x, y: x.mask(np.zeros(3)), 0 * A),
    "conv1d": ("conv1d()", lambda c, x, y: ckks.conv1d(x, [0, 0]), np.zeros(2)),
    "conv2d": (
        "conv2d()",
        lambda c, x, y: ckks.conv2d(x, np.zeros((1, 2)), image_shape=(1, 3)),
        np.zeros((1, 2)),
    ),
    "the polynomial 0": ("poly()", lambda c, x, y: ckks.poly(x, [0, 0]), 0 * A),
    "a constant polynomial": ("poly()", lambda c, x, y: ckks.poly(x, [3]), 0 * A + 3),
    "a tiny coefficient": ("poly()", lambda c, x, y: ckks.poly(x, [3, TINY]), 0 * A + 3),
    "the power 0": ("the power 0", lambda c, x, y: x**0, 0 * A + 1),
    "imag": ("imag", lambda c, x, y: x.imag, 0 * A),
    "what follows": ("a difference", lambda c, x, y: (x - x).rotate(1) * y + 2, 0 * A + 2),
}  # fmt: skip

CLEAR = {
    "a small number": (lambda c, x, y: x * 1e-6, A * 1e-6),
    "an array with one number": (lambda c, x, y: x * [0, 0, 1], A * [0, 0, 1]),
    "a plaintext with one number": (lambda c, x, y: x * c.encode([0, 0, 1.0]), A * [0, 0, 1]),
    "a sum with zeros": (lambda c, x, y: x + c.encode(0 * A) + 0 * A + 0, A),
    "x - y": (lambda c, x, y: x - y, A - B),
    "equal numbers": (lambda c, x, y: x - c.encrypt(A), 0 * A),
    "a matrix with a zero row": (lambda c, x, y: np.diag([1.0, 0, 0]) @ x, A * [1, 0, 0]),
    "dot": (lambda c, x, y: x.dot([0, 0, 1.0]), A[2]),
    "a mask": (lambda c, x, y: x.mask([0, 1, 0]), A * [0, 1, 0]),
    "conv1d": (lambda c, x, y: ckks.conv1d(x, [0.0, 1.0]), A[1:]),
    "poly": (lambda c, x, y: ckks.poly(x, [3, 1e-6]), 3 + A * 1e-6),
    "a power": (lambda c, x, y: x**1, A),
}


@pytest.mark.parametrize("form", FORMS)
def test_transparent_result_warns_once_at_its_line(ctx, x, y, form):
    name, program, expected = FORMS[form]
    made, caught = run(program, ctx, x, y)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert text.startswith(f"{name}: ")
    assert "ctx.encrypt(0.0)" in text and "that the owner or ctx.public() encrypted" in text
    first = program.__code__.co_firstlineno
    lines = len(inspect.getsource(program).splitlines())
    assert caught[0].filename == __file__
    assert first <= caught[0].lineno < first + lines
    np.testing.assert_allclose(made.decrypt(), expected, atol=1e-5)
    assert not np.asarray(made.polys[1].limbs).any()
    hidden, caught = run(lambda: made + ctx.encrypt(0.0))
    assert not caught
    np.testing.assert_allclose(hidden.decrypt(), expected, atol=1e-5)
    assert np.asarray(hidden.polys[1].limbs).any()


@pytest.mark.parametrize("form", CLEAR)
def test_result_with_something_encrypted_does_not_warn(ctx, x, y, form):
    program, expected = CLEAR[form]
    made, caught = run(program, ctx, x, y)
    assert not caught
    np.testing.assert_allclose(made.decrypt(), expected, atol=1e-5)
    assert np.asarray(made.polys[1].limbs).any()


@pytest.mark.parametrize("zero", [0.0, np.zeros(3), "plaintext"], ids=str)
def test_products_in_manual_mode_warn(ctx, x, zero):
    zero = ctx.encode(0 * A) if isinstance(zero, str) else zero

    def program():
        with ckks.manual():
            return (x * zero).rescale()

    made, caught = run(program)
    assert len(caught) == 1
    np.testing.assert_allclose(made.decrypt(), 0 * A, atol=1e-5)


def test_strict_contexts_warn_too():
    strict = ckks.context(depth=1, n=1024, security=None, strict=True)
    _, caught = run(lambda: strict.encrypt(A) * 0.0)
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("values", "zero"),
    [(2, 0), (0.5, 0.0), (0.5, TINY), (1j, 0j), (B, 0 * A), (B, TINY * A)],
    ids=["integer", "number", "tiny number", "complex", "array", "tiny array"],
)
def test_replays_warn_of_zeros_among_their_arguments(x, values, zero):
    f = ren.jit(lambda x, k: x * k)
    for k in (values, zero, values, zero):
        made, caught = run(f, x, k)
        assert len(caught) == (k is zero)
        np.testing.assert_allclose(made.decrypt(), A * k, atol=1e-5)
    assert f.cache_info().misses == 1


def test_replays_warn_in_manual_mode(x):
    def program(x, k):
        with ckks.manual():
            return (x * k).rescale()

    f = ren.jit(program)
    for k in (B, 0 * B, 0.5, 0.0):
        _, caught = run(f, x, k)
        assert len(caught) == (not np.any(k))
    with ckks.manual():
        for k in (2, 0):
            assert len(run(ren.jit(lambda x, k: x * k), x, k)[1]) == (not k)


def test_captures_warn_at_each_call(x):
    f = ren.jit(lambda x: x - x)
    assert [len(run(f, x)[1]) for _ in range(3)] == [1, 1, 1]


def test_symbolic_dot_in_a_circuit_does_not_warn(x):
    """A limit: inside of a circuit one product of many may be zero."""
    made, caught = run(ren.jit(lambda x, w: x.dot(w)), x, np.zeros(3))
    assert not caught
    np.testing.assert_allclose(made.decrypt(), 0, atol=1e-5)


def test_zero_of_a_node_follows_from_its_program(ctx):
    ring = ctx.params.ring(0)
    p, q = (buffer(np.zeros((ring.limbs, ring.n), np.uint32), ring, Domain.NTT) for _ in "pq")
    zero = const(0, ring, Domain.NTT)
    minus = make(ops.NEG, (p,))
    for node in (
        zero,
        make(ops.MUL, (p, zero)),
        make(ops.MUL, (zero, p)),
        make(ops.SUB, (p, p)),
        make(ops.ADD, (p, minus)),
        make(ops.ADD, (minus, p)),
        make(ops.INTT, (make(ops.SUB, (p, p)),)),
        make(ops.ADD, (make(ops.SUB, (p, p)), make(ops.SUB, (q, q)))),
    ):
        assert node.is_zero
    for node in (
        p,
        const(1, ring),
        minus,
        make(ops.MUL, (p, q)),
        make(ops.SUB, (p, q)),
        make(ops.ADD, (minus, q)),
        make(ops.ADD, (make(ops.SUB, (p, p)), q)),
    ):
        assert not node.is_zero
