"""The memory of a plan as XLA states it."""

from __future__ import annotations

import attrs
import jax
from jax.sharding import SingleDeviceSharding

from ren.core.errors import VerificationError
from ren.lowering.backends.xla.backend import XLA
from ren.lowering.inspect.memory_report import MemoryReport, bytes_taken, units_report
from ren.lowering.plan.lifetimes import Value
from ren.lowering.plan.memory import is_interpreted, memory_plan, peak
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import KernelUnit, unit_segment


def measure(plan: Plan) -> MemoryReport:
    """The memory of one run of the units, with the temporaries that XLA states; compiles them.

    Raises:
        VerificationError: XLA would not use a donation of the plan.
    """
    memory, stated = memory_plan(plan), []
    for i, (unit, pairs) in enumerate(zip(plan.units, memory.donations, strict=True)):
        if not isinstance(unit, KernelUnit) or is_interpreted(unit, memory.values):
            stated.append(0)
            continue
        slots = tuple(_abstract(memory.values[v]) for v in unit.ins)
        analysis = XLA.compile(unit_segment(unit), slots).analysis(slots)
        donated, used = bytes_taken(pairs, memory.values), analysis.alias_size_in_bytes
        if used < donated:
            raise VerificationError(
                f"Unit {i} ({unit.name}) donates {donated} bytes and XLA uses {used}."
            )
        stated.append(analysis.temp_size_in_bytes)
    measured = peak(plan, memory.values, memory.donations, stated)
    return attrs.evolve(units_report(plan), measured_bytes=measured)


def _abstract(value: Value) -> jax.ShapeDtypeStruct:
    """A value as a type for XLA; one that is over several devices counts as on one."""
    claim = value.device
    place = SingleDeviceSharding(next(iter(claim))) if isinstance(claim, frozenset) else None
    return jax.ShapeDtypeStruct(value.spec.shape, value.spec.dtype, sharding=place)
