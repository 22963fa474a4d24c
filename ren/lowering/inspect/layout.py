"""Layout of a layered picture's boxes and arrows: rows by depth, few crossings, no overlap.

The four steps: rows are assigned by longest path. A value that is read further down gets a point in
each row between. So its line has a place of its own. The order in a row follows the mean position
of the neighbours. Places follow the neighbours too, kept apart by a least-squares fit.

Reference: Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system
structures", 1981.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from functools import partial

import attrs

ROW_GAP, LABELLED_GAP = 34.0, 20.0
SIDE_GAP = 16.0
SWEEPS = 24
STIFFNESS = 4.0  # of long lines, next to boxes

Point = tuple[float, float]
EdgeKey = tuple[int, int, str]  # source, target, label


@attrs.frozen
class Segment:
    """A piece of an arrow: straight down to the end of the row, across a gap, straight down."""

    points: tuple[Point, Point, Point, Point]
    is_last: bool  # ends at a box


@attrs.frozen
class Layout:
    """Centres of boxes and of labels, arrows in segments, and the size of it all.

    Attributes:
        boxes: the centre of each box.
        labels: for each value with a label, (source, label) -> centre.
        segments: the arrows.
        width, height: everything lies in [0, width] x [0, height].
    """

    boxes: tuple[Point, ...]
    labels: dict[tuple[int, str], Point]
    segments: tuple[Segment, ...]
    width: float
    height: float


@attrs.define(eq=False)
class _Vertex:
    """A box, or a point of a long line."""

    row: int
    width: float
    height: float
    row_height: float = 0.0
    x: float = 0.0
    y: float = 0.0
    above: list[_Vertex] = attrs.Factory(list)
    below: list[_Vertex] = attrs.Factory(list)
    is_box: bool = False


def layered(
    sizes: Sequence[Point],
    edges: Sequence[EdgeKey],
    label_sizes: dict[str, Point] | None = None,
    ordered: Collection[int] = (),
) -> Layout:
    """The layout of boxes of the given sizes, each after those that it reads.

    Args:
        sizes: width and height of each box.
        edges: source, target and label; source < target. Edges of one source and label are one
            line that branches.
        label_sizes: what each label takes; labels stand in rows between those of the boxes.
        ordered: boxes at which arrows end in the order of `edges`, not in that of least crossing.
    """
    label_sizes = label_sizes or {}
    starts = rows_of(len(sizes), edges, 2 if label_sizes else 1)
    boxes = [_Vertex(r, w, h, is_box=True) for r, (w, h) in zip(starts, sizes, strict=True)]
    lines = _lines(boxes, edges, label_sizes)
    everything = [*boxes, *(v for line in lines.values() for v in line)]
    by_row = itertools.groupby(sorted(everything, key=lambda v: v.row), key=lambda v: v.row)
    rows = [list(row) for _, row in by_row]
    _order(rows)
    _place(rows)
    height = _stack(rows, LABELLED_GAP if label_sizes else ROW_GAP)
    shift = min((v.x - v.width / 2 for v in everything), default=0.0)
    for v in everything:
        v.x -= shift
    width = max((v.x + v.width / 2 for v in everything), default=0.0)
    labels = {key: (line[0].x, line[0].y) for key, line in lines.items() if key[1]}
    segments = tuple(_segments(boxes, lines, edges, ordered))
    return Layout(tuple((v.x, v.y) for v in boxes), labels, segments, width, height)


def rows_of(boxes: int, edges: Sequence[EdgeKey], step: int = 1) -> list[int]:
    """The row of each box, `step` above its first reader: by the longest path to a result."""
    under = [0] * boxes
    for source, target, _ in sorted(edges, reverse=True):
        under[source] = max(under[source], under[target] + step)
    last = max(under, default=0)
    return [last - d for d in under]


Lines = dict[tuple[int, str], list[_Vertex]]


def _lines(boxes: list[_Vertex], edges: Sequence[EdgeKey], label_sizes: dict[str, Point]) -> Lines:
    """For each value the points of its line, from the row under its source on; joins neighbours."""
    lines: Lines = {}
    for source, target, label in edges:
        line = lines.setdefault((source, label), [])
        while boxes[source].row + len(line) + 1 < boxes[target].row:
            size = (8.0, 0.0) if line else label_sizes.get(label, (8.0, 0.0))
            point = _Vertex(boxes[source].row + len(line) + 1, *size)
            _join(line[-1] if line else boxes[source], point)
            line.append(point)
        _join(_end(boxes, line, source, target), boxes[target])
    return lines


def _end(boxes: list[_Vertex], line: list[_Vertex], source: int, target: int) -> _Vertex:
    """The vertex of a line in the row above its target."""
    passed = boxes[target].row - boxes[source].row - 1
    return line[passed - 1] if passed else boxes[source]


def _join(above: _Vertex, below: _Vertex) -> None:
    above.below.append(below)
    below.above.append(above)


def _order(rows: list[list[_Vertex]]) -> None:
    """Sorts each row by the mean position of its neighbours, down and up; keeps the best found."""
    best, fewest = [list(row) for row in rows], _crossings(rows)
    for sweep in range(SWEEPS):
        if fewest == 0:
            break
        downward = sweep % 2 == 0
        position = {v: i for row in rows for i, v in enumerate(row)}
        for row in rows if downward else reversed(rows):
            row.sort(key=partial(_barycenter, position=position, downward=downward))
            position.update({v: i for i, v in enumerate(row)})
        crossings = _crossings(rows)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    rows[:] = best


def _barycenter(v: _Vertex, position: dict[_Vertex, int], downward: bool) -> float:
    near = v.above if downward else v.below
    return sum(position[w] for w in near) / len(near) if near else float(position[v])


def _crossings(rows: list[list[_Vertex]]) -> int:
    total = 0
    for upper, lower in itertools.pairwise(rows):
        position = {v: i for i, v in enumerate(lower)}
        seen: list[int] = []
        for v in upper:
            ends = [position[w] for w in v.below]
            total += sum(other > end for end in ends for other in seen)
            seen += ends
    return total


def _place(rows: list[list[_Vertex]]) -> None:
    for row in rows:
        _fit(row, [0.0] * len(row))
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _fit(row, [_desired(v) for v in row])


def _desired(v: _Vertex) -> float:
    """The mean of the neighbours; along a line its own points count most, to keep it straight."""
    near = [(w.x, 1.0 if v.is_box or w.is_box else STIFFNESS) for w in (*v.above, *v.below)]
    total = sum(weight for _, weight in near)
    return sum(x * weight for x, weight in near) / total if near else v.x


def _fit(row: list[_Vertex], desired: list[float]) -> None:
    """The places nearest to `desired` in the squared sense that keep order and distance.

    With the distances taken out this is a monotone fit: neighbours out of order are pooled.
    """
    offset, offsets = 0.0, [0.0]
    for left, right in itertools.pairwise(row):
        offset += (left.width + right.width) / 2 + SIDE_GAP
        offsets.append(offset)
    pools: list[tuple[float, float, int]] = []  # weighted sum, weight, members
    for v, want, away in zip(row, desired, offsets, strict=True):
        weight = 1.0 if v.is_box else STIFFNESS
        pools.append((weight * (want - away), weight, 1))
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            right, left = pools.pop(), pools.pop()
            pools.append((left[0] + right[0], left[1] + right[1], left[2] + right[2]))
    fitted = [total / weight for total, weight, members in pools for _ in range(members)]
    for v, place, away in zip(row, fitted, offsets, strict=True):
        v.x = place + away


def _stack(rows: list[list[_Vertex]], gap: float) -> float:
    """Sets the heights of the rows; the gap over a row grows with how far its arrows lean."""
    y = 0.0
    for row in rows:
        lean = max((abs(v.x - a.x) for v in row for a in v.above), default=0.0)
        y += (gap + min(lean / 12, ROW_GAP)) if row[0].row else 0.0
        tall = max(v.height for v in row)
        for v in row:
            v.y, v.row_height = y + tall / 2, tall
        y += tall
    return y


def _segments(
    boxes: list[_Vertex],
    lines: Lines,
    edges: Sequence[EdgeKey],
    ordered: Collection[int],
) -> list[Segment]:
    segments: list[Segment] = []
    for (source, _), line in lines.items():
        path = [boxes[source], *line]
        segments += [_segment(a, b, b.x) for a, b in itertools.pairwise(path)]
    arriving: dict[int, list[_Vertex]] = {}
    for source, target, label in edges:
        end = _end(boxes, lines[source, label], source, target)
        arriving.setdefault(target, []).append(end)
    for target, ends in arriving.items():
        if target not in ordered:
            ends.sort(key=lambda v: v.x)
        for i, end in enumerate(ends):
            x = _port(boxes[target], i, len(ends))
            segments.append(_segment(end, boxes[target], x))
    return segments


def _port(box: _Vertex, i: int, count: int) -> float:
    """Position of the i-th of `count` arrows on the upper edge: operands from left to right."""
    spread = min(box.width - 24, 18.0 * (count - 1))
    return box.x + (spread * (i / (count - 1) - 0.5) if count > 1 else 0.0)


def _segment(a: _Vertex, b: _Vertex, x: float) -> Segment:
    row_end, row_start = a.y + a.row_height / 2, b.y - b.row_height / 2
    start, stop = a.y + a.height / 2, b.y - b.height / 2
    return Segment(((a.x, start), (a.x, row_end), (x, row_start), (x, stop)), b.is_box)
