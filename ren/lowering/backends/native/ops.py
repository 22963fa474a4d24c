"""Limb rows: each instruction as steps of the native backend, limb by limb.

Views, joins and batch axes that are taken apart need no steps. Their values name other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

import attrs
import numpy as np

from ren.core.ring import limbs_by_modulus, width
from ren.lowering.kernels.substitution import repeats
from ren.lowering.kernels.tables import residue_form
from ren.lowering.program.instructions import Instr, Table

Shape = tuple[int, ...]
Value = list[int]  # a row for each limb


@attrs.frozen
class Batch:
    """A value for each position of the axes that are taken apart."""

    shape: Shape
    parts: Sequence[Value]

    def over(self, shape: Shape) -> Sequence[Value]:
        """The parts, with all positions of `shape`."""
        if self.shape == shape:
            return self.parts
        index = np.arange(len(self.parts)).reshape(self.shape)
        return [self.parts[i] for i in np.broadcast_to(index, shape).ravel().tolist()]


class Builder(Protocol):
    """Makes rows, equal ones once; `ren.lowering.backends.native.limb_program` has it."""

    def row(self, step: str, given: tuple[Any, ...], src: tuple[int, ...] = ()) -> int:
        """The row of a step; the arguments are those of `Row`."""
        ...

    def is_input(self, row: int) -> bool:
        """True where a row is one of an input."""
        ...

    def converted(self, table: Table, src: tuple[int, ...], count: int) -> Value:
        """The `count` rows that a base conversion, or a mix, of some rows makes."""
        ...

    def refuse(self, reason: str) -> NoReturn:
        """Raises: there are no such rows, for a reason."""
        ...


Step = Callable[[Builder, Instr, list[Table], list[Any]], Any]


def _moduli(table: Table) -> tuple[int, ...]:
    return table.args[-1]  # type: ignore[return-value]


def _elementwise(step: str) -> Step:
    def emit(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
        if instr.structure:
            return _by_modulus(b, step, _moduli(t[0]), src)
        operands = zip(*(_wide(s, instr) for s in src), strict=True)
        return [b.row(step, (q,), each) for q, each in zip(_moduli(t[0]), operands, strict=True)]

    return emit


def _by_modulus(
    b: Builder, step: str, moduli: tuple[int, ...], src: list[Value], *table: Table
) -> Value:
    """The rows of an elementwise step where some moduli have two limbs."""
    rows: Value = []
    for q, limbs in limbs_by_modulus(moduli).items():
        read = tuple(x[i] for x in src for i in limbs)
        if len(limbs) == 1:
            rows.append(b.row(step, (q, *table), read))
        else:
            rows += [b.row(f"wide_{step}", (q, limb, *table), read) for limb in (0, 1)]
    return rows


def _wide(value: Value, instr: Instr) -> Value:
    return value * instr.limbs if len(value) == 1 else value


def _constants(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
    value, moduli = t[0].args
    return [b.row("constant", (form,)) for form in residue_form(value, moduli)]  # type: ignore[arg-type]


def _first(n: int) -> Table:
    return Table("first_mask", (n,))


def _at_zero(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
    return [b.row("mask", (_first(instr.n),), (x,)) for x in _wide(src[0], instr)]


def _delta(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
    return _at_zero(b, instr, t, [_constants(b, instr, t, src)])


def _flip(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
    table = Table("sign_mask", t[0].args)
    if instr.structure:
        return _by_modulus(b, "flip", _moduli(t[1]), src, table)
    each = zip(_moduli(t[1]), _wide(src[0], instr), strict=True)
    return [b.row("flip", (q, table), (x,)) for q, x in each]


def _shift(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
    """Neighbours turned round, then the signs of those that passed X^n."""
    index, mask = (Table(kind, t[0].args) for kind in ("shift_index", "shift_mask"))
    moved = [b.row("permute", (index,), (x,)) for x in src[0]]
    return _by_modulus(b, "flip", _moduli(t[1]), [moved], mask)


def _transform(step: str) -> Step:
    def emit(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
        return [b.row(step, (q,), (x,)) for q, x in zip(_moduli(t[0]), src[0], strict=True)]

    return emit


def _lift(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
    moduli, primes = t[0].args
    if instr.structure == "from":
        (m,), read = moduli, [tuple(src[0])] * len(primes)  # type: ignore[misc, arg-type]
    elif instr.structure is None and len(src[0]) == 1 and b.is_input(src[0][0]):
        # No phase of its own, which many rows would outlive. The low words are its plain residues.
        # Each prime has a row of them, so that limbs stay apart.
        (m,) = moduli  # type: ignore[misc]
        one, zero = (b.row("constant", (word,)) for word in (1, 0))
        read = [(b.row("dot", (m, p), (src[0][0], one)), zero) for p in primes]  # type: ignore[union-attr]
    else:
        return _conversion(b, instr, t, src)
    return [b.row("lift_from", (p, m), pair) for p, pair in zip(primes, read, strict=True)]  # type: ignore[arg-type]


def _conversion(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
    moduli: Any = t[0].args[1]
    return b.converted(t[0], tuple(src[0]), sum(map(width, moduli)))


def _runs(value: Value, runs: Any) -> Value:
    return (
        value
        if runs is None
        else [x for start, count in runs for x in value[start : start + count]]
    )


def _load(b: Builder, instr: Instr, t: list[Table], src: list[Any]) -> Value:
    runs, is_permuted = instr.structure  # type: ignore[misc]
    found = _runs(src[0], runs)
    return _permute(b, instr, t, [found]) if is_permuted else found


def _permute(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
    index = t[0]
    if index.kind == "coefficient_permutation":
        index = Table("coefficient_index", index.args)
    return [b.row("permute", (index,), (x,)) for x in src[0]]


def _embed(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
    if instr.structure is not None:
        b.refuse("it embeds coefficients, whose places are not a row of values")
    n, m = t[0].args
    found = repeats(n, m)  # type: ignore[arg-type]
    if found is None:
        return _permute(b, instr, t, src)
    return [b.row("repeat", (*found, t[0]), (x,)) for x in src[0]]


def _view(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
    return _runs(src[0], instr.structure)


def _join(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
    runs: Any = instr.structure
    return [x for i, start, count in runs for x in src[i][start : start + count]]


def _store(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
    return _wide(src[0], instr)


def _stack(b: Builder, instr: Instr, t: list[Table], src: Sequence[Batch]) -> Batch:
    """Stack values at each position: along a new last axis, or a new first one."""
    shape = np.broadcast_shapes(*(x.shape for x in src))
    each = zip(*(x.over(shape) for x in src), strict=True)
    wide = [[_wide(x, instr) for x in read] for read in each]
    if instr.structure:
        return Batch((*shape, len(src)), [x for read in wide for x in read])
    return Batch((len(src), *shape), [x for entry in zip(*wide, strict=True) for x in entry])


def _part(b: Builder, instr: Instr, t: list[Table], src: Sequence[Batch]) -> Batch:
    (x,), (index, axis) = src, instr.structure  # type: ignore[misc]
    found = np.take(np.arange(len(x.parts)).reshape(x.shape), index, axis=axis)
    return Batch(found.shape, [x.parts[i] for i in found.ravel().tolist()])


def _mac(b: Builder, instr: Instr, t: list[Table], src: Sequence[Batch]) -> Batch:
    """A sum of products at each position: of the terms with the factors at the indices."""
    factors, terms, indices = src[0], src[1:], t[1].args[0]
    own = factors.shape[1:]
    size = int(np.prod(own, dtype=np.int64))
    shape = np.broadcast_shapes(own, *(x.shape for x in terms))
    found: list[Sequence[Value]] = []
    for i, x in zip(indices, terms, strict=True):  # type: ignore[arg-type]
        found += [Batch(own, factors.parts[i * size : (i + 1) * size]).over(shape), x.over(shape)]
    dot = STEPS["DOT"]
    return Batch(shape, [dot(b, instr, t, list(read)) for read in zip(*found, strict=True)])


def _mix(b: Builder, instr: Instr, t: list[Table], src: Sequence[Batch]) -> Batch:
    """One mix for each limb and each position of the other axes: all rows of the result at once."""
    (axis, rows), (weights, moduli), (x,) = instr.structure, t[0].args, src  # type: ignore[misc]
    mixed = np.moveaxis(np.arange(len(x.parts)).reshape(x.shape), axis, 0)
    shape = (rows, *mixed.shape[1:])
    parts: list[Value] = [[] for _ in range(int(np.prod(shape)))]
    places = np.arange(len(parts)).reshape(rows, -1)
    for at, read in zip(places.T.tolist(), mixed.reshape(len(mixed), -1).T.tolist(), strict=True):
        values = [_wide(x.parts[i], instr) for i in read]
        for limb, q in enumerate(moduli):  # type: ignore[arg-type]
            table, own = Table("mix_rows", (weights, q)), tuple(v[limb] for v in values)
            for i, row in zip(at, b.converted(table, own, rows), strict=True):
                parts[i].append(row)
    order = np.moveaxis(np.arange(len(parts)).reshape(shape), 0, axis)
    return Batch(order.shape, [parts[i] for i in order.ravel().tolist()])


def _same(b: Builder, instr: Instr, t: list[Table], src: list[Value]) -> Value:
    return src[0]


STEPS: dict[str, Step] = {
    "ADD": _elementwise("add"),
    "SUB": _elementwise("sub"),
    "NEG": _elementwise("neg"),
    "MUL": _elementwise("dot"),
    "DOT": _elementwise("dot"),
    "FILL": _constants,
    "DELTA": _delta,
    "AT_ZERO": _at_zero,
    "FLIP": _flip,
    "NTT": _transform("ntt"),
    "INTT": _transform("intt"),
    "CONVERT": _conversion,
    "LIFT": _lift,
    "SHIFT": _shift,
    "PERMUTE": _permute,
    "EMBED": _embed,
    "VIEW": _view,
    "JOIN": _join,
    "LOAD": _load,
    "STORE": _store,
    "CONTIGUOUS": _same,
}
# Of all positions of the batch axes at once.
BATCH_STEPS: dict[str, Callable[[Builder, Instr, list[Table], Sequence[Batch]], Batch]] = {
    "STACK": _stack,
    "PART": _part,
    "MAC": _mac,
    "MIX": _mix,
}
INDICES = frozenset({"GIDX", "INDEX"})  # a part of the LOAD that reads them
# Ops without limb rows, with the reason; a plan that holds one runs as XLA kernels.
ABSENT: dict[str, str] = {
    "DIVIDE": "its integers are longer than the words of a row",
}
