"""Pauses of Python's cyclic garbage collector."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses, _was_on = 0, False  # of the garbage collector, guarded by `_lock`


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pauses Python's cyclic garbage collector; the last thread to leave turns it on again.

    Planning makes up to millions of small objects that live until it ends. The collector would go
    through all of them again and again, which took a third of the time.
    """
    global _pauses, _was_on
    with _lock:
        if not _pauses:
            _was_on = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if not _pauses and _was_on:
                gc.enable()
