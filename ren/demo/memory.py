"""Peak memory of this process so far."""

from __future__ import annotations

import sys

try:
    import resource
except ImportError:  # not on Windows
    resource = None


def peak_bytes() -> int:
    """The peak resident size in bytes; 0 where the system does not say."""
    if resource is None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB
