"""Bindings: the steps of a plan made ready for arrays of some shapes and devices.

The first run on such arrays looks up tables and executables and compiles what is missing; later
runs only call. A step then takes about a microsecond over its executable, an argument about one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import jax
from jax.profiler import TraceAnnotation

from ren.config import config
from ren.lowering.backends.base import Call
from ren.lowering.backends.xla import emit
from ren.lowering.backends.xla import jax_runtime as runtime
from ren.lowering.backends.xla.forking import check_not_forked
from ren.lowering.devices.devices import is_tracer
from ren.lowering.devices.shardings import default_device, layout_of, mesh_in_use

_Likeness = tuple[type, tuple[int, ...], bool, Any, Any]
_Step = tuple[Call, tuple[int, ...], tuple[int, ...], tuple[int, ...], str]


@attrs.frozen(eq=False)
class Binding:
    """A plan made ready for arrays like some that it has run on.

    Attributes:
        held: inputs that the plan holds, with their arrays.
        free: the other inputs, each with what its array is like: see `likeness`.
        context: what else decides where results are: see `context_in_use`.
        steps: of each the call, the values it reads and makes, those it drops, its name.
        values: how many values there are.
        outputs: the values of the plan's roots.
        streams: of each step, where some run beside each other; else empty.
    """

    held: tuple[tuple[int, Any], ...]
    free: tuple[tuple[int, _Likeness], ...]
    context: tuple[Any, ...]
    steps: tuple[_Step, ...]
    values: int
    outputs: tuple[int, ...]
    streams: tuple[int, ...] = ()

    def fits(self, inputs: Sequence[Any]) -> bool:
        """True when the steps are right for these arrays."""
        for i, array in self.held:
            if inputs[i] is not array:
                return False
        for i, (kind, shape, committed, place, layout) in self.free:
            array = inputs[i]
            if type(array) is not kind or array.shape != shape or array.committed != committed:
                return False
            if array.sharding is not place and array.sharding != place:
                return False
            if layout_of(array) != layout:
                return False
        return self.context == context_in_use()

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The arrays of the plan's roots."""
        check_not_forked()
        values = [*inputs, *[None] * (self.values - len(inputs))]
        if self.streams:
            self._run_in_streams(values)
        else:
            for step in self.steps:
                _run(step, values)
        return tuple([values[i] for i in self.outputs])

    def _run_in_streams(self, values: list[Any]) -> None:
        own = runtime.stream()  # that of the first stream
        now = 0
        try:
            for stream, step in zip(self.streams, self.steps, strict=True):
                if stream != now:
                    runtime.set_stream(runtime.numbered_stream(stream) if stream else own)
                    now = stream
                _run(step, values)
        finally:
            runtime.set_stream(own)


def _run(step: _Step, values: list[Any]) -> None:
    """Puts what a step makes into `values`."""
    call, ins, outs, drops, name = step
    with TraceAnnotation(name):
        results = call([values[i] for i in ins])
    for i, result in zip(outs, results, strict=True):
        values[i] = result
    for i in drops:
        values[i] = None


def is_concrete(array: Any) -> bool:
    """True for a JAX array that is no tracer."""
    return isinstance(array, jax.Array) and not is_tracer(array)


def likeness(array: Any) -> _Likeness:
    """All that tells two arrays apart for an executable, their values left out."""
    return type(array), array.shape, array.committed, array.sharding, layout_of(array)


def context_in_use() -> tuple[Any, ...]:
    """State that decides what runs besides the arrays: devices, epoch of the kernels, `native`."""
    return emit.epoch(), default_device(), mesh_in_use(), config.native
