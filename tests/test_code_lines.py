"""The count of lines of code: which lines count, and that `ren/` is inside of its cap."""

from __future__ import annotations

from tests import code_lines

SOURCE = '''"""A docstring
of two lines."""

# A comment.
def f(x):  # a line of code
    """Another."""
    y = """text
    of two lines"""
    return (

        x, y)
'''


def test_docstrings_comments_and_blank_lines_do_not_count() -> None:
    assert code_lines.code_lines(SOURCE) == 5  # def, y = (2), return (, x, y)


def test_the_package_is_inside_of_its_cap() -> None:
    counts = code_lines.rooms()
    assert {"core", "lowering", "schemes/ckks"} <= set(counts)
    assert sum(counts.values()) <= code_lines.CAP
