"""Cuts of a program into parts that are one native call each, found before anything is lowered.

A part is a run of nodes. A cheap count tells what one call would hold: arrays, tables, rows, and
the bytes between its phases. A part is as long as these allow, and ends where few bytes cross.

Long sums over the same factors, such as both polynomials of a rotated sum, are interleaved first.
So a factor and the table of its rotation belong to one part.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ren.core import op as ops
from ren.core.node import Node
from ren.core.op import Kind
from ren.lowering.backends.native import bytecode, limb_program
from ren.lowering.program.instructions import INSTRUCTIONS
from ren.lowering.program.steps import nbytes

# Fewer rows are lowered at once, which shows what they keep. A cut of them would only make arrays
# of what need not outlive a phase.
MANY_ROWS = 20_000
_TABLED = frozenset({ops.PERMUTE, ops.FLIP})
_ALIASES = frozenset({ops.VIEW, ops.JOIN, ops.PART, ops.STACK})  # rows of what they read
_APART = frozenset({ops.MAC, ops.PART})  # take an axis of the first source apart
_MADE = frozenset({ops.STACK, ops.MIX})  # make an axis that is taken apart


def parts_of(group: list[Node], roots: Iterable[Node]) -> list[list[Node]]:
    """The nodes of one degree in runs, none of them surely beyond a call: one if all of it fits.

    Args:
        group: in topological order.
        roots: the nodes of it that are read elsewhere.
    """
    kept = frozenset(roots)
    if _fits(group, _longest(group, kept)):
        return [group]
    left, parts = _interleaved(group), list[list[Node]]()
    while left:
        end = _longest(left, kept)
        while not _fits(left[:end], end):
            end = _cut(left, kept, end // 4, end - end // 4)
        if end < len(left):
            end = _cut(left, kept, end - end // 4, end)
        parts.append(left[:end])
        left = left[end:]
    return parts


def halves(part: list[Node], roots: Iterable[Node]) -> tuple[list[Node], list[Node]]:
    """A part in two runs, cut where the fewest bytes cross, in its middle half."""
    quarter = len(part) // 4
    end = _cut(part, frozenset(roots), quarter + 1, len(part) - quarter)
    return part[:end], part[end:]


def size_of(order: Sequence[Node], threads: int) -> tuple[int, int]:
    """About the limb rows of a whole program, and the bytes that wait between its phases.

    Positions of an axis that is taken apart wait together. Of others, as many as threads do.

    Args:
        order: nodes after the passes of algebra, without leaves, in topological order.
        threads: as of `bytes_between`.
    """
    apart = {s for s in _taken_apart(order) if s.spec.batch}
    for _ in range(2):  # what meets in an operation is alike
        for node in order:
            if node.spec.batch and (
                node.op in _MADE or (node.op not in _APART and not apart.isdisjoint(node.src))
            ):
                apart.add(node)
        for node in reversed(order):
            if node in apart and node.op is not ops.STACK:
                src = node.src[node.op in _APART :]
                apart.update(s for s in src if s.spec.batch)

    def positions(node: Node) -> int:
        whole = math.prod(node.spec.batch[:1]) if node in apart else 1
        return whole * min(math.prod(node.spec.batch) // whole, threads)

    return sum(_rows(node, apart) for node in order), _bytes_between(order, positions)


def _fits(part: Sequence[Node], longest: int) -> bool:
    """Whether a call holds a part, the longest run of which has this length."""
    if longest < len(part):
        return False
    rows = sum(node.spec.ring.limbs for node in part)
    return len(part) < 2 or rows <= MANY_ROWS or _bytes_between(part) <= 3 * bytecode.MOST_KEPT


def _last_readers(part: Sequence[Node], roots: frozenset[Node]) -> dict[Node, int]:
    """The position of the last reader of each node; behind all of them for roots."""
    last = {s: i for i, node in enumerate(part) for s in node.src}
    last.update(dict.fromkeys(roots, len(part)))
    return last


def _longest(part: Sequence[Node], roots: frozenset[Node]) -> int:
    """The length of the longest run from the start that has few enough arrays, tables and rows."""
    most, limit = bytecode.MOST_BUFFERS - 2, limb_program.MOST_ROWS
    last, inside, outside = _last_readers(part, roots), set[Node](), set[Node]()
    apart, tables, ends = _taken_apart(part), set[object](), Counter[int]()
    live = rows = longest = 0
    for i, node in enumerate(part):
        for s in node.src:
            if s not in inside and s not in outside:
                outside.add(s)
                rows += _rows(s, apart)
        inside.add(node)
        rows += _rows(node, apart)
        if node.op in _TABLED:
            tables.add(node.arg)
        elif node.op.kind is Kind.TRANSFORM:
            tables.update(node.spec.ring.moduli)
        live += 1 - ends[i]
        ends[last.get(node, i)] += 1
        if last.get(node, i) <= i:
            live -= 1
        if len(outside) + len(tables) >= most or rows > limit:
            break
        if len(outside) + len(tables) + live < most:
            longest = i + 1
    return max(longest, 1)


def _taken_apart(part: Sequence[Node]) -> set[Node]:
    """The nodes each position of whose first batch axis has rows of its own."""
    found = set[Node]()
    for node in reversed(part):
        if node.op in _APART:
            found.add(node.src[0])
        elif node in found and node.op is not ops.STACK:
            found.update(node.src)
    return found


def _rows(node: Node, apart: set[Node]) -> int:
    if node.op in _ALIASES:
        return 0
    return node.spec.ring.limbs * (node.spec.batch[0] if node in apart and node.spec.batch else 1)


def _cut(part: Sequence[Node], roots: frozenset[Node], low: int, high: int) -> int:
    """The length from `low` to `high` after which the fewest bytes cross, the longest of equals."""
    last, ends = _last_readers(part, roots), Counter[int]()
    crossing, best = 0, (0, max(low, 1))
    for i, node in enumerate(part[:high]):
        end = last.get(node, i)
        crossing -= ends[i]
        if end > i:
            crossing += nbytes(node.spec)
            ends[end] += nbytes(node.spec)
        if i + 1 >= max(low, 1) and (i + 1 == max(low, 1) or crossing <= best[0]):
            best = crossing, i + 1
    return best[1]


def _is_conversion(node: Node) -> bool:
    """Whether a node reads several rows of its source at once, in a phase of its own."""
    if node.op is ops.LIFT:
        return INSTRUCTIONS["LIFT"].structure(node) != "from"
    return node.op is ops.CONVERT


def _bytes_between(part: Sequence[Node], positions: Callable[[Node], int] = lambda node: 1) -> int:
    """The most bytes of values that wait between two phases, of so many positions: an upper bound.

    What is made of inputs alone is made where it is read, and so is more: a third may remain.
    Conversions divide the phases of rows. All rows of a phase are computed before the next one.
    Words of integers are lifted row by row, in the phase that reads them.
    """
    phase: dict[Node, int] = {}
    for node in part:
        before = max((phase.get(s, 0) for s in node.src), default=0)
        is_odd = _is_conversion(node)
        phase[node] = before + (before % 2 != is_odd)
        if is_odd and before % 2:
            phase[node] = before + 2
    until, since = dict[Node, int](), dict[Node, int]()
    for node in reversed(part):
        if not phase[node]:
            phase[node] = since.get(node, 0)
        read = until.get(node, 0) if node.op in _ALIASES else phase[node]
        first = since.get(node, 0) if node.op in _ALIASES else phase[node]
        for s in node.src:
            until[s], since[s] = max(until.get(s, 0), read), min(since.get(s, first), first)
    change = Counter[int]()
    for node in part:
        if node.op not in _ALIASES and until.get(node, 0) > phase[node]:
            size = 4 * node.spec.ring.limbs * node.spec.ring.n * positions(node)
            change[phase[node]] += size
            change[until[node]] -= size
    most = total = 0
    for _, size in sorted(change.items()):
        total += size
        most = max(most, total)
    return most


def _interleaved(group: Sequence[Node]) -> list[Node]:
    """The nodes in the order of the factors that several of them read, each as late as before.

    A node that meets factors of two places is a milestone, such as a sum of products. Milestones
    are sorted by the last factor below them, and what they need is made before each.
    """
    inside = set(group)
    count = Counter(s for node in group for s in node.src if s.op.kind is Kind.LEAF)
    place: dict[Node, int] = {}
    milestones = list[tuple[int, int]]()
    for i, node in enumerate(group):
        places = set[int]()
        for s in node.src:
            if s in place:
                places.add(place[s])
            elif count[s] > 1:
                places.add(s.arg.serial)  # in the order of the captured program
        if places:
            place[node] = max(places)
        if len(places) > 1:
            milestones.append((place[node], i))
    done: dict[Node, None] = {}
    for node in (*(group[i] for _, i in sorted(milestones)), *group):
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [s for s in reversed(top.src) if s in inside and s not in done]
            if missing:
                stack += missing
            else:
                done[stack.pop()] = None
    return list(done)
