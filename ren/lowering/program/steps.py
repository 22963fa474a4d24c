"""Steps of plans: units, and segments of units, which one backend runs as one executable."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import TypeVar

import attrs

from ren.core import op as ops
from ren.core.node import Node
from ren.core.printer import body_name
from ren.core.spec import KEY, BufferArg, PlaceholderArg, ScalarArg, Spec
from ren.lowering.program.graph import Call, Graph, Kernel, Slice
from ren.lowering.program.instructions import Table

Donations = tuple[tuple[int, int], ...]


@attrs.frozen(eq=False)
class Input:
    """An array that a plan reads: of a buffer held by the plan, or bound at each call.

    A key is bound too: each call finds it by the id of the keys of its arguments.
    `is_pruned` marks a held buffer that the captured function computed, once, at capture.
    `is_donated` marks a bound one that its caller gives away: a result may stand in its buffer.
    """

    arg: BufferArg | PlaceholderArg | ScalarArg
    spec: Spec
    is_pruned: bool = False
    is_donated: bool = False

    @property
    def is_held(self) -> bool:
        """True for a buffer that the plan itself holds."""
        return isinstance(self.arg, BufferArg)

    @property
    def key(self) -> str | None:
        """The name of the key of encryption that it is a part of; None for other inputs."""
        arg = self.arg
        return arg.label if isinstance(arg, PlaceholderArg) and arg.how == KEY else None


def _kernel_name(unit: KernelUnit) -> str:
    return body_name(unit.kernel.body)


@attrs.frozen(eq=False)
class KernelUnit:
    """Runs a kernel: `values[outs] = kernel(*values[ins])`, then forgets `drops`.

    Attributes:
        donate: pairs (position in `ins`, position in `outs`). The first is an intermediate or
            donated input that dies here. The second is the result of the same shape that takes over
            its buffer.
        name: the ops of the kernel, for people.
    """

    kernel: Kernel
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    drops: tuple[int, ...] = ()
    donate: Donations = ()
    name: str = attrs.field(default=attrs.Factory(_kernel_name, takes_self=True))


@attrs.frozen(eq=False)
class CopyUnit:
    """Moves `values[ins[0]]` to a device, then forgets `drops`."""

    device: Hashable
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    drops: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the step, for people."""
        return f"COPY to {self.device}"


@attrs.frozen(eq=False)
class ViewUnit:
    """Binds limbs `start` to `start + length` of `values[ins[0]]`, over `spec`; no kernel runs.

    JAX arrays have no free views: reading the limbs slices them once.
    """

    spec: Spec
    start: int
    length: int
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    drops: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the step, for people."""
        return f"VIEW of limbs {self.start} to {self.start + self.length - 1}"


Unit = KernelUnit | CopyUnit | ViewUnit
Computing = KernelUnit | ViewUnit


@attrs.frozen(eq=False)
class Segment:
    """Part of a plan for one executable: `values[outs] = graph(*values[ins])`.

    Attributes:
        units: the units of the plan that it stands for, in order. A part of a program that is not
            divided into kernels has none.
        graph: their programs, and how they are wired.
        tables: the tables of all its programs, each once.
        ins, outs: the values of the plan that it reads and makes.
        drops: the values that nothing afterwards reads.
        donate: pairs (position in `ins`, position in `outs`). The result may stand in the buffer of
            the input, which is gone afterwards.
    """

    units: tuple[Computing, ...]
    graph: Graph
    tables: tuple[Table, ...]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    drops: tuple[int, ...] = ()
    donate: Donations = ()

    @property
    def name(self) -> str:
        """Name of the segment, for people."""
        if len(self.units) == 1:
            return self.units[0].name
        if self.units:
            return f"GRAPH of {len(self.units)} units"
        programs = (step.program for step in self.graph.steps if isinstance(step, Call))
        ops = sum(i.op not in ("SLOT", "STORE") for p in programs for i in p.instrs)
        return f"CALL of {ops} ops"


def segment_of(units: Sequence[Computing], wanted: Collection[int] | None = None) -> Segment:
    """The segment of some units; it drops nothing.

    Args:
        units: in the order of the plan.
        wanted: the values that others read, or None for all that the units make.
    """
    made = [v for unit in units for v in unit.outs]
    inside = set(made)
    ins = tuple(dict.fromkeys(v for unit in units for v in unit.ins if v not in inside))
    outs = tuple(v for v in made if wanted is None or v in wanted)
    number = {v: i for i, v in enumerate((*ins, *made))}
    tables: dict[Table, int] = {}
    steps: list[Call | Slice] = []
    for unit in units:
        src = tuple(number[v] for v in unit.ins)
        if isinstance(unit, ViewUnit):
            steps.append(Slice(unit.start, unit.length, src[0]))
            continue
        needed = tuple(tables.setdefault(t, len(tables)) for t in unit.kernel.tables)
        steps.append(Call(unit.kernel.program, needed, src))
    graph = Graph(len(ins), tuple(steps), tuple(number[v] for v in outs))
    return Segment(tuple(units), graph, tuple(tables), ins, outs)


def unit_segment(unit: Computing) -> Segment:
    """A unit as a segment of its own, with its donations."""
    donate = unit.donate if isinstance(unit, KernelUnit) else ()
    return attrs.evolve(segment_of([unit]), drops=unit.drops, donate=donate)


def nbytes(spec: Spec) -> int:
    """The bytes of a value: four for each residue."""
    return 4 * math.prod(spec.shape)


def stored(unit: KernelUnit) -> tuple[Node, ...]:
    """The expressions that a kernel stores, in order, without the copies that users asked for."""
    return tuple(_behind(store.src[1]) for store in unit.kernel.body.src)


def _behind(node: Node) -> Node:
    while node.op is ops.CONTIGUOUS:
        node = node.src[0]
    return node


def read_slots(order: Iterable[Node]) -> list[Node]:
    """The SLOTs of a kernel body that are read; the others are written."""
    return [node for node in order if node.op is ops.SLOT and node.arg.index >= 0]


def value_specs(inputs: Iterable[Input], units: Iterable[Unit]) -> tuple[Spec, ...]:
    """The type of every value of a plan, by number."""
    specs = [i.spec for i in inputs]
    for unit in units:
        if isinstance(unit, CopyUnit):
            specs.append(specs[unit.ins[0]])
        elif isinstance(unit, ViewUnit):
            specs.append(unit.spec)
        else:
            specs.extend(store.spec for store in unit.kernel.body.src)
    return tuple(specs)


AnyStep = TypeVar("AnyStep", bound=Unit | Segment)


def with_last_uses(steps: Sequence[AnyStep], outputs: Sequence[int]) -> tuple[AnyStep, ...]:
    """The steps, each with the values that nothing after it reads; `outputs` are read last."""
    live = set(outputs)
    done: list[AnyStep] = []
    for step in reversed(steps):
        used = dict.fromkeys((*step.ins, *step.outs))
        drops = tuple(v for v in used if v not in live)
        live.update(used)
        done.append(attrs.evolve(step, drops=drops))  # type: ignore[type-var]
    return tuple(reversed(done))
