"""Whether a JAX transformation is being traced right now."""

from __future__ import annotations

from typing import Any

from jax.extend.core import get_opaque_trace_state


def _state() -> Any:
    return get_opaque_trace_state(convention="ren")


# What the state is when nothing is traced; JAX compares states by the trace that is current.
_UNTRACED = _state()


def is_tracing() -> bool:
    """True inside `jax.jit`, `vmap`, `scan`, `cond`, `eval_shape` and the like, in this thread."""
    return _state() != _UNTRACED
