"""The XLA backend: segments as jax.numpy programs that XLA compiles, for any device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ren.lowering.backends.xla import emit, jax_executable
from ren.lowering.backends.xla.jax_executable import JaxExecutable
from ren.lowering.program.graph import Call
from ren.lowering.program.steps import Segment


class XlaBackend:
    """Runs every segment: a kernel by itself as its own function, several as one graph."""

    name = "xla"

    def compile(self, segment: Segment, args: Sequence[Any]) -> JaxExecutable:
        """The executable of a segment; see `ren.lowering.backends.base.Backend`."""
        graph, donate = segment.graph, segment.donate
        match graph.steps:
            case (Call(program, _, src),):
                stores = range(len(program.outputs))
                outs = tuple(graph.inputs + i for i in stores)
                if src == tuple(range(graph.inputs)) and graph.outputs == outs:
                    function = emit.kernel_function(program, donate)
                    first = emit.result_order(donate, len(stores))
                    order = tuple(map(first.index, stores)) if first != tuple(stores) else ()
                    return JaxExecutable(function, segment.tables, order, keeps_call=True)
        function = jax_executable.graph_function(graph, partial(emit.emit_graph, graph))
        return JaxExecutable(function, segment.tables)


XLA = XlaBackend()
