"""The user's own line, for error messages."""

from __future__ import annotations

import contextlib
import os
import sys
from types import FrameType

_PACKAGE = os.path.dirname(__file__)
_STANDARD = os.path.dirname(contextlib.__file__) + os.sep  # a decorator's frame lies there
_INSTALLED = ("site-packages", "dist-packages")
_FOREIGN = (f"{os.sep}jax{os.sep}", f"{os.sep}numpy{os.sep}")
_USERS_WITHIN = os.path.join(_PACKAGE, "demo")  # the demo is a user of the library


def user_line() -> str:
    """`file:line` of the innermost caller outside the library, jax, numpy and Python's own."""
    frame = user_frame()
    if frame is None:
        return "an unknown line"
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def user_frame() -> FrameType | None:
    """The frame of that caller."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        library = name.startswith(_PACKAGE) and not name.startswith(_USERS_WITHIN)
        foreign = name.startswith("<frozen") or any(package in name for package in _FOREIGN)
        standard = name.startswith(_STANDARD) and not any(part in name for part in _INSTALLED)
        if not (library or foreign or standard):
            return frame
        frame = frame.f_back
    return None
