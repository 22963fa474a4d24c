"""Programs, kernels and graphs: structure that plans share, apart from its constants.

A `Kernel` is a body, SINK(STORE(expression), ...), whose leaves are SLOTs. Its `Program` is the
rest when the values of moduli, constants and permutations are taken out. Those are tables,
arguments of the compiled function. A `Graph` is to a stretch of a plan what a `Program` is to a
kernel. Two kernels with one program, and two plans with one graph, run the same executable.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import attrs

from ren.core import op as ops
from ren.core.node import Node, toposort
from ren.core.ring import RingSpec
from ren.lowering.program.instructions import Instr, Table, add_instructions


@attrs.frozen(cache_hash=True)
class Program:
    """The structure of a kernel: instructions in order, and which of them are stored."""

    instrs: tuple[Instr, ...]
    outputs: tuple[int, ...]
    slots: int


@attrs.frozen(eq=False)
class Kernel:
    """A body over slots, its program and its tables."""

    body: Node
    program: Program
    tables: tuple[Table, ...]

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Those of the body, sources first, without its SINK."""
        return tuple(toposort(self.body)[:-1])


def kernel_of(body: Node) -> Kernel:
    """The kernel of a body SINK(STORE(SLOT, expression), ...)."""
    position: dict[Node, int] = {}
    tables: dict[Table, int] = {}
    instrs: list[Instr] = []
    add_instructions(instrs, toposort(body)[:-1], position, tables)
    outputs = tuple(position[store] for store in body.src)
    slots = sum(node.op is ops.SLOT and node.arg.index >= 0 for node in position)
    return Kernel(body, Program(tuple(instrs), outputs, slots), tuple(tables))


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
            uint32 [*batch, 2, n], of which `ren.lowering.runtime.host_arrays.words` says more.
    """
    number = {table: i for i, table in enumerate(tables)}
    first: list[Call | Slice] = []
    value = list(range(graph.inputs))  # of each value of `graph` its number now
    for i, ring in sorted(rings.items()):
        own = tuple(number.setdefault(t, len(number)) for t in _word_tables(ring))
        value[i] = graph.inputs + len(first)
        first.append(Call(_of_words(ring.limbs, ring.n), own, (i,)))
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
    return Graph(graph.inputs, (*first, *steps), outputs), tuple(number)


def _word_tables(ring: RingSpec) -> tuple[Table, ...]:
    """The tables of `_of_words`: moduli, then 2^32, 2^64 and 2^63 in Montgomery form."""
    constants = (Table("constant", (value, ring.moduli)) for value in (1 << 32, 1 << 64, 1 << 63))
    return (Table("modulus", (ring.moduli,)), *constants)


def _of_words(limbs: int, n: int) -> Program:
    """The residues c 2^32 mod q of words (low, high) of c + 2^63: one sum of two products.

    A product divides by 2^32. So low 2^64 + high 2^96 is what it takes, below 2^33 q.
    """
    instrs = (
        Instr("SLOT", 0, (), (), 2, n),
        Instr("VIEW", ((0, 1),), (0,), (), 1, n),
        Instr("VIEW", ((1, 1),), (0,), (), 1, n),
        *(Instr("FILL", None, (), (table,), limbs, n) for table in (1, 2, 3)),
        Instr("DOT", None, (1, 3, 2, 4), (0,), limbs, n),
        Instr("SUB", None, (6, 5), (0,), limbs, n),
    )
    return Program(instrs, (7,), 1)
