"""Program representation: rings, ops, nodes, rewriting. No jax, no devices."""

from ren.core.node import Node, buffer, const, make, placeholder, toposort
from ren.core.op import OPS, Op
from ren.core.printer import print_graph
from ren.core.ring import Domain, RingSpec
from ren.core.spec import Spec

__all__ = [
    "OPS", "Domain", "Node", "Op", "RingSpec", "Spec",
    "buffer", "const", "make", "placeholder", "print_graph", "toposort",
]  # fmt: skip
