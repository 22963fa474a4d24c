"""Executables of backends that compile through JAX: a jitted function and its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import attrs
import jax

from ren.lowering.backends.base import Bound, Call
from ren.lowering.backends.xla.executables import Executables
from ren.lowering.backends.xla.forking import check_not_forked
from ren.lowering.backends.xla.tables import placement, table_on, tables_at
from ren.lowering.devices.shardings import Place, common_place
from ren.lowering.devices.tracing import is_tracing, wide
from ren.lowering.kernels.keeps_calls import apart
from ren.lowering.program.instructions import Table


@attrs.frozen(eq=False)
class JaxExecutable:
    """A jitted function `(tables, kept, donated) -> results` for a segment.

    Attributes:
        functions: the function, with the executables that were made of it.
        tables: what it reads besides the inputs of the segment.
        ins: the inputs in the order of its arguments: those kept, then those donated.
        outs: the outputs in the order of its results.
        donated: how many inputs it may overwrite.
        keeps_call: whether it stays a function of its own in a larger XLA program.
    """

    functions: Executables
    tables: tuple[Table, ...]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    donated: int = 0
    keeps_call: bool = False

    def bind(self, args: Sequence[Any]) -> Bound:
        """The executable for arrays like `args`; JAX's dispatch where these are on several devices,
        or to be moved."""
        place = common_place(args)
        call = None if place is None else self._direct([args[i] for i in self.ins], place)
        return Bound(call or self._dispatched, self.ins, self.outs)

    def traced(self, args: Sequence[Any]) -> list[Any]:
        """The outputs in order, through JAX's dispatch or as a part of its trace."""
        with apart() if self.keeps_call and is_tracing() else nullcontext():
            return Bound(self._dispatched, self.ins, self.outs).results(args)

    def ahead(self, types: Sequence[Any], place: Place | None) -> Callable[[], Any] | None:
        """Lowers the function for inputs of some types, here; what compiles it, in any thread.

        Args:
            types: a `jax.ShapeDtypeStruct` for each input, its sharding where it is bound.
            place: the one device where all of them are; None for several.

        Returns:
            None where the executable is there already. Else a function that returns how XLA divides
            the outputs between devices, or None where there is one.
        """
        types = [types[i] for i in self.ins]
        if place is not None:
            arrays = tables_at(self.tables, place)
            flat = [array for table in arrays for array in table]
            return self.functions.ahead(
                (arrays, *self._groups(types)), [*flat, *types], place.sharding
            )
        lowered = self._lowered(types, [table_on(t, placement(types)) for t in self.tables])
        return lambda: lowered.compile().output_shardings

    def output_types(self, types: Sequence[Any]) -> list[Any]:
        """Shape and dtype of the outputs for inputs of some types."""

        def run(arrays: Sequence[Any]) -> Any:
            return self._dispatched(arrays)

        with wide():
            made = jax.eval_shape(run, [types[i] for i in self.ins])
        return [made[self.outs.index(i)] for i in range(len(self.outs))]

    def analysis(self, types: Sequence[Any]) -> Any:
        """XLA's memory analysis of the executable for inputs of some types; nothing is run."""
        tables = [
            tuple(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in t.build()) for t in self.tables
        ]
        return self._lowered([types[i] for i in self.ins], tables).compile().memory_analysis()

    def _groups(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        kept = len(arrays) - self.donated
        return tuple(arrays[:kept]), tuple(arrays[kept:])

    def _lowered(self, types: Sequence[Any], tables: Sequence[Any]) -> Any:
        with wide():
            return self.functions.function.lower(tuple(tables), *self._groups(types))

    def _direct(self, arrays: Sequence[Any], place: Place) -> Call | None:
        check_not_forked()
        tables = tables_at(self.tables, place)
        flat = [array for table in tables for array in table]
        found = self.functions.on((tables, *self._groups(arrays)), [*flat, *arrays], place.sharding)
        return None if found is None else found.bind(flat, place.is_committed)

    def _dispatched(self, arrays: Sequence[Any]) -> Sequence[Any]:
        check_not_forked()
        place = placement(arrays)
        tables = tuple(table_on(t, place) for t in self.tables)
        with wide():
            return self.functions.function(tables, *self._groups(arrays))
