"""Functions with loops of JAX: traced as a whole, and run as one executable of XLA.

A body of `jax.lax.scan`, `fori_loop`, `while_loop`, `cond`, `switch` or `map` is a function of JAX.
It reads tracers and is traced once, however many steps there are. So a capture that comes to such a
loop is repeated inside one trace of JAX. All other rules of captures hold there. Arguments, keys,
draws and numbers are symbolic, and become inputs of the traced program where it reads them. What is
computed becomes a part of the trace: native calls where Ren runs natively, else XLA's operations.

The other design was an op LOOP in Ren's own graph. It would need nodes of several results, and
bodies in each pass and backend. It would need its own conditions, indices and counters. JAX has all
of it. Measured on four cores at n = 2^10 and 3 limbs, a step of x * a + b took 4 us in a loop. As a
call of its plan it took 39 us. At n = 2^14 and 8 limbs it was 17 and 63 us. With a transform back
in each step it was 280 and 294 us at n = 2^14. The capture took 13 ms, and XLA's compiler 70 to 90
ms.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import jax
import numpy as np

from ren.capture.loop_reports import LoopStep, listed, steps_of
from ren.capture.pytrees import Structure, take_apart
from ren.core.errors import JitError, LoopError, RenError
from ren.core.spec import Spec
from ren.core.user_frame import user_line_of
from ren.lowering.backends.xla.jax_executable import BY_XLA
from ren.lowering.backends.xla.jax_runtime import check_not_forked, compiler_options
from ren.lowering.devices.devices import is_tracer
from ren.lowering.devices.donation import check_not_donated
from ren.lowering.devices.trace_inputs import TraceInput, TraceInputs, tracing
from ren.lowering.plan.partition import GRAPH
from ren.lowering.runtime.runner import check_one_device
from ren.lowering.runtime.trace import active_trace
from ren.lowering.storage.telemetry import Telemetry, TierReport
from ren.poly import Poly, realization
from ren.poly.key_ids import KeyId, called, key_input_of
from ren.poly.loop_types import mismatch
from ren.poly.poly import realize_polys, spec_of
from ren.poly.symbolic import Aside, Length, Symbolic, UnfitPlaces

MOST_TRACES = 6
_log = logging.getLogger("ren")


@attrs.frozen(eq=False, repr=False)
class LoopRecording:
    """A function with loops, traced; nothing has run.

    Attributes:
        inputs: what the traced program reads, in order.
        traced: the `jax.stages.Traced` of these inputs. Its results are the limb arrays of `specs`,
            then the arrays of `leaves`.
        specs: the types of the distinct results that are not constants.
        outputs: for each polynomial of the result its position in `specs`, or the constant.
        result: the result taken apart; its polynomials are dropped.
        leaves: the positions of leaves of the result, no polynomials, that are arrays of the trace.
        steps: the loops, and the programs of Ren in them.
        programs: these programs, planned.
        mode: jax_enable_x64, on which the types of JAX's numbers depend.
    """

    inputs: list[TraceInput]
    traced: Any
    specs: tuple[Spec, ...]
    outputs: tuple[int | Poly, ...]
    result: Structure
    leaves: tuple[int, ...]
    steps: tuple[LoopStep, ...]
    programs: tuple[Any, ...]
    mode: bool = attrs.field(factory=lambda: jax.config.jax_enable_x64)

    def check_mode(self) -> None:
        """Raises UnfitPlaces in another mode of JAX than that of the trace."""
        if (mode := jax.config.jax_enable_x64) is not self.mode:
            raise UnfitPlaces(mode)

    def __str__(self) -> str:
        return listed(self.steps, self.programs)

    def input_counts(self) -> list[tuple[str, int, int]]:
        """Kinds of inputs, with how many there are and their bytes."""
        kinds = ("bound at each call", "keys, read at each call", "held by the plan", "numbers")
        counts = {kind: [0, 0] for kind in kinds}
        for given in self.inputs:
            count = counts[kinds[_kind(given.source)]]
            count[0] += 1
            count[1] += math.prod(given.type.shape) * given.type.dtype.itemsize
        return [(kind, *count) for kind, count in counts.items()]  # type: ignore[misc]

    def with_arrays(self, others: list[Any], arrays: Sequence[Any]) -> list[Any]:
        """The other leaves of a result, with those that the program computes."""
        for i, array in zip(self.leaves, arrays[len(self.specs) :], strict=True):
            wrapper = type(others[i])
            others[i] = wrapper(array) if wrapper in WRAPPERS else array
        return others


def record_loops(
    function: Callable[[Any], Any],
    name: str,
    arguments: Structure,
    others: Sequence[Any],
    prune: bool = False,
    place: Callable[[Any], Any] = lambda source: None,
) -> LoopRecording:
    """Traces `function` on placeholders: `arguments.polys` are the placeholders themselves.

    Args:
        function, name, others, prune: as in `capture.record`.
        arguments: the structure of the arguments.
        place: see `TraceInputs`.

    Raises:
        JitError: the result holds no polynomial, or each trace reads something else.
        TracedValueError: a loop whose carry changes its type, or branches of different types.
    """
    declared: list[TraceInput] = []
    made: list[tuple[Any, ...]] = []  # nothing that belongs to the trace

    def program(*tracers: Any) -> list[Any]:
        inputs = TraceInputs(declared, tracers, prune, place)
        with tracing(inputs), realization.capturing():
            given = arguments.rebuild(iter(arguments.polys), map(_in_trace, others))
            with called(), realization.heeding():
                result = take_apart(function(given))
            check_result(result, name)
            distinct = {id(p): p for p in result.polys if not p.is_constant}
            polys = dict(zip(distinct, realize_polys(list(distinct.values())), strict=True))
            leaves = result.others
            arrays = [i for i, leaf in enumerate(leaves) if is_tracer(inner(leaf))]
            limbs = [p.limbs for p in polys.values()]
            position = {at: i for i, at in enumerate(polys)}
            outputs = tuple(p if p.is_constant else position[id(p)] for p in result.polys)
            specs = tuple(spec_of(p) for p in polys.values())
            # The leaves that are arrays of the trace are made at each call.
            blank = [_blank(leaf) if i in arrays else leaf for i, leaf in enumerate(leaves)]
            kept = attrs.evolve(result, polys=[], others=blank)
            made.append((inputs.found, tuple(inputs.programs), specs, outputs, kept, tuple(arrays)))
            return [*limbs, *(inner(leaves[i]) for i in arrays)]

    for _ in range(MOST_TRACES):
        made.clear()
        try:
            types = [given.type for given in declared]
            with jax.disable_jit(False):
                traced = jax.jit(lambda *t: program(*t)).trace(*types)
        except RenError:
            raise
        except TypeError as error:
            if (told := mismatch(error, user_line_of(error.__traceback__))) is None:
                raise
            raise told from error
        except ValueError as error:
            check_one_device(error)
            raise
        found, programs, specs, outputs, result, arrays = made[-1]
        if [f.type for f in found] == types:
            break
        declared = found
    else:
        raise JitError(
            f"{name} reads something else each time it is traced.",
            "What a captured function does depends on its arguments alone.",
            "Leave global state and random choices out of it, or write a loop of Python.",
        )
    # The sources as the last trace found them: two of one type may have changed places.
    steps = steps_of(traced.jaxpr, programs)
    return LoopRecording(found, traced, specs, outputs, result, arrays, steps, programs)


def _kind(source: Any) -> int:
    if isinstance(source, jax.Array):
        return 2
    if isinstance(source, Symbolic):
        return 3
    return int(key_input_of(source) is not None)


def _blank(leaf: Any) -> Any:
    return type(leaf)(None) if type(leaf) in WRAPPERS else None


def check_result(result: Structure, name: str) -> None:
    """Raises JitError where a captured function returned no polynomial."""
    if not result.polys:
        raise JitError(
            f"The captured function {name} returned no polynomial.",
            "What is captured is the program of the polynomials returned.",
            "Return a Poly, or something that holds one, such as a ciphertext. Call a function "
            "that returns none as it is.",
        )


WRAPPERS = (Length, Aside, KeyId)


def inner(leaf: Any) -> Any:
    """The value inside of a leaf of a structure that wraps one."""
    if isinstance(leaf, Length):
        return leaf.count
    if isinstance(leaf, KeyId):
        return leaf.known
    return leaf.value if isinstance(leaf, Aside) else leaf


def number_of(given: TraceInput, values: Sequence[Any]) -> np.ndarray:
    """The number or array of a call that is an input of a traced program, as JAX has it.

    Raises:
        LoopError: an integer that the type of JAX does not hold.
    """
    value, dtype = np.asarray(given.source.value(values)), given.type.dtype
    if dtype.kind in "iu" and value.size:
        held, ends = np.iinfo(dtype), (int(value.min()), int(value.max()))
        if not held.min <= ends[0] <= ends[1] <= held.max:
            raise LoopError(
                f"The argument {given.source.name!r} is, or holds, {max(ends, key=abs)} where JAX "
                "reads it.",
                f"JAX counts with {dtype}.",
                "Pass smaller numbers, or set jax_enable_x64.",
            )
    with np.errstate(over="ignore"):  # floats beyond float32 are infinite to JAX
        return value.astype(dtype)


def _in_trace(value: Any) -> Any:
    """A stand-in of a capture for one that JAX traces."""
    if type(value) is Symbolic:
        return Symbolic(value.sample, value.value, value.name)
    return value


class LoopRunner:
    """A traced program as one executable of XLA, compiled at its first call."""

    tier = GRAPH

    def __init__(self, recording: LoopRecording, name: str) -> None:
        self._recording, self._name = recording, name
        self._lock = threading.Lock()
        self._compiled: Any = None
        self._calls = self._compile_ns = 0

    @property
    def name(self) -> str:
        """Name of the program in traces."""
        return f"loops of {self._name}"

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The results: limb arrays, then the arrays among the other leaves.

        Raises:
            DonatedBufferError: an input was given away before.
            DeviceError: the arrays are on several devices.
        """
        check_not_forked()
        trace = active_trace.get()
        self._calls += 1
        try:
            if trace is None:
                return self._run(inputs)
            return tuple(trace.timed(self, inputs, lambda: self._run(inputs)))
        except (RuntimeError, ValueError) as error:
            check_not_donated(*inputs)
            check_one_device(error)
            raise

    def _run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        run = self._compiled or self.compiled()
        if not jax.config.jax_disable_jit:  # pyright: ignore[reportAttributeAccessIssue]
            return tuple(run(*inputs))
        with jax.disable_jit(False):
            return tuple(run(*inputs))

    def compiled(self) -> Any:
        """The `jax.stages.Compiled`."""
        with self._lock:
            if self._compiled is None:
                start = time.perf_counter_ns()
                _log.info("%s: runs on the backend %s", self._name, BY_XLA)
                lowered = self._recording.traced.lower()
                self._compiled = lowered.compile(compiler_options())
                self._compile_ns = time.perf_counter_ns() - start
            return self._compiled

    @property
    def telemetry(self) -> Telemetry:
        """Calls so far, and the time that XLA took."""
        report = TierReport(GRAPH, self._calls, compile_ns=self._compile_ns)
        return Telemetry(GRAPH, "one executable, for its loops", (report,))

    def wait(self, timeout: float | None = None) -> bool:
        """Compile now what the first call would; True."""
        self.compiled()
        return True
