"""Plans as a table: what each unit does, reads and writes, and what it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ren.core import html
from ren.core import op as ops
from ren.core.node import toposort
from ren.core.text_table import Shown, columns, duration, size
from ren.lowering.backends.base import Unsupported
from ren.lowering.inspect.memory_report import memory_of
from ren.lowering.inspect.plan_diagram import extent
from ren.lowering.plan.cost import Cost, estimated_seconds, native_seconds, rates, unit_costs
from ren.lowering.plan.memory import memory_plan
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import KernelUnit, Unit, ViewUnit, nbytes, value_specs
from ren.lowering.runtime.native_calls import native_calls
from ren.lowering.runtime.trace import Trace, active_trace

_HEADER = (
    "unit", "kernel", "limbs x n", "reads", "bytes in", "bytes out", "limb-NTTs", "estimated",
    "measured", "notes",
)  # fmt: skip


def explain(plan: Plan, trace: Trace | None = None, notes: Sequence[str] = ()) -> Shown:
    """A table of a plan's units with its inputs and totals: text, in notebooks HTML.

    `trace` has measured times, from `with ren.trace() as trace:` around some runs; None uses the
    trace that is active, if one is. `notes` are lines about the program.
    """
    rows = [_HEADER, *_rows(plan, trace or active_trace.get())]
    inputs, form, held, left = _inputs(plan), _form(plan), memory_of(plan), (1, 2, 3, 9)
    said = [
        f"{line}, {count} times" if count > 1 else line for line, count in Counter(notes).items()
    ]
    text = "\n".join([inputs, columns(rows, left), "", *said, form, "", str(held)])
    parts = (
        html.note(inputs),
        html.table(rows, left),
        *map(html.note, (*said, form)),
        held.facts(),
    )
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
    form += "" if calls.has_gain else " without XLA"
    seconds = duration(native_seconds(plan, count if calls.has_gain else 0))
    phases = f"{calls.phases} phase{'s' * (calls.phases != 1)}"
    return (
        f"runs as {form} of {phases}, which holds {size(calls.held_bytes)}, "
        f"estimated {seconds} {rates().machine}; kernels, measured and notes are of the units that "
        "it stands for"
    )


def _inputs(plan: Plan) -> str:
    held = [i for i in plan.inputs if i.is_held]
    keys = [i for i in plan.inputs if i.key is not None]
    bound = [i for i in plan.inputs if not i.is_held and i.key is None]
    pruned = [i for i in held if i.is_pruned]
    donated = [i for i in bound if i.is_donated]
    parts = [f"{len(bound)} bound at each call ({_bytes(bound)})"]
    parts += [f"{len(donated)} of them donated by the caller"] if donated else []
    parts += [f"{len(keys)} keys, read at each call ({_bytes(keys)})"] if keys else []
    parts += [f"{len(held)} held by the plan ({_bytes(held)})"] if held else []
    parts += [f"{len(pruned)} of them pruned: computed once, at capture"] if pruned else []
    return f"{len(plan.inputs)} inputs: {', '.join(parts)}"


def _bytes(inputs: Sequence) -> str:
    return size(sum(nbytes(i.spec) for i in inputs))


def _rows(plan: Plan, trace: Trace | None) -> Iterator[tuple[str, ...]]:
    """A row for each unit, and one for their sum."""
    specs, donations = value_specs(plan.inputs, plan.units), memory_plan(plan).donations
    whole, seconds, ran = Cost(), 0.0, []
    for i, (unit, (cost, n)) in enumerate(zip(plan.units, unit_costs(plan), strict=True)):
        estimated = estimated_seconds(cost, n)
        measured = None if trace is None else trace.mean_seconds(unit)
        whole, seconds = whole + cost, seconds + estimated
        ran += [] if measured is None else [measured]
        yield (
            str(i), unit.name, extent(specs[unit.outs[0]]), " ".join(f"%{v}" for v in unit.ins),
            size(cost.bytes_read), size(cost.bytes_written), str(cost.limb_ntts or ""),
            duration(estimated), "-" if measured is None else duration(measured),
            "; ".join(_notes(unit, donations[i])),
        )  # fmt: skip
    yield (
        "", f"total: {whole.kernels} kernels, {len(plan.programs)} distinct", "", "",
        size(whole.bytes_read), size(whole.bytes_written), str(whole.limb_ntts),
        duration(seconds), duration(sum(ran)) if ran else "-",
        f"{whole.multiply_adds:,} multiply-adds",
    )  # fmt: skip


def _notes(unit: Unit, donated: Sequence[tuple[int, int]]) -> list[str]:
    """Donations, and the values that a unit reads in part or in another order."""
    if isinstance(unit, ViewUnit):
        limbs = _runs_of(tuple(range(unit.start, unit.start + unit.length)))
        return [f"reading limbs slices once: limbs {limbs} of %{unit.ins[0]}"]
    notes = [f"%{taker} takes over %{given}" for given, taker in donated]
    body = toposort(unit.kernel.body)[:-1] if isinstance(unit, KernelUnit) else ()
    for slot, index in (node.src for node in body if node.op is ops.LOAD):
        limbs, galois = index.arg.limbs, index.arg.galois
        turned = f", X -> X^{galois}" if galois != 1 else ""
        if turned or limbs != tuple(range(slot.spec.ring.limbs)):
            notes.append(f"view: limbs {_runs_of(limbs)} of %{unit.ins[slot.arg.index]}{turned}")
    return notes


def _runs_of(limbs: tuple[int, ...]) -> str:
    """Limbs as text: "0-4" or "0,2,5"."""
    low, high = limbs[0], limbs[-1]
    if limbs == tuple(range(low, high + 1)):
        return str(low) if low == high else f"{low}-{high}"
    return ",".join(map(str, limbs))
