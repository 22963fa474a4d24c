"""Part of pass 1: sums of constant multiples of the parts of one batch become MIX.

c_1 x[1] + c_2 x[2] + ... is a row of a matrix times a batch axis. The sums over one batch are one
product of matrices, which reads each part once for several rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from ren.core import op as ops
from ren.core.inference import MOST_MIXED
from ren.core.node import Node, make, toposort
from ren.core.numtheory import centered
from ren.core.rewrite import readers, rebuild
from ren.core.spec import MixArg, PartArg
from ren.lowering.kernels.mixing import matrix_of

_SUMS = (ops.ADD, ops.SUB, ops.NEG)
_LEAST = 8  # products in a sum: fewer are as fast one by one.
_ROWS = 64  # At a time: more would only keep more results alive.

Term = tuple[int, Node]  # a sign, and what is added


@attrs.frozen(eq=False)
class _Row:
    """Multiples of parts of `x` along an axis, as of PART, by their places."""

    x: Node
    axis: int
    weights: dict[int, int] = attrs.field(factory=dict)

    @property
    def is_mixed(self) -> bool:
        """True where most parts have a factor: units alone are added."""
        count = sum(abs(w) != 1 for w in self.weights.values())
        size = self.x.spec.batch[self.axis]
        return count >= max(_LEAST, size / 2) and size <= MOST_MIXED


def mix_sums(sink: Node) -> Node:
    """`sink` with sums of multiples of at least half of the parts of a batch as products."""
    order = toposort(sink)
    if not any(node.op is ops.PART for node in order):
        return sink
    users = readers(order)
    sums = [node for node in order if node.op in _SUMS]
    inner = {node for node in sums if _is_inner(node, users[node])}
    parted = {node: _parted(node, inner) for node in sums if node not in inner}
    batches: dict[tuple[Node, int], list[_Row]] = {}
    for rows, _ in parted.values():
        for row in rows:
            batches.setdefault((row.x, row.axis), []).append(row)
    if not any(len(held) > 1 for held in batches.values()):
        return sink
    places: dict[_Row, tuple[MixArg, PartArg]] = {}
    for held in batches.values():
        for some in (held[i : i + _ROWS] for i in range(0, len(held), _ROWS)):
            arg = _mix_arg(some)
            places |= {row: (arg, PartArg(j, row.axis)) for j, row in enumerate(some)}

    def summed(node: Node, new: Mapping[Node, Node]) -> Node | None:
        rows, rest = parted.get(node, ((), ()))
        total: Node | None = None
        for row in rows:
            arg, place = places[row]
            part = make(ops.PART, (make(ops.MIX, (new[row.x],), arg),), place)
            total = part if total is None else make(ops.ADD, (total, part))
        if total is not None:
            for sign, term in rest:
                total = make(ops.ADD if sign > 0 else ops.SUB, (total, new[term]))
        return total

    return rebuild(order, summed)[sink]


def _is_inner(node: Node, users: Sequence[Node]) -> bool:
    """True where a sum is a part of another one alone."""
    return len(users) == 1 and users[0].op in _SUMS and users[0].spec == node.spec


def _parted(root: Node, inner: set[Node]) -> tuple[list[_Row], list[Term]]:
    """Rows that are mixed of a sum, and the other terms."""
    rows: dict[tuple[Node, int], _Row] = {}
    terms: dict[tuple[Node, int] | None, list[Term]] = {}
    stack = [(1, root)]
    while stack:
        sign, node = stack.pop()
        if node is root or node in inner:
            signs = (
                (-sign,) if node.op is ops.NEG else (sign, -sign if node.op is ops.SUB else sign)
            )
            stack.extend(zip(signs, node.src, strict=True))
            continue
        batch = None
        part, weight = _multiple(node)
        if part.op is ops.PART and node.spec == root.spec:
            (x,), place = part.src, part.arg.index
            batch = x, part.arg.axis
            weights = rows.setdefault(batch, _Row(*batch)).weights
            weights[place] = weights.get(place, 0) + sign * weight
        terms.setdefault(batch, []).append((sign, node))
    mixed = {batch: row for batch, row in rows.items() if row.is_mixed}
    rest = [term for batch, held in terms.items() if batch not in mixed for term in held]
    return list(mixed.values()), rest


def _multiple(node: Node) -> tuple[Node, int]:
    """(x, c) of c x with a constant c, centred."""
    if node.op is ops.MUL:
        for x, c in (node.src, node.src[::-1]):
            if c.op is ops.CONST:
                return x, centered(c.arg.value, c.spec.ring.q)
    return node, 1


def _mix_arg(rows: Sequence[_Row]) -> MixArg:
    x, axis = rows[0].x, rows[0].axis
    weights = np.zeros((len(rows), x.spec.batch[axis]), object)
    for values, row in zip(weights, rows, strict=True):
        values[list(row.weights)] = list(row.weights.values())
    return MixArg(matrix_of(weights), axis or -len(x.spec.batch))
