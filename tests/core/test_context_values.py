"""Context variables: values and fields that hold inside of a `with` block alone."""

from __future__ import annotations

from contextvars import ContextVar, copy_context

import attrs
import pytest

from ren.core.context_values import Changed, ContextValue


@attrs.frozen(slots=False)
class Record:
    name: str = ""
    count: int = 0


def test_a_value_holds_inside() -> None:
    variable = ContextVar("value", default=0)
    with ContextValue(variable, 1) as given:
        assert given == variable.get() == 1
    assert variable.get() == 0


def test_fields_change_inside_and_others_stay() -> None:
    first = Record("outer", 1)
    variable: ContextVar[Record] = ContextVar("record", default=first)
    with pytest.raises(ZeroDivisionError), Changed(variable, count=2):
        with Changed(variable, name="inner") as record:
            assert record is variable.get() and record == Record("inner", 2)
            assert copy_context().run(variable.get) is record
        assert variable.get() == Record("outer", 2)
        _ = 1 / 0
    assert variable.get() is first == Record("outer", 1)
