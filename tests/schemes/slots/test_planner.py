"""The planner of slots: plans compute the map, tell what the slots hold then, and are cheap."""

from __future__ import annotations

import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ren.schemes.slots import planner
from ren.schemes.slots.contents import UNKNOWN, ZERO, Contents, contents, in_order, repeated
from ren.schemes.slots.entries import Entries
from ren.schemes.slots.operators import Diagonals, Mask, Pair, Scale, Shift, Sum, run
from ren.schemes.slots.planner import (
    LinearIndexMap,
    RotationPlan,
    cumulative,
    gather,
    of_entries,
    plan,
    sums,
)

SLOTS = 1024
TABLE = np.arange(1024).reshape(32, 32)
EVEN = np.arange(0, 1024, 2)
IMAGE = np.arange(784).reshape(14, 2, 14, 2).transpose(0, 2, 1, 3).reshape(196, 4)


def counted(p: RotationPlan) -> tuple[int, int, int]:
    """Rotations, diagonals or masks, levels."""
    rotations = diagonals = 0
    for operator in p.operators:
        if isinstance(operator, Diagonals):
            rotations += operator.split.rotations
            diagonals += len(operator.placement.tiles)
        elif isinstance(operator, Shift | Sum):
            rotations += int(operator.cost)
        elif isinstance(operator, Pair):
            rotations += 2
        else:
            diagonals += isinstance(operator, Mask)
    return rotations, diagonals, p.levels


def filled(source: Contents, x: NDArray) -> NDArray:
    """Slots with these contents: elements of `x`, and a large number for each code."""
    unknown = np.random.default_rng(0).uniform(1e3, 2e3, 1 << 17)
    slots = np.where(source.elements >= 0, x[np.maximum(source.elements, 0)], 0.0)
    return np.where(source.is_unknown, unknown[-source.elements], slots)


def check(p: RotationPlan, matrix: NDArray, source: Contents, places: NDArray) -> None:
    """The plan computes the matrix on numbers, and its contents are what the slots hold."""
    x = np.random.default_rng(1).uniform(-1, 1, source.size)
    made, want = run(p.operators, filled(source, x)), matrix @ x
    np.testing.assert_allclose(made[places], want, atol=1e-9)
    held = p.contents.elements
    np.testing.assert_allclose(made[held >= 0], want[held[held >= 0]], atol=1e-9)
    np.testing.assert_allclose(made[held == ZERO], 0, atol=1e-9)
    np.testing.assert_array_equal(held[places], np.arange(len(places)))


