"""Native calls of a program: as few as the limits of one call allow, and the memory that they hold.

They are lowered from the graph after `expand_constants`, not from kernels. A native call gives no
value a buffer of its own. Values that cross phases lie in rows that are used again once their last
reader is done. Each thread has a few rows for the task that it works on.

A program beyond the limits of one call is cut where the fewest bytes cross. The parts are cut again
until each is one call. Values between two calls are arrays.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Collection, Sequence

import attrs

from ren.core import op as ops
from ren.core.errors import NativeError
from ren.core.node import Node, make, toposort
from ren.core.op import Kind
from ren.core.spec import SlotArg, Spec, StoreArg
from ren.lowering.backends.base import Unsupported
from ren.lowering.backends.native import bytecode, library
from ren.lowering.backends.native.backend import LEAST_N, NO_GAIN, gains_on
from ren.lowering.backends.native.bytecode import (
    NativeProgram,
    lowering_of,
    native_program,
)
from ren.lowering.backends.native.limb_program import LoweringError, axes_of
from ren.lowering.backends.native.printer import printed
from ren.lowering.devices.devices import check_devices, threads
from ren.lowering.passes.pipeline import made_explicit
from ren.lowering.plan.plan import Source
from ren.lowering.program.graph import Call, Graph, Program
from ren.lowering.program.instructions import Instr, Table, add_instructions
from ren.lowering.program.steps import Input, Segment, nbytes, with_last_uses
from ren.lowering.runtime.cuts import halves, parts_of, size_of

# A program that needs more calls than this is left to kernels.
MOST_CALLS = 64
# Up to so many nodes are lowered at once; their lowering tells whether they are beyond a call.
FEW_NODES = 8
# Up to so many rows a program is lowered for a report of its memory: that takes 40 us a row.
FEW_ROWS = 5_000

# The calls of programs that are alive, by the number of devices.
_fitted: weakref.WeakKeyDictionary[Source, dict[int, NativeCalls | Unsupported]]
_fitted = weakref.WeakKeyDictionary()


@attrs.frozen(eq=False)
class NativeCalls:
    """A program as native calls, in order.

    Attributes:
        segments: of each call what it runs. Values are numbered from the inputs on.
        programs: of each call its bytecode and what it needs.
        outputs: the value of each root.
        held_bytes: the most that is held besides inputs and results of the program. It is what a
            call holds, and the values between calls. A call keeps its part for the next one, within
            a limit.
        has_gain: whether native code computes some of it faster than XLA. Else it is one call that
            is over before threads of XLA would begin. Under a trace XLA computes it.
    """

    segments: tuple[Segment, ...]
    programs: tuple[NativeProgram, ...]
    outputs: tuple[int, ...]
    held_bytes: int
    has_gain: bool = True

    @property
    def phases(self) -> int:
        """Number of phases of all calls; each waits for the one before."""
        return sum(program.phases for program in self.programs)


def native_calls(source: Source | None) -> NativeCalls | Unsupported:
    """The native calls that a program is by default, or why it runs otherwise."""
    if source is None:
        return Unsupported("its program is not known")
    roots = source.sink.src
    if not roots or roots[0].spec.ring.n < LEAST_N:
        reason = f"its degree is below {LEAST_N}, where kernels are fast enough"
        return Unsupported(reason, is_choice=True)
    order = toposort(source.sink)
    if any(node.op is ops.COPY for node in order):
        return Unsupported("it copies between devices")
    found = set(check_devices(order).values()) - {None}
    if len(found) > 1 or not all(isinstance(claim, frozenset) for claim in found):
        return Unsupported("it runs on the python device, or on several devices")
    devices = max((len(claim) for claim in found), default=1)
    if any(root.spec.is_scalar for root in roots):
        return Unsupported("a result is one number for each limb")
    if any(claim is not None and claim not in found for claim in source.claims):
        return Unsupported("a result that reads nothing is to be on a device of its own")
    try:
        usable = library.usable()
    except NativeError as error:  # it is for who runs the program
        return Unsupported(str(error).partition("\n")[0])
    if usable.reason:
        return Unsupported(usable.reason)
    fitted = _fitted.setdefault(source, {})
    if devices not in fitted:
        fitted[devices] = _fitting(made_explicit(source.sink), source.inputs, devices)
    return fitted[devices]


def held_bytes(source: Source) -> int | Unsupported:
    """Return the most bytes that native calls hold; estimate them for over `FEW_ROWS` rows.

    The peaks of 21 such programs, with their inputs, were within 8 percent of those of their calls.
    """
    order = [node for node in toposort(source.sink)[:-1] if node.src]
    rows, held = size_of(order, threads())
    if rows > FEW_ROWS:
        return held
    calls = native_calls(source)
    return calls if isinstance(calls, Unsupported) else calls.held_bytes


def forget() -> None:
    """Finds the calls of every program anew."""
    _fitted.clear()


def listing(source: Source) -> dict[str, str]:
    """The print of each step by which a program becomes one native call, whatever its size.

    Returns:
        "limb_program", "phases" and "bytecode"; "native" with the reason where there is no call.
    """
    try:
        if any(node.op is ops.COPY for node in toposort(source.sink)):
            raise LoweringError("it copies between devices")
        sink = made_explicit(source.sink)
        group = [node for node in toposort(sink)[:-1] if node.src]
        (segment,), _, specs = _segments([group], sink, source.inputs)
        shapes = [specs[v].shape for v in segment.ins]
        inputs, outputs = axes_of(segment.graph, tuple(shape[:-2] for shape in shapes))
        limbs = [(axes, shape[-2]) for axes, shape in zip(inputs, shapes, strict=True)]
        return printed(lowering_of(segment.graph, segment.tables, tuple(limbs), outputs))
    except LoweringError as error:
        return {"native": f"no native call: {error}"}


def _fitting(sink: Node, inputs: Sequence[Input], devices: int) -> NativeCalls | Unsupported:
    """The calls of a graph, one for each degree, cut until each is within the limits of one."""
    order = [node for node in toposort(sink)[:-1] if node.src]
    if not order:
        return NO_GAIN
    degrees = sorted({node.spec.ring.n for node in order})  # EMBED alone leads to another: a larger
    groups = [[node for node in order if node.spec.ring.n == n] for n in degrees]
    last = _last_readers(groups, sink)
    roots = [[node for node in group if last.get(node, -1) > i] for i, group in enumerate(groups)]
    groups = [
        part
        for group, kept in zip(groups, roots, strict=True)
        for part in ([group] if len(group) <= FEW_NODES else parts_of(group, kept))
    ]
    if len(groups) > MOST_CALLS:
        return Unsupported(f"it would be over {MOST_CALLS} native calls")
    while True:
        segments, outputs, specs = _segments(groups, sink, inputs)
        has_gain = any(gains_on(segment.graph) for segment in segments)
        if not has_gain and (devices > 1 or len(segments) > 1 or _is_long(order)):
            return NO_GAIN
        programs: list[NativeProgram] = []
        for segment in segments:
            shapes = [specs[v].shape for v in segment.ins]
            made = native_program(segment.graph, segment.tables, shapes)
            if isinstance(made, Unsupported):
                break
            if devices > 1 and not made.form.is_looped:
                return Unsupported("batch axes that are taken apart may be divided among devices")
            if not has_gain and not made.is_small(shapes):
                return NO_GAIN
            programs.append(made)
        else:
            outside = {*range(len(inputs)), *outputs}
            held = _held(segments, programs, outside, specs, devices * threads())
            return NativeCalls(segments, tuple(programs), outputs, held, has_gain)
        if not has_gain:
            return NO_GAIN
        i = len(programs)  # the first group beyond a call
        if not made.is_too_large or not _is_cut(groups, i, sink):
            return made


def _is_long(order: Sequence[Node]) -> bool:
    """True when the nodes alone tell that elementwise work is not small, without its lowering."""
    residues = sum(math.prod(node.spec.shape) for node in order)
    return residues * bytecode.SECONDS_PER_MULTIPLY_ADD > 2 * bytecode.MOST_SECONDS


def _is_cut(groups: list[list[Node]], i: int, sink: Node) -> bool:
    """Cuts a group in two, if more calls are allowed; whether it did."""
    if len(groups[i]) < 2 or len(groups) >= MOST_CALLS:
        return False
    last = _last_readers(groups, sink)
    groups[i : i + 1] = halves(groups[i], [node for node in groups[i] if last.get(node, -1) > i])
    return True


def _segments(
    groups: Sequence[Sequence[Node]], sink: Node, inputs: Sequence[Input]
) -> tuple[tuple[Segment, ...], tuple[int, ...], list[Spec]]:
    """The segments of groups of nodes, the values of the roots, and the type of each value."""
    last = _last_readers(groups, sink)
    by_arg = {id(given.arg): i for i, given in enumerate(inputs)}
    leaves = (node for node in toposort(sink) if node.op.kind is Kind.LEAF)
    number = {leaf: by_arg[id(leaf.arg)] for leaf in leaves}
    specs = [given.spec for given in inputs]
    bare = [root for root in dict.fromkeys(sink.src) if root not in number and not root.src]
    end = len(groups) - 1
    last_of = {group[0].spec.ring.n: i for i, group in enumerate(groups) if group}  # by degree
    segments = []
    for i, group in enumerate(groups):
        wanted = [node for node in group if last.get(node, -1) > i]
        wanted += [root for root in bare if last_of.get(root.spec.ring.n, end) == i]
        segment = _segment(group, wanted, number, len(specs))
        number.update(zip(wanted, segment.outs, strict=True))
        specs += [node.spec for node in wanted]
        segments.append(segment)
    outputs = tuple(number[root] for root in sink.src)
    return with_last_uses(segments, outputs), outputs, specs


def _last_readers(groups: Sequence[Sequence[Node]], sink: Node) -> dict[Node, int]:
    """The last group that reads each node; that after all groups for roots."""
    last = {s: i for i, group in enumerate(groups) for node in group for s in node.src}
    return {**last, **dict.fromkeys(sink.src, len(groups))}


def _segment(
    group: Sequence[Node], wanted: Sequence[Node], number: dict[Node, int], count: int
) -> Segment:
    """The segment of a group of nodes that makes the values `wanted`, numbered from `count` on."""
    inside = set(group)
    outside = dict.fromkeys(s for node in group for s in node.src if s not in inside)
    outside.update(dict.fromkeys(node for node in wanted if not node.src))
    slots = [node for node in outside if node in number]
    constants = [node for node in outside if node not in number]
    position: dict[Node, int] = {}
    tables: dict[Table, int] = {}
    instrs: list[Instr] = []
    for i, node in enumerate(slots):
        position[node] = i
        instrs.append(Instr("SLOT", i, (), (), node.spec.ring.limbs, node.spec.ring.n))
    places = [make(ops.SLOT, (), SlotArg(-1 - i, node.spec)) for i, node in enumerate(wanted)]
    pairs = zip(places, wanted, strict=True)  # whole arrays, whatever backend runs them
    stores = [make(ops.STORE, pair, StoreArg()) for pair in pairs]
    add_instructions(instrs, [*constants, *group, *places, *stores], position, tables)
    program = Program(tuple(instrs), tuple(position[store] for store in stores), len(slots))
    inputs, made = len(slots), len(stores)
    call = Call(program, tuple(range(len(tables))), tuple(range(inputs)))
    graph = Graph(inputs, (call,), tuple(range(inputs, inputs + made)))
    ins = tuple(number[node] for node in slots)
    return Segment((), graph, tuple(tables), ins, tuple(range(count, count + made)))


def _held(
    segments: Sequence[Segment],
    programs: Sequence[NativeProgram],
    outside: Collection[int],
    specs: Sequence[Spec],
    threads: int,
) -> int:
    """The most bytes that calls hold; the values `outside` do not count."""
    live, most = 0, 0
    for segment, program in zip(segments, programs, strict=True):
        live += sum(nbytes(specs[v]) for v in set(segment.outs).difference(outside))
        most = max(most, live + program.held_bytes([specs[v].shape for v in segment.ins], threads))
        live -= sum(nbytes(specs[v]) for v in set(segment.drops).difference(outside))
    return most
