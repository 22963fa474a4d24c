"""Programs run op by op, for tests that run thousands of small programs.

Planning a whole program takes ten times as long as running it at n = 2^10. Inside `op_by_op` each
op is a program of its own, which is planned once for all operands of one type.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ren
from ren.core import op as ops
from ren.core.node import Node, Structure, make, placeholder, toposort
from ren.core.ring import Domain
from ren.lowering.devices.devices import is_tracer
from ren.lowering.runtime.host_arrays import placed
from ren.lowering.runtime.planning import plan_of
from ren.lowering.runtime.runner import interpret_plan, unit_runner
from ren.poly import realization

Key = tuple[Any, ...]
_PATIENCE = 60  # uses after which compiling pays


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
        return [realization.wrap(placed(arrays[node]), node) for node in sink.src]

    def _runner(self, node: Node) -> _Runner:
        key = (node.op, node.arg, *(s.spec for s in node.src))
        if key not in self._runners:
            self._runners[key] = _Runner(node)
        return self._runners[key]


class _Runner:
    """One op on operands of one type: interpreted at first, compiled where it comes often."""

    def __init__(self, node: Node) -> None:
        sources = [placeholder(s.spec) for s in node.src]
        self._plan = plan_of(make(ops.SINK, [make(node.op, sources, node.arg)]))
        args = [source.arg for source in sources]
        self._places = [args.index(source.arg) for source in self._plan.inputs]
        self._compiled = unit_runner(self._plan)
        self._uses = 0

    def __call__(self, arrays: list[Any]) -> Any:
        self._uses += 1
        inputs = [arrays[i] for i in self._places]
        if ren.config.native and self._uses > _PATIENCE:
            return self._compiled([placed(a) for a in inputs])[0]
        return np.asarray(interpret_plan(self._plan, [np.asarray(a) for a in inputs])[0])


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
