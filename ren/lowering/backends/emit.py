"""Programs as compiled functions: emission, the cache of compiled kernels."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import attrs
import jax
from jax import lax

from ren.lowering.backends.native.bytecode import Form, emit_whole
from ren.lowering.backends.native.overrides import emitter, overwrites_sources, tables_for
from ren.lowering.backends.select_backend import formed, library_on
from ren.lowering.backends.xla.executables import Executables
from ren.lowering.backends.xla.forking import check_not_forked
from ren.lowering.backends.xla.tables import clear_tables, placement, table_on, tables_at
from ren.lowering.devices.shardings import Place, common_place
from ren.lowering.devices.tracing import is_tracing, wide
from ren.lowering.kernels.bodies import Arrays, Table
from ren.lowering.kernels.keeps_calls import apart
from ren.lowering.kernels.limb_groups import emitted
from ren.lowering.program.graph import Graph, Slice, last_reads
from ren.lowering.program.kernel import Kernel, Program

Donations = tuple[tuple[int, int], ...]
Compiled = Callable[[tuple[Arrays, ...], tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]
CompiledGraph = Callable[[tuple[Arrays, ...], tuple[Any, ...]], tuple[Any, ...]]
Call = Callable[[Sequence[Any]], Sequence[Any]]

# Executables of whole graphs are large and few plans share them: the least recently used goes.
MAX_GRAPHS = 64

# One of Ren's three caches: compiled kernels by structure, by overwritten slots and by the library
# of their native kernels. The others: graphs of kernels by structure and library; tables by device,
# in `ren.lowering.backends.xla.tables`. Each function has one executable for each batch shape and
# device.
_compiled: dict[tuple[Program, Donations, str, tuple[int, ...]], Executables] = {}
_graphs: OrderedDict[tuple[Graph | Form, str], Executables] = OrderedDict()
_lock = threading.Lock()
# The holder of an executable compares this to see whether the executable was cleared.
_epoch = object()


def emit(
    program: Program,
    tables: tuple[Arrays, ...],
    slots: tuple[Any, ...],
    library: str = "",
    given: Sequence[int] = (),
) -> tuple[Any, ...]:
    """Runs a program's instructions as jax.numpy; called under 64-bit types.

    Args:
        program: what to run.
        tables: its constant arrays.
        slots: `uint32[*batch, limb, n]`, Montgomery residues in [0, q).
        library: the name of the library whose native kernels it calls; empty for none.
        given: the slots that a result may stand in.

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
        src = [values[i] for i in instr.src]
        overwrites = any(src[0] is slots[i] for i in given) if src else False
        values.append(emitted(emitter(instr.op, library, overwrites), instr, read, src))
    return tuple(values[i] for i in program.outputs)


def compiled(
    program: Program, donate: Donations = (), library: str = "", given: tuple[int, ...] = ()
) -> Compiled:
    """The jitted function `(tables, kept, donated) -> results` of a program, made once.

    Args:
        program: what it runs.
        donate: the slots that come in `donated`, each with the store that may overwrite it. These
            stores come first in the results, in this order. JAX gives donated buffers to results of
            their shape in the order of both.
        library, given: as in `emit`; XLA copies what is given and yet read afterwards.
    """
    return _kernel_executables(program, donate, library, given).function


def _kernel_executables(
    program: Program, donate: Donations, library: str, given: tuple[int, ...] = ()
) -> Executables:
    key = (program, donate, library, given)
    found = _compiled.get(key)
    if found is None:
        donated = (2,) if donate else ()
        merged = partial(_emit_merged, *key)
        made = Executables(jax.jit(merged, donate_argnums=donated, keep_unused=True), key)
        with _lock:
            found = _compiled.setdefault(key, made)
    return found


def _emit_merged(
    program: Program,
    donate: Donations,
    library: str,
    given: tuple[int, ...],
    tables: tuple[Arrays, ...],
    kept: tuple[Any, ...],
    donated: tuple[Any, ...],
) -> tuple[Any, ...]:
    given_away = {slot: array for (slot, _), array in zip(donate, donated, strict=True)}
    rest = iter(kept)
    slots = tuple(given_away[i] if i in given_away else next(rest) for i in range(program.slots))
    results = emit(program, tables, slots, library, (*given, *given_away))
    return tuple(results[i] for i in _result_order(donate, len(results)))


