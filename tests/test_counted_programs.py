"""No program takes more levels, rotations, keys, products or transforms than the file says."""

from __future__ import annotations

import warnings

import pytest

from tests import counted_programs
from tests.counted_programs import FIELDS, Counted, counts, programs, recorded

PROGRAMS = programs()


@pytest.fixture(scope="module")
def golden() -> dict[str, counted_programs.Counts]:
    return recorded()


def test_the_file_has_120_programs_and_no_others(golden: dict) -> None:
    assert [program.name for program in PROGRAMS] == list(golden)
    assert len(golden) >= 120


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_counts_never_rise(program: Counted, golden: dict) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ranges that nobody stated
        found = counts(program)
    pairs = zip(FIELDS, found, golden[program.name], strict=True)
    risen = [f"{field}: {now}, was {before}" for field, now, before in pairs if now > before]
    assert not risen, "; ".join(risen)
    assert found == golden[program.name], "Fewer now: `make golden` writes the file anew."
