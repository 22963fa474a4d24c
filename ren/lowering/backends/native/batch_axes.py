"""Batch axes of a graph: those taken apart into rows, and those that the call loops over.

An axis that STACK makes or PART reads is taken apart, as limbs are. So is every axis that it meets
in an operation: each position has rows of its own. So is an axis that some output lacks. The others
are loops. They stand for themselves at the right of each array, once the other axes are left out.
All outputs have all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import attrs
import numpy as np

from ren.lowering.program.graph import Call, Graph, Slice
from ren.lowering.program.instructions import Instr

Shape = tuple[int, ...]
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


@lru_cache(maxsize=256)
def axes_of(graph: Graph, shapes: tuple[Shape, ...]) -> tuple[tuple[Axes, ...], tuple[Axes, ...]]:
    """The batch axes of the inputs and of the outputs of a graph.

    Args:
        graph: what runs.
        shapes: of each input its batch axes.
    """
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
