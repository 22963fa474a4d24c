"""For the reference pages: internal names are left out, and griffe's name of sections is used."""

import ast
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


class Internal(griffe.Extension):
    """Leaves out the names that a class lists in `__internal__`; see `ren.core.listed`."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Removes members of one class."""
        internal = cls.members.get("__internal__")
        for name in ast.literal_eval(str(internal.value)) if internal else ():
            cls.members.pop(name, None)
