"""Plans as a table: what each unit does, reads and writes, and what it takes."""

from __future__ import annotations

from collections.abc import Sequence

from ren.core import html
from ren.core import op as ops
from ren.core.node import toposort
from ren.core.spec import Spec
from ren.core.text_table import Shown, columns, duration, size
from ren.lowering.backends.base import Unsupported
from ren.lowering.inspect.memory_report import memory_of
from ren.lowering.plan.cost import Cost, unit_cost
from ren.lowering.plan.memory import MemoryPlan, memory_plan
from ren.lowering.plan.plan import Plan
from ren.lowering.plan.time_model import estimated_seconds, native_seconds, unit_costs
from ren.lowering.program.steps import KernelUnit, Unit, ViewUnit, nbytes, value_specs
from ren.lowering.runtime.native_calls import native_calls
from ren.lowering.runtime.trace import Trace, active_trace

_HEADER = (
    "unit", "kernel", "limbs x n", "reads", "bytes in", "bytes out", "limb-NTTs", "estimated",
    "measured", "notes",
)  # fmt: skip


def explain(plan: Plan, trace: Trace | None = None) -> Shown:
    """A table of a plan's units with its inputs and totals: text, in notebooks HTML.

    Args:
        plan: what runs.
        trace: measured times, from `with ren.trace() as trace:` around some runs; None uses the
            trace that is active, if one is.
    """
    trace = trace or active_trace()
    specs = value_specs(plan.inputs, plan.units)
    memory = memory_plan(plan)
    rows = [_HEADER]
    rows += [_row(i, unit, specs, memory, trace) for i, unit in enumerate(plan.units)]
    rows.append(_total(plan, specs, trace))
    inputs, held, left = _inputs(plan), memory_of(plan), (1, 2, 3, 9)
    form = _form(plan)
    text = "\n".join([inputs, columns(rows, left), "", form, "", str(held)])
    parts = (html.note(inputs), html.table(rows, left), html.note(form), held.facts())
    return Shown(text, html.card("Plan", *parts))


def _form(plan: Plan) -> str:
    """Default form of the plan's runs, in words."""
    calls = native_calls(plan.source)
    if isinstance(calls, Unsupported):
        return (
            "runs kernel by kernel, or as few XLA executables where they are faster; "
            f"no native calls: {calls.reason}"
        )
    count = len(calls.programs)
    form = "one native call" if count == 1 else f"{count} native calls"
    seconds = duration(native_seconds(plan, count))
    return (
        f"runs as {form} of {calls.phases} phases, which holds {size(calls.held_bytes)}, "
        f"estimated {seconds}; kernels, measured and notes are of the units that it stands for"
    )


def _inputs(plan: Plan) -> str:
    held = [i for i in plan.inputs if i.is_held]
    bound = [i for i in plan.inputs if not i.is_held]
    pruned = [i for i in held if i.is_pruned]
    donated = [i for i in bound if i.is_donated]
    parts = [f"{len(bound)} bound at each call ({_bytes(bound)})"]
    parts += [f"{len(donated)} of them donated by the caller"] if donated else []
    parts += [f"{len(held)} held by the plan ({_bytes(held)})"] if held else []
    parts += [f"{len(pruned)} of them pruned: computed once, at capture"] if pruned else []
    return f"{len(plan.inputs)} inputs: {', '.join(parts)}"


def _bytes(inputs: Sequence) -> str:
    return size(sum(nbytes(i.spec) for i in inputs))


def _row(
    number: int, unit: Unit, specs: Sequence[Spec], memory: MemoryPlan, trace: Trace | None
) -> tuple[str, ...]:
    cost = unit_cost(unit, specs)
    spec = specs[unit.outs[0]]
    seconds = estimated_seconds(cost, spec.ring.n)
    return (
        str(number),
        unit.name,
        _extent(spec),
        " ".join(f"%{v}" for v in unit.ins),
        size(cost.bytes_read),
        size(cost.bytes_written),
        str(cost.limb_ntts or ""),
        duration(seconds),
        _measured(unit, trace),
        "; ".join(_notes(unit, memory.donations[number])),
    )


def _extent(spec: Spec) -> str:
    batch = "".join(f"{size} x " for size in spec.batch)
    return f"{batch}{spec.ring.limbs} x {spec.ring.n}"


def _measured(unit: Unit, trace: Trace | None) -> str:
    seconds = trace.mean_seconds(unit) if trace is not None else None
    return "-" if seconds is None else duration(seconds)


def _total(plan: Plan, specs: Sequence[Spec], trace: Trace | None) -> tuple[str, ...]:
    costs = unit_costs(plan, specs)
    whole = sum((cost for cost, _ in costs), Cost())
    seconds = sum(estimated_seconds(cost, n) for cost, n in costs)
    times = [trace.mean_seconds(unit) for unit in plan.units] if trace is not None else []
    ran = [t for t in times if t is not None]
    return (
        "",
        f"total: {whole.kernels} kernels, {len(plan.programs)} distinct",
        "",
        "",
        size(whole.bytes_read),
        size(whole.bytes_written),
        str(whole.limb_ntts),
        duration(seconds),
        duration(sum(ran)) if ran else "-",
        f"{whole.multiply_adds:,} multiply-adds",
    )


def _notes(unit: Unit, pairs: Sequence[tuple[int, int]]) -> list[str]:
    if isinstance(unit, ViewUnit):
        low, high = unit.start, unit.start + unit.length - 1
        limbs = _runs_of(tuple(range(low, high + 1)))
        return [f"reading limbs slices once: limbs {limbs} of %{unit.ins[0]}"]
    notes = [f"%{taker} takes over %{given}" for given, taker in pairs]
    return notes + (_view_notes(unit) if isinstance(unit, KernelUnit) else [])


def _view_notes(unit: KernelUnit) -> list[str]:
    """Notes on values that a kernel reads in part, or in another order."""
    notes = []
    for node in toposort(unit.kernel.body)[:-1]:
        if node.op is ops.LOAD:
            slot, index = node.src
            where = index.arg
            part = where.limbs != tuple(range(slot.spec.ring.limbs))
            turned = f", X -> X^{where.galois}" if where.galois != 1 else ""
            if part or turned:
                value = unit.ins[slot.arg.index]
                notes.append(f"view: limbs {_runs_of(where.limbs)} of %{value}{turned}")
    return notes


def _runs_of(limbs: tuple[int, ...]) -> str:
    """Limbs as text: "0-4" or "0,2,5"."""
    low, high = limbs[0], limbs[-1]
    if limbs == tuple(range(low, high + 1)):
        return str(low) if low == high else f"{low}-{high}"
    return ",".join(map(str, limbs))
