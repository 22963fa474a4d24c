"""The pages in docs/: their snippets run, and what their tables name is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from ren.config import SETTINGS, Setting

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
GUIDE = (ROOT / "docs" / "jit.md").read_text(encoding="utf-8")
DOCUMENTS = ("JIT guide", "internals", "anvl jit()", "Iris JIT", "djit/xpr reference")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def snippets(page: Path) -> list[tuple[int, str]]:
    """The line at which each python block of a page begins, and its text."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, m.start(1)), m[1]) for m in found]


def rows(text: str, first: str) -> list[list[str]]:
    """The cells of the table whose head begins with the cell `first`, without head and rule."""
    _, _, table = text.partition(f"| {first} |")
    lines = table.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@cache
def functions(path: str) -> frozenset[str]:
    """The functions at the top of a file of tests."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_snippet_runs_as_written(page: Path) -> None:
    names: dict = {"__name__": page.stem}
    for line, text in snippets(page):
        exec(compile("\n" * line + text, str(page), "exec"), names)


def test_a_page_without_snippets_would_be_noticed() -> None:
    assert len(snippets(ROOT / "docs" / "jit.md")) >= 10
    assert len(re.findall(r"^```", GUIDE, re.MULTILINE)) == 2 * GUIDE.count("```python\n")


def setting_row(setting: Setting) -> list[str]:
    return [f"`{setting.name}`", f"`{setting.variable}`", f"`{setting.default!r}`", setting.meaning]


def test_the_table_of_settings_is_that_of_the_code() -> None:
    assert rows(GUIDE, "setting") == [setting_row(s) for s in SETTINGS]


def test_the_table_of_errors_quotes_them() -> None:
    sources = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "ren").rglob("*.py"))
    said = re.sub(r'"\s*\n\s*f?"', "", sources)
    quoted = rows(GUIDE, "it says")
    assert len(quoted) >= 12
    for text, because, do in quoted:
        assert text in said, text
        assert because and do


def test_every_feature_has_a_row_and_every_row_a_test() -> None:
    table = rows(GUIDE, "feature")
    features = [cells[0] for cells in table]
    assert len(set(features)) == len(features) >= 100
    for cells in table:
        assert len(cells) == 3 and all(cells), cells
        assert cells[0].partition(": ")[0] in DOCUMENTS, cells[0]
        named = TEST.findall(cells[2])
        assert named and len(named) == cells[2].count("`") // 2, cells[2]
        for path, name in named:
            assert name.startswith("test_") and name in functions(path), f"{path}::{name}"
    assert {f.partition(": ")[0] for f in features} == set(DOCUMENTS)
