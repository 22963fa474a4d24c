"""Diagram: what a picture of a program shows, before anything is laid out or written.

Node graphs and plans become a `Diagram`; `ren.lowering.inspect.markup` writes one as Mermaid or
DOT, `ren.lowering.inspect.svg` draws it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import attrs

from ren.core.node import Node, toposort
from ren.core.op import Kind
from ren.core.printer import Names, shortened
from ren.core.ring import Domain
from ren.core.spec import ConstArg, ModUpArg, Spec, Work
from ren.lowering.inspect.layout import rows_of

TITLE_LENGTH = 28  # characters; the whole line is in the hint
LEGEND_RINGS = 12
NO_WORK = Work()
BANDS = 20  # boxes of a program that is too long even with its nodes grouped by depth


@attrs.frozen
class Box:
    """One box.

    Args:
        op: what it does, in a word.
        title: the first line.
        type: the type of its value.
        lines: the lines under the title.
        role: what its colour says: "coeff", "ntt", or "plain" for neither.
        work: what it costs.
        degree: n of its ring.
        hint: the whole text, for a tooltip.
        is_leaf: an input or a constant: drawn with round ends.
        is_result: drawn with a double border.
        is_ordered: its arrows end in the order of its operands, which matters.
    """

    op: str
    title: str
    type: str = ""
    lines: tuple[str, ...] = ()
    role: str = "plain"
    work: Work = NO_WORK
    degree: int = 1
    hint: str = ""
    is_leaf: bool = False
    is_result: bool = False
    is_ordered: bool = False


class Edge(NamedTuple):
    """An arrow between two boxes, by position; edges of one source and label are one value."""

    source: int
    target: int
    label: str = ""


@attrs.frozen
class Diagram:
    """Boxes, each after those that it reads, the arrows between them, and what to know of both."""

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    caption: str = ""
    legend: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """The lines under the picture."""
        return tuple(note for note in (self.caption, *self.legend) if note)

    @property
    def weights(self) -> tuple[float, ...]:
        """The size of each box in [0, 1]: the root of its share of the largest work.

        So areas, not lengths, compare like work.
        """
        values = [operations(box.work, box.degree) for box in self.boxes]
        largest = max(values, default=0) or 1
        return tuple(round(math.sqrt(value / largest), 3) for value in values)


def graph_diagram(*roots: Node) -> Diagram:
    """Every node under `roots` as a box, named as `print_graph(*roots)` names it."""
    order = toposort(*roots)
    names = Names(order)
    position = {node: i for i, node in enumerate(order)}
    results = set(roots)
    boxes = tuple(_node_box(node, names, node in results) for node in order)
    edges = tuple(Edge(position[s], i) for i, node in enumerate(order) for s in node.src)
    legend = names.rings()
    if len(legend) > LEGEND_RINGS:
        legend[LEGEND_RINGS:] = [f"and {len(legend) - LEGEND_RINGS} more rings"]
    return Diagram(boxes, edges, totals(boxes, "node"), tuple(legend))


def _node_box(node: Node, names: Names, is_result: bool) -> Box:
    work, type_ = node.work, names.type_of(node)
    typed = f"{names.node(node)} : {type_}" if type_ else names.node(node)
    return Box(
        op=node.op.name,
        title=clipped(" ".join([node.op.name, *_argument(node, names)])),
        type=type_,
        lines=tuple(line for line in (typed, describe_work(work)) if line),
        role=role_of(node.spec),
        work=work,
        degree=1 if node.spec is None else node.spec.ring.n,
        hint=names.line(node),
        is_leaf=node.op.kind in (Kind.LEAF, Kind.CONSTANT),
        is_result=is_result,
        is_ordered=len(node.src) > 1 and not node.op.is_commutative,
    )


def _argument(node: Node, names: Names) -> list[str]:
    """Short form of an argument; otherwise that of the printed line."""
    if isinstance(node.arg, ConstArg):
        return [shortened(node.arg.value)]
    if isinstance(node.arg, ModUpArg):
        return [f"{len(node.arg.digit)} of {node.src[0].spec.ring.limbs} limbs"]
    return names.argument(node.arg)


def summary(diagram: Diagram, most: int) -> Diagram:
    """The same in at most `most` boxes: boxes of one depth, op and type become one.

    Where that is still too much, boxes stand for bands of depth. Depth is counted so that each box
    comes just before its first reader.
    """
    depth = rows_of(len(diagram.boxes), diagram.edges)
    keys = [(d, b.op, b.type) for d, b in zip(depth, diagram.boxes, strict=True)]
    if len(set(keys)) <= most:
        return _grouped(diagram, keys, "boxes of one depth, op and type are drawn as one")
    deepest = max(depth)
    thick = math.ceil((1 + deepest) / min(BANDS, most))
    bands: list[Key] = []
    for start in (d // thick * thick for d in depth):
        end = min(start + thick - 1, deepest)
        bands.append((start, f"depth {start:,} to {end:,}", ""))
    return _grouped(diagram, bands, f"{thick:,} depths are drawn as one")


Key = tuple[int, str, str]  # depth, op or name of the band, type


def _grouped(diagram: Diagram, key_of: Sequence[Key], how: str) -> Diagram:
    groups: dict[Key, list[Box]] = {}
    for key, box in zip(key_of, diagram.boxes, strict=True):
        groups.setdefault(key, []).append(box)
    keys = sorted(groups)  # by depth first: edges lead to greater depths only
    position = {k: i for i, k in enumerate(keys)}
    boxes = tuple(_group_box(k, groups[k]) for k in keys)
    ends = {(position[key_of[e.source]], position[key_of[e.target]]) for e in diagram.edges}
    edges = tuple(Edge(a, b) for a, b in sorted(ends) if a != b)
    return Diagram(boxes, edges, f"Summarized: {how}. {diagram.caption}", diagram.legend)


def _group_box(key: Key, boxes: list[Box]) -> Box:
    _, title, type_ = key
    work = sum((b.work for b in boxes), NO_WORK)
    if title != boxes[0].op:  # a band
        lines = counted(b.op for b in boxes)
    else:
        lines = [type_]
        title += f" x{len(boxes):,}" if len(boxes) > 1 else ""
    roles = {b.role for b in boxes if not b.is_leaf} or {b.role for b in boxes}
    return Box(
        op=title,
        title=clipped(title),
        type=type_,
        lines=tuple(line for line in (*lines, describe_work(work)) if line),
        role=roles.pop() if len(roles) == 1 else "plain",
        work=work,
        degree=max(b.degree for b in boxes),
        hint=f"{len(boxes):,} boxes",
        is_leaf=all(b.is_leaf for b in boxes),
        is_result=any(b.is_result for b in boxes),
    )


def counted(names: Iterable[str], most: int = 3) -> list[str]:
    """`MUL x3, ADD`: the most frequent first, the rest counted together; a line for each two."""
    counts = sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))
    words = [f"{name} x{count:,}" if count > 1 else name for name, count in counts[:most]]
    if rest := sum(count for _, count in counts[most:]):
        words.append(f"{rest:,} other{'s' * (rest > 1)}")
    return [", ".join(words[i : i + 2]) for i in range(0, len(words), 2)]


def role_of(spec: Spec | None) -> str:
    """The colour of a value: its domain."""
    if spec is None:
        return "plain"
    return "ntt" if spec.domain is Domain.NTT else "coeff"


def operations(work: Work, n: int) -> int:
    """Multiply-adds, those inside transforms included: n/2 log2 n butterflies for a limb."""
    return work.multiply_adds + work.limb_ntts * (n // 2) * (n.bit_length() - 1)


def describe_work(work: Work) -> str:
    """`6 limb-NTTs, 1.2M mul-adds`; empty for no work."""
    parts = []
    if work.limb_ntts:
        parts.append(f"{work.limb_ntts:,} limb-NTT{'s' * (work.limb_ntts > 1)}")
    if work.multiply_adds:
        parts.append(f"{rounded(work.multiply_adds)} mul-adds")
    return ", ".join(parts)


def rounded(value: int) -> str:
    """A count in three or four characters: 950, 1.2k, 34M."""
    amount, unit = float(value), ""
    for larger in ("k", "M", "G", "T"):
        if amount < 999.5:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.1f}{unit}" if unit and amount < 9.95 else f"{amount:.0f}{unit}"


def clipped(text: str, length: int = TITLE_LENGTH) -> str:
    """`text`, cut where it is too long for a box."""
    return text if len(text) <= length else text[: length - 1] + "…"


def totals(boxes: Sequence[Box], what: str) -> str:
    """Number of boxes, and their work, as text."""
    work = describe_work(sum((b.work for b in boxes), NO_WORK))
    return f"{len(boxes):,} {what}{'s' * (len(boxes) != 1)}{work and ', '}{work}"
