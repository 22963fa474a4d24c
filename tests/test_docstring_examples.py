"""Examples in docstrings: each runs, and prints what it shows."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import ren

PACKAGE = Path(ren.__file__).parent


def modules() -> Iterator[ModuleType]:
    """All modules of the package that can be imported without being run."""
    for found in pkgutil.walk_packages(ren.__path__, "ren."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder()
    found = [test for m in modules() for test in finder.find(m, m.__name__) if test.examples]
    return sorted(found, key=lambda test: test.name)


def written() -> int:
    """The number of docstrings with examples, by the source text."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    trees = [ast.parse(text) for text in texts if ">>>" in text]
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, kinds))
    return sum(">>>" in (ast.get_docstring(node) or "") for node in nodes)


EXAMPLES = examples()


def test_every_example_is_found() -> None:
    assert len(EXAMPLES) == written() > 40
    names = {test.name for test in EXAMPLES}
    assert {"ren.poly.poly.Poly", "ren.capture.xpr.spec", "ren.core.ring.RingSpec"} <= names


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda test: test.name)
def test_the_example_prints_what_it_shows(example: doctest.DocTest) -> None:
    told: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    result = runner.run(example, out=told.append, clear_globs=False)
    assert result.failed == 0, "".join(told)
