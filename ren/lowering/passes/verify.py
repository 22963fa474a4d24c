"""Rules that a graph satisfies after each pass of the pipeline."""

from __future__ import annotations

from collections.abc import Callable

from ren.core import op as ops
from ren.core.errors import VerificationError
from ren.core.node import Node, toposort
from ren.core.op import Kind, Op
from ren.core.spec import SinkArg

Predicate = Callable[[Node], bool]


def _has_possible_products(node: Node) -> bool:
    if node.op is ops.MIX:
        return not node.spec.ring.has_wide
    if node.op is not ops.MUL or not node.spec.ring.is_general:
        return True
    return not node.spec.ring.has_wide and any(s.spec.is_constant for s in node.src)


def _has_no_ring_ops(node: Node) -> bool:
    return node.op.kind is not Kind.RING


def _has_proper_view(node: Node) -> bool:
    if node.op is not ops.VIEW:
        return True
    return set(node.spec.ring.moduli) <= set(node.src[0].spec.ring.moduli)


def _has_wanted_domains(node: Node) -> bool:
    outside = (Kind.ROOT, Kind.LEAF, Kind.CONSTANT, Kind.MEMORY, Kind.INDEX)
    if node.spec is None or node.op.kind in outside:
        return True
    if node.op is ops.MUL and any(s.op.kind is Kind.CONSTANT or s.spec.is_scalar for s in node.src):
        want = node.spec.domain
    else:
        want = node.op.wants or node.spec.domain
    return all(s.spec.domain is want for s in node.src)


def _has_no(*gone: Op) -> Predicate:
    return lambda node: node.op not in gone


def _has_kept_transforms(node: Node) -> bool:
    if node.op in (ops.BUFFERIZE, ops.STORE):
        return True
    moved = node.op.kind in (Kind.ELEMENTWISE, Kind.VIEW)
    own = (ops.AUTOMORPHISM, ops.JOIN) if moved else ()
    return all(s.op.kind is not Kind.TRANSFORM or s.op in own for s in node.src)


def _has_dense_operands(node: Node) -> bool:
    return node.op.kind is not Kind.TRANSFORM or not any(s.spec.is_scalar for s in node.src)


def _has_placed_roots(node: Node) -> bool:
    return node.op is not ops.SINK or isinstance(node.arg, SinkArg)


def _has_array_roots(node: Node) -> bool:
    arrays = (Kind.LEAF, Kind.MEMORY, Kind.BOUNDARY)
    return node.op is not ops.SINK or all(s.op.kind in arrays for s in node.src)


def _has_loads(node: Node) -> bool:
    works = node.op.kind in (Kind.ELEMENTWISE, Kind.VIEW, Kind.TRANSFORM)
    return not works or all(s.op.kind not in (Kind.LEAF, Kind.MEMORY) for s in node.src)


# From which pass on a rule holds.
RULES: dict[str, tuple[tuple[str, Predicate], ...]] = {
    "lower_ring_ops": (
        ("no high-level ring op is left", _has_no_ring_ops),
        ("a view takes limbs that its source has", _has_proper_view),
    ),
    "exact_products": (
        (
            "a general ring has products with constants alone, wide moduli none",
            _has_possible_products,
        ),
    ),
    "insert_transforms": (("every source is in the domain wanted", _has_wanted_domains),),
    "reduce_transforms": (("no transform reads one residue a limb", _has_dense_operands),),
    "materialize": (("what a transform makes is kept in memory", _has_kept_transforms),),
    "bufferize": (("no BUFFERIZE is left", _has_no(ops.BUFFERIZE)),),
    "map_results": (("every root has a place", _has_placed_roots),),
    "lower_automorphisms": (("no AUTOMORPHISM is left", _has_no(ops.AUTOMORPHISM)),),
    "expand_constants": (("no CONST is left", _has_no(ops.CONST)),),
    "lower_views": (("every root is an array", _has_array_roots),),
    "indexify": (("arrays are read by loads", _has_loads),),
    "kernelize": (("no store is outside a kernel", _has_no(ops.STORE, ops.LOAD)),),
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
    for node in toposort(after):
        for text, holds in active:
            if not holds(node):
                raise VerificationError(f"After pass {name} the rule '{text}' fails at {node!r}.")
