"""Memory of a plan: donation, placement in arenas, and the peak that follows.

JAX arrays have no arenas; they have donation. A unit whose input dies may write a result of the
same shape into that input's buffer. The arenas are a simulation: one a device, in which every
intermediate that may move has an offset. An output that takes over a dead buffer keeps its place.

Inputs belong to the caller, before and after: no peak counts them. One that the caller gives away
(`donating`) may lend its buffer to a result, as a dead intermediate does. No peak counts it either.

Inside of native calls there are no such values: see `ren.lowering.runtime.planning`.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence

import attrs

from ren.core import op as ops
from ren.core.node import Node
from ren.core.op import Kind
from ren.lowering.devices.devices import PYTHON
from ren.lowering.plan.arena import Arena
from ren.lowering.plan.lifetimes import Value, fresh_stores, is_whole, values_of
from ren.lowering.plan.plan import Plan, Schedule, with_schedule
from ren.lowering.program.steps import KernelUnit, Unit, nbytes, read_slots


@attrs.frozen
class MemoryPlan:
    """Lifetimes and places of the values of a plan.

    Attributes:
        values: by number.
        donations: for each unit the pairs (value taken over, value that takes over).
        arenas: for each device the bytes of its arena.
    """

    values: tuple[Value, ...]
    donations: tuple[tuple[tuple[int, int], ...], ...]
    arenas: tuple[tuple[Hashable, int], ...]


def with_donations(plan: Plan) -> Plan:
    """The plan whose units overwrite what dies, its own or donated, with results of its shape."""

    def scheduled() -> Schedule:
        values = values_of(plan)
        units = tuple(
            attrs.evolve(u, donate=_donated(u, values)) if isinstance(u, KernelUnit) else u
            for u in plan.units
        )
        return Schedule(units, plan.outputs)

    return with_schedule(plan, scheduled)


def donating(plan: Plan, positions: Iterable[int]) -> Plan:
    """The plan for callers that give the inputs at `positions` away; donations are chosen anew.

    What the plan itself holds is never given away.
    """
    given = set(positions)
    inputs = tuple(
        attrs.evolve(i, is_donated=v in given and not i.is_held) for v, i in enumerate(plan.inputs)
    )
    return with_donations(attrs.evolve(plan, inputs=inputs))


def _donated(unit: KernelUnit, values: Sequence[Value]) -> tuple[tuple[int, int], ...]:
    free = set(fresh_stores(unit))
    chosen = []
    for slot, store in sorted(_overwritable(unit).items()):
        given, taker = values[unit.ins[slot]], values[unit.outs[store]]
        is_dead = unit.ins[slot] in unit.drops and given.is_optimizable
        if is_dead and store in free and _place(given) == _place(taker):
            free.remove(store)
            chosen.append((slot, store))
    return tuple(chosen)


def _place(value: Value) -> tuple[Hashable, tuple[int, ...]]:
    """XLA reuses a buffer for a result on its device, of its shape and type; all are uint32."""
    return value.device, value.spec.shape


def _overwritable(unit: KernelUnit) -> dict[int, int]:
    """Inputs that XLA overwrites without another copy: position in `ins` -> position in `outs`.

    Elementwise work and transforms read a residue where they write one. A gather (an automorphism,
    a base conversion, a view) reads elsewhere. Several results that read one input have no order in
    XLA. In both cases XLA would copy what it overwrites.
    """
    readers: dict[Node, set[int]] = {}  # the stores that a node's value reaches
    gathered: set[Node] = set()
    order = unit.kernel.nodes
    for i, store in enumerate(unit.kernel.body.src):
        readers.setdefault(store, set()).add(i)
    for node in reversed(order):
        for s in node.src:
            readers.setdefault(s, set()).update(readers[node])
        if node in gathered or not _is_in_place(node):
            gathered.update(node.src)
    slots = [n for n in read_slots(order) if n not in gathered and len(readers[n]) == 1]
    return {slot.arg.index: min(readers[slot]) for slot in slots}


def _is_in_place(node: Node) -> bool:
    if node.op is ops.LOAD:
        return is_whole(node)
    return node.op.kind is Kind.ELEMENTWISE or node.op in _IN_PLACE


_IN_PLACE = (ops.NTT, ops.INTT, ops.STORE, ops.CONTIGUOUS, ops.INDEX, ops.GIDX)


def memory_plan(plan: Plan) -> MemoryPlan:
    """Plan the place of every optimizable value, and which takes over which."""
    values = list(values_of(plan))
    donations = tuple(
        tuple((u.ins[slot], u.outs[store]) for slot, store in u.donate)
        if isinstance(u, KernelUnit)
        else ()
        for u in plan.units
    )
    arenas: dict[Hashable, Arena] = {}
    for unit, pairs in zip(plan.units, donations, strict=True):
        places = {taker: values[v] for v, taker in pairs}
        for v in unit.outs:
            place = places.get(v)
            if place is not None and (place.is_input or place.is_hosted):
                values[v] = attrs.evolve(values[v], is_hosted=True)
            elif values[v].is_optimizable:
                offset = None if place is None else place.offset
                if offset is None:
                    arena = arenas.setdefault(values[v].device, Arena())
                    offset = arena.allocate(values[v].size)
                values[v] = attrs.evolve(values[v], offset=offset)
        taken = {v for v, _ in pairs}
        for v in unit.drops:
            offset = values[v].offset
            if offset is not None and v not in taken:
                arenas[values[v].device].free(offset)
    used = tuple((device, arena.high_water) for device, arena in arenas.items())
    return MemoryPlan(tuple(values), donations, used)


def temporaries(plan: Plan, memory: MemoryPlan) -> list[int]:
    """For each unit the bytes that XLA is estimated to need besides its arrays.

    Measured on XLA:CPU (n = 2^12 and 2^14, 1 to 21 limbs); `memory_report.measure` asks XLA.
    """
    temporary = []
    for unit, pairs in zip(plan.units, memory.donations, strict=True):
        body: Sequence[Node] = ()
        if isinstance(unit, KernelUnit) and not is_interpreted(unit, memory.values):
            body = unit.kernel.nodes
        temporary.append(max((_temporary_bytes(n, bool(pairs)) for n in body), default=0))
    return temporary


def _temporary_bytes(node: Node, in_place: bool) -> int:
    if node.op in (ops.NTT, ops.INTT):
        # Stages alternate between two buffers; a donated input is one of them.
        return nbytes(node.spec) * (1 if in_place else 2)
    if node.op is ops.CONVERT:
        # The scaled source limbs, once as 32 and once, in part, as 64 bits.
        return nbytes(node.src[0].spec) * 3 // 2
    if node.op is ops.LIFT and node.src[0].spec.ring.limbs > 1:
        # The mixed-radix digits; a single limb is its own digit.
        return nbytes(node.src[0].spec)
    return 0


def is_interpreted(unit: Unit, values: Sequence[Value]) -> bool:
    """Whether a unit runs on the python device, where XLA has no part in it."""
    return any(values[v].device == PYTHON for v in unit.outs)


def peak(
    plan: Plan,
    values: Sequence[Value],
    donations: Sequence[Sequence[tuple[int, int]]],
    temporary: Sequence[int],
) -> int:
    """The most bytes, over units, that are live while the unit runs, temporary ones included."""
    change = [0] * (len(plan.units) + 2)  # of the bytes live before each unit
    for v in values:
        change[v.first + 1] += v.own_size
        change[v.last + 1] -= v.own_size
    most = 0
    live = itertools.accumulate(change)
    for unit, pairs, extra, before in zip(plan.units, donations, temporary, live, strict=False):
        new = sum(values[v].own_size for v in unit.outs)
        new -= sum(values[v].own_size for _, v in pairs)
        most = max(most, before + new + extra)
    return most
