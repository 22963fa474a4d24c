"""Whole programs, with shared subexpressions, mixed domains, integers and changes of basis."""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ren
from ren.poly import Poly
from ren.ring import RingSpec
from tests.programs import Program, Step, generate, run_oracle
from tests.properties.cases import all_examples, assert_equals, assert_same_limbs, large_examples
from tests.rings import SHAPES, moduli, operands
from tests.rings import primes as pool

# A program that XLA has not seen compiles, so there the programs come from a list and their data
# are drawn; the interpreter compiles nothing and gets a new program each time.
_SMALL = [(n, limbs) for n, limbs in SHAPES if n < 256]
_LARGE = [(256, 2), (256, 4), (512, 3), (1024, 5), (2048, 2), (4096, 3)]


def _listed(shapes: Sequence[tuple[int, int]], count: int) -> list[Program]:
    rng = random.Random(2024)
    return [generate(seed, *rng.choice(shapes), rng.randint(2, 9)) for seed in range(count)]


SMALL_PROGRAMS, LARGE_PROGRAMS = _listed(_SMALL, 30), _listed(_LARGE, 10)


def run_ren(
    program: Program, data: Sequence[list[int]], primes: Sequence[int], device: str | None
) -> list[Poly]:
    """Every register after the inputs, lazily."""
    ring = RingSpec(program.n, tuple(primes[i] for i in program.basis))
    registers = [Poly(a, ring, device=device) for a in data]
    for step in program.steps:
        registers.append(ren_step(step, [registers[i] for i in step.src], primes))
    return registers[program.inputs :]


def ren_step(step: Step, src: Sequence[Poly], primes: Sequence[int]) -> Poly:
    p, r = src[0], src[-1]
    if isinstance(step.arg, tuple):
        new = tuple(primes[i] for i in step.arg)
        return p.to_ring(RingSpec(p.ring.n, new)) if step.op == "to_ring" else p.rescale(new)
    c = step.arg if step.arg is not None else 0
    actions = {
        "add": lambda: p + r,
        "sub": lambda: p - r,
        "mul": lambda: p * r,
        "square": lambda: p**2,
        "neg": lambda: -p,
        "ntt": lambda: p.ntt(),
        "intt": lambda: p.intt(),
        "rotate": lambda: p.rotate(c),
        "automorphism": lambda: p.automorphism(c),
        "add_int": lambda: p + c,
        "rsub_int": lambda: c - p,
        "mul_int": lambda: p * c,
    }
    return actions[step.op]()


Drawn = tuple[Program, tuple[int, ...], list[list[int]]]


@st.composite
def listed(draw: st.DrawFn, programs: Sequence[Program]) -> Drawn:
    """One of `programs`, with primes and operands for it."""
    return draw(with_data(draw(st.sampled_from(programs))))


@st.composite
def fresh(draw: st.DrawFn, shapes: Sequence[tuple[int, int]], length: int) -> Drawn:
    """A program of up to `length` steps of its own, with primes and operands for it."""
    seed, shape = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from(shapes))
    return draw(with_data(generate(seed, *shape, draw(st.integers(1, length)))))


@st.composite
def with_data(draw: st.DrawFn, program: Program) -> Drawn:
    primes = draw(moduli(program.n, program.primes))
    q = RingSpec(program.n, primes[: len(program.basis)]).q
    return program, primes, [draw(operands(program.n, q)) for _ in range(program.inputs)]


def assert_program(case: Drawn, results: Sequence[Poly]) -> None:
    program, primes, data = case
    for result, (basis, expected) in zip(results, run_oracle(program, data, primes), strict=True):
        assert_equals(result, RingSpec(program.n, tuple(primes[i] for i in basis)), expected)


def check_compiled(case: Drawn) -> None:
    """The last register by itself, as a user would ask for it: XLA, interpreter and oracle."""
    program, primes, data = case
    last = run_ren(program, data, primes, None)[-1].realize()
    basis, expected = run_oracle(program, data, primes)[-1]
    assert_equals(last, RingSpec(program.n, tuple(primes[i] for i in basis)), expected)
    assert_same_limbs(last, run_ren(program, data, primes, "python")[-1].realize())


@pytest.mark.long
@all_examples
@given(case=listed(SMALL_PROGRAMS))
def test_compiled_programs(case: Drawn) -> None:
    check_compiled(case)


@pytest.mark.slow
@large_examples
@given(case=listed(LARGE_PROGRAMS))
def test_compiled_programs_large(case: Drawn) -> None:
    check_compiled(case)


_OF_NUMBERS = ("add_int", "rsub_int", "mul_int")


def check_other_numbers(program: Program, seed: int) -> None:
    """The same program with other numbers, one after another, which share a plan from the second
    one on: the values of the oracle, and the residues of the reference.
    """
    rng = random.Random(seed)
    primes = tuple(rng.sample(pool(program.n), program.primes))
    q = RingSpec(program.n, primes[: len(program.basis)]).q
    data = [[rng.randrange(q) for _ in range(program.n)] for _ in range(program.inputs)]
    for _ in range(4):
        steps = tuple(
            attrs.evolve(s, arg=rng.randrange(-q, q)) if s.op in _OF_NUMBERS else s
            for s in program.steps
        )
        other = attrs.evolve(program, steps=steps)
        results = ren.realize(run_ren(other, data, primes, None)[-2:])
        expected = run_oracle(other, data, primes)[-2:]
        for result, (basis, values) in zip(results, expected, strict=True):
            assert_equals(result, RingSpec(program.n, tuple(primes[i] for i in basis)), values)
        reference = ren.realize(run_ren(other, data, primes, "python")[-2:])
        for result, by_reference in zip(results, reference, strict=True):
            assert_same_limbs(result, by_reference)


@pytest.mark.parametrize("seed", range(60))
def test_programs_with_other_numbers(seed: int) -> None:
    rng = random.Random(seed)
    check_other_numbers(generate(seed, *rng.choice(_LARGE[:4]), rng.randint(2, 12)), seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_small_programs_with_other_numbers(seed: int) -> None:
    rng = random.Random(seed)
    check_other_numbers(generate(seed, *rng.choice(_SMALL), rng.randint(2, 9)), seed)


@all_examples
@given(case=fresh(_SMALL, 14))
def test_interpreted_programs(case: Drawn) -> None:
    program, primes, data = case
    assert_program(case, ren.realize(run_ren(program, data, primes, "python")))


@large_examples
@given(case=fresh(_LARGE, 8))
def test_interpreted_programs_large(case: Drawn) -> None:
    program, primes, data = case
    assert_program(case, ren.realize(run_ren(program, data, primes, "python")))


@pytest.mark.parametrize("program", LARGE_PROGRAMS[:3])
def test_asking_for_all_registers_at_once_changes_none(program: Program) -> None:
    rng = random.Random(1)
    primes = tuple(rng.sample(pool(program.n), program.primes))
    q = RingSpec(program.n, primes[: len(program.basis)]).q
    data = [[rng.randrange(q) for _ in range(program.n)] for _ in range(program.inputs)]
    assert_program((program, primes, data), ren.realize(run_ren(program, data, primes, None)))
