"""What the kernels of a plan need in memory, as XLA states it, and what its native call holds."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import jax

from ren.core.spec import Spec
from ren.lowering.backends.base import Unsupported
from ren.lowering.backends.xla.backend import XLA
from ren.lowering.inspect.memory_report import memory_of
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import KernelUnit, nbytes, unit_segment, value_specs
from ren.lowering.runtime.native_calls import native_calls

CALL = "native call"


def ratios(plan: Plan) -> Iterator[tuple[str, float]]:
    """For each kernel, (inputs + outputs + temporaries) / (inputs + outputs), in bytes.

    The same of the one native call, where the plan is one. Compiles every kernel. Donation is left
    out, which only lowers the sum.
    """
    calls, held = native_calls(plan.source), memory_of(plan)
    if not isinstance(calls, Unsupported):
        yield CALL, 1 + calls.held_bytes / (held.input_bytes + held.output_bytes)
    specs = value_specs(plan.inputs, plan.units)
    for unit in plan.units:
        if isinstance(unit, KernelUnit):
            given = [specs[i] for i in unit.ins]
            types = tuple(map(_abstract, given))
            bare = attrs.evolve(unit_segment(unit), donate=())
            stated = XLA.compile(bare, types).analysis(types)
            seen = sum(map(nbytes, given)) + sum(nbytes(specs[i]) for i in unit.outs)
            yield unit.name, 1 + stated.temp_size_in_bytes / seen


def largest_ratio(plan: Plan) -> float:
    """The largest of `ratios`."""
    return round(max((ratio for _, ratio in ratios(plan)), default=1.0), 2)


def _abstract(spec: Spec) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(spec.shape, spec.dtype)
