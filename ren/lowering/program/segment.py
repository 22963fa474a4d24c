"""Segments: kernels and views of a plan that one backend runs as one executable."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs

from ren.lowering.program.graph import Call, Graph, Slice
from ren.lowering.program.instructions import Table
from ren.lowering.program.steps import KernelUnit, ViewUnit

Donations = tuple[tuple[int, int], ...]
Computing = KernelUnit | ViewUnit


@attrs.frozen(eq=False)
class Segment:
    """Part of a plan for one executable: `values[outs] = graph(*values[ins])`.

    Attributes:
        units: the units of the plan that it stands for, in order. A part of a program that is not
            divided into kernels has none.
        graph: their programs, and how they are wired.
        tables: the tables of all its programs, each once.
        ins, outs: the values of the plan that it reads and makes.
        drops: the values that nothing afterwards reads.
        donate: pairs (position in `ins`, position in `outs`). The result may stand in the buffer of
            the input, which is gone afterwards.
    """

    units: tuple[Computing, ...]
    graph: Graph
    tables: tuple[Table, ...]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    drops: tuple[int, ...] = ()
    donate: Donations = ()

    @property
    def name(self) -> str:
        """Name of the segment, for people."""
        if len(self.units) == 1:
            return self.units[0].name
        if self.units:
            return f"GRAPH of {len(self.units)} units"
        programs = (step.program for step in self.graph.steps if isinstance(step, Call))
        ops = sum(i.op not in ("SLOT", "STORE") for p in programs for i in p.instrs)
        return f"CALL of {ops} ops"


def segment_of(units: Sequence[Computing], wanted: Collection[int] | None = None) -> Segment:
    """The segment of some units; it drops nothing.

    Args:
        units: in the order of the plan.
        wanted: the values that others read, or None for all that the units make.
    """
    made = [v for unit in units for v in unit.outs]
    ins = tuple(dict.fromkeys(v for unit in units for v in unit.ins if v not in set(made)))
    outs = tuple(v for v in made if wanted is None or v in wanted)
    number = {v: i for i, v in enumerate((*ins, *made))}
    tables: dict[Table, int] = {}
    steps: list[Call | Slice] = []
    for unit in units:
        src = tuple(number[v] for v in unit.ins)
        if isinstance(unit, ViewUnit):
            steps.append(Slice(unit.start, unit.length, src[0]))
            continue
        needed = tuple(tables.setdefault(t, len(tables)) for t in unit.kernel.tables)
        steps.append(Call(unit.kernel.program, needed, src))
    graph = Graph(len(ins), tuple(steps), tuple(number[v] for v in outs))
    return Segment(tuple(units), graph, tuple(tables), ins, outs)


def unit_segment(unit: Computing) -> Segment:
    """A unit as a segment of its own, with its donations."""
    donate = unit.donate if isinstance(unit, KernelUnit) else ()
    return attrs.evolve(segment_of([unit]), drops=unit.drops, donate=donate)
