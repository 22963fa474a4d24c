"""Random programs over the whole surface of a Ciphertext, against NumPy twins.

`ciphertext_programs` draws them, `clear_ciphertext` has the contract, and `judged` the rule: a
result is within its error bound, or Ren raised or warned.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable

import attrs
import numpy as np
import pytest

from ren.schemes import ckks
from tests.properties.ciphertext_operations import OPERATIONS
from tests.properties.ciphertext_programs import (
    campaign,
    draw_program,
    draw_repeating_program,
)
from tests.properties.clear_ciphertext import ClearCiphertext
from tests.properties.judged import judged
from tests.properties.op_by_op import op_by_op
from tests.properties.program_model import Input, Program, Setting, Step
from tests.properties.program_runs import context_of, run
from tests.properties.program_shrinking import shrunk

COUNT = 25
MOST_RAISED, MOST_VAGUE = 0.35, 0.1


def check(seed: int, count: int, drawn: Callable[..., Program] = draw_program) -> None:
    """Runs programs; fails with minimal ones."""
    made = campaign(seed, count, drawn=drawn)
    assert not made.failures, made.report()
    assert made.share("raised") <= MOST_RAISED, made.report()
    assert made.share("vague") <= MOST_VAGUE, made.report()


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.once)])
def test_random_programs_agree_with_numpy(seed):
    check(seed, COUNT)


@pytest.mark.long
@pytest.mark.once
def test_random_programs_of_vectors_that_repeat():
    check(2, COUNT, draw_repeating_program)


@pytest.mark.slow
def test_a_thousand_programs_of_vectors_that_repeat():
    check(3, 1000, draw_repeating_program)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_twenty_thousand_random_programs_agree_with_numpy(seed):
    check(seed, 1000)


# ------------------------------------------------------------------- programs that failed once

X, Y, R = "[1.0, 2.0, 3.0]", "[4.0, 5.0, 6.0]", "np.arange(6.0)"
REGRESSIONS = {
    "an array of one number": ([X], "v0 + np.array([1.0])"),
    "a plaintext of one number": ([X], "ctx.encode([0.5]) * v0"),
    "a ciphertext of one number": ([X, "[2.0]"], "v0 * v1"),
    "a column times a batch": (["np.arange(6.0).reshape(3, 2)"], "v0 * np.array([[1], [2], [3]])"),
    "a division by an array of one number": ([X], "v0 / [0.5]"),
    "a row plus a matrix": ([R, "[1.0, 2.0]"], "v0.reshape(3, 2)", "v2 + v1"),
    "an array that is longer": ([X], "v0 + np.zeros(5)"),
    "a bound far below the tracked one": ([X], "v0 * 1e6 * 1e-7", "(v1 + 1e6 - 1e6).within(0.5)"),
    "a mask of a column": ([X], "v0.reshape(3, 1)", "v1.mask([1.0, 0.5, 0.0])"),
    "a rotation of scalars": (["np.ones((2, 3))"], "v0 @ np.ones(3)", "(v1 - [5.0]).rotate(3)"),
    "a number, then zeros that are longer": ([X], "v0 + 1", "v1 + np.zeros(10)"),
    "a ciphertext that is longer": ([X, "np.ones(5)"], "v0 * v1"),
    "a slice of one number": ([X, Y], "v0[0:1]", "v2 * v1"),
    "a slice that is rotated": ([X], "v0[:2]", "v1.rotate(1)"),
    "a number, then a rotation": ([X], "v0 + 1", "v1.rotate(1)"),
    "two rotations": ([X], "v0.rotate(1)", "v1.rotate(-1)"),
    "a rotation, then a strided sum": ([X], "v0.rotate(1)", "ckks.strided_sum(v1, 7, -1)"),
    "a product with a matrix, then a rotation": ([R], "np.ones((2, 6)) @ v0", "v1.rotate(-3)"),
    "a sum that wraps": (["np.full(32, 400.0)"], "v0.compress()", "v1.sum()"),
    "a strided sum that wraps": (["np.full(8, 400.0)"], "v0.compress()",
                                 "ckks.strided_sum(v1, 8)"),
    "a matrix that wraps": (["np.full(6, 300.0)"], "v0.drop_to(1)", "np.full((2, 6), 9.0) @ v1"),
    "a sign beyond its interval": (["[20.0, -20.0, 3.0]"], "ckks.math.sign(v0, degree=7)"),
    "tan beyond its interval": ([X], "ckks.math.tan(v0, degree=1)"),
    "a series beyond its interval": ([X], "ckks.chebyshev(v0, [0.0, 0.0, 1.0], (-1, 1))"),
    "rows of a matrix": ([R], "v0.reshape(3, 2)", "v1[0:1]"),
    "copies of a matrix": ([R], "v0.reshape(3, 2)", "v1.tile(2)"),
    "means of a batch plus an array": (["[[1.0, 2.0]]"], "v0.mean()", "[1] + v1"),
    "batches that do not fit": ([X], "ckks.stack([v0, v0])", "np.ones((3, 3)) + v1"),
    "a batch as bytes": ([X], "v0 - np.ones((6, 1))", "ckks.Ciphertext.from_bytes(v1.to_bytes())"),
    "a constant of a batch": ([R], "np.ones((2, 6)) + v0", "ckks.poly(v1, [2])",
                              "ckks.stack([v1, v2])"),
    "a wide interval": ([X], "ckks.math.sigmoid(v0, interval=(-393, 390), precision=4)"),
}  # fmt: skip


def program(inputs: list[str], *texts: str, mode: str = "steps") -> Program:
    """A program at depth 4 with 32 slots; the steps are named after the inputs."""
    first = len(inputs)
    given = tuple(Input(f"v{i}", text) for i, text in enumerate(inputs))
    steps = tuple(Step(f"v{first + i}", text, "step") for i, text in enumerate(texts))
    return Program(Setting(4, 1 << 10, 32), given, steps, mode)


@pytest.mark.once
@pytest.mark.parametrize("name", REGRESSIONS)
def test_programs_that_failed_once_agree_with_numpy(name):
    inputs, *texts = REGRESSIONS[name]
    with op_by_op():
        outcomes = [run(program(inputs, *texts, mode=mode)) for mode in ("steps", "lazy")]
    assert not any(outcome.findings for outcome in outcomes), outcomes


# ------------------------------------------------------------------- the generator and the judge


@pytest.mark.long
def test_programs_follow_from_their_seed_and_cover_every_operation():
    kinds: collections.Counter[str] = collections.Counter()
    for i in range(400):
        kinds.update(step.kind for step in draw_program(0, i).steps)
    assert draw_program(3, 7) == draw_program(3, 7)
    missing = {name for name in OPERATIONS if name != "pad" or hasattr(ckks, "pad")} - set(kinds)
    assert not missing


def test_rotations_of_a_twin_are_cyclic_over_the_slots_with_zeros_beyond_the_length():
    x = ClearCiphertext([1.0, 2.0, 3.0], 1, 8, 1)
    assert x.rotate(1).values.tolist() == [2, 3, 0]
    assert x.rotate(1).rotate(-1).values.tolist() == [0, 2, 3]
    assert x.rotate(7).values.tolist() == [0, 1, 2]
    assert x.strided_sum(8).values.tolist() == [6, 6, 6]
    assert x[:2].rotate(1).values.tolist() == [2, 0]


def test_judge_finds_what_differs_from_a_twin():
    x = context_of(Setting(1)).encrypt([1.0, 2.0])
    twin = ClearCiphertext([1.0, 2.0], 1, 512, 1)
    off = 2 * x.estimate.error_bound
    assert judged("v", "test", x, twin, False) is None
    wrong = {
        "error": twin.made(twin.values + off),
        "shape": twin.made(twin.values[None]),
        "kind": twin.made(twin.values + 0j),
    }
    for what, other in wrong.items():
        found = judged("v", "test", x, other, False)
        assert found is not None and found.what == what
    found = judged("v", "test", x.within(0.5), twin, False)
    assert found is not None and found.what == "message bound"
    assert judged("v", "test", x, wrong["error"], True) is None
    assert judged("v", "test", x, twin.made([1.0, math.nan]), False) is not None


def test_a_finding_is_shrunk_to_the_operation_that_is_wrong(monkeypatch):
    monkeypatch.setattr(ckks.Ciphertext, "conj", lambda x: x + 1e-3)
    texts = ("v0 * v1", "v2 + 0.5", "v3.conj()", "v4 - v0", "-v5")
    whole = attrs.evolve(program([X, Y], *texts, mode="lazy"), seed=(1,))
    with op_by_op():
        findings = run(whole).findings
        small = shrunk(whole, findings[0])
    assert [step.text for step in small.steps] == ["v0.conj()"]
    assert small.inputs == (Input("v0", X),) and small.mode == "steps"
    names = {"ckks": ckks, "np": np}
    exec(small.source, names)
    assert abs(names["v4"].decrypt() - [1, 2, 3]).max() > 1e-4
