"""Programs and graphs as functions of jax.numpy: their emission, under 64-bit types."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from jax import lax

from ren.lowering.backends.xla import jax_executable
from ren.lowering.backends.xla.executables import Executables
from ren.lowering.backends.xla.ops import EMIT
from ren.lowering.kernels.keeps_calls import apart
from ren.lowering.kernels.limb_groups import emitted
from ren.lowering.program.graph import Graph, Program, Slice
from ren.lowering.program.instructions import Arrays
from ren.lowering.program.steps import Donations


def emit(program: Program, tables: Sequence[Arrays], slots: Sequence[Any]) -> tuple[Any, ...]:
    """Runs a program's instructions as jax.numpy; called under 64-bit types.

    Args:
        program: what to run.
        tables: its constant arrays.
        slots: `uint32[*batch, limb, n]`, Montgomery residues in [0, q).

    Returns:
        What the program stores, in order, each `uint32[*batch, limb, n]` in [0, q).
    """
    values: list[Any] = []
    for instr in program.instrs:
        if instr.op == "SLOT":
            index: Any = instr.structure
            values.append(slots[index] if index >= 0 else None)
            continue
        read = [tables[i] for i in instr.tables]
        src = [values[i] for i in instr.src]
        values.append(emitted(EMIT[instr.op], instr, read, src))
    return tuple(values[i] for i in program.outputs)


def kernel_function(program: Program, donate: Donations = ()) -> Executables:
    """The jitted function `(tables, *slots) -> results` of a program, made once.

    Its results are in `result_order`.
    """
    return jax_executable.kernel_function(program, donate, partial(_emit_kernel, program, donate))


def _emit_kernel(
    program: Program, donate: Donations, tables: tuple[Arrays, ...], *slots: Any
) -> tuple[Any, ...]:
    results = emit(program, tables, slots)
    return tuple(results[i] for i in result_order(donate, len(results)))


def result_order(donate: Donations, stores: int) -> tuple[int, ...]:
    """The stores in the order in which a compiled kernel returns them; first those that stand in
    donated slots."""
    first = [store for _, store in sorted(donate)]
    return (*first, *(i for i in range(stores) if i not in first))


def emit_graph(graph: Graph, tables: tuple[Arrays, ...], *inputs: Any) -> tuple[Any, ...]:
    """Runs a graph's steps; called under 64-bit types, as `emit` is. Nothing is donated.

    Each program is called as its own jitted function, which stays one in XLA's program.
    """
    values: list[Any] = list(inputs)
    for step in graph.steps:
        if isinstance(step, Slice):
            end = step.start + step.length
            values.append(lax.slice_in_dim(values[step.src], step.start, end, axis=-2))
        else:
            read = tuple(tables[i] for i in step.tables)
            with apart():
                function = kernel_function(step.program).function
                values.extend(function(read, *(values[i] for i in step.src)))
    return tuple(values[i] for i in graph.outputs)
