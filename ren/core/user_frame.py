"""The user's own line, for error messages."""

from __future__ import annotations

import linecache
import os
import sys
import warnings
from types import FrameType, TracebackType

_NOWHERE = "an unknown line"
_LONGEST = 80  # characters of a line that are shown
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_USERS_WITHIN = os.path.join(_PACKAGE, "demo")  # the demo is a user of the library
_PYTHON = os.path.dirname(os.__file__) + os.sep
_INSTALLED = tuple(f"{os.sep}{folder}{os.sep}" for folder in ("site-packages", "dist-packages"))
_GENERATED = ("<frozen", "<attrs generated")
_LIBRARIES = ("jax", "numpy", "pandas", "scipy", "sklearn")
_FOREIGN = tuple(f"{os.sep}{name}{os.sep}" for name in _LIBRARIES)


def user_line() -> str:
    """`file:line` of the innermost caller outside Ren, _LIBRARIES and Python's own modules."""
    frame = user_frame()
    return _NOWHERE if frame is None else _place(frame)


def user_line_of(traceback: TracebackType | None) -> str:
    """`file:line` of the innermost such line that an exception went through."""
    found = None
    while traceback is not None:
        if not _is_foreign(traceback.tb_frame.f_code.co_filename):
            found = traceback
        traceback = traceback.tb_next
    return _NOWHERE if found is None else _place(found.tb_frame, found.tb_lineno)


def is_of_user(error: BaseException) -> bool:
    """True for what the user's own code raised below the line that caught it.

    It is an exception of a class of its own, or a TimeoutError.

    Handlers of signals run anywhere: a time limit may end in the middle of a compilation. What they
    raise is the user's, and tells nothing of what they interrupted.
    """
    is_own = type(error).__module__ != "builtins" or isinstance(error, TimeoutError)
    return is_own and user_line_of(error.__traceback__) != _NOWHERE


def user_source() -> str:
    """`file:line: text` of that caller; empty where there is none."""
    frame = user_frame()
    if frame is None:
        return ""
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals).strip()
    return f"{_place(frame)}: {text:.{_LONGEST}}" if text else _place(frame)


def functions_between(package: str) -> set[str]:
    """The functions of a package between this line and that caller, as `module.name`."""
    found: set[str] = set()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_foreign(frame.f_code.co_filename):
        found.add(f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_name}")
        frame = frame.f_back
    return {name for name in found if name.partition(".")[0] == package}


def user_frame() -> FrameType | None:
    """The frame of that caller."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_foreign(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn at that caller's line; one line of code warns once, also with another text."""
    if (frame := user_frame()) is not None:
        module = frame.f_globals.get("__name__") or "__main__"
        registry = frame.f_globals.setdefault("__warningregistry__", {})
        path, line = frame.f_code.co_filename, frame.f_lineno
        # Keys that `warnings` has set, where its filter shows a text once a line.
        if any(isinstance(key, tuple) and key[1:] == (category, line) for key in registry):
            registry[text, category, line] = 1
        warnings.warn_explicit(text, category, path, line, module, registry)


def _place(frame: FrameType, line: int | None = None) -> str:
    name = frame.f_code.co_filename
    return f"{_cell(name) or os.path.basename(name)}:{line or frame.f_lineno}"


def _cell(filename: str) -> str:
    """`In[3]` for the code of a cell in IPython or a notebook; empty for a file."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    named = shell.compile.format_code_name(filename) if shell is not None else None
    return named[1] if named is not None else ""


def _is_foreign(name: str) -> bool:
    if name.startswith(_PACKAGE):
        return not name.startswith(_USERS_WITHIN)
    if name.startswith(_PYTHON) and not any(folder in name for folder in _INSTALLED):
        return True
    return name.startswith(_GENERATED) or any(package in name for package in _FOREIGN)