def _slot_order(donate: Donations, slots: int) -> list[int]:
    """The slots in the order in which the compiled function takes them: kept, then donated."""
    given = [slot for slot, _ in donate]
    return [i for i in range(slots) if i not in given] + given


def _divided(args: tuple[Any, ...], donate: Donations) -> tuple[tuple, tuple]:
    """The arguments kept and the arguments donated."""
    ordered = tuple(args[i] for i in _slot_order(donate, len(args)))
    kept = len(args) - len(donate)
    return ordered[:kept], ordered[kept:]


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
    """Number of distinct programs compiled, or read from disk, in this process."""
    return len({program for program, *_ in _compiled})


def run(kernel: Kernel, args: tuple[Any, ...], donate: Donations = ()) -> tuple[Any, ...]:
    """The kernel's results on JAX arrays or tracers, in order of its stores.

    Args:
        kernel: what to run.
        args: its slots, `uint32[*batch, limb, n]`, Montgomery residues in [0, q).
        donate: pairs (slot, store). The array of the slot is gone afterwards. The result of the
            store, which has its shape, may stand in its buffer. Concrete arrays alone.
    """
    check_not_forked()
    place = placement(args)
    library = library_on((kernel.program,), place)
    tables = tuple(table_on(t, place) for t in tables_for(kernel.tables, library))
    kept = apart() if is_tracing() else nullcontext()
    with wide(), kept:
        function = compiled(kernel.program, donate, library)
        results = function(tables, *_divided(args, donate))
    return _in_store_order(results, donate)


@attrs.frozen(eq=False)
class Prepared:
    """A kernel or a graph made ready for arrays of some shapes, on one device.

    Attributes:
        call: its results, a list, from a list of arrays.
        ins: the position of each of these arrays among the slots.
        outs: the position of each result among the stores.
    """

    call: Call
    ins: tuple[int, ...]
    outs: tuple[int, ...]

    def results(self, args: Sequence[Any]) -> Sequence[Any]:
        """The results in order of the stores, from the arrays of the slots."""
        made = self.call([args[i] for i in self.ins])
        return [made[self.outs.index(i)] for i in range(len(self.outs))]


def prepared(kernel: Kernel, args: tuple[Any, ...], donate: Donations = ()) -> Prepared | None:
    """`run` for concrete arrays like `args`: tables looked up, executable at hand.

    Returns:
        None where it takes JAX's own dispatch: arrays on several devices, or to be moved.
    """
    place = common_place(args)
    if place is None:
        return None
    library = library_on((kernel.program,), place.sharding)
    tables = tables_at(tables_for(kernel.tables, library), place)
    arguments = (tables, *_divided(args, donate))
    functions = _kernel_executables(kernel.program, donate, library)
    call = _bound(functions, tables, arguments, place)
    if call is None:
        return None
    stores = len(kernel.program.outputs)
    ins, outs = _slot_order(donate, len(args)), _result_order(donate, stores)
    return Prepared(call, tuple(ins), tuple(outs))


def _bound(
    functions: Executables, tables: tuple[Arrays, ...], arguments: tuple[Any, ...], place: Place
) -> Call | None:
    check_not_forked()
    flat = [array for table in tables for array in table]
    rest = [array for group in arguments[1:] for array in group]
    executable = functions.on(arguments, [*flat, *rest], place.sharding)
    return None if executable is None else executable.bind(flat, place.is_committed)


