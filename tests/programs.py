"""Random straight-line programs over polynomials, which Ren and the oracle each run.

A program starts with its inputs in registers 0, 1, ...; every step appends one register. Bases are
tuples of positions in a list of primes that is drawn later, so that one program runs over many
rings. Nothing here imports ren.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import attrs

from tests import oracle

Basis = tuple[int, ...]


@attrs.frozen
class Step:
    """`op` on the registers `src`; `arg` is an int, or the new basis, or None."""

    op: str
    src: tuple[int, ...]
    arg: int | Basis | None = None


@attrs.frozen
class Program:
    """`inputs` polynomials of degree n over `basis`; `primes` moduli are needed in all."""

    n: int
    basis: Basis
    inputs: int
    primes: int
    steps: tuple[Step, ...]


_BINARY = ("add", "sub", "mul")
_UNARY = (
    "neg",
    "ntt",
    "intt",
    "rotate",
    "automorphism",
    "add_int",
    "mul_int",
    "rsub_int",
    "square",
)
_BASES = ("to_ring", "rescale")


def generate(seed: int, n: int, limbs: int, length: int) -> Program:
    """The program of `length` steps that belongs to `seed`."""
    rng = random.Random(seed)
    inputs, primes = rng.randint(1, 3), limbs + 2
    bases: list[Basis] = [tuple(range(limbs))] * inputs
    steps = []
    for _ in range(length):
        step = _draw_step(rng, n, bases, primes)
        steps.append(step)
        bases.append(step.arg if isinstance(step.arg, tuple) else bases[step.src[0]])
    return Program(n, bases[0], inputs, primes, tuple(steps))


def _draw_step(rng: random.Random, n: int, bases: Sequence[Basis], primes: int) -> Step:
    op = rng.choice(_BINARY * 3 + _UNARY + _BASES * 2)
    a = _recent(rng, range(len(bases)))
    if op in _BINARY:
        return Step(op, (a, _recent(rng, [i for i, b in enumerate(bases) if b == bases[a]])))
    if op == "to_ring":
        return Step(op, (a,), _any_basis(rng, primes))
    if op == "rescale":
        return Step(op, (a,), _lower_basis(rng, bases[a], primes))
    if op in ("rotate", "add_int", "mul_int", "rsub_int"):
        return Step(op, (a,), rng.choice([0, 1, -1, 2, rng.randint(-(2**70), 2**70)]))
    if op == "automorphism":
        return Step(op, (a,), 2 * rng.randint(-n, n) + 1)
    return Step(op, (a,))


def _recent(rng: random.Random, registers: Sequence[int]) -> int:
    """A register, one of the last few more often than not: so programs get deep and still share."""
    return rng.choice(registers[-3:] if rng.random() < 0.7 else registers)


def _any_basis(rng: random.Random, primes: int) -> Basis:
    return tuple(rng.sample(range(primes), rng.randint(1, primes)))


def _lower_basis(rng: random.Random, basis: Basis, primes: int) -> Basis:
    """A basis that lacks at least one modulus of `basis`, and is not empty."""
    while True:
        new = _any_basis(rng, primes)
        if set(basis) - set(new):
            return new


def run_oracle(
    program: Program, operands: Sequence[Sequence[int]], primes: Sequence[int]
) -> list[tuple[Basis, list[int]]]:
    """Every register after the inputs: its basis and its coefficients."""
    registers = [(program.basis, oracle.reduce(a, _q(program.basis, primes))) for a in operands]
    for step in program.steps:
        registers.append(_oracle_step(step, [registers[i] for i in step.src], primes))
    return registers[program.inputs :]


def _q(basis: Basis, primes: Sequence[int]) -> int:
    return math.prod(primes[i] for i in basis)


def _oracle_step(
    step: Step, src: Sequence[tuple[Basis, list[int]]], primes: Sequence[int]
) -> tuple[Basis, list[int]]:
    basis, a = src[0]
    q = _q(basis, primes)
    if isinstance(step.arg, tuple):
        new = step.arg
        if step.op == "to_ring":
            return new, oracle.to_ring(a, q, _q(new, primes))
        old_moduli, new_moduli = [primes[i] for i in basis], [primes[i] for i in new]
        return new, oracle.rescale(a, old_moduli, new_moduli)
    b = src[-1][1]
    c = step.arg if step.arg is not None else 0
    actions = {
        "add": lambda: oracle.add(a, b, q),
        "sub": lambda: oracle.sub(a, b, q),
        "mul": lambda: oracle.mul(a, b, q),
        "square": lambda: oracle.mul(a, a, q),
        "neg": lambda: oracle.neg(a, q),
        "ntt": lambda: a,
        "intt": lambda: a,
        "rotate": lambda: oracle.rotate(a, c, q),
        "automorphism": lambda: oracle.automorphism(a, c, q),
        "add_int": lambda: oracle.add(a, oracle.constant(c, len(a), q), q),
        "rsub_int": lambda: oracle.sub(oracle.constant(c, len(a), q), a, q),
        "mul_int": lambda: [x * c % q for x in a],
    }
    return basis, actions[step.op]()
