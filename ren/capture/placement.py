"""Device of a call of a jitted function: that of its polynomials, or the one asked for.

The answer depends on the devices of the polynomials alone, not on their values. It can be kept with
the plan. Constants have no device and follow the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

from ren.core import op as ops
from ren.core.errors import DeviceError
from ren.core.node import Node, buffer, placeholder, toposort
from ren.core.rewrite import rewrite
from ren.core.spec import PlaceholderArg
from ren.lowering.devices import devices as where
from ren.lowering.devices.devices import PYTHON, claim_of, device_of, is_host
from ren.lowering.runtime.host_arrays import copy
from ren.poly import Poly
from ren.poly.key_ids import key_input_of
from ren.poly.poly import from_node, realize_polys

CPU = "cpu"


def visible_devices() -> tuple[Any, ...]:
    """The devices of JAX's default platform, and those of the CPU."""
    try:
        return tuple(dict.fromkeys([*jax.devices(), *jax.devices(CPU)]))
    except RuntimeError:  # JAX's settings leave the CPU out
        return tuple(jax.devices())


def place(
    polys: Sequence[Poly],
    device: Any = None,
    auto_device: bool = True,
    devices: Sequence[Any] = (),
    name: str = "A function",
) -> Any:
    """The device on which a call with these polynomials runs; they are realized.

    Args:
        polys: the polynomials among the arguments.
        device: where to run, whatever they say: as in `Poly.to`.
        auto_device: go to the accelerator, when `devices` has exactly one and all other polynomials
            are on the CPU. The python device and shards stay where they are.
        devices: those of this process, `visible_devices()`.
        name: of the function, for the error.

    Returns:
        The device or sharding that they must be moved to; None when they run where they are.

    Raises:
        DeviceError: polynomials on two devices, or no such device.
    """
    if device is not None:
        return where.resolve_device(device)
    arrays = [p.limbs for p in realize_polys(polys) if not p.is_constant]
    return target_of(arrays, auto_device, devices, name)


def target_of(
    arrays: Sequence[Any],
    auto_device: bool = True,
    devices: Sequence[Any] = (),
    name: str = "A function",
) -> Any:
    """Target device of a call, from limb arrays; otherwise `place`."""
    places = [device_of(a) for a in arrays]
    accelerators = [d for d in devices if d.platform != CPU] if auto_device else []
    if len(accelerators) == 1 and all(p in accelerators or _is_cpu(p) for p in places):
        return accelerators[0] if any(p not in accelerators for p in places) else None
    claims = {claim_of(a) for a in arrays} - {None}
    on_jax = not all(map(is_host, arrays))
    if len(claims) > 1 or (PYTHON in claims and on_jax):
        both = where.device_names(claims, on_jax)
        raise DeviceError(
            f"{name} under ren.jit got polynomials on two devices: {both}.",
            "One call runs on one device.",
            "Say on which, @ren.jit(device=...), or move the others there: x.to(device).",
        )
    return None


def moved(polys: Sequence[Poly], target: Any) -> list[Poly]:
    """The polynomials, realized, on the device or sharding `target`.

    One that is there already, and a constant, is the same object. Others are copies, made by
    `jax.device_put`, or NumPy arrays for "python". Where a sharding divides batch axes that some of
    the polynomials have, every device holds the others whole.

    Raises:
        DeviceError: a sharding does not divide the axes of a polynomial evenly.
    """
    there = realize_polys(polys)
    axes = max((len(p.shape) - 2 for p in there), default=0)
    return [p if p.is_constant else _moved(p, _own_target(p.limbs, target, axes)) for p in there]


def _moved(p: Poly, target: Any) -> Poly:
    if is_at(p.limbs, target):
        return p
    try:
        return from_node(_node_at(p.node, target))
    except ValueError as error:
        if not isinstance(target, jax.sharding.Sharding):
            raise
        raise DeviceError(
            f"The axes {p.shape} of a polynomial were to be divided as {target}: {error}",
            "A sharding divides batch axes into equal parts, one for each device of a mesh axis.",
            "Make the batch a multiple of the devices, or divide fewer axes.",
        ) from None


def _own_target(array: Any, target: Any, axes: int) -> Any:
    """`target`, or all of its devices, each with the whole of an array that it cannot divide.

    That is an array with fewer batch axes than the sharding divides, where others have `axes`.
    """
    if not isinstance(target, jax.sharding.NamedSharding):
        return target
    return whole_at(target) if array.ndim - 2 < len(target.spec) <= axes else target


def whole_at(target: Any) -> Any:
    """`target`; of a sharding over a mesh all devices, each with the whole of an array."""
    if not isinstance(target, jax.sharding.NamedSharding):
        return target
    return jax.sharding.NamedSharding(target.mesh, jax.sharding.PartitionSpec())


def divided_over(polys: Sequence[Poly]) -> Any:
    """The sharding of the first of some realized polynomials that lies on several devices."""
    for array in (p.limbs for p in polys if not p.is_constant):
        if not is_host(array) and not where.is_tracer(array) and len(array.sharding.device_set) > 1:
            return array.sharding
    return None


def with_buffers_at(root: Node, target: Any, auto: bool = False) -> Node:
    """The program that reads the buffers of `root` on `target`: what a function closes over.

    So it reads keys. With `auto` only what may be moved unasked is moved. That is arrays on the
    CPU for a device, and arrays that JAX may move for a sharding.
    """
    known: dict[Node, Node] = {}
    for node in toposort(root):
        arg = node.arg
        if node.op is ops.BUFFER and _is_to_move(arg.array, target, auto):
            known[node] = _node_at(node, target)
        elif (key := key_input_of(arg)) and _is_to_move(key.sample, target, auto):
            claim = where.claim_of_target(target)
            known[node] = placeholder(node.spec, claim, key, arg.how, arg.label)
        elif target == PYTHON and isinstance(arg, PlaceholderArg) and not key and arg.made:
            made = partial(_made_on_host, arg.made)  # encoded or drawn at each replay
            known[node] = placeholder(node.spec, PYTHON, made, arg.how)
    return rewrite(root, {}, known) if known else root


def _made_on_host(made: Callable[[Any], Any], values: Any) -> Any:
    return copy(made(values), PYTHON)


def array_at(array: Any, target: Any, auto: bool = False) -> Any:
    """A limb array on the device or sharding `target`; None, and `auto`, as `with_buffers_at`."""
    is_there = target is None or not _is_to_move(array, target, auto)
    return array if is_there else copy(array, target)


def _is_to_move(array: Any, target: Any, auto: bool) -> bool:
    if is_at(array, target):
        return False
    if auto and isinstance(target, jax.sharding.Sharding):
        return not is_host(array) and claim_of(array) is None
    return not auto or _is_cpu(device_of(array))


def is_at(array: Any, target: Any) -> bool:
    """True when a limb array is on the device or sharding `target`."""
    if is_host(array) or target == PYTHON:
        return is_host(array) and target == PYTHON
    if isinstance(target, jax.sharding.Sharding):
        return array.sharding.is_equivalent_to(target, array.ndim)
    return frozenset(array.sharding.device_set) == where.claim_of_target(target)


def _node_at(node: Node, target: Any) -> Node:
    return buffer(copy(node.arg.array, target), node.spec.ring, node.spec.domain)


def _is_cpu(place: Any) -> bool:
    """True of one CPU device; not of the python device, nor of a sharding over several."""
    return getattr(place, "platform", None) == CPU