def emit_graph(
    graph: Graph, library: str, tables: tuple[Arrays, ...], inputs: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Runs a graph's steps; called under 64-bit types, as `emit` is.

    Each program is called as its own jitted function, which stays one in XLA's program.
    """
    values: list[Any] = list(inputs)
    for step, dying in zip(graph.steps, last_reads(graph), strict=True):
        if isinstance(step, Slice):
            end = step.start + step.length
            values.append(lax.slice_in_dim(values[step.src], step.start, end, axis=-2))
        else:
            read = tuple(tables[i] for i in step.tables)
            with apart():
                given = dying if library and overwrites_sources(step.program) else ()
                function = compiled(step.program, (), library, given)
                values.extend(function(read, tuple(values[i] for i in step.src), ()))
    return tuple(values[i] for i in graph.outputs)


def compiled_graph(graph: Graph | Form, library: str = "") -> CompiledGraph:
    """The jitted function `(tables, inputs) -> outputs` of a graph; nothing is donated."""
    return _graph_executables(graph, library).function


def _graph_executables(graph: Graph | Form, library: str) -> Executables:
    key = (graph, library)
    with _lock:
        found = _graphs.get(key)
        if found is None:
            emit_it = emit_whole if isinstance(graph, Form) else emit_graph
            function = jax.jit(partial(emit_it, graph, library), keep_unused=True)
            found = _graphs[key] = Executables(function, key)
        _graphs.move_to_end(key)
        while len(_graphs) > MAX_GRAPHS:
            _graphs.popitem(last=False)
    return found


def run_graph(graph: Graph, tables: tuple[Table, ...], args: Sequence[Any]) -> Sequence[Any]:
    """The graph's outputs on JAX arrays.

    Args:
        graph: what to run.
        tables: the tables that its calls read.
        args: its inputs, `uint32[*batch, limb, n]`, Montgomery residues in [0, q).
    """
    check_not_forked()
    place = placement(args)
    form, tables, library = formed(graph, tables, args, place)
    arrays = tuple(table_on(t, place) for t in tables)
    with wide():
        return compiled_graph(form, library)(arrays, tuple(args))


def prepared_graph(graph: Graph, tables: tuple[Table, ...], args: tuple[Any, ...]) -> Call | None:
    """`run_graph` for arrays like `args`; None where it takes JAX's own dispatch."""
    place = common_place(args)
    if place is None:
        return None
    form, tables, library = formed(graph, tables, args, place.sharding)
    arrays = tables_at(tables, place)
    functions = _graph_executables(form, library)
    return _bound(functions, arrays, (arrays, args), place)


def graph_ahead(
    graph: Graph, tables: tuple[Table, ...], types: tuple[Any, ...], place: Place | None
) -> Any:
    """Lowers a graph for inputs of some types, here; what compiles it, in any thread.

    Args:
        graph, tables: as in `run_graph`.
        types: a `jax.ShapeDtypeStruct` for each input, its sharding where it is bound.
        place: the one device where all of them are; None for several.

    Returns:
        None where the executable is there already. Else a function that returns how XLA divides the
        outputs between devices, or None where there is one.
    """
    usual = placement(types) if place is None else place.sharding
    form, tables, library = formed(graph, tables, types, usual)
    functions = _graph_executables(form, library)
    if place is not None:
        arrays = tables_at(tables, place)
        flat = [array for table in arrays for array in table]
        return functions.ahead((arrays, types), [*flat, *types], place.sharding)
    arrays = tuple(table_on(t, usual) for t in tables)
    with wide():
        lowered = functions.function.lower(arrays, types)
    return lambda: lowered.compile().output_shardings


def graph_types(graph: Graph, tables: tuple[Table, ...], types: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shape and dtype of a graph's outputs."""
    arrays = tuple(table_on(t, None) for t in tables)
    with wide():
        return jax.eval_shape(compiled_graph(graph), arrays, types)


def analysis(kernel: Kernel, args: tuple[Any, ...], donate: Donations = ()) -> Any:
    """XLA's memory analysis of the kernel's executable.

    Args:
        kernel: what would run; it is compiled, and not run.
        args: the shape, type and sharding of each slot: a `jax.ShapeDtypeStruct`.
        donate: as in `run`.
    """
    library = library_on((kernel.program,), placement(args))
    tables = tuple(_shapes(t) for t in tables_for(kernel.tables, library))
    with wide():
        function: Any = compiled(kernel.program, donate, library)
        return function.lower(tables, *_divided(args, donate)).compile().memory_analysis()


def _shapes(table: Table) -> tuple[jax.ShapeDtypeStruct, ...]:
    return tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in table.build())


def epoch() -> object:
    """Token of the current set of kernels; `clear_kernels` replaces it."""
    return _epoch


def clear_kernels() -> None:
    """Drops every compiled kernel, graph and table; the next use makes them anew."""
    global _epoch
    with _lock:
        _epoch = object()
        _compiled.clear()
        _graphs.clear()
    clear_tables()
