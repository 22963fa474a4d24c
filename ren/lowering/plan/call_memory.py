"""Memory of a plan that runs as one call of native code.

Such a call gives no value a buffer of its own. Values that cross phases lie in rows that are used
again once their last reader is done. Each thread has a few rows for the task that it works on.
"""

from __future__ import annotations

import attrs

from ren.core.errors import NativeError
from ren.core.spec import ScalarArg
from ren.lowering.backends.select_backend import whole_call
from ren.lowering.devices.threads import threads
from ren.lowering.plan.lifetimes import values_of
from ren.lowering.plan.partition import single_graph
from ren.lowering.plan.plan import Plan


@attrs.frozen
class NativeCall:
    """One call of native code.

    Attributes:
        phases: its phases, of which each waits for the one before.
        held_bytes: the most that it holds besides arguments and results. It keeps this for the next
            call, within the limit on all of it.
    """

    phases: int
    held_bytes: int


def native_call(plan: Plan) -> NativeCall | None:
    """The one call that a plan is by default, where its inputs are as planned; None for kernels."""
    values = values_of(plan)
    inputs = values[: len(plan.inputs)]
    claims = {v.device for v in inputs if v.device is not None}
    if len(claims) > 1 or not all(isinstance(c, frozenset) for c in claims):
        return None
    devices = max((len(c) for c in claims if isinstance(c, frozenset)), default=1)
    step = single_graph(plan)
    if step is None:
        return None
    shapes = [
        (*v.spec.shape[:-1], 1 if isinstance(i.arg, ScalarArg) else v.spec.shape[-1])
        for v, i in zip(inputs, plan.inputs, strict=True)
    ]
    shapes = [shapes[v] for v in step.ins]
    try:
        found = whole_call(step.graph, step.tables, shapes)
    except NativeError:  # it is for who runs the plan
        return None
    if found is None or (devices > 1 and not found.form.is_looped):
        return None
    return NativeCall(found.phases, found.held_bytes(shapes, devices * threads()))
