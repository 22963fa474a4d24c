"""For the reference pages: what docstrings call "Example", griffe calls "Examples"."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^( *)Example:$", re.MULTILINE)


class Examples(griffe.Extension):
    """Reads sections named Example as sections named Examples."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Renames the sections of one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"\1Examples:", obj.docstring.value)
