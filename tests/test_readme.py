"""The snippets of the README run as they are written."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


*ENCRYPTED, POLYNOMIALS = SNIPPETS
KINDS = ("Arrays", "Tables and DataFrames", "Functions", "Matrices", "Bootstraps")


def shown(snippet: str) -> str:
    """The comments behind the prints of a snippet, a line for each print."""
    prints = [line for line in snippet.splitlines() if line.startswith("print(")]
    return "".join(line.partition("  # ")[2] + "\n" for line in prints)


def printed(snippet: str, names: dict) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(snippet, names)
    return out.getvalue()


def test_encrypted_vectors() -> None:
    names: dict = {}
    assert shown(ENCRYPTED[0]) == printed(ENCRYPTED[0], names) != ""
    x, y = np.linspace(0, 1, 1000), np.linspace(1, 2, 1000)
    expected = x * y + np.append(x[1:], 0) - 0.5
    assert names["z"].decrypt() == pytest.approx(expected, abs=2**-20)


def test_polynomials() -> None:
    names: dict = {}
    exec(POLYNOMIALS, names)
    a, b = names["a"], names["b"]
    assert names["expr"].tolist() == names["step"](a, b).tolist()
    info = names["step"].cache_info()
    assert (info.misses, info.plans) == (1, 1)
    assert names["step"](b, a).tolist() == ((a + b) * (b - 1)).tolist()


@pytest.mark.slow
@pytest.mark.once
def test_snippets_print_what_stands_behind_them() -> None:
    names: dict = {}
    for snippet in ENCRYPTED:
        lines = printed(snippet, names).splitlines()
        assert " ".join(lines) == " ".join(shown(snippet).splitlines()), snippet


def test_each_kind_of_program_takes_five_lines_and_shows_its_result() -> None:
    for kind, snippet in zip(KINDS, ENCRYPTED[1:], strict=True):
        assert f"**{kind}**: " in README.read_text(encoding="utf-8")
        assert len(snippet.splitlines()) <= 5 and shown(snippet).strip(), kind


def test_what_is_not_there_is_said() -> None:
    _, _, text = README.read_text(encoding="utf-8").partition("## What it does not do\n")
    text = text.partition("## ")[0]
    for word in ("threshold keys", "BFV and BGV", "uniform ternary", "not been reviewed"):
        assert word in text, word


def test_everything_stands_in_the_order_of_a_newcomers_questions() -> None:
    """What it is, a program, how to install, what it computes and what not, a plan, benchmarks."""
    text = README.read_text(encoding="utf-8")
    parts = [
        "Ren is a lazy engine", "```python\nimport numpy", "## Install", "```sh\npip install .",
        "\nmake demo", "\nmake test", "## What it computes", *(f"**{kind}**: " for kind in KINDS),
        "## What it does not do", "](docs/plan.svg)", "| ms | n | Ren |", "make bench",
        "```python\nimport ren\n",
    ]  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    title, what_it_is, rest = text.partition("```python")[0].split("\n\n")
    assert title == "# Ren" and not rest
    assert len(re.findall(r"\.(?:\s|$)", what_it_is)) == 2
    assert len(SNIPPETS) == 7


def test_its_commands_are_those_of_the_makefile() -> None:
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    named = re.findall(r"(?:`|^)make (?:PYTHON=\S+ )?([a-z]+)", text, re.MULTILINE)
    assert {"demo", "test", "bench", "docs"} <= set(named)
    for command in named:
        assert re.search(rf"^{command}:.*## ", makefile, re.MULTILINE), command
