"""Memory of a plan: donation, placement in arenas, and the peak that follows.

JAX arrays have no arenas; they have donation. A unit whose input dies may write a result of the
same shape into that input's buffer. The arenas are a simulation: one a device, in which every
intermediate that may move has an offset. An output that takes over a dead buffer keeps its place.

Inputs belong to the caller, before and after: no peak counts them. One that the caller gives away
(`donating`) may lend its buffer to a result, as a dead intermediate does. No peak counts it either.

Inside of native calls there are no such values: see `ren.lowering.runtime.native_calls`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import attrs

from ren.lowering.devices.devices import PYTHON
from ren.lowering.plan.arena import Arena
from ren.lowering.plan.lifetimes import Value, fresh_stores, values_of
from ren.lowering.plan.plan import Plan
from ren.lowering.plan.temporaries import overwritable, scratch
from ren.lowering.program.steps import KernelUnit, Unit


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


# ------------------------------------------------------------------- donation


def with_donations(plan: Plan) -> Plan:
    """The plan whose units overwrite what dies, its own or donated, with results of its shape."""
    values = values_of(plan)
    units = tuple(
        attrs.evolve(unit, donate=_donated(unit, values)) if isinstance(unit, KernelUnit) else unit
        for unit in plan.units
    )
    return attrs.evolve(plan, units=units)


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
    for slot, store in sorted(overwritable(unit).items()):
        given, taker = values[unit.ins[slot]], values[unit.outs[store]]
        is_dead = unit.ins[slot] in unit.drops and given.is_optimizable
        if is_dead and store in free and _place(given) == _place(taker):
            free.remove(store)
            chosen.append((slot, store))
    return tuple(chosen)


def _place(value: Value) -> tuple[Hashable, tuple[int, ...]]:
    """XLA reuses a buffer for a result on its device, of its shape and type; all are uint32."""
    return value.device, value.spec.shape


def _pairs(unit: Unit) -> tuple[tuple[int, int], ...]:
    if not isinstance(unit, KernelUnit):
        return ()
    return tuple((unit.ins[slot], unit.outs[store]) for slot, store in unit.donate)


# ------------------------------------------------------------------- placement


def memory_plan(plan: Plan) -> MemoryPlan:
    """Plan the place of every optimizable value, and which takes over which."""
    values = list(values_of(plan))
    donations = tuple(_pairs(unit) for unit in plan.units)
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


# ------------------------------------------------------------------- peak


def temporaries(plan: Plan, made: MemoryPlan) -> list[int]:
    """For each unit the bytes that it is estimated to need besides its arrays."""
    return [
        _planned_scratch(unit, bool(pairs), made.values)
        for unit, pairs in zip(plan.units, made.donations, strict=True)
    ]


def _planned_scratch(unit: Unit, in_place: bool, values: Sequence[Value]) -> int:
    return 0 if is_interpreted(unit, values) else scratch(unit, in_place)


def is_interpreted(unit: Unit, values: Sequence[Value]) -> bool:
    """Whether a unit runs on the python device, where XLA has no part in it."""
    return any(values[v].device == PYTHON for v in unit.outs)


def peak(
    plan: Plan,
    values: Sequence[Value],
    donations: Sequence[Sequence[tuple[int, int]]],
    temporary: Sequence[int],
) -> int:
    """The largest, over units, of what is live while the unit runs and its temporary bytes.

    Args:
        donations: for each unit the pairs (value taken over, value that takes over).
        temporary: for each unit the bytes that its executable needs besides.
    """
    before = _live_before(values, len(plan.units))
    made = [
        sum(values[v].own_size for v in unit.outs) - sum(values[v].own_size for _, v in pairs)
        for unit, pairs in zip(plan.units, donations, strict=True)
    ]
    during = zip(before, made, temporary, strict=False)
    return max((live + new + extra for live, new, extra in during), default=0)


def _live_before(values: Sequence[Value], units: int) -> list[int]:
    """Bytes live before each unit, and after the last one."""
    change = [0] * (units + 2)
    for v in values:
        if v.own_size:
            change[v.first + 1] += v.own_size
            change[v.last + 1] -= v.own_size
    live, out = 0, []
    for step in change[: units + 1]:
        live += step
        out.append(live)
    return out
