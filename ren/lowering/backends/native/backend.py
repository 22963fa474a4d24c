"""The native backend: a segment as one call of bytecode, on CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import jax

from ren.lowering.backends.base import Unsupported
from ren.lowering.backends.native import library
from ren.lowering.backends.native.bytecode import emit_native, native_program
from ren.lowering.backends.xla.jax_executable import JaxExecutable, graph_function, placement
from ren.lowering.devices.devices import is_host, is_tracing
from ren.lowering.program.graph import Call, Graph, Program
from ren.lowering.program.steps import Segment

# The ops that native code computes faster than XLA. Elementwise work alone is as fast there. A part
# of a batch would be a kernel of its own, which XLA compiles for each index.
_GAINS = frozenset({"NTT", "INTT", "CONVERT", "LIFT", "PART", "MIX"})
NO_GAIN = Unsupported("its work is elementwise, where XLA is as fast", is_choice=True)


@lru_cache(maxsize=4096)
def gains(program: Program) -> bool:
    """True where native code is faster than XLA for some of a program."""
    return any(instr.op in _GAINS for instr in program.instrs)


def gains_on(graph: Graph) -> bool:
    """True where native code is faster than XLA for some of a graph."""
    return any(isinstance(step, Call) and gains(step.program) for step in graph.steps)


def may_be_divided(place: Any) -> bool:
    """True where XLA may divide arrays at `place`, as `placement` tells it, among devices."""
    devices = jax.device_count() if is_tracing() else len(place.device_set) if place else 1
    return devices > 1


class NativeBackend:
    """Runs segments on CPUs. It donates nothing.

    Kernels without transforms and conversions are left to XLA, which is as fast. Parts of a program
    of native calls, which have no units, run natively whatever they compute.
    """

    name = "native"

    def compile(self, segment: Segment, args: Sequence[Any]) -> JaxExecutable | Unsupported:
        """The executable of a segment; see `ren.lowering.backends.base.Backend`.

        Where arrays may be divided among devices, the call must loop over all batch axes. Each
        device would compute all positions of axes that are taken apart.
        """
        if any(map(is_host, args)):
            return Unsupported("its inputs are NumPy arrays, not JAX's", is_choice=True)
        if segment.units and not gains_on(segment.graph):
            return NO_GAIN
        found = library.usable()
        if found.reason:
            return Unsupported(found.reason)
        made = native_program(segment.graph, segment.tables, [tuple(a.shape) for a in args])
        if isinstance(made, Unsupported):
            return made
        if not made.form.is_looped and may_be_divided(placement(args)):
            return Unsupported("batch axes that are taken apart may be divided among devices")
        key = (made.form, found.name)
        function = graph_function(key, partial(emit_native, *key))
        return JaxExecutable(function, made.tables)


NATIVE = NativeBackend()
