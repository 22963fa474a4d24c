"""A graph taken apart into rows: what is computed for each limb, instruction by instruction.

Everything but base conversion works on each limb by itself, so that views and joins of limbs are
gone here: a row says which rows it is made of. Equal rows are one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from ren.lowering.bodies import Table
from ren.lowering.graph import Call, Graph, Slice
from ren.lowering.program import Instr

MOST_ROWS = 200_000  # a larger graph is left to XLA: its code would take seconds to write


@attrs.frozen(cache_hash=True)
class Row:
    """One step on rows of n residues.

    Args:
        step: "input", "constant", "converted", "ntt", "intt", "permute", or one of single residues:
            "add", "sub", "neg", "dot" (sum of products), "mask", "flip" (negated under a mask).
        given: of an input its number and the limb; of a constant its value in Montgomery form; of
            what is converted the number of the conversion and of the target; of a permutation and
            a mask its table; of a flip the modulus and the table; else the modulus.
        src: the rows that it reads.
    """

    step: str
    given: tuple[Any, ...]
    src: tuple[int, ...] = ()


@attrs.frozen
class Conversion:
    """A base conversion of a few rows, to one for each target modulus."""

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
    """

    n: int
    rows: tuple[Row, ...]
    conversions: tuple[Conversion, ...]
    outputs: tuple[tuple[int, ...], ...]


class Unsupported(Exception):
    """The graph has a step that rows have no name for."""


@attrs.frozen
class _Input:
    """An input of the graph, of which the number of limbs is not known."""

    number: int


_Value = list[int]


class _Builder:
    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.conversions: list[Conversion] = []
        self._known: dict[Any, int] = {}
        self.n = 0

    def row(self, step: str, given: tuple[Any, ...], src: tuple[int, ...] = ()) -> int:
        made = Row(step, given, src)
        found = self._known.setdefault(made, len(self.rows))
        if found == len(self.rows):
            if found > MOST_ROWS:
                raise Unsupported("too many rows")
            self.rows.append(made)
        return found

    def limbs(self, value: _Value | _Input, start: int, stop: int) -> _Value:
        if isinstance(value, _Input):
            return [self.row("input", (value.number, i)) for i in range(start, stop)]
        return value[start:stop]

    def converted(self, table: Table, src: tuple[int, ...]) -> _Value:
        conversion = Conversion(table, src)
        number = self._known.setdefault(conversion, len(self.conversions))
        if number == len(self.conversions):
            self.conversions.append(conversion)
        count = len(table.args[1])  # type: ignore[arg-type]
        return [self.row("converted", (number, j), src) for j in range(count)]

    def program(self, step: Call, tables: Sequence[Table], src: Sequence[Any]) -> list[_Value]:
        """The values that a program stores."""
        own = [tables[i] for i in step.tables]
        values: list[Any] = []
        for instr in step.program.instrs:
            if self.n not in (0, instr.n):
                raise Unsupported("rows of several lengths")
            self.n = instr.n
            if instr.op == "SLOT":
                index: Any = instr.structure
                values.append(self.limbs(src[index], 0, instr.limbs) if index >= 0 else None)
                continue
            emit = _STEPS.get(instr.op)
            if emit is None:
                raise Unsupported(instr.op)
            made = emit(self, instr, [own[i] for i in instr.tables], [values[i] for i in instr.src])
            values.append(made)
        return [values[i] for i in step.program.outputs]


def rows_of(graph: Graph, tables: Sequence[Table]) -> Rows:
    """The rows of a graph with its tables.

    Raises:
        Unsupported: it has steps of other kinds.
    """
    builder = _Builder()
    values: list[Any] = [_Input(i) for i in range(graph.inputs)]
    for step in graph.steps:
        if isinstance(step, Slice):
            values.append(builder.limbs(values[step.src], step.start, step.start + step.length))
        else:
            values.extend(builder.program(step, tables, [values[i] for i in step.src]))
    outputs = [values[i] for i in graph.outputs]
    if any(isinstance(v, _Input) for v in outputs) or not builder.n:
        raise Unsupported("an input that is returned as it is")
    return Rows(
        builder.n, tuple(builder.rows), tuple(builder.conversions), tuple(map(tuple, outputs))
    )


# ------------------------------------------------------------------- steps

_Step = Callable[[_Builder, Instr, list[Table], list[Any]], Any]


def _moduli(table: Table) -> tuple[int, ...]:
    return table.args[-1]  # type: ignore[return-value]


