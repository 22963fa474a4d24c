"""Native programs on disk: what one process has lowered, the next one reads.

The lowering of a network takes as long as its capture. An entry has the code of a call and what
shapes it. Its key is a digest of the graph with its tables, of threads, and of the sources that
write code. So an entry of other sources is never found. Entries hold the numbers that a program
multiplies by, and no arrays. They lie in the user's private folder (`executable_store`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from ren.core.version import __version__
from ren.lowering.backends.xla.jax_runtime import source_digest
from ren.lowering.program.canonical import graph_lines, plain
from ren.lowering.program.graph import Graph
from ren.lowering.program.instructions import Table
from ren.lowering.storage import executable_store as disk

FOLDER = "programs"


def key_of(graph: Graph, tables: tuple[Table, ...], others: Iterable[Any]) -> str | None:
    """The key of a graph; None where it is not kept.

    Args:
        graph, tables: what is lowered.
        others: what else decides how, as nested tuples of numbers.
    """
    if disk.store(FOLDER) is None:
        return None
    try:
        made_by = f"ren {__version__} {source_digest()}"
        lines = [made_by, *graph_lines(graph, tables), *map(plain, others)]
    except (TypeError, OSError):  # no text that is equal in every process, or no sources
        return None
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def read(key: str) -> tuple[dict[str, Any], bytes] | None:
    """The fields and the code that `write` kept under a key, if there are any."""
    store = disk.store(FOLDER)
    body = None if store is None else store.read(key)
    if body is None:
        return None
    head, _, code = body.partition(b"\n")
    return _tuples(json.loads(head)), code


def write(key: str, fields: dict[str, Any], code: bytes) -> None:
    """Keeps fields of names, numbers and tuples, and code; others are not kept."""
    store = disk.store(FOLDER)
    try:
        head = json.dumps(fields).encode()
    except TypeError:  # a table is of an array
        return
    if store is not None:
        store.write(key, head + b"\n" + code)


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _tuples(x) for name, x in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
