"""Interface of a backend: it compiles a segment of a plan, or says why it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs

from ren.lowering.program.steps import Segment

Call = Callable[[Sequence[Any]], Sequence[Any]]


@attrs.frozen
class Unsupported:
    """Answer of a backend that does not run a segment.

    Attributes:
        reason: why, for people; `explain()` shows it.
        is_too_large: true where a limit of one executable is passed, so that parts of the segment
            may be supported.
        is_choice: true where another backend is as fast, so that there is nothing to report.
    """

    reason: str
    is_too_large: bool = False
    is_choice: bool = False


class Executable(Protocol):
    """A segment that a backend has compiled, for inputs of some shapes."""

    @property
    def backend(self) -> str:
        """Name of the backend, and the lanes of its vectors, for the log."""
        ...

    def bind(self, args: Sequence[Any]) -> Call:
        """The outputs of the segment, in order, as a function of concrete arrays like `args`."""
        ...

    def traced(self, args: Sequence[Any]) -> Sequence[Any]:
        """The outputs in order, as a part of the JAX program that is being traced.

        Args:
            args: the inputs of the segment, arrays or tracers.
        """
        ...


class Backend(Protocol):
    """A way to run segments."""

    @property
    def name(self) -> str:
        """Name of the backend, for people."""
        ...

    def compile(self, segment: Segment, args: Sequence[Any]) -> Executable | Unsupported:
        """The executable of a segment, or why there is none.

        Args:
            segment: what to run.
            args: its inputs, arrays `uint32[*batch, limb, n]` of Montgomery residues in [0, q), or
                what has their shapes and shardings (`jax.ShapeDtypeStruct`, tracers).
        """
        ...
