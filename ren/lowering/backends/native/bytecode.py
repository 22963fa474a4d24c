"""Compile a graph to bytecode for the kernel `ren_plan`: one call instead of one kernel per step.

The steps of a limb stay in the cache of one core. Twiddles of a modulus are read once for all
digits. Rows that cross phases lie in memory that is kept between calls.

The code is uint32 words. It begins with the numbers of phases, of rows of a task's own and of rows
kept between phases, and n. Then comes the position of each phase. For each argument and result its
batch axes follow that are taken apart (`Axes.mask`). A phase is its kind, its number of tasks,
its tasks' columns (of conversions), and the position of each task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import attrs
import jax
import jax.numpy as jnp
import numpy as np

from ren.lowering.backends.base import Unsupported
from ren.lowering.backends.native import program_store
from ren.lowering.backends.native.ffi_call import FfiCall, handler_name
from ren.lowering.backends.native.limb_program import (
    MOST_ROWS,
    READS_ROW,
    Axes,
    Conversion,
    LoweringError,
    Rows,
    Shape,
    axes_of,
    looped,
    rows_of,
)
from ren.lowering.backends.native.phases import (
    CONSTANT,
    MAX_TERMS,
    ROW_BITS,
    Placed,
    PlacedConversion,
    Schedule,
    reference,
    scheduled,
    with_own_outputs,
    with_own_repeats,
    with_split_sums,
)
from ren.lowering.devices.devices import threads
from ren.lowering.kernels.tables import R, words
from ren.lowering.program.graph import Call, Graph
from ren.lowering.program.instructions import Arrays, Table

LEAST_STEPS = 500  # of a graph that is kept on disk: others are lowered in less than 0.1 s
LEAST_DEGREE = 4  # of the transforms that it calls
MOST_KEPT = 1 << 29  # bytes between phases; a larger graph is cut, and its parts hold less
MOST_BUFFERS, _MAX_DIGITS = 4000, 1 << 9
# A call that takes one core longer is XLA's: two cores would share the work.
MOST_SECONDS = 0.1e-3
# Of one core with AVX-512.
SECONDS_PER_BUTTERFLY, SECONDS_PER_MULTIPLY_ADD = 0.19e-9, 0.11e-9
_COLUMNS, _DIGITS = 512, 1 << 13  # of a conversion's task: columns, and digits at a time
_LEAST_COLUMNS, _MIXED = 16, 1 << 16  # of a mix: one vector, and residues at a time
_ELEMENTWISE = (
    "copy", "add", "sub", "neg", "dot", "mask", "flip", "repeat",
    "lift_from", "wide_add", "wide_sub", "wide_neg", "wide_flip",
)  # fmt: skip
_STEPS = {step: i for i, step in enumerate(_ELEMENTWISE)}
_WITH_TABLE = frozenset({"permute", "mask", "flip", "repeat", "wide_flip"})
_CONVERSIONS = {"convert": 0, "lift": 1, "lift_to_wide": 2, "mix_rows": 3}
_END, _NTT, _INTT, _PERMUTE, _GROUP = range(5)
_MIX = _CONVERSIONS["mix_rows"]


@attrs.frozen(cache_hash=True)
class Form:
    """All of a graph that shapes the call; the rest is code, which is data.

    Attributes:
        n: the length of its rows.
        inputs: the inputs that it reads.
        masks: of each input, read or not, `Axes.mask`.
        outputs: of each output `Axes.pattern`, and its number of limbs.
    """

    n: int
    inputs: tuple[int, ...]
    masks: tuple[int, ...]
    outputs: tuple[tuple[Shape, int], ...]

    @property
    def is_looped(self) -> bool:
        """True where no batch axis is taken apart."""
        return not any(self.masks) and not any(pattern for pattern, _ in self.outputs)

    def loops(self, shapes: Sequence[Shape]) -> Shape:
        """The lengths of the loops of a call, for inputs of some shapes."""
        own = (looped(s[:-2], mask) for s, mask in zip(shapes, self.masks, strict=True))
        return np.broadcast_shapes(*own)


@attrs.frozen(eq=False)
class NativeProgram:
    """A graph as one native call.

    Attributes:
        form: what shapes the call.
        tables: twiddles, permutations and the code, in the order of arguments.
        spread: the inputs that must have residues for each position, not a number for each limb.
        phases: how many there are.
        kept: the rows that it holds between them.
        own, tasks: the rows that a task has for itself, and the most tasks of a phase.
        seconds: about how long one core takes for one position of the batch.
    """

    form: Form
    tables: tuple[Table, ...]
    spread: frozenset[int]
    phases: int
    kept: int
    own: int
    tasks: int
    seconds: float

    def is_small(self, shapes: Sequence[Shape]) -> bool:
        """True when a call on inputs of some shapes ends before threads of XLA would begin."""
        return self.seconds * math.prod(self.form.loops(shapes)) <= MOST_SECONDS

    def held_bytes(self, shapes: Sequence[Shape], threads: int) -> int:
        """The most bytes that a call holds besides its arguments and results.

        Of a batch that it loops over, no more is held than `threads` work on.

        Args:
            shapes: of all inputs of the graph.
            threads: how many threads XLA has.
        """
        batches = math.prod(self.form.loops(shapes))
        rows = min(batches, threads) * self.kept + min(batches * self.tasks, threads) * self.own
        return 4 * self.form.n * rows


@attrs.frozen(eq=False)
class Lowering:
    """The steps by which a graph becomes one native call: limb program, schedule, bytecode."""

    rows: Rows
    schedule: Schedule
    program: NativeProgram


def native_program(
    graph: Graph, tables: tuple[Table, ...], shapes: Sequence[Shape]
) -> NativeProgram | Unsupported:
    """A graph as one native call on inputs of some shapes, or why it is none."""
    try:
        inputs, outputs = axes_of(graph, tuple(shape[:-2] for shape in shapes))
    except LoweringError as error:
        return Unsupported(str(error), error.is_too_large)
    limbs = tuple(shape[-2] for shape in shapes)
    found = lowered(graph, tables, tuple(zip(inputs, limbs, strict=True)), outputs)
    if isinstance(found, NativeProgram) and any(shapes[i][-1] == 1 for i in found.spread):
        return Unsupported("a transform or conversion reads one number for each limb")
    return found


@lru_cache(maxsize=256)
def lowered(
    graph: Graph,
    tables: tuple[Table, ...],
    inputs: tuple[tuple[Axes, int], ...],
    outputs: tuple[Axes, ...],
) -> NativeProgram | Unsupported:
    """The same for inputs and outputs with known batch axes; each is lowered once."""
    key = None
    calls = (step for step in graph.steps if isinstance(step, Call))
    if sum(len(call.program.instrs) for call in calls) >= LEAST_STEPS:
        given = [(axes.lengths, axes.is_apart, limbs) for axes, limbs in inputs]
        given += [(axes.lengths, axes.is_apart) for axes in outputs]
        limits = (MOST_KEPT, MOST_BUFFERS, MOST_ROWS, MAX_TERMS, threads())
        key = program_store.key_of(graph, tables, (*given, limits))
    if key is not None and (kept := program_store.read(key)) is not None:
        return _of_fields(*kept)
    try:
        made = lowering_of(graph, tables, inputs, outputs).program
    except LoweringError as error:
        return Unsupported(str(error), error.is_too_large)
    if key is not None:
        program_store.write(key, *_fields_of(made))
    return made


def _fields_of(program: NativeProgram) -> tuple[dict[str, Any], bytes]:
    """A program as names and numbers, and its code."""
    *tables, code = program.tables
    fields = attrs.asdict(program, recurse=False, filter=lambda a, _: a.name != "tables")
    fields["form"] = attrs.astuple(program.form, recurse=False)
    fields["spread"] = sorted(program.spread)
    return {**fields, "tables": [(t.kind, t.args) for t in tables]}, code.args[0]  # type: ignore[return-value]


def _of_fields(fields: dict[str, Any], code: bytes) -> NativeProgram:
    tables = [Table(*given) for given in fields.pop("tables")]
    form, spread = Form(*fields.pop("form")), frozenset(fields.pop("spread"))
    return NativeProgram(form, (*tables, Table("code", (code,))), spread, **fields)


def lowering_of(
    graph: Graph,
    tables: tuple[Table, ...],
    inputs: tuple[tuple[Axes, int], ...],
    outputs: tuple[Axes, ...],
) -> Lowering:
    """Lowers a graph: limb program, schedule, bytecode.

    Args:
        graph, tables: what runs.
        inputs: the batch axes of each input, and its number of limbs.
        outputs: the batch axes of each output.

    Raises:
        LoweringError: the kernel cannot do all of it in one call.
    """
    rows = with_split_sums(rows_of(graph, tables, inputs, outputs))
    rows = with_own_outputs(with_own_repeats(rows))
    if rows.n < LEAST_DEGREE:
        raise LoweringError(f"its degree is below {LEAST_DEGREE}")
    if any(len(c.src) > _MAX_DIGITS and not _is_mix(c) for c in rows.conversions):
        raise LoweringError(f"a conversion reads over {_MAX_DIGITS} limbs")
    read = sorted({row.given[0] for row in rows.rows if row.step == "input"})
    masks = tuple(axes.mask for axes, _ in inputs)
    moduli = sorted({row.given[0] for row in rows.rows if row.step in ("ntt", "intt")})
    moved = dict.fromkeys(row.given[-1] for row in rows.rows if row.step in _WITH_TABLE)
    mixed = dict.fromkeys(c.table for c in rows.conversions if _is_mix(c))
    constant = [*(Table("rows", (rows.n, q)) for q in moduli), *moved, *mixed]
    args = len(read) + len(constant) + 1
    buffers = {table: len(read) + i for i, table in enumerate(constant)}
    by_input = {number: i for i, number in enumerate(read)}
    results = range(args, args + len(rows.outputs))
    if not read:
        raise LoweringError("it reads no inputs")
    if args + len(results) >= MOST_BUFFERS:
        raise LoweringError(f"it has over {MOST_BUFFERS:,} inputs, tables and outputs", True)
    schedule = scheduled(rows, [by_input.get(i, 0) for i in range(graph.inputs)], results)
    if 4 * rows.n * schedule.kept > MOST_KEPT:
        raise LoweringError(f"it keeps over {MOST_KEPT >> 20} MiB between its phases", True)
    values = dict.fromkeys(row.given[0] for row in rows.rows if row.step == "constant")
    writer = _Writer(buffers, rows.n, list(values))
    apart = [
        *(masks[i] for i in read),
        *[0] * (len(constant) + 1),
        *(axes.mask for axes in outputs),
    ]
    code = Table("code", (writer.code(schedule, apart),))
    patterns = zip((axes.pattern for axes in outputs), rows.limbs, strict=True)
    form = Form(rows.n, tuple(read), masks, tuple(patterns))
    phases = schedule.phases
    tasks = max(map(len, phases))
    spread, kept, own = _spread(rows), schedule.kept, schedule.scratch
    seconds = _seconds(schedule, rows.n)
    made = NativeProgram(form, (*constant, code), spread, len(phases), kept, own, tasks, seconds)
    return Lowering(rows, schedule, made)


def _seconds(schedule: Schedule, n: int) -> float:
    """About how long one core takes for a schedule: its transforms and its sums of products."""
    butterflies = multiply_adds = 0
    for phase in schedule.phases:
        for task in phase:
            if isinstance(task, PlacedConversion):
                multiply_adds += len(task.src) * len(task.to)
                continue
            steps = [placed.row.step for placed in task]
            butterflies += sum(step in ("ntt", "intt") for step in steps)
            multiply_adds += sum(max(len(placed.src) // 2, 1) for placed in task)
    butterflies *= n // 2 * (n.bit_length() - 1)
    return butterflies * SECONDS_PER_BUTTERFLY + multiply_adds * n * SECONDS_PER_MULTIPLY_ADD


def _spread(rows: Rows) -> frozenset[int]:
    read = {s for c in rows.conversions for s in c.src}
    read |= {s for row in rows.rows if row.step in READS_ROW for s in row.src}
    return frozenset(rows.rows[s].given[0] for s in read if rows.rows[s].step == "input")


def emit_native(
    form: Form, library: str, tables: tuple[Arrays, ...], *inputs: Any
) -> tuple[Any, ...]:
    """The outputs of a graph on its inputs, each `uint32[*batch, limb, n]`, by one call."""
    constants = [array for table in tables for array in table]
    call, shapes = call_of(form, library, [x.shape for x in inputs], len(constants))
    read = [inputs[i].reshape(s) for i, s in zip(form.inputs, shapes, strict=True)]
    loops = form.loops([x.shape for x in inputs])
    if call.loops(shapes) != loops:
        read[0] = _over(read[0], form.masks[form.inputs[0]], loops)
    run = call if jax.device_count() == 1 else call.divisible()
    return run(*read, *constants)


def call_of(
    form: Form, library: str, shapes: Sequence[Shape], constants: int
) -> tuple[FfiCall, list[Shape]]:
    """The call of a graph, and the shapes in which it reads the inputs of its form.

    Args:
        form: of the graph.
        library: whose handler is called.
        shapes: of all inputs of the graph.
        constants: how many arrays come after the inputs.
    """
    loops = form.loops(shapes)
    read = []
    for i in form.inputs:  # vmap adds its axes in front of all
        own = len(looped(shapes[i][:-2], form.masks[i]))
        read.append((1,) * (len(loops) - own) + tuple(shapes[i]))
    masks = (*(form.masks[i] for i in form.inputs), *[None] * constants)
    return FfiCall(handler_name(library), form.n, masks, form.outputs), read


def _over(x: Any, mask: int, loops: Shape) -> Any:
    """An input with all loops as long as they are."""
    batch = x.shape[:-2]
    apart = [mask >> (len(batch) - 1 - i) & 1 for i in range(len(batch))]
    left = iter(loops)
    shape = [n if own else next(left) for n, own in zip(batch, apart, strict=True)]
    return jnp.broadcast_to(x, (*shape, *x.shape[-2:]))


class _Writer:
    """Writes words."""

    def __init__(self, buffers: dict[Table, int], n: int, constants: list[int]) -> None:
        self._buffers, self._n, self._constants = buffers, n, constants

    def code(self, schedule: Schedule, apart: Sequence[int]) -> bytes:
        """The code of a schedule, for arguments and results with these axes taken apart."""
        words = [len(schedule.phases), schedule.scratch, schedule.kept, self._n]
        words += [*[0] * len(schedule.phases), *apart]
        for number, phase in enumerate(schedule.phases):
            words[4 + number] = start = len(words)
            kind, width = int(isinstance(phase[0], PlacedConversion)), _width(self._n, phase)
            words += [kind, len(phase), width, *[0] * len(phase)]
            for i, task in enumerate(phase):
                words[start + 3 + i] = len(words)
                words += self._conversion(task) if kind else self._task(task)  # type: ignore[arg-type]
        padded = np.zeros(1 << max(len(words) - 1, 1).bit_length(), np.uint32)  # few lengths
        padded[: len(words)] = words
        return padded.tobytes()

    def _conversion(self, placed: PlacedConversion) -> list[int]:
        table = placed.conversion.table
        if _is_mix(placed.conversion):
            q: int = table.args[1]  # type: ignore[assignment]
            of_mix = [q, pow(q, -1, R), reference(self._buffers[table], 0)]
            return [_MIX, len(placed.src), len(placed.to), *placed.src, *placed.to, *of_mix]
        arrays = [int(x) for array in table.build() for x in array.ravel()]
        head = [_CONVERSIONS[table.kind], len(placed.src), len(placed.to)]
        return [*head, *placed.src, *placed.to, *arrays]

    def _task(self, steps: Sequence[Placed]) -> list[int]:
        words: list[int] = []
        group: list[Placed] = []
        for step in steps:
            if step.row.step in _STEPS:
                group.append(step)
                continue
            words += self._group(group)
            group = []
            words += self._whole_row(step)
        return [*words, *self._group(group), _END]

    def _whole_row(self, placed: Placed) -> list[int]:
        row, (src,) = placed.row, placed.src
        if row.step == "permute":
            index = reference(self._buffers[row.given[0]], 0)
            return [_PERMUTE, placed.to, src, index]
        q = row.given[0]
        twiddles = reference(self._buffers[Table("rows", (self._n, q))], 0)
        return [_NTT if row.step == "ntt" else _INTT, placed.to, src, q, twiddles]

    def _group(self, steps: Sequence[Placed]) -> list[int]:
        """Elementwise steps, with the constants that they read before them."""
        if not steps:
            return []
        own: dict[int, int] = {}
        words: list[int] = []
        for step in steps:
            src = [self._numbered(s, own) for s in step.src]
            words += self._elementwise(step, src)
        values = [self._constants[i] for i in own]
        return [_GROUP, 2 + len(values) + len(words), len(values), *values, *words]

    def _elementwise(self, step: Placed, src: list[int]) -> list[int]:
        """step, q, q^-1 mod 2^32, to; the sources. Of a sum of products: how many, 1 and a place if
        it is added to what stands there, the factors."""
        row = step.row
        if row.step in _WITH_TABLE:
            src = [*src, reference(self._buffers[row.given[-1]], 0)]
        if row.step in ("copy", "mask"):
            return [_STEPS[row.step], 0, 0, step.to, *src]
        if row.step == "repeat":
            block, period, _ = row.given
            return [_STEPS[row.step], block, period, step.to, *src]
        q = row.given[0]
        if row.step.startswith("wide_"):
            return [_STEPS[row.step], *words(q), step.to, row.given[1], *src]
        head = [_STEPS[row.step], q, pow(q, -1, 1 << 32), step.to]
        if row.step == "lift_from":
            m = row.given[1]
            return [*head, *src, *(v * R % q for v in (R, R * R, m)), *words(m // 2)]
        if row.step != "dot":
            return [*head, *src]
        adds = len(src) % 2
        return [*head, len(src) // 2, adds, src[0] if adds else 0, *src[adds:]]

    def _numbered(self, place: int, own: dict[int, int]) -> int:
        if place >> ROW_BITS != CONSTANT:
            return place
        index = place & ((1 << ROW_BITS) - 1)
        return reference(CONSTANT, own.setdefault(index, len(own)))


def _width(n: int, phase: Sequence[Any]) -> int:
    """Number of columns that a task of a phase of conversions takes."""
    if not isinstance(phase[0], PlacedConversion):
        return n
    width = min(n, _COLUMNS)
    for task in phase:
        held, least = (_MIXED, _LEAST_COLUMNS) if _is_mix(task.conversion) else (_DIGITS, 1)
        while width > least and width * len(task.src) > held:
            width //= 2
    return width


def _is_mix(conversion: Conversion) -> bool:
    return conversion.table.kind == "mix_rows"
