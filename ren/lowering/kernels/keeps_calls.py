"""Jitted functions that stay functions of their own inside a larger XLA program."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax

try:
    from jax.experimental.xla_metadata import set_xla_metadata
except ImportError:  # experimental: another JAX may not have it
    set_xla_metadata = None


def is_apart() -> bool:
    """Whether jitted functions called under `apart()` are not inlined.

    XLA:CPU otherwise fuses across them, undoes the budget of kernels and computes values anew in
    each that reads them. Measured at n = 2^14, kernels inlined -> apart, units beside them: a
    rotation 10.8 -> 4.8 ms (5.2), a product 6.9 -> 4.8 (6.5), 120 kernels of n = 2^10 1.2 -> 0.26
    (0.3), each the least of 25. Nothing was measured on other platforms.
    """
    return set_xla_metadata is not None and jax.default_backend() == "cpu"


def apart() -> AbstractContextManager[Any]:
    """Calls of jitted functions inside stay calls in XLA's program, where `is_apart()`."""
    if set_xla_metadata is None or not is_apart():
        return nullcontext()
    return set_xla_metadata(inlineable="false")
