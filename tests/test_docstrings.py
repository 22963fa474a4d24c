"""Every public name says what it is, and what each of its arguments and fields are."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import attrs

import ren
from ren.capture.capture import Captured
from ren.jit import Jitted
from ren.lowering.inspect.memory_report import MemoryReport
from ren.lowering.plan.cost import Cost
from ren.lowering.plan.plan import Plan
from ren.schemes import ckks

WORDS = 4  # fewer only repeat the name
ELSEWHERE = re.compile(r"\b(as for|as in|as of|as `\w+`|see `)", re.IGNORECASE)
FOUND_BY_NAME = (ren.errors, ckks.math, ckks.stats, ckks.testing)  # modules among the public names


def exported(module: Any) -> Iterator[tuple[str, Any]]:
    names = getattr(module, "__all__", None) or [n for n in vars(module) if n[0].isupper()]
    for name in names:
        yield f"{module.__name__}.{name}", getattr(module, name)


def public() -> dict[str, Any]:
    """Public names, and those of what a user meets without importing it."""
    found = {name: value for m in (ren, ckks, *FOUND_BY_NAME) for name, value in exported(m)}
    met = (Captured, Plan, Cost, MemoryReport, Jitted, type(ren.config))
    return found | {f"{c.__module__}.{c.__name__}": c for c in met}


def functions(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A public function, or the public methods and properties of a class."""
    if inspect.isfunction(value):
        yield name, value
    if not inspect.isclass(value):
        return
    for member in dir(value):
        held = inspect.getattr_static(value, member)
        if isinstance(held, staticmethod | classmethod):
            held = held.__func__
        elif isinstance(held, property):
            held = held.fget
        elif isinstance(held, cached_property):
            held = held.func
        is_ours = inspect.isfunction(held) and str(held.__module__).startswith("ren")
        if is_ours and not member.startswith("_"):
            yield f"{name}.{member}", held


CLASSES = {name: value for name, value in public().items() if inspect.isclass(value)}
FUNCTIONS = {n: f for name, value in public().items() for n, f in functions(name, value)}


def test_the_walk_finds_what_there_is():
    assert len(CLASSES) > 30 and len(FUNCTIONS) > 150
    for name in (
        "ren.realize", "ren.Poly.rotate", "ren.Poly.uniform", "ren.schemes.ckks.Ciphertext.rotate",
        "ren.schemes.ckks.Context.encrypt", "ren.schemes.ckks.Parameters.for_depth",
        "ren.schemes.ckks.Parameters.scale", "ren.schemes.ckks.Plaintext.save",
        "ren.schemes.ckks.math.exp", "ren.capture.capture.Captured.explain",
        "ren.schemes.ckks.context",
    ):  # fmt: skip
        assert name in FUNCTIONS, name


def test_everything_public_says_what_it_is():
    for name, value in (CLASSES | FUNCTIONS).items():
        text = inspect.cleandoc(value.__doc__ or "")
        assert len(text.split()) >= WORDS, f"{name}: {text!r}"
        assert re.search(r"[.:]$", text.split("\n\n")[0]), f"{name}: no sentence"


def test_arguments_are_named_or_explained_elsewhere():
    """Of functions of two or more; the one argument of a function is what its first line is on."""
    for name, function in FUNCTIONS.items():
        taken = [p for p in inspect.signature(function).parameters if p not in ("self", "cls")]
        text = function.__doc__ or ""
        if len(taken) > 1 and not ELSEWHERE.search(text):
            unnamed = [p for p in taken if not re.search(rf"\b{p}\b", text)]
            assert not unnamed, f"{name}: {unnamed}"


def test_fields_are_explained():
    for name, value in CLASSES.items():
        fields = attrs.fields(value) if attrs.has(value) else ()
        text = value.__doc__ or ""
        unnamed = [f.name for f in fields if not re.search(rf"\b{f.name}\b", text)]
        assert not [f for f in unnamed if not f.startswith("_")], f"{name}: {unnamed}"
