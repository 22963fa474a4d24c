"""Cost of a plan, counted from its kernels: transforms, multiply-adds, bytes."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ren.core import html
from ren.core import op as ops
from ren.core.node import Node, toposort
from ren.core.spec import Spec, Work
from ren.core.text_table import columns, size
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import KernelUnit, Unit, nbytes, read_slots, value_specs


@attrs.frozen
class Cost:
    """Counts of a unit or a plan; `a + b` is the cost of running both.

    Attributes:
        kernels: how many kernels are launched; copies are none.
        limb_ntts: transforms, forward and inverse, of one limb each.
        multiply_adds: modular products outside of transforms, with the sum that takes each.
        bytes_read: of the inputs of kernels and copies; of a value read through views alone, the
            limbs that they show. Twiddles and other tables are not counted.
        bytes_written: of what kernels store and copies make.
    """

    kernels: int = 0
    limb_ntts: int = 0
    multiply_adds: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def __add__(self, other: Cost) -> Cost:
        pairs = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return Cost(*(a + b for a, b in pairs))

    def _rows(self) -> list[tuple[str, str]]:
        return [
            ("kernels", f"{self.kernels:,}"),
            ("limb-NTTs", f"{self.limb_ntts:,}"),
            ("multiply-adds", f"{self.multiply_adds:,}"),
            ("bytes read", size(self.bytes_read)),
            ("bytes written", size(self.bytes_written)),
        ]

    def __str__(self) -> str:
        return columns(self._rows())

    def _repr_html_(self) -> str:
        return html.card("Cost of one run", html.facts(self._rows()))


def cost_of(plan: Plan) -> Cost:
    """The cost of one run of a plan: the sum of its units."""
    specs = value_specs(plan.inputs, plan.units)
    return sum((unit_cost(unit, specs) for unit in plan.units), Cost())


def unit_cost(unit: Unit, specs: Sequence[Spec]) -> Cost:
    """The cost of one unit; `specs` are the types of the plan's values."""
    written = sum(nbytes(specs[v]) for v in unit.outs)
    if not isinstance(unit, KernelUnit):  # reading a view slices it once
        return Cost(bytes_read=written, bytes_written=written)
    work = sum((node.work for node in toposort(unit.kernel.body)[:-1]), Work())
    read = sum(
        nbytes(s.spec) // s.spec.ring.limbs * len(limbs) for s, limbs in limbs_read(unit).items()
    )
    return Cost(1, work.limb_ntts, work.multiply_adds, read, written)


def limbs_read(unit: KernelUnit) -> dict[Node, set[int]]:
    """The limbs that a kernel reads of each of its SLOTs."""
    order = toposort(unit.kernel.body)[:-1]
    limbs: dict[Node, set[int]] = {slot: set() for slot in read_slots(order)}
    for node in order:
        if node.op is ops.LOAD:
            limbs[node.src[0]].update(node.src[1].arg.limbs)
    return limbs
