"""Report of a plan's memory: planned, and measured with what XLA states."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ren.core import html
from ren.core.attributes import closed
from ren.core.text_table import columns, size
from ren.lowering.backends.base import Unsupported
from ren.lowering.plan.lifetimes import Value, values_of
from ren.lowering.plan.memory import memory_plan, peak, temporaries
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import nbytes
from ren.lowering.runtime.native_calls import held_bytes, native_calls


@closed()
@attrs.frozen
class MemoryReport:
    """Memory that one run of a plan holds, in bytes.

    Where the plan runs as native calls, the report is of these. Nothing is donated then, and
    `call_bytes` is what they hold besides arguments and results.

    Attributes:
        peak_bytes: planned. The largest, over units, of live intermediates and outputs with
            donation, plus the unit's estimated temporaries. Of native calls the outputs and what
            they hold.
        unplanned_bytes: the same without donation.
        arena_bytes: the arenas that hold the optimizable intermediates, gaps included.
        lower_bound_bytes: what lifetimes force, wherever values are placed. The most that is live
            while a unit runs, its results included, without temporaries. A buffer that is taken
            over counts once.
        input_bytes: of all inputs; in none of the peaks.
        output_bytes: of the results.
        donated_bytes: of all buffers taken over in one run.
        donated_input_bytes: of the inputs among them.
        held_bytes: of the inputs that the plan itself holds: buffers that it closes over, and what
            was pruned. They go with the plan.
        key_bytes: of the inputs that are keys of encryption. Their context holds them.
        pruned_bytes: of what was computed once, at capture, because it depends on no argument.
        measured_bytes: as `peak_bytes` of units, with the temporaries that XLA states for each
            executable; None until measured.
        call_bytes: the most that native calls hold; None for a plan that runs kernel by kernel.
    """

    peak_bytes: int
    unplanned_bytes: int
    arena_bytes: int
    lower_bound_bytes: int
    input_bytes: int
    output_bytes: int
    donated_bytes: int
    donated_input_bytes: int = 0
    held_bytes: int = 0
    pruned_bytes: int = 0
    measured_bytes: int | None = None
    call_bytes: int | None = None
    key_bytes: int = 0

    def _rows(self) -> list[tuple[str, int | None]]:
        call = [] if self.call_bytes is None else [("held by native calls", self.call_bytes)]
        keys = [("keys, of these", self.key_bytes)] if self.key_bytes else []
        return [
            ("peak, planned", self.peak_bytes),
            *call,
            ("peak, measured", self.measured_bytes),
            ("peak without donation", self.unplanned_bytes),
            ("lower bound of lifetimes", self.lower_bound_bytes),
            ("arenas", self.arena_bytes),
            ("donated", self.donated_bytes),
            ("donated by the caller", self.donated_input_bytes),
            ("inputs", self.input_bytes),
            *keys,
            ("held by the plan", self.held_bytes),
            ("pruned, of these", self.pruned_bytes),
            ("outputs", self.output_bytes),
        ]

    def __str__(self) -> str:
        return columns((name, "-" if b is None else size(b)) for name, b in self._rows())

    def facts(self) -> html.Markup:
        """The numbers for notebooks, each with a bar: its part of the largest."""
        known = [(name, b) for name, b in self._rows() if b is not None]
        most = max(1, *(b for _, b in known))
        return html.facts((name, size(b), html.meter(b / most)) for name, b in known)

    def _repr_html_(self) -> str:
        return html.card("Memory of one run", self.facts())


def memory_of(plan: Plan) -> MemoryReport:
    """The memory of one run, planned, in the form that the plan takes by default."""
    report, calls = units_report(plan), native_calls(plan.source)
    if isinstance(calls, Unsupported):
        return report
    held = report.output_bytes + calls.held_bytes
    return attrs.evolve(
        report,
        peak_bytes=held,
        unplanned_bytes=held,
        arena_bytes=calls.held_bytes,
        lower_bound_bytes=held,
        donated_bytes=0,
        donated_input_bytes=0,
        call_bytes=calls.held_bytes,
    )


def peak_bytes(plan: Plan) -> int:
    """The most bytes of one run besides its inputs, in the form that it takes by default.

    A plan of native calls is not divided into units for it.
    """
    assert plan.source is not None  # it was made from a program
    if isinstance(held := held_bytes(plan.source), Unsupported):
        return units_report(plan).peak_bytes
    return sum(nbytes(r.spec) for r in set(plan.source.sink.src)) + held


def units_report(plan: Plan) -> MemoryReport:
    """The memory of one run, planned, of the plan's units one by one."""
    memory = memory_plan(plan)
    values, pairs = memory.values, memory.donations
    none = ((),) * len(pairs)
    unplanned = temporaries(plan, attrs.evolve(memory, donations=none))
    inputs = [values[v].size for unit in pairs for v, _ in unit if values[v].is_input]
    return MemoryReport(
        peak_bytes=peak(plan, values, pairs, temporaries(plan, memory)),
        unplanned_bytes=peak(plan, values_of(plan), none, unplanned),
        arena_bytes=sum(used for _, used in memory.arenas),
        lower_bound_bytes=peak(plan, values, pairs, [0] * len(plan.units)),
        input_bytes=sum(v.size for v in values if v.is_input),
        output_bytes=sum(values[v].size for v in set(plan.outputs)),
        donated_bytes=sum(bytes_taken(p, values) for p in pairs),
        donated_input_bytes=sum(inputs),
        held_bytes=sum(values[v].size for v, i in enumerate(plan.inputs) if i.is_held),
        key_bytes=sum(values[v].size for v, i in enumerate(plan.inputs) if i.key is not None),
        pruned_bytes=sum(values[v].size for v, i in enumerate(plan.inputs) if i.is_pruned),
    )


def bytes_taken(pairs: Sequence[tuple[int, int]], values: Sequence[Value]) -> int:
    """The bytes of the values that take over a buffer."""
    return sum(values[taker].size for _, taker in pairs)
