"""Reports of functions with loops of JAX: their loops and programs in order, cost and memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import attrs
import jax
import jax.numpy as jnp

from ren.core import html
from ren.core.printer import body_name, print_graph
from ren.core.ring import Domain, RingSpec
from ren.core.text_table import Shown, columns, size
from ren.lowering.backends.base import Unsupported
from ren.lowering.inspect.diagram import Box, Diagram, Edge
from ren.lowering.inspect.memory_report import MemoryReport
from ren.lowering.inspect.svg import svg
from ren.lowering.plan.cost import Cost, cost_of
from ren.lowering.runtime.native_calls import native_calls
from ren.lowering.runtime.planning import Planned
from ren.poly import Poly

# Name of the scope that the operations of a program are traced in.
_SCOPE = re.compile(r"ren_program_(\d+)")
_HEADER = ("step", "limb-NTTs", "multiply-adds", "runs as")


@attrs.frozen
class LoopStep:
    """A program, or a loop of JAX around those behind it that are deeper.

    Attributes:
        depth: how many loops it is in.
        text: what it is.
        times: how often it runs, as far as that is known at capture. Branches count once, and so do
            loops whose number of steps is known at each call.
        program: the number of the program; None for a loop.
    """

    depth: int
    text: str
    times: int = 1
    program: int | None = None


def steps_of(jaxpr: Any, programs: Sequence[Planned]) -> tuple[LoopStep, ...]:
    """The loops of a traced function and the programs in them, in order."""
    return tuple(_steps(jaxpr, programs, 0, 1))


def _steps(jaxpr: Any, programs: Sequence[Planned], depth: int, times: int) -> Iterator[LoopStep]:
    last = None
    for equation in jaxpr.eqns:
        scopes = _SCOPE.findall(str(equation.source_info.name_stack))
        if scopes:
            at = int(scopes[-1])
            if at != last:
                name = body_name(programs[at].source.sink)
                yield LoopStep(depth, f"program {at}: {name}", times, at)
            last = at
            continue
        kind, inner = equation.primitive.name, _bodies(equation)
        if kind in _LOOPS and inner:
            text, count = _LOOPS[kind](equation.params)
            yield LoopStep(depth, text, times)
            for body in inner:
                yield from _steps(body, programs, depth + 1, times * count)
        else:
            for body in inner:
                yield from _steps(body, programs, depth, times)


def stand_in(like: Poly, ring: RingSpec, domain: Domain, scope: str = "") -> Poly:
    """A polynomial of a ring that stands for some function of `like` in a trace of JAX.

    Args:
        like: its program becomes a part of the trace.
        ring, domain: of the result. Its residues mean nothing.
        scope: the name of a scope for `times_of`; none if empty.
    """
    limbs = like.limbs
    with jax.named_scope(scope) if scope else nullcontext():
        shape = (*limbs.shape[:-2], ring.limbs, ring.n)
        made = jnp.broadcast_to(limbs[..., :1, :1], shape)
    return Poly.from_limbs(made, ring, domain)


def times_of(jaxpr: Any, mark: str) -> dict[int, int]:
    """Count the runs of scopes named `mark` and a number, by number: see `LoopStep.times`."""
    found: dict[int, int] = {}
    _note_times(jaxpr, re.compile(rf"{mark}(\d+)"), 1, found)
    return found


def _note_times(jaxpr: Any, scope: re.Pattern[str], times: int, found: dict[int, int]) -> None:
    here = set[int]()
    for equation in jaxpr.eqns:
        if numbers := scope.findall(str(equation.source_info.name_stack)):
            here.update(map(int, numbers))
            continue
        kind = equation.primitive.name
        count = _LOOPS[kind](equation.params)[1] if kind in _LOOPS else 1
        for body in _bodies(equation):
            _note_times(body, scope, times * count, found)
    for number in here:  # a body that JAX has traced once may be that of several loops
        found[number] = found.get(number, 0) + times


def _bodies(equation: Any) -> list[Any]:
    """The jaxprs among the parameters of an equation."""
    found = []
    for value in equation.params.values():
        parts = value if isinstance(value, tuple | list) else (value,)
        found += [getattr(part, "jaxpr", part) for part in parts if hasattr(part, "jaxpr")]
    return [body for body in found if hasattr(body, "eqns")]


_LOOPS = {
    "scan": lambda params: (f"loop, {params['length']} steps", params["length"]),
    "while": lambda params: ("loop, as many steps as the call says", 1),
    "cond": lambda params: (f"one of {len(params['branches'])} branches", 1),
}


def cost_of_steps(steps: Sequence[LoopStep], programs: Sequence[Planned]) -> Cost:
    """The cost of one replay: see `LoopStep.times`."""
    total = Cost()
    for step in steps:
        if step.program is not None:
            once = attrs.astuple(cost_of(programs[step.program].plan))
            total += Cost(*(step.times * count for count in once))
    return total


def memory_of_executable(compiled: Any, held_bytes: int, key_bytes: int) -> MemoryReport:
    """The memory of one replay, as XLA states it for the executable."""
    stated = compiled.memory_analysis()
    own = stated.temp_size_in_bytes + stated.output_size_in_bytes
    return MemoryReport(
        peak_bytes=own,
        unplanned_bytes=own,
        arena_bytes=stated.temp_size_in_bytes,
        lower_bound_bytes=stated.output_size_in_bytes,
        input_bytes=stated.argument_size_in_bytes,
        output_bytes=stated.output_size_in_bytes,
        donated_bytes=0,
        held_bytes=held_bytes,
        measured_bytes=own,
        key_bytes=key_bytes,
    )


def explained(
    inputs: str,
    steps: Sequence[LoopStep],
    programs: Sequence[Planned],
    memory: MemoryReport,
    notes: Sequence[str] = (),
) -> Shown:
    """A table of the steps with inputs, cost and memory: text, in notebooks HTML."""
    rows = [_HEADER, *(_row(step, programs) for step in steps)]
    form = "runs as one executable of XLA, for its loops"
    text = "\n".join([inputs, columns(rows, (0, 3)), "", *notes, form, "", str(memory)])
    said = map(html.note, (*notes, form))
    parts = (html.note(inputs), html.table(rows, (0, 3)), *said, memory.facts())
    return Shown(text, html.card("Plan", *parts))


def _row(step: LoopStep, programs: Sequence[Planned]) -> tuple[str, ...]:
    text = "  " * step.depth + step.text
    if step.program is None:
        return text, "", "", ""
    program = programs[step.program]
    cost, calls = cost_of(program.plan), native_calls(program.source)
    if isinstance(calls, Unsupported) or not calls.has_gain:
        form = "operations of XLA"
    else:
        form = f"{len(calls.programs)} native call{'s' * (len(calls.programs) > 1)}"
    return text, str(cost.limb_ntts or ""), str(cost.multiply_adds or ""), form


def listed(steps: Sequence[LoopStep], programs: Sequence[Planned]) -> str:
    """The steps with the graph of each program, as text."""
    lines = []
    for step in steps:
        indent = "  " * step.depth
        lines.append(indent + step.text)
        if step.program is not None:
            graph = print_graph(programs[step.program].source.sink)
            lines += [f"{indent}  {line}" for line in graph.splitlines()]
    return "\n".join(lines)


def diagram(steps: Sequence[LoopStep], inputs: int, outputs: int) -> Diagram:
    """The steps one after another, between the inputs and the results."""
    boxes = [Box("input", f"{inputs} inputs", "", is_leaf=True)]
    boxes += [Box("step", "  " * step.depth + step.text, "") for step in steps]
    boxes.append(Box("result", f"{outputs} results", "", is_leaf=True, is_result=True))
    edges = [Edge(i, i + 1) for i in range(len(boxes) - 1)]
    return Diagram(tuple(boxes), tuple(edges), "Plan: one executable of XLA")


def card(steps: Sequence[LoopStep], inputs: int, outputs: int, cost: Cost) -> str:
    """A function with loops as HTML for notebooks."""
    rows = [
        ("inputs", str(inputs)),
        ("outputs", str(outputs)),
        ("work", f"{cost.limb_ntts:,} limb-NTTs, {cost.multiply_adds:,} multiply-adds"),
    ]
    drawn = html.picture(svg(diagram(steps, inputs, outputs)))
    more = html.note("explain() lists the steps, .cost and .memory the numbers.")
    return html.card("Plan", html.facts(rows), drawn, more)


def bytes_text(counts: Sequence[tuple[str, int, int]]) -> str:
    """`3 inputs: 2 bound at each call (64 B), ...` from kinds with counts and bytes."""
    total = sum(count for _, count, _ in counts)
    parts = [f"{count} {what} ({size(held)})" for what, count, held in counts if count]
    return f"{total} inputs: {', '.join(parts)}"
