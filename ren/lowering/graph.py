"""Graphs: many programs and how they are wired, as one structure that plans share.

What a `Program` is to a kernel, a `Graph` is to a stretch of a plan: all that shapes the code, and
nothing of moduli, constants or arrays. Two plans with one graph run the same executable.
"""

from __future__ import annotations

import attrs

from ren.lowering.program import Program


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


def last_reads(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """For each step the positions among its sources of values that nothing reads afterwards.

    Inputs and outputs are not among them.
    """
    read = [step.src if isinstance(step, Call) else (step.src,) for step in graph.steps]
    last = {v: i for i, src in enumerate(read) for v in src}
    kept = {*range(graph.inputs), *graph.outputs}
    return tuple(
        tuple(at for at, v in enumerate(src) if last[v] == i and v not in kept)
        for i, src in enumerate(read)
    )
