"""Mode of this thread: capturing a function, or gathering polynomials from a structure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ren.core.node import next_serial

_collecting: ContextVar[bool] = ContextVar("ren_collecting", default=False)
_inlining: ContextVar[bool] = ContextVar("ren_inlining", default=False)
_since: ContextVar[int | None] = ContextVar("ren_capture", default=None)


def is_capturing() -> bool:
    """True inside a function that `ren.jit` is capturing."""
    return _since.get() is not None


def capture_serial() -> int:
    """Nodes with a smaller serial were made before the current capture began."""
    return _since.get() or 0


@contextmanager
def capturing() -> Iterator[None]:
    """Marks what runs inside as captured."""
    token = _since.set(next_serial())
    try:
        yield
    finally:
        _since.reset(token)


def is_collecting() -> bool:
    """True while polynomials are being gathered from a structure: flattening stays lazy."""
    return _collecting.get()


@contextmanager
def collecting() -> Iterator[None]:
    """Lets pytrees be taken apart without realizing what they hold."""
    token = _collecting.set(True)
    try:
        yield
    finally:
        _collecting.reset(token)


@contextmanager
def not_capturing() -> Iterator[None]:
    """Runs what is inside as if no capture were going on: for keys, which outlive the plan."""
    token = _since.set(None)
    try:
        yield
    finally:
        _since.reset(token)


def is_inlining() -> bool:
    """True while functions under `ren.jit` run as they are."""
    return _inlining.get()


@contextmanager
def inlining() -> Iterator[None]:
    """Lets functions under `ren.jit` run as they are, operation by operation."""
    token = _inlining.set(True)
    try:
        yield
    finally:
        _inlining.reset(token)
