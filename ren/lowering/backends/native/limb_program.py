"""A graph taken apart into rows: what is computed for each limb, instruction by instruction.

Everything but base conversion works on each limb by itself. So views and joins of limbs are gone
here: a row names the rows that it is made of. Equal rows are one.

An axis that STACK makes or PART reads is taken apart. Each position has rows of its own, and both
ops are gone. So is every batch axis that it meets in an operation, and each that some output lacks.
The call loops over the others. They stand for themselves at the right of each array, once the axes
taken apart are left out. All outputs have all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

import attrs
import numpy as np

from ren.lowering.backends.native.ops import (
    ABSENT,
    BATCH_STEPS,
    INDICES,
    STEPS,
    Batch,
    Shape,
    Value,
)
from ren.lowering.program.graph import Call, Graph, Slice
from ren.lowering.program.instructions import Instr, Table

READS = frozenset({"SLOT", "LOAD", "GIDX", "INDEX"})
WHOLE_ROW = frozenset({"ntt", "intt", "permute"})  # steps that read a whole row before they end
READS_ROW = WHOLE_ROW | {"repeat"}  # that need its residues, where others take a number for them
MOST_ROWS = 400_000  # a larger graph is cut: its code would take seconds to write
_Value = tuple[tuple[int, int], ...]  # of each axis the number of its class and its length


@attrs.frozen(cache_hash=True)
class Axes:
    """The batch axes of an array, from the first on that is taken apart.

    Attributes:
        lengths: of each, of loops too.
        is_apart: of each, whether it is taken apart.
    """

    lengths: Shape = ()
    is_apart: tuple[bool, ...] = ()

    @property
    def apart(self) -> Shape:
        """The lengths of those that are taken apart."""
        return tuple(n for n, apart in zip(self.lengths, self.is_apart, strict=True) if apart)

    @property
    def mask(self) -> int:
        """Those that are taken apart as bits, of the last axis the lowest."""
        return sum(1 << i for i, apart in enumerate(reversed(self.is_apart)) if apart)

    @property
    def pattern(self) -> Shape:
        """The lengths; 0 for loops."""
        return tuple(
            n if apart else 0 for n, apart in zip(self.lengths, self.is_apart, strict=True)
        )

    def offsets(self) -> list[int]:
        """Linear offset among all positions of each position of the axes that are taken apart."""
        positions = np.arange(np.prod(self.lengths, dtype=np.int64)).reshape(self.lengths)
        first = tuple(slice(None) if apart else 0 for apart in self.is_apart)
        return positions[first].ravel().tolist()


def looped(shape: Shape, mask: int) -> Shape:
    """The loops among batch axes, given those that are taken apart as in `Axes.mask`."""
    return tuple(n for i, n in enumerate(shape) if not mask >> (len(shape) - 1 - i) & 1)


def filled(pattern: Shape, loops: Shape) -> Shape:
    """The batch axes of an array by its `Axes.pattern`."""
    left, found = list(loops), []
    for length in reversed(pattern):
        found.append(length or left.pop())
    return (*left, *reversed(found))


def axes_of(graph: Graph, shapes: tuple[Shape, ...]) -> tuple[tuple[Axes, ...], tuple[Axes, ...]]:
    """The batch axes of the inputs and of the outputs of a graph.

    Args:
        graph: what runs.
        shapes: of each input its batch axes.

    Raises:
        LoweringError: it has steps of other kinds, whose batch axes are not known here.
    """
    calls = (step for step in graph.steps if isinstance(step, Call))
    for op in (instr.op for step in calls for instr in step.program.instrs):
        if op in ABSENT:
            raise LoweringError(f"it has no limb rows for {op}: {ABSENT[op]}")
    return _axes_of(graph, shapes)


@lru_cache(maxsize=256)
def _axes_of(graph: Graph, shapes: tuple[Shape, ...]) -> tuple[tuple[Axes, ...], tuple[Axes, ...]]:
    classes = _Classes()
    inputs = [tuple((classes.new(), n) for n in shape) for shape in shapes]
    values: list[_Value] = list(inputs)
    for step in graph.steps:
        values.extend(_made(classes, step, values))
    outputs = [values[i] for i in graph.outputs]
    while missing := _missing(classes, inputs, outputs):
        classes.apart.update(missing)
    return tuple(map(classes.axes, inputs)), tuple(map(classes.axes, outputs))


class _Classes:
    """Axes that meet are of one class."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self.apart: set[int] = set()

    def new(self) -> int:
        self._parents.append(len(self._parents))
        return len(self._parents) - 1

    def root(self, c: int) -> int:
        while self._parents[c] != c:
            self._parents[c] = c = self._parents[self._parents[c]]
        return c

    def met(self, values: Sequence[_Value]) -> _Value:
        """The axes of what is computed from several values."""
        widest = max(values, key=len, default=())
        if all(v == widest or not v for v in values):
            return widest
        found = []
        for k in range(1, len(widest) + 1):
            here = [v[-k] for v in values if len(v) >= k]
            first = self.root(here[0][0])
            for c, _ in here:
                self._parents[self.root(c)] = first
            found.append((first, next((n for _, n in here if n != 1), 1)))
        return tuple(reversed(found))

    def is_apart(self, value: _Value) -> list[bool]:
        roots = {self.root(c) for c in self.apart}
        return [self.root(c) in roots for c, _ in value]

    def loops(self, value: _Value) -> _Value:
        apart = self.is_apart(value)
        return tuple(axis for axis, is_apart in zip(value, apart, strict=True) if not is_apart)

    def axes(self, value: _Value) -> Axes:
        apart = self.is_apart(value)
        start = apart.index(True) if True in apart else len(apart)
        return Axes(tuple(n for _, n in value[start:]), tuple(apart[start:]))


