"""Realization: lazy nodes become buffers, together, and what was computed is remembered.

Functions that are captured stay lazy, and so do polynomials gathered from a structure.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import jax

from ren.core import op as ops
from ren.core.errors import DonatedBufferError, TracedValueError
from ren.core.node import Node, Structure, buffer, next_serial, structure_of, toposort
from ren.core.rewrite import rewrite
from ren.core.user_frame import user_line
from ren.lowering.devices import devices
from ren.lowering.devices.devices import concretely, is_tracer
from ren.lowering.devices.donation import check_not_donated, is_donated
from ren.lowering.runtime.planning import planned, run_planned


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

_since: ContextVar[int | None] = ContextVar("ren_capture", default=None)
_collecting: ContextVar[bool] = ContextVar("ren_collecting", default=False)
_inlining: ContextVar[bool] = ContextVar("ren_inlining", default=False)


def is_capturing() -> bool:
    """True inside a function that `ren.jit` is capturing."""
    return _since.get() is not None


def capture_serial() -> int:
    """Nodes with a smaller serial were made before the current capture began."""
    return _since.get() or 0


def is_collecting() -> bool:
    """True while polynomials are being gathered from a structure: flattening stays lazy."""
    return _collecting.get()


def is_inlining() -> bool:
    """True while functions under `ren.jit` run as they are, operation by operation."""
    return _inlining.get()


@contextmanager
def _mode(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def capturing() -> AbstractContextManager[None]:
    """Marks what runs inside as captured."""
    return _mode(_since, next_serial())


def not_capturing() -> AbstractContextManager[None]:
    """Runs what is inside as if no capture were going on: for keys, which outlive the plan."""
    return _mode(_since, None)


def collecting() -> AbstractContextManager[None]:
    """Lets pytrees be taken apart without realizing what they hold."""
    return _mode(_collecting, True)


def inlining() -> AbstractContextManager[None]:
    """Lets functions under `ren.jit` run as they are, operation by operation."""
    return _mode(_inlining, True)


def known_buffer(node: Node) -> Node | None:
    """The BUFFER that a node was realized to, if it was."""
    return node if node.op is ops.BUFFER else _realized.get(node)


def check_addressable(*nodes: Node) -> None:
    """Check that this process can read programs whole, before anything of them runs.

    Raises:
        DeviceError: other processes hold a part of an array that they read alone.
    """
    for node in toposort(*map(resolved, nodes)):
        if node.op is ops.BUFFER:
            devices.check_addressable(node.arg.array)


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
    if not todo:
        return [found[node] for node in nodes]  # type: ignore[misc]
    program = _structure(todo)
    if any(is_tracer(leaf.arg.array) for leaf in program.leaves):
        traced = [n for n in todo if any(is_tracer(i.arg.array) for i in _structure([n]).leaves)]
        found.update(zip(traced, compute(_structure(traced)), strict=True))
        todo = [node for node in todo if node not in set(traced)]
        program = _structure(todo)
    if todo:
        with concretely():
            made = compute(program)
        pairs = zip(todo, made, strict=True)
        with _lock:  # a program of constants alone is bound to no device, which its buffer is
            _realized.update((node, done) for node, done in pairs if reads_array(node))
        found.update(zip(todo, made, strict=True))
    return [found[node] for node in nodes]  # type: ignore[misc]


def _structure(nodes: Sequence[Node]) -> Structure:
    """Structure of a program; an error where it has no value."""
    structure = structure_of(nodes, _realized)
    for leaf in structure.leaves:
        if leaf.op is not ops.BUFFER:
            raise symbolic_value()
        check_not_donated(leaf.arg.array)
    return structure


def reads_array(node: Node) -> bool:
    """True when a node reads an array; a program of constants alone reads none."""
    stack, seen = [node], {node}
    while stack:
        node = stack.pop()
        if node.op is ops.BUFFER:
            return True
        new = [s for s in node.src if s not in seen]
        seen.update(new)
        stack.extend(new)
    return False


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


def compute(structure: Structure) -> list[Node]:
    """A BUFFER node for each root, computed as one program; nothing is remembered."""
    program = planned(structure)
    inputs = [structure.leaves[i].arg.array for i in program.order]
    try:
        arrays = run_planned(program, inputs)
    except DonatedBufferError:
        # Given away by another thread: what came out of the map can be computed anew.
        again = _structure(structure.roots)
        if again.leaves == structure.leaves:
            raise
        return compute(again)
    except jax.errors.UnexpectedTracerError:
        raise _leaked() from None
    return [wrap(array, node) for array, node in zip(arrays, structure.roots, strict=True)]


def wrap(array: Any, like: Node) -> Node:
    """The BUFFER node of an array that holds the value of `like`."""
    return buffer(array, like.spec.ring, like.spec.domain, traced=is_tracer(array))
