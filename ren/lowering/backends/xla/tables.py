"""The tables of kernels on devices: each built and put there once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import jax
import jax.core

from ren.lowering.devices.shardings import Place
from ren.lowering.devices.tracing import concretely
from ren.lowering.program.instructions import Arrays, Table

# Of these each plan has its own, and holds it as long as it lives.
_OF_ONE_PLAN = frozenset({"code"})

# Part of the cache of compiled kernels: see `ren.lowering.backends.xla.emit`.
_tables: dict[tuple[Table, Any], Arrays] = {}
_lock = threading.Lock()


def placement(args: Sequence[Any]) -> Any:
    """Placement of tables: None (JAX's default, free to move) or a set of devices."""
    for a in args:
        if isinstance(a, jax.ShapeDtypeStruct):
            is_bound = a.sharding is not None
        else:
            is_bound = not isinstance(a, jax.core.Tracer) and getattr(a, "committed", False)
        if is_bound:
            return _replicated(a.sharding)
    return None


def tables_at(tables: tuple[Table, ...], place: Place) -> tuple[Arrays, ...]:
    """The arrays of the tables where `place` is."""
    usual = place.sharding if place.is_committed else None
    found = tuple(table_on(t, usual) for t in tables)
    if all(a.sharding == place.sharding for table in found for a in table):
        return found
    return tuple(table_on(t, place.sharding) for t in tables)  # JAX's default device has changed


def _replicated(sharding: Any) -> Any:
    if isinstance(sharding, jax.sharding.NamedSharding):
        return jax.sharding.NamedSharding(sharding.mesh, jax.sharding.PartitionSpec())
    return sharding


def table_on(table: Table, place: Any) -> Arrays:
    """The arrays of a table on their device; concrete, also when asked for inside a trace."""
    key = (table, place)
    found = _tables.get(key)
    if found is None:
        with concretely():
            found = tuple(jax.device_put(a, place) for a in table.build())
        if table.kind in _OF_ONE_PLAN:
            return found
        with _lock:
            found = _tables.setdefault(key, found)
    return found


def clear_tables() -> None:
    """Drops every table; the next use puts it on its device anew."""
    with _lock:
        _tables.clear()
