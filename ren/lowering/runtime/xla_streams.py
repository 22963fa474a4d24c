"""Streams: units of a plan that run beside each other on the CPU.

XLA:CPU starts the executables that one thread calls one after the other, each when the one before
has ended. It divides only the inside of each among threads: a transform waits for its threads after
every stage. Units that do not read each other are better run on different cores whole. So each unit
gets a stream, a queue of its own (`ren.lowering.backends.xla.jax_runtime.set_stream`).

A unit goes to the stream in which it can start first, by the estimates of `plan.explain()`. Units
are taken in the order of the plan; a chain so stays in its stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ren.lowering.backends.native import library
from ren.lowering.backends.native.backend import gains
from ren.lowering.backends.xla import jax_runtime as runtime
from ren.lowering.devices.devices import common_place, threads
from ren.lowering.plan.cost import estimated_seconds, unit_cost
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import CopyUnit, value_specs

MAX_STREAMS = 4
# What a value of another stream costs its reader: to wake a thread, whose caches are empty. And
# what streams have to save: less is within what the estimates are wrong by.
HANDOVER_SECONDS, LEAST_SECONDS = 30e-6, 100e-6


def streams_for(plan: Plan, inputs: Sequence[Any]) -> tuple[int, ...]:
    """The stream of each unit of a plan that runs on arrays like `inputs`; empty where all are one.

    Native kernels divide their work among threads better, and other devices have queues of their
    own: these have no streams.
    """
    place = common_place(inputs)
    count = min(threads(), MAX_STREAMS)
    if place is None or count < 2 or any(isinstance(unit, CopyUnit) for unit in plan.units):
        return ()
    (device,) = place.sharding.device_set
    if device.platform != "cpu" or not runtime.has_streams():
        return ()
    if any(map(gains, plan.programs)) and library.usable().name:
        return ()
    return streams_of(plan, count)


def streams_of(plan: Plan, count: int) -> tuple[int, ...]:
    """The stream of each unit, of so many; empty where they would save little. See the module."""
    specs = value_specs(plan.inputs, plan.units)
    ends = [0.0] * count  # of each stream: when it is free
    made: dict[int, tuple[float, int]] = {}  # when a value is there, and in which stream
    streams, whole = [], 0.0
    for unit in plan.units:
        known = [made.get(v, (0.0, 0)) for v in unit.ins]
        starts = [_start(free, stream, known) for stream, free in enumerate(ends)]
        home = max(known, default=(0.0, 0))[1]
        first = min(starts)
        stream = home if starts[home] == first else starts.index(first)
        spec = specs[unit.outs[0]]
        seconds = estimated_seconds(unit_cost(unit, specs), spec.ring.n)
        ends[stream] = first + seconds
        made.update(dict.fromkeys(unit.outs, (ends[stream], stream)))
        streams.append(stream)
        whole += seconds
    return tuple(streams) if whole - max(ends) >= LEAST_SECONDS else ()


def _start(free: float, stream: int, known: list[tuple[float, int]]) -> float:
    """When a unit that reads `known` can start in a stream."""
    arrivals = (end if at == stream else end + HANDOVER_SECONDS for end, at in known)
    return max(free, max(arrivals, default=0.0))
