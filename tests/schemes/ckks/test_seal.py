"""Errors beside those of SEAL, at the deepest chain that both allow, on the same inputs."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from ren.core.errors import InsecureParametersError
from ren.schemes import ckks
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.security import max_log_qp

TRIALS = 3
OPERATIONS = ("secret", "public", "sum", "plain", "product", "rotation")


@pytest.fixture(scope="module")
def seal():
    pytest.importorskip("tenseal")
    return importlib.import_module("benchmarks.peers.seal")


def deepest(n: int, scale_bits: int, end_bits: int) -> Parameters:
    """The parameters of most depth for which SEAL, with end primes of `end_bits`, has room too."""
    depth = int(max_log_qp(n, 128) - 2 * end_bits) // scale_bits
    while True:
        try:
            return Parameters.for_depth(depth, scale_bits=scale_bits, n=n)
        except InsecureParametersError:
            depth -= 1


def seal_errors(made, x, y) -> dict[str, np.ndarray]:
    """The error of each operation of SEAL in every slot."""
    p, q = made.encode(x), made.encode(y)
    a, b = made.encrypt(p), made.encrypt(q)
    results = {
        "secret": a,
        "public": made.encrypt(p, is_public=True),
        "sum": made.add(a, b),
        "plain": made.multiply_plain(a, q),
        "product": made.multiply(a, b),
        "rotation": made.rotate(a),
    }
    return {name: made.decrypt(c) - want for (name, c), want in paired(results, x, y)}


def ren_errors(ctx, x, y) -> dict[str, np.ndarray]:
    """The error of each operation of Ren in every slot."""
    a, b = ctx.encrypt(x), ctx.encrypt(y)
    results = {
        "secret": a,
        "public": ctx.public().encrypt(x),
        "sum": a + b,
        "plain": a * ctx.encode(y),
        "product": a * b,
        "rotation": a.rotate(1),
    }
    return {name: ctx.decrypt(c) - want for (name, c), want in paired(results, x, y)}


def paired(results, x, y):
    wanted = (x, x, x + y, x * y, x * y, np.roll(x, -1))
    assert tuple(results) == OPERATIONS
    return zip(results.items(), wanted, strict=True)


def summary(trials: list[np.ndarray]) -> tuple[float, float, float]:
    """log2 of the rms and of the 99.9th percentile; the largest error of a trial over the rms.

    The median trial: a slot of a rounding times the secret is no Gaussian, and of ten thousand
    slots one in some hundred runs lies beyond eight times the rms, in SEAL as here.
    """
    sizes = np.abs(trials)
    rms = np.sqrt(np.mean(sizes**2))
    rank = np.quantile(sizes, 0.999)
    return np.log2(rms), np.log2(rank), np.median(sizes.max(-1)) / rms


@pytest.mark.slow
@pytest.mark.parametrize("scale_bits", [30, 35, 40, 45, 50])
@pytest.mark.parametrize("log_n", [13, 14, 15])
def test_errors_are_within_a_bit_of_seal(seal, log_n, scale_bits):
    n = 1 << log_n
    end_bits = min(seal.END_BITS, scale_bits + 10)  # the shortest with room for messages
    params = deepest(n, scale_bits, end_bits)
    bits = [end_bits, *[scale_bits] * params.depth, end_bits]
    made, ctx = seal.Seal(n, bits, scale_bits), ckks.context(params=params).rotation_keys(1)
    draw = np.random.default_rng(log_n * scale_bits)
    rows = []
    for _ in range(TRIALS):
        x, y = draw.uniform(-1, 1, (2, 2, n // 2)).transpose(1, 2, 0) @ (1, 1j)
        rows.append((seal_errors(made, x, y), ren_errors(ctx, x, y)))
    for name in OPERATIONS:
        theirs, ours = (summary([row[side][name] for row in rows]) for side in (0, 1))
        print(f"depth {params.depth} {name:<9} SEAL {theirs[0]:.2f} {theirs[1]:.2f}  Ren "
              f"{ours[0]:.2f} {ours[1]:.2f}  largest {ours[2]:.1f} rms")  # fmt: skip
        assert ours[0] <= theirs[0] + 1 and ours[1] <= theirs[1] + 1
        assert ours[2] <= 8
