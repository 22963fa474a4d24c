"""Number of threads that compute."""

from __future__ import annotations

import os


def threads() -> int:
    """Number of XLA's threads on the CPU: the processors that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1
