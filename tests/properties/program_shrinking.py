"""Shrinks a program with a finding to few operations on few numbers that have it too."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from tests.properties.judged import Finding
from tests.properties.program_model import NAME, Input, Program, Setting, Step
from tests.properties.program_runs import input_values, run

_RUNS = 80


def shrunk(program: Program, finding: Finding, runs: int = _RUNS) -> Program:
    """The smallest program found in so many runs that has a finding of the same signature."""
    best = program
    while True:
        for candidate in _smaller(best, finding):
            if runs == 0:
                return best
            runs -= 1
            if any(f.signature == finding.signature for f in run(candidate).findings):
                best = candidate
                break
        else:
            return best


def _smaller(program: Program, finding: Finding) -> Iterator[Program]:
    """Programs with less, the boldest cuts first."""
    needed = _needed(program, finding.name)
    if len(needed.steps) < len(program.steps) or len(needed.inputs) < len(program.inputs):
        yield needed
    for i, step in enumerate(program.steps):
        for source in step.reads:
            yield _without(program, i, source)
    if program.mode != "steps" and not finding.mode:
        yield attrs.evolve(program, mode="steps")
    for other in program.inputs[1:]:
        yield _merged(program, other, program.inputs[0].name)
    for i, item in enumerate(program.inputs):
        for simpler in _simpler(item):
            inputs = (*program.inputs[:i], simpler, *program.inputs[i + 1 :])
            yield attrs.evolve(program, inputs=inputs)
    small = Setting(1, 1 << 10, 8)
    for setting in (small, attrs.evolve(small, depth=2), attrs.evolve(program.setting, slots=8)):
        if (setting.depth, setting.slots) < (program.setting.depth, program.setting.slots):
            yield attrs.evolve(program, setting=setting)


def _needed(program: Program, name: str) -> Program:
    """What the step `name` reads, directly or not, with the last step where it is none."""
    wanted = {name}
    steps: list[Step] = []
    for step in reversed(program.steps):
        if step.name in wanted:
            wanted.update(step.reads)
            steps.append(step)
    inputs = tuple(i for i in program.inputs if i.name in wanted)
    return attrs.evolve(program, inputs=inputs, steps=tuple(reversed(steps)))


def _renamed(step: Step, old: str, new: str) -> Step:
    text = NAME.sub(lambda m: new if m[0] == old else m[0], step.text)
    return attrs.evolve(step, text=text)


def _without(program: Program, i: int, source: str) -> Program:
    """Without one step: what reads it reads `source` instead."""
    name = program.steps[i].name
    steps = program.steps[:i] + tuple(_renamed(s, name, source) for s in program.steps[i + 1 :])
    return attrs.evolve(program, steps=steps)


def _merged(program: Program, item: Input, name: str) -> Program:
    """Without one input: what reads it reads another."""
    inputs = tuple(i for i in program.inputs if i != item)
    steps = tuple(_renamed(s, item.name, name) for s in program.steps)
    return attrs.evolve(program, inputs=inputs, steps=steps)


def _simpler(item: Input) -> Iterator[Input]:
    """The top level, and few or whole numbers."""
    if item.level is not None:
        yield attrs.evolve(item, level=None)
    shape = input_values(item.values).shape
    count = shape[-1] if shape else 0
    if count > 3:
        yield attrs.evolve(item, values="[1.0, 2.0, 3.0]")
    written = str([float(i + 1) for i in range(count)])
    if len(shape) == 1 and count <= 8 and item.values != written:
        yield attrs.evolve(item, values=written)
