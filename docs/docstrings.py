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


class Steps(griffe.Extension):
    """Gives comparisons of `ckks.math` the arguments of `sign`, as their decorator does."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replaces the last parameter of one function."""
        if any(str(d.value).startswith("_of_two(") for d in func.decorators):
            sign: Any = func.parent and func.parent["sign"]
            func.parameters = griffe.Parameters(*[*func.parameters][:-1], *[*sign.parameters][1:])
            func.returns = sign.returns
