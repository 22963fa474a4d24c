"""`ren.selftest()` and `python -m ren`."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import numpy as np
import pytest

import ren
from ren import __main__ as command
from ren import self_test
from ren.config import config
from ren.core.errors import RenError
from ren.lowering.backends.native.build import Compiler
from ren.lowering.backends.native.library import Outcome
from ren.poly import Poly


@pytest.fixture(scope="module")
def report() -> self_test.SelfTest:
    return ren.selftest()


def test_this_machine_passes(report):
    assert report, report
    assert [check.name for check in report.checks] == [
        "exactness, small", "exactness, large", "kernels", "precision", "cache",
    ]  # fmt: skip
    assert "off: nothing is kept" in report.checks[-1].found  # so the tests set it
    assert repr(report).count("passed") == 5
    assert report._repr_html_().count("<tr>") == 6


def test_what_is_kept_is_found_again(tmp_path):
    with config.update(cache_dir=str(tmp_path / "kept")):
        assert self_test.check("cache").found == "an executable was kept and found again"


@pytest.mark.parametrize(
    ("name", "wrong", "which", "says"),
    [
        ("__mul__", lambda self, other: self + other, "exactness, small", "a product is wrong"),
        ("rotate", lambda self, k: self, "exactness, small", "an automorphism is wrong"),
        ("__mul__", lambda self, other: self + other, "exactness, large", "is wrong modulo"),
        ("rescale", lambda self, moduli: self, "exactness, small", "rescaling"),
    ],
)
def test_wrong_arithmetic_is_told(monkeypatch, name, wrong, which, says):
    monkeypatch.setattr(Poly, name, wrong)
    check = self_test.check(which)
    assert not check.passed and says in check.found
    assert not self_test.SelfTest((check,))
    assert "FAILED" in repr(self_test.SelfTest((check,)))


def test_kernels_that_differ_are_told(monkeypatch):
    moved = Poly.to
    monkeypatch.setattr(Poly, "to", lambda self, device: moved(self, device) + 1)
    check = self_test.check("kernels")
    assert not check.passed and "differ" in check.found


def test_what_a_check_raises_fails_it(monkeypatch):
    def look() -> str:
        raise RenError("no such device")

    monkeypatch.setitem(self_test.CHECKS, "devices", look)
    check = self_test.check("devices")
    assert not check.passed and "no such device" in check.found


def test_the_command(monkeypatch, capsys, report):
    for passed in (True, False):
        seen = report if passed else self_test.SelfTest((self_test.Check("x", False, "y", 0.1),))
        monkeypatch.setattr(command, "selftest", lambda seen=seen: seen)
        with pytest.raises(SystemExit) as ended:
            command.main()
        assert ended.value.code == (0 if passed else 1)
        printed = capsys.readouterr().out
        assert jax.__version__ in printed and np.__version__ in printed
        assert ("FAILED" in printed) is not passed


@pytest.mark.parametrize(
    ("native", "found", "says"),
    [
        (False, None, "off (ren.config.native)"),
        ("auto", Outcome(name="01234567"), "yes, 01234567: AVX2, 8 lanes of 32 bits, by g++ 12.2"),
        ("auto", Outcome(reason="no C++ compiler"), "none: no C++ compiler"),
    ],
)
def test_it_says_whether_native_kernels_run(monkeypatch, native, found, says):
    library = SimpleNamespace(vectors="AVX2, 8 lanes of 32 bits")
    monkeypatch.setattr(command, "outcome", lambda: found)
    monkeypatch.setattr(command, "functions", lambda: library)
    monkeypatch.setattr(command, "compiler", lambda: Compiler(("g++",), "g++ 12.2\nmore"))
    with config.update(native=native):
        assert ("native kernels", says) in command.about()


def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with config.update(cache_dir=str(tmp_path / "file")):
        assert "name another folder by REN_CACHE_DIR" in self_test.CHECKS["cache"]()


def test_the_command_takes_no_arguments(capsys):
    for arguments, code in ((["--help"], 0), (["--json"], 2)):
        with pytest.raises(SystemExit) as ended:
            command.main(arguments)
        assert ended.value.code == code
    assert "self-test" in capsys.readouterr().out
