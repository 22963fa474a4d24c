"""Whether a JAX transformation is being traced right now, and how to compute regardless of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import jax
import jax.core
from jax.extend.core import get_opaque_trace_state

# Public in jax 0.10; without it `concretely` does what `ensure_compile_time_eval` can.
_eval_context = getattr(jax.core, "eval_context", nullcontext)
_NO_MESH = jax.sharding.AbstractMesh((), ())


def _state() -> Any:
    return get_opaque_trace_state(convention="ren")


# What the state is when nothing is traced; JAX compares states by the trace that is current.
_UNTRACED = _state()


def is_tracing() -> bool:
    """True inside `jax.jit`, `vmap`, `scan`, `cond`, `eval_shape` and the like, in this thread."""
    return _state() != _UNTRACED


@contextmanager
def concretely() -> Iterator[None]:
    """Computes with concrete arrays at once, as if nothing were traced.

    `jax.ensure_compile_time_eval` alone leaves tracers inside a `jax.shard_map` that is not itself
    under `jax.jit`.
    """
    if not is_tracing():
        yield
        return
    with jax.ensure_compile_time_eval(), _eval_context(), jax.sharding.use_abstract_mesh(_NO_MESH):
        yield


@contextmanager
def wide() -> Iterator[None]:
    """JAX's settings as kernels are written for: 64-bit types, and NumPy's broadcasting."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        yield
