"""Plan: frozen; what to run, in what order, and which values die when."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import attrs

from ren.core import html
from ren.core.spec import Spec
from ren.lowering.inspect.markup import dot, mermaid
from ren.lowering.inspect.svg import svg
from ren.lowering.inspect.text_table import size
from ren.lowering.plan.cost import Cost, cost_of
from ren.lowering.plan.explain import explain
from ren.lowering.plan.memory import MemoryReport, report
from ren.lowering.plan.memory_plot import plot_memory
from ren.lowering.plan.plan_diagram import plan_diagram
from ren.lowering.plan.plan_key import structure_digest
from ren.lowering.plan.trace import Trace
from ren.lowering.program.kernel import Program
from ren.lowering.program.steps import CopyUnit, Input, KernelUnit, Unit, ViewUnit, with_last_uses

__all__ = ["CopyUnit", "Input", "KernelUnit", "Plan", "Unit", "ViewUnit", "with_last_uses"]


@attrs.frozen(eq=False)
class Plan:
    """A scheduled program: inputs are values 0, 1, ...; units make the others, in order.

    Attributes:
        inputs: the arrays read, in slot order.
        units: kernels and copies in execution order.
        outputs: the values of the roots, in the order of the roots.
        output_specs: their types.
    """

    inputs: tuple[Input, ...]
    units: tuple[Unit, ...]
    outputs: tuple[int, ...]
    output_specs: tuple[Spec, ...]

    @property
    def programs(self) -> tuple[Program, ...]:
        """The distinct kernel programs, in order of first use: what has to be compiled."""
        kernels = (u.kernel.program for u in self.units if isinstance(u, KernelUnit))
        return tuple(dict.fromkeys(kernels))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what the plan runs, in hex: the same in every process, whatever the arrays."""
        return structure_digest(self)

    @property
    def cost(self) -> Cost:
        """Kernels, limb-NTTs, multiply-adds and bytes of one run."""
        return cost_of(self)

    @property
    def memory(self) -> MemoryReport:
        """Planned memory of one run; `ren.lowering.plan.memory.measure` measures it."""
        return report(self)

    def explain(self, trace: Trace | None = None) -> str:
        """A table of the units: what each does, reads, writes, and takes; text, in notebooks HTML.

        Args:
            trace: measured times, from `with ren.trace() as trace:` around some runs; None uses
                the trace that is active, if one is.
        """
        return explain(self, trace)

    def plot_memory(self, ax: Any = None) -> Any:
        """Draws the buffers that are live while each unit runs, stacked up to the planned peak.

        Args:
            ax: matplotlib Axes to draw on; None makes a figure.

        Returns:
            The Axes; nothing is shown or saved.

        Raises:
            MissingPackageError: matplotlib is not installed.
        """
        return plot_memory(self, ax)

    def to_mermaid(self) -> str:
        """The units as a Mermaid flowchart, the values between them as arrows with their bytes."""
        return mermaid(plan_diagram(self))

    def to_dot(self) -> str:
        """The same in the DOT language of Graphviz."""
        return dot(plan_diagram(self))

    def _repr_html_(self) -> str:
        cost, held = self.cost, self.memory
        rows = [
            ("inputs", f"{len(self.inputs)}, {size(held.input_bytes)}"),
            ("units", f"{len(self.units)}, of {len(self.programs)} distinct kernels"),
            ("outputs", f"{len(self.outputs)}, {size(held.output_bytes)}"),
            ("work", f"{cost.limb_ntts:,} limb-NTTs, {cost.multiply_adds:,} multiply-adds"),
            ("peak memory", f"{size(held.peak_bytes)} beside the inputs"),
        ]
        drawn = html.picture(svg(plan_diagram(self)))
        more = html.note("explain() lists the units, .cost and .memory the numbers.")
        return html.card("Plan", html.facts(rows), drawn, more)

    def __repr__(self) -> str:
        return (
            f"<Plan: {len(self.inputs)} inputs, {len(self.units)} units, "
            f"{len(self.programs)} distinct kernels, {len(self.outputs)} outputs>"
        )
