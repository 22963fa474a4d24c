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
from ren.lowering.program.steps import CopyUnit, KernelUnit, nbytes, stored, value_specs


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
    devices = _devices(plan)
    movable = _optimizable(plan, devices)
    first = [-1] * len(plan.inputs) + [i for i, unit in enumerate(plan.units) for _ in unit.outs]
    last = dict(enumerate(first))
    last.update({v: i for i, unit in enumerate(plan.units) for v in unit.ins})
    last.update(dict.fromkeys(plan.outputs, len(plan.units)))
    return tuple(
        Value(spec, nbytes(spec), devices[v], first[v], last[v], first[v] < 0, v in movable)
        for v, spec in enumerate(value_specs(plan.inputs, plan.units))
    )


def _devices(plan: Plan) -> list[Hashable]:
    args = [i.arg for i in plan.inputs]
    claims: list[Hashable] = [
        claim_of(arg.array) if isinstance(arg, BufferArg) else arg.device for arg in args
    ]
    for unit in plan.units:
        if isinstance(unit, CopyUnit):
            claims.append(claim_of_target(unit.device))
        else:
            claim = next((claims[v] for v in unit.ins if claims[v] is not None), None)
            claims += [claim] * len(unit.outs)
    return claims


def _optimizable(plan: Plan, devices: Sequence[Hashable]) -> set[int]:
    """Donated inputs, and intermediates whose buffer is new and seen by kernels of this plan alone.

    A copy to the device where its source is may share the source's buffer. A kernel that passes an
    input on may return the input's. Neither may be overwritten. An array over several devices is
    left to XLA.
    """
    movable = {v for v, source in enumerate(plan.inputs) if source.is_donated}
    shared = set(plan.outputs)
    for unit in plan.units:
        if isinstance(unit, KernelUnit):
            movable.update(unit.outs[i] for i in fresh_stores(unit))
            ends = (_passed_on(store.src[1]) for store in unit.kernel.body.src)
            shared.update(unit.ins[end.arg.index] for end in ends if end.op is ops.SLOT)
        else:
            shared.update(unit.ins)
    return {v for v in movable - shared if _is_single_device(devices[v])}


def fresh_stores(unit: KernelUnit) -> list[int]:
    """Stores that get a buffer of their own: computed, stored once, not a `contiguous()`."""
    behind = stored(unit)
    times = Counter(behind)
    return [
        i
        for i, store in enumerate(unit.kernel.body.src)
        if store.src[1] is behind[i] and times[behind[i]] == 1 and _is_computed(behind[i])
    ]


def _passed_on(node: Node) -> Node:
    """The node behind contiguous(), loads of whole arrays and joins of one part."""
    while (
        node.op is ops.CONTIGUOUS
        or (node.op is ops.LOAD and is_whole(node))
        or (node.op is ops.JOIN and len(node.src) == 1)
    ):
        node = node.src[0]
    return node


def is_whole(load: Node) -> bool:
    """True for a LOAD of all limbs as they are."""
    array, index = load.src
    return index.arg.limbs == tuple(range(array.spec.ring.limbs)) and index.arg.galois == 1


def _is_computed(node: Node) -> bool:
    op = node.src[0].op if node.op is ops.VIEW else node.op
    # A JOIN may be of one whole source, which is then handed on as it is.
    return op.kind in (Kind.ELEMENTWISE, Kind.TRANSFORM) and op is not ops.JOIN


def _is_single_device(claim: Hashable) -> bool:
    return claim is None or (isinstance(claim, frozenset) and len(claim) == 1)
