"""Lifetimes: when each value of a plan is made and last read, and which may move or be reused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import attrs

from ren.core import op as ops
from ren.core.node import Node
from ren.core.op import Kind
from ren.core.spec import BufferArg, Spec
from ren.lowering.devices.devices import claim_of, claim_of_target
from ren.lowering.plan.plan import Plan
from ren.lowering.plan.temporaries import is_whole
from ren.lowering.program.steps import (
    CopyUnit,
    Input,
    KernelUnit,
    Unit,
    nbytes,
    stored,
    value_specs,
)


@attrs.frozen
class Value:
    """One value of a plan.

    Attributes:
        spec, size: its type and its bytes.
        device: None for JAX's default, "python", or the set of its devices.
        first: the unit that makes it; -1 for an input.
        last: the last unit that reads it; the number of units for an output of the plan.
        is_input: true for what the caller, or the plan, holds.
        is_optimizable: whether a result may overwrite it. It is an intermediate in its own buffer,
            invisible from outside, or an input that the caller gives away.
        offset: where it stands in the arena of its device, when it is an optimizable intermediate.
        is_hosted: it stands in the buffer of a donated input, outside of every arena.
    """

    spec: Spec
    size: int
    device: Hashable
    first: int
    last: int
    is_input: bool
    is_optimizable: bool
    offset: int | None = None
    is_hosted: bool = False

    @property
    def own_size(self) -> int:
        """The bytes that it needs besides what the caller brought."""
        return 0 if self.is_input or self.is_hosted else self.size


def values_of(plan: Plan) -> tuple[Value, ...]:
    """The values of a plan with their lifetimes; none is placed yet."""
    specs = value_specs(plan.inputs, plan.units)
    devices = _devices(plan.inputs, plan.units)
    first, last = _lifetimes(plan)
    movable = _optimizable(plan, devices)
    return tuple(
        Value(spec, nbytes(spec), devices[v], first[v], last[v], first[v] < 0, v in movable)
        for v, spec in enumerate(specs)
    )


def _lifetimes(plan: Plan) -> tuple[list[int], list[int]]:
    first = [-1] * len(plan.inputs)
    last = [-1] * len(plan.inputs)
    for i, unit in enumerate(plan.units):
        first += [i] * len(unit.outs)
        last += [i] * len(unit.outs)
        for v in unit.ins:
            last[v] = i
    for v in plan.outputs:
        last[v] = len(plan.units)
    return first, last


def _devices(inputs: Sequence[Input], units: Sequence[Unit]) -> list[Hashable]:
    args = [i.arg for i in inputs]
    found: list[Hashable] = [
        claim_of(arg.array) if isinstance(arg, BufferArg) else arg.device for arg in args
    ]
    for unit in units:
        if isinstance(unit, CopyUnit):
            found.append(claim_of_target(unit.device))
        else:
            claims = [found[v] for v in unit.ins if found[v] is not None]
            found += [claims[0] if claims else None] * len(unit.outs)
    return found


def _optimizable(plan: Plan, devices: Sequence[Hashable]) -> set[int]:
    """Donated inputs, and intermediates whose buffer is new and seen by kernels of this plan alone.

    A copy to the device where its source is may share the source's buffer. A kernel that passes an
    input on may return the input's. Neither may be overwritten. An array over several devices is
    left to XLA.
    """
    found = {v for v, given in enumerate(plan.inputs) if given.is_donated}
    shared = set(plan.outputs)
    for unit in plan.units:
        if not isinstance(unit, KernelUnit):
            shared.update(unit.ins)
        else:
            found.update(unit.outs[i] for i in fresh_stores(unit))
            shared.update(_passed_on(unit))
    return {v for v in found - shared if _is_single_device(devices[v])}


def fresh_stores(unit: KernelUnit) -> list[int]:
    """Stores that get a buffer of their own: computed, stored once, not a `contiguous()`."""
    behind = stored(unit)
    times = Counter(behind)
    return [
        i
        for i, store in enumerate(unit.kernel.body.src)
        if store.src[1] is behind[i] and times[behind[i]] == 1 and _is_computed(behind[i])
    ]


def _passed_on(unit: KernelUnit) -> list[int]:
    """The values that a kernel may return as they are."""
    ends = (_end(store.src[1]) for store in unit.kernel.body.src)
    return [unit.ins[end.arg.index] for end in ends if end.op is ops.SLOT]


def _end(node: Node) -> Node:
    """Node behind contiguous(), loads of whole arrays and joins of one part."""
    while (
        node.op is ops.CONTIGUOUS
        or (node.op is ops.LOAD and is_whole(node))
        or (node.op is ops.JOIN and len(node.src) == 1)
    ):
        node = node.src[0]
    return node


def _is_computed(node: Node) -> bool:
    op = node.src[0].op if node.op is ops.VIEW else node.op
    # A JOIN may be of one whole source, which is then handed on as it is.
    return op.kind in (Kind.ELEMENTWISE, Kind.TRANSFORM) and op is not ops.JOIN


def _is_single_device(claim: Hashable) -> bool:
    return claim is None or (isinstance(claim, frozenset) and len(claim) == 1)