def _elementwise(step: str) -> _Step:
    def emit(b: _Builder, instr: Instr, t: list[Table], src: list[_Value]) -> _Value:
        operands = zip(*(_wide(s, instr) for s in src), strict=True)
        return [b.row(step, (q,), each) for q, each in zip(_moduli(t[0]), operands, strict=True)]

    return emit


def _wide(value: _Value, instr: Instr) -> _Value:
    return value * instr.limbs if len(value) == 1 else value


def _constants(b: _Builder, instr: Instr, t: list[Table], src: list[_Value]) -> _Value:
    value, moduli = t[0].args
    return [b.row("constant", ((value << 32) % q,)) for q in moduli]  # type: ignore[operator,union-attr]


def _first(n: int) -> Table:
    return Table("first_mask", (n,))


def _at_zero(b: _Builder, instr: Instr, t: list[Table], src: list[_Value]) -> _Value:
    return [b.row("mask", (_first(instr.n),), (x,)) for x in _wide(src[0], instr)]


def _delta(b: _Builder, instr: Instr, t: list[Table], src: list[_Value]) -> _Value:
    return _at_zero(b, instr, t, [_constants(b, instr, t, src)])


def _flip(b: _Builder, instr: Instr, t: list[Table], src: list[_Value]) -> _Value:
    table = Table("sign_mask", t[0].args)
    each = zip(_moduli(t[1]), _wide(src[0], instr), strict=True)
    return [b.row("flip", (q, table), (x,)) for q, x in each]


def _residues(b: _Builder, instr: Instr, t: list[Table], src: list[_Value]) -> _Value:
    """Of rows of words, which are no residues: any factors do in a sum of two products."""
    low, high = src[0]
    _, _, *factors = ([int(x) for x in array.ravel()] for array in t[0].build())
    made = []
    for q, *each in zip(_moduli(t[0]), *factors, strict=True):
        low_factor, high_factor, shift = (b.row("constant", (x,)) for x in each)
        total = b.row("dot", (q,), (low, low_factor, high, high_factor))
        made.append(b.row("sub", (q,), (total, shift)))
    return made


def _transform(step: str) -> _Step:
    def emit(b: _Builder, instr: Instr, t: list[Table], src: list[_Value]) -> _Value:
        return [b.row(step, (q,), (x,)) for q, x in zip(_moduli(t[0]), src[0], strict=True)]

    return emit


def _conversion(b: _Builder, instr: Instr, t: list[Table], src: list[_Value]) -> _Value:
    return b.converted(t[0], tuple(src[0]))


def _runs(value: _Value, runs: Any) -> _Value:
    return (
        value
        if runs is None
        else [x for start, count in runs for x in value[start : start + count]]
    )


def _load(b: _Builder, instr: Instr, t: list[Table], src: list[Any]) -> _Value:
    runs, is_permuted = instr.structure  # type: ignore[misc]
    found = _runs(src[0], runs)
    return _permute(b, instr, t, [found]) if is_permuted else found


def _permute(b: _Builder, instr: Instr, t: list[Table], src: list[_Value]) -> _Value:
    index = t[0]
    if index.kind == "coefficient_permutation":
        index = Table("coefficient_index", index.args)
    return [b.row("permute", (index,), (x,)) for x in src[0]]


def _view(b: _Builder, instr: Instr, t: list[Table], src: list[_Value]) -> _Value:
    return _runs(src[0], instr.structure)


def _join(b: _Builder, instr: Instr, t: list[Table], src: list[_Value]) -> _Value:
    runs: Any = instr.structure
    return [x for i, start, count in runs for x in src[i][start : start + count]]


def _store(b: _Builder, instr: Instr, t: list[Table], src: list[Any]) -> _Value:
    return _wide(src[1], instr)


def _same(b: _Builder, instr: Instr, t: list[Table], src: list[_Value]) -> _Value:
    return src[0]


def _nothing(b: _Builder, instr: Instr, t: list[Table], src: list[Any]) -> None:
    return None


_STEPS: dict[str, _Step] = {
    "ADD": _elementwise("add"),
    "SUB": _elementwise("sub"),
    "NEG": _elementwise("neg"),
    "MUL": _elementwise("dot"),
    "DOT": _elementwise("dot"),
    "FILL": _constants,
    "DELTA": _delta,
    "AT_ZERO": _at_zero,
    "FLIP": _flip,
    "RESIDUES": _residues,
    "NTT": _transform("ntt"),
    "INTT": _transform("intt"),
    "CONVERT": _conversion,
    "LIFT": _conversion,
    "PERMUTE": _permute,
    "VIEW": _view,
    "JOIN": _join,
    "LOAD": _load,
    "STORE": _store,
    "CONTIGUOUS": _same,
    "GIDX": _nothing,
    "INDEX": _nothing,
}
