"""Tracing: what each unit of a run did, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import attrs
import jax

from ren.core import html
from ren.core.context_values import ContextValue
from ren.core.text_table import columns, duration, size
from ren.lowering.devices.devices import device_name, device_of
from ren.lowering.program.steps import Unit

# The trace that records in this thread or task, if any; a new thread starts without.
active_trace: ContextVar[Trace | None] = ContextVar("ren_trace", default=None)


class Timed(Protocol):
    """Recorded step of a trace: a unit, or a graph of units that runs as one."""

    @property
    def name(self) -> str:
        """Name of the step, for people."""
        ...


@attrs.frozen
class Record:
    """One run of one unit.

    Attributes:
        name: the ops, as in `plan.explain()`.
        shapes: of the results, each `(*batch, limb, n)`.
        bytes: of what it read and wrote, whole arrays.
        seconds: wall time until the results were ready.
        device: of the results: "python", a name as "gpu:0", or how many there are.
        unit: the unit itself, or the graph of units that ran as one executable.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    bytes: int
    seconds: float
    device: str
    unit: Timed = attrs.field(repr=False, eq=False)


class Trace:
    """The records of what ran inside one `ren.trace()`; prints as a table."""

    def __init__(self) -> None:
        self._records: list[Record] = []

    @property
    def records(self) -> tuple[Record, ...]:
        """Every unit that ran, in order."""
        return tuple(self._records)

    @property
    def seconds(self) -> float:
        """The time of all units together."""
        return sum(record.seconds for record in self.records)

    def mean_seconds(self, unit: Unit) -> float | None:
        """The mean time of one unit over the runs traced; None when it did not run."""
        times = [record.seconds for record in self.records if record.unit is unit]
        return sum(times) / len(times) if times else None

    def timed(
        self, unit: Timed, args: Sequence[Any], run: Callable[[], Sequence[Any]]
    ) -> Sequence[Any]:
        """The results of `run` for `unit`, awaited and recorded; it reads the arrays `args`."""
        read = sum(a.nbytes for a in args)  # before: a donated array has no bytes afterwards
        start = time.perf_counter()
        results = jax.block_until_ready(run())
        seconds = time.perf_counter() - start
        shapes = tuple(tuple(a.shape) for a in results)
        moved = read + sum(a.nbytes for a in results)
        places = {_place(a) for a in results}
        place = places.pop() if len(places) == 1 else f"{len(places)} devices"
        self._records.append(Record(unit.name, shapes, moved, seconds, place, unit))
        return results

    def __str__(self) -> str:
        return columns(self._rows(), left=(1, 2))

    def _repr_html_(self) -> str:
        return html.card("Trace", html.table(self._rows(), left=(1, 2)))

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [("", "unit", "shapes", "bytes", "time")]
        for i, r in enumerate(self.records):
            shapes = " ".join(str(list(shape)) for shape in r.shapes)
            rows.append((str(i), r.name, shapes, size(r.bytes), duration(r.seconds)))
        moved = sum(r.bytes for r in self.records)
        rows.append(("", "total", "", size(moved), duration(self.seconds)))
        if len({r.device for r in self.records}) > 1:
            devices = ["device", *(r.device for r in self.records), ""]
            rows = [(*row, device) for row, device in zip(rows, devices, strict=True)]
        return rows

    def __repr__(self) -> str:
        return f"<Trace: {len(self.records)} units, {duration(self.seconds)}>"


def _place(array: Any) -> str:
    device = device_of(array)
    if isinstance(device, jax.sharding.Sharding):
        return f"{len(device.device_set)} devices"
    return device if isinstance(device, str) else device_name(device)


@contextmanager
def trace() -> Iterator[Trace]:
    """Records every unit that runs inside: name, shapes, bytes, seconds, device.

    Units are awaited one by one, so that their times add up; without a trace they overlap. What
    JAX traces or compiles as part of a larger program is not recorded. The first run of a kernel
    includes its compilation.

    Returns:
        The trace. It holds what has run so far, and goes on holding it after the context.

    Example:
        >>> import ren
        >>> ring = ren.RingSpec(n=4, moduli=(17,))
        >>> with ren.trace() as trace:
        ...     _ = ren.Poly([1, 2, 3, 4], ring).ntt().realize()
        >>> [record.name for record in trace.records]
        ['NTT']
    """
    with ContextValue(active_trace, Trace()) as made:
        yield made
