"""Mutants of bytecode: words replaced by values that lie near them, far away, or elsewhere."""

from __future__ import annotations

import random

import numpy as np

from tests.lowering.native.driver import Mutant

EXTREMES = (0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, (4095 << 20) - 1, 4094 << 20, 4093 << 20)


def length_of(code: np.ndarray) -> int:
    """How many words were written before the zeros that fill the array up."""
    return int(np.flatnonzero(code)[-1]) + 2  # the last opcode is zero


def swept(code: np.ndarray, value: int) -> list[Mutant]:
    """One mutant for each word, which is set to `value`."""
    return [Mutant(len(code), ((i, value),)) for i in range(length_of(code)) if code[i] != value]


def drawn(code: np.ndarray, draw: random.Random, count: int) -> list[Mutant]:
    """Random mutants: one word, several words, or words cut off."""
    return [_drawn(code, draw, length_of(code)) for _ in range(count)]


def _drawn(code: np.ndarray, draw: random.Random, length: int) -> Mutant:
    kind = draw.randrange(8)
    if kind == 0:
        return Mutant(draw.randrange(1, length), ())
    if kind == 1:  # a part moved over another
        size = draw.randrange(1, 9)
        start, to = draw.randrange(length - size), draw.randrange(length - size)
        return Mutant(len(code), tuple((to + i, int(code[start + i])) for i in range(size)))
    places = [draw.randrange(length) for _ in range(1 if kind < 7 else draw.randrange(2, 6))]
    if kind == 2:  # the words that the layout rests on
        places = [draw.randrange(min(length, 4 + int(code[0]) + 12))]
    return Mutant(len(code), tuple((i, _changed(int(code[i]), code, draw)) for i in places))


def _changed(word: int, code: np.ndarray, draw: random.Random) -> int:
    choices = (
        word ^ 1 << draw.randrange(32),
        word + draw.choice((-2, -1, 1, 2, 3)),
        int(code[draw.randrange(len(code))]),
        draw.choice(EXTREMES),
        word ^ draw.choice((4095, 4094, 4093, 1, 2, 4)) << 20,  # another buffer
        draw.getrandbits(32),
    )
    return draw.choice(choices) % (1 << 32)
