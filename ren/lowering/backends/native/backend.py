"""The native backend: a segment as one call of bytecode, on CPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import attrs
import jax

from ren.lowering.backends.base import Call as ArrayCall
from ren.lowering.backends.base import Unsupported
from ren.lowering.backends.native import library
from ren.lowering.backends.native.bytecode import NativeProgram, emit_native, native_program
from ren.lowering.backends.native.host_call import host_call
from ren.lowering.backends.xla.jax_executable import JaxExecutable, graph_function, placement
from ren.lowering.devices.devices import Place, is_host, is_tracer, is_tracing
from ren.lowering.program.graph import Call, Graph, Program
from ren.lowering.program.steps import Segment

# The least degree at which native code is preferred to XLA. Smaller programs, which pages show, do
# not wait for a compiler of C++.
LEAST_N = 1 << 8
# The ops that native code computes faster than XLA. Elementwise work alone is as fast there. A part
# of a batch would be a kernel of its own, which XLA compiles for each index.
_GAINS = frozenset({"NTT", "INTT", "CONVERT", "LIFT", "PART", "MIX"})
NO_GAIN = Unsupported(
    "its work is elementwise: XLA is as fast for large kernels, and small ones run without it",
    is_choice=True,
)


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


@attrs.frozen(eq=False)
class NativeExecutable(JaxExecutable):
    """A native call, by XLA or, where it is small and its arrays are on one CPU, without it."""

    program: NativeProgram = attrs.field(kw_only=True)

    def bind(self, args: Sequence[Any]) -> ArrayCall:
        """The call for arrays like `args`."""
        functions = library.functions()
        if functions is not None and self.program.is_small([a.shape for a in args]):
            found = host_call(functions.run, self.program, args)
            if found is not None:
                return found
        return JaxExecutable.bind(self, args)

    def ahead(self, types: Sequence[Any], place: Place | None) -> Callable[[], Any] | None:
        """The rest of the work for a call by XLA; None where none is made."""
        if place is not None and self.program.is_small([t.shape for t in types]):
            return None
        return JaxExecutable.ahead(self, types, place)


class NativeBackend:
    """Runs segments on CPUs. It donates nothing.

    Kernels without transforms and conversions are left to XLA, which is as fast, where they are
    large or JAX traces. Parts of a program of native calls, which have no units, run natively
    whatever they compute.
    """

    name = "native"

    def compile(self, segment: Segment, args: Sequence[Any]) -> NativeExecutable | Unsupported:
        """The executable of a segment; see `ren.lowering.backends.base.Backend`.

        Where arrays may be divided among devices, the call must loop over all batch axes. Each
        device would compute all positions of axes that are taken apart.
        """
        if any(map(is_host, args)):
            return Unsupported("its inputs are NumPy arrays, not JAX's", is_choice=True)
        is_traced = is_tracing() or any(map(is_tracer, args))
        has_gain = not segment.units or gains_on(segment.graph)
        if not has_gain and (is_traced or max((a.shape[-1] for a in args), default=0) < LEAST_N):
            return NO_GAIN
        found = library.usable()
        if found.reason:
            return Unsupported(found.reason)
        made = native_program(segment.graph, segment.tables, [tuple(a.shape) for a in args])
        if isinstance(made, Unsupported):
            return made
        if not made.form.is_looped and may_be_divided(placement(args)):
            return Unsupported("batch axes that are taken apart may be divided among devices")
        if not has_gain and not made.is_small([tuple(a.shape) for a in args]):
            return NO_GAIN
        key = (made.form, found.name)
        function = graph_function(key, partial(emit_native, *key))
        backend = f"{self.name}, {library.vectors(found.name)}"
        return NativeExecutable(function, made.tables, program=made, backend=backend)


NATIVE = NativeBackend()
