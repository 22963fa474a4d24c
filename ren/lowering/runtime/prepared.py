"""Bindings: the steps of a plan made ready for arrays of some shapes and places.

The first run on such arrays looks up tables and executables and compiles what is missing; later
runs only call. A step then takes about a microsecond over its executable, an argument about one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import attrs
import jax
from jax.profiler import TraceAnnotation

from ren.lowering.backends import emit
from ren.lowering.backends.emit import Prepared
from ren.lowering.backends.xla import jax_runtime as runtime
from ren.lowering.backends.xla.forking import check_not_forked
from ren.lowering.devices.devices import is_tracer
from ren.lowering.devices.shardings import default_device, layout_of, mesh_in_use
from ren.progress import Progress

# A jitted function has a plan for each argument spec, and one binding does. More are for calls of
# one plan with other batch shapes or places, in turns.
MAX_BINDINGS = 4

_Likeness = tuple[type, tuple[int, ...], bool, Any, Any]
_Step = tuple[emit.Call, tuple[int, ...], tuple[int, ...], tuple[int, ...], str]


@attrs.frozen(eq=False)
class Binding:
    """A plan made ready for arrays like some that it has run on.

    Attributes:
        held: inputs that the plan holds, with their arrays.
        free: the other inputs, each with what its array is like: see `_likeness`.
        context: what else decides where results are: see `_context`.
        steps: of each the call, the values it reads and makes, those it drops, its name.
        values: how many values there are.
        outputs: the values of the plan's roots.
        lanes: of each step, where some run beside each other; else empty.
    """

    held: tuple[tuple[int, Any], ...]
    free: tuple[tuple[int, _Likeness], ...]
    context: tuple[Any, ...]
    steps: tuple[_Step, ...]
    values: int
    outputs: tuple[int, ...]
    lanes: tuple[int, ...] = ()

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
        return self.context == _context()

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The arrays of the plan's roots."""
        check_not_forked()
        values = [*inputs, *[None] * (self.values - len(inputs))]
        if self.lanes:
            self._run_in_lanes(values)
        else:
            for step in self.steps:
                _run(step, values)
        return tuple([values[i] for i in self.outputs])

    def _run_in_lanes(self, values: list[Any]) -> None:
        own = runtime.stream()  # that of the first lane
        now = 0
        try:
            for lane, step in zip(self.lanes, self.steps, strict=True):
                if lane != now:
                    runtime.set_stream(runtime.stream_of_lane(lane) if lane else own)
                    now = lane
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


class Bindings:
    """Runs steps on concrete arrays, and remembers how for arrays that are like them.

    Args:
        steps: what runs, with `ins`, `outs`, `drops` and `name`, in order.
        prepare: `(step, args) -> Prepared`, which makes a step ready for arrays like `args`.
        held: the positions of inputs that are the same array in each call.
        outputs: the values that are returned.
        lanes: the lane of each step for some inputs, as `Binding.lanes`.
    """

    def __init__(
        self,
        steps: Sequence[Any],
        prepare: Callable[[Any, tuple[Any, ...]], Prepared],
        held: Collection[int],
        outputs: tuple[int, ...],
        lanes: Callable[[Sequence[Any]], tuple[int, ...]] = lambda inputs: (),
    ) -> None:
        self._steps = steps
        self._prepare = prepare
        self._held = frozenset(held)
        self._outputs = outputs
        self._lanes = lanes
        self._known: tuple[Binding, ...] = ()

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...] | None:
        """The outputs; None, and nothing has run, unless all inputs are concrete JAX arrays."""
        for binding in self._known:
            if binding.fits(inputs):
                return binding(inputs)
        if not all(map(_is_concrete, inputs)):
            return None
        binding, made = self._bound(inputs)
        self._known = (binding, *self._known)[:MAX_BINDINGS]
        return made

    def _bound(self, inputs: Sequence[Any]) -> tuple[Binding, tuple[Any, ...]]:
        """Runs the steps once, and the binding that runs them again."""
        held = tuple((i, inputs[i]) for i in sorted(self._held))
        free = tuple((i, _likeness(a)) for i, a in enumerate(inputs) if i not in self._held)
        context, lanes = _context(), self._lanes(inputs)
        values, steps = dict(enumerate(inputs)), []
        with Progress(len(self._steps), "compiling and running kernels") as progress:
            for step in self._steps:
                args = tuple(values[i] for i in step.ins)
                ready = self._prepare(step, args)
                with TraceAnnotation(step.name):
                    values.update(zip(step.outs, ready.results(args), strict=True))
                for i in step.drops:
                    values[i] = None
                ins = tuple(step.ins[i] for i in ready.ins)
                outs = tuple(step.outs[i] for i in ready.outs)
                steps.append((ready.call, ins, outs, step.drops, step.name))
                progress.step()
        count = 1 + max(values, default=-1)
        binding = Binding(held, free, context, tuple(steps), count, self._outputs, lanes)
        return binding, tuple(values[i] for i in self._outputs)


def _is_concrete(array: Any) -> bool:
    return isinstance(array, jax.Array) and not is_tracer(array)


def _likeness(array: Any) -> _Likeness:
    """All that tells two arrays apart for an executable, their values left out."""
    return type(array), array.shape, array.committed, array.sharding, layout_of(array)


def _context() -> tuple[Any, ...]:
    """State that decides where results are besides the arrays, and the epoch of the kernels."""
    return emit.epoch(), default_device(), mesh_in_use()
