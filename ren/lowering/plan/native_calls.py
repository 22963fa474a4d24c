"""Native calls of a plan: as few as the limits of one call allow, and the memory that they hold.

A native call gives no value a buffer of its own. Values that cross phases lie in rows that are used
again once their last reader is done. Each thread has a few rows for the task that it works on.

A plan beyond the limits of one call is cut where the fewest bytes cross. The parts are cut again
until each is one call. Values between two calls are arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ren.core.errors import NativeError
from ren.core.spec import ScalarArg
from ren.lowering.backends.base import Unsupported
from ren.lowering.backends.native import library
from ren.lowering.backends.native.backend import NO_GAIN, gains_on
from ren.lowering.backends.native.bytecode import NativeProgram, native_program
from ren.lowering.devices.threads import threads
from ren.lowering.plan.lifetimes import values_of
from ren.lowering.plan.partition import halves, joined
from ren.lowering.plan.plan import Plan
from ren.lowering.program.segment import Computing, Segment
from ren.lowering.program.steps import CopyUnit, nbytes, value_specs

# The least degree at which native calls are preferred to kernels before either is timed.
LEAST_N = 1 << 12
# A plan that needs more calls than this is left to kernels.
MOST_CALLS = 64


@attrs.frozen(eq=False)
class NativeCalls:
    """A plan as native calls, in order.

    Attributes:
        segments: of each call what it runs.
        programs: of each call its bytecode and what it needs.
        held_bytes: the most that is held besides inputs and results of the plan. It is what a call
            holds, and the values between calls. A call keeps its part for the next one, within a
            limit.
    """

    segments: tuple[Segment, ...]
    programs: tuple[NativeProgram, ...]
    held_bytes: int

    @property
    def phases(self) -> int:
        """Number of phases of all calls; each waits for the one before."""
        return sum(program.phases for program in self.programs)


def native_calls(plan: Plan) -> NativeCalls | Unsupported:
    """The native calls that a plan is by default, or why it runs otherwise."""
    specs = plan.output_specs
    if not specs or specs[0].ring.n < LEAST_N:
        reason = f"its degree is below {LEAST_N}, where kernels are as fast"
        return Unsupported(reason, is_choice=True)
    if any(isinstance(unit, CopyUnit) for unit in plan.units):
        return Unsupported("it copies between devices")
    claims = {v.device for v in values_of(plan) if v.device is not None}
    if len(claims) > 1 or not all(isinstance(claim, frozenset) for claim in claims):
        return Unsupported("it runs on the python device, or on several devices")
    devices = max((len(claim) for claim in claims), default=1)  # type: ignore[arg-type]
    try:
        found = library.usable()
    except NativeError as error:  # it is for who runs the plan
        return Unsupported(str(error).partition("\n")[0])
    if found.reason:
        return Unsupported(found.reason)
    return _fitting(plan, devices)


def _fitting(plan: Plan, devices: int) -> NativeCalls | Unsupported:
    """The calls of a plan, cut until each is within the limits of one."""
    shapes = _shapes(plan)
    groups: list[Sequence[Computing]] = [plan.units]  # type: ignore[list-item]
    while True:
        steps = joined(plan, groups)
        if not any(isinstance(step, Segment) and gains_on(step.graph) for step in steps):
            return NO_GAIN
        programs: list[NativeProgram] = []
        for step in steps:
            assert isinstance(step, Segment)
            made = native_program(step.graph, step.tables, [shapes[v] for v in step.ins])
            if isinstance(made, Unsupported):
                break
            if devices > 1 and not made.form.is_looped:
                return Unsupported("batch axes that are taken apart may be divided among devices")
            programs.append(made)
        else:
            segments = tuple(step for step in steps if isinstance(step, Segment))
            held = _held(plan, segments, programs, shapes, devices * threads())
            return NativeCalls(segments, tuple(programs), held)
        i = len(programs)  # the first group beyond a call
        if not made.is_too_large or len(groups[i]) < 2 or len(groups) >= MOST_CALLS:
            return made
        groups[i : i + 1] = halves(plan, groups[i])


def _shapes(plan: Plan) -> list[tuple[int, ...]]:
    """The shape of each value; numbers that are the same in all slots stand once in a limb."""
    shapes = [spec.shape for spec in value_specs(plan.inputs, plan.units)]
    for i, source in enumerate(plan.inputs):
        if isinstance(source.arg, ScalarArg):
            shapes[i] = (*shapes[i][:-1], 1)
    return shapes


def _held(
    plan: Plan,
    segments: Sequence[Segment],
    programs: Sequence[NativeProgram],
    shapes: Sequence[tuple[int, ...]],
    threads: int,
) -> int:
    specs = value_specs(plan.inputs, plan.units)
    outside = {*range(len(plan.inputs)), *plan.outputs}
    live, most = 0, 0
    for segment, program in zip(segments, programs, strict=True):
        live += sum(nbytes(specs[v]) for v in set(segment.outs) - outside)
        own = program.held_bytes([shapes[v] for v in segment.ins], threads)
        most = max(most, live + own)
        live -= sum(nbytes(specs[v]) for v in set(segment.drops) - outside)
    return most
