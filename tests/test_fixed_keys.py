"""Values that are part of a plan's key: equal for Python is not equal for a program."""

from __future__ import annotations

import dataclasses
import sys
from collections import namedtuple
from decimal import Decimal
from fractions import Fraction
from typing import Any

import attrs
import jax
import numpy as np
import pytest

import ren
from ren import Poly, RingSpec
from ren.capture.fixed_keys import fixed_key
from ren.core.errors import JitError

RING = RingSpec(n=8, moduli=(17, 97))
Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass(frozen=True)
class Plain:
    value: Any
    note: Any = dataclasses.field(default=None, compare=False)


@attrs.frozen
class Frozen:
    value: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Identical:
    value: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Held:
    p: Poly
    value: Any = dataclasses.field(metadata={"static": True})


# In each row Python's `==` finds some equal, and each stands for a program of its own.
ALIKE = [
    (1, True, 1.0, 1 + 0j, np.int64(1), np.float32(1), np.True_, Fraction(1), Decimal(1)),
    (0.0, -0.0), (np.float32(0.0), np.float32(-0.0)), (Decimal("1.0"), Decimal("1.00")),
    (slice(1), slice(True)),
]  # fmt: skip
WRAPPED = (
    lambda v: v, lambda v: (v,), lambda v: frozenset({v}), lambda v: Pair(0, (v,)), Plain, Frozen,
    lambda v: Plain(Frozen((v, "x"))), lambda v: slice(None, v),
)  # fmt: skip


@pytest.mark.parametrize("row", ALIKE)
@pytest.mark.parametrize("wrap", WRAPPED)
def test_values_that_python_finds_equal_have_keys_of_their_own(row, wrap):
    if sys.version_info < (3, 12) and isinstance(row[0], slice):
        pytest.skip("a slice is hashable from Python 3.12 on")
    keys = [fixed_key(wrap(value)) for value in row]
    assert len({*keys}) == len(keys)
    assert [fixed_key(wrap(value)) for value in row] == keys


def test_what_a_class_does_not_compare_is_part_of_a_key_too():
    assert fixed_key(Plain(1, [2])) == fixed_key(Plain(1, [2])) != fixed_key(Plain(1, [3]))
    one = Identical([1])
    assert fixed_key(one) == fixed_key(one) != fixed_key(Identical([1]))
    with pytest.raises(JitError, match="hashable"):
        fixed_key(Plain([1]))


@pytest.mark.parametrize("is_static", [False, True])
@pytest.mark.parametrize("kind", [Plain, Frozen])
def test_a_plan_is_not_shared_by_fields_that_python_finds_equal(kind, is_static):
    def scaled(p: Poly, c: Any) -> Poly:
        return p * {bool: 2, int: 3, float: 5}[type(c.value)]

    f = ren.jit(scaled, static_argnames=("c",) if is_static else ())
    p = Poly([1, 2], RING)
    for value, factor in ((1, 3), (True, 2), (1.0, 5), (1, 3)):
        assert f(p, kind(value)).tolist()[0] == factor
    assert len(f.plans) == 3


def test_nor_by_static_data_of_a_pytree_or_names_of_a_dictionary():
    f = ren.jit(lambda held: held.p * (2 if isinstance(held.value, bool) else 3))
    p = Poly([1, 2], RING)
    assert [f(Held(p, v)).tolist()[0] for v in (1, True, 1)] == [3, 2, 3]
    g = ren.jit(lambda d: sum(v * (2 if isinstance(k, bool) else 3) for k, v in d.items()))
    assert [g({k: p}).tolist()[0] for k in (1, True, 1)] == [3, 2, 3]
