"""Programs as compiled functions: emission, the cache of compiled kernels, tables on devices."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.core

from ren.lowering.bodies import BODIES, Arrays, Table
from ren.lowering.program import Kernel, Program

Compiled = Callable[[tuple[Arrays, ...], tuple[Any, ...]], tuple[Any, ...]]

# One of Ren's three caches: compiled kernels by structure, and their tables by device. JAX keeps,
# under each function, one executable for each batch shape and device.
_compiled: dict[Program, Compiled] = {}
_tables: dict[tuple[Table, Any], Arrays] = {}
_lock = threading.Lock()


def emit(program: Program, tables: tuple[Arrays, ...], slots: tuple[Any, ...]) -> tuple[Any, ...]:
    """Runs a program's instructions as jax.numpy; called under 64-bit types.

    Args:
        program: what to run.
        tables: its constant arrays.
        slots: `uint32[*batch, limb, n]`, Montgomery residues in [0, q).

    Returns:
        What the program stores, in order, each `uint32[*batch, limb, n]` in [0, q).
    """
    values: list[Any] = []
    for instr in program.instrs:
        if instr.op == "SLOT":
            index = instr.structure
            values.append(slots[index] if index >= 0 else None)  # type: ignore[index,operator]
            continue
        read = [tables[i] for i in instr.tables]
        values.append(BODIES[instr.op].emit(instr, read, *(values[i] for i in instr.src)))
    return tuple(values[i] for i in program.outputs)


def compiled(program: Program) -> Compiled:
    """The jitted function of a program, made once."""
    function = _compiled.get(program)
    if function is None:
        with _lock:
            function = _compiled.setdefault(program, jax.jit(partial(emit, program)))
    return function


def compiled_count() -> int:
    """How many distinct programs have been emitted in this process."""
    return len(_compiled)


def run(kernel: Kernel, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The kernel's results on JAX arrays or tracers, in order of its stores."""
    place = _placement(args)
    tables = tuple(_table(t, place) for t in kernel.tables)
    with jax.enable_x64(True):
        return compiled(kernel.program)(tables, args)


def _placement(args: tuple[Any, ...]) -> Any:
    """Where tables must be: None (JAX's default, free to move) or a set of devices."""
    for a in args:
        if not isinstance(a, jax.core.Tracer) and getattr(a, "committed", False):
            return _replicated(a.sharding)
    return None


def _replicated(sharding: Any) -> Any:
    if isinstance(sharding, jax.sharding.NamedSharding):
        return jax.sharding.NamedSharding(sharding.mesh, jax.sharding.PartitionSpec())
    return sharding


def _table(table: Table, place: Any) -> Arrays:
    """The arrays of a table on their device; concrete, also when asked for inside a trace."""
    key = (table, place)
    found = _tables.get(key)
    if found is None:
        with jax.ensure_compile_time_eval():
            found = tuple(jax.device_put(a, place) for a in table.build())
        with _lock:
            found = _tables.setdefault(key, found)
    return found


def clear_kernels() -> None:
    """Drops every compiled kernel and table; the next use makes them anew."""
    with _lock:
        _compiled.clear()
        _tables.clear()
