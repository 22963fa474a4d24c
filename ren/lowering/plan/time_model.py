"""Models of the time that plans take: unit by unit, and as one native call.

They compare programs; they are not promises. Both are of two cores with AVX-512. They take counts
alone, so that a plan has the same estimates on every machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ren.core import op as ops
from ren.core.node import toposort
from ren.core.spec import Spec
from ren.lowering.plan.cost import Cost, limbs_read, unit_cost
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import KernelUnit, ViewUnit, nbytes, value_specs

# Two Zen 4 cores under XLA:CPU transformed 16 limbs of n = 2^14 in 1.0 ms. They streamed about 16
# GB/s through elementwise kernels, whose operands are too large for their caches.
SECONDS_PER_UNIT = 10e-6
SECONDS_PER_BUTTERFLY = 0.55e-9
SECONDS_PER_MULTIPLY_ADD = 0.3e-9
BYTES_PER_SECOND = 16e9

# Native code on two cores: a call with the waits between its phases. Transforms and sums of
# products on rows in the cache. Bytes that no core's own cache holds. docs/performance.md has the
# measurements.
NATIVE_SECONDS_PER_CALL = 0.15e-3
NATIVE_SECONDS_PER_BUTTERFLY = 0.095e-9
NATIVE_SECONDS_PER_MULTIPLY_ADD = 0.055e-9
NATIVE_BYTES_PER_SECOND = 24e9


def estimated_seconds(cost: Cost, n: int) -> float:
    """The time that the model gives one unit: launch, transforms, and the slower of the rest.

    n/2 log2(n) butterflies a limb-NTT; multiply-adds overlap with the bytes that they wait for.
    """
    moved = (cost.bytes_read + cost.bytes_written) / BYTES_PER_SECOND
    rest = max(moved, cost.multiply_adds * SECONDS_PER_MULTIPLY_ADD)
    return SECONDS_PER_UNIT + _butterflies(cost, n) * SECONDS_PER_BUTTERFLY + rest


def unit_costs(plan: Plan, specs: Sequence[Spec]) -> list[tuple[Cost, int]]:
    """The cost of each unit of a plan, with the degree of its ring."""
    return [(unit_cost(unit, specs), specs[unit.outs[0]].ring.n) for unit in plan.units]


def plan_seconds(plan: Plan) -> float:
    """The time that the model gives one run of a plan, unit by unit."""
    specs = value_specs(plan.inputs, plan.units)
    return sum(estimated_seconds(cost, n) for cost, n in unit_costs(plan, specs))


def native_seconds(plan: Plan, calls: int = 1) -> float:
    """The time that the model gives one run of a plan as so many native calls.

    The steps of a limb stay in the cache of a core. The limbs of inputs that are read, such as
    keys, come from memory, once each. To memory go the results. So do the operands and results of
    base conversions, which one phase writes and the next reads. They count two times each, as a
    line of memory is read before it is written.
    """
    specs = value_specs(plan.inputs, plan.units)
    costs = unit_costs(plan, specs)
    converted = sum(
        cost.bytes_read + cost.bytes_written
        for unit, (cost, _) in zip(plan.units, costs, strict=True)
        if isinstance(unit, KernelUnit) and _converts(unit)
    )
    results = sum(nbytes(specs[v]) for v in dict.fromkeys(plan.outputs))
    moved = _input_bytes(plan, specs) + 2 * (results + converted)
    return (
        calls * NATIVE_SECONDS_PER_CALL
        + sum(_butterflies(cost, n) for cost, n in costs) * NATIVE_SECONDS_PER_BUTTERFLY
        + sum(cost.multiply_adds for cost, _ in costs) * NATIVE_SECONDS_PER_MULTIPLY_ADD
        + moved / NATIVE_BYTES_PER_SECOND
    )


def _butterflies(cost: Cost, n: int) -> int:
    return cost.limb_ntts * n // 2 * (n.bit_length() - 1)


def _converts(unit: KernelUnit) -> bool:
    return any(node.op in (ops.CONVERT, ops.LIFT) for node in toposort(unit.kernel.body))


def _input_bytes(plan: Plan, specs: Sequence[Spec]) -> int:
    """The limbs of inputs that units read, once each."""
    limbs: dict[int, set[int]] = defaultdict(set)
    for unit in plan.units:
        if isinstance(unit, ViewUnit):
            limbs[unit.ins[0]].update(range(unit.start, unit.start + unit.length))
        elif isinstance(unit, KernelUnit):
            for slot, read in limbs_read(unit).items():
                limbs[unit.ins[slot.arg.index]].update(read)
    inputs = range(len(plan.inputs))
    return sum(nbytes(specs[v]) // specs[v].ring.limbs * len(limbs[v]) for v in inputs)