# Of the design: rotations, diagonals and levels, on 1,024 slots. `left` is in place of an order.
CASES: dict[str, tuple[LinearIndexMap, Contents, NDArray | None, tuple[int, int, int]]] = {
    "sum of 1000": (sums(np.arange(1000)[None], 1000), in_order(1000, SLOTS), None, (10, 0, 0)),
    "sum along axis 0": (sums(TABLE.T, 1024), in_order(1024, SLOTS), None, (5, 0, 0)),
    "sum along axis 1": (sums(TABLE, 1024), in_order(1024, SLOTS), None, (15, 32, 1)),
    "sum along axis 1, left": (
        sums(TABLE, 1024), in_order(1024, SLOTS), np.arange(32) * 32, (5, 0, 0),
    ),
    "mean along axis 0": (sums(TABLE.T, 1024, 1 / 32), in_order(1024, SLOTS), None, (5, 0, 1)),
    "cumsum of 500": (cumulative(500), in_order(500, SLOTS), None, (9, 0, 0)),
    "cumsum of 1000": (cumulative(1000), in_order(1000, SLOTS), None, (20, 64, 2)),
    "roll of 500": (gather((np.arange(500) - 3) % 500, 500), in_order(500, SLOTS), None, (2, 0, 0)),
    "roll of 1024": (
        gather((np.arange(1024) - 3) % 1024, 1024), in_order(1024, SLOTS), None, (1, 0, 0),
    ),
    "x[3:], then zeros": (
        gather(np.append(np.arange(3, 500), [-1] * 3), 500), in_order(500, SLOTS), None, (1, 0, 0),
    ),
    "transpose": (gather(TABLE.T.ravel(), 1024), in_order(1024, SLOTS), None, (15, 63, 1)),
    "reverse": (gather(np.arange(1024)[::-1], 1024), in_order(1024, SLOTS), None, (47, 512, 1)),
    "x[::2]": (gather(EVEN, 1024), in_order(1024, SLOTS), None, (46, 512, 1)),
    "x[::2], left": (
        gather(EVEN, 1024), in_order(1024, SLOTS), EVEN, (0, 0, 0),
    ),
    "x[100:300]": (gather(np.arange(100, 300), 1024), in_order(1024, SLOTS), None, (1, 0, 0)),
    "tile 32 x 8": (gather(np.tile(np.arange(32), 8), 32), in_order(32, SLOTS), None, (3, 0, 0)),
    "repeat 32 x 8": (
        gather(np.repeat(np.arange(32), 8), 32), in_order(32, SLOTS), None, (13, 32, 1),
    ),
    "row to table": (gather(np.tile(np.arange(32), 32), 32), in_order(32, SLOTS), None, (5, 0, 0)),
    "column to table": (
        gather(np.repeat(np.arange(32), 32), 32), in_order(32, SLOTS), None, (15, 32, 1),
    ),
    "row that repeats": (
        gather(np.tile(np.arange(32), 32), 32), repeated(32, SLOTS, 32), None, (0, 0, 0),
    ),
    "sum of windows": (
        sums(np.arange(996)[:, None] + np.arange(5), 1000), in_order(1000, SLOTS), None, (3, 0, 0),
    ),
    "pool of 2 x 2": (sums(IMAGE, 784, 0.25), in_order(784, SLOTS), None, (31, 116, 1)),
    "pool of 2 x 2, left": (sums(IMAGE, 784, 0.25), in_order(784, SLOTS), IMAGE[:, 0], (2, 4, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_as_cheap_as_the_design_says_and_right(name: str) -> None:
    m, source, places, most = CASES[name]
    found = plan(m, source, places)
    assert all(now <= limit for now, limit in zip(counted(found), most, strict=True)), found
    matrix = np.stack([m.apply(row) for row in np.eye(m.shape[1])], 1)
    check(found, matrix, source, np.arange(m.shape[0]) if places is None else places)


@st.composite
def drawn(draw: st.DrawFn) -> tuple[Entries, Contents, NDArray]:
    """A matrix, contents of its vector, and places for its result."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    slots = draw(st.sampled_from([16, 32, 64]))
    size, rows = (draw(st.integers(1, slots)) for _ in range(2))
    kind = draw(st.sampled_from(["copy", "sums", "sparse", "windows", "complex"]))
    if kind == "copy":
        matrix = np.eye(size)[rng.integers(0, size, rows)]
    elif kind == "windows":
        width = draw(st.integers(1, size))
        matrix = np.array([np.roll(np.arange(size) < width, i) for i in range(size)], float)
    else:
        matrix = np.where(rng.random((rows, size)) < 0.3, 1.0, 0.0)
        if kind != "sums":
            matrix *= rng.integers(-3, 4, matrix.shape) + 0.5 * (rng.random(matrix.shape) < 0.5)
        if kind == "complex":
            matrix = matrix * (1 + 2j)
    matrix[:, 0] += ~matrix.any(axis=1)  # the planner is not asked for zeros alone
    pad = draw(st.sampled_from(["zeros", "leftovers", "copies", "anywhere"]))
    if pad == "copies":
        source = repeated(size, slots, 1 << (size - 1).bit_length())
    elif pad == "anywhere":
        elements = np.full(slots, ZERO)
        elements[rng.permutation(slots)[:size]] = np.arange(size)
        free = elements == ZERO
        elements[free] = np.where(rng.random(slots) < 0.5, ZERO, UNKNOWN - np.arange(slots))[free]
        source = contents(elements, size)
    else:
        behind = draw(st.integers(0, slots)) if pad == "leftovers" else 0
        source = in_order(size, slots, behind // 2, behind)
    places = np.arange(len(matrix))
    if draw(st.booleans()):
        places = np.sort(rng.permutation(slots)[: len(matrix)])
    return Entries.of(matrix), source, places


@pytest.mark.property
@given(drawn())
def test_plans_compute_any_matrix_from_any_contents(
    problem: tuple[Entries, Contents, NDArray],
) -> None:
    entries, source, places = problem
    matrix = np.zeros(entries.shape, entries.values.dtype)
    matrix[entries.rows, entries.columns] = entries.values
    check(plan(of_entries(entries), source, places), matrix, source, places)


def test_a_factor_is_applied_after_the_sum() -> None:
    found = plan(sums(TABLE.T, 1024, 1 / 32), in_order(1024, SLOTS))
    assert [type(operator) for operator in found.operators] == [Sum, Scale]


def test_leftovers_are_cleared_where_they_are_read_alone() -> None:
    ahead = plan(gather(np.arange(10), 100), in_order(100, SLOTS, 0, 50))
    exact = plan(sums(np.arange(100)[None], 100), in_order(100, SLOTS, 0, 50))
    around = plan(cumulative(100), in_order(100, SLOTS, 50, 0))
    assert [type(operator) for operator in ahead.operators] == []
    assert [type(operator) for operator in exact.operators] == [Sum]
    assert [type(operator) for operator in around.operators] == [Mask, Sum]


def test_equal_contents_are_one_object_and_are_freed_with_the_last_user() -> None:
    elements = np.array([2, 0, 1, ZERO, UNKNOWN])
    first, again = contents(elements, 3), contents(elements.copy(), 3)
    assert first is again
    held = weakref.ref(first)
    del first, again
    assert held() is None


def test_the_period_of_contents_is_found() -> None:
    assert repeated(3, 16, 4).period == 4
    assert repeated(1, 16, 1).period == 1
    assert in_order(16, 16).period == 0


def test_sums_are_left_where_they_stand_without_a_level() -> None:
    rows = np.arange(32 * 32).reshape(32, 32)
    left = planner.left_standing(sums(rows, 1024, 1 / 32), in_order(1024, 1024))
    assert left is not None and left.levels == 0 and left.cost == 5
    assert (left.contents.elements[::32] == np.arange(32)).all()
    spread = planner.plan(gather(np.repeat(np.arange(32), 32), 32), left.contents)
    assert spread.levels == 1 and len(spread.keys) == 5
    turned = planner.left_standing(gather(rows.T.ravel(), 1024), in_order(1024, 1024))
    assert turned is not None and not turned.operators
    assert (turned.contents.elements == rows.T.ravel()).all()
