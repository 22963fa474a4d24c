"""Nodes as text: one line a node, shared nodes named once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ren.core import node as nodes
from ren.core.args import (
    AutomorphismArg,
    BufferArg,
    ConstArg,
    CopyArg,
    ModUpArg,
    PlaceholderArg,
    RingArg,
    RotateArg,
    SlotArg,
)
from ren.core.node import Node, toposort
from ren.core.ring import RingSpec


def print_graph(*roots: Node) -> str:
    """The graph under `roots` as text.

    Each line is `%k = OP %i %j [argument] : ring domain [batch]`; rings are listed at the end.

    Example:
        >>> from ren.core import const, RingSpec
        >>> print(print_graph(const(3, RingSpec(8, (17,)))))
        %0 = CONST 3 : R0 coeff
        R0: n=8, 1 limb, moduli=(17)
    """
    order = toposort(*roots)
    name = {node: f"%{i}" for i, node in enumerate(order)}
    rings: dict[RingSpec, str] = {}

    def ring_name(ring: RingSpec) -> str:
        return rings.setdefault(ring, f"R{len(rings)}")

    buffers = [n for n in order if isinstance(n.arg, BufferArg | PlaceholderArg)]
    label = {n.arg.serial: f"{n.op.name.lower()[0]}{i}" for i, n in enumerate(buffers)}
    lines = []
    for node in order:
        parts = [name[s] for s in node.src]
        parts += _argument(node.arg, ring_name, label)
        lines.append(f"{name[node]} = {' '.join([node.op.name, *parts])}{_type(node, ring_name)}")
    lines += [f"{label}: {describe_ring(ring)}" for ring, label in rings.items()]
    return "\n".join(lines)


def describe_ring(ring: RingSpec) -> str:
    """A ring in one line, long bases shortened."""
    moduli = [str(m) for m in ring.moduli]
    if len(moduli) > 6:
        moduli = [*moduli[:3], "...", *moduli[-2:]]
    plural = "" if ring.limbs == 1 else "s"
    return f"n={ring.n}, {ring.limbs} limb{plural}, moduli=({', '.join(moduli)})"


def _type(node: Node, ring_name: Callable[[RingSpec], str]) -> str:
    if node.spec is None:
        return ""
    batch = f" batch={node.spec.batch}" if node.spec.batch else ""
    return f" : {ring_name(node.spec.ring)} {node.spec.domain.value}{batch}"


def _argument(arg: Any, ring_name: Callable[[RingSpec], str], label: dict[int, str]) -> list[str]:
    match arg:
        case BufferArg() | PlaceholderArg():
            return [label[arg.serial]]
        case ConstArg():
            return [str(arg.value)]
        case RingArg():
            return [f"-> {ring_name(arg.ring)}"]
        case ModUpArg():
            return [f"digit={arg.digit} -> {ring_name(arg.ring)}"]
        case RotateArg():
            return [f"k={arg.k}"]
        case AutomorphismArg():
            return [f"g={arg.g}"]
        case SlotArg():
            return [f"s{arg.index}"]
        case CopyArg():
            return [f"-> {arg.device}"]
    return []


nodes.install_printer(print_graph)
