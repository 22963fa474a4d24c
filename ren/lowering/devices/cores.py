"""Processor time and memory that this process may use, as Linux limits them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ren.lowering.devices.devices import threads

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")  # in which groups this process is: `number:controllers:path`
_MEMORY = Path("/proc/meminfo")


def granted(root: Path = _ROOT, own: Path = _OWN) -> float:
    """Processors whose time this process may use up: a container is often granted less than it has.

    Source: "cpu.max" and "cpu.cfs_quota_us" in the documentation of Linux's control groups.
    """
    return min(threads(), *_quotas(root, own), math.inf)


def free_bytes(root: Path = _ROOT, own: Path = _OWN, memory: Path = _MEMORY) -> float:
    """Bytes of memory that this process may still take; infinity where the system does not say.

    Pages of files that the kernel can drop count as free. What this process holds does not.

    Source: "memory.current" and "memory.usage_in_bytes" in the documentation of control groups,
    "MemAvailable" in that of /proc.
    """
    available = _field(memory, "MemAvailable:")
    return min(math.inf if available is None else available * 1024, *_rooms(root, own), math.inf)


def _rooms(root: Path, own: Path) -> Iterator[float]:
    """The bytes that are left to the groups of this process."""
    for at, is_unified in _groups("memory", root, own):
        names = ("max", "current") if is_unified else ("limit_in_bytes", "usage_in_bytes")
        limit, used = (_text(at / f"memory.{name}") for name in names)
        if limit.isdecimal() and used.isdecimal():  # "max": none
            files = "inactive_file" if is_unified else "total_inactive_file"
            yield max(int(limit) - int(used) + (_field(at / "memory.stat", files) or 0), 0)


def _field(file: Path, name: str) -> int | None:
    """The number after a name at the start of a line."""
    for words in map(str.split, _text(file).splitlines()):
        if words[:1] == [name] and words[1:] and words[1].isdecimal():
            return int(words[1])
    return None


def _quotas(root: Path, own: Path) -> Iterator[float]:
    """The quotas of the groups of this process."""
    for at, is_unified in _groups("cpu", root, own):
        if is_unified:
            quota, _, period = _text(at / "cpu.max").partition(" ")
        else:
            quota, period = _text(at / "cpu.cfs_quota_us"), _text(at / "cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal() and int(period):  # "max", -1: none
            yield int(quota) / int(period)


def _groups(controller: str, root: Path, own: Path) -> Iterator[tuple[Path, bool]]:
    """The groups of this process, and those that they are in; whether each is of version 2."""
    for line in _text(own).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        group = PurePosixPath(path.strip("/"))
        for folder in (group, *group.parents):
            yield root / ("" if not controllers else controller) / folder, not controllers


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
