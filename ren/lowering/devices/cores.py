"""Processor time that this process may use, as Linux limits it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ren.lowering.devices.devices import threads

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")  # in which groups this process is: `number:controllers:path`


def granted(root: Path = _ROOT, own: Path = _OWN) -> float:
    """Processors whose time this process may use up: a container is often granted less than it has.

    Source: "cpu.max" and "cpu.cfs_quota_us" in the documentation of Linux's control groups.
    """
    return min(threads(), *_quotas(root, own), math.inf)


def _quotas(root: Path, own: Path) -> Iterator[float]:
    """The quotas of the groups of this process, and of those that they are in."""
    for line in _text(own).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        group = PurePosixPath(path.strip("/"))
        for folder in (group, *group.parents):
            if not controllers:
                quota, _, period = _text(root / folder / "cpu.max").partition(" ")
            else:
                at = root / "cpu" / folder
                quota, period = _text(at / "cpu.cfs_quota_us"), _text(at / "cpu.cfs_period_us")
            if quota.isdecimal() and period.isdecimal() and int(period):  # "max", -1: none
                yield int(quota) / int(period)


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
