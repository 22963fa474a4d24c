"""Ciphertexts in the hands of NumPy, pandas, dataclasses and Python's huge integers."""

from __future__ import annotations

import copy
import dataclasses
import io
import types

import jax
import numpy as np
import pytest

import ren
from ren.core.errors import (
    DeviceError,
    FrozenError,
    OperandError,
    ParameterError,
    RenError,
    TracedValueError,
)
from ren.schemes import ckks

U, V = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
BAR = 2.0**-20
HUGE = 10**5000  # more digits than Python writes


@pytest.fixture(scope="module")
def x(ctx):
    return ctx.encrypt(U)


@pytest.fixture(scope="module")
def y(ctx):
    return ctx.encrypt(V)


def near(got, want) -> bool:
    return np.shape(got) == np.shape(want) and np.abs(got - want).max() < BAR


# ------------------------------------------------------------------- NumPy


STRICT = {  # a program, and its numbers
    "zeros of float16": (lambda ctx, x: ctx.encrypt(np.zeros(3, np.float16)), np.zeros(3)),
    "typed float16": (
        lambda ctx, x: ckks.typed(ctx.encrypt(U.astype(np.float16)), np.float16), U
    ),
    "leftovers times zero": (lambda ctx, x: (x + 1).rotate(1).mask() * 0.0, np.zeros(3)),
    "copies of zeros": (lambda ctx, x: (x[:2] * 0.0).tile(2), np.zeros(4)),
    "integers": (lambda ctx, x: ctx.encrypt(np.array([3, 1, 2])).dot(U), 11.0),
    "truth": (lambda ctx, x: ctx.encrypt(np.array([True, False])).any(), 1.0),
    "a product with zeros": (lambda ctx, x: x.dot(np.zeros(3)), 0.0),
    "a replay": (lambda ctx, x: [DOT(x, k) for k in (U, np.zeros(3))][1], 0.0),
    "properties": (lambda ctx, x: (x * x).real * bool(repr(x) and x.estimate.bits), U * U),
}  # fmt: skip
DOT = ren.jit(lambda v, k: v.dot(k))


@pytest.mark.parametrize("program", STRICT.values(), ids=list(STRICT))
@pytest.mark.filterwarnings("ignore::ren.core.errors.TransparentWarning")
def test_settings_of_numpy_do_not_reach_the_arithmetic_of_ren(ctx, x, program) -> None:
    run, want = program
    with np.errstate(all="raise"):
        made = run(ctx, x).decrypt().astype(float)
        assert near(made, want)
        assert set(np.geterr().values()) == {"raise"}
        with pytest.raises(FloatingPointError):
            np.float64(1) / np.zeros(1)


def test_arrays_of_objects_hold_ciphertexts(x, y) -> None:
    both = np.array([x, y], dtype=object)
    assert both.shape == (2,) and both[0] is x and both[1] is y
    assert near((both * np.array([2.0, 3.0]))[1].decrypt(), 3 * V)
    assert near(both.sum().decrypt(), U + V)
    assert np.asarray(x, dtype=object)[()] is x
    with pytest.raises(TracedValueError, match="takes the numbers"):
        np.array([x, y])


def test_leaves_that_went_through_numpy_say_where_they_are(ctx, x, y) -> None:
    leaves, tree = jax.tree.flatten(x)
    stream = io.BytesIO()
    np.savez(stream, *[np.asarray(leaf) for leaf in leaves])
    stream.seek(0)
    with np.load(stream) as held:
        read = jax.tree.unflatten(tree, [held[name] for name in held.files])
    with pytest.raises(DeviceError, match=r"as np\.load gives them.*\n.*jax\.device_put"):
        (read + y).decrypt()
    assert near((jax.device_put(read, jax.devices()[0]) + y).decrypt(), U + V)


# ------------------------------------------------------------------- pandas

PANDAS = """
class Series:
    def __init__(self, values): self.values = values
    def __add__(self, other):
        if getattr(other, "__pandas_priority__", 0) > 3000: return NotImplemented
        return Series(self.values + other)
    def __iadd__(self, other): return self._inplace_method(other, type(self).__add__)
    def _inplace_method(self, other, op):
        return op(self, other).reindex_like(self)
    def __array__(self, dtype=None, copy=None): return self.values
"""


