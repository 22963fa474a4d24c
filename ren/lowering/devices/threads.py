"""How many threads compute."""

from __future__ import annotations

import os


def threads() -> int:
    """How many threads XLA has on the CPU: the processors that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1
