"""The pipeline: every pass over the graph, in order, each followed by its verifier."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from ren.core.node import Node
from ren.core.verify import verify
from ren.lowering.passes.algebra import simplify_algebra
from ren.lowering.passes.boundaries import choose_boundaries
from ren.lowering.passes.domains import cancel_round_trips, insert_transforms
from ren.lowering.passes.ring_ops import lower_ring_ops


@attrs.frozen
class Pass:
    """A named function from graph to graph."""

    name: str
    run: Callable[[Node], Node]


PIPELINE: tuple[Pass, ...] = (
    Pass("simplify_algebra", simplify_algebra),
    Pass("lower_ring_ops", lower_ring_ops),
    Pass("simplify_lowered", simplify_algebra),
    Pass("insert_transforms", insert_transforms),
    Pass("cancel_round_trips", cancel_round_trips),
    Pass("choose_boundaries", choose_boundaries),
)


def run_pipeline(sink: Node) -> Node:
    """`sink` after every pass; raises VerificationError if a pass broke a rule of its stage."""
    done: tuple[str, ...] = ()
    for step in PIPELINE:
        after = step.run(sink)
        done = (*done, step.name)
        verify(sink, after, done)
        sink = after
    return sink