def test_sums_in_place_of_pandas_are_refused_and_others_are_not(x) -> None:
    module = types.ModuleType("pandas.stand_in")
    exec(compile(PANDAS, "/pandas/stand_in.py", "exec"), vars(module))
    series = module.Series(V)
    with pytest.raises(OperandError, match=r"test_callers.*in place, in an object of pandas") as e:
        series += x
    assert "Write z = series + ct" in str(e.value)
    assert series.__add__(x) is NotImplemented and x.__pandas_priority__ > 4000


def test_sums_in_place_of_pandas_itself(x) -> None:
    pandas = pytest.importorskip("pandas")
    for table in (pandas.Series(V), pandas.DataFrame({"a": V})):
        with pytest.raises(OperandError, match="in place, in an object of pandas"):
            table += x
    assert near((pandas.Series(V) + x).decrypt(), U + V)


# ------------------------------------------------------------------- dataclasses


@dataclasses.dataclass
class Record:
    name: str
    held: object
    others: list


def test_dataclasses_that_hold_ciphertexts_are_taken_apart_without_them(ctx, x) -> None:
    p, m = ctx.encode(U), ckks.linear(np.eye(3), ctx)
    for held in (x, p, m):
        record = Record("a", held, [held, {"b": held}])
        as_dict, (_, first, rest) = dataclasses.asdict(record), dataclasses.astuple(record)
        for found in (as_dict["held"], as_dict["others"][1]["b"], first, rest[0]):
            assert type(found) is type(held) and not dataclasses.is_dataclass(found)
            assert near(
                (found @ x if held is m else x + found).decrypt(), U if held is m else 2 * U
            )
        assert type(copy.deepcopy(record).held) is type(held)
    assert dataclasses.asdict(Record("a", x, []))["held"] is x
    assert dataclasses.replace(Record("a", x, []), name="b").held is x
    with pytest.raises(FrozenError, match="replaces fields of a Ciphertext"):
        dataclasses.replace(x, level=1)


# ------------------------------------------------------------------- huge integers


P = ren.Poly([1, 2, 3], ren.RingSpec(n=16, moduli=(97,)))
TOO_LARGE = {
    "x % k": lambda x: x % HUGE,
    "x // k": lambda x: x // -HUGE,
    "x ** k": lambda x: x**HUGE,
    "x ** -k": lambda x: x**-HUGE,
    "k ** x": lambda x: HUGE**x,
    "round(x, k)": lambda x: round(x, HUGE),
    "x[k]": lambda x: x[HUGE],
    "x[:k]": lambda x: x[:HUGE],
    "roll": lambda x: x.roll(HUGE),
    "tile": lambda x: x.tile(HUGE),
    "reshape": lambda x: x.reshape(HUGE),
    "sum": lambda x: x.sum(HUGE),
    "drop_to": lambda x: x.drop_to(HUGE),
    "decrypt": lambda x: x.decrypt(HUGE),
    "ckks.math.round": lambda x: ckks.math.mod(x, HUGE, interval=(0, 4)),
    "p % k": lambda x: P % HUGE,
    "p ** -k": lambda x: P**-HUGE,
    "p[k]": lambda x: P[HUGE],
    "automorphism": lambda x: P.automorphism(HUGE),
    "round_div": lambda x: P.round_div(1, -HUGE),
    "max_plans": lambda x: ren.jit(lambda p: p, max_plans=-HUGE),
    "static_argnums": lambda x: ren.jit(lambda p: p, static_argnums=HUGE),
}


@pytest.mark.parametrize("call", TOO_LARGE.values(), ids=list(TOO_LARGE))
def test_integers_that_python_does_not_write_have_one_clear_error(x, call) -> None:
    with pytest.raises(RenError) as raised:
        call(x)
    assert "Exceeds the limit" not in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_huge_integers_that_have_a_meaning_compute(x) -> None:
    assert near(x.rotate(HUGE).decrypt(), x.rotate(HUGE % x.slots).decrypt())
    want = ((1 + HUGE) % 97, 2, 3)
    assert (P + HUGE).tolist()[:3] == list(want)
    with pytest.raises(ParameterError, match=r"test_callers\.py:\d+ calls roll\(\) with an int"):
        x.roll(HUGE)
