"""Device of a call of a jitted function: that of its polynomials, or the one asked for.

The answer depends on the devices of the polynomials alone, not on their values. It can be kept with
the plan. Constants have no device and follow the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from ren.core import op as ops
from ren.core.errors import DeviceError
from ren.core.node import Node, buffer, placeholder, toposort
from ren.core.rewrite import rewrite
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
    `jax.device_put`, or NumPy arrays for "python".
    """
    return [
        p if p.is_constant or is_at(p.limbs, target) else from_node(_node_at(p.node, target))
        for p in realize_polys(polys)
    ]


def with_buffers_at(root: Node, target: Any, auto: bool = False) -> Node:
    """The program that reads the buffers of `root` on `target`: what a function closes over.

    So it reads keys. With `auto` only what `auto_device` may move is moved: arrays on the CPU.
    """
    known: dict[Node, Node] = {}
    for node in toposort(root):
        if node.op is ops.BUFFER and _is_to_move(node.arg.array, target, auto):
            known[node] = _node_at(node, target)
        elif (key := key_input_of(node.arg)) and _is_to_move(key.sample, target, auto):
            claim = where.claim_of_target(target)
            known[node] = placeholder(node.spec, claim, key, node.arg.how, node.arg.label)
    return rewrite(root, {}, known) if known else root


def array_at(array: Any, target: Any, auto: bool = False) -> Any:
    """A limb array on the device or sharding `target`; None, and `auto`, as `with_buffers_at`."""
    is_there = target is None or not _is_to_move(array, target, auto)
    return array if is_there else copy(array, target)


def _is_to_move(array: Any, target: Any, auto: bool) -> bool:
    return not is_at(array, target) and (not auto or _is_cpu(device_of(array)))


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