def _made(classes: _Classes, step: Call | Slice, values: Sequence[_Value]) -> Iterable[_Value]:
    if isinstance(step, Slice):
        return [values[step.src]]
    found: list[_Value] = []
    for instr in step.program.instrs:
        if instr.op == "SLOT":
            index: int = instr.structure  # type: ignore[assignment]
            found.append(values[step.src[index]] if index >= 0 else ())
        else:
            found.append(_result(classes, instr, [found[i] for i in instr.src]))
    return [found[i] for i in step.program.outputs]


def _result(classes: _Classes, instr: Instr, src: Sequence[_Value]) -> _Value:
    if instr.op == "STACK":
        made, axis = classes.met(src), (classes.new(), len(src))
        classes.apart.add(axis[0])
        return (*made, axis) if instr.structure else (axis, *made)
    if instr.op == "PART":
        (x,), (_, is_last) = src, instr.structure  # type: ignore[misc]
        classes.apart.add(x[-1 if is_last else 0][0])
        return x[:-1] if is_last else x[1:]
    if instr.op == "MIX":
        (x,), (axis, rows) = src, instr.structure  # type: ignore[misc]
        made, found = classes.new(), list(x)
        classes.apart.update((made, *(c for c, _ in x)))  # all, so that `axis` counts them
        found[axis] = (made, rows)
        return tuple(found)
    if instr.op == "MAC":
        classes.apart.add(src[0][0][0])
        return classes.met([src[0][1:], *src[1:]])
    return classes.met(src)


def _missing(classes: _Classes, inputs: Sequence[_Value], outputs: Sequence[_Value]) -> set[int]:
    """The classes of loops that some output lacks, or that are of several lengths."""
    read, made = ([classes.loops(v)[::-1] for v in values] for values in (inputs, outputs))
    lacked = set[int]()
    for k in range(max(map(len, read), default=0)):  # positions from the right
        lengths = {v[k][1] for v in read if k < len(v)}
        whole = {n for n in lengths if n != 1} or {1}
        if len(whole) > 1 or any(k >= len(v) or v[k][1] not in whole for v in made):
            lacked.add(k)
    return {v[k][0] for v in read for k in lacked if k < len(v)}


