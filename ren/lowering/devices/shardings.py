"""Placement of a set of arrays, and whether JAX would compute there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import jax
from jax.sharding import SingleDeviceSharding


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


def layout_of(array: Any) -> Any:
    """Memory layout of an array, to be compared; None in a JAX that does not tell cheaply.

    `array.format`, which is public, takes over a microsecond.
    """
    if array.is_deleted():  # asking would end the process
        raise RuntimeError("Array has been deleted.")
    return getattr(array, "_pjrt_layout", None)
