"""Moduli and residue arrays for the kernel tests, and how to run a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from tests.rings import primes

R = 1 << 32


def basis(n: int, count: int) -> tuple[int, ...]:
    """`count` NTT primes, the smallest and those just under 2^30 in turn."""
    pool = primes(n)
    mixed = [q for pair in zip(pool[: len(pool) // 2], reversed(pool), strict=False) for q in pair]
    return tuple(mixed[:count])


def large_basis(n: int, count: int) -> tuple[int, ...]:
    """The `count` largest NTT primes below 2^30."""
    return primes(n)[-count:]


def random_residues(moduli: Sequence[int], n: int, *batch: int, seed: int = 0) -> np.ndarray:
    """uint32[*batch, L, n], uniform in [0, q)."""
    draws = np.random.default_rng(seed).integers(0, 1 << 62, (*batch, len(moduli), n), np.uint64)
    return (draws % np.array(moduli, np.uint64)[:, None]).astype(np.uint32)


def extreme_residues(moduli: Sequence[int], n: int, seed: int = 0) -> np.ndarray:
    """uint32[3, L, n]: all zero, all q - 1, and a mix of 0, 1, q/2, q/2 + 1, q - 2, q - 1."""
    q = np.array(moduli, np.uint32)[:, None]
    edges = np.stack([q * 0, q * 0 + 1, q // 2, q // 2 + 1, q - 2, q - 1])[..., 0]
    picks = np.random.default_rng(seed).integers(0, len(edges), (len(moduli), n))
    mixed = np.take_along_axis(edges.T, picks, axis=1)
    return np.stack([np.zeros_like(mixed), mixed * 0 + q - 1, mixed])


def all_residues(moduli: Sequence[int], n: int, seed: int = 0) -> np.ndarray:
    """uint32[5, L, n]: the extreme ones and two random polynomials."""
    return np.concatenate([extreme_residues(moduli, n), random_residues(moduli, n, 2, seed=seed)])


def montgomery(plain: Sequence[int], q: int) -> list[int]:
    """v R mod q."""
    return [int(v) * R % q for v in plain]


def plain(stored: Sequence[int], q: int) -> list[int]:
    """v R^-1 mod q."""
    inverse = pow(R, -1, q)
    return [int(v) * inverse % q for v in stored]


def run(kernel: Callable[..., jax.Array], *args: Any) -> np.ndarray:
    """The kernel, jitted, under 64-bit types; what crosses its boundary is checked to be uint32."""
    with jax.enable_x64(True):
        out = jax.jit(kernel)(*args)
    assert out.dtype == np.uint32
    return np.asarray(out)
