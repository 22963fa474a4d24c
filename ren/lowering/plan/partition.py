"""A plan divided into graphs and copies: what runs as one executable each."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from functools import partial
from typing import Any

import attrs

from ren.core.errors import DeviceError
from ren.core.op import OPS, Kind
from ren.lowering.backends import emit
from ren.lowering.backends.emit import Prepared
from ren.lowering.devices.devices import PYTHON
from ren.lowering.kernels.bodies import Table
from ren.lowering.kernels.keeps_calls import is_apart
from ren.lowering.plan.lifetimes import values_of
from ren.lowering.plan.plan import Plan
from ren.lowering.program.graph import Call, Graph, Slice
from ren.lowering.program.steps import CopyUnit, KernelUnit, ViewUnit

# The most elementwise steps in a row, over several kernels: 450 took XLA:CPU one second.
MAX_FUSED = 400

# The least degree at which one native call is preferred to kernels before either is timed.
LEAST_ONE_CALL = 1 << 12

_Computing = KernelUnit | ViewUnit
_ELEMENTWISE = frozenset(name for name, op in OPS.items() if op.kind is Kind.ELEMENTWISE)
# Where a run ends; a JOIN is slices and a concatenation, which XLA may merge with its neighbours.
_TRANSFORMS = frozenset(n for n, op in OPS.items() if op.kind is Kind.TRANSFORM) - {"JOIN"}


@attrs.frozen(eq=False)
class GraphUnit:
    """Runs kernels and views as one executable: `values[outs] = graph(*values[ins])`.

    Attributes:
        tables: the tables of all its kernels, each once.
        drops: the values that nothing afterwards reads.
    """

    graph: Graph
    tables: tuple[Table, ...]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    drops: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the step, for people."""
        return f"GRAPH of {len(self.graph.steps)} units"

    def prepared(self, args: tuple[Any, ...]) -> Prepared:
        """The graph made ready for concrete arrays like `args`."""
        call = emit.prepared_graph(self.graph, self.tables, args)
        if call is None:
            call = partial(emit.run_graph, self.graph, self.tables)
        return Prepared(call, tuple(range(len(self.ins))), tuple(range(len(self.outs))))


def divided(plan: Plan) -> tuple[GraphUnit | CopyUnit, ...]:
    """The executables and copies of a plan, in order; values are numbered as in the plan.

    Raises:
        DeviceError: a kernel of the plan runs on the python device, where there is no XLA.
    """
    groups = _groups(plan)
    last = {v: i for i, group in enumerate(groups) for unit in group for v in unit.ins}
    last.update(dict.fromkeys(plan.outputs, len(groups)))
    return _with_drops([_step(group, i, last) for i, group in enumerate(groups)], plan)


def single_graph(plan: Plan) -> GraphUnit | None:
    """All of a plan as one graph, if it is large enough to be one native call, without copies."""
    specs = plan.output_specs
    if not specs or specs[0].ring.n < LEAST_ONE_CALL:
        return None
    if not all(isinstance(unit, KernelUnit | ViewUnit) for unit in plan.units):
        return None
    match divided(plan):
        case (GraphUnit() as step,):
            return step
    return None


def _groups(plan: Plan) -> list[list[_Computing] | list[CopyUnit]]:
    """The units that run together, in an order in which they can run.

    Where JAX may choose the device, the group is one of its own and comes first. Its results must
    not be bound to the devices of others.
    """
    claims = [value.device for value in values_of(plan)]
    found: dict[tuple[int, int, Hashable], list[Any]] = {}
    for number, (unit, stage) in enumerate(zip(plan.units, _stages(plan), strict=True)):
        if isinstance(unit, CopyUnit):
            found[stage, 2, number] = [unit]
            continue
        claim = claims[unit.outs[0]]
        if claim == PYTHON:
            raise _interpreted(unit)
        found.setdefault((stage, int(claim is not None), claim), []).append(unit)
    return [found[key] for key in sorted(found, key=lambda key: key[:2])]


def _stages(plan: Plan) -> list[int]:
    """For each unit how many cuts are on a way to it: copies, and full runs of elementwise steps.

    Where kernels do not stay apart, XLA merges elementwise ones that follow each other. That undoes
    the budget of a kernel: a run of 1,500 steps took XLA minutes.
    """
    longest = sys.maxsize if is_apart() else MAX_FUSED
    reached = [(0, 0)] * len(plan.inputs)  # of each value: cuts, and elementwise steps since
    stages = []
    for unit in plan.units:
        stage, run = max((reached[v] for v in unit.ins), default=(0, 0))
        if isinstance(unit, CopyUnit):
            after = (stage + 1, 0)
        elif isinstance(unit, ViewUnit):
            after = (stage, run)
        else:
            stage, run = after = _extended(unit, stage, run, longest)
        stages.append(stage)
        reached += [after] * len(unit.outs)
    return stages


def _extended(unit: KernelUnit, stage: int, run: int, longest: int) -> tuple[int, int]:
    """The stage in which a kernel runs, and the steps of the run that it ends."""
    steps = [instr.op for instr in unit.kernel.program.instrs]
    own = sum(step in _ELEMENTWISE for step in steps)
    if any(step in _TRANSFORMS for step in steps):
        return stage, own
    return (stage, run + own) if run + own <= longest else (stage + 1, own)


def _interpreted(unit: _Computing) -> DeviceError:
    return DeviceError(
        f"The graph runner got a plan with {unit.name} on the python device.",
        "It runs XLA executables; the python device is the NumPy reference.",
        'Run the units of the plan, or move its inputs: x.to("cpu").',
    )


def _step(
    group: list[_Computing] | list[CopyUnit], number: int, last: dict[int, int]
) -> GraphUnit | CopyUnit:
    """The step of one group, which reads `last`: the last group that needs each value."""
    if isinstance(group[0], CopyUnit):
        return attrs.evolve(group[0], drops=())
    made = {v for unit in group for v in unit.outs}
    ins = tuple(dict.fromkeys(v for unit in group for v in unit.ins if v not in made))
    outs = tuple(v for unit in group for v in unit.outs if last.get(v, -1) > number)
    local = {v: i for i, v in enumerate(ins)}
    tables: dict[Table, int] = {}
    steps: list[Call | Slice] = []
    for unit in group:
        src = tuple(local[v] for v in unit.ins)
        if isinstance(unit, KernelUnit):
            needed = tuple(tables.setdefault(t, len(tables)) for t in unit.kernel.tables)
            steps.append(Call(unit.kernel.program, needed, src))
        elif isinstance(unit, ViewUnit):
            steps.append(Slice(unit.start, unit.length, src[0]))
        local.update({v: i for i, v in enumerate(unit.outs, start=len(local))})
    graph = Graph(len(ins), tuple(steps), tuple(local[v] for v in outs))
    return GraphUnit(graph, tuple(tables), ins, outs)


def _with_drops(steps: list[GraphUnit | CopyUnit], plan: Plan) -> tuple[GraphUnit | CopyUnit, ...]:
    live = set(plan.outputs)
    done = []
    for step in reversed(steps):
        used = dict.fromkeys((*step.ins, *step.outs))
        done.append(attrs.evolve(step, drops=tuple(v for v in used if v not in live)))
        live.update(used)
    return tuple(reversed(done))
