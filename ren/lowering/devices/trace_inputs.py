"""Captures that JAX traces: the inputs of the traced program, found while the function runs.

A captured function that runs a loop of JAX is traced as a whole: see `ren/capture/loops.py`. Which
arrays the traced program reads is known only when the function has run. So it is traced twice. The
first trace finds the inputs. In the second each is an argument of the outermost trace, which the
bodies of loops close over.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

import attrs
import jax
from jax.core import ShapedArray
from jax.extend.core import Primitive

from ren.core.context_values import ContextValue
from ren.lowering.devices.devices import concretely, is_tracing, trace_state

# Stands for an input that is not declared. It has no lowering: programs that still hold it do
# not compile. They would come from the trace of a body that JAX has remembered.
_missing = Primitive("ren_missing_input")
_missing.def_abstract_eval(lambda *, shape, dtype: ShapedArray(shape, dtype))


@attrs.frozen(eq=False)
class TraceInput:
    """An input of a traced program.

    Attributes:
        type: shape, dtype and, where it is bound to devices, the sharding.
        source: the array where the program holds it, else what tells the array of a call.
    """

    type: jax.ShapeDtypeStruct
    source: Any


class Token:
    """Static data of polynomials in one trace, equal to itself alone.

    JAX remembers the traces of bodies, by the types of their arguments. What one trace of a capture
    closes over means nothing in the next.
    """

    def __repr__(self) -> str:
        return "traced"


class TraceInputs:
    """The inputs of a program in one trace, in the order in which they are asked for.

    Args:
        declared: those that the trace before found.
        tracers: these inputs in this trace.
        prune: whether what depends on no argument is computed once, at capture.
        place: from a source to the sharding that its arrays are bound to, or None.

    Attributes:
        state: that of the outermost trace.
        programs: those of Ren that became parts of the trace.
    """

    def __init__(
        self,
        declared: Sequence[TraceInput],
        tracers: Sequence[Any],
        prune: bool = False,
        place: Callable[[Any], Any] = lambda source: None,
    ) -> None:
        self.prune, self._place = prune, place
        self._tracers = [(d.type, tracer) for d, tracer in zip(declared, tracers, strict=True)]
        self._positions: dict[Hashable, int] = {}
        self.found: list[TraceInput] = []
        self.programs: list[Any] = []
        self._values: WeakKeyDictionary[Any, tuple[Any, Any]] = WeakKeyDictionary()
        self.state = trace_state()
        self.token = Token()

    def tracer(self, source: Any, shape: Any, dtype: Any, weak_type: bool = False) -> Any:
        """The input of a source; one object is one input."""
        at = self._positions.get(id(source))
        if at is None:
            at = self._positions[id(source)] = len(self.found)
            with concretely():  # what is moved is an array, and no part of the trace
                place = self._place(source)
            like = jax.ShapeDtypeStruct(shape, dtype, sharding=place, weak_type=weak_type)
            self.found.append(TraceInput(like, source))
        like = self.found[at].type
        if at < len(self._tracers) and self._tracers[at][0] == like:
            return self._tracers[at][1]
        return _missing.bind(shape=like.shape, dtype=like.dtype)

    def held(self, array: jax.Array) -> Any:
        """The input that an array is which the program holds."""
        return self.tracer(array, array.shape, array.dtype)

    def known(self, node: Any) -> Any:
        """The value that was kept for a node in the trace that is current, or in the outermost."""
        state, value = self._values.get(node, (None, None))
        return value if state in (self.state, trace_state()) else None

    def keep(self, node: Any, value: Any) -> Any:
        """The value of a node in the trace that is current, kept for `known`."""
        self._values[node] = trace_state(), value
        return value

    def scope_of(self, program: Any) -> str:
        """Name of the scope of JAX that a program is traced in: its number, for reports."""
        self.programs.append(program)
        return f"ren_program_{len(self.programs) - 1}"


# The inputs of the capture that JAX traces; None in other captures, and outside of them.
trace_inputs: ContextVar[TraceInputs | None] = ContextVar("ren_trace_inputs", default=None)


def trace_token() -> Token | None:
    """Static data of polynomials in the current trace of a capture; else None."""
    inputs = trace_inputs.get()
    return None if inputs is None else inputs.token


def tracing(inputs: TraceInputs | None) -> ContextValue[TraceInputs | None]:
    """Marks what runs inside as a capture that JAX traces; None for what is none."""
    return ContextValue(trace_inputs, inputs)


def is_transforming() -> bool:
    """True inside a JAX transformation, that of a capture which JAX traces left out."""
    inputs = trace_inputs.get()
    return is_tracing() if inputs is None else trace_state() != inputs.state
