"""Memory of a plan: donation, placement in arenas, and the peak that follows.

JAX arrays have no arenas; they have donation. A unit whose input dies may write a result of the
same shape into that input's buffer. The arenas are a simulation: one a device, in which every
intermediate that may move has an offset. An output that takes over a dead buffer keeps its place.

Inputs belong to the caller, before and after: no peak counts them. One that the caller gives away
(`donating`) may lend its buffer to a result, as a dead intermediate does. No peak counts it either.

A plan that is one call of native code has no such values: see `ren.lowering.plan.call_memory`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import attrs
import jax
from jax.sharding import SingleDeviceSharding

from ren.core import html
from ren.core.errors import VerificationError
from ren.lowering.backends import emit
from ren.lowering.devices.devices import PYTHON
from ren.lowering.inspect.text_table import columns, size
from ren.lowering.plan.arena import Arena
from ren.lowering.plan.call_memory import native_call
from ren.lowering.plan.lifetimes import Value, fresh_stores, values_of
from ren.lowering.plan.temporaries import overwritable, scratch
from ren.lowering.program.steps import KernelUnit, Unit

if TYPE_CHECKING:
    from ren.lowering.plan.plan import Plan

_P = TypeVar("_P", bound="Plan")


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


@attrs.frozen
class MemoryReport:
    """Memory that one run of a plan holds, in bytes.

    Where the plan is one native call, the report is of that call. Nothing is donated then, and
    `call_bytes` is what the call holds besides arguments and results.

    Attributes:
        peak_bytes: planned. The largest, over units, of live intermediates and outputs with
            donation, plus the unit's estimated temporaries. Of a native call the outputs and what
            it holds.
        unplanned_bytes: the same without donation.
        arena_bytes: the arenas that hold the optimizable intermediates, gaps included.
        lower_bound_bytes: what lifetimes force, wherever values are placed. The most that is live
            while a unit runs, its results included, without temporaries. A buffer that is taken
            over counts once.
        input_bytes: of all inputs; in none of the peaks.
        output_bytes: of the results.
        donated_bytes: of all buffers taken over in one run.
        donated_input_bytes: of the inputs among them.
        held_bytes: of the inputs that the plan itself holds: buffers that it closes over, and what
            was pruned. They go with the plan.
        pruned_bytes: of what was computed once, at capture, because it depends on no argument.
        measured_bytes: as `peak_bytes` of units, with the temporaries that XLA states for each
            executable; None until measured.
        call_bytes: what one native call holds; None for a plan that runs kernel by kernel.
    """

    peak_bytes: int
    unplanned_bytes: int
    arena_bytes: int
    lower_bound_bytes: int
    input_bytes: int
    output_bytes: int
    donated_bytes: int
    donated_input_bytes: int = 0
    held_bytes: int = 0
    pruned_bytes: int = 0
    measured_bytes: int | None = None
    call_bytes: int | None = None

    def _rows(self) -> list[tuple[str, int | None]]:
        call = [] if self.call_bytes is None else [("held by the native call", self.call_bytes)]
        return [
            ("peak, planned", self.peak_bytes),
            *call,
            ("peak, measured", self.measured_bytes),
            ("peak without donation", self.unplanned_bytes),
            ("lower bound of lifetimes", self.lower_bound_bytes),
            ("arenas", self.arena_bytes),
            ("donated", self.donated_bytes),
            ("donated by the caller", self.donated_input_bytes),
            ("inputs", self.input_bytes),
            ("held by the plan", self.held_bytes),
            ("pruned, of these", self.pruned_bytes),
            ("outputs", self.output_bytes),
        ]

    def __str__(self) -> str:
        return columns((name, "-" if b is None else size(b)) for name, b in self._rows())

    def facts(self) -> html.Markup:
        """The numbers for notebooks, each with a bar: its part of the largest."""
        known = [(name, b) for name, b in self._rows() if b is not None]
        most = max(1, *(b for _, b in known))
        return html.facts((name, size(b), html.meter(b / most)) for name, b in known)

    def _repr_html_(self) -> str:
        return html.card("Memory of one run", self.facts())


# ------------------------------------------------------------------- donation


def with_donations(plan: _P) -> _P:
    """The plan whose units overwrite what dies, its own or donated, with results of its shape."""
    values = values_of(plan)
    units = tuple(
        attrs.evolve(unit, donate=_donated(unit, values)) if isinstance(unit, KernelUnit) else unit
        for unit in plan.units
    )
    return attrs.evolve(plan, units=units)


def donating(plan: _P, positions: Iterable[int]) -> _P:
    """The plan for callers that give the inputs at `positions` away; donations are chosen anew.

    What the plan itself holds is never given away.
    """
    given = set(positions)
    inputs = tuple(
        attrs.evolve(i, is_donated=v in given and not i.is_held) for v, i in enumerate(plan.inputs)
    )
    return with_donations(attrs.evolve(plan, inputs=inputs))


def without_donations(plan: _P) -> _P:
    """The plan whose units give every result a new buffer."""
    units = tuple(
        attrs.evolve(unit, donate=()) if isinstance(unit, KernelUnit) else unit
        for unit in plan.units
    )
    return attrs.evolve(plan, units=units)


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


# ------------------------------------------------------------------- reports


def report(plan: Plan) -> MemoryReport:
    """The memory of one run, planned, in the form that the plan takes by default."""
    made, call = units_report(plan), native_call(plan)
    if call is None:
        return made
    peak = made.output_bytes + call.held_bytes
    return attrs.evolve(
        made,
        peak_bytes=peak,
        unplanned_bytes=peak,
        arena_bytes=call.held_bytes,
        lower_bound_bytes=peak,
        donated_bytes=0,
        donated_input_bytes=0,
        call_bytes=call.held_bytes,
    )


def units_report(plan: Plan) -> MemoryReport:
    """The memory of one run, planned, of the plan's units one by one."""
    made = memory_plan(plan)
    values, pairs = made.values, made.donations
    bare = values_of(plan)
    planned = temporaries(plan, made)
    unplanned = [_planned_scratch(u, False, values) for u in plan.units]
    inputs = [values[v].size for unit in pairs for v, _ in unit if values[v].is_input]
    return MemoryReport(
        peak_bytes=peak(plan, values, pairs, planned),
        unplanned_bytes=peak(plan, bare, [()] * len(pairs), unplanned),
        arena_bytes=sum(used for _, used in made.arenas),
        lower_bound_bytes=peak(plan, values, pairs, [0] * len(plan.units)),
        input_bytes=sum(v.size for v in values if v.is_input),
        output_bytes=sum(values[v].size for v in set(plan.outputs)),
        donated_bytes=sum(_bytes_given(p, values) for p in pairs),
        donated_input_bytes=sum(inputs),
        held_bytes=sum(values[v].size for v, i in enumerate(plan.inputs) if i.is_held),
        pruned_bytes=sum(values[v].size for v, i in enumerate(plan.inputs) if i.is_pruned),
    )


