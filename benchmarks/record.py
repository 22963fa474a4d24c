"""What every benchmark writes beside its figures: date, versions, commit, device."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def stamp() -> dict[str, str]:
    """The date, and the versions that a figure depends on."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    found = {name: version(name) for name in ("jax", "numpy", "attrs")}
    return {"date": now, "python": platform.python_version(), **found}


def commit(root: Path = Path(__file__).parent) -> str:
    """The short hash that is checked out, with "+" where files differ from it; "" outside git."""
    try:
        head = _git(root, "rev-parse", "--short=10", "HEAD")
        return head + "+" * bool(_git(root, "status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(root: Path, *words: str) -> str:
    made = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return made.stdout.strip()


def device() -> str:
    """The processor: model, cores that this process may use, and the widest vectors."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    fields = dict(map(str.strip, line.split(":", 1)) for line in text.splitlines() if ":" in line)
    flags = fields.get("flags", fields.get("Features", "")).split()
    wide = {"avx512ifma": "AVX-512 IFMA", "avx512f": "AVX-512", "avx2": "AVX2", "asimd": "NEON"}
    vectors = next((name for flag, name in wide.items() if flag in flags), platform.machine())
    return f"{fields.get('model name', platform.machine())}, {cores()} cores, {vectors}"


def cores() -> int:
    """How many cores this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Adds one JSON line to a file of results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(dict(row)) + "\n")
