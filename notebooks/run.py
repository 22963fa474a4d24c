"""`make notebooks`: runs notebooks from top to bottom and keeps their outputs in the files.

Each runs in a kernel of this Python, in an empty folder, with an empty cache of Ren's, and without
the network. `--check` writes nothing and runs two at a time: it fails on an error, on a cell that
takes too long, and on an output that names a folder or the machine.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from matplotlib import font_manager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from nbformat import NotebookNode

from notebooks.checks import FOLDER, METADATA, SOURCES, faults, notebooks, read, sources_digest

CELL_SECONDS = 60
NOTEBOOK_SECONDS = 90
SLACK = 10  # of a machine that does other work too, where outputs are checked and not kept


def main() -> int:
    """Runs the notebooks that are named, or all; returns how many failed."""
    options = parsed()
    font_manager.findfont("DejaVu Sans")  # the first use ever builds a cache, and may say so
    with ThreadPoolExecutor(2 if options.check else 1) as pool:  # times are kept with outputs
        return sum(pool.map(lambda path: failed(path, options), chosen(options.names)))


def failed(path: Path, options: argparse.Namespace) -> bool:
    """Runs one, says how it went, and keeps its outputs unless they are only checked."""
    notebook = read(path)
    start = time.perf_counter()
    wrong = executed(notebook, options.cell_seconds)
    seconds = time.perf_counter() - start
    if not wrong and seconds > options.seconds:
        wrong = [f"it took {seconds:.0f} s of {options.seconds}"]
    said = [f"{path.name}: {seconds:.0f} s{', failed' * bool(wrong)}", *(f"  {x}" for x in wrong)]
    print("\n".join(said), flush=True)
    if not wrong and not options.check:
        nbformat.write(notebook, path)
    return bool(wrong)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="such as 03_jit; all if left out")
    parser.add_argument("--check", action="store_true", help="leave the files as they are")
    parser.add_argument("--cell-seconds", type=int, help="for one cell")
    parser.add_argument("--seconds", type=int, help="for one notebook")
    options = parser.parse_args()
    slack = SLACK if options.check else 1
    options.cell_seconds = options.cell_seconds or slack * CELL_SECONDS
    options.seconds = options.seconds or slack * NOTEBOOK_SECONDS
    return options


def chosen(names: Sequence[str]) -> list[Path]:
    """The notebooks that go by these names, with or without folder and suffix."""
    wanted = [FOLDER / f"{Path(name).stem}.ipynb" for name in names]
    for path in wanted:
        if not path.exists():
            there = ", ".join(known.stem for known in notebooks())
            raise SystemExit(f"There is no notebook {path.stem}; there are {there}.")
    return wanted or notebooks()


def executed(notebook: NotebookNode, cell_seconds: int) -> list[str]:
    """Runs a notebook and puts the outputs in it; returns what is wrong, a line for each fault."""
    for cell in notebook.cells:
        cell.metadata = NotebookNode()
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    notebook.metadata = nbformat.from_dict({**METADATA, SOURCES: sources_digest(notebook)})
    with tempfile.TemporaryDirectory(prefix="ren-") as folder:
        client = NotebookClient(
            notebook,
            km=kernel(folder),
            extra_arguments=["--InlineBackend.figure_formats=retina"],
            timeout=cell_seconds,
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        )
        try:
            client.execute(env=environment(folder), cleanup_kc=True)
        except (CellTimeoutError, CellExecutionError) as error:
            return [str(error).strip()]
    notebook.metadata.language_info = nbformat.from_dict(METADATA["language_info"])
    local = (folder, str(FOLDER.parent), str(Path.home()), sys.prefix, socket.gethostname())
    return faults(notebook, local)


def kernel(folder: str) -> AsyncKernelManager:
    """A kernel of this Python, whatever others are installed; it listens to no network."""
    manager = AsyncKernelManager(
        kernel_name="python3",
        kernel_spec_manager=KernelSpecManager(kernel_dirs=[]),
        connection_file=os.path.join(folder, "kernel.json"),
    )
    if os.name == "posix":
        manager.transport, manager.ip = "ipc", os.path.join(folder, "kernel")
    return manager


def environment(folder: str) -> dict[str, str]:
    """What the kernel sees: this checkout first, and folders that go when it ends."""
    paths = [str(FOLDER.parent), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "IPYTHONDIR": os.path.join(folder, "ipython"),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "REN_CACHE_DIR": os.path.join(folder, "ren"),
        "REN_PROGRESS": "0",  # bars come and go; what is kept is for readers
    }


if __name__ == "__main__":
    sys.exit(main())
