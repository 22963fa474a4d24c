"""Nodes as text: one line a node, shared nodes named once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import attrs

from ren.core import node as nodes
from ren.core import spec as args
from ren.core.node import Node, toposort
from ren.core.op import Kind
from ren.core.ring import Domain, RingSpec
from ren.core.spec import Spec


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
    names = Names(order)
    return "\n".join([*(names.line(node) for node in order), *names.rings()])


class Names:
    """Names of the nodes, buffers and rings of one printed graph.

    Names depend on positions only, never on serials or identities, so that equal programs print
    alike. Rings are named R0, R1, ... in the order in which they are asked for; `share_rings_with`
    makes several graphs call them alike.
    """

    def __init__(self, order: Iterable[Node], share_rings_with: Names | None = None) -> None:
        order = list(order)
        leaves = [n for n in order if hasattr(n.arg, "serial")]
        self._node = {node: f"%{i}" for i, node in enumerate(order)}
        self._leaf = {n.arg.serial: f"{n.op.name.lower()[0]}{i}" for i, n in enumerate(leaves)}
        self._ring: dict[RingSpec, str] = share_rings_with._ring if share_rings_with else {}

    def node(self, node: Node) -> str:
        """`%k`, k the position of the node."""
        return self._node[node]

    def ring(self, ring: RingSpec) -> str:
        """`R0`, `R1`, ..."""
        return self._ring.setdefault(ring, f"R{len(self._ring)}")

    def rings(self) -> list[str]:
        """A line for each ring named so far."""
        return [f"{name}: {describe_ring(ring)}" for ring, name in self._ring.items()]

    def line(self, node: Node) -> str:
        """`%k = OP %i %j [argument] : ring domain [batch]`."""
        parts = [node.op.name, *map(self.node, node.src), *self.argument(node.arg)]
        typed = " : " * (node.spec is not None) + self.type_of(node)
        return f"{self.node(node)} = {' '.join(parts)}{typed}"

    def type_of(self, node: Node) -> str:
        """`R0 coeff [batch]`; nothing for a node without a value."""
        return "" if node.spec is None else self.type(node.spec)

    def type(self, spec: Spec) -> str:
        """`R0 coeff [batch]`."""
        batch = f" batch={spec.batch}" if spec.batch else ""
        return f"{self.ring(spec.ring)} {spec.domain.value}{batch}"

    def argument(self, arg: Any) -> list[str]:
        """The argument of a node in words; fields of classes unknown here print as `name=value`."""
        match arg:
            case args.PlaceholderArg(label=label) if label:
                return [self._leaf[arg.serial], f"key={label}"]
            case args.BufferArg() | args.PlaceholderArg() | args.ScalarArg():
                return [self._leaf[arg.serial]]
            case args.ConstArg():
                return [str(arg.value)]
            case args.RingArg():
                return [f"-> {self.ring(arg.ring)}"]
            case args.ModUpArg():
                return [f"digit={arg.digit} -> {self.ring(arg.ring)}"]
            case args.SlotArg():
                return [f"s{arg.index}" if arg.index >= 0 else f"out{-1 - arg.index}"]
            case args.CopyArg():
                return [f"-> {arg.device}"]
            case args.ReservedArg():
                return [str(arg.index)]
            case args.KernelArg():
                return [f"{{{body_name(arg.body)}}} -> {', '.join(map(str, arg.places))}"]
        texts = {f.name: self._field(getattr(arg, f.name)) for f in attrs.fields(type(arg))}
        return [f"{name}={text}" for name, text in texts.items() if text is not None]

    def _field(self, value: Any) -> str | None:
        """Only values that print alike in every run; others are left out."""
        if isinstance(value, RingSpec):
            return self.ring(value)
        if isinstance(value, Domain):
            return value.value
        plain = value if isinstance(value, tuple) else (value,)
        return str(value) if all(isinstance(v, int | str) for v in plain) else None


def body_name(body: Node) -> str:
    """The ops of a kernel that compute, in order of first use, with their counts: "MULx2 ADD"."""
    working = (Kind.ELEMENTWISE, Kind.TRANSFORM)
    counts = Counter(n.op.name for n in toposort(body) if n.op.kind in working)
    return " ".join(f"{name}x{k}" if k > 1 else name for name, k in counts.items()) or "STORE"


def describe_ring(ring: RingSpec) -> str:
    """A ring in one line, long bases shortened."""
    moduli = [str(m) for m in ring.moduli]
    if len(moduli) > 6:
        moduli = [*moduli[:3], "...", *moduli[-2:]]
    return f"n={ring.n}, {ring.limbs} limb{'s' * (ring.limbs > 1)}, moduli=({', '.join(moduli)})"


def shortened(value: int) -> str:
    """An integer in full up to 18 digits, else its ends and how many digits it has."""
    digits = str(abs(value))
    if len(digits) <= 18:
        return str(value)
    return f"{'-' * (value < 0)}{digits[:6]}...{digits[-6:]} ({len(digits)} digits)"


nodes.text_of = print_graph
