"""Programs: planned once by structure, and run by native calls or unit by unit."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import attrs

from ren.config import config
from ren.core import op as ops
from ren.core.node import (
    Node,
    Structure,
    collector_paused,
    make,
    placeholder,
    structure_of,
    toposort,
)
from ren.core.op import Kind
from ren.core.rewrite import rewrite
from ren.core.ring import RingSpec
from ren.core.spec import BufferArg
from ren.core.text_table import counted
from ren.lowering.backends.base import Unsupported
from ren.lowering.backends.native.backend import NO_GAIN, may_be_divided
from ren.lowering.backends.xla.jax_executable import placement
from ren.lowering.backends.xla.jax_runtime import check_inputs
from ren.lowering.devices.devices import (
    PYTHON,
    are_divided,
    check_devices,
    claim_of,
    claims_of,
    common_place,
    is_host,
    is_tracer,
    is_tracing,
)
from ren.lowering.passes.pipeline import run_algebra, run_kernel_passes
from ren.lowering.plan.lifetimes import values_of
from ren.lowering.plan.memory import with_donations
from ren.lowering.plan.plan import Plan, Schedule, Source, schedule, with_schedule
from ren.lowering.program.graph import with_words
from ren.lowering.program.steps import CopyUnit, Input, Segment, nbytes, with_last_uses
from ren.lowering.runtime.native_calls import native_calls
from ren.lowering.runtime.runner import Runner, graph_runner, run_plan, unit_runner
from ren.lowering.runtime.trace import active_trace

MOST_PLANNED = 256
# Runs after which a program of few kernels, of which none gains by native code, is compiled whole.
OFTEN, FEW_UNITS = 32, 8

_NONE: Mapping[Node, Node] = MappingProxyType({})
_log = logging.getLogger("ren")
_logged: set[str] = set()  # reasons against native calls that were logged


def source_of(sink: Node) -> Source:
    """The program of a SINK after the passes of algebra, its devices checked.

    Raises:
        DeviceError: operands on two devices.
    """
    claims = check_devices(toposort(sink))
    after = run_algebra(sink)
    leaves = tuple(node for node in toposort(after) if node.op.kind is Kind.LEAF)
    inputs = tuple(Input(leaf.arg, leaf.spec) for leaf in leaves)
    return Source(after, leaves, inputs, tuple(claims[root] for root in sink.src))


def plan_from(source: Source) -> Plan:
    """The plan of a program. It is divided into kernels, scheduled, and its donations are chosen,
    when that is asked for.
    """

    def scheduled() -> Schedule:
        plan = schedule(run_kernel_passes(source.sink), source.leaves)
        return with_donations(_at_home(plan, source.claims)).scheduled()

    specs = tuple(root.spec for root in source.sink.src)
    return Plan(source.inputs, specs, cache(scheduled), source)


class Planned:
    """A planned program, over stand-ins for its leaves: good for all of one structure.

    Attributes:
        source: the program.
        order: which leaf of the structure each input of the program is; of a number itself.
        runs: how it ran before, by what that depends on beside the structure.
        last: what ran last, if that will not change any more.
        count: of its runs.
    """

    def __init__(self, source: Source, order: tuple[Any, ...]) -> None:
        self.source, self.order = source, order
        self.runs: dict[Any, Runner] = {}
        self.last: Runner | None = None
        self.count = 0
        self._plan: Plan | None = None

    @property
    def plan(self) -> Plan:
        """Its plan, made once."""
        if self._plan is None:
            self._plan = plan_from(self.source)
        return self._plan

    def __repr__(self) -> str:
        outputs = counted(self.source.sink.src, "output")
        return f"<Planned: {counted(self.order, 'input')}, {outputs}>"


def run_planned(program: Planned, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The arrays of a program's roots, by native calls where it can be, else unit by unit.

    A second run on arrays of the same devices only calls. Under a JAX trace these calls become a
    part of the trace.

    Args:
        program: what runs.
        inputs: the arrays of its inputs in order.

    Raises:
        ForkError: this process was forked after JAX had started, and an input is an array of JAX.
    """
    if (last := program.last) is not None and (again := last.again(inputs)) is not None:
        program.count += 1
        return again
    check_inputs(inputs)
    if active_trace.get() is not None:
        return run_plan(program.plan, inputs)
    if any(map(is_tracer, inputs)):
        traced = native_runner(program.source, program.source.inputs, inputs)
        return run_plan(program.plan, inputs) if traced is None else traced.once(inputs)
    key = (config.native, *_places(inputs))
    run = program.runs.get(key)
    if run is None:
        native = native_runner(program.source, program.source.inputs, inputs)
        run = program.runs[key] = native or unit_runner(program.plan)
    program.count += 1
    if program.count == OFTEN and not run.is_native and _is_cheap(program):
        run = program.runs[key] = graph_runner(program.plan)
    if run.is_native or program.count > OFTEN:
        program.last = run
    return run(inputs)


def _is_cheap(program: Planned) -> bool:
    """Whether a program is a few kernels that XLA compiles at once: sums, of large degree."""
    return native_calls(program.source) is NO_GAIN and 1 < len(program.plan.units) <= FEW_UNITS


def _places(inputs: Sequence[Any]) -> Sequence[Any]:
    """Shardings of arrays; one entry if all have the same."""
    places = [PYTHON if is_host(a) else a.sharding for a in inputs]
    return places[:1] if all([p is places[0] for p in places]) else places


