"""The snippets of the README run as they are written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_encrypted_vectors() -> None:
    names: dict = {}
    exec(SNIPPETS[0], names)
    x, y = np.linspace(0, 1, 1000), np.linspace(1, 2, 1000)
    expected = x * y + np.append(x[1:], 0) - 0.5
    assert names["z"].decrypt() == pytest.approx(expected, abs=2**-20)


def test_polynomials() -> None:
    names: dict = {}
    exec(SNIPPETS[1], names)
    a, b = names["a"], names["b"]
    assert names["expr"].tolist() == names["step"](a, b).tolist()
    info = names["step"].cache_info()
    assert (info.misses, info.plans) == (1, 1)
    assert names["step"](b, a).tolist() == ((a + b) * (b - 1)).tolist()


def test_everything_stands_in_the_order_of_a_newcomers_questions() -> None:
    """What it is, the five lines, the two commands, a plan, benchmarks, what is missing."""
    text = README.read_text(encoding="utf-8")
    parts = [
        "Ren is a lazy engine", "```python\nimport numpy", "```sh\nmake demo", "\nmake test",
        "](docs/plan.svg)", "| ms | n | Ren |", "make bench", "## What is not there yet",
        "```python\nimport ren\n",
    ]  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    title, what_it_is, rest = text.partition("```python")[0].split("\n\n")
    assert title == "# Ren" and not rest
    assert len(re.findall(r"\.(?:\s|$)", what_it_is)) == 2
    assert len(SNIPPETS) == 2


def test_its_commands_are_those_of_the_makefile() -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    named = re.findall(r"(?:`|^)make (?:PYTHON=\S+ )?([a-z]+)", text, re.MULTILINE)
    assert {"demo", "test", "bench", "docs"} <= set(named)
    for command in named:
        assert re.search(rf"^{command}:.*## ", makefile, re.MULTILINE), command
