"""Steps that compare tracked bounds: with what a level holds, with what a function takes.

Under `ren.jit` a step is part of the program, and reports at each replay. Inside a JAX
transformation nothing can be reported: noise becomes unknown instead, which `decrypt` reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ren.poly.batching import chosen
from ren.poly.symbolic import derived, is_sampling
from ren.schemes.ckks.noise.bounds import LARGEST, Noise, on_host

TOLERANCE = 1 + 1e-5  # of comparisons between bounds: float32 rounds


def inside(a: Noise, bound: float, report: Callable[[float], None]) -> Noise:
    """Noise of an argument whose bound is compared with what a function takes: unknown beyond.

    Args:
        a: of the argument.
        bound: the largest modulus that the function takes.
        report: called with the bound that is beyond, under `ren.jit` at replays.
    """
    return derived(partial(_inside, bound * TOLERANCE, report), on_host(a))


def checked(
    a: Noise, limit: float, operands: Sequence[tuple[Noise, float]], report: Callable[[float], None]
) -> Noise:
    """Noise of a result as it is, after its bound was compared with what its level holds.

    Args:
        a: of the result.
        limit: the largest modulus that its level holds.
        operands: the noise of each operand, and what its level holds: where one is beyond that
            already, nothing is reported.
        report: called with a bound that is beyond `limit`. Called with NaN where it is unknown and
            was known of all operands.
    """
    limits = tuple(held * TOLERANCE for held in (limit, *(held for _, held in operands)))
    hosts = (on_host(noise) for noise, _ in operands)
    return derived(partial(_checked, limits, report), on_host(a), *hosts)


def _checked(
    limits: tuple[float, ...], report: Callable[[float], None], a: Noise, *operands: Noise
) -> Noise:
    if not isinstance(a, np.ndarray):
        limit = np.float32(min(limits[0], 2 * LARGEST))  # beyond it bounds are unknown anyway
        return chosen(a[..., :1] > limit, np.float32(np.nan), a)
    bound = _largest(a)
    if bound <= limits[0] or is_sampling():
        return a
    before = [_largest(o) if isinstance(o, np.ndarray) else math.nan for o in operands]
    if any(map(math.isnan, before)):
        return a
    if math.isnan(bound) or all(b <= held for b, held in zip(before, limits[1:], strict=True)):
        report(math.nan if math.isnan(bound) else bound)
    return a


def _largest(a: NDArray[np.float32]) -> float:
    return float(a[0] if a.ndim == 1 else a[..., 0].max())


def _inside(bound: float, report: Callable[[float], None], a: Noise) -> Noise:
    if isinstance(a, np.ndarray):
        beyond = a[..., :1] > bound  # False where it is unknown
        if not beyond.any():
            return a
        if not is_sampling():
            report(float(a[..., 0].max()))
        return np.where(beyond, np.float32(np.nan), a)
    return chosen(a[..., :1] > bound, np.float32(np.nan), a)
