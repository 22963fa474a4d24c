"""Compiling ahead of time: the graph of a plan, part by part, from the types of its inputs alone.

Lowering runs Python code and belongs to the thread that calls the plan. Compiling does not, and
another thread can do it. Between two device copies stands one executable. The first run of the
graph finds what is compiled here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import SingleDeviceSharding

from ren.lowering.backends.select_backend import compiled
from ren.lowering.backends.xla.jax_executable import JaxExecutable
from ren.lowering.devices.devices import PYTHON, is_host
from ren.lowering.devices.shardings import Place, default_device
from ren.lowering.program.segment import Segment
from ren.lowering.program.steps import CopyUnit
from ren.lowering.runtime.runner import Runner

Type = jax.ShapeDtypeStruct


def types_of(inputs: Sequence[Any]) -> tuple[Type, ...] | None:
    """Shape, dtype, and sharding where JAX may not move them, of arrays; None for NumPy arrays."""
    if any(map(is_host, inputs)):
        return None
    bound = [a.sharding if a.committed else None for a in inputs]
    return tuple(
        Type(a.shape, a.dtype, sharding=sharding) for a, sharding in zip(inputs, bound, strict=True)
    )


class Ahead:
    """The graph of a plan on its way to executables: `lower`, then `compile`, then `graph`.

    Attributes:
        graph: the plan's parts, which run without compiling once all is done.
    """

    def __init__(self, graph: Runner, types: Sequence[Type]) -> None:
        """Args:
        graph: the plan's parts.
        types: of its inputs.
        """
        self.graph = graph
        self._types: dict[int, Type] = dict(enumerate(types))
        self._lowered: list[tuple[Segment, Callable[[], Any]]] = []
        self._next = 0

    def lower(self) -> bool:
        """Lowers all parts whose types are known already; true when none is left to compile.

        Not known are those behind a part that runs on several devices: XLA chooses how its results
        are divided. They are lowered when that is compiled.
        """
        steps = self.graph.steps
        while self._next < len(steps):
            step = steps[self._next]
            if not all(v in self._types for v in step.ins):
                return False
            self._next += 1
            if isinstance(step, CopyUnit):
                self._types[step.outs[0]] = _moved(self._types[step.ins[0]], step.device)
            else:
                self._lower_part(step)
        return not self._lowered

    def _lower_part(self, step: Segment) -> None:
        types = tuple(self._types[v] for v in step.ins)
        executable = _executable(step, types)
        work = None if executable is None else executable.ahead(types, _place(types))
        if work is not None:
            self._lowered.append((step, work))
        devices = [t.sharding for t in types if t.sharding is not None]
        if all(len(sharding.device_set) == 1 for sharding in devices):
            self._learn(step, [devices[0] if devices else None] * len(step.outs))

    def _learn(self, step: Segment, shardings: Sequence[Any]) -> None:
        if self._next == len(self.graph.steps):
            return  # nothing reads them
        types = tuple(self._types[v] for v in step.ins)
        executable = _executable(step, types)
        outs = [] if executable is None else executable.output_types(types)
        for v, out, sharding in zip(step.outs, outs, shardings, strict=executable is not None):
            self._types[v] = Type(out.shape, out.dtype, sharding=sharding)

    def compile(self) -> None:
        """Compiles what has been lowered, and lowers and compiles what had to wait for it."""
        while not self.lower():
            lowered, self._lowered = self._lowered, []
            for step, work in lowered:
                shardings = work()
                if not all(v in self._types for v in step.outs):
                    self._learn(step, shardings)


def _executable(step: Segment, types: Sequence[Type]) -> JaxExecutable | None:
    """The executable of a segment; None for a backend that has nothing to compile ahead."""
    found = compiled(step, types)
    return found if isinstance(found, JaxExecutable) else None


def _place(types: Sequence[Type]) -> Place | None:
    """The one device where arrays of these types are, as `common_place` finds it."""
    bound = [t.sharding for t in types if t.sharding is not None]
    if bound and len(bound) == len(types):
        first = bound[0]
        is_one = type(first) is SingleDeviceSharding and all(s == first for s in bound)
        return Place(first, True) if is_one else None
    device = default_device()
    if device is None:
        return None
    place = SingleDeviceSharding(device)
    return Place(place, bool(bound)) if all(s == place for s in bound) else None


def _moved(type_: Type, device: Any) -> Type:
    if device == PYTHON:  # no executable reads it there
        return Type(type_.shape, type_.dtype)
    is_sharding = isinstance(device, jax.sharding.Sharding)
    return Type(
        type_.shape, type_.dtype, sharding=device if is_sharding else SingleDeviceSharding(device)
    )
