"""Pass 8: automorphisms: a permutation of the NTT order; a signed permutation of coefficients."""

from __future__ import annotations

from ren.core import op as ops
from ren.core.node import Node, make
from ren.core.rewrite import Table, rewrite
from ren.core.ring import Domain


def lower_automorphisms(sink: Node) -> Node:
    """`sink` with AUTOMORPHISM as PERMUTE, and FLIP of signs where it acts on coefficients."""
    return rewrite(sink, RULES)


def _permuted(node: Node) -> Node:
    moved = make(ops.PERMUTE, node.src, node.arg)
    return moved if node.spec.domain is Domain.NTT else make(ops.FLIP, (moved,), node.arg)


RULES: Table = {"AUTOMORPHISM": (_permuted,)}
