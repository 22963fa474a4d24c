"""Random programs at every scale: operands never fail to fit, and results keep to their bound.

Kernels are interpreted: every program has others, which would take longer to compile than to run.
"""

from __future__ import annotations

import operator
from functools import cache

import numpy as np
import pytest

import ren
from ren.poly import realization
from ren.schemes import ckks
from tests.lowering.plans import interpret_planned

SLOTS = 16
DEPTH = 4
SCALES = range(20, 61, 5)
IGNORED = pytest.mark.filterwarnings(
    "ignore::ren.core.errors.MessageBoundWarning",
    "ignore::ren.core.errors.TransparentWarning",  # a difference of one ciphertext with itself
)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch) -> None:
    monkeypatch.setattr(realization, "run_planned", interpret_planned)


@cache
def owner(scale_bits: int) -> ckks.Context:
    """n = 2^5, insecure, with room for what random sums and products grow to."""
    params = ckks.Parameters.for_depth(
        DEPTH, n=2 * SLOTS, scale_bits=scale_bits, integer_bits=14, security=None
    )
    return ckks.context(params=params)


def values(draw: np.random.Generator) -> np.ndarray:
    return draw.uniform(-1, 1, SLOTS) + 1j * draw.uniform(-1, 1, SLOTS)


def number(draw: np.random.Generator):
    """A scalar of a random type."""
    c = draw.uniform(-1, 1)
    return [
        int(draw.integers(-3, 4)), np.int64(draw.integers(-3, 4)), c, np.float32(c), c + 1j * c,
        np.complex128(c - 0.5j), np.array(c),
    ][draw.integers(7)]  # fmt: skip


HALVED = ren.jit(lambda x: x * 0.5 + 1, max_plans=64)
BINARY = ((operator.mul, np.multiply), (operator.add, np.add), (operator.sub, np.subtract))
UNARY = (
    (lambda x: -x, np.negative),
    (lambda x: x.conj(), np.conj),
    (lambda x: x.rotate(-3), lambda a: np.roll(a, 3)),
    (lambda x: x.roll(1), lambda a: np.roll(a, 1)),
    (lambda x: x.rescale(), lambda a: a),
    (lambda x: x.drop_to(max(0, x.level - 1)), lambda a: a),
    (lambda x: x.realize(), lambda a: a),
    (lambda x: ckks.Ciphertext.from_bytes(x.to_bytes()), lambda a: a),
    (lambda x: x**2, lambda a: a**2),
    (lambda x: x**3, lambda a: a**3),
    (lambda x: x.real, np.real),
    (lambda x: x.sum() * 0.1, lambda a: np.sum(a) * 0.1),
    (HALVED, lambda a: a * 0.5 + 1),
)


def other(draw: np.random.Generator, ctx: ckks.Context, pool: list):
    """A second operand of any kind, with what it holds."""
    kind = draw.choice(["ciphertext"] * 4 + ["plaintext", "array", "number"])
    if kind == "ciphertext":
        return pool[draw.integers(len(pool))]
    b = number(draw) if kind == "number" else values(draw)
    if kind == "plaintext":
        return ctx.encode(b, level=int(draw.integers(DEPTH + 1))), b
    return b, b


def step(draw: np.random.Generator, ctx: ckks.Context, pool: list):
    """The result of one random operation and what it holds; None at an exhausted depth."""
    x, a = pool[draw.integers(len(pool))]
    if draw.random() < 0.35:
        encrypted, clear = UNARY[draw.integers(len(UNARY))]
        operands, want = (x,), clear(a)
    else:
        (y, b), (encrypted, clear) = other(draw, ctx, pool), BINARY[draw.integers(3)]
        order = 1 if draw.random() < 0.5 else -1
        operands, want = (x, y)[::order], clear(*(a, b)[::order])
    try:
        return encrypted(*operands), want
    except ckks.DepthError:
        assert min(getattr(o, "level", DEPTH) for o in operands) < 2  # a cube takes two
        return None


def run(seed: int, scale_bits: int) -> float:
    """The error of the last of up to twelve random operations, over its tracked bound."""
    draw, ctx = np.random.default_rng([seed, scale_bits]), owner(scale_bits)
    pool = []
    for _ in range(draw.integers(1, 4)):
        a, level = values(draw), int(draw.integers(1, DEPTH + 1))
        pool.append((ctx.encrypt(a, level=level), a))
    for _ in range(draw.integers(3, 13)):
        made = step(draw, ctx, pool)
        if made is not None and np.abs(made[1]).max() < 1000:  # integer_bits: below 2^13
            pool.append(made)
    x, want = pool[-1]
    assert x.decrypt().shape == np.shape(want)
    return np.abs(x.decrypt() - want).max() / max(x.estimate.error_bound, 1e-300)


@pytest.mark.long
@IGNORED
@pytest.mark.parametrize("scale_bits", SCALES)
def test_operands_fit_and_bounds_hold(scale_bits):
    assert max(run(seed, scale_bits) for seed in range(1000, 1002)) <= 1


@pytest.mark.slow
@IGNORED
@pytest.mark.parametrize("scale_bits", SCALES)
def test_operands_fit_and_bounds_hold_in_a_thousand_programs(scale_bits):
    assert max(run(seed, scale_bits) for seed in range(112)) <= 1  # 9 * 112 > 1000
