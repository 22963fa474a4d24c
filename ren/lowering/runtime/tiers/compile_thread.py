"""The thread that compiles in the background: it ends when there is no more work.

The thread is not a daemon. At exit the interpreter waits for the compile that runs (XLA would abort
the process otherwise). What is still queued then is cancelled.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ren.lowering.devices.devices import wide

_NICENESS = 19  # the lowest priority, of this thread and those that it starts alone


class CompileThread:
    """One thread at a time, started when there is work; jobs run in order."""

    def __init__(self) -> None:
        self._queue: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, function: Callable[[], Any], then: Callable[[], None]) -> Future[Any]:
        """Runs `function` in the background, after what was submitted before.

        Args:
            function: the work; it takes nothing from the calling thread.
            then: called in the background when the work has ended.

        Returns:
            The result or the exception of the work; cancelled where the interpreter exits first.
        """
        job: Future[Any] = Future()
        job.add_done_callback(lambda _: then())
        is_exiting = False
        with self._lock:
            self._queue.append((job, function))
            if self._thread is None or not self._thread.is_alive():  # a fork has no threads
                self._thread = threading.Thread(target=self._run, name="ren-compile", daemon=False)
                try:
                    self._thread.start()
                except RuntimeError:  # the interpreter is exiting
                    self._thread, is_exiting = None, True
        if is_exiting:
            self._cancel_all()
        return job

    def _run(self) -> None:
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        with wide():
            while (work := self._next()) is not None:
                run_job(*work)

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """The next job; None when there is none, and then this thread must end."""
        if not threading.main_thread().is_alive():
            self._cancel_all()
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            self._thread = None
            return None

    def _cancel_all(self) -> None:
        with self._lock:
            jobs = [job for job, _ in self._queue]
            self._queue.clear()
        for job in jobs:
            job.cancel()
            job.set_running_or_notify_cancel()  # wakes those who wait


def run_job(job: Future[Any], function: Callable[[], Any]) -> None:
    """Runs a job in this thread."""
    try:
        job.set_result(function())
    except Exception as error:
        job.set_exception(error)
