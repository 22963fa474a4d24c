"""Telling a user whose function is captured again and again for nothing but a constant."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Hashable

from ren.capture.arguments import Call
from ren.core.errors import RecaptureWarning

# So many captures that differ in a constant alone are no accident any more.
TOLERATED = 8


class Recaptures:
    """Counts the captures of one function that differ in the values of constants alone."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._seen: dict[Hashable, int] = {}
        self._lock = threading.Lock()

    def note(self, key: Hashable, call: Call) -> None:
        """Counts the capture of a call; warns once, at the eighth of a kind."""
        constants = [p for p in call.polys if p.is_constant]
        if not constants:
            return
        structure, types, values = key  # type: ignore[misc]
        alike = tuple(t[:2] if p.is_constant else t for t, p in zip(types, call.polys, strict=True))
        with self._lock:
            count = self._seen[structure, alike, values] = (
                self._seen.get((structure, alike, values), 0) + 1
            )
        if count == TOLERATED:
            warnings.warn(
                f"{self._name} was captured {count} times for arguments that differ only in the "
                "value of a constant polynomial, which is part of a plan's key.\nPass the number "
                "itself, which is symbolic, or Poly.const(c, ring).contiguous().realize().",
                RecaptureWarning,
                stacklevel=4,
            )

    def clear(self) -> None:
        """Forgets all counts."""
        with self._lock:
            self._seen.clear()
