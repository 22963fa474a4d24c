"""Whether this process was forked after JAX had started.

A forked child has one thread. JAX's threads run what it computes: without them, a child that waits
for a result waits forever. Ren raises an error there before it gives JAX something to run. Arrays
that were computed before the fork can be read, and the NumPy interpreter runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from ren.core.errors import ForkError
from ren.core.user_frame import user_line
from ren.lowering.backends.xla import jax_runtime as runtime

_is_forked = False


def _note() -> None:
    """Runs in each forked child; a child of a child stays one."""
    global _is_forked
    _is_forked = _is_forked or runtime.has_started()


if hasattr(os, "register_at_fork"):  # not on Windows, where no process forks
    os.register_at_fork(after_in_child=_note)


def is_forked() -> bool:
    """True in a process that was forked after JAX had started."""
    return _is_forked


def check_not_forked() -> None:
    """Comes before everything that JAX runs.

    Raises:
        ForkError: this process was forked after JAX had started.
    """
    if _is_forked:
        raise _error()


def check_inputs(arrays: Iterable[Any]) -> None:
    """Comes before a program on some arrays, of which those of NumPy need no threads.

    Raises:
        ForkError: this process was forked after JAX had started, and an array is JAX's.
    """
    if _is_forked and any(isinstance(a, jax.Array) for a in arrays):
        raise _error()


def on_host(array: Any) -> np.ndarray:
    """An array as NumPy's, once it is computed.

    Raises:
        ForkError: this process was forked while JAX still computed the array.
    """
    is_ready = getattr(array, "is_ready", None)  # of a JAX array
    if _is_forked and is_ready is not None and not is_ready():
        raise _error()
    return np.asarray(array)


def _error() -> ForkError:
    return ForkError(
        f"{user_line()} computes in a process that was forked after JAX had started.",
        "JAX's threads do not exist in this process, and what waits for them would hang.",
        'Start processes with multiprocessing.get_context("spawn") or "forkserver", or fork before '
        "the first use of JAX.",
    )
