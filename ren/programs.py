"""Programs that Ren itself runs again and again: planned once, then replayed.

What `ren.jit` is for users, without keys to compare, tiers or anything to look at: encoding and
encryption take less time than planning their programs would.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any

from ren.core import op as ops
from ren.core.args import Spec
from ren.core.node import make, placeholder
from ren.core.ring import Domain, RingSpec
from ren.lowering.execute import UnitRunner, plan_of
from ren.lowering.graph_runner import GraphRunner, one_call
from ren.lowering.plan import Plan
from ren.lowering.tracing import concretely
from ren.poly import Poly

# Called with what is static and with polynomials; equal functions are one function.
Function = Callable[..., Sequence[Poly]]


def replayed(function: Function, static: Hashable, *polys: Poly) -> list[Poly]:
    """function(static, *polys), computed at once and concretely, also while JAX is tracing.

    Args:
        function: of the top level of a module; it makes a program and reads nothing else.
        static: its first argument, compared by value.
        polys: the others; they are realized. All that their types leave open, they may differ in.
    """
    runner, order, types = _planned(function, static, tuple(p.node.spec for p in polys))
    with concretely():
        arrays = [p.limbs for p in polys]
        made = runner([arrays[i] for i in order])
    return [Poly.of_array(array, *kind) for array, kind in zip(made, types, strict=True)]


class _Runner:
    """A plan as one call of native code, if it was one the first time; else its units."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._run: GraphRunner | UnitRunner | None = None

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if self._run is None:
            self._run = one_call(self._plan, inputs) or UnitRunner(self._plan)
        return self._run(inputs)


@lru_cache(maxsize=256)
def _planned(
    function: Function, static: Any, specs: tuple[Spec, ...]
) -> tuple[_Runner, list[int], list[tuple[RingSpec, Domain]]]:
    """The plan, which of the polynomials are its inputs, and what its results are."""
    inputs = [placeholder(spec) for spec in specs]
    made = function(static, *map(Poly.from_node, inputs))
    plan = plan_of(make(ops.SINK, [p.node for p in made]))
    args = [node.arg for node in inputs]
    order = [args.index(source.arg) for source in plan.inputs]
    return _Runner(plan), order, [(p.ring, p.domain) for p in made]
