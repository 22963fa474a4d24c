"""Programs and graphs as JAX functions: their emission, and the cache of what is compiled."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import jax
from jax import lax

from ren.lowering.backends.xla.executables import Executables
from ren.lowering.backends.xla.ops import EMIT
from ren.lowering.backends.xla.tables import clear_tables
from ren.lowering.kernels.keeps_calls import apart
from ren.lowering.kernels.limb_groups import emitted
from ren.lowering.program.graph import Graph, Slice
from ren.lowering.program.instructions import Arrays
from ren.lowering.program.kernel import Program
from ren.lowering.program.segment import Donations

# Executables of whole graphs are large and few plans share them: the least recently used goes.
MAX_GRAPHS = 64

# Two of Ren's three caches. One has compiled kernels by structure and by overwritten slots. The
# other has compiled graphs by structure, native calls among them. The third has tables by device,
# in `ren.lowering.backends.xla.tables`. Each function has one executable for each batch shape and
# device.
_kernels: dict[tuple[Program, Donations], Executables] = {}
_graphs: OrderedDict[Hashable, Executables] = OrderedDict()
_lock = threading.Lock()
# The holder of an executable compares this to see whether the executable was cleared.
_epoch = object()


def emit(program: Program, tables: Sequence[Arrays], slots: Sequence[Any]) -> tuple[Any, ...]:
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
            index: Any = instr.structure
            values.append(slots[index] if index >= 0 else None)
            continue
        read = [tables[i] for i in instr.tables]
        src = [values[i] for i in instr.src]
        values.append(emitted(EMIT[instr.op], instr, read, src))
    return tuple(values[i] for i in program.outputs)


def kernel_function(program: Program, donate: Donations = ()) -> Executables:
    """The jitted function `(tables, kept, donated) -> results` of a program, made once.

    Args:
        program: what it runs.
        donate: the slots that come in `donated`, each with the store that may overwrite it. These
            stores come first in the results, in this order. JAX gives donated buffers to results of
            their shape in the order of both.
    """
    key = (program, donate)
    found = _kernels.get(key)
    if found is None:
        donated = (2,) if donate else ()
        merged = partial(_emit_merged, *key)
        made = Executables(jax.jit(merged, donate_argnums=donated, keep_unused=True), key)
        with _lock:
            found = _kernels.setdefault(key, made)
    return found


def _emit_merged(
    program: Program,
    donate: Donations,
    tables: tuple[Arrays, ...],
    kept: tuple[Any, ...],
    donated: tuple[Any, ...],
) -> tuple[Any, ...]:
    given_away = {slot: array for (slot, _), array in zip(donate, donated, strict=True)}
    rest = iter(kept)
    slots = [given_away[i] if i in given_away else next(rest) for i in range(program.slots)]
    results = emit(program, tables, slots)
    return tuple(results[i] for i in result_order(donate, len(results)))


def slot_order(donate: Donations, slots: int) -> tuple[int, ...]:
    """The slots in the order in which the compiled function takes them: kept, then donated."""
    given = [slot for slot, _ in donate]
    return (*(i for i in range(slots) if i not in given), *given)


def result_order(donate: Donations, stores: int) -> tuple[int, ...]:
    """The stores in the order in which the compiled function returns them."""
    first = [store for _, store in donate]
    return (*first, *(i for i in range(stores) if i not in first))


def emit_graph(
    graph: Graph, tables: tuple[Arrays, ...], inputs: tuple[Any, ...], donated: tuple[()] = ()
) -> tuple[Any, ...]:
    """Runs a graph's steps; called under 64-bit types, as `emit` is. Nothing is donated.

    Each program is called as its own jitted function, which stays one in XLA's program.
    """
    values: list[Any] = list(inputs)
    for step in graph.steps:
        if isinstance(step, Slice):
            end = step.start + step.length
            values.append(lax.slice_in_dim(values[step.src], step.start, end, axis=-2))
        else:
            read = tuple(tables[i] for i in step.tables)
            with apart():
                function = kernel_function(step.program).function
                values.extend(function(read, tuple(values[i] for i in step.src), ()))
    return tuple(values[i] for i in graph.outputs)


def graph_function(key: Hashable, run: Callable[..., Any]) -> Executables:
    """The jitted function `(tables, inputs, ()) -> outputs`, made once; nothing is donated.

    Args:
        key: what it computes: a `Graph`, or a value of another backend that `canonical` can print.
        run: the function itself.
    """
    with _lock:
        found = _graphs.get(key)
        if found is None:
            found = _graphs[key] = Executables(jax.jit(run, keep_unused=True), key)
        _graphs.move_to_end(key)
        while len(_graphs) > MAX_GRAPHS:
            _graphs.popitem(last=False)
    return found


def compiled_count() -> int:
    """Number of distinct programs compiled, or read from disk, in this process."""
    return len({program for program, _ in _kernels})


def compiled_graphs() -> tuple[Hashable, ...]:
    """The keys of the graphs that are compiled, or read from disk, in this process."""
    return tuple(_graphs)


def epoch() -> object:
    """Token of the current set of kernels; `clear_kernels` replaces it."""
    return _epoch


def clear_kernels() -> None:
    """Drops every compiled kernel, graph and table; the next use makes them anew."""
    global _epoch
    with _lock:
        _epoch = object()
        _kernels.clear()
        _graphs.clear()
    clear_tables()
