"""Background work: one thread that compiles what has been lowered, and ends when it has no more.

The thread is not a daemon. At exit the interpreter waits for the compile that runs (XLA would abort
the process otherwise). What is still queued then is dropped.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from ren.lowering.devices.tracing import wide

# The kindest priority to others. It holds for this thread and those that it starts alone.
_NICENESS = 19


class Job:
    """A function that runs once in the background.

    Attributes:
        result: what it returned.
        error: the exception that it raised, if it did.
        dropped: true when the interpreter exited before it ran.
    """

    def __init__(self, function: Callable[[], Any], then: Callable[[], None]) -> None:
        """Args:
        function: the work; it takes nothing from the thread that asked for it.
        then: called when it is done, in the background thread.
        """
        self._function = function
        self._then = then
        self._ended = threading.Event()
        self.result: Any = None
        self.error: Exception | None = None
        self.dropped = False

    @property
    def is_done(self) -> bool:
        """True once it has returned, raised or been dropped."""
        return self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits, at most `timeout` seconds; true when it is done."""
        return self._ended.wait(timeout)

    def run(self) -> None:
        """Does the work, in this thread."""
        try:
            self.result = self._function()
        except Exception as error:
            self.error = error
        self._end()

    def drop(self) -> None:
        """Ends it without the work."""
        self.dropped = True
        self._end()

    def _end(self) -> None:
        del self._function  # and the arrays that it holds
        self._ended.set()
        self._then()


class Worker:
    """One thread at a time, started when there is work; jobs run in order."""

    def __init__(self) -> None:
        self._queue: deque[Job] = deque()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, function: Callable[[], Any], then: Callable[[], None]) -> Job:
        """Runs `function` after what was submitted before; see `Job`."""
        job = Job(function, then)
        is_exiting = False
        with self._lock:
            self._queue.append(job)
            if self._thread is None or not self._thread.is_alive():  # a fork has no threads
                self._thread = threading.Thread(target=self._run, name="ren-compile", daemon=False)
                try:
                    self._thread.start()
                except RuntimeError:  # the interpreter is exiting
                    self._thread, is_exiting = None, True
        if is_exiting:
            self._drop_all()
        return job

    def _run(self) -> None:
        _be_kind()
        with wide():
            while (job := self._next()) is not None:
                job.run()

    def _next(self) -> Job | None:
        """The next job; None when there is none, and then this thread must end."""
        if not threading.main_thread().is_alive():
            self._drop_all()
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            self._thread = None
            return None

    def _drop_all(self) -> None:
        with self._lock:
            jobs = list(self._queue)
            self._queue.clear()
        for job in jobs:
            job.drop()


def _be_kind() -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