def native_runner(
    source: Source | None,
    given: Sequence[Input],
    inputs: Sequence[Any],
    words: Mapping[int, RingSpec] | None = None,
    name: str = "",
) -> Runner | None:
    """A program as native calls on arrays like `inputs`; else None, and the log says why, once.

    Native calls leave nothing to compile that would pay only later.

    Args:
        source: what runs.
        given: its inputs in order.
        inputs: their arrays.
        words: the inputs that come as words of integers: see `with_words`.
        name: as of `Runner`.
    """
    if any(map(is_host, inputs)):
        return None
    is_traced = is_tracing() or any(map(is_tracer, inputs))
    if not is_traced and common_place(inputs) is None and not are_divided(inputs):
        return None
    with collector_paused():
        calls = native_calls(source)
    if isinstance(calls, Unsupported):
        if not calls.is_choice and calls.reason not in _logged:
            _logged.add(calls.reason)
            _log.info("A plan does not run as native calls: %s.", calls.reason)
        return None
    if is_traced and not calls.has_gain:
        return None
    assert source is not None
    if not all(p.form.is_looped for p in calls.programs) and may_be_divided(placement(inputs)):
        return None
    steps = tuple(_of_words(s, words) for s in calls.segments) if words else calls.segments
    outputs = sum(nbytes(root.spec) for root in set(source.sink.src))
    needs = outputs + calls.held_bytes
    return Runner(given, steps, calls.outputs, program=source.sink, needs=lambda: needs, name=name)


def _of_words(segment: Segment, words: Mapping[int, RingSpec]) -> Segment:
    rings = {i: words[v] for i, v in enumerate(segment.ins) if v in words}
    graph, tables = with_words(segment.graph, segment.tables, rings)
    return attrs.evolve(segment, graph=graph, tables=tables)


# Programs by structure and the types and devices of their leaves: the one used longest ago goes.
kept_programs: OrderedDict[Any, Planned] = OrderedDict()
# The last of them, which stays so. Looking it up there would swallow an interrupt of the user's.
_latest: list[Planned | None] = [None]
_lock = threading.Lock()


def planned(structure: Structure) -> Planned:
    """The program of a structure, planned once for all that differ in the leaves alone.

    Raises:
        DeviceError: operands on two devices.
    """
    key = key_of(structure)
    found = known_program(key)
    return planned_as(key, structure) if found is None else found


def key_of(structure: Structure) -> tuple[Any, ...]:
    """The name of a program: the key of its structure, and the types and devices of its leaves."""
    leaves = structure.leaves
    specs = [leaf.spec for leaf in leaves]
    if all([spec is specs[0] for spec in specs]):  # as a rule
        specs = specs[:1]
    return structure.key, tuple(specs), _claims(leaves)


def known_program(key: tuple[Any, ...]) -> Planned | None:
    """The program of a name, if it is planned."""
    with _lock:
        found = kept_programs.get(key)
        if found is not None and found is not _latest[0]:
            kept_programs.move_to_end(key)
            _latest[0] = found
        return found


def planned_as(key: tuple[Any, ...], structure: Structure) -> Planned:
    """The program of a structure, planned and kept under its name."""
    made = planned_anew(structure)
    with _lock:
        kept_programs[key] = _latest[0] = made
        while len(kept_programs) > MOST_PLANNED:
            kept_programs.popitem(last=False)
    return made


@collector_paused()
def planned_anew(structure: Structure, scalars: Mapping[Node, Node] = _NONE) -> Planned:
    """The program of a structure, with SCALARs in place of some of its constants."""
    leaves = structure.leaves
    claims = zip(leaves, _claims(leaves), strict=True)
    stand_ins = {leaf: placeholder(leaf.spec, claim) for leaf, claim in claims}
    known = stand_ins | {node: stand_ins[leaf] for node, leaf in structure.known.items()}
    sink = rewrite(make(ops.SINK, structure.roots), {}, known | dict(scalars))
    source = source_of(sink)
    position = {stand_ins[leaf].arg: i for i, leaf in enumerate(leaves)}
    return Planned(source, tuple([position.get(given.arg, given.arg) for given in source.inputs]))


def forget() -> None:
    """Plans every program anew."""
    with _lock:
        kept_programs.clear()
        _latest[0] = None


def _claims(leaves: Sequence[Node]) -> tuple[Any, ...]:
    """The devices that leaves demand: programs depend on no more of them but their types."""
    if all([leaf.op is ops.BUFFER for leaf in leaves]):
        return claims_of([leaf.arg.array for leaf in leaves])
    args = [leaf.arg for leaf in leaves]
    return tuple([claim_of(a.array) if isinstance(a, BufferArg) else a.device for a in args])


def plan_of(sink: Node) -> Plan:
    """The plan of a SINK; raises DeviceError for operands on two devices."""
    structure = structure_of(sink.src, {})
    leaves = structure.leaves
    if any(leaf.op is ops.SCALAR for leaf in leaves):  # passes put such numbers together
        return plan_from(source_of(sink))
    program = planned(structure)
    inputs = tuple([Input(leaves[i].arg, leaves[i].spec) for i in program.order])
    return attrs.evolve(program.plan, inputs=inputs)


def _at_home(plan: Plan, claims: Sequence[Any]) -> Plan:
    """The plan with its outputs where their programs are.

    What a pass folded to a constant reads nothing any more, and so would be on JAX's own device.
    """
    values, units, outputs = values_of(plan), list(plan.units), list(plan.outputs)
    count = len(values)
    for i, claim in enumerate(claims):
        if values[outputs[i]].device is not None or claim is None:
            continue
        if claim == PYTHON or len(claim) == 1:
            device = claim if claim == PYTHON else next(iter(claim))
            units.append(CopyUnit(device, (outputs[i],), (count,)))
            outputs[i], count = count, count + 1
    if count == len(values):
        return plan
    made = Schedule(with_last_uses(units, tuple(outputs)), tuple(outputs))
    return with_schedule(plan, lambda: made)
