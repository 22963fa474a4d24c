"""Noise that can be read now: no tracer, no symbol, and not divided over processes."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ren.lowering.devices.devices import is_spread, is_tracer
from ren.poly.symbolic import Symbolic

Noise = Any  # float32 [*batch, WIDTH]: an array, a tracer, or a symbol


def known(noise: Noise) -> NDArray[np.float32] | None:
    """The array itself; the sample where it is symbolic; None for a tracer."""
    noise = noise.sample if isinstance(noise, Symbolic) else noise
    return np.asarray(noise) if is_known(noise) else None


def is_known(noise: Noise) -> bool:
    """False while a function is captured or traced, and for what is divided over processes."""
    if isinstance(noise, np.ndarray):
        return True
    return isinstance(noise, jax.Array) and not is_tracer(noise) and not is_spread(noise)


def on_host(noise: Noise) -> Noise:
    """Device arrays on the host, so that nothing is dispatched for a few numbers.

    What is divided over processes stays where it is, so that no process waits for another.
    """
    return np.asarray(noise) if is_known(noise) else noise
