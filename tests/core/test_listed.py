"""Internal names: out of `dir()` and of the reference, and attributes all the same."""

from __future__ import annotations

import abc
import pydoc

import attrs
import pytest

import ren
from ren.capture.capture import Captured
from ren.core.listed import Listed

RING = ren.RingSpec(n=4, moduli=(17,))
JITTED = ren.jit(lambda x: x * x)
JITTED(ren.Poly([1, 2], RING))
OBJECTS = (JITTED.plans[0],)  # an instance of each class with internal names


@attrs.frozen
class Base(metaclass=Listed):
    __internal__ = ("seal",)

    seal: int
    shown: int = 2

    def turn(self) -> int:
        """Turn it."""
        return self.seal


class Derived(Base):
    __internal__ = ("turn",)


def public(value: object) -> list[str]:
    return [name for name in dir(value) if not name.startswith("_")]


def test_dir_leaves_out_internal_names_of_a_class_and_of_its_bases() -> None:
    assert public(Base) == public(Base(1)) == ["shown", "turn"]
    assert public(Derived) == public(Derived(1)) == ["shown"]


def test_abstract_classes_may_be_bases_too() -> None:
    class Both(Base, abc.ABC):
        @abc.abstractmethod
        def more(self) -> int: ...

    class Whole(Both):
        def more(self) -> int:
            return self.seal

    with pytest.raises(TypeError, match="abstract"):
        Both(1)
    assert Whole(4).more() == 4 and isinstance(Whole(4), Base) and not isinstance(4, Base)
    assert issubclass(Whole, Base) and not issubclass(int, Base)
    assert public(Whole) == ["more", "shown", "turn"]


def test_internal_names_are_attributes() -> None:
    assert Base(1).seal == 1 and Derived(3).turn() == 3
    assert attrs.evolve(Base(1), seal=5) == Base(5) != Base(1)


def test_help_leaves_out_internal_names() -> None:
    text = pydoc.plaintext.document(Derived)
    assert "shown" in text and "Turn it" not in text


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: type(value).__name__)
def test_every_internal_name_is_there(value: object) -> None:
    internal = [n for kind in type(value).__mro__ for n in vars(kind).get("__internal__", ())]
    assert internal and all(hasattr(value, name) for name in internal)
    assert not set(internal) & {*dir(value), *dir(type(value))}


def test_a_plan_lists_what_the_reference_does() -> None:
    assert public(Captured) == [
        "cost", "explain", "memory", "plan", "plot_memory", "telemetry", "to_dot", "to_mermaid",
        "wait",
    ]  # fmt: skip
