"""Realization: lazy nodes become buffers, together, and what was computed is remembered."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

import jax

from ren.core import op as ops
from ren.core.errors import DonatedBufferError, TracedValueError
from ren.core.node import Node, buffer, make, toposort
from ren.core.rewrite import rewrite
from ren.core.spec import BufferArg
from ren.core.user_frame import user_line
from ren.lowering.backends.xla.forking import check_inputs
from ren.lowering.devices.devices import is_tracer
from ren.lowering.devices.donation import check_not_donated, is_donated
from ren.lowering.devices.tracing import concretely
from ren.lowering.runtime.planning import source_of
from ren.lowering.runtime.runner import run_once


class _Realized(weakref.WeakKeyDictionary[Node, Node]):
    """Old node -> BUFFER node, while the buffer is there: a donated one is forgotten on sight."""

    def get(self, key: Node, default: Any = None) -> Any:
        """The BUFFER that `key` was realized to, unless it was donated since."""
        found = super().get(key)
        if found is None:
            return default
        if is_donated(found.arg.array):
            self.pop(key, None)
            return default
        return found


# The realization map, through which other live polynomials read. Weak in its keys: an entry goes
# with the last polynomial that holds the old node.
_realized = _Realized()
_lock = threading.Lock()

_ARGUMENTS = (ops.PLACEHOLDER, ops.SCALAR)


def known_buffer(node: Node) -> Node | None:
    """The BUFFER that a node was realized to, if it was."""
    return node if node.op is ops.BUFFER else _realized.get(node)


def has_placeholder(*nodes: Node) -> bool:
    """True when a node reads an argument of a function that `ren.jit` is capturing."""
    return any(n.op in _ARGUMENTS for n in toposort(*map(resolved, nodes)))


def resolved(node: Node) -> Node:
    """`node` reading what is realized already."""
    return rewrite(node, {}, _realized)


def realize_nodes(nodes: Sequence[Node]) -> list[Node]:
    """A BUFFER node for each of `nodes`, computed as one program.

    Nodes that read only concrete arrays are computed concretely, also while JAX is tracing, and
    recorded. The others are emitted into the current trace and not recorded.

    Raises:
        TracedValueError: a node reads an argument of a function being captured, or a tracer of an
            ended JAX transformation.
        DonatedBufferError: a node reads a buffer that was given away.
    """
    found = {node: known_buffer(node) for node in nodes}
    todo = [node for node, done in found.items() if done is None]
    traced, concrete = [], []
    for node in todo:
        (traced if _reads_tracer(node) else concrete).append(node)
    if concrete:
        with concretely():
            made = compute(concrete)
        pairs = zip(concrete, made, strict=True)
        with _lock:  # a program of constants alone is bound to no device, which its buffer is
            _realized.update((node, done) for node, done in pairs if reads_array(node))
        found.update(zip(concrete, made, strict=True))
    if traced:
        found.update(zip(traced, compute(traced), strict=True))
    return [found[node] for node in nodes]  # type: ignore[misc]


def reads_array(node: Node) -> bool:
    """True when a node reads an array; a program of constants alone reads none."""
    return any(n.op is ops.BUFFER for n in toposort(node))


def _reads_tracer(node: Node) -> bool:
    reads = toposort(resolved(node))
    if any(n.op in _ARGUMENTS for n in reads):
        raise symbolic_value()
    arrays = [n.arg.array for n in reads if isinstance(n.arg, BufferArg)]
    for array in arrays:
        check_not_donated(array)
    return any(map(is_tracer, arrays))


def symbolic_value() -> TracedValueError:
    """The error of asking for a value that exists only at replay."""
    return TracedValueError(
        f"{user_line()} asks for the value of a polynomial that is symbolic.",
        "Inside a function under ren.jit, arguments have no values while it is captured, and a "
        "polynomial made there means nothing after it.",
        "Return the polynomial from the function, and ask for its value outside; write "
        "jax.vmap(ren.jit(f)) and the like, not JAX's transformations inside of f.",
    )


def _leaked() -> TracedValueError:
    return TracedValueError(
        f"{user_line()} asks for a polynomial or ciphertext that leaked from a JAX transformation.",
        "What is made inside of jax.jit, vmap, scan and the like has no value after it.",
        "Return it from the transformed function instead of keeping it in a list or an attribute.",
    )


def compute(nodes: list[Node]) -> list[Node]:
    """A BUFFER node for each of `nodes`, computed as one program; nothing is remembered."""
    sink = resolved(make(ops.SINK, nodes))
    source = source_of(sink)
    inputs = [i.arg.array for i in source.inputs if isinstance(i.arg, BufferArg)]
    check_inputs(inputs)
    try:
        arrays = run_once(source, inputs)
    except DonatedBufferError:
        # Given away by another thread: what came out of the map can be computed anew.
        if resolved(make(ops.SINK, nodes)) is sink:
            raise
        return compute(nodes)
    except jax.errors.UnexpectedTracerError:
        raise _leaked() from None
    return [wrap(array, node) for array, node in zip(arrays, nodes, strict=True)]


def wrap(array: Any, like: Node) -> Node:
    """The BUFFER node of an array that holds the value of `like`."""
    return buffer(array, like.spec.ring, like.spec.domain, traced=is_tracer(array))
