"""Changes of basis: to_ring, rescale, mod_up and mod_down equal their definitions on integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ren.poly import Poly
from ren.ring import RingSpec
from tests import oracle
from tests.properties.cases import all_examples, assert_equals, assert_same_limbs, large_examples
from tests.rings import moduli, operands


@attrs.frozen
class Change:
    """From `limbs` moduli to those at the positions `kept` (in this order) and `added` new ones."""

    n: int
    limbs: int
    kept: tuple[int, ...]
    added: int = 0
    new_first: bool = False

    def bases(self, drawn: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        old, fresh = tuple(drawn[: self.limbs]), tuple(drawn[self.limbs :])
        kept = tuple(old[i] for i in self.kept)
        return old, fresh + kept if self.new_first else kept + fresh


# Where the kept limbs lie is part of the compiled program, hence a table.
SUBSETS = (
    Change(4, 2, (0,)),
    Change(8, 2, (1,)),
    Change(16, 4, (1, 2)),
    Change(64, 6, (0, 2, 5)),
    Change(128, 5, (4, 0)),
    Change(256, 8, (0, 1, 2, 3)),
    Change(1024, 7, (3, 4, 5, 6)),
    Change(4096, 3, (1, 2)),
)
SUPERSETS = (
    Change(4, 1, (0,), 1),
    Change(8, 5, (0, 1, 2, 3, 4), 3),
    Change(32, 3, (2, 0, 1), 1),
    Change(256, 2, (0, 1), 1),
    Change(512, 3, (0, 1, 2), 2, new_first=True),
    Change(4096, 3, (0, 1, 2), 4),
)
DISJOINT = (
    Change(4, 2, (), 2),
    Change(16, 1, (), 3),
    Change(64, 6, (), 1),
    Change(512, 3, (), 3),
    Change(2048, 2, (), 5),
)
OVERLAPPING = (
    Change(4, 8, (7, 1), 1),
    Change(32, 3, (0,), 2, new_first=True),
    Change(128, 5, (0, 1, 2), 2),
    Change(256, 2, (1,), 1),
    Change(1024, 4, (0, 1, 2), 1, new_first=True),
    Change(2048, 5, (2, 3, 4), 2),
    Change(4096, 8, (0, 1, 2, 3, 4), 2),
)
TO_RING = SUBSETS + SUPERSETS + DISJOINT + OVERLAPPING
RESCALE = SUBSETS + DISJOINT + OVERLAPPING
MOD_DOWN = SUBSETS
DIGITS = {change: change.kept or tuple(range(change.limbs)) for change in DISJOINT + OVERLAPPING}


def is_large(change: Change) -> bool:
    return change.n >= 256 and change.limbs >= 2


Drawn = tuple[Change, tuple[int, ...], list[int], bool]


@st.composite
def changes(draw: st.DrawFn, table: Sequence[Change]) -> Drawn:
    """A change, its primes, an operand, and whether that operand comes in the NTT domain.

    It does so for even limb counts only: the transforms are most of what is compiled here.
    """
    change = draw(st.sampled_from(table))
    drawn = draw(moduli(change.n, change.limbs + change.added))
    old, _ = change.bases(drawn)
    in_ntt = change.limbs % 2 == 0 and draw(st.booleans())
    return change, drawn, draw(operands(change.n, RingSpec(change.n, old).q)), in_ntt


def check(case: Drawn, apply: Callable[[Poly, Change, RingSpec], Poly], expect: Callable) -> None:
    change, drawn, a, in_ntt = case
    old, new = change.bases(drawn)
    ring, target = RingSpec(change.n, old), RingSpec(change.n, new)
    results = []
    for device in (None, "python"):
        p = Poly(a, ring, device=device)
        p = p.ntt() if in_ntt else p
        results.append(apply(p, change, target).realize())
        assert results[-1].domain == p.domain
    assert_equals(results[0], target, expect(oracle.reduce(a, ring.q), change, ring, target))
    assert_same_limbs(*results)


def digit_of(change: Change, basis: Sequence[int]) -> tuple[int, ...]:
    return tuple(basis[i] for i in DIGITS[change])


PROPERTIES: dict[str, tuple[Sequence[Change], Callable, Callable]] = {
    "to_ring": (
        TO_RING,
        lambda p, change, target: p.to_ring(target),
        lambda a, change, ring, target: oracle.to_ring(a, ring.q, target.q),
    ),
    "rescale": (
        RESCALE,
        lambda p, change, target: p.rescale(target.moduli),
        lambda a, change, ring, target: oracle.rescale(a, ring.moduli, target.moduli),
    ),
    "mod_up": (
        tuple(DIGITS),
        lambda p, change, target: p.mod_up(digit_of(change, p.ring.moduli), target),
        lambda a, change, ring, target: oracle.mod_up(
            a, digit_of(change, ring.moduli), target.moduli
        ),
    ),
    "mod_down": (
        MOD_DOWN,
        lambda p, change, target: p.mod_down(target),
        lambda a, change, ring, target: oracle.mod_down(a, ring.moduli, target.moduli),
    ),
}


# The two of key switching run at their large shapes below, and their kernels in test_convert.
LONG = ("mod_up", "mod_down")
ALL = [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in PROPERTIES]


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
@all_examples
@given(data=st.data())
def test_change_of_basis(name: str, data: st.DataObject) -> None:
    table, apply, expect = PROPERTIES[name]
    check(data.draw(changes(table)), apply, expect)


@pytest.mark.parametrize("name", PROPERTIES)
@large_examples
@given(data=st.data())
def test_change_of_basis_large(name: str, data: st.DataObject) -> None:
    table, apply, expect = PROPERTIES[name]
    check(data.draw(changes([c for c in table if is_large(c)])), apply, expect)


@pytest.mark.parametrize("change", [Change(8, 2, (1, 0)), Change(256, 3, (2, 0, 1))])
def test_reordering_the_limbs_changes_no_value(change: Change) -> None:
    pool = (97, 17) if change.n == 8 else (7681, 10753, 11777)
    old, new = change.bases(pool)
    p = Poly(list(range(change.n)), RingSpec(change.n, old))
    assert p.to_ring(RingSpec(change.n, new)).tolist() == p.tolist()
