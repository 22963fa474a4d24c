"""What a graph must satisfy after each pass of the pipeline."""

from __future__ import annotations

from collections.abc import Callable

from ren.core import op as ops
from ren.core.errors import VerificationError
from ren.core.node import Node, toposort
from ren.core.op import Kind

Predicate = Callable[[Node], bool]


def _has_no_ring_ops(node: Node) -> bool:
    return node.op.kind is not Kind.RING


def _has_proper_view(node: Node) -> bool:
    if node.op is not ops.VIEW:
        return True
    return set(node.spec.ring.moduli) <= set(node.src[0].spec.ring.moduli)


def _has_wanted_domains(node: Node) -> bool:
    if node.spec is None or node.op.kind in (Kind.ROOT, Kind.LEAF, Kind.CONSTANT):
        return True
    if node.op is ops.MUL and any(s.op is ops.CONST for s in node.src):
        want = node.spec.domain
    else:
        want = node.op.wants or node.spec.domain
    return all(s.spec.domain is want for s in node.src)


# From which pass on a rule holds.
RULES: dict[str, tuple[tuple[str, Predicate], ...]] = {
    "lower_ring_ops": (
        ("no high-level ring op is left", _has_no_ring_ops),
        ("a view takes limbs that its source has", _has_proper_view),
    ),
    "insert_transforms": (("every source is in the domain wanted", _has_wanted_domains),),
}


def verify(before: Node, after: Node, done: tuple[str, ...]) -> None:
    """Checks `after`, made from `before` by the last of the passes `done`.

    Raises:
        VerificationError: names the pass, the rule and the node.
    """
    name = done[-1]
    for old, new in zip(before.src, after.src, strict=True):
        if old.spec != new.spec:
            raise VerificationError(f"Pass {name} changed a root from {old.spec} to {new.spec}.")
    active = [rule for passed in done for rule in RULES.get(passed, ())]
    if not active:
        return
    for node in toposort(after):
        for text, holds in active:
            if not holds(node):
                raise VerificationError(f"After pass {name} the rule '{text}' fails at {node!r}.")
