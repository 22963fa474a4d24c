"""Programs and graphs as text: equal in every process, whatever the objects are."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from ren.core.spec import Matrix
from ren.lowering.program.graph import Call, Graph, Program
from ren.lowering.program.instructions import Table


def plain(value: Hashable) -> str:
    """Nested tuples of numbers, names and matrices, as text; refuses what prints differently.

    Raises:
        TypeError: anything else is in it.
    """
    if type(value) is tuple:
        return f"({','.join(map(plain, value))})"
    if value is None or type(value) in (bool, int, str, Matrix):
        return repr(value)
    raise TypeError(f"no canonical print of a {type(value).__name__}")


def program_line(program: Program) -> str:
    """A program as a line."""
    steps = (
        f"{i.op} {plain(i.structure)} {plain(i.src)} {plain(i.tables)} {i.limbs} {i.n}"
        for i in program.instrs
    )
    return f"program {program.slots} {plain(program.outputs)}: {'; '.join(steps)}"


def table_line(table: Table) -> str:
    """A table as a line."""
    return f"table {table.kind} {plain(table.args)}"


def graph_lines(graph: Graph, tables: Sequence[Table]) -> Iterator[str]:
    """A graph with its tables, line by line; each program stands once."""
    yield f"graph {graph.inputs} {plain(graph.outputs)}"
    yield from map(table_line, tables)
    numbers: dict[Program, int] = {}
    for step in graph.steps:
        if not isinstance(step, Call):
            yield f"slice {step.start} {step.length} {step.src}"
            continue
        if step.program not in numbers:
            yield program_line(step.program)
        number = numbers.setdefault(step.program, len(numbers))
        yield f"call {number} {plain(step.tables)} {plain(step.src)}"
