"""The pipeline: every pass over the graph, in order, each followed by its verifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from ren.core.node import Node
from ren.lowering.passes.bufferize import bufferize
from ren.lowering.passes.exact_products import exact_products
from ren.lowering.passes.expand_constants import expand_constants
from ren.lowering.passes.fuse_products import fuse_products
from ren.lowering.passes.indexify import indexify
from ren.lowering.passes.insert_transforms import insert_transforms
from ren.lowering.passes.join_rescale import join_rescale
from ren.lowering.passes.kernelize import kernelize
from ren.lowering.passes.lower_automorphisms import lower_automorphisms
from ren.lowering.passes.lower_ring_ops import lower_ring_ops
from ren.lowering.passes.lower_views import lower_views
from ren.lowering.passes.map_results import map_results
from ren.lowering.passes.materialize import materialize
from ren.lowering.passes.mix_sums import mix_sums
from ren.lowering.passes.reduce_transforms import reduce_transforms
from ren.lowering.passes.simplify_algebra import simplify_algebra
from ren.lowering.passes.sink_mod_down import sink_mod_down
from ren.lowering.passes.split_views import split_views
from ren.lowering.passes.verify import verify
from ren.progress import Progress


@attrs.frozen
class Pass:
    """A named function from graph to graph.

    Attributes:
        number: its place in the list of twelve that the design names.
        changes_rounding: True where a ModDown may round otherwise than before, within one unit for
            each term of a sum. Every other pass keeps all values bit for bit.
    """

    number: int
    name: str
    run: Callable[[Node], Node]
    changes_rounding: bool = False


PIPELINE: tuple[Pass, ...] = (
    Pass(1, "simplify_algebra", simplify_algebra),
    Pass(1, "mix_sums", mix_sums),
    Pass(1, "sink_mod_down", sink_mod_down, changes_rounding=True),
    Pass(1, "join_rescale", join_rescale, changes_rounding=True),
    Pass(2, "lower_ring_ops", lower_ring_ops),
    Pass(2, "exact_products", exact_products),
    Pass(1, "simplify_lowered", simplify_algebra),
    Pass(3, "insert_transforms", insert_transforms),
    Pass(4, "reduce_transforms", reduce_transforms),
    Pass(4, "fuse_products", fuse_products),
    Pass(5, "split_views", split_views),
    Pass(5, "materialize", materialize),
    Pass(6, "bufferize", bufferize),
    Pass(7, "map_results", map_results),
    Pass(8, "lower_automorphisms", lower_automorphisms),
    Pass(9, "expand_constants", expand_constants),
    Pass(10, "lower_views", lower_views),
    Pass(11, "indexify", indexify),
    Pass(12, "kernelize", kernelize),
)


# The passes of algebra. Native code is lowered from the graph after them; the others divide it into
# kernels.
ALGEBRA = PIPELINE[: [step.name for step in PIPELINE].index("fuse_products") + 1]
_EXPLICIT = tuple(p for p in PIPELINE if p.name in ("lower_automorphisms", "expand_constants"))


def run_algebra(sink: Node) -> Node:
    """`sink` after the passes of algebra; what comes next verifies what the last of them left.

    Raises:
        VerificationError: a pass broke a rule of its stage.
    """
    return _run(sink, ALGEBRA, (), "planning")[0]


def run_kernel_passes(sink: Node) -> Node:
    """`sink`, which is after the passes of algebra, after all others."""
    after, is_verified = _run(sink, PIPELINE[len(ALGEBRA) :], ALGEBRA, "planning kernels")
    if not is_verified:
        verify(sink, after, tuple(step.name for step in PIPELINE))
    return after


def made_explicit(sink: Node) -> Node:
    """`sink`, which is after the passes of algebra, with explicit automorphisms and constants.

    It is the graph that native code is lowered from. The same two passes run among the others.
    """
    after = sink
    for step in _EXPLICIT:
        after = step.run(after)
    verify(sink, after, tuple(step.name for step in (*ALGEBRA, *_EXPLICIT)))
    return after


def _run(
    sink: Node, steps: Sequence[Pass], before: Sequence[Pass], title: str
) -> tuple[Node, bool]:
    """`sink` after some passes, and whether it is verified.

    A graph that a pass leaves unchanged is verified after the next pass that changes it.
    """
    done, is_verified = tuple(step.name for step in before), False
    with Progress(len(steps), title) as progress:
        for step in steps:
            after = step.run(sink)
            done, is_verified = (*done, step.name), after is not sink
            if is_verified:
                verify(sink, after, done)
            sink = after
            progress.step()
    return sink, is_verified
