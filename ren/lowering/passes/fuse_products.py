"""Part of pass 4: sums of products become DOT, which reduces once for up to 16 of them.

A MAC of more terms becomes several.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from ren.core import op as ops
from ren.core.node import Node, make, toposort
from ren.core.rewrite import readers, rebuild
from ren.core.spec import MacArg

# As many terms as one reduction holds (`kernels.modular`): more would only keep more arrays alive.
MAX_TERMS = 16


def fuse_products(sink: Node) -> Node:
    """`sink` with x y + z w + ... + rest as DOT(x, y, z, w, ...) + rest.

    Only products and partial sums that nothing else reads are taken in.
    """
    order = toposort(sink)
    single = {node for node, users in readers(order).items() if len(users) == 1}
    sums = [node for node in order if node.op is ops.ADD]
    absorbed = {s for node in sums for s in node.src if s.op is ops.ADD and s in single}
    return rebuild(order, lambda node, new: _fused(node, absorbed, single, new))[sink]


def _fused(
    node: Node, absorbed: set[Node], single: set[Node], new: Mapping[Node, Node]
) -> Node | None:
    """A sum with two products or more that it alone reads, or a long MAC; None for all else.

    `absorbed` are sums that are part of a larger one, `single` nodes with one reader.
    """
    if node.op is ops.MAC and len(node.src) > 1 + MAX_TERMS:
        return _divided(node, new)
    if node.op is not ops.ADD or node in absorbed:
        return None
    products, rest = [], []
    for term in _terms(node, absorbed):
        is_product = term.op is ops.MUL and term in single and term.spec == node.spec
        proper = is_product and not any(s.spec.is_constant for s in term.src)
        (products if proper else rest).append(term)
    if len(products) < 2:
        return None
    groups = [products[i : i + MAX_TERMS] for i in range(0, len(products), MAX_TERMS)]
    total = [make(ops.DOT, [new[s] for term in group for s in term.src]) for group in groups]
    return reduce(lambda a, b: make(ops.ADD, (a, b)), [*total, *(new[term] for term in rest)])


def _divided(node: Node, new: Mapping[Node, Node]) -> Node:
    """A MAC as the sum of several, each of as many terms as one reduction holds."""
    (w, *terms), indices = [new[s] for s in node.src], node.arg.indices
    parts = [
        make(ops.MAC, (w, *terms[i : i + MAX_TERMS]), MacArg(indices[i : i + MAX_TERMS]))
        for i in range(0, len(terms), MAX_TERMS)
    ]
    return reduce(lambda a, b: make(ops.ADD, (a, b)), parts)


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
