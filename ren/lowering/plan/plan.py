"""Plan: frozen; what to run, in what order, and which values die when."""

from __future__ import annotations

from typing import Any

import attrs

from ren.core.node import Node
from ren.core.spec import Spec
from ren.lowering.program.kernel import Program
from ren.lowering.program.steps import CopyUnit, Input, KernelUnit, Unit, ViewUnit, with_last_uses

__all__ = ["CopyUnit", "Input", "KernelUnit", "Plan", "Unit", "ViewUnit", "with_last_uses"]


@attrs.frozen(eq=False)
class Source:
    """A program after the passes of algebra, before it is divided into kernels.

    Attributes:
        sink: the SINK of its roots.
        leaves: the leaves under it, in topological order.
        inputs: its leaves in order, as inputs.
        claims: for each root the devices that it demands, as `claim_of` tells them.
    """

    sink: Node
    leaves: tuple[Node, ...]
    inputs: tuple[Input, ...]
    claims: tuple[Any, ...]


@attrs.frozen(eq=False)
class Plan:
    """A scheduled program: inputs are values 0, 1, ...; units make the others, in order.

    Attributes:
        inputs: the arrays read, in slot order.
        units: kernels and copies in execution order.
        outputs: the values of the roots, in the order of the roots.
        output_specs: their types.
        source: the program that it is the plan of; None for a plan that was put together by hand.
    """

    inputs: tuple[Input, ...]
    units: tuple[Unit, ...]
    outputs: tuple[int, ...]
    output_specs: tuple[Spec, ...]
    source: Source | None = None

    @property
    def programs(self) -> tuple[Program, ...]:
        """The distinct kernel programs, in order of first use: what has to be compiled."""
        kernels = (u.kernel.program for u in self.units if isinstance(u, KernelUnit))
        return tuple(dict.fromkeys(kernels))

    def __repr__(self) -> str:
        return (
            f"<Plan: {len(self.inputs)} inputs, {len(self.units)} units, "
            f"{len(self.programs)} distinct kernels, {len(self.outputs)} outputs>"
        )
