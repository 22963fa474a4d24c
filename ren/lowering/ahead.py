"""Compiling ahead of time: the graph of a plan, part by part, from the types of its inputs alone.

Lowering runs Python code and belongs to the thread that calls the plan; compiling does not, and can
be done by another. Between two device copies stands one executable.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from typing import Any

import attrs
import jax

from ren.lowering import emit
from ren.lowering.devices import PYTHON, is_host
from ren.lowering.graph_runner import Execute, GraphRunner, GraphUnit
from ren.lowering.units import CopyUnit

Type = jax.ShapeDtypeStruct


@attrs.frozen(eq=False)
class Executable:
    """What XLA made of a graph; plans with the same graph and types share it while one holds it."""

    compiled: Any
    types: tuple[Type, ...]


# Part of the cache of compiled kernels: the executables that some plan holds, by graph and types.
_executables: weakref.WeakValueDictionary[Hashable, Executable] = weakref.WeakValueDictionary()


def type_of(array: Any) -> Type:
    """Shape and type of an array, and its sharding where JAX may not move it."""
    sharding = array.sharding if getattr(array, "committed", False) else None
    return Type(array.shape, array.dtype, sharding=sharding)


def types_of(inputs: Sequence[Any]) -> tuple[Type, ...] | None:
    """The types of a plan's inputs; None when some are on the python device."""
    return None if any(map(is_host, inputs)) else tuple(map(type_of, inputs))


class Ahead:
    """The graph of a plan on its way to executables: `lower`, then `compile`, then `runner`."""

    def __init__(self, graph: GraphRunner, types: Sequence[Type]) -> None:
        """Args:
        graph: the plan's parts.
        types: of its inputs.
        """
        self._graph = graph
        self._types: dict[int, Type] = dict(enumerate(types))
        self._parts: list[tuple[GraphUnit, Hashable, Any, tuple[Any, ...]]] = []
        self._made: dict[GraphUnit, tuple[Executable, tuple[Any, ...]]] = {}
        self._next = 0

    @property
    def is_lowered(self) -> bool:
        """True when nothing is left to lower."""
        return self._next == len(self._graph.steps)

    def lower(self) -> bool:
        """Lowers all parts whose types are known already; true when none is left to compile.

        Not known are those behind a part that runs on several devices: XLA chooses how its results
        are divided. They are lowered when that is compiled.
        """
        while not self.is_lowered:
            step = self._graph.steps[self._next]
            if not all(v in self._types for v in step.ins):
                break
            self._next += 1
            if isinstance(step, CopyUnit):
                self._types[step.outs[0]] = _moved(self._types[step.ins[0]], step.device)
            else:
                self._lower_part(step)
        return not self._parts and self.is_lowered

    def _lower_part(self, step: GraphUnit) -> None:
        types = tuple(self._types[v] for v in step.ins)
        tables = emit.tables_for(step.tables, types)
        key = (step.graph, tuple((t.shape, t.dtype, t.sharding) for t in types))
        found = _executables.get(key)
        if found is not None:
            self._made[step] = found, tables
            self._learn(step, found)
            return
        with jax.enable_x64(True):
            lowered = emit.compiled_graph(step.graph).lower(tables, types)
        self._parts.append((step, key, lowered, tables))
        if any(t.sharding is not None and len(t.sharding.device_set) > 1 for t in types):
            return
        place = next((t.sharding for t in types if t.sharding is not None), None)
        for v, out in zip(step.outs, lowered.out_info, strict=True):
            self._types[v] = Type(out.shape, out.dtype, sharding=place)

    def compile(self) -> None:
        """Compiles what has been lowered, and lowers and compiles what had to wait for it."""
        while self._parts or not self.is_lowered:
            for step, key, lowered, tables in self._parts:
                made = Executable(lowered.compile(), tuple(lowered.out_info))
                self._made[step] = _executables.setdefault(key, made), tables
                self._learn(step, made)
            self._parts.clear()
            self.lower()

    def _learn(self, step: GraphUnit, made: Executable) -> None:
        inputs = [self._types[v].sharding for v in step.ins]
        is_bound = any(sharding is not None for sharding in inputs)
        shardings = made.compiled.output_shardings
        for v, out, sharding in zip(step.outs, made.types, shardings, strict=True):
            self._types.setdefault(
                v, Type(out.shape, out.dtype, sharding=sharding if is_bound else None)
            )

    def runner(self) -> GraphRunner:
        """The graph, with the executables of its parts."""
        return attrs.evolve(
            self._graph, executables={step: _bound(*made) for step, made in self._made.items()}
        )


def _bound(executable: Executable, tables: tuple[Any, ...]) -> Execute:
    def execute(args: Sequence[Any]) -> tuple[Any, ...]:
        with jax.enable_x64(True):
            return executable.compiled(tables, tuple(args))

    return execute


def _moved(type_: Type, device: Any) -> Type:
    if device == PYTHON:  # no executable reads it there
        return Type(type_.shape, type_.dtype)
    is_sharding = isinstance(device, jax.sharding.Sharding)
    place = device if is_sharding else jax.sharding.SingleDeviceSharding(device)
    return Type(type_.shape, type_.dtype, sharding=place)
