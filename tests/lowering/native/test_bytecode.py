"""Bytecode with wrong words: a debug build refuses a word that indexes out of bounds.

A mutant gives an error that names word and value, or a result; it never crashes the driver. Release
builds do not check: their bytecode comes from `ren.lowering.backends.native.bytecode` alone.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

import attrs
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ren
from ren.lowering.backends.native import build, library
from ren.lowering.backends.native.bytecode import NativeProgram, emit_native
from ren.lowering.program.instructions import Table
from ren.lowering.program.steps import Segment
from ren.lowering.runtime.runner import graph_runner
from tests.lowering.native import mutants
from tests.lowering.native.calls import compiler as compiler  # a fixture of all tests here
from tests.lowering.native.calls import native_program_of, ring
from tests.lowering.native.driver import (
    ADDRESS,
    DEBUG,
    HANDED_OVER,
    Mutant,
    Recorded,
    driver,
    outcomes,
)
from tests.lowering.native.recorded import small_plans
from tests.lowering.plans import arrays, plan, poly

QUICK, THOROUGH = 30, 600  # mutants of each of the plans: 360 and 7,200 in all
ERROR = re.compile(
    r"error: Word (\d+) of the bytecode is (\d+|missing)[.:] .+\. "
    r"Report this as a defect of Ren's compiler\.|"
    r"error: Words 0 to 3 of the bytecode are missing\."
)


@cache
def plans() -> list[Recorded]:
    return small_plans()


def mutated(count: int) -> list[Recorded]:
    """Return the plans with random mutants of fixed seeds."""
    drawn = [mutants.drawn(p.args[-1], random.Random(i), count) for i, p in enumerate(plans())]
    return [attrs.evolve(p, mutants=tuple(m)) for p, m in zip(plans(), drawn, strict=True)]


def assert_refused_or_run(program: Path, calls: list[Recorded], folder: Path) -> int:
    """Run plans and mutants; check each outcome and return the number of errors."""
    lines = iter(outcomes(program, calls, folder, threads=3)[1:])
    errors = 0
    for call in calls:
        assert next(lines) == "ok"
        for mutant in call.mutants:
            line = next(lines)
            if line in ("ok", "differs"):
                continue
            errors += 1
            found = ERROR.fullmatch(line)
            assert found, line
            if found[2] and found[2] != "missing":
                word = int(found[1])
                held = dict(mutant.edits).get(word, int(call.args[-1][word]))
                assert held == int(found[2])
    return errors


@pytest.mark.long
def test_mutants_give_an_error_or_a_result(tmp_path):
    calls = mutated(QUICK)
    program = driver("-O0", *DEBUG, replaced=[HANDED_OVER])
    errors = assert_refused_or_run(program, calls, tmp_path)
    assert errors > QUICK * len(calls) // 3


@pytest.mark.slow
def test_mutants_have_no_report_of_addresses(tmp_path):
    program = driver("-O1", *DEBUG, *ADDRESS)
    assert assert_refused_or_run(program, mutated(THOROUGH), tmp_path) > 1000
    swept = [
        attrs.evolve(p, mutants=tuple(m for v in (0, 1, 0xFFFFFFFF) for m in words(p, v)))
        for p in plans()
    ]
    assert_refused_or_run(program, swept, tmp_path)


def words(call: Recorded, value: int) -> list[Mutant]:
    return mutants.swept(call.args[-1], value)


@pytest.mark.slow
def test_mutants_without_the_row_check_are_reported(tmp_path):
    """Without the check the same mutants touch memory out of bounds."""
    check = "if (row + count <= rows) return;"
    program = driver("-O0", *DEBUG, *ADDRESS, replaced=[(check, "return;")])
    with pytest.raises(AssertionError, match=r"AddressSanitizer|runtime error"):
        outcomes(program, mutated(THOROUGH), tmp_path)


# Words of the product of degree 1024 over a batch of 2, and what is said of them.
PHASES, SCRATCH, KEPT, N, FIRST = range(5)


def edits() -> dict[str, tuple[int, int, str]]:
    call = plans()[0]
    code = call.args[-1].tolist()
    last_mask = 4 + code[PHASES] + len(call.args) + len(call.results) - 1
    head = code[FIRST]
    task = code[head + 3]
    return {
        "phases": (PHASES, 1 << 31, "the number of phases"),
        "scratch": (SCRATCH, 1 << 31, "the number of scratch rows"),
        "kept": (KEPT, 1 << 31, "the number of kept rows"),
        "degree": (N, 2048, "the degree"),
        "no power of two": (N, 1023, "the degree"),
        "axes": (last_mask, 1, "the mask of batch axes"),
        "phase": (FIRST, 1 << 20, "the position of a phase"),
        "kind": (head, 2, "the kind of a phase"),
        "tasks": (head + 1, 1 << 20, "the number of tasks"),
        "columns": (head + 2, 0, "the columns of a task"),
        "task": (head + 3, 0, "the position of a task"),
        "opcode": (task, 5, "an opcode"),
        "written": (task + 1, 0, "a row to write: row 0 of buffer 0"),
        "read": (task + 2, 900 << 20, "a row to read: row 0 of buffer 900"),
    }


def test_error_names_the_word_and_its_value(tmp_path):
    (call, *_), table = plans(), edits()
    length = len(call.args[-1])
    made = tuple(Mutant(length, ((word, value),)) for word, value, _ in table.values())
    lines = outcomes(driver("-O0", *DEBUG), [attrs.evolve(call, mutants=made)], tmp_path)
    for line, (word, value, role) in zip(lines[2:], table.values(), strict=True):
        assert line.startswith(f"error: Word {word} of the bytecode is {value}. As {role}"), line


def test_permutation_with_an_entry_above_the_degree_is_refused(tmp_path):
    call = plans()[3]
    (i,) = [i for i, a in enumerate(call.args[1:-1], 1) if a.shape == (1024,)][:1]
    index = call.args[i].copy()
    index[77] = 1024
    args = (*call.args[:i], index, *call.args[i + 1 :])
    (_, line) = outcomes(driver("-O0", *DEBUG), [attrs.evolve(call, args=args)], tmp_path)
    assert line.startswith("error: Word ") and "the index of a permutation" in line
    assert "one is 1024" in line


def run_with(name: str, word: int, value: int, n: int) -> None:
    """Runs a plan through XLA and a library, with one word of its bytecode replaced."""
    x = poly(0, ring(n, 2), batch=(3,))
    p = plan((x * x).rescale(x.ring.moduli[:1]), x + 1)
    (step,) = graph_runner(p).steps
    assert isinstance(step, Segment)
    inputs = arrays(p)
    found = native_program_of(step, inputs)
    assert isinstance(found, NativeProgram)
    code = np.frombuffer(found.tables[-1].args[0], np.uint32).copy()  # type: ignore[arg-type]
    code[word] = value
    tables = (*found.tables[:-1], Table("code", (code.tobytes(),)))
    built = tuple(tuple(map(jnp.asarray, table.build())) for table in tables)
    jax.block_until_ready(emit_native(found.form, name, built, *[inputs[v] for v in step.ins]))


@pytest.mark.parametrize("word", [SCRATCH, KEPT])
def test_out_of_memory_raises_an_error_instead_of_aborting(word):
    if build.NATIVE_FLAGS:
        pytest.skip("a debug build refuses the word")
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"RESOURCE_EXHAUSTED.*out of memory"):
        run_with(library.outcome().name, word, (1 << 32) - 1, 1 << 15)


@pytest.mark.slow
def test_debug_library_raises_the_error_through_xla(monkeypatch):
    monkeypatch.setattr(build, "NATIVE_FLAGS", "-DREN_DEBUG -O1")
    compiler = build.compiler()
    name = build.key(compiler)[:16]
    library._registered[name] = library._register(build.library(compiler), name)
    run_with(name, N, 1024, 1024)
    with (
        ren.config.update(native=True),
        pytest.raises(
            (ValueError, RuntimeError), match=r"Word 3 of the bytecode is 12\. As the degree"
        ),
    ):
        run_with(name, N, 12, 1024)
