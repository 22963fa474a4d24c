"""Partition: a plan as segments and copies, each segment for one executable."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any

from ren.core.errors import DeviceError
from ren.core.op import OPS, Kind
from ren.lowering.devices.devices import PYTHON
from ren.lowering.kernels.keeps_calls import is_apart
from ren.lowering.plan.lifetimes import values_of
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import (
    CopyUnit,
    KernelUnit,
    Segment,
    segment_of,
    unit_segment,
    with_last_uses,
)

UNITS, GRAPH = "units", "graph"
Step = Segment | CopyUnit

# The most elementwise steps in a row, over several kernels: 450 took XLA:CPU one second.
MAX_FUSED = 400

_ELEMENTWISE = frozenset(name for name, op in OPS.items() if op.kind is Kind.ELEMENTWISE)
# Where a run ends; a JOIN is slices and a concatenation, which XLA may merge with its neighbours.
_TRANSFORMS = frozenset(n for n, op in OPS.items() if op.kind is Kind.TRANSFORM) - {"JOIN"}


def partition(plan: Plan, policy: str) -> tuple[Step, ...]:
    """The segments and copies of a plan in order; values are numbered as in the plan.

    Under the policy `UNITS` each unit is a segment. Under `GRAPH` there are as few as copies and
    devices allow. Where kernels do not stay apart in XLA, more than `MAX_FUSED` elementwise steps
    in a row take several.

    Raises:
        DeviceError: under `GRAPH` a kernel of the plan runs on the python device, where there is no
            XLA.
    """
    if policy == UNITS:
        return tuple(u if isinstance(u, CopyUnit) else unit_segment(u) for u in plan.units)
    groups = _groups(plan)
    last = {v: i for i, group in enumerate(groups) for unit in group for v in unit.ins}
    last.update(dict.fromkeys(plan.outputs, len(groups)))
    steps: list[Step] = []
    for i, group in enumerate(groups):
        if isinstance(group[0], CopyUnit):
            steps.append(group[0])
        else:
            wanted = {v for unit in group for v in unit.outs if last.get(v, -1) > i}
            steps.append(segment_of(group, wanted))
    return with_last_uses(steps, plan.outputs)


def _groups(plan: Plan) -> list[list[Any]]:
    """The kernels and views that run together, or one copy, in an order in which they can run.

    Where JAX may choose the device, the group is one of its own and comes first. Its results must
    not be bound to the devices of others.
    """
    claims = [value.device for value in values_of(plan)]
    groups: dict[tuple[int, int, Hashable], list[Any]] = {}
    for number, (unit, stage) in enumerate(zip(plan.units, _stages(plan), strict=True)):
        claim = claims[unit.outs[0]]
        if isinstance(unit, CopyUnit):
            groups[stage, 2, number] = [unit]
        elif claim == PYTHON:
            raise DeviceError(
                f"{unit.name} is on the python device, which computes in NumPy.",
                'tier="graph" compiles a program into one executable of XLA.',
                'Leave tier= out, or move the inputs: x.to("cpu").',
            )
        else:
            groups.setdefault((stage, int(claim is not None), claim), []).append(unit)
    return [groups[key] for key in sorted(groups, key=lambda key: key[:2])]


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
        if isinstance(unit, KernelUnit):
            names = [instr.op for instr in unit.kernel.program.instrs]
            steps = sum(name in _ELEMENTWISE for name in names)
            if not _TRANSFORMS.isdisjoint(names):
                run = 0
            elif run + steps > longest:
                stage, run = stage + 1, 0
            run += steps
        stages.append(stage)
        after = (stage + 1, 0) if isinstance(unit, CopyUnit) else (stage, run)
        reached += [after] * len(unit.outs)
    return stages
