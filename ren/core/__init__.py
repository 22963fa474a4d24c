"""What a program is: rings, ops, nodes, rewriting. No jax, no devices."""

from ren.core.args import Spec
from ren.core.drawing import to_dot, to_mermaid
from ren.core.node import Node, buffer, const, make, placeholder, toposort
from ren.core.op import OPS, Op
from ren.core.printer import print_graph
from ren.core.ring import Domain, RingSpec
from ren.core.svg import to_svg

__all__ = [
    "OPS", "Domain", "Node", "Op", "RingSpec", "Spec",
    "buffer", "const", "make", "placeholder", "print_graph", "to_dot", "to_mermaid", "to_svg",
    "toposort",
]  # fmt: skip
