"""The error of an argument beside a function that takes it along: max, min, |x| and max(x, 0).

There |f(x + d) - f(x)| <= |d|. That does not hold for the steep polynomials inside of them, through
which a tracked error grows beyond all use. So they get x + d for the message, and the result gets
the error d once more. Between two of the polynomials, what they bring out lies near -1 or 1. There
the next one is right for x + d too, and the error d ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.poly.batching import chosen
from ren.poly.symbolic import derived, is_sampling
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.readable import Noise, on_host

_IS_ERROR = np.arange(noises.WIDTH) > 0


def parted(a: Noise, most: float) -> tuple[Noise, Noise]:
    """Noise of the message alone, and of the error alone.

    Where the message with its error may pass `most`, the first has both, and the second is zero.
    """
    a, limit = on_host(a), np.float32(most)
    return derived(partial(_message, limit), a), derived(partial(_error, limit), a)


def _message(most: np.float32, a: NDArray[np.float32]) -> NDArray[np.float32]:
    return chosen(_is_inside(most, a) & _IS_ERROR, np.float32(0), a)


def _error(most: np.float32, a: NDArray[np.float32]) -> NDArray[np.float32]:
    return chosen(_is_inside(most, a) & _IS_ERROR, a, np.float32(0))


def _is_inside(most: np.float32, a: NDArray[np.float32]) -> NDArray[np.bool_]:
    return a[..., :1] + noises.error_in_slot(a) <= most


def held(a: Noise, most: float, report: Callable[[float], None]) -> Noise:
    """Noise of an argument; unknown where the message with its error may pass `most`.

    `report` is called with the error, under `ren.jit` at replays.
    """
    return derived(partial(_held, np.float32(most), report), on_host(a))


def _held(most: np.float32, report: Callable[[float], None], a: Any) -> Any:
    beyond = a[..., :1] + noises.error_in_slot(a) > most  # False where it is unknown
    if isinstance(a, np.ndarray):
        if not beyond.any():
            return a
        if not is_sampling():
            report(float(np.max(noises.error_in_slot(a))))
    return chosen(beyond, np.float32(np.nan), a)


def between(b: Noise, c: Noise) -> Noise:
    """The error of a number that lies between two others, from their errors.

    Each entry is the larger one: t b + (1 - t) c is at most that, also where they are independent.
    """
    return derived(_larger, on_host(b), on_host(c))


def _larger(b: NDArray[np.float32], c: NDArray[np.float32]) -> NDArray[np.float32]:
    return chosen(b > c, b, c)
