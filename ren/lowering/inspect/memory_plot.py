"""Plots of a plan's memory: which buffers are live while each unit runs, stacked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from ren.core.text_table import size
from ren.lowering.inspect import plots as plotting
from ren.lowering.inspect.memory_report import units_report
from ren.lowering.plan.memory import MemoryPlan, memory_plan, temporaries
from ren.lowering.plan.plan import Plan

NAMED_UNITS = 12  # so many units have their names under the axis
_STYLES = {
    "intermediate": plotting.BLUE,
    "intermediate, odd": plotting.SKY,  # sets neighbours in a stack apart
    "result": plotting.GREEN,
    "temporary (estimated)": plotting.ORANGE,
}


@attrs.frozen
class Block:
    """A stretch of units over which bytes stand at one height of the stack.

    Attributes:
        kind: a key of the legend.
        first, last: the units, both included.
        bottom, size: in bytes.
    """

    kind: str
    first: int
    last: int
    bottom: int
    size: int


def timeline(plan: Plan) -> list[Block]:
    """The live bytes of every unit as blocks; the highest top is the planned peak."""
    memory = memory_plan(plan)
    outputs = set(plan.outputs)
    open_: dict[int, Block] = {}
    done: list[Block] = []
    extras: list[Block] = []
    stacks = zip(_stacks(plan, memory), temporaries(plan, memory), strict=True)
    for i, (live, extra) in enumerate(stacks):
        blocks, bottom = {}, 0
        for v in live:
            before, bytes_ = open_.pop(v, None), memory.values[v].own_size
            if before is not None and before.bottom == bottom:
                blocks[v] = attrs.evolve(before, last=i)
            else:
                done += [before] if before else []
                blocks[v] = Block(_kind(v, outputs), i, i, bottom, bytes_)
            bottom += bytes_
        done += open_.values()
        open_ = blocks
        extras += [Block("temporary (estimated)", i, i, bottom, extra)] if extra else []
    return [*done, *open_.values(), *extras]


def _stacks(plan: Plan, memory: MemoryPlan) -> Iterator[list[int]]:
    """For each unit the values live while it runs, the oldest first.

    What takes over a buffer stands where that stood, and from the same unit on.
    """
    stack: list[int] = []
    for unit, pairs in zip(plan.units, memory.donations, strict=True):
        place = dict(pairs)
        stack = [place.get(v, v) for v in stack]
        stack += [v for v in unit.outs if v not in place.values()]
        stack = [v for v in stack if memory.values[v].own_size]
        yield stack
        stack = [v for v in stack if v not in unit.drops]


def _kind(value: int, outputs: set[int]) -> str:
    if value in outputs:
        return "result"
    return "intermediate, odd" if value % 2 else "intermediate"


def plot_memory(plan: Plan, ax: Any = None) -> Any:
    """Draws the buffers that are live while each unit runs, stacked up to the planned peak.

    Returns:
        The matplotlib Axes, `ax` or that of a new figure; nothing is shown or saved.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    ax = plotting.axes(ax, "plan.plot_memory()")
    report, blocks = units_report(plan), timeline(plan)
    highest = max(report.peak_bytes, report.unplanned_bytes)
    unit, name = _scale(highest)
    for kind, colour in _STYLES.items():
        drawn = [b for b in blocks if b.kind == kind]
        if drawn:
            plotting.boxes(
                ax,
                [(b.first - 0.5, b.bottom / unit, b.last - b.first + 1, b.size / unit)
                 for b in drawn],
                facecolor=colour, edgecolor=ax.get_facecolor(),
                linewidth=0.6 if len(plan.units) <= 300 else 0,
                label="_" if kind.endswith("odd") else kind,
            )  # fmt: skip
    planned, without = report.peak_bytes / unit, report.unplanned_bytes / unit
    ax.axhline(planned, color=plotting.RED, ls="--", lw=1, label="peak, planned")
    ax.axhline(without, color=plotting.GREY, ls=":", lw=1, label="peak without donation")
    ax.set_xlim(-0.5, max(len(plan.units), 1) - 0.5)
    ax.set_ylim(0, 1.08 * max(highest, 1) / unit)
    if len(plan.units) <= NAMED_UNITS:
        names = [f"{i} {step.name[:14]}" for i, step in enumerate(plan.units)]
        ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    ax.set_xlabel("units, in the order in which they run")
    ax.set_ylabel(f"{name} while the unit runs")
    title = f"peak {size(report.peak_bytes)} beside {size(report.input_bytes)} of inputs"
    ax.set_title(title, loc="left")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return ax


def _scale(most: int) -> tuple[int, str]:
    for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if most >= 1 << power:
            return 1 << power, name
    return 1, "bytes"
