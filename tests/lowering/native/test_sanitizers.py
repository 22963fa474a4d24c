"""Real calls of every native kernel under the sanitizers, in a driver without Python and XLA.

Each sanitizer also has to report a defect that a test plants. No report is suppressed.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.lowering.native.calls import compiler as compiler  # a fixture of all tests here
from tests.lowering.native.driver import (
    ADDRESS,
    DEBUG,
    HANDED_OVER,
    THREAD,
    Recorded,
    driver,
    outcomes,
)
from tests.lowering.native.recorded import all_calls

pytestmark = pytest.mark.slow


@cache
def calls() -> list[Recorded]:
    return all_calls()


@pytest.mark.parametrize(("threads", "callers"), [(1, 1), (2, 1), (4, 2)])
def test_calls_have_no_report_of_addresses_or_undefined_behaviour(tmp_path, threads, callers):
    lines = outcomes(driver("-O1", *DEBUG, *ADDRESS), calls(), tmp_path, threads, callers)
    assert set(lines) == {"ok"}


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("callers", [1, 3])
def test_calls_have_no_report_of_races(tmp_path, threads, callers):
    for _ in range(5):
        lines = outcomes(driver("-O1", *THREAD), calls(), tmp_path, threads, callers)
        assert set(lines) == {"ok"}


@pytest.mark.parametrize("flags", [(*DEBUG, *ADDRESS), THREAD], ids=["addresses", "races"])
def test_calls_by_another_thread_have_no_report(tmp_path, flags):
    program = driver("-O1", *flags, replaced=[HANDED_OVER])
    for _ in range(3):
        assert set(outcomes(program, calls(), tmp_path, threads=1, callers=3)) == {"ok"}


def test_work_of_another_thread_that_is_read_too_early_is_reported(tmp_path):
    defect = ("store(kDone, std::memory_order_release)", "store(kDone, std::memory_order_relaxed)")
    program = driver("-O0", *THREAD, replaced=[HANDED_OVER, defect])
    with pytest.raises(AssertionError, match="data race"):
        for _ in range(20):
            outcomes(program, calls(), tmp_path)


def test_scratch_that_is_too_short_is_reported(tmp_path):
    """AddressSanitizer builds give blocks their exact size; whole pages would hide the defect."""
    defect = (
        "scratch(scratch_rows * n * sizeof(u32))",
        "scratch((scratch_rows * n - 1) * sizeof(u32))",
    )
    program = driver("-O0", *ADDRESS, replaced=[defect])
    with pytest.raises(
        AssertionError, match=r"(?s)AddressSanitizer: .*to the right of \d+-byte region"
    ):
        outcomes(program, calls(), tmp_path)


def test_scratch_that_threads_share_is_reported(tmp_path):
    defect = ("static thread_local std::unique_ptr<Block> own", "static std::unique_ptr<Block> own")
    program = driver("-O0", *THREAD, replaced=[defect])
    with pytest.raises(AssertionError, match="ThreadSanitizer"):
        outcomes(program, calls(), tmp_path, threads=4, callers=3)


def test_results_that_are_read_too_early_are_reported(tmp_path):
    """One counter alone orders a task's writes before the caller's reads."""
    defect = ("fetch_add(1, std::memory_order_release)", "fetch_add(1, std::memory_order_relaxed)")
    program = driver("-O0", *THREAD, replaced=[defect])
    with pytest.raises(AssertionError, match="data race"):
        for _ in range(20):
            outcomes(program, calls(), tmp_path, threads=4, callers=1)
