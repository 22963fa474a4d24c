"""Graphs: many programs and how they are wired, as one structure that plans share.

A `Graph` is to a stretch of a plan what a `Program` is to a kernel. It has all that shapes the
code, and nothing of moduli, constants or arrays. Two plans with one graph run the same executable.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ren.core.ring import RingSpec
from ren.lowering.program.instructions import Instr, Table
from ren.lowering.program.kernel import Program


@attrs.frozen
class Call:
    """Runs a program: its stores become the next values.

    Args:
        program: what runs.
        tables: positions of its tables among the graph's.
        src: the values in its slots.
    """

    program: Program
    tables: tuple[int, ...]
    src: tuple[int, ...]


@attrs.frozen
class Slice:
    """The next value: limbs `start` to `start + length` of the value `src`."""

    start: int
    length: int
    src: int


@attrs.frozen(cache_hash=True)
class Graph:
    """Calls and slices in order; values are numbered from the inputs on, as in a plan.

    Args:
        inputs: how many values come in.
        steps: what makes the others.
        outputs: the values that are returned.
    """

    inputs: int
    steps: tuple[Call | Slice, ...]
    outputs: tuple[int, ...]


def with_words(
    graph: Graph, tables: tuple[Table, ...], rings: Mapping[int, RingSpec]
) -> tuple[Graph, tuple[Table, ...]]:
    """A graph that takes integers where it took residues, and its tables.

    Args:
        graph, tables: what takes residues.
        rings: of each input that is to come as integers its ring. It comes as their words then,
            uint32 [*batch, 2, n], of which `ren.lowering.runtime.host_integers.words` says more.
    """
    made = dict[Table, int]()
    first: list[Call | Slice] = []
    value = list(range(graph.inputs))  # of each value of `graph` its number now
    for i, ring in sorted(rings.items()):
        table = made.setdefault(Table("residues", (ring.moduli,)), len(tables) + len(made))
        value[i] = graph.inputs + len(first)
        first.append(Call(_residues(ring.limbs, ring.n), (table,), (i,)))
    steps: list[Call | Slice] = []
    for step in graph.steps:
        if isinstance(step, Call):
            steps.append(attrs.evolve(step, src=tuple(value[v] for v in step.src)))
            count = len(step.program.outputs)
        else:
            steps.append(attrs.evolve(step, src=value[step.src]))
            count = 1
        value += range(len(value) + len(first), len(value) + len(first) + count)
    outputs = tuple(value[v] for v in graph.outputs)
    return Graph(graph.inputs, (*first, *steps), outputs), (*tables, *made)


def _residues(limbs: int, n: int) -> Program:
    slot = Instr("SLOT", 0, (), (), 2, n)
    return Program((slot, Instr("RESIDUES", None, (0,), (0,), limbs, n)), (1,), 1)
