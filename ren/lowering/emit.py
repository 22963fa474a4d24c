"""Programs as compiled functions: emission, the cache of compiled kernels, tables on devices."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.core
from jax import lax

from ren.lowering.bodies import BODIES, Arrays, Table
from ren.lowering.graph import Graph, Slice
from ren.lowering.program import Kernel, Program
from ren.lowering.tracing import concretely

Donations = tuple[tuple[int, int], ...]
Compiled = Callable[[tuple[Arrays, ...], tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]
CompiledGraph = Callable[[tuple[Arrays, ...], tuple[Any, ...]], tuple[Any, ...]]

# Executables of whole graphs are large and few plans share them: the least recently used goes.
MAX_GRAPHS = 64

# One of Ren's three caches: compiled kernels by structure and by which slots they may overwrite,
# and their tables by device; graphs of kernels by structure. JAX keeps, under each function, one
# executable for each batch shape and device.
_compiled: dict[tuple[Program, Donations], Compiled] = {}
_graphs: OrderedDict[Graph, CompiledGraph] = OrderedDict()
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


def compiled(program: Program, donate: Donations = ()) -> Compiled:
    """The jitted function `(tables, kept, donated) -> results` of a program, made once.

    Args:
        program: what it runs.
        donate: the slots that come in `donated`, each with the store that may overwrite it. These
            stores come first in the results, in this order: JAX gives donated buffers to results
            of their shape in the order of both.
    """
    key = (program, donate)
    function = _compiled.get(key)
    if function is None:
        given = (2,) if donate else ()
        made = jax.jit(partial(_emit_merged, program, donate), donate_argnums=given)
        with _lock:
            function = _compiled.setdefault(key, made)
    return function


def _emit_merged(
    program: Program,
    donate: Donations,
    tables: tuple[Arrays, ...],
    kept: tuple[Any, ...],
    donated: tuple[Any, ...],
) -> tuple[Any, ...]:
    given = {slot: array for (slot, _), array in zip(donate, donated, strict=True)}
    rest = iter(kept)
    slots = tuple(given[i] if i in given else next(rest) for i in range(program.slots))
    results = emit(program, tables, slots)
    return tuple(results[i] for i in _result_order(donate, len(results)))


def _divided(args: tuple[Any, ...], donate: Donations) -> tuple[tuple, tuple]:
    """The arguments kept and the arguments donated."""
    if not donate:
        return args, ()
    given = [slot for slot, _ in donate]
    kept = tuple(a for i, a in enumerate(args) if i not in given)
    return kept, tuple(args[i] for i in given)


def _result_order(donate: Donations, stores: int) -> list[int]:
    """The stores in the order in which the compiled function returns them."""
    first = [store for _, store in donate]
    return first + [i for i in range(stores) if i not in first]


def _in_store_order(results: tuple[Any, ...], donate: Donations) -> tuple[Any, ...]:
    if not donate or len(results) == 1:
        return results
    order = _result_order(donate, len(results))
    return tuple(results[order.index(i)] for i in range(len(order)))


def compiled_count() -> int:
    """How many distinct programs have been emitted in this process."""
    return len({program for program, _ in _compiled})


def run(kernel: Kernel, args: tuple[Any, ...], donate: Donations = ()) -> tuple[Any, ...]:
    """The kernel's results on JAX arrays or tracers, in order of its stores.

    Args:
        kernel: what to run.
        args: its slots, `uint32[*batch, limb, n]`, Montgomery residues in [0, q).
        donate: pairs (slot, store): the array of the slot is gone afterwards, the result of the
            store, which has its shape, may stand in its buffer. Concrete arrays alone.
    """
    place = _placement(args)
    tables = tuple(_table(t, place) for t in kernel.tables)
    with jax.enable_x64(True):
        results = compiled(kernel.program, donate)(tables, *_divided(args, donate))
    return _in_store_order(results, donate)


def emit_graph(
    graph: Graph, tables: tuple[Arrays, ...], inputs: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Runs a graph's steps; called under 64-bit types, as `emit` is.

    Each program is called as its own jitted function, so that one that recurs, or that has run by
    itself, is traced once.
    """
    values: list[Any] = list(inputs)
    for step in graph.steps:
        if isinstance(step, Slice):
            end = step.start + step.length
            values.append(lax.slice_in_dim(values[step.src], step.start, end, axis=-2))
        else:
            read = tuple(tables[i] for i in step.tables)
            values.extend(compiled(step.program)(read, tuple(values[i] for i in step.src), ()))
    return tuple(values[i] for i in graph.outputs)


def compiled_graph(graph: Graph) -> CompiledGraph:
    """The jitted function `(tables, inputs) -> outputs` of a graph; nothing is donated."""
    with _lock:
        function = _graphs.get(graph)
        if function is None:
            function = _graphs[graph] = jax.jit(partial(emit_graph, graph))
        _graphs.move_to_end(graph)
        while len(_graphs) > MAX_GRAPHS:
            _graphs.popitem(last=False)
    return function


def run_graph(graph: Graph, tables: tuple[Table, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The graph's outputs on JAX arrays.

    Args:
        graph: what to run.
        tables: the tables that its calls read.
        args: its inputs, `uint32[*batch, limb, n]`, Montgomery residues in [0, q).
    """
    place = _placement(args)
    arrays = tuple(_table(t, place) for t in tables)
    with jax.enable_x64(True):
        return compiled_graph(graph)(arrays, args)


def tables_for(tables: tuple[Table, ...], args: tuple[Any, ...]) -> tuple[Arrays, ...]:
    """The arrays of tables, where a graph with these inputs, arrays or their types, reads them."""
    place = _placement(args)
    return tuple(_table(t, place) for t in tables)


def analysis(kernel: Kernel, args: tuple[Any, ...], donate: Donations = ()) -> Any:
    """What XLA says of the memory of the kernel's executable.

    Args:
        kernel: what would run; it is compiled, and not run.
        args: the shape, type and sharding of each slot: a `jax.ShapeDtypeStruct`.
        donate: as in `run`.
    """
    tables = tuple(_shapes(t) for t in kernel.tables)
    with jax.enable_x64(True):
        function: Any = compiled(kernel.program, donate)
        return function.lower(tables, *_divided(args, donate)).compile().memory_analysis()


def _shapes(table: Table) -> tuple[jax.ShapeDtypeStruct, ...]:
    return tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in table.build())


def _placement(args: tuple[Any, ...]) -> Any:
    """Where tables must be: None (JAX's default, free to move) or a set of devices."""
    for a in args:
        if isinstance(a, jax.ShapeDtypeStruct):
            is_bound = a.sharding is not None
        else:
            is_bound = not isinstance(a, jax.core.Tracer) and getattr(a, "committed", False)
        if is_bound:
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
        with concretely():
            found = tuple(jax.device_put(a, place) for a in table.build())
        with _lock:
            found = _tables.setdefault(key, found)
    return found


def clear_kernels() -> None:
    """Drops every compiled kernel, graph and table; the next use makes them anew."""
    with _lock:
        _compiled.clear()
        _graphs.clear()
        _tables.clear()
