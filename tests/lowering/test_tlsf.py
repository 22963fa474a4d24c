"""The arena: blocks never overlap, neighbours merge, the same calls give the same offsets."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ren.lowering.plan.arena import ALIGNMENT, Arena

SIZES = st.one_of(
    st.integers(0, 300),
    st.integers(0, 1 << 20),
    st.sampled_from([1 << 16, 3 << 16, 5 << 16, (5 << 16) + 1, 7 << 16]),
)
# A number frees the block that stands there among the live ones; None does nothing.
CALLS = st.lists(st.tuples(SIZES, st.none() | st.integers(0, 1 << 16)), max_size=60)


def rounded(size: int) -> int:
    return max(ALIGNMENT, (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)


def run(calls, arena: Arena) -> tuple[list[int], dict[int, int]]:
    """Every offset given, and the blocks still live; checks overlap after each call."""
    given_out, live = [], {}
    for size, victim in calls:
        offset = arena.allocate(size)
        given_out.append(offset)
        assert offset % ALIGNMENT == 0
        assert all(o + s <= offset or offset + rounded(size) <= o for o, s in live.items())
        live[offset] = rounded(size)
        if victim is not None:
            gone = sorted(live)[victim % len(live)]
            arena.free(gone)
            del live[gone]
    return given_out, live


def free_blocks(arena: Arena) -> list[tuple[int, int]]:
    """(offset, size) of every free block, by offset."""
    return [(offset, arena._sizes[offset]) for offset in sorted(arena._free)]


@given(CALLS)
def test_live_blocks_never_overlap(calls):
    run(calls, Arena())


@given(CALLS)
def test_live_and_free_blocks_tile_the_arena(calls):
    arena = Arena()
    _, live = run(calls, arena)
    position = 0
    for offset, size in sorted([*live.items(), *free_blocks(arena)]):
        assert offset == position
        position += size
    assert position <= arena.high_water


@given(CALLS)
def test_free_neighbours_merge(calls):
    arena = Arena()
    run(calls, arena)
    free = free_blocks(arena)
    assert all(o + s < after for (o, s), (after, _) in pairwise(free))


@given(CALLS)
def test_when_all_is_freed_one_block_is_left(calls):
    arena = Arena()
    _, live = run(calls, arena)
    for offset in live:
        arena.free(offset)
    assert free_blocks(arena) == ([(0, arena.high_water)] if calls else [])


@given(CALLS)
def test_the_same_calls_give_the_same_offsets(calls):
    one, other = Arena(), Arena()
    assert run(calls, one) == run(calls, other)
    assert one.high_water == other.high_water


@given(CALLS)
def test_the_high_water_mark_is_the_highest_end(calls):
    arena = Arena()
    offsets, _ = run(calls, arena)
    ends = [o + rounded(size) for o, (size, _) in zip(offsets, calls, strict=True)]
    assert arena.high_water == max(ends, default=0)


@given(SIZES, SIZES)
def test_a_freed_block_is_used_again(size, after):
    arena = Arena()
    first = arena.allocate(size)
    arena.allocate(after)
    arena.free(first)
    assert arena.allocate(size) == first


@given(st.lists(SIZES, min_size=1, max_size=12))
def test_stack_order_never_wastes(sizes):
    arena = Arena()
    for _ in range(3):
        for offset in reversed([arena.allocate(size) for size in sizes]):
            arena.free(offset)
    assert arena.high_water == sum(map(rounded, sizes))


def test_the_smallest_class_that_fits_is_taken():
    arena = Arena()
    sizes = [1 << 20, 64, 1 << 10, 64, 1 << 15, 64]
    large, _, small, _, middle, _ = (arena.allocate(s) for s in sizes)
    for offset in (small, large, middle):
        arena.free(offset)
    assert arena.allocate(1 << 14) == middle
    assert arena.allocate(1 << 9) == small
    assert arena.allocate(1 << 19) == large


def test_the_end_of_the_arena_grows_over_its_last_free_block():
    arena = Arena()
    arena.allocate(128)
    arena.free(arena.allocate(256))
    assert arena.allocate(1024) == 128
    assert arena.high_water == 128 + 1024


def test_misuse_is_refused():
    arena = Arena()
    offset = arena.allocate(64)
    with pytest.raises(ValueError, match="-1 bytes"):
        arena.allocate(-1)
    with pytest.raises(ValueError, match="starts at 8"):
        arena.free(8)
    arena.free(offset)
    with pytest.raises(ValueError, match="starts at 0"):
        arena.free(offset)
