"""Choose the backend: one call of native code, native kernels in XLA's, or XLA alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax

from ren.lowering.backends.native.bytecode import Form, Whole, whole
from ren.lowering.backends.native.library import library_for
from ren.lowering.backends.native.overrides import tables_for
from ren.lowering.backends.xla.tables import placement
from ren.lowering.devices.tracing import is_tracing
from ren.lowering.kernels.bodies import Table
from ren.lowering.program.graph import Call, Graph
from ren.lowering.program.kernel import Program


def library_on(programs: Iterable[Program], place: Any) -> str:
    """The name of the library whose native kernels run on arrays there; empty for none.

    Kernels of XLA alone follow their arrays to several devices, where these are or may be divided.
    """
    return "" if _may_be_divided(place) else library_for(programs)


def _may_be_divided(place: Any) -> bool:
    devices = jax.device_count() if is_tracing() else len(place.device_set) if place else 1
    return devices > 1


def formed(
    graph: Graph, tables: tuple[Table, ...], args: Sequence[Any], place: Any
) -> tuple[Graph | Form, tuple[Table, ...], str]:
    """Form in which a graph runs on arrays like `args`, its tables, and the library it calls.

    That is one call of the library where there is one that can do all of the graph. Where arrays
    may be divided among devices, that call must loop over all batch axes. Of axes that are taken
    apart each device would do all.
    """
    found = whole_call(graph, tables, [tuple(a.shape) for a in args])
    if found is not None and (found.form.is_looped or not _may_be_divided(place)):
        return found.form, found.tables, library_for(_programs(graph))
    library = library_on(_programs(graph), place)
    return graph, tables_for(tables, library), library


def _programs(graph: Graph) -> Iterable[Program]:
    return (step.program for step in graph.steps if isinstance(step, Call))


def whole_call(
    graph: Graph, tables: tuple[Table, ...], shapes: Sequence[tuple[int, ...]]
) -> Whole | None:
    """The one call of native code that runs a graph on arrays of some shapes, if any."""
    return whole(graph, tables, shapes) if library_for(_programs(graph)) else None


def is_one_call(graph: Graph, tables: tuple[Table, ...], args: Sequence[Any]) -> bool:
    """True where one call of native code runs all of a graph on arrays like `args`."""
    return isinstance(formed(graph, tables, args, placement(args))[0], Form)