class Row(NamedTuple):
    """One step on rows of n residues; of programs with 10^5 of them, hence a named tuple.

    Attributes:
        step: "input", "constant", "converted", "ntt", "intt", "permute". Or one of single residues:
            "add", "sub", "neg", "dot" (sum of products), "mask", "flip" (negated under a mask).
            "repeat" takes residues of a shorter row, in blocks with a period. Of a modulus of two
            limbs: "lift_from", its centred lift; "wide_add", "wide_sub", "wide_neg" and
            "wide_flip", one limb of the residue.
        given: of an input its number and the row of it; of a constant its value in Montgomery form.
            Of a converted row the number of the conversion and of the target. Of a permutation and
            a mask its table; of a flip the modulus and the table; else the modulus. Of "repeat" the
            length of a block, the period and the table. Of "lift_from" the prime and the modulus,
            which may have one limb. Of a wide step the modulus, 0 or 1 for the limb, and a table.
        src: the rows that it reads.
    """

    step: str
    given: tuple[Any, ...]
    src: tuple[int, ...] = ()


@attrs.frozen
class Conversion:
    """A base conversion of a few rows, to one for each target modulus; or a mix of many rows."""

    table: Table
    src: tuple[int, ...]


@attrs.frozen
class Rows:
    """A graph as rows.

    Attributes:
        n: how long they are.
        rows: in order, each after what it reads.
        conversions: by number.
        outputs: the rows of each output.
        places: which row of the output each of them is.
        limbs: of each output the number of limbs.
    """

    n: int
    rows: tuple[Row, ...]
    conversions: tuple[Conversion, ...]
    outputs: tuple[tuple[int, ...], ...]
    places: tuple[tuple[int, ...], ...]
    limbs: tuple[int, ...]


class LoweringError(Exception):
    """The native backend does not support a graph, for a reason.

    Args:
        reason: why, for people.
        is_too_large: as in `ren.lowering.backends.base.Unsupported`.
    """

    def __init__(self, reason: str, is_too_large: bool = False) -> None:
        super().__init__(reason)
        self.is_too_large = is_too_large


class _Builder:
    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.conversions: list[Conversion] = []
        self._known: dict[Any, int] = {}
        self.n = 0

    def row(self, step: str, given: tuple[Any, ...], src: tuple[int, ...] = ()) -> int:
        src = self._spread(src) if step in READS_ROW else src
        made = Row(step, given, src)
        found = self._known.setdefault(made, len(self.rows))
        if found == len(self.rows):
            if found > MOST_ROWS:
                raise LoweringError(f"it has over {MOST_ROWS:,} limb rows", is_too_large=True)
            self.rows.append(made)
        return found

    def is_input(self, row: int) -> bool:
        return self.rows[row].step == "input"

    def input(self, number: int, axes: Axes, limbs: int) -> Batch:
        parts = [
            [self.row("input", (number, limbs * offset + i)) for i in range(limbs)]
            for offset in axes.offsets()
        ]
        return Batch(axes.apart, parts)

    def _spread(self, src: tuple[int, ...]) -> tuple[int, ...]:
        """The rows with constants, of which one stacked with other rows is one, written out."""
        is_constant = [self.rows[r].step == "constant" for r in src]
        return tuple(
            self.row("copy", (), (r,)) if constant else r
            for r, constant in zip(src, is_constant, strict=True)
        )

    def refuse(self, reason: str) -> NoReturn:
        raise LoweringError(reason)

    def converted(self, table: Table, src: tuple[int, ...], count: int) -> Value:
        src = self._spread(src)
        conversion = Conversion(table, src)
        number = self._known.setdefault(conversion, len(self.conversions))
        if number == len(self.conversions):
            self.conversions.append(conversion)
        return [self.row("converted", (number, j), src) for j in range(count)]

    def program(self, step: Call, tables: Sequence[Table], src: Sequence[Batch]) -> list[Batch]:
        """The values that a program stores."""
        own = [tables[i] for i in step.tables]
        values: list[Any] = []
        for instr in step.program.instrs:
            if instr.op not in READS:  # what is read to be embedded has a lower degree
                if self.n not in (0, instr.n):
                    self.refuse("its polynomials are of several degrees")
                self.n = instr.n
            if instr.op == "SLOT":
                index: Any = instr.structure
                values.append(src[index] if index >= 0 else None)
            else:
                read = [values[i] for i in instr.src]
                values.append(self._made(instr, [own[i] for i in instr.tables], read))
        return [values[i] for i in step.program.outputs]

    def _made(self, instr: Instr, tables: list[Table], src: list[Batch | None]) -> Batch | None:
        if instr.op in INDICES:
            return None
        if (batch_step := BATCH_STEPS.get(instr.op)) is not None:
            return batch_step(self, instr, tables, [x for x in src if x is not None])
        emit = STEPS.get(instr.op)
        if emit is None:
            raise LoweringError(f"it has no limb rows for {instr.op}")
        shape = np.broadcast_shapes(*(x.shape for x in src if x is not None))
        each = zip(*(x.over(shape) for x in src if x is not None), strict=True)
        positions = each if any(x is not None for x in src) else [()]
        return Batch(shape, [emit(self, instr, tables, list(read)) for read in positions])


