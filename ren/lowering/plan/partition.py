"""Partition: a plan as segments and copies, each segment for one executable.

Under the policy "units" a segment is one unit. Under "graph" it is all units between two copies, on
the same devices.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any

import attrs

from ren.core.errors import DeviceError
from ren.core.op import OPS, Kind
from ren.lowering.devices.devices import PYTHON
from ren.lowering.kernels.keeps_calls import is_apart
from ren.lowering.plan.lifetimes import values_of
from ren.lowering.plan.plan import Plan
from ren.lowering.program.segment import Computing, Segment, segment_of, unit_segment
from ren.lowering.program.steps import CopyUnit, KernelUnit, ViewUnit, with_last_uses

UNITS, GRAPH = "units", "graph"
Step = Segment | CopyUnit

# The most elementwise steps in a row, over several kernels: 450 took XLA:CPU one second.
MAX_FUSED = 400

_ELEMENTWISE = frozenset(name for name, op in OPS.items() if op.kind is Kind.ELEMENTWISE)
# Where a run ends; a JOIN is slices and a concatenation, which XLA may merge with its neighbours.
_TRANSFORMS = frozenset(n for n, op in OPS.items() if op.kind is Kind.TRANSFORM) - {"JOIN"}


def partition(plan: Plan, policy: str) -> tuple[Step, ...]:
    """The segments and copies of a plan in order; values are numbered as in the plan.

    Args:
        plan: what runs.
        policy: `UNITS`, one segment for each unit, or `GRAPH`, as few as copies and devices allow.
            Where kernels do not stay apart in XLA, more than `MAX_FUSED` elementwise steps in a row
            take several.

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
        match group:
            case [CopyUnit() as copy]:
                steps.append(attrs.evolve(copy, drops=()))
            case units:
                wanted = {v for unit in units for v in unit.outs if last.get(v, -1) > i}
                steps.append(segment_of(units, wanted))  # type: ignore[arg-type]
    return with_last_uses(steps, plan.outputs)


def _groups(plan: Plan) -> list[list[Computing] | list[CopyUnit]]:
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


def _interpreted(unit: Computing) -> DeviceError:
    return DeviceError(
        f"The graph runner got a plan with {unit.name} on the python device.",
        "It runs XLA executables; the python device is the NumPy reference.",
        'Run the units of the plan, or move its inputs: x.to("cpu").',
    )
