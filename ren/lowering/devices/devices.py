"""Devices of arrays, the device that JAX computes on, and the traces of JAX."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import attrs
import jax
import jax.core
import numpy as np
from jax.extend.core import get_opaque_trace_state
from jax.sharding import AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding

from ren.core import op as ops
from ren.core.errors import DeviceError
from ren.core.node import Node
from ren.core.spec import BufferArg, PlaceholderArg

PYTHON = "python"
DELETED = "Array has been deleted."  # as JAX says it
TRACED = "traced"

# Public in jax 0.10; without it `concretely` does what `ensure_compile_time_eval` can.
_eval_context = getattr(jax.core, "eval_context", nullcontext)
_NO_MESH = jax.sharding.AbstractMesh((), ())


def threads() -> int:
    """Number of XLA's threads on the CPU: the processors that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


# ------------------------------------------------------------------- arrays


def is_tracer(array: Any) -> bool:
    """True for a JAX tracer."""
    return isinstance(array, jax.core.Tracer)


def is_host(array: Any) -> bool:
    """True for a NumPy array: the reference device."""
    return isinstance(array, np.ndarray)


def is_spread(array: Any) -> bool:
    """True for an array that this process cannot read: other processes hold a part of it alone."""
    if not isinstance(array, jax.Array) or is_tracer(array):
        return False
    return not (array.is_fully_addressable or array.is_fully_replicated)


def check_addressable(array: Any) -> None:
    """Check that this process can read an array whole.

    Raises:
        DeviceError: other processes hold a part of it alone.
    """
    if is_spread(array):
        raise DeviceError(
            f"The value of an array was asked for that is divided over processes; this is process "
            f"{jax.process_index()} of {jax.process_count()}.",
            "A process reads what its own devices hold, or what every device holds whole.",
            "Gather it first, in every process: "
            "jax.experimental.multihost_utils.process_allgather(x, tiled=True).",
        )


def device_of(array: Any) -> Any:
    """ "python" for a NumPy array, "traced" for a tracer, else the JAX sharding's device.

    One device stands for itself; an array over several gives its sharding.
    """
    if is_host(array):
        return PYTHON
    if is_tracer(array):
        return TRACED
    devices = array.sharding.device_set
    return next(iter(devices)) if len(devices) == 1 else array.sharding


def claim_of(array: Any) -> Any:
    """Devices that an array demands of its partners: None when JAX is free to move it."""
    if is_host(array):
        return PYTHON
    if is_tracer(array) or not getattr(array, "committed", False):
        return None
    return frozenset(array.sharding.device_set)


def claim_of_target(device: Any) -> Any:
    """Devices that an array that was moved to `device` demands of its partners."""
    if device == PYTHON:
        return PYTHON
    if isinstance(device, jax.sharding.Sharding):
        return frozenset(device.device_set)
    return frozenset({device})


_BOUND = (np.ndarray, jax.core.Tracer)  # as a rule an array is neither


