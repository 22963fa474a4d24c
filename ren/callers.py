"""The user's own line, for error messages."""

from __future__ import annotations

import os
import sys

_PACKAGE = os.path.dirname(__file__)
_FOREIGN = (f"{os.sep}jax{os.sep}", f"{os.sep}numpy{os.sep}")
_USERS_WITHIN = os.path.join(_PACKAGE, "demo")  # the demo is a user of the library


def user_line() -> str:
    """`file:line` of the innermost caller outside the library, jax, numpy and Python's own."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        library = name.startswith(_PACKAGE) and not name.startswith(_USERS_WITHIN)
        foreign = name.startswith("<frozen") or any(package in name for package in _FOREIGN)
        if not (library or foreign):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown line"
