"""Kernels: a fused piece of a graph over slots, and the structure that kernels share.

A `Kernel` is a body, SINK(STORE(expression), ...), whose leaves are SLOTs. Its `Program` is the
rest when the values of moduli, constants and permutations are taken out. Those are tables,
arguments of the compiled function. Two kernels with one program run the same executable.
"""

from __future__ import annotations

import attrs

from ren.core import op as ops
from ren.core.node import Node, toposort
from ren.lowering.program.instructions import INSTRUCTIONS, Instr, Table


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


def kernel_of(body: Node) -> Kernel:
    """The kernel of a body SINK(STORE(SLOT, expression), ...)."""
    position: dict[Node, int] = {}
    tables: dict[Table, int] = {}
    instrs: list[Instr] = []
    for node in toposort(body)[:-1]:
        rules = INSTRUCTIONS[node.op.name]
        needed = tuple(tables.setdefault(t, len(tables)) for t in rules.tables(node))
        src = tuple(position[s] for s in node.src)
        ring = node.spec.ring
        position[node] = len(instrs)
        instrs.append(Instr(node.op.name, rules.structure(node), src, needed, ring.limbs, ring.n))
    outputs = tuple(position[store] for store in body.src)
    slots = sum(node.op is ops.SLOT and node.arg.index >= 0 for node in position)
    return Kernel(body, Program(tuple(instrs), outputs, slots), tuple(tables))
