"""The notebooks: each is read here, and executed by the tests that are slow."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from notebooks.checks import (
    METADATA,
    SOURCES,
    code_cells,
    faults,
    notebooks,
    outputs,
    read,
    sources_digest,
)

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)


@NOTEBOOKS
def test_a_notebook_is_valid_and_its_outputs_are_those_of_its_cells(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert faults(notebook) == []
    assert notebook.metadata[SOURCES] == sources_digest(notebook), "run `make notebooks`"
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))


@NOTEBOOKS
def test_a_notebook_holds_nothing_that_changes_by_itself(path: Path) -> None:
    notebook = read(path)
    assert notebook.metadata == {**METADATA, SOURCES: notebook.metadata[SOURCES]}
    assert [cell.metadata for cell in notebook.cells] == [{}] * len(notebook.cells)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


@NOTEBOOKS
def test_a_notebook_is_small_and_tells_a_story(path: Path) -> None:
    notebook = read(path)
    first = notebook.cells[0]
    assert first.cell_type == "markdown" and first.source.startswith("# ")
    assert path.stat().st_size < 1 << 20
    assert len(code_cells(notebook)) <= 2 * len(notebook.cells) / 3


def test_every_notebook_is_listed() -> None:
    listed = (ROOT / "notebooks" / "README.md").read_text(encoding="utf-8")
    assert len(notebooks()) >= 5
    for path in notebooks():
        assert f"[{path.stem}]({path.name})" in listed, path.stem


def said(name: str) -> str:
    """The texts that the cells of a notebook print."""
    cells = code_cells(read(ROOT / "notebooks" / f"{name}.ipynb"))
    return "".join(text for cell in cells for kind, text in outputs(cell) if kind == "stdout")


def pictures(name: str) -> int:
    cells = code_cells(read(ROOT / "notebooks" / f"{name}.ipynb"))
    return sum("image/png" in o.get("data", {}) for cell in cells for o in cell.outputs)


def test_the_notebook_on_digits_shows_each_of_the_ten_first() -> None:
    assert "below: 0 1 2 3 4 5 6 7 8 9\n" in said("05_encrypted_digits")


def test_the_notebook_on_tables_has_times_and_a_picture() -> None:
    assert len(re.findall(r"^\S.* +\d+\.\d\d s$", said("11_tables"), re.MULTILINE)) >= 4
    assert pictures("11_tables") == 1


def test_the_code_of_notebooks_passes_the_linter() -> None:
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", *map(str, notebooks())],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout


def output_of(source: str, *outputs: NotebookNode) -> NotebookNode:
    cell = nbformat.v4.new_code_cell(source, outputs=list(outputs))
    return nbformat.v4.new_notebook(cells=[cell])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("stdout", "saved to /home/me/file"),
        ("stdout", "<object at 0x7f12ab34cd56>"),
        ("stdout", "in site-packages"),
        ("stdout", "C:\\Users\\me"),
        ("stderr", "a warning"),
        ("stdout", "on somehost"),
    ],
)
def test_what_is_of_one_machine_is_found(kind: str, text: str) -> None:
    stream = nbformat.v4.new_output("stream", name=kind, text=text)
    assert len(faults(output_of("print(x)", stream), local=("somehost",))) == 1


def test_errors_and_missing_outputs_are_found() -> None:
    error = nbformat.v4.new_output("error", ename="ValueError", evalue="no", traceback=[])
    assert len(faults(output_of("f()", error))) == 1
    for source in ("print(x)", "x", "for i in x:\n    print(i)", "fig, ax = plt.subplots()"):
        assert faults(output_of(source)) == ["cell 1 shows something and has no output"], source
    for source in ("x = 1", "f(x)", "x;", "def f():\n    print(x)", "step = jit(lambda: print(1))"):
        assert faults(output_of(source)) == [], source


@pytest.mark.slow
@NOTEBOOKS
def test_a_notebook_runs_from_top_to_bottom(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "notebooks.run", "--check", path.stem],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