def claims_of(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """`claim_of` of each array. As a rule all are free to be moved, which is seen fast."""
    if any([isinstance(a, _BOUND) or getattr(a, "committed", False) for a in arrays]):
        return tuple(map(claim_of, arrays))
    return (None,) * len(arrays)


def layout_of(array: Any) -> Any:
    """Memory layout of an array, to be compared; None in a JAX that does not tell cheaply.

    `array.format`, which is public, takes over a microsecond.
    """
    if array.is_deleted():  # asking would end the process
        raise RuntimeError(DELETED)
    return getattr(array, "_pjrt_layout", None)


def likeness_reader(array: Any) -> Callable[[Any], tuple[Any, ...]]:
    """For arrays of the type of `array` what tells two of them apart, their values left out.

    Returns:
        A function of an array that is not deleted: its shape, whether it is committed, its
        sharding, and its layout. Public properties take a call of Python each. Where JAX has no
        private names for them, the layout is left out.
    """
    private = operator.attrgetter("aval.shape", "_committed", "_sharding", "_pjrt_layout")
    try:
        private(array)
    except AttributeError:
        return operator.attrgetter("shape", "committed", "sharding")
    return private


# ------------------------------------------------------------------- operands of a program


def check_devices(order: Sequence[Node]) -> dict[Node, Any]:
    """Claim of each node on its partners, as `claim_of`; `order` is topological.

    Raises:
        DeviceError: a node's operands are on two devices.
    """
    claims: dict[Node, tuple[Any, bool]] = {}  # claim, and whether any array is a JAX array
    for node in order:
        claims[node] = _node_claim(node, [claims[s] for s in node.src])
    return {node: claim for node, (claim, _) in claims.items()}


def _node_claim(node: Node, below: list[tuple[Any, bool]]) -> tuple[Any, bool]:
    if isinstance(node.arg, BufferArg):
        claim = claim_of(node.arg.array)
        return claim, claim != PYTHON
    if isinstance(node.arg, PlaceholderArg):
        return node.arg.device, node.arg.device != PYTHON
    if node.op is ops.COPY:
        claim = claim_of_target(node.arg.device)
        return claim, claim != PYTHON
    if node.op in (ops.SINK, ops.SCALAR):
        return None, False
    found = {claim for claim, _ in below if claim is not None}
    on_jax = any(jax_array for _, jax_array in below)
    if len(found) > 1 or (PYTHON in found and on_jax):
        numpy = " Arrays of NumPy, as np.load gives them, are on the python device."
        raise DeviceError(
            f"{node.op.name} got polynomials on two devices: {device_names(found, on_jax)}.",
            "The operands of one operation must be on one device." + numpy * (PYTHON in found),
            "Move one of them: x.to(y.device) of a Poly, jax.device_put(ct, jax.devices()[0]) of "
            "what holds it, such as a ciphertext.",
        )
    return (found.pop() if found else None), on_jax


def device_names(found: set[Any], on_jax: bool) -> str:
    """Claims in words; `on_jax` when there are JAX arrays beside them, on the default device."""
    names = sorted(PYTHON if c == PYTHON else ", ".join(sorted(map(str, c))) for c in found)
    if len(names) == 1 and on_jax:
        names.append(str(jax.devices()[0]))
    return " and ".join(names)


def device_name(device: Any) -> str:
    """Name of a jax.Device for `resolve_device`, as "gpu:1"."""
    return f"{device.platform}:{jax.devices(device.platform).index(device)}"


def resolve_device(device: Any) -> Any:
    """A device as users name it: "python", "cpu", "gpu:1", a jax.Device or a sharding.

    Raises:
        DeviceError: when there is no such device.
    """
    if isinstance(device, jax.Device | jax.sharding.Sharding):
        return device
    if device == PYTHON:
        return PYTHON
    if isinstance(device, str):
        platform, _, index = device.partition(":")
        try:
            return jax.devices(platform)[int(index or 0)]
        except (RuntimeError, IndexError, ValueError):
            pass
    raise DeviceError(
        f"There is no device {device!r}.",
        'A device is "python" (the NumPy reference), a platform such as "cpu" or "gpu:0", a '
        "jax.Device or a jax.sharding.Sharding.",
        f"The devices here are: python, {', '.join(map(str, jax.devices()))}.",
    )


# ------------------------------------------------------------------- where JAX computes


@attrs.frozen
class Place:
    """One device, and whether results are bound to it."""

    sharding: Any
    is_committed: bool


def common_place(arrays: Sequence[Any]) -> Place | None:
    """The one device that concrete arrays are on and that JAX would use for them.

    None for arrays of NumPy, on several devices, or in memory of another kind. None also where they
    are free to be moved to a mesh or a default device elsewhere.
    """
    if not mesh_in_use().empty:
        return None
    if not arrays:
        device = default_device()
        return None if device is None else Place(SingleDeviceSharding(device), False)
    if not all(isinstance(a, jax.Array) for a in arrays):
        return None
    sharding = arrays[0].sharding
    if type(sharding) is not SingleDeviceSharding:
        return None
    if any(a.sharding is not sharding and a.sharding != sharding for a in arrays):
        return None
    (device,) = sharding.device_set
    if sharding.memory_kind not in (None, device.default_memory().kind):
        return None
    is_committed = any(a.committed for a in arrays)
    if not is_committed and device != default_device():
        return None
    return Place(sharding, is_committed)


def are_divided(arrays: Sequence[Any]) -> bool:
    """True for concrete arrays that JAX would compute with on several devices, all on the same."""
    if not all(isinstance(a, jax.Array) for a in arrays):
        return False
    found = {frozenset(a.sharding.device_set) for a in arrays if a.committed}
    return len(found) == 1 and len(*found) > 1


def default_device() -> Any:
    """The device that JAX uses for arrays that are bound to none; None where it is a name."""
    chosen = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if chosen is None:
        return jax.local_devices()[0]
    return chosen if isinstance(chosen, jax.Device) else None


def mesh_in_use() -> Any:
    """The mesh that `jax.set_mesh` has set, or an empty one."""
    return jax.sharding.get_abstract_mesh()


def without_mesh() -> AbstractContextManager[Any]:
    """Runs what is inside as if `jax.set_mesh` had set none: concrete arrays tell where they are.

    Under a mesh with explicit axes XLA would gather what a native call returns. Inside of a trace
    JAX may refuse to unset the mesh. Arrays that are bound to no device then go to its devices.
    """
    try:
        return jax.set_mesh(None)
    except (AttributeError, TypeError, ValueError):
        return jax.sharding.use_abstract_mesh(_NO_MESH)


def with_divided_results(run: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """run(*inputs) while JAX traces, with results divided as the inputs are.

    They are divided along their batch axes, aligned from the right. This is for meshes with
    explicit axes, which are part of the types of arrays. Elsewhere XLA decides.
    """
    mesh = mesh_in_use()
    if AxisType.Explicit not in mesh.axis_types:
        return run(*inputs)
    over: dict[int, Any] = {}  # of each batch axis from the right its length and mesh axes
    for array in inputs:
        spec = jax.typeof(array).sharding.spec
        for axis, names in enumerate(spec[:-2]):
            if names is not None:
                over.setdefault(array.ndim - axis, (array.shape[axis], names))

    def sharding(result: Any) -> NamedSharding:
        spec = [over.get(result.ndim - i, (0, None)) for i in range(result.ndim)]
        names = [n if length == result.shape[i] else None for i, (length, n) in enumerate(spec)]
        return NamedSharding(mesh, PartitionSpec(*names))

    within = jax.tree.map(sharding, jax.eval_shape(run, *inputs))
    return jax.sharding.auto_axes(run, out_sharding=within)(*inputs)


# ------------------------------------------------------------------- traces of JAX


def trace_state() -> Any:
    """State of JAX's tracing in this thread: equal while one trace is current."""
    return get_opaque_trace_state(convention="ren")


_UNTRACED = trace_state()  # when nothing is traced
_trace_context = _eval_trace = None
try:  # private, and a third of the time of comparing states
    from jax._src.core import eval_trace as _eval_trace
    from jax._src.core import trace_ctx as _trace_context
except ImportError:  # another JAX
    pass


def is_tracing() -> bool:
    """True inside `jax.jit`, `vmap`, `scan`, `cond`, `eval_shape` and the like, in this thread."""
    if _trace_context is None:
        return trace_state() != _UNTRACED
    return _trace_context.trace is not _eval_trace


@contextmanager
def concretely() -> Iterator[None]:
    """Computes with concrete arrays at once, as if nothing were traced.

    `jax.ensure_compile_time_eval` alone leaves tracers inside a `jax.shard_map` that is not itself
    under `jax.jit`.
    """
    if not is_tracing():
        yield
        return
    with jax.ensure_compile_time_eval(), _eval_context(), without_mesh():
        yield


@contextmanager
def wide() -> Iterator[None]:
    """JAX's settings as kernels are written for: 64-bit types, and NumPy's broadcasting."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        yield
