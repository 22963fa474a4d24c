"""The XLA backend: segments as jax.numpy programs that XLA compiles, for any device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ren.lowering.backends.xla import emit
from ren.lowering.backends.xla.jax_executable import JaxExecutable
from ren.lowering.program.graph import Call
from ren.lowering.program.segment import Segment


class XlaBackend:
    """Runs every segment: a kernel by itself as its own function, several as one graph."""

    name = "xla"

    def compile(self, segment: Segment, args: Sequence[Any]) -> JaxExecutable:
        """The executable of a segment; see `ren.lowering.backends.base.Backend`."""
        graph, donate, tables = segment.graph, segment.donate, segment.tables
        count, stores = graph.inputs, len(graph.outputs)
        match graph.steps:
            case (Call(program, _, src),) if src == tuple(range(count)) and graph.outputs == tuple(
                range(count, count + len(program.outputs))
            ):
                function = emit.kernel_function(program, donate)
                ins, outs = emit.slot_order(donate, count), emit.result_order(donate, stores)
                return JaxExecutable(function, tables, ins, outs, len(donate), True)
        function = emit.graph_function(graph, partial(emit.emit_graph, graph))
        return JaxExecutable(function, tables, tuple(range(count)), tuple(range(stores)))


XLA = XlaBackend()
