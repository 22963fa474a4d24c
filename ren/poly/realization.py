"""Realization: lazy nodes become buffers, together, and what was computed is remembered.

Functions that are captured stay lazy, and so do polynomials gathered from a structure. A capture
that JAX traces reads its arguments as tracers; see `ren/capture/loops.py`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import attrs
import jax
import jax.core
import jax.numpy as jnp

from ren.core import op as ops
from ren.core.context_values import Changed
from ren.core.errors import DeviceError, DonatedBufferError, TracedValueError
from ren.core.node import (
    Node,
    Structure,
    buffer,
    buffer_like,
    make,
    next_serial,
    structure_of,
    toposort,
)
from ren.core.op import Kind
from ren.core.rewrite import rewrite
from ren.core.ring import Domain, is_subset
from ren.core.user_frame import functions_between, user_line
from ren.lowering.devices import devices
from ren.lowering.devices.devices import concretely, is_tracer, is_tracing, trace_state
from ren.lowering.devices.donation import check_not_donated, is_donated
from ren.lowering.devices.trace_inputs import TraceInputs, trace_inputs, tracing
from ren.lowering.runtime.open_constants import bound
from ren.lowering.runtime.planning import run_planned


class _Lookup(Mapping[Node, Node]):
    """The node that stands for another; it is only looked up."""

    def __getitem__(self, key: Node) -> Node:
        if (found := self.get(key)) is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[Node]:
        raise TypeError("Nodes know what stands for them; no list is kept.")

    __len__ = __iter__  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return True


class _Realized(_Lookup):
    """Old node -> BUFFER node, while the buffer is there: a donated one is forgotten on sight.

    Other live polynomials read through it. Each node holds its own entry.

    Attributes:
        count: of the entries that were ever made.
    """

    count = 0

    def get(self, key: Node, default: Any = None) -> Any:
        """The BUFFER that `key` was realized to, unless it was donated since."""
        found = key.value
        if found is None:
            return default
        if is_donated(found.arg.array):
            object.__setattr__(key, "value", None)
            return default
        return found

    def add(self, key: Node, value: Node) -> None:
        """Remember that `key` was realized to `value`; under the lock."""
        object.__setattr__(key, "value", value)
        self.count += 1


_realized = _Realized()
_lock = threading.Lock()
# What `structure_of` keeps of a program that JAX traces: its value, and the state of the trace.
_kept_in_traces: weakref.WeakKeyDictionary[Node, tuple[Any, Node]] = weakref.WeakKeyDictionary()


class _Known(_Lookup):
    """The node that stands for another: its buffer, or else what `more` has for it."""

    def __init__(self, more: Callable[[Node], Node | None]) -> None:
        self._more = more

    def get(self, key: Node, default: Any = None) -> Any:
        """The node that stands for `key`."""
        found = _realized.get(key)
        found = self._more(key) if found is None else found
        return default if found is None else found


def _kept_in_this_trace(node: Node) -> Node | None:
    state, value = _kept_in_traces.get(node, (None, None))
    return value if value is not None and state == trace_state() else None


_known_in_traces = _Known(_kept_in_this_trace)

_ARGUMENTS = (ops.PLACEHOLDER, ops.SCALAR)


@attrs.frozen(slots=False)
class Capture:
    """The capture that goes on in a thread or task, and what flattening and `ren.jit` do there.

    Attributes:
        since: nodes with a smaller serial were made before it; None where nothing is captured.
        notes: what functions say with `note` of its program; None where none are read.
        restarts: those that it has met, inside of `heeding`.
        is_sampling: a step is computed with samples: what it tells belongs to replays.
        is_collecting: polynomials are being gathered from a structure: flattening stays lazy.
        is_inlining: functions under `ren.jit` run as they are, operation by operation.
        is_comparing: JAX compares types once more: see `refuse_mismatch`.
    """

    since: int | None = None
    notes: list[str] | None = None
    restarts: list[Restart] | None = None
    is_sampling: bool = False
    is_collecting: bool = False
    is_inlining: bool = False
    is_comparing: bool = False


_capture = ContextVar("ren_capture", default=Capture())  # noqa: B039 - it is frozen


def capture_state() -> Capture:
    """The capture of this thread or task."""
    return _capture.get()


def with_capture(**fields: Any) -> Changed[Capture]:
    """Changes fields of `capture_state` for what runs inside."""
    return Changed(_capture, **fields)


def is_capturing() -> bool:
    """True inside a function that `ren.jit` is capturing."""
    return _capture.get().since is not None


def capture_serial() -> int:
    """Nodes with a smaller serial were made before the current capture began."""
    return _capture.get().since or 0


def capturing() -> Changed[Capture]:
    """Marks what runs inside as captured."""
    return with_capture(since=next_serial())


def note(text: str) -> None:
    """Says something of the program that is captured, for its `explain()`."""
    if (said := _capture.get().notes) is not None:
        said.append(text)


@contextmanager
def not_capturing() -> Iterator[None]:
    """Runs what is inside as if no capture were going on: for keys, which outlive the plan."""
    left = nullcontext() if trace_inputs.get() is None else concretely()
    with with_capture(since=None, notes=None), tracing(None), left:
        yield


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
    inputs = trace_inputs.get()
    if inputs is None:
        return _realize_nodes(nodes)
    found = {node: inputs.known(node) for node in nodes}  # JAX flattens a value several times
    todo = [node for node, known in found.items() if known is None]
    more = structure_of(todo, _realized, keeps_rounded=True).roots[len(todo) :]
    kept = {node: value for node in more if (value := inputs.known(node)) is not None}
    todo += [node for node in more if node not in kept]
    # What reads no argument is computed first, also what is kept: the trace has to read its value.
    _realize_nodes([node for node in todo if not _is_symbolic(resolved(node))])
    for node, made in zip(todo, _realize_nodes(_with_inputs(todo, inputs, kept)), strict=True):
        found[node] = inputs.keep(node, made)
    return [found[node] for node in nodes]


def _realize_nodes(nodes: Sequence[Node]) -> list[Node]:
    found = {node: known_buffer(node) for node in nodes}
    todo = [node for node, done in found.items() if done is None]
    if not todo:
        return [found[node] for node in nodes]  # type: ignore[misc]
    count, is_traced = _realized.count, is_tracing()
    program = _structure(todo, is_traced)
    if any([isinstance(leaf.arg.array, jax.core.Tracer) for leaf in program.leaves]):
        traced = _reading_tracers(program)
        # What reads none is computed first, also what is kept: the trace has to read its value.
        todo = [node for node in program.roots if node not in traced]
        found.update(zip(todo, _realize_nodes(todo), strict=True))
        program = _structure([node for node in program.roots if node in traced], is_traced)
        for node, done in zip(program.roots, compute(program), strict=True):
            if node in found:
                found[node] = done
            else:
                _kept_in_traces[node] = trace_state(), done
        return [found[node] for node in nodes]  # type: ignore[misc]
    if is_traced:
        with concretely():
            made = compute(program)
    else:
        made = compute(program)
    with _lock:  # a program of constants alone is bound to no device, which its buffer is
        is_late = _realized.count != count and any(
            [_realized.get(node) is not None for node in program.roots]
        )
        for node, done in zip(program.roots, made, strict=True):
            if not is_late and (any([s.op is ops.BUFFER for s in node.src]) or reads_array(node)):
                _realized.add(node, done)
    if is_late:  # another thread computed a part meanwhile, and all have to read its values
        return _realize_nodes(nodes)
    found.update(zip(todo, made, strict=False))  # the roots begin with them
    return [found[node] for node in nodes]  # type: ignore[misc]


def _reading_tracers(program: Structure) -> set[Node]:
    """The nodes of a program that read a tracer of JAX."""
    reading: set[Node] = set()
    for node in toposort(*program.roots):
        leaf = program.known.get(node, node)
        if leaf.op is ops.BUFFER:
            reads = is_tracer(leaf.arg.array)
        else:
            reads = any([s in reading for s in node.src])
        if reads:
            reading.add(node)
    return reading


def _structure(nodes: Sequence[Node], is_traced: bool) -> Structure:
    """Structure of a program; an error where it has no value."""
    known = _known_in_traces if is_traced else _realized
    structure = structure_of(nodes, known, keeps_rounded=True)
    if not all([leaf.op is ops.BUFFER for leaf in structure.leaves]):
        raise symbolic_value()
    if is_traced:  # nothing runs yet that would tell
        check_not_donated(*[leaf.arg.array for leaf in structure.leaves])
    return structure


class Restart(BaseException):
    """A capture has to start again. Never seen outside: handlers let it pass, and see `heeding`."""

    def __init__(self) -> None:
        super().__init__()
        if (met := _capture.get().restarts) is not None:
            met.append(self)


@contextmanager
def heeding() -> Iterator[None]:
    """Raises the first `Restart` that was met inside, whatever was made of it there."""
    met: list[Restart] = []
    try:
        with with_capture(restarts=met):
            yield
    except BaseException:
        if met:
            raise met[0] from None
        raise
    if met:
        raise met[0]


class LoopNeeded(Restart):
    """JAX asks for a symbolic value, in a loop say: the capture is to be repeated as its trace."""


def check_loop(is_leaf: bool = False, is_array: bool = False) -> None:
    """Repeat the capture as a trace where a transformation of JAX asks for an argument's value.

    Those are loops, `jax.vmap`, `jax.jit` and `jax.checkpoint`, and also `jax.tree.map` of
    polynomials, which stacks what a loop goes through.

    Args:
        is_leaf: whether it asks for the leaf of a pytree. `jax.jit` does so without a line of its
            own.
        is_array: whether it asks for an array of JAX: so do functions of `jax.numpy` of a number.

    Raises:
        LoopNeeded: this is a capture, JAX does not trace it, and a transformation asks.
    """
    if not is_capturing() or trace_inputs.get() is not None:
        return
    names = functions_between("jax")
    is_map = _MAP in names and is_tree_walk()
    is_loop = is_array if names else is_leaf
    if is_map or is_loop or any(name.startswith(_LOOPS) for name in names):
        raise LoopNeeded


def is_tree_walk() -> bool:
    """True where the user calls a function of `jax.tree`, and JAX does nothing else."""
    modules = {name.rpartition(".")[0] for name in functions_between("jax")}
    return bool(modules) and modules <= _TREES


_LOOPS = (
    "jax._src.lax.control_flow", "jax._src.api.vmap", "jax._src.api.jit", "jax._src.pjit",
    "jax._src.ad_checkpoint", "jax._src.custom_derivatives", "jax._src.custom_batching",
)  # fmt: skip
_MAP = "jax._src.tree_util.tree_map"
_TREES = {"jax.tree", "jax.tree_util", "jax._src.tree", "jax._src.tree_util"}


def _with_inputs(
    nodes: Sequence[Node], inputs: TraceInputs, kept: Mapping[Node, Node]
) -> list[Node]:
    """The nodes of a capture that JAX traces, with a tracer in place of each input.

    What depends on no argument is computed at once, and is an input that the plan holds. `kept`
    are values of the trace.
    """
    known = _Known(kept.get) if kept else _realized
    made = [rewrite(node, {}, known) for node in nodes]
    asked = [i for i, node in enumerate(made) if _is_symbolic(node)]
    sink = make(ops.SINK, [made[i] for i in asked])
    if once := independent(sink, inputs.prune):
        sink = rewrite(sink, {}, dict(zip(once, _realize_nodes(once), strict=True)))
    leaves = [n for n in toposort(sink) if n.op in _ARGUMENTS or _is_held(n)]
    sink = rewrite(sink, {}, {leaf: _input(leaf, inputs) for leaf in leaves})
    results = list(nodes)
    for i, node in zip(asked, sink.src, strict=True):
        results[i] = node
    return results


def _is_symbolic(node: Node) -> bool:
    """True when a program reads an argument or a tracer."""
    return any(n.op in _ARGUMENTS or _is_traced(n) for n in toposort(node))


def _is_traced(node: Node) -> bool:
    return node.op is ops.BUFFER and node.arg.traced


def _is_held(node: Node) -> bool:
    return node.op is ops.BUFFER and not node.arg.traced


def _input(leaf: Node, inputs: TraceInputs) -> Node:
    """The BUFFER of the tracer of an input."""
    spec = leaf.spec
    if leaf.op is ops.BUFFER:
        check_not_donated(leaf.arg.array)
        tracer = leaf.arg.array
        if devices.is_host(tracer):
            raise _on_host()
        tracer = inputs.held(tracer)
    elif leaf.op is ops.PLACEHOLDER:
        if leaf.arg.device == devices.PYTHON:
            raise _on_host()
        tracer = inputs.tracer(leaf.arg, spec.shape, spec.dtype)
    else:
        tracer = inputs.tracer(leaf.arg, (spec.ring.limbs, 1), spec.dtype)
        if spec.domain is Domain.NTT:
            tracer = jnp.broadcast_to(tracer, spec.shape)
        else:
            tracer = jnp.pad(tracer, ((0, 0), (0, spec.ring.n - 1)))
    return buffer(tracer, spec.ring, spec.domain, traced=True)


def _on_host() -> DeviceError:
    return DeviceError(
        f"{user_line()} runs a loop of JAX on a polynomial of the python device.",
        "JAX runs its loops on its own devices; the NumPy reference has none.",
        "Move it, x.to('cpu'), or write a loop of Python, which is unrolled.",
    )


def independent(sink: Node, prune: bool) -> list[Node]:
    """The outermost lazy nodes under `sink` that depend on no argument.

    Without `prune` only those made before the current capture. Views of arrays are left in the
    program: they cost nothing there, and an array of their own would.
    """
    depends: dict[Node, bool] = {}
    found: list[Node] = []
    for node in toposort(sink):
        here = node.op in (*_ARGUMENTS, ops.SINK) or _is_traced(node)
        here |= not prune and node.serial > capture_serial()
        depends[node] = here or any(depends[s] for s in node.src)
        if depends[node]:
            found += (_behind_views(s) for s in node.src if not depends[s])
    computed = (node for node in found if node.op.kind not in (Kind.LEAF, Kind.CONSTANT))
    return [node for node in dict.fromkeys(computed) if reads_array(node)]


def _behind_views(node: Node) -> Node:
    while node.op is ops.BOUNDED or (
        node.op is ops.TO_RING and is_subset(node.arg.ring.moduli, node.src[0].spec.ring.moduli)
    ):
        node = node.src[0]
    return node


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
        "Return the polynomial from the function, and ask for its value outside. Loops of jax.lax, "
        "jax.vmap and jax.jit may stand inside.",
    )


def _leaked() -> TracedValueError:
    return TracedValueError(
        f"{user_line()} asks for a polynomial or ciphertext that leaked from a JAX transformation.",
        "What is made inside of jax.jit, vmap, scan and the like has no value after it.",
        "Return it from the transformed function instead of keeping it in a list or an attribute.",
    )


def compute(structure: Structure) -> list[Node]:
    """A BUFFER node for each root, computed as one program; nothing is remembered."""
    program, inputs = bound(structure)
    try:
        if (traced := trace_inputs.get()) is not None and is_tracing():
            with jax.named_scope(traced.scope_of(program)):
                arrays = run_planned(program, inputs)
        else:
            arrays = run_planned(program, inputs)
    except DonatedBufferError:
        # Given away by another thread: what came out of the map can be computed anew.
        again = _structure(structure.roots, is_tracing())
        if again.leaves == structure.leaves:
            raise
        return compute(again)
    except jax.errors.UnexpectedTracerError:
        raise _leaked() from None
    return [wrap(array, node) for array, node in zip(arrays, structure.roots, strict=True)]


def wrap(array: Any, like: Node) -> Node:
    """The BUFFER node of an array that holds the value of `like`."""
    spec = like.spec
    is_traced = isinstance(array, jax.core.Tracer)
    if is_traced or spec.is_scalar or spec.is_literal or array.shape[:-2] != spec.batch:
        return buffer(array, spec.ring, spec.domain, traced=is_traced)
    return buffer_like(array, spec)  # in less time
