"""Rows put into phases and tasks, each task in an order, each row in its place.

A phase is a set of tasks that can run at once; the next begins when all are done. Phases of rows
alternate with phases of base conversions. The tasks of rows are chains of steps on a few rows that
stay in the cache. The tasks of conversions are columns.

Tasks run as late as what reads them allows, so that few rows outlive a phase. Only the division at
the end reads a rotation limb's products with a key. There they join the task that reads them, and
stay in the cache of its core.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import attrs

from ren.lowering.backends.native.limb_program import (
    WHOLE_ROW,
    Conversion,
    LoweringError,
    Row,
    Rows,
)
from ren.lowering.devices.devices import threads

SCRATCH, CONSTANT, KEPT = 4095, 4094, 4093  # the numbers of buffers that are no arguments
ROW_BITS = 20
MAX_TERMS = 16  # of a sum of products that is reduced once
_TERM_RESIDUES = 1 << 17  # of the rows that a sum waits for: more would not stay in the L2 cache
LEAVES = frozenset({"input", "constant", "converted"})  # rows that no task computes


def reference(buffer: int, row: int) -> int:
    """A row of a buffer, as one word.

    Raises:
        LoweringError: there are too many rows for that.
    """
    if row >> ROW_BITS:
        raise LoweringError("a buffer has over 2^20 limb rows", is_too_large=True)
    return buffer << ROW_BITS | row


class Placed(NamedTuple):
    """A step with the places of what it makes and reads."""

    row: Row
    to: int
    src: tuple[int, ...]


@attrs.frozen
class PlacedConversion:
    """A conversion with its places."""

    conversion: Conversion
    src: tuple[int, ...]
    to: tuple[int, ...]


@attrs.frozen
class Schedule:
    """Schedule of a call: its phases in order, and the rows that they need.

    Attributes:
        phases: of tasks, each a list of steps; or of conversions.
        scratch: the rows that a task has for itself.
        kept: the places of rows that outlive their phase and are neither inputs nor outputs.
    """

    phases: tuple[tuple[tuple[Placed, ...], ...] | tuple[PlacedConversion, ...], ...]
    scratch: int
    kept: int


def with_split_sums(rows: Rows) -> Rows:
    """The same with long sums of products in parts, so that few rows wait for each other."""
    terms = min(MAX_TERMS, max(1, _TERM_RESIDUES // rows.n))
    if all(row.step != "dot" or len(row.src) <= 2 * terms for row in rows.rows):
        return rows
    made: list[Row] = []
    new: list[int] = []
    for row in rows.rows:
        src = tuple(new[s] for s in row.src)
        if row.step == "dot" and len(src) > 2 * terms:
            made.append(Row("dot", row.given, src[: 2 * terms]))
            for start in range(2 * terms, len(src), 2 * terms):
                part = (len(made) - 1, *src[start : start + 2 * terms])
                made.append(Row("dot", row.given, part))
        else:
            made.append(Row(row.step, row.given, src))
        new.append(len(made) - 1)
    conversions = tuple(Conversion(c.table, tuple(new[s] for s in c.src)) for c in rows.conversions)
    outputs = tuple(tuple(new[r] for r in output) for output in rows.outputs)
    return attrs.evolve(rows, rows=tuple(made), conversions=conversions, outputs=outputs)


def with_own_repeats(rows: Rows) -> Rows:
    """The same with a "repeat" for each row that reads one: cheaper than a row that waits."""
    if all(row.step != "repeat" for row in rows.rows):
        return rows
    made: list[Row] = []
    new: dict[int, int] = {}

    def place(r: int) -> int:
        if rows.rows[r].step != "repeat":
            return new[r]
        row = rows.rows[r]
        made.append(Row(row.step, row.given, (new[row.src[0]],)))
        return len(made) - 1

    for r, row in enumerate(rows.rows):
        if row.step != "repeat":
            src = tuple(map(place, row.src))
            made.append(Row(row.step, row.given, src))
            new[r] = len(made) - 1
    conversions = tuple(Conversion(c.table, tuple(map(place, c.src))) for c in rows.conversions)
    outputs = tuple(tuple(map(place, output)) for output in rows.outputs)
    return attrs.evolve(rows, rows=tuple(made), conversions=conversions, outputs=outputs)


def with_own_outputs(rows: Rows) -> Rows:
    """The same with a copy for each output row that is an input, a constant or another output."""
    made, seen = list(rows.rows), set[int]()
    outputs = []
    for number, output in enumerate(rows.outputs):
        own = []
        for limb, r in enumerate(output):
            if r in seen or made[r].step in ("input", "constant"):
                made.append(Row("copy", (number, limb), (r,)))
                r = len(made) - 1
            seen.add(r)
            own.append(r)
        outputs.append(tuple(own))
    return attrs.evolve(rows, rows=tuple(made), outputs=tuple(outputs))


def scheduled(rows: Rows, inputs: Sequence[int], outputs: Sequence[int]) -> Schedule:
    """A schedule of rows after the functions `with_..` above.

    Args:
        rows: what to compute.
        inputs: the buffer of each input.
        outputs: the buffer of each output.
    """
    levels, converted = _levels(rows)
    if rows.conversions:  # else there is one phase, and nothing is kept
        levels, converted = delayed(rows, levels, converted)
    tasks = [(levels[members[0]], _ordered(rows, members)) for members in _tasks(rows, levels)]
    tasks.sort(key=lambda task: (task[0], -len(task[1])))  # the longest of a phase first
    targets = _targets(rows)
    places = _fixed(rows, inputs, outputs)
    count = 0
    if rows.conversions:
        count = _Keeper(rows, levels, converted, places).keep(tasks, targets)
    phases: dict[int, list] = defaultdict(list)
    for level, conversion, made in zip(converted, rows.conversions, targets, strict=True):
        to = tuple(places[r] for r in made)
        src = tuple(places[r] for r in conversion.src)
        phases[level].append(PlacedConversion(conversion, src, to))
    scratch = 0
    for level, order in tasks:
        steps, used = _placed(rows, order, places)
        phases[level].append(steps)
        scratch = max(scratch, used)
    return Schedule(tuple(tuple(phases[level]) for level in sorted(phases)), scratch, count)


def _targets(rows: Rows) -> list[list[int]]:
    """The rows of each conversion; what is not read of one has a place too."""
    found: list[list[int]] = [[] for _ in rows.conversions]
    for r, row in enumerate(rows.rows):
        if row.step == "converted":
            found[row.given[0]].append(r)
    return found


def _levels(rows: Rows) -> tuple[list[int], list[int]]:
    """The phase of each row, even, -1 for inputs; and of each conversion, odd."""
    levels: list[int] = []
    converted = [0] * len(rows.conversions)
    for step, given, src in rows.rows:
        before = -1
        for s in src:
            if levels[s] > before:
                before = levels[s]
        if step == "converted":
            level = max(before, 0) + 1 if before % 2 == 0 or before < 0 else before + 2
            converted[given[0]] = level
        elif step in LEAVES:
            level = -1
        else:
            level = max(before, 0) + max(before, 0) % 2
        levels.append(level)
    return levels, converted


def _tasks(rows: Rows, levels: Sequence[int]) -> list[list[int]]:
    """The rows of each task: those of one phase that read each other."""
    parent = list(range(len(levels)))
    computed = [r for r, row in enumerate(rows.rows) if row.step not in LEAVES]
    for r in computed:
        level = levels[r]  # leaves have none of these
        for s in rows.rows[r].src:
            if levels[s] == level:
                while parent[s] != s:
                    parent[s] = s = parent[parent[s]]
                parent[s] = r
    found: dict[int, list[int]] = defaultdict(list)
    for r in computed:
        s = r
        while parent[s] != s:
            parent[s] = s = parent[parent[s]]
        found[s].append(r)
    return list(found.values())


def delayed(
    rows: Rows, levels: Sequence[int], converted: Sequence[int]
) -> tuple[list[int], list[int]]:
    """The phases of rows and of conversions, with both as late as can be.

    A task stays where no fewer rows of earlier tasks would wait for it than wait by its own. And
    where some tasks of a phase cannot wait, so many of the others stay that all threads have work.
    Of a task that cannot wait, the rows that only later phases need can.

    Args:
        rows: what is computed.
        levels: the phase of each row as soon as can be; even, -1 for inputs.
        converted: the phase of each conversion as soon as can be; odd.
    """
    found, late = list(levels), list(converted)
    at_phase: dict[int, list[int]] = defaultdict(list)
    for i, level in enumerate(converted):
        at_phase[level].append(i)
    targets = _targets(rows)
    by_phase: dict[int, list[list[int]]] = defaultdict(list)
    owner = [-1] * len(found)  # the first row of the task of a row
    for task in _tasks(rows, levels):
        by_phase[levels[task[0]]].append(task)
        for r in task:
            owner[r] = task[0]
    readers = _readers(rows)
    conversions: dict[int, int] = {}  # the last phase in which a row can be computed
    for level in sorted({*by_phase, *at_phase}, reverse=True):  # readers have their phase by then
        for i in at_phase[level]:
            read = [found[u] for r in targets[i] for u in readers[r]]
            read += [conversions[r] for r in targets[i] if r in conversions]
            late[i] = max(level, min(read, default=level) - 1)
            for r in targets[i]:
                found[r] = late[i]
            for s in rows.conversions[i].src:
                conversions[s] = min(late[i] - 1, conversions.get(s, late[i]))
        waiting = []
        for task in by_phase[level]:
            own = task[0]
            read = [found[u] for r in task for u in readers[r] if owner[u] != own]
            read += [conversions[r] for r in task if r in conversions]
            if read and min(read) > level:
                reads = {s for r in task for s in rows.rows[r].src if owner[s] not in (-1, own)}
                waits = [
                    s
                    for s in reads
                    if all([found[u] <= level for u in readers[s] if owner[u] != own])
                ]
                makes = [r for r in task if any([owner[u] != own for u in readers[r]])]
                if len(waits) < len(makes):
                    waiting.append((task, min(read)))
        busy = len(by_phase[level]) - len(waiting)
        staying = -busy % threads() if busy else 0
        for task, latest in waiting[staying:]:
            for r in task:
                found[r] = latest
        stays = {task[0] for task, _ in waiting[:staying]}
        for task in by_phase[level]:
            if task[0] in stays or len(task) == 1:
                continue
            for part, latest in _late_parts(rows, task, readers, found, conversions):
                for r in part:
                    found[r] = latest
    return found, late


def _late_parts(
    rows: Rows,
    task: Sequence[int],
    readers: Sequence[Sequence[int]],
    found: Sequence[int],
    conversions: dict[int, int],
) -> list[tuple[list[int], int]]:
    """The rows of a task that only later phases need, each with the first of these.

    They stay where no fewer rows would wait for them than wait by them.
    """
    level, stays = found[task[0]], set[int]()
    while True:
        latest: dict[int, int] = {}
        parts: dict[int, list[int]] = defaultdict(list)
        for r in reversed(task):  # readers first
            read = [latest[u] if u in latest else found[u] for u in readers[r]]
            if r in conversions:
                read.append(conversions[r])
            latest[r] = phase = level if r in stays or not read else min(read)
            if phase > level:
                parts[phase].append(r)
        more = (
            part
            for phase, part in parts.items()
            if not _is_less(rows, part, phase, readers, latest, found)
        )
        rejected = next(more, None)
        if rejected is None:
            return [(part, phase) for phase, part in parts.items()]
        stays.update(rejected)


def _is_less(
    rows: Rows,
    part: Sequence[int],
    phase: int,
    readers: Sequence[Sequence[int]],
    latest: dict[int, int],
    found: Sequence[int],
) -> bool:
    """True when a part of a task keeps fewer rows waiting for a phase than it makes for it."""
    own, free = set(part), {*LEAVES, "repeat"}  # a "repeat" itself comes as late as can be
    reads = {s for r in part for s in rows.rows[r].src if rows.rows[s].step not in free}
    waits = sum(
        all(latest.get(u, found[u]) < phase for u in readers[s] if u not in own)
        for s in reads - own
    )
    return waits < sum(any(u not in own for u in readers[r]) for r in part)


def _readers(rows: Rows) -> list[list[int]]:
    """The rows of tasks that read each row."""
    found: list[list[int]] = [[] for _ in rows.rows]
    for r, row in enumerate(rows.rows):
        if row.step not in LEAVES:
            for s in row.src:
                found[s].append(r)
    return found


def _fixed(rows: Rows, inputs: Sequence[int], outputs: Sequence[int]) -> dict[int, int]:
    """Places of inputs, constants and outputs, by row."""
    places: dict[int, int] = {}
    constants: dict[int, int] = {}
    for r, row in enumerate(rows.rows):
        if row.step == "input":
            places[r] = reference(inputs[row.given[0]], row.given[1])
        elif row.step == "constant":
            places[r] = reference(CONSTANT, constants.setdefault(row.given[0], len(constants)))
    for buffer, output, own in zip(outputs, rows.outputs, rows.places, strict=True):
        places.update({r: reference(buffer, i) for r, i in zip(output, own, strict=True)})
    return places


class _Keeper:
    """Gives a place to each row that outlives its phase.

    A place is free once the last reader of its row is done. It is free for later phases, and in the
    same phase for the one task that read it. A conversion is such a task too. It has read all of
    its columns before it writes any.
    """

    def __init__(
        self, rows: Rows, levels: list[int], converted: list[int], places: dict[int, int]
    ) -> None:
        self._rows, self._levels, self._converted = rows, levels, converted
        self._places = places
        self._slots: dict[int, int] = {}  # of rows that live now
        self._free: list[int] = []  # a heap
        self._ended: list[int] = []  # free from the next phase on
        self._count = 0
        self._last: dict[int, int] = {}  # the last phase that reads a row
        last = self._last
        computed = (row.src for row in rows.rows if row.step != "converted")
        phases = (p for row, p in zip(rows.rows, levels, strict=True) if row.step != "converted")
        given = (c.src for c in rows.conversions)
        for src, level in zip(chain(computed, given), chain(phases, converted), strict=True):
            for s in src:
                if last.get(s, -1) < level:
                    last[s] = level

    def keep(self, tasks: Sequence[tuple[int, list[int]]], targets: Sequence[list[int]]) -> int:
        """Places all of them; how many places there are."""
        by_level: dict[int, list[Callable[[set[int]], None]]] = defaultdict(list)
        sources: dict[int, list[set[int]]] = defaultdict(list)
        for level, order in tasks:
            by_level[level].append(partial(self._task, order))
            sources[level].append({s for r in order for s in self._rows.rows[r].src})
        made = zip(self._converted, self._rows.conversions, targets, strict=True)
        for level, conversion, to in made:
            by_level[level].append(partial(self._conversion, conversion, to))
            sources[level].append(set(conversion.src))
        for level in sorted(by_level):
            readers = Counter(s for src in sources[level] for s in src)
            alone = {r for r in self._slots if self._last[r] == level and readers[r] == 1}
            for place in by_level[level]:
                place(alone)
            ended = [r for r in self._slots if self._last.get(r, -1) <= level]
            for slot in (*self._ended, *(self._slots.pop(r) for r in ended)):
                heapq.heappush(self._free, slot)
            self._ended.clear()
        return self._count

    def _task(self, order: list[int], alone: set[int]) -> None:
        last = {s: i for i, r in enumerate(order) for s in self._rows.rows[r].src}
        own: list[int] = []
        for i, r in enumerate(order):
            row = self._rows.rows[r]
            done = [self._slots.pop(s) for s in set(row.src) if s in alone and last[s] == i]
            if row.step != "permute":  # all else may overwrite what it reads
                own += done
            if r not in self._places and self._last.get(r, -1) > self._levels[r]:
                self._give(r, own)
            if row.step == "permute":
                own += done
        self._ended += own

    def _conversion(self, conversion: Conversion, to: list[int], alone: set[int]) -> None:
        own = [self._slots.pop(s) for s in set(conversion.src) if s in alone]
        for r in to:
            if r not in self._places:
                self._give(r, own)
        self._ended += own

    def _give(self, r: int, own: list[int]) -> None:
        if own:
            slot = own.pop()
        elif self._free:
            slot = heapq.heappop(self._free)
        else:
            slot, self._count = self._count, self._count + 1
        self._slots[r], self._places[r] = slot, reference(KEPT, slot)


def _ordered(rows: Rows, members: list[int]) -> list[int]:
    """The rows of a task in an order in which few wait: sums go on as soon as they can."""
    own, all_rows = set(members), rows.rows
    users: dict[int, list[int]] = defaultdict(list)
    follows = set[int]()  # rows behind a transform
    for r in members:
        for s in all_rows[r].src:
            if s in own:
                users[s].append(r)
        if all_rows[r].step in WHOLE_ROW or any(s in follows for s in all_rows[r].src):
            follows.add(r)
    done: dict[int, None] = {}
    is_split = any(all_rows[r].step == "dot" and len(all_rows[r].src) % 2 for r in members)
    starts = [r for r in members if not users[r] or (is_split and all_rows[r].step in WHOLE_ROW)]
    starts.sort(key=lambda r: len(users[r]) <= 2)  # first what many sums wait for
    for start in starts:  # all else is computed when it is needed
        ready = [start]
        while ready:
            r = heapq.heappop(ready)
            for made in _with_needed(all_rows, own, done, r):
                done[made] = None
                for user in users[made]:
                    is_eager = is_split and user in follows and all_rows[user].step not in WHOLE_ROW
                    if is_eager and all(s in done or s not in follows for s in all_rows[user].src):
                        heapq.heappush(ready, user)
    return list(done)


def _with_needed(
    rows: Sequence[Row], own: set[int], done: dict[int, None], wanted: int
) -> list[int]:
    """`wanted` and what it still needs, in order."""
    found: dict[int, None] = {}
    stack = [wanted]
    while stack:
        r = stack[-1]
        missing = [s for s in rows[r].src if s in own and s not in done and s not in found]
        if missing:  # transforms first, so that elementwise steps come together
            stack.extend(sorted(reversed(missing), key=lambda s: rows[s].step in WHOLE_ROW))
            continue
        stack.pop()
        if r not in done:
            found[r] = None
    return list(found)


def _placed(rows: Rows, order: list[int], places: dict[int, int]) -> tuple[tuple[Placed, ...], int]:
    """The steps of a task, and how many rows of its own it needs."""
    last = {s: i for i, r in enumerate(order) for s in rows.rows[r].src}
    own: dict[int, int] = {}  # places of rows that live now
    free: list[int] = []  # a heap
    count = 0
    steps = []
    for i, r in enumerate(order):
        row = rows.rows[r]
        src = [places[s] if s in places else own[s] for s in row.src]
        ended = []
        for s in row.src:
            if last[s] == i and s in own:
                ended.append(own.pop(s))
        if row.step != "permute":  # all else may overwrite what it reads
            while ended:
                heapq.heappush(free, ended.pop())
        if r in places:
            to = places[r]
        else:
            if free:
                to = heapq.heappop(free)
            else:
                to, count = reference(SCRATCH, count), count + 1
            if r in last:
                own[r] = to
            else:  # nothing reads it
                ended.append(to)
        for place in ended:
            heapq.heappush(free, place)
        steps.append(Placed(row, to, tuple(src)))
    return tuple(steps), count