def rows_of(
    graph: Graph,
    tables: Sequence[Table],
    inputs: Sequence[tuple[Axes, int]],
    outputs: Sequence[Axes],
) -> Rows:
    """The rows of a graph with its tables.

    Args:
        graph, tables: what runs.
        inputs: the batch axes of each input, and its number of limbs.
        outputs: the batch axes of each output.

    Raises:
        LoweringError: it has too many steps.
    """
    if any(0 in axes.lengths for axes in (*(axes for axes, _ in inputs), *outputs)):
        raise LoweringError("a batch is empty")
    builder = _Builder()
    values = [builder.input(i, *given) for i, given in enumerate(inputs)]
    for step in graph.steps:
        if isinstance(step, Slice):
            whole, limbs = values[step.src], slice(step.start, step.start + step.length)
            values.append(Batch(whole.shape, [part[limbs] for part in whole.parts]))
        else:
            values.extend(builder.program(step, tables, [values[i] for i in step.src]))
    if any(i < graph.inputs for i in graph.outputs) or not builder.n:
        raise LoweringError("an input is returned as it is")
    made = [values[i] for i in graph.outputs]
    return _needed(
        Rows(
            builder.n,
            tuple(builder.rows),
            tuple(builder.conversions),
            tuple(tuple(row for part in value.parts for row in part) for value in made),
            tuple(_places(v, axes) for v, axes in zip(made, outputs, strict=True)),
            tuple(len(value.parts[0]) for value in made),
        )
    )


def _places(value: Batch, axes: Axes) -> tuple[int, ...]:
    limbs = len(value.parts[0])
    return tuple(limbs * offset + i for offset in axes.offsets() for i in range(limbs))


def _needed(rows: Rows) -> Rows:
    """The same without rows that no output depends on."""
    needed = bytearray(len(rows.rows))
    for output in rows.outputs:
        for r in output:
            needed[r] = 1
    for r in range(len(rows.rows) - 1, -1, -1):
        if needed[r]:
            for s in rows.rows[r].src:
                needed[s] = 1
    if all(needed):
        return rows
    read = (row for row, is_read in zip(rows.rows, needed, strict=True) if is_read)
    done = sorted({row.given[0] for row in read if row.step == "converted"})
    number = {old: new for new, old in enumerate(done)}
    made: list[Row] = []
    new: dict[int, int] = {}
    for r, row in enumerate(rows.rows):
        is_converted = row.step == "converted" and row.given[0] in number  # all at once
        if needed[r] or is_converted:
            given = (number[row.given[0]], *row.given[1:]) if is_converted else row.given
            new[r] = len(made)
            made.append(Row(row.step, given, tuple([new[s] for s in row.src])))
    conversions = (rows.conversions[i] for i in done)
    return attrs.evolve(
        rows,
        rows=tuple(made),
        conversions=tuple(Conversion(c.table, tuple(new[s] for s in c.src)) for c in conversions),
        outputs=tuple(tuple(new[r] for r in output) for output in rows.outputs),
    )
