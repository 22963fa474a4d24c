"""Random programs on ciphertexts beside their NumPy twins: drawn, run, judged, and shrunk.

The source of a program runs on ciphertexts and on twins in the clear (`clear_ciphertext`). A result
is accepted where Ren raised a RenError, where Ren warned, or where it is within
`estimate.error_bound` of the twin (`judged`). From the root:

    python -m tests.properties.ciphertext_programs --seed 0 --count 2000
"""

from __future__ import annotations

import argparse
import collections
import gc
import resource
import sys
import time
from collections.abc import Callable

import attrs
import jax
import numpy as np

import ren
from ren.schemes import ckks
from tests.properties.ciphertext_operations import draw_operation
from tests.properties.clear_ciphertext import UndefinedError
from tests.properties.judged import Finding
from tests.properties.op_by_op import op_by_op
from tests.properties.program_draw import Draw
from tests.properties.program_model import Input, Program, Setting, Step
from tests.properties.program_runs import Outcome, clear_inputs, clear_value, context_of, run
from tests.properties.program_shrinking import shrunk

_MOST = 2.0**24  # programs whose numbers grow beyond are drawn again
_LARGEST = 8192  # numbers in a result
_SHARES = {"vmap": 120, "jit": 30, "lazy": 2}  # every so many programs
_FATES = ("failed", "raised", "vague", "warned", "refused", "equal")
_CLEARED = 400  # programs between two clearings of caches


def draw_program(*seed: int) -> Program:
    """The program of a seed; it depends on nothing that Ren does."""
    rng = np.random.default_rng(seed)
    setting = _draw_setting(rng)
    mode = next((m for m, every in _SHARES.items() if rng.integers(every) == 0), "steps")
    d = Draw(rng, {}, setting.depth, hasattr(ckks, "pad"))
    inputs = _draw_inputs(d, setting)
    program = Program(setting, inputs, (), mode, seed)
    d.scope.update(clear_inputs(program))
    drawn = (_draw_step(d, f"v{len(inputs) + k}") for k in range(int(rng.integers(1, 7))))
    return attrs.evolve(program, steps=tuple(step for step in drawn if step is not None))