def temporaries(plan: Plan, made: MemoryPlan) -> list[int]:
    """For each unit the bytes that it is estimated to need besides its arrays."""
    return [
        _planned_scratch(unit, bool(pairs), made.values)
        for unit, pairs in zip(plan.units, made.donations, strict=True)
    ]


def measure(plan: Plan) -> MemoryReport:
    """The memory of one run of the units, with the temporaries that XLA states; compiles them.

    Raises:
        VerificationError: XLA would not use a donation of the plan.
    """
    made = memory_plan(plan)
    given = [_bytes_given(pairs, made.values) for pairs in made.donations]
    stated = [
        _stated_scratch(i, unit, g, made.values)
        for i, (unit, g) in enumerate(zip(plan.units, given, strict=True))
    ]
    measured = peak(plan, made.values, made.donations, stated)
    return attrs.evolve(units_report(plan), measured_bytes=measured)


def _planned_scratch(unit: Unit, in_place: bool, values: Sequence[Value]) -> int:
    return 0 if _is_interpreted(unit, values) else scratch(unit, in_place)


def _is_interpreted(unit: Unit, values: Sequence[Value]) -> bool:
    return any(values[v].device == PYTHON for v in unit.outs)


def _stated_scratch(number: int, unit: Unit, given: int, values: Sequence[Value]) -> int:
    if not isinstance(unit, KernelUnit) or _is_interpreted(unit, values):
        return 0
    slots = tuple(_abstract(values[v]) for v in unit.ins)
    stated = emit.analysis(unit.kernel, slots, unit.donate)
    if stated.alias_size_in_bytes < given:
        raise VerificationError(
            f"Unit {number} ({unit.name}) donates {given} bytes and XLA uses "
            f"{stated.alias_size_in_bytes}."
        )
    return stated.temp_size_in_bytes


def _abstract(value: Value) -> jax.ShapeDtypeStruct:
    """A value as a type for XLA; one that is over several devices counts as on one."""
    claim = value.device
    place = SingleDeviceSharding(next(iter(claim))) if isinstance(claim, frozenset) else None
    return jax.ShapeDtypeStruct(value.spec.shape, value.spec.dtype, sharding=place)


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


def _bytes_given(pairs: Sequence[tuple[int, int]], values: Sequence[Value]) -> int:
    return sum(values[taker].size for _, taker in pairs)
