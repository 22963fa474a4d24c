"""Devices of arrays, and the check that the operands of a program can meet."""

from __future__ import annotations

import os
from typing import Any

import jax
import jax.core
import numpy as np

from ren.core import op as ops
from ren.core.errors import DeviceError
from ren.core.node import Node
from ren.core.spec import BufferArg, PlaceholderArg

PYTHON = "python"
TRACED = "traced"


def threads() -> int:
    """Number of XLA's threads on the CPU: the processors that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def is_tracer(array: Any) -> bool:
    """True for a JAX tracer."""
    return isinstance(array, jax.core.Tracer)


def is_host(array: Any) -> bool:
    """True for a NumPy array: the reference device."""
    return isinstance(array, np.ndarray)


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


def _is_jax_array(claim: Any) -> bool:
    return claim != PYTHON


def check_devices(order: list[Node]) -> dict[Node, Any]:
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
        return claim, _is_jax_array(claim)
    if isinstance(node.arg, PlaceholderArg):
        return node.arg.device, node.arg.device != PYTHON
    if node.op is ops.COPY:
        claim = claim_of_target(node.arg.device)
        return claim, _is_jax_array(claim)
    if node.op in (ops.SINK, ops.SCALAR):
        return None, False
    found = {claim for claim, _ in below if claim is not None}
    on_jax = any(jax_array for _, jax_array in below)
    if len(found) > 1 or (PYTHON in found and on_jax):
        raise DeviceError(
            f"{node.op.name} got polynomials on two devices: {device_names(found, on_jax)}.",
            "The operands of one operation must be on one device.",
            "Move one of them: x.to(y.device), or jax.device_put(x, device) of whatever holds it.",
        )
    return (found.pop() if found else None), on_jax


def device_names(found: set[Any], on_jax: bool) -> str:
    """Claims in words; `on_jax` when there are JAX arrays beside them, on the default device."""
    names = sorted(PYTHON if c == PYTHON else ", ".join(sorted(map(str, c))) for c in found)
    if len(names) == 1 and on_jax:
        names.append(str(jax.devices()[0]))
    return " and ".join(names)


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