def draw_repeating_program(*seed: int) -> Program:
    """The program of a seed that begins with wide matrices: most results repeat in all slots."""
    rng = np.random.default_rng(seed)
    slots = int(rng.choice([8, 16, 32]))
    setting = Setting(int(rng.integers(3, 7)), 1 << 10, slots)
    d = Draw(rng, {}, setting.depth, True)
    k, m = d.integer(slots // 2 + 1, slots), d.integer(1, slots // 4)
    inputs = tuple(Input(f"v{i}", d.values((k,)), None) for i in range(2))
    program = Program(setting, inputs, (), "steps", seed)
    d.scope.update(clear_inputs(program))
    steps = []
    for name, text in (("v2", f"{d.values((m, k))} @ v0"), ("v3", f"{d.values((m, k))} @ v1")):
        steps.append(Step(name, text, "matrix"))
        made = clear_value(text, d.scope)
        assert not isinstance(made, Exception)
        d.scope[name] = made
    for name in ("v0", "v1"):  # the others follow from what repeats
        del d.scope[name]
    steps += [_draw_step(d, f"v{4 + i}") for i in range(int(rng.integers(2, 7)))]
    return attrs.evolve(program, steps=tuple(step for step in steps if step is not None))


def _draw_setting(rng: np.random.Generator) -> Setting:
    if rng.random() < 0.08:
        return Setting(14, 1 << 10, 16)
    depth = int(rng.integers(1, 5))
    sizes = [(10, 512), (10, 8), (10, 32), (11, 64), (12, 128)]
    n, slots = sizes[int(rng.choice(len(sizes), p=[0.25, 0.3, 0.25, 0.15, 0.05]))]
    return Setting(depth, 1 << n, slots)


def _draw_inputs(d: Draw, setting: Setting) -> tuple[Input, ...]:
    slots, made = setting.slots, []
    k, b = d.pick([1, 2, 3, 4, 4, 5, 6, 6, 8, 9, 12]), d.integer(1, 3)
    for _ in range(d.integer(1, 3)):
        shapes = [(k,)] * 6 + [(), (1,), (slots,), (b, k), (b, k), (b, 1), (1, k), (k + 2,)]
        shapes += [(slots + 3,), (2 * slots,)] if d.chance(0.25) else []
        level = None if d.chance(0.6) else d.integer(0, setting.depth)
        made.append(Input(f"v{len(made)}", d.values(d.pick(shapes)), level))
    return tuple(made)


def _draw_step(d: Draw, name: str) -> Step | None:
    """An operation with a result of a reasonable size; now and then one that is refused."""
    for _ in range(50):
        kind, text = draw_operation(d)
        made = clear_value(text, d.scope)
        if isinstance(made, UndefinedError):
            continue
        if isinstance(made, Exception):
            if d.chance(0.12):
                return Step(name, text, kind)
            continue
        if made.values.size > _LARGEST or (made.level < 0 and not d.chance(0.1)):
            continue
        z = np.abs(made.values)
        if z.max() > _MOST:
            continue
        if np.isnan(z).any():  # beyond an interval: no more operations on it
            if d.chance(0.3):
                return Step(name, text, kind)
            continue
        d.scope[name] = made
        return Step(name, text, kind)
    return None


# ------------------------------------------------------------------- many programs


@attrs.define
class Campaign:
    """Counts over many programs, and the first program of every kind of finding.

    Attributes:
        programs: by what became of them: equal, vague, warned, raised, refused, failed.
        errors: of Ren where NumPy has a result, by class and operation.
        operations: by kind.
        modes: how programs were run.
        failures: by signature: how many, and the first program with its finding.
    """

    programs: collections.Counter[str] = attrs.field(factory=collections.Counter)
    errors: collections.Counter[str] = attrs.field(factory=collections.Counter)
    operations: collections.Counter[str] = attrs.field(factory=collections.Counter)
    modes: collections.Counter[str] = attrs.field(factory=collections.Counter)
    failures: dict[tuple[str, str, str], tuple[int, Program, Finding]] = attrs.field(factory=dict)

    def share(self, fate: str) -> float:
        """The share of programs of which one became: raised where NumPy has a result, say."""
        return self.programs[fate] / max(self.programs.total(), 1)

    def add(self, program: Program, outcome: Outcome) -> None:
        """Counts a program."""
        kinds, kind_of = set(outcome.steps.values()), {s.name: s.kind for s in program.steps}
        fate = "failed" if outcome.findings else "raised" if outcome.raised else None
        self.programs[
            fate or next(k for k in ("vague", "warned", "refused", "equal") if k in kinds)
        ] += 1
        self.errors.update(
            f"{error} by {kind_of.get(name, 'an input')}" for name, error in outcome.raised.items()
        )
        self.operations.update(step.kind for step in program.steps)
        self.modes[program.mode] += 1
        for finding in outcome.findings[:1]:  # what follows may follow from it
            count, first, found = self.failures.get(finding.signature, (0, program, finding))
            self.failures[finding.signature] = count + 1, first, found

    def report(self, is_shrunk: bool = True) -> str:
        """All counts, and a minimal program for each kind of finding."""
        lines = [
            f"programs    {dict(self.programs.most_common())}",
            f"raised in   {self.share('raised'):.1%}: {dict(self.errors.most_common())}",
            f"modes       {dict(self.modes.most_common())}",
            f"operations  {dict(self.operations.most_common())}",
        ]
        for signature, (count, program, finding) in sorted(self.failures.items()):
            if is_shrunk:
                program = shrunk(program, finding)
                again = [f for f in run(program).findings if f.signature == signature]
                finding = again[0] if again else finding
            lines += ["", f"{count} x {' '.join(signature).strip()}: {finding.detail}"]
            lines.append(program.source)
        return "\n".join(lines)


def campaign(
    seed: int,
    count: int,
    seconds: float = float("inf"),
    drawn: Callable[..., Program] = draw_program,
) -> Campaign:
    """Runs `count` programs of a seed, or as many as there is time for; clears caches in between.

    JAX and Ren keep what they compile, and contexts the keys that they have made.
    """
    made, start = Campaign(), time.monotonic()
    for first in range(0, count, _CLEARED):
        with op_by_op():
            for i in range(first, min(first + _CLEARED, count)):
                if time.monotonic() - start > seconds:
                    return made
                program = drawn(seed, i)
                made.add(program, run(program))
        if count > _CLEARED:
            _clear()
    return made


def _clear() -> None:
    context_of.cache_clear()
    ren.clear_jit()
    jax.clear_caches()
    gc.collect()


def main() -> int:
    """The command line; 1 where a program failed."""
    parser = argparse.ArgumentParser(description="Runs random programs on ciphertexts.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000, help="programs")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="at most")
    parser.add_argument("--only", type=int, help="run and print one program of the seed")
    parser.add_argument("--whole", action="store_true", help="do not shrink programs")
    asked = parser.parse_args()
    start = time.monotonic()
    if asked.only is not None:
        program = draw_program(asked.seed, asked.only)
        with op_by_op():
            outcome = run(program)
        print(program.source, *outcome.steps.items(), *outcome.findings, sep="\n")
        return len(outcome.findings) > 0
    made = campaign(asked.seed, asked.count, asked.seconds)
    took = time.monotonic() - start
    with op_by_op():
        print(made.report(not asked.whole))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n{made.programs.total()} programs in {took:.0f} s, {peak:.2f} GiB at most")
    return len(made.failures) > 0


if __name__ == "__main__":
    sys.exit(main())
