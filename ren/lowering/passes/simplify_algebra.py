"""Pass 1: ring algebra: constants folded, identities and zeros removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ren.core import op as ops
from ren.core.node import Node, const, make
from ren.core.op import Kind
from ren.core.rewrite import Table, rewrite
from ren.core.ring import Domain
from ren.core.spec import AutomorphismArg, RotateArg, ScalarArg, ShiftArg


def simplify_algebra(sink: Node) -> Node:
    """`sink` with constant subexpressions folded and neutral operations removed."""
    return rewrite(sink, RULES)


def _fold(node: Node) -> Node | None:
    """op(c1, c2, ...) -> CONST, where the op says how constants combine."""
    if node.op.fold is None or node.spec.batch or any(s.op is not ops.CONST for s in node.src):
        return None
    values = (s.arg.value for s in node.src)
    value = node.op.fold(node.src[0].spec.ring, node.arg, *values)
    return const(value, node.spec.ring, node.spec.domain)


def _is_const(node: Node, value: int) -> bool:
    return node.op is ops.CONST and node.arg.value == value


def _same_type(kept: Node, node: Node) -> Node | None:
    """`kept`, if it can stand for `node`: domains may differ (the driver converts)."""
    return kept if kept.spec.batch == node.spec.batch and not kept.spec.is_scalar else None


def _neutral(node: Node) -> Node | None:
    """x + 0, 0 + x and x - 0 -> x."""
    a, b = node.src
    if _is_const(b, 0):
        return _same_type(a, node)
    return _same_type(b, node) if node.op is ops.ADD and _is_const(a, 0) else None


def _multiply_one_or_zero(node: Node) -> Node | None:
    for kept, other in (node.src, node.src[::-1]):
        if _is_const(other, 1):
            return _same_type(kept, node)
        if _is_const(other, 0) and not node.spec.batch:
            return const(0, node.spec.ring, node.spec.domain)
    return None


def _of_itself(node: Node) -> Node | None:
    """x + x -> 2 x, and x - x -> 0. Wide moduli have no products."""
    a, b = node.src
    if a is not b:
        return None
    if node.op is ops.ADD:
        if a.spec.ring.has_wide:
            return None
        return make(ops.MUL, (a, const(2, a.spec.ring, a.spec.domain)))
    return None if node.spec.batch else const(0, a.spec.ring, a.spec.domain)


def _by_constant(node: Node) -> tuple[Node, int] | None:
    """(x, c) for x + c, c + x, x c and c x with a constant c; (x, -c) for x - c."""
    if node.op not in (ops.ADD, ops.SUB, ops.MUL):
        return None
    a, b = node.src
    if b.op is ops.CONST:
        return a, -b.arg.value if node.op is ops.SUB else b.arg.value
    return (b, a.arg.value) if a.op is ops.CONST and node.op is not ops.SUB else None


def _reassociated(node: Node) -> Node | None:
    """(x + c) - d -> x + (c - d), and (x c) d -> x (c d)."""
    outer = _by_constant(node)
    inner = None if outer is None else _by_constant(outer[0])
    if outer is None or inner is None or inner[0].spec.batch != node.spec.batch:
        return None
    x, (c, d), is_product = inner[0], (inner[1], outer[1]), node.op is ops.MUL
    if is_product is not (outer[0].op is ops.MUL):
        return None
    if is_product:
        return make(ops.MUL, (x, const(c * d, x.spec.ring, x.spec.domain)))
    return make(ops.ADD, (x, const(c + d, node.spec.ring, node.spec.domain)))


def _product_of_constants(node: Node) -> Node | None:
    """c s -> 0 + (c s) where the values are known at each run: the host multiplies them."""
    if not all(s.spec.is_constant for s in node.src):
        return None
    a, b = map(_value_at_run, node.src)
    ring, domain = node.spec.ring, node.spec.domain
    serial = int.from_bytes(node.digest, "big")  # of the structure: the same each time
    arg = ScalarArg(serial, ring, domain, lambda values: a(values) * b(values))
    return make(ops.ADD, (const(0, ring, domain), make(ops.SCALAR, (), arg)))


def _value_at_run(node: Node) -> Callable[[Sequence[Any]], int]:
    if node.op is ops.SCALAR:
        return node.arg.value
    return lambda values, value=node.arg.value: value


def last_of_two(node: Node) -> Node | None:
    """f(f(x)) -> f(x), with the argument of the last: copies, boundaries, views, embeddings."""
    (x,) = node.src
    return make(node.op, x.src, node.arg) if x.op is node.op else None


def _undo_twice(node: Node) -> Node | None:
    """f(g(x)) -> x where the table says that g undoes f."""
    (a,) = node.src
    return a.src[0] if a.op.name == node.op.inverse else None


def _composed_automorphism(node: Node) -> Node | None:
    """X -> X^g after X -> X^h is X -> X^(gh); rotations add their steps."""
    (x,) = node.src
    if x.op is not node.op:
        return None
    n = node.spec.ring.n
    if node.op is ops.ROTATE:
        return make(ops.ROTATE, x.src, RotateArg((node.arg.k + x.arg.k) % (n // 2)))
    return make(ops.AUTOMORPHISM, x.src, AutomorphismArg(node.arg.g * x.arg.g % (2 * n)))


def _trivial_automorphism(node: Node) -> Node | None:
    trivial = node.arg.k == 0 if node.op is ops.ROTATE else node.arg.g == 1
    return node.src[0] if trivial else None


def _composed_shift(node: Node) -> Node | None:
    """X^k (X^h p) is X^(k + h) p, which is p or -p where n divides k + h."""
    (x,), n = node.src, node.spec.ring.n
    if x.op is not ops.SHIFT or x.src[0].spec.domain is not Domain.COEFF:
        return None
    if (k := (node.arg.k + x.arg.k) % (2 * n)) % n:
        return make(ops.SHIFT, x.src, ShiftArg(k))
    return make(ops.NEG, x.src) if k else x.src[0]


def _same_ring(node: Node) -> Node | None:
    return node.src[0] if node.arg.ring == node.src[0].spec.ring else None


def _same_domain(node: Node) -> Node | None:
    return node.src[0] if node.src[0].spec.domain is node.spec.domain else None


RULES: Table = {
    **{op.name: (_fold,) for op in ops.OPS.values() if op.fold and op.kind is not Kind.LEAF},
    "ADD": (_fold, _neutral, _of_itself, _reassociated),
    "SUB": (_fold, _neutral, _of_itself, _reassociated),
    "MUL": (_fold, _multiply_one_or_zero, _product_of_constants, _reassociated),
    "COPY": (last_of_two,),
    "CONTIGUOUS": (last_of_two,),
    "NEG": (_fold, _undo_twice),
    "NTT": (_fold, _same_domain, _undo_twice),
    "INTT": (_fold, _same_domain, _undo_twice),
    "TO_RING": (_same_ring, _fold),
    "VIEW": (_same_ring, _fold),
    "EMBED": (_same_ring, _fold, last_of_two),
    "SHIFT": (_composed_shift,),
    "ROTATE": (_fold, _composed_automorphism, _trivial_automorphism),
    "AUTOMORPHISM": (_fold, _composed_automorphism, _trivial_automorphism),
}
