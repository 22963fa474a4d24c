"""Whether a JAX transformation is being traced right now, and how to compute regardless of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
from jax.core import eval_context
from jax.extend.core import get_opaque_trace_state

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
    with jax.ensure_compile_time_eval(), eval_context(), jax.sharding.use_abstract_mesh(_NO_MESH):
        yield
