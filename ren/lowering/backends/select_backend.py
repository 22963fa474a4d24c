"""Choose the backend of a segment: the first that supports it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ren.lowering.backends.base import Backend, Executable, Unsupported
from ren.lowering.backends.native.backend import NATIVE
from ren.lowering.backends.reference.backend import REFERENCE
from ren.lowering.backends.xla.backend import XLA
from ren.lowering.program.segment import Segment

BACKENDS: tuple[Backend, ...] = (NATIVE, REFERENCE, XLA)


def compiled(segment: Segment, args: Sequence[Any]) -> Executable:
    """The executable of a segment for inputs like `args`.

    Args:
        segment: what to run.
        args: its inputs; see `Backend.compile`.

    Raises:
        NotImplementedError: no backend supports it; XLA supports all.
    """
    reasons = []
    for backend in BACKENDS:
        found = backend.compile(segment, args)
        if not isinstance(found, Unsupported):
            return found
        reasons.append(f"{backend.name}: {found.reason}")
    raise NotImplementedError(f"No backend runs {segment.name} ({'; '.join(reasons)}).")
