"""Segments as jitted functions and their tables, and the caches of both in this process.

These are two of Ren's three caches. A function has an executable for each batch shape and device;
tables are kept by device.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from typing import Any

import attrs
import jax
import jax.core

from ren.lowering.backends.base import Call
from ren.lowering.backends.xla.executables import Executables
from ren.lowering.backends.xla.jax_runtime import check_not_forked
from ren.lowering.devices.devices import Place, common_place, concretely, is_tracing, wide
from ren.lowering.devices.trace_inputs import trace_inputs
from ren.lowering.kernels.keeps_calls import apart
from ren.lowering.program.graph import Program
from ren.lowering.program.instructions import Arrays, Table
from ren.lowering.program.steps import Donations

# Executables of whole graphs are large and few plans share them: the least recently used goes.
MAX_GRAPHS = 64
# The backend in the log.
BY_XLA = "XLA, which chooses its lanes"
# Of these each plan has its own, and holds it as long as it lives.
_OF_ONE_PLAN = frozenset({"code"})

# Kernels by structure and by overwritten slots; graphs by structure, native calls among them.
_kernels: dict[tuple[Program, Donations], Executables] = {}
_graphs: OrderedDict[Hashable, Executables] = OrderedDict()
_tables: dict[tuple[Table, Any], Arrays] = {}
_lock = threading.Lock()
# The holder of an executable compares this to see whether the executable was cleared.
_epoch = object()


# ------------------------------------------------------------------- functions


def kernel_function(program: Program, donate: Donations, run: Callable[..., Any]) -> Executables:
    """The jitted function `(tables, *slots) -> results` of a program, made once.

    Args:
        program: what it runs.
        donate: the slots that it overwrites, each with the store that stands there. JAX gives
            donated buffers to results of their shape in the order of both.
        run: the function itself.
    """
    key = (program, donate)
    found = _kernels.get(key)
    if found is None:
        donated = tuple(1 + slot for slot, _ in donate)
        made = Executables(jax.jit(run, donate_argnums=donated, keep_unused=True), key)
        with _lock:
            found = _kernels.setdefault(key, made)
    return found


def graph_function(key: Hashable, run: Callable[..., Any]) -> Executables:
    """The jitted function `(tables, *inputs) -> outputs`, made once; nothing is donated.

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
        _tables.clear()


# ------------------------------------------------------------------- tables


def placement(args: Sequence[Any]) -> Any:
    """Placement of tables: None (JAX's default, free to move) or a set of devices."""
    for a in args:
        if isinstance(a, jax.ShapeDtypeStruct):
            is_bound = a.sharding is not None
        else:
            is_bound = not isinstance(a, jax.core.Tracer) and getattr(a, "committed", False)
        if is_bound and isinstance(a.sharding, jax.sharding.NamedSharding):
            return jax.sharding.NamedSharding(a.sharding.mesh, jax.sharding.PartitionSpec())
        if is_bound:
            return a.sharding
    return None


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


def tables_at(tables: tuple[Table, ...], place: Place) -> tuple[Arrays, ...]:
    """The arrays of the tables where `place` is."""
    usual = place.sharding if place.is_committed else None
    found = tuple(table_on(t, usual) for t in tables)
    if all(a.sharding == place.sharding for table in found for a in table):
        return found
    return tuple(table_on(t, place.sharding) for t in tables)  # JAX's default device has changed


# ------------------------------------------------------------------- segments


@attrs.frozen(eq=False)
class JaxExecutable:
    """A jitted function `(tables, *inputs) -> results` for a segment.

    Attributes:
        functions: the function, with the executables that were made of it.
        tables: what it reads besides the inputs of the segment.
        order: the position of each output of the segment among the results; empty where they are in
            order.
        keeps_call: whether it stays a function of its own in a larger XLA program.
        backend: the name of the backend, and the lanes of its vectors, for the log.
    """

    functions: Executables
    tables: tuple[Table, ...]
    order: tuple[int, ...] = ()
    keeps_call: bool = False
    backend: str = attrs.field(default=BY_XLA, kw_only=True)

    def bind(self, args: Sequence[Any]) -> Call:
        """The executable for arrays like `args`; JAX's dispatch where these are on several devices,
        or to be moved."""
        check_not_forked()
        place = common_place(args)
        call: Call | None = None
        if place is not None:
            call = self.functions.on(tables_at(self.tables, place), args, place)
        if call is None:
            call = self._dispatched
        return call if not self.order else lambda arrays: self._ordered(call(arrays))

    def traced(self, args: Sequence[Any]) -> Sequence[Any]:
        """The outputs in order, through JAX's dispatch or as a part of its trace."""
        check_not_forked()
        with apart() if self.keeps_call and is_tracing() else nullcontext():
            return self._ordered(self._dispatched(args))

    def ahead(self, types: Sequence[Any], place: Place | None) -> Callable[[], Any] | None:
        """Lowers the function for inputs of some types, here; what compiles it, in any thread.

        Args:
            types: a `jax.ShapeDtypeStruct` for each input, its sharding where it is bound.
            place: the one device where all of them are; None for several.

        Returns:
            None where the executable is there already. Else a function that returns how XLA divides
            the outputs between devices, or None where there is one.
        """
        if place is not None:
            return self.functions.ahead(tables_at(self.tables, place), types, place.sharding)
        usual = placement(types)
        lowered = self.functions.lowered(tuple(table_on(t, usual) for t in self.tables), types)
        return lambda: lowered.compile().output_shardings

    def output_types(self, types: Sequence[Any]) -> Sequence[Any]:
        """Shape and dtype of the outputs for inputs of some types."""
        with wide():
            return self._ordered(jax.eval_shape(self._dispatched, list(types)))

    def analysis(self, types: Sequence[Any]) -> Any:
        """XLA's memory analysis of the executable for inputs of some types; nothing is run."""
        tables = tuple(
            tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in t.build()) for t in self.tables
        )
        return self.functions.lowered(tables, types).compile().memory_analysis()

    def _ordered(self, results: Sequence[Any]) -> Sequence[Any]:
        return [results[i] for i in self.order] if self.order else results

    def _dispatched(self, arrays: Sequence[Any]) -> Sequence[Any]:
        place = placement(arrays)
        tables = tuple(table_on(t, place) for t in self.tables)
        if (inputs := trace_inputs.get()) is not None and is_tracing():
            tables = tuple(tuple(map(inputs.held, table)) for table in tables)
        with wide():
            return self.functions.function(tables, *arrays)
