"""Check of planned memory: a run that needs more than is free raises before anything runs."""

from __future__ import annotations

import gc

from ren.config import config
from ren.core.errors import OutOfMemoryError
from ren.core.text_table import size
from ren.core.user_frame import user_line
from ren.lowering.devices.cores import free_bytes

LEAST = 1 << 28  # bytes from which on a run is checked: reading what is free takes 0.1 ms


def check_free(needed: int) -> None:
    """Raise where a run needs more memory than is free, what it reads not counted.

    Args:
        needed: bytes, planned; up to `LEAST` nothing is read and nothing raises.

    Raises:
        OutOfMemoryError: it does, also after what is no longer used was collected.
    """
    if needed <= LEAST or not config.check_memory or needed <= free_bytes():
        return
    gc.collect()  # JAX gives memory back when it collects
    if needed > (free := free_bytes()):
        raise OutOfMemoryError(
            f"{user_line()} needs {size(needed)} by its plan, beside its inputs, and "
            f"{size(int(free))} are free.",
            "The system would end this process. Nothing has run.",
            "Compute a batch in parts, or give linear maps fewer bytes: ckks.linear(..., memory=). "
            "To go on all the same, set ren.config.check_memory = False (REN_CHECK_MEMORY=0).",
        )
