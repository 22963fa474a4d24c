"""Whatever the level, the slots, the sign and the way in: NumPy's values, and the same bits.

An operation is an operator, a method or a function; it runs at once, under `ren.jit`, at a replay,
under `jax.jit` and `jax.vmap`, on a batch, in manual mode, or on a server.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ren
from ren.poly import realization
from ren.schemes import ckks
from ren.schemes.ckks.arithmetic import rotation
from tests.lowering.plans import interpret_planned

DEPTH = 2
SLOTS = (32, 8, 1)
Operation = Callable[[ckks.Ciphertext], ckks.Ciphertext]
pytestmark = [
    pytest.mark.filterwarnings("ignore::ren.core.errors.MessageBoundWarning"),
    pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning"),
]


@cache
def owner(slots: int) -> ckks.Context:
    """n = 2^6, insecure."""
    params = ckks.Parameters.for_depth(DEPTH, n=64, slots=slots, security=None)
    return ckks.context(params=params)


@cache
def message(slots: int, level: int) -> tuple[ckks.Ciphertext, ckks.Ciphertext, np.ndarray]:
    """A ciphertext with its values, and another of the same kind."""
    draw = np.random.default_rng([slots, level])
    a, b = draw.uniform(-1, 1, (2, slots)) + 1j * draw.uniform(-1, 1, (2, slots))
    x, y = (owner(slots).encrypt(values, level=level).realize() for values in (a, b))
    return x, y, a


def on_a_server(f: Operation, x: ckks.Ciphertext, _: ckks.Ciphertext) -> ckks.Ciphertext:
    with owner(x.slots).server():
        return f(ckks.Ciphertext.from_bytes(x.to_bytes()))


def replayed(f: Operation, x: ckks.Ciphertext, y: ckks.Ciphertext) -> ckks.Ciphertext:
    jitted = ren.jit(f)
    jitted(y)
    made = jitted(x)
    assert jitted.cache_info()[:2] == (1, 1)
    return made


def batched(x: ckks.Ciphertext, y: ckks.Ciphertext) -> ckks.Ciphertext:
    return ckks.stack([y, x])


ENTRIES: dict[str, Callable[[Operation, Any, Any], ckks.Ciphertext]] = {
    "at once": lambda f, x, y: f(x),
    "ren.jit": lambda f, x, y: ren.jit(f)(x),
    "eager tier": lambda f, x, y: ren.jit(f, tier="eager")(x),
    "replay": replayed,
    "djit": lambda f, x, y: ren.djit(f)(x),
    "server": on_a_server,
    "batch": lambda f, x, y: ckks.unstack(f(batched(x, y)))[1],
    "jax.jit": lambda f, x, y: jax.jit(f)(x),
    "vmap": lambda f, x, y: ckks.unstack(jax.vmap(f)(batched(x, y)))[1],
    "vmap of jit": lambda f, x, y: ckks.unstack(jax.vmap(ren.jit(f))(batched(x, y)))[1],
}


def interpreted(f: Operation, x: ckks.Ciphertext) -> ckks.Ciphertext:
    """f(x) by the reference interpreter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(realization, "run_planned", interpret_planned)
        return f(x).realize()


def check(f: Operation, slots: int, level: int, entry: str, want: np.ndarray) -> None:
    """The values of NumPy within the tracked bound, and the bits of the reference."""
    x, y, _ = message(slots, level)
    made, plain = ENTRIES[entry](f, x, y), interpreted(f, x)
    assert (made.level, made.layout, made.key_id) == (plain.level, plain.layout, plain.key_id)
    for p, q in zip(made.polys, plain.polys, strict=True):
        assert np.array_equal(p.limbs, q.limbs)
    got = plain.decrypt()
    assert got.shape == np.shape(want)
    assert np.abs(got - want).max() <= plain.estimate.error_bound < 2**-18


def normal(x: ckks.Ciphertext) -> ckks.Ciphertext:
    return x.rescale() if x.own_scale else x


def by_hand(f: Operation) -> Operation:
    def run(x: ckks.Ciphertext) -> ckks.Ciphertext:
        with ckks.manual():
            made = f(x)
        return normal(made)

    return run


# ------------------------------------------------------------------- rotations

ROTATIONS: dict[str, Callable[[int], Operation]] = {
    "method": lambda k: lambda x: x.rotate(k),
    "numpy integer": lambda k: lambda x: x.rotate(np.int64(k)),
    "function": lambda k: lambda x: rotation.rotate(x, k),
    "roll": lambda k: lambda x: x.roll(-k, axis=-1),
    "in two steps": lambda k: lambda x: x.rotate(k),
    "by hand": lambda k: by_hand(lambda x: x.rotate(k)),
}
STEPS = (0, 1, 2, 3, 4, 7, 8, 16, 31, 32, 33, 1000003)


def check_rotation(slots: int, level: int, steps: int, way: str, entry: str) -> None:
    _, _, a = message(slots, level)
    x, _, _ = message(slots, level)
    x.rotate(steps)  # a key is never made inside a trace
    check(ROTATIONS[way](steps), slots, level, entry, np.roll(a, -steps))


levels = st.integers(0, DEPTH)
steps = st.sampled_from(STEPS).flatmap(lambda k: st.sampled_from((k, -k)))
entries = st.sampled_from(sorted(ENTRIES))


@settings(max_examples=8)
@given(st.sampled_from(SLOTS), levels, steps, st.sampled_from(sorted(ROTATIONS)), entries)
def test_rotations(slots, level, steps, way, entry):
    check_rotation(slots, level, steps, way, entry)


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("slots", SLOTS)
def test_rotations_of_every_kind(slots, entry):
    for level in range(DEPTH + 1):
        for k in STEPS:
            check_rotation(slots, level, k, "method", entry)
            check_rotation(slots, level, -k, "function", entry)


# ------------------------------------------------------------------- scalars and plaintexts

SYMBOLS = {
    "+": (operator.add, np.add),
    "-": (operator.sub, np.subtract),
    "*": (operator.mul, np.multiply),
    "+=": (operator.iadd, np.add),
    "-=": (operator.isub, np.subtract),
    "*=": (operator.imul, np.multiply),
}
TYPES: dict[str, Callable[[int, float], Any]] = {
    "int": lambda k, c: k,
    "bool": lambda k, c: k > 0,
    "int8": lambda k, c: np.int8(k),
    "uint16": lambda k, c: np.uint16(abs(k)),
    "int64": lambda k, c: np.int64(k),
    "0-d int": lambda k, c: np.array(k),
    "jax int": lambda k, c: jnp.int32(k),
    "float": lambda k, c: c,
    "whole float": lambda k, c: float(k),
    "fraction": lambda k, c: Fraction(k, 7),
    "float32": lambda k, c: np.float32(c),
    "0-d float": lambda k, c: np.array(c),
    "jax float": lambda k, c: jnp.float32(c),
    "complex": lambda k, c: complex(c, k),
    "complex64": lambda k, c: np.complex64(complex(c, -c)),
    "jax complex": lambda k, c: jnp.complex64(complex(k, c)),
}
ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "complex": lambda z: z,
    "complex64": lambda z: z.astype(np.complex64),
    "float": lambda z: z.real,
    "float32": lambda z: z.imag.astype(np.float32),
    "int": lambda z: np.sign(z.real).astype(int),
    "bool": lambda z: z.real > 0,
    "list": lambda z: z.real.tolist(),
    "tuple": lambda z: tuple(z.tolist()),
    "jax": lambda z: jnp.asarray(z.real, jnp.float32),
    "one number": lambda z: z[:1],
}
INTEGRAL = ("int", "bool", "int8", "uint16", "int64", "0-d int", "jax int")


def applied(symbol: str, value: Any, is_reflected: bool) -> tuple[Operation, Callable]:
    encrypted, clear = SYMBOLS[symbol]
    if is_reflected and not symbol.endswith("="):
        return (lambda x: encrypted(value, x)), (lambda a, v: clear(v, a))
    return (lambda x: encrypted(x, value)), (lambda a, v: clear(a, v))


def check_scalar(slots, level, kind, symbol, is_reflected, entry, k, c) -> None:
    value = TYPES[kind](k, c)
    _, _, a = message(slots, level)
    exact = complex(value) if "complex" in kind else float(value)
    f, clear = applied(symbol, value, is_reflected)
    if "*" in symbol and kind not in INTEGRAL and level == 0:
        with pytest.raises(ckks.DepthError, match="takes 1 level"):
            f(message(slots, level)[0])
        return
    check(f, slots, level, entry, clear(a, exact))


symbols = st.sampled_from(sorted(SYMBOLS))
scalars = (
    st.sampled_from(SLOTS), levels, st.sampled_from(sorted(TYPES)), symbols, st.booleans(), entries,
    st.integers(-9, 9), st.floats(-2, 2, width=32),
)  # fmt: skip


@settings(max_examples=8)
@given(*scalars)
def test_scalars(slots, level, kind, symbol, is_reflected, entry, k, c):
    check_scalar(slots, level, kind, symbol, is_reflected, entry, k, c)


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_scalars_of_every_kind(entry):
    for i, kind in enumerate(TYPES):
        slots = SLOTS[i % len(SLOTS)]
        for symbol in ("+", "-", "*"):
            for is_reflected in (False, True):
                level = (i // 3 + is_reflected) % (DEPTH + 1)
                check_scalar(slots, level, kind, symbol, is_reflected, entry, i - 7, 0.7 - i / 9)


def check_plaintext(slots, level, kind, plain_level, symbol, is_reflected, entry) -> None:
    """An array, or its plaintext at `plain_level` where that is not None."""
    _, _, a = message(slots, level)
    draw = np.random.default_rng(slots + level)
    value = ARRAYS[kind](draw.uniform(-1, 1, slots) + 1j * draw.uniform(-1, 1, slots))
    exact = np.asarray(value)
    if plain_level is not None:
        value = owner(slots).encode(value, level=plain_level)
    f, clear = applied(symbol, value, is_reflected)
    if "*" in symbol and 0 in (level, plain_level):
        with pytest.raises(ckks.DepthError, match="takes 1 level"):
            f(message(slots, level)[0])
        return
    check(f, slots, level, entry, clear(a, exact))


plaintexts = (
    st.sampled_from(SLOTS), levels, st.sampled_from(sorted(ARRAYS)), st.none() | levels,
    symbols, st.booleans(), entries,
)  # fmt: skip


@settings(max_examples=8)
@given(*plaintexts)
def test_plaintexts(slots, level, kind, plain_level, symbol, is_reflected, entry):
    check_plaintext(slots, level, kind, plain_level, symbol, is_reflected, entry)


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_plaintexts_of_every_kind(entry):
    for i, kind in enumerate(ARRAYS):
        slots = SLOTS[i % len(SLOTS)]
        for j, symbol in enumerate(("+", "-", "*")):
            for is_reflected in (False, True):
                level, plain_level = (i // 3 + j) % 3, (None, 2, 1, 0)[(i + is_reflected) % 4]
                check_plaintext(slots, level, kind, plain_level, symbol, is_reflected, entry)
