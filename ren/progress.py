"""Progress bars for what takes seconds: tqdm's, where it is installed and its output is seen.

A bar is made when its work has taken two seconds, and goes when the work is done. Short work costs
a reading of the clock for each step, imports nothing and prints nothing. Bars show in notebooks and
on terminals, in the main thread, one at a time. `ren.config.progress` turns bars off or always on.
"""

from __future__ import annotations

import math
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from ren.config import config
from ren.core.context_values import ContextValue

DELAY_S = 2.0
_BROKEN = (OSError, ValueError)  # of a stream that is closed: then there is no bar

# The work that goes on in a thread or task, and the title of all bars there, or "".
_Around = tuple["Progress | None", str]
_around: ContextVar[_Around] = ContextVar("ren_progress", default=(None, ""))


class Progress:
    """Steps of some work; a context manager, on which `step` is called after each.

    Args:
        total: how many steps there are.
        what: the work, in a few words; inside `titled` that title stands in its place.
        delay_s: how long the work takes before there is a bar.
        clock: seconds.
    """

    def __init__(
        self,
        total: int,
        what: str,
        delay_s: float = DELAY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outer, title = _around.get()
        self._total, self._what, self._clock = total, title or what, clock
        self._start, self._done = clock(), 0
        self._due = self._start + delay_s
        self._bar: Any = None

    def __enter__(self) -> Progress:
        self._token = _around.set((self, _around.get()[1]))
        if self._clock() >= self._due:
            self._open()
        return self

    def __exit__(self, *_: object) -> None:
        _around.reset(self._token)
        self._due = math.inf
        if self._bar is not None:
            with suppress(*_BROKEN):
                self._bar.close()

    def step(self, coming: str = "") -> None:
        """One more step is done; `coming` says what the next one is."""
        self._done += 1
        if self._bar is None:
            if self._clock() >= self._due and self._done < self._total:
                self._open()
        else:
            with suppress(*_BROKEN):
                self._bar.update()
        if coming:
            self._what = coming
            if self._bar is not None:
                with suppress(*_BROKEN):
                    self._bar.set_description(coming)

    @property
    def is_shown(self) -> bool:
        """Whether there is a bar."""
        return self._bar is not None

    def print(self, text: str) -> None:
        """Prints a line to stdout, above the bar if there is one."""
        if self._bar is None:
            print(text, flush=True)
        else:
            self._bar.write(text, file=sys.stdout)

    def _open(self) -> None:
        """Makes the bar, as far along as the work is, or sees to it that none is tried again."""
        self._due = math.inf
        make = None if self._is_inside_another() or not is_wanted() else _tqdm()
        if make is None:
            return
        with suppress(*_BROKEN):
            bar = make(total=self._total, desc=self._what, leave=False, dynamic_ncols=True)
            bar.start_t -= self._clock() - self._start
            bar.last_print_t = bar.start_t  # for the rate
            bar.update(self._done)
            self._bar = bar

    def _is_inside_another(self) -> bool:
        outer = self._outer
        while outer is not None:
            if outer._bar is not None:
                return True
            outer = outer._outer
        return False


def titled(what: str) -> ContextValue[_Around]:
    """Set the title of all progress bars inside the context."""
    return ContextValue(_around, (_around.get()[0], what))


def is_wanted() -> bool:
    """True where bars are on: in the main thread of a notebook or before a terminal."""
    if config.progress is False or threading.current_thread() is not threading.main_thread():
        return False
    return config.progress is True or _is_notebook() or _is_terminal()


def _is_terminal() -> bool:
    with suppress(*_BROKEN, AttributeError):  # also none at all, as under pythonw
        return sys.stderr.isatty()
    return False


def _is_notebook() -> bool:
    """True in a Jupyter kernel; IPython is not imported to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return "IPKernelApp" in getattr(shell, "config", {})


def _tqdm() -> Any:
    """tqdm's class for notebooks or terminals; None where it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a notebook has no widgets; it has text then
        try:
            return import_module("tqdm.auto").tqdm
        except ImportError:
            return None
