"""Python's cyclic garbage collector, paused while a program is planned.

Planning makes up to millions of small objects that live until it ends. The collector would go
through all of them again and again, which took a third of the time.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_was_on = False


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pauses the collector inside, a decorator too; the last thread to leave turns it on again."""
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
