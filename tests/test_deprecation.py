"""`deprecated`: calls run as before and warn at the line of the caller."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

import pytest

from ren.poly.calls import deprecated

HERE = Path(__file__).name


@deprecated("0.2", "total(x)")
def add_up(x: list[int], *, start: int = 0) -> int:
    """Return a sum."""
    return sum(x, start)


@deprecated("0.3", "scale(x) without rounded=", argument="rounded")
def scale(x: float, rounded: bool = False) -> float:
    return float(round(2 * x)) if rounded else 2 * x


class Box:
    @deprecated("0.4", "box.size")
    def length(self) -> int:
        return 7

    @deprecated("0.4", "box.fill(value)", argument="twice")
    def fill(self, value: int, twice: bool = False) -> int:
        return value * (1 + twice)


def line_after(marker: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (found,) = (i for i, text in enumerate(lines, 1) if text.strip() == f"# {marker}")
    return found + 1


def test_deprecated_function_runs_and_warns_at_the_line_of_its_caller() -> None:
    with pytest.warns(DeprecationWarning) as caught:
        # the call
        assert add_up([1, 2], start=3) == 6
    (warning,) = caught
    assert str(warning.message) == "add_up is deprecated since Ren 0.2. Write total(x)."
    assert (Path(warning.filename).name, warning.lineno) == (HERE, line_after("the call"))


@pytest.mark.parametrize("args", [((1.4, True), {}), ((1.4,), {"rounded": True})])
def test_deprecated_argument_warns_where_it_is_passed(args: tuple) -> None:
    with pytest.warns(DeprecationWarning, match=r"^rounded= of scale\(\) is deprecated since"):
        assert scale(*args[0], **args[1]) == 3.0


def test_deprecated_argument_is_silent_where_it_is_left_out() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scale(1.5) == scale(x=1.5) == 3.0 and Box().fill(2) == 2


def test_deprecated_methods_count_self_among_the_places() -> None:
    with pytest.warns(DeprecationWarning, match=r"^Box\.length is deprecated .* Write box\.size\."):
        assert Box().length() == 7
    with pytest.warns(DeprecationWarning, match=r"^twice= of Box\.fill\(\)"):
        assert Box().fill(2, True) == 4


def test_deprecated_function_keeps_its_signature_docstring_and_errors() -> None:
    assert str(inspect.signature(add_up)) == "(x: 'list[int]', *, start: 'int' = 0) -> 'int'"
    assert add_up.__doc__ == "Return a sum." and add_up.__name__ == "add_up"
    with pytest.warns(DeprecationWarning), pytest.raises(TypeError, match="missing 1 required"):
        add_up()


def test_deprecated_refuses_an_argument_that_the_function_does_not_have() -> None:
    with pytest.raises(ValueError, match="absent"):
        deprecated("0.2", "f()", argument="absent")(lambda x: x)


def test_one_line_warns_once_in_a_loop() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            add_up([1])
    assert len(caught) == 1
