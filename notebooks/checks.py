"""What must hold for a notebook in this folder: read, without running it."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
SOURCES = "ren_sources"  # where the metadata says which sources the outputs are of

# What differs on every machine or in every run, and tells readers about neither Ren nor them.
LOCAL = (
    re.compile(r"(?<![\w.:/])/(?:home|root|tmp|usr|opt|var|mnt|work|data|Users|private)/"),
    re.compile(r"\b[A-Z]:\\"),
    re.compile(r"site-packages|dist-packages|ipykernel_\d+"),
    re.compile(r"\bat 0x[0-9a-f]{6,}"),
)
SHOWS = {"print", "display", "plot", "plot_memory", "subplots", "figure", "imshow"}


def notebooks() -> list[Path]:
    """The notebooks, in the order in which they are meant to be read."""
    return sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))


def read(path: Path) -> NotebookNode:
    """A notebook, as it is in the file."""
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells that run."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def sources_digest(notebook: NotebookNode) -> str:
    """A name for everything that runs; the outputs in the file belong to it."""
    text = "\0".join(cell.source for cell in code_cells(notebook))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def faults(notebook: NotebookNode, local: tuple[str, ...] = ()) -> list[str]:
    """What is wrong with the outputs of a notebook, a line for each fault.

    Args:
        local: words of this machine that no output may hold: folders, its name.
    """
    found = []
    for number, cell in enumerate(code_cells(notebook), 1):
        if shows(cell.source) and not cell.outputs:
            found.append(f"cell {number} shows something and has no output")
        for kind, text in outputs(cell):
            if kind in ("stderr", "error"):
                found.append(f"cell {number} has an output of kind {kind}: {text.strip()[-300:]}")
            hits = [m[0] for p in LOCAL if (m := p.search(text))]
            hits += [word for word in local if word and word in text]
            found += [f"cell {number} mentions {hit!r} in an output" for hit in hits]
    return found


def outputs(cell: NotebookNode) -> Iterator[tuple[str, str]]:
    """The kind of each output, and each text in it; pictures in bytes have none."""
    for output in cell.outputs:
        if output.output_type == "stream":
            yield output.name, output.text
        elif output.output_type == "error":
            yield "error", "\n".join([output.ename, output.evalue, *output.traceback])
        else:
            for kind, data in output.data.items():
                if kind.startswith("text/") or kind.endswith("xml"):
                    yield kind, data


def shows(source: str) -> bool:
    """Whether a cell is sure to show something: it prints, plots, or ends in a value."""
    lines = [line for line in source.splitlines() if not line.startswith(("%", "!"))]
    tree = ast.parse("\n".join(lines))
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr) and not isinstance(last.value, ast.Call):
        return not source.rstrip().endswith(";")
    return any(ast.unparse(call.func).rpartition(".")[2] in SHOWS for call in calls(tree))


def calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls that run with the cell: not those inside of functions that it defines."""
    if isinstance(node, ast.Call):
        yield node
    if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from calls(child)
