"""Tasks run as late as what reads them allows, so that few rows outlive a phase.

Only the division at the end reads a rotation limb's products with a key. There they join the task
that reads them, and stay in the cache of its core.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ren.lowering.backends.native.limb_program import Rows
from ren.lowering.devices.devices import threads

LEAVES = frozenset({"input", "constant", "converted"})  # rows that no task computes


def tasks(rows: Rows, levels: Sequence[int]) -> list[list[int]]:
    """The rows of each task: those of one phase that read each other."""
    parent = list(range(len(levels)))

    def root(r: int) -> int:
        while parent[r] != r:
            parent[r] = r = parent[parent[r]]
        return r

    for r, row in enumerate(rows.rows):
        if row.step in LEAVES:
            continue
        for s in row.src:
            if rows.rows[s].step not in LEAVES and levels[s] == levels[r]:
                parent[root(s)] = root(r)
    found: dict[int, list[int]] = defaultdict(list)
    for r, row in enumerate(rows.rows):
        if row.step not in LEAVES:
            found[root(r)].append(r)
    return list(found.values())


def delayed(rows: Rows, levels: Sequence[int], converted: Sequence[int]) -> list[int]:
    """The phase of each row, with tasks as late as can be.

    A task stays where no fewer rows of earlier tasks would wait for it than wait by its own. And
    where some tasks of a phase cannot wait, so many of the others stay that all threads have work.

    Args:
        rows: what is computed.
        levels: the phase of each row as soon as can be; even, -1 for inputs.
        converted: the phase of each conversion; odd. It stays.
    """
    found = list(levels)
    by_phase: dict[int, list[list[int]]] = defaultdict(list)
    for task in tasks(rows, levels):
        by_phase[levels[task[0]]].append(task)
    readers = _readers(rows)
    conversions = _phases_before_conversions(rows, converted)
    for level in sorted(by_phase, reverse=True):  # what reads a task has its phase by then
        waiting = []
        for task in by_phase[level]:
            own = set(task)
            read = [found[u] for r in task for u in readers[r] if u not in own]
            read += [conversions[r] for r in task if r in conversions]
            if read and min(read) > level:
                waits = [s for s in _computed(rows, task) if _last(readers[s], own, found) <= level]
                makes = [r for r in task if any(u not in own for u in readers[r])]
                if len(waits) < len(makes):
                    waiting.append((task, min(read)))
        busy = len(by_phase[level]) - len(waiting)
        for task, latest in waiting[-busy % threads() if busy else 0 :]:
            for r in task:
                found[r] = latest
    return found


def _computed(rows: Rows, task: list[int]) -> set[int]:
    """The rows of other tasks that one reads."""
    read = {s for r in task for s in rows.rows[r].src if rows.rows[s].step not in LEAVES}
    return read.difference(task)


def _last(readers: list[int], own: set[int], levels: Sequence[int]) -> int:
    """The last phase in which a task that is not `own` reads a row."""
    return max((levels[u] for u in readers if u not in own), default=-1)


def _readers(rows: Rows) -> dict[int, list[int]]:
    """The rows of tasks that read each row."""
    found: dict[int, list[int]] = defaultdict(list)
    for r, row in enumerate(rows.rows):
        if row.step not in LEAVES:
            for s in row.src:
                found[s].append(r)
    return found


def _phases_before_conversions(rows: Rows, converted: Sequence[int]) -> dict[int, int]:
    """The last phase in which each row that is converted can be computed."""
    found: dict[int, int] = {}
    for conversion, level in zip(rows.conversions, converted, strict=True):
        found.update({s: min(level - 1, found.get(s, level)) for s in conversion.src})
    return found
