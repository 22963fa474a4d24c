"""Prints of a native call as it is lowered: limb program, phases, bytecode."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ren.lowering.backends.native.bytecode import Lowering
from ren.lowering.backends.native.limb_program import Row
from ren.lowering.backends.native.phases import (
    CONSTANT,
    KEPT,
    ROW_BITS,
    SCRATCH,
    Placed,
    PlacedConversion,
)
from ren.lowering.program.instructions import Table

_WORDS_A_LINE = 12


def printed(lowering: Lowering) -> dict[str, str]:
    """The text of each step: "limb_program", "phases", "bytecode"."""
    return {
        "limb_program": _limb_program(lowering),
        "phases": _phases(lowering),
        "bytecode": _bytecode(lowering),
    }


def _limb_program(lowering: Lowering) -> str:
    rows = lowering.rows
    lines = [f"rows of {rows.n} residues"]
    for number, conversion in enumerate(rows.conversions):
        src = _names(conversion.src)
        lines.append(f"conversion {number}: {_table(conversion.table)} of {src}")
    lines += [f"%{i} = {_row(row)}{_after(_names(row.src))}" for i, row in enumerate(rows.rows)]
    lines += [f"output {i}: {_names(output)}" for i, output in enumerate(rows.outputs)]
    return "\n".join(lines)


def _names(numbers: Iterable[int]) -> str:
    return " ".join(f"%{number}" for number in numbers)


def _after(text: str) -> str:
    return f" {text}" if text else ""


def _row(row: Row) -> str:
    """The step of a row with what it is given: a place, a value, a modulus or a table."""
    match row.step:
        case "input" | "copy":
            return f"{row.step} {row.given[0]}[{row.given[1]}]"
        case "converted":
            return f"converted {row.given[0]}[{row.given[1]}]"
        case _:
            return " ".join([row.step, *map(_given, row.given)])


def _given(value: Any) -> str:
    return _table(value) if isinstance(value, Table) else str(value)


def _table(table: Table) -> str:
    return f"{table.kind}{_plain(table.args)}"


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    return str(value)


class _Places:
    """Names of the places of rows: of inputs and outputs, kept between phases, of a task."""

    def __init__(self, lowering: Lowering) -> None:
        form, tables = lowering.program.form, lowering.program.tables
        inputs = [f"input {number}" for number in form.inputs]
        outputs = [f"output {number}" for number in range(len(form.outputs))]
        self._names = [*inputs, *(table.kind for table in tables), *outputs]
        self._fixed = {SCRATCH: "own", KEPT: "kept", CONSTANT: "constant"}

    def __call__(self, place: int) -> str:
        buffer, row = place >> ROW_BITS, place & ((1 << ROW_BITS) - 1)
        name = self._fixed.get(buffer)
        return f"{self._names[buffer] if name is None else name}[{row}]"


def _phases(lowering: Lowering) -> str:
    schedule, places = lowering.schedule, _Places(lowering)
    lines = [f"{schedule.kept} rows kept between phases, {schedule.scratch} rows of a task"]
    for number, phase in enumerate(schedule.phases):
        lines.append(f"phase {number}")
        for task in phase:
            if isinstance(task, PlacedConversion):
                src, to = (", ".join(map(places, group)) for group in (task.src, task.to))
                lines.append(f"  {_table(task.conversion.table)} of {src} to {to}")
            else:
                lines.append("  task")
                lines += [f"    {_step(step, places)}" for step in task]
    return "\n".join(lines)


def _step(step: Placed, places: _Places) -> str:
    given = "" if step.row.step == "copy" else " ".join(map(_given, step.row.given))
    src = ", ".join(map(places, step.src))
    return " ".join(filter(None, (f"{places(step.to)} =", step.row.step, given, src)))


def _bytecode(lowering: Lowering) -> str:
    *tables, code = lowering.program.tables
    (words,) = code.build()
    lines = [f"table {_table(table)}" for table in tables]
    for start in range(0, len(words), _WORDS_A_LINE):
        line = words[start : start + _WORDS_A_LINE]
        lines.append(f"{start:5}: {' '.join(f'{int(word):x}' for word in line)}")
    return "\n".join(lines)
