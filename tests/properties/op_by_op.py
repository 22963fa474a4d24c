"""Programs run op by op, for tests that run thousands of small programs.

Planning a whole program takes ten times as long as running it at n = 2^10. Inside `op_by_op` each
op is a program of its own, which is planned once for all operands of one type.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ren
from ren.core import op as ops
from ren.core.node import Node, Structure, make, placeholder, toposort
from ren.core.ring import Domain
from ren.lowering.devices.devices import is_tracer
from ren.lowering.plan.plan import Plan
from ren.lowering.runtime.host_arrays import placed
from ren.lowering.runtime.planning import native_runner, plan_from, source_of
from ren.lowering.runtime.runner import Runner, interpret_plan
from ren.poly import realization

Key = tuple[Any, ...]


class Runners:
    """What runs each op, by its argument and the types of its sources."""

    def __init__(self) -> None:
        self._directly = realization.compute
        self._runners: dict[Key, _Runner] = {}

    def __call__(self, structure: Structure) -> list[Node]:
        sink = realization.resolved(make(ops.SINK, structure.roots))
        order = toposort(sink)
        if any(node.op is ops.BUFFER and is_tracer(node.arg.array) for node in order):
            return self._directly(structure)
        arrays: dict[Node, Any] = {}
        for node in order[:-1]:
            if node.op is ops.BUFFER:
                arrays[node] = node.arg.array
            elif node.op is ops.CONST:
                arrays[node] = _constant(node)
            else:
                arrays[node] = self._runner(node)([arrays[s] for s in node.src])
        return [realization.wrap(_on_device(arrays[node]), node) for node in sink.src]

    def _runner(self, node: Node) -> _Runner:
        key = (node.op, node.arg, *(s.spec for s in node.src))
        if key not in self._runners:
            self._runners[key] = _Runner(node)
        return self._runners[key]


class _Runner:
    """One op on operands of one type: a native call, or else interpreted."""

    def __init__(self, node: Node) -> None:
        sources = [placeholder(s.spec) for s in node.src]
        self._source = source_of(make(ops.SINK, [make(node.op, sources, node.arg)]))
        args = [source.arg for source in sources]
        self._places = [args.index(given.arg) for given in self._source.inputs]
        self._native: Runner | None = None
        self._is_native = True

    def __call__(self, arrays: list[Any]) -> Any:
        inputs = [arrays[i] for i in self._places]
        if ren.config.native and self._is_native:
            inputs = [_on_device(a) for a in inputs]
            if self._native is None:
                self._native = native_runner(self._source, self._source.inputs, inputs)
            self._is_native = self._native is not None
            if self._native is not None:
                return self._native(inputs)[0]
        return np.asarray(interpret_plan(self._plan, [np.asarray(a) for a in inputs])[0])

    @cached_property
    def _plan(self) -> Plan:
        return plan_from(self._source)


def _on_device(array: Any) -> Any:
    return placed(array) if isinstance(array, np.ndarray) else array


def _constant(node: Node) -> NDArray[np.uint32]:
    """The limbs of a constant polynomial, in Montgomery form."""
    ring, made = node.spec.ring, np.zeros(node.spec.shape, np.uint32)
    residues = np.array([(node.arg.value << 32) % q for q in ring.moduli], np.uint32)
    made[..., : ring.n if node.spec.domain is Domain.NTT else 1] = residues[:, None]
    return made


@contextmanager
def op_by_op(runners: Runners | None = None) -> Iterator[None]:
    """Runs programs op by op while it is open; JAX's transformations and `ren.jit` are as ever.

    Args:
        runners: those to go on with; None for new ones, which go when it closes.
    """
    before, realization.compute = realization.compute, runners or Runners()
    try:
        yield
    finally:
        realization.compute = before
