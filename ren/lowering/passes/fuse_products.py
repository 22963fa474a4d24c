"""Part of pass 4: sums of products become DOT, which reduces once for up to 16 of them."""

from __future__ import annotations

from ren.core import op as ops
from ren.core.node import Node, make, toposort

# As many terms as one reduction holds (`kernels.modular`): more would only keep more arrays alive.
MAX_TERMS = 16


def fuse_products(sink: Node) -> Node:
    """`sink` with x y + z w + ... + rest as DOT(x, y, z, w, ...) + rest.

    Only products and partial sums that nothing else reads are taken in.
    """
    order = toposort(sink)
    uses: dict[Node, int] = {}
    absorbed: set[Node] = set()  # sums that are part of a larger one
    for node in order:
        for s in node.src:
            uses[s] = uses.get(s, 0) + 1
    for node in order:
        if node.op is ops.ADD:
            absorbed.update(s for s in node.src if s.op is ops.ADD and uses[s] == 1)
    new: dict[Node, Node] = {}
    for node in order:
        fused = None
        if node.op is ops.ADD and node not in absorbed:
            fused = _fused(node, absorbed, uses, new)
        if fused is None:
            src = tuple(new[s] for s in node.src)
            fused = node if src == node.src else make(node.op, src, node.arg)
        new[node] = fused
    return new[sink]


def _fused(
    node: Node, absorbed: set[Node], uses: dict[Node, int], new: dict[Node, Node]
) -> Node | None:
    products, rest = [], []
    for term in _terms(node, absorbed):
        is_product = term.op is ops.MUL and uses[term] == 1 and term.spec == node.spec
        proper = is_product and not any(s.spec.is_constant for s in term.src)
        (products if proper else rest).append(term)
    if len(products) < 2:
        return None
    groups = [products[i : i + MAX_TERMS] for i in range(0, len(products), MAX_TERMS)]
    total = [make(ops.DOT, [new[s] for term in group for s in term.src]) for group in groups]
    total += [new[term] for term in rest]
    made = total[0]
    for term in total[1:]:
        made = make(ops.ADD, (made, term))
    return made


def _terms(node: Node, absorbed: set[Node]) -> list[Node]:
    """The operands of a sum, through the partial sums that are its own, left to right."""
    terms, stack = [], list(reversed(node.src))
    while stack:
        term = stack.pop()
        if term in absorbed:
            stack.extend(reversed(term.src))
        else:
            terms.append(term)
    return terms
