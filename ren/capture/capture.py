"""Capture: a function of polynomials, run once on placeholders, becomes a plan that replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, NoReturn

import attrs
import jax
import numpy as np

from ren.capture.loop_reports import (
    bytes_text,
    card,
    cost_of_steps,
    diagram,
    explained,
    memory_of_executable,
)
from ren.capture.loops import (
    WRAPPERS,
    LoopRecording,
    LoopRunner,
    check_result,
    inner,
    number_of,
    record_loops,
)
from ren.capture.placement import (
    array_at,
    divided_over,
    moved,
    place,
    visible_devices,
    whole_at,
    with_buffers_at,
)
from ren.capture.pytrees import Structure, take_apart
from ren.config import XLA_FLAGS
from ren.core import op as ops
from ren.core.attributes import Unchanging, closed
from ren.core.errors import JitError, LoopError, TracedValueError
from ren.core.listed import Listed
from ren.core.node import Node, make, placeholder
from ren.core.rewrite import rewrite
from ren.core.spec import BufferArg, PlaceholderArg, ScalarArg, Spec
from ren.core.text_table import counted
from ren.core.user_frame import user_line
from ren.lowering.backends.xla.jax_runtime import check_inputs
from ren.lowering.devices.devices import PYTHON, claim_of
from ren.lowering.devices.donation import copied, mark, may_donate
from ren.lowering.devices.trace_inputs import TraceInput
from ren.lowering.inspect.diagram import Diagram
from ren.lowering.inspect.explain import explain
from ren.lowering.inspect.markup import dot, mermaid
from ren.lowering.inspect.memory_plot import plot_memory
from ren.lowering.inspect.memory_report import MemoryReport, memory_of
from ren.lowering.inspect.plan_diagram import plan_card, plan_diagram
from ren.lowering.plan.cost import Cost, cost_of
from ren.lowering.plan.memory import donating
from ren.lowering.plan.plan import Plan, Schedule
from ren.lowering.program.steps import Input
from ren.lowering.runtime.host_arrays import own_errors, placed, scalar_limbs
from ren.lowering.runtime.planning import plan_of
from ren.lowering.runtime.runner import run_plan
from ren.lowering.runtime.tiers.plan_key import plan_digest
from ren.lowering.runtime.tiers.tiers import AUTO, EAGER, runner
from ren.lowering.runtime.trace import Trace
from ren.lowering.storage.profile_store import default_store
from ren.lowering.storage.telemetry import Runner, Telemetry
from ren.poly import Poly, realization
from ren.poly.key_ids import Keys, called, key_input_of, keys_of
from ren.poly.poly import arrays_of, from_array, from_node
from ren.poly.symbolic import LengthNeeded, Symbolic, SymbolicLength, evaluator
from ren.progress import titled

Source = Callable[[Sequence[Any], Sequence[Any]], Any]


@attrs.frozen
class Options:
    """Options of the capture of a function and of the runs of its plan; see `ren.jit`."""

    tier: str = AUTO
    prune: bool = False
    show_graph: bool = False
    device: Any = None
    auto_device: bool = True


@closed(otherwise="Jit the function again with other options of ren.jit.")
@attrs.frozen(eq=False, repr=False)
class Captured(Unchanging, metaclass=Listed):
    """A captured program: its plan, where each input comes from, how the result is put together.

    Attributes:
        plan: what runs.
        sources: for each input of the plan, a function from the call's limb arrays and other values
            to its array. The arrays of `keys` stand behind those of the arguments. An input is an
            argument, a key, a closed-over buffer that this object holds, a draw, or residues.
        keys: from the other values of a call to the arrays of keys, for each id of keys.
        outputs: for each polynomial of the result its root among the plan's outputs, or the
            constant that it is.
        result: the structure of the result.
        others: from the other values of a call to the leaves of the result that are no
            polynomials.
        run: the plan as a function of its inputs, in the tier that was asked for.
        target: the device that polynomials are moved to before each replay; None for none.
        donated: positions of the polynomial arguments whose buffers are given away.
        donated_inputs: the positions of these among the inputs of the plan.
        plain: where arguments are donated, the plan that leaves their buffers alone.
        held: the roots that are buffers of the plan. Results are copies: they may be donated.
        loops: what `run` runs for a function with loops of JAX, whose plan has no steps.
        notes: lines that its operations said of the program, such as where it bootstraps.
    """

    __internal__ = (
        "sources", "keys", "outputs", "result", "others", "run", "target", "donated",
        "donated_inputs", "plain", "loops", "notes", "held", "replay",
    )  # fmt: skip

    plan: Plan
    sources: tuple[Source, ...]
    keys: tuple[Keys, ...]
    outputs: tuple[int | Poly, ...]
    result: Structure
    others: Callable[[Sequence[Any]], list[Any]]
    run: Runner
    target: Any
    donated: tuple[int, ...]
    donated_inputs: tuple[int, ...]
    plain: Plan
    loops: LoopRecording | None = None
    notes: tuple[str, ...] = ()
    held: frozenset[int] = frozenset()

    def __reduce__(self) -> NoReturn:
        raise JitError(
            f"{user_line()} pickles a plan of a jitted function.",
            "It holds buffers and compiled code of this process.",
            "Pickle the function: it is captured again where it is called.",
        )

    def replay(self, polys: Sequence[Poly], values: Sequence[Any]) -> Any:
        """The function's result on the realized polynomials and the other leaves of a call.

        Raises:
            Unfit: the program was captured for other values.
            DonatedBufferError: a buffer was given away before.
        """
        if self.loops is not None:
            self.loops.check_mode()
        with own_errors():
            return self._replay(polys, values)

    def _replay(self, polys: Sequence[Poly], values: Sequence[Any]) -> Any:
        arrays = arrays_of(polys if self.target is None else moved(polys, self.target))
        for keys in self.keys:
            arrays += keys(values)
        inputs = [source(arrays, values) for source in self.sources]
        check_inputs(inputs)
        if self.donated:
            others = self.others(values)  # first: what raises there gives nothing away
            may = may_donate(inputs, self.donated_inputs)
            made = self.run(inputs) if may else run_plan(self.plain, inputs)
            given = arrays_of([polys[i] for i in self.donated])
            made = mark([a for a in given if a is not None], made)
        else:
            made = self.run(inputs)
            others = self.others(values)
        if self.held:
            made = [copied(a) if i in self.held else a for i, a in enumerate(made)]
        if self.loops is not None:
            others = self.loops.with_arrays(others, made)
        specs = self.plan.output_specs
        results = (
            o if isinstance(o, Poly) else from_array(made[o], specs[o].ring, specs[o].domain)
            for o in self.outputs
        )
        return self.result.rebuild(results, iter(others))

    @property
    def cost(self) -> Cost:
        """Kernels, limb-NTTs, multiply-adds and bytes of one replay.

        Of loops of JAX a step counts as often as it runs, where that is known at capture.
        """
        if self.loops is not None:
            return cost_of_steps(self.loops.steps, self.loops.programs)
        return cost_of(self.plan)

    @property
    def memory(self) -> MemoryReport:
        """Planned memory of one replay, in bytes; with loops of JAX it is what XLA states."""
        if self.loops is not None:
            return self._loop_memory()
        return memory_of(self.plan)

    @property
    def telemetry(self) -> Telemetry:
        """Telemetry of the replays: tiers, times, decisions, failures; prints as a table."""
        return self.run.telemetry

    def wait(self, timeout: float | None = None) -> bool:
        """Waits, at most `timeout` seconds, for what is compiled in the background.

        Under tier "auto" a compile that was put off until it is paid for is done now. The calls
        after this one can then choose between the tiers.

        Returns:
            True when nothing is left to wait for.
        """
        return self.run.wait(timeout)

    def explain(self, trace: Trace | None = None) -> str:
        """A table of the units: what each does, reads, writes, and takes; text, in notebooks HTML.

        Args:
            trace: measured times, from `with ren.trace() as trace:` around some runs; None uses
                the trace that is active, if one is.
        """
        if self.loops is not None:
            counts = self.loops.input_counts()
            steps, programs = self.loops.steps, self.loops.programs
            return explained(bytes_text(counts), steps, programs, self._loop_memory(), self.notes)
        return explain(self.plan, trace, self.notes)

    def _loop_memory(self) -> MemoryReport:
        assert self.loops is not None and isinstance(self.run, LoopRunner)
        _, (_, _, keys), (_, _, held), _ = self.loops.input_counts()
        return memory_of_executable(self.run.compiled(), held, keys)

    def _diagram(self) -> Diagram:
        if self.loops is None:
            return plan_diagram(self.plan)
        return diagram(self.loops.steps, len(self.sources), len(self.plan.output_specs))

    def plot_memory(self, ax: Any = None) -> Any:
        """Draws the buffers that are live while each unit runs, stacked up to the planned peak.

        Args:
            ax: matplotlib Axes to draw on; None makes a figure.

        Returns:
            The Axes; nothing is shown or saved.

        Raises:
            MissingPackageError: matplotlib is not installed.
            LoopError: the function has loops of JAX.
        """
        if self.loops is not None:
            raise LoopError(
                "plot_memory() was called on a plan with a loop of JAX.",
                "It runs as one executable of XLA, which has no units to draw.",
                "Read plan.memory.",
            )
        return plot_memory(self.plan, ax)

    def to_mermaid(self) -> str:
        """The units as a Mermaid flowchart, the values between them as arrows with their bytes."""
        return mermaid(self._diagram())

    def to_dot(self) -> str:
        """The same in the DOT language of Graphviz."""
        return dot(self._diagram())

    def _repr_html_(self) -> str:
        if self.loops is not None:
            return card(self.loops.steps, len(self.sources), len(self.outputs), self.cost)
        return plan_card(self.plan)

    def __repr__(self) -> str:
        if self.loops is not None:
            inputs, outputs = counted(self.sources, "input"), counted(self.outputs, "output")
            return f"<Plan: {inputs}, {counted(self.loops.steps, 'step')} with loops, {outputs}>"
        return repr(self.plan)


@attrs.frozen(eq=False, repr=False)
class Recording:
    """The recorded program of a function on polynomials, before any pass; nothing has run.

    Attributes:
        sink: the SINK of `roots`.
        inputs: the placeholder of each polynomial argument, or the constant that it is.
        closed_over: lazy nodes that depend on no argument and are computed once. Those made before,
            and with `prune` those that the function makes.
        pruned: those of them that the function makes.
        roots: the distinct results that are not constants.
        result: the result taken apart.
    """

    sink: Node
    inputs: list[Poly]
    closed_over: list[Node]
    pruned: frozenset[Node]
    roots: list[Node]
    result: Structure


def record(
    function: Callable[[Any], Any],
    name: str,
    arguments: Structure,
    others: Sequence[Any],
    prune: bool = False,
) -> Recording:
    """Runs `function` on placeholders for the polynomials of `arguments`.

    It takes the value that `arguments` is the structure of. `others` stand for the leaves that are
    no polynomials, and errors call it `name`.

    Raises:
        JitError: the result holds no polynomial.
    """
    inputs = [placeholder_for(p) for p in arguments.polys]
    with realization.capturing():
        given = arguments.rebuild(iter(inputs), iter(others))
        with called(), realization.heeding():
            result = take_apart(function(given))
        check_result(result, name)
        roots = list(dict.fromkeys(p.node for p in result.polys if not p.is_constant))
        sink = realization.resolved(make(ops.SINK, roots))
        once = realization.independent(sink, prune)
        pruned = frozenset(node for node in once if node.serial > realization.capture_serial())
        return Recording(sink, inputs, once, pruned, roots, result)


def capture(
    function: Callable[[Any], Any],
    name: str,
    arguments: Structure,
    others: Sequence[Any],
    options: Options,
    donated: tuple[int, ...] = (),
) -> Captured:
    """Runs `function` on placeholders for the polynomials of `arguments` and plans the result.

    Closed-over lazy polynomials are computed once, here. With `prune` so is what the function
    computes from no argument. The plan holds the results.

    Args:
        function, name, arguments, others: as in `record`; the polynomials are realized.
        options: how.
        donated: positions of the polynomials whose buffers calls give away.

    Raises:
        JitError: the result holds no polynomial.
        DeviceError: polynomials on two devices.
    """
    polys = arguments.polys
    target = place(polys, options.device, options.auto_device, visible_devices(), name)
    if target is not None:
        arguments = attrs.evolve(arguments, polys=moved(polys, target))
    notes: list[str] = []
    with realization.with_capture(notes=notes):
        try:
            made = record(function, name, arguments, others, options.prune)
        except realization.LoopNeeded:
            made = None
            notes.clear()
        if made is None:
            looped = _with_loops(function, name, arguments, others, options, donated, target)
            return attrs.evolve(looped, notes=tuple(dict.fromkeys(notes)))  # traced several times
    if options.show_graph:
        print(f"{name} captured:\n{made.sink}")
    with titled(f"{name}: computing once what depends on no argument"):
        known = dict(
            zip(made.closed_over, realization.realize_nodes(made.closed_over), strict=True)
        )
    sink = rewrite(made.sink, {}, known)
    # Every device holds the whole of keys and of what the function closes over.
    within = whole_at(divided_over(polys) if target is None else target)
    if within is not None:
        sink = with_buffers_at(sink, within, auto=options.device is None)
    plain = _marked(plan_of(sink), [known[n] for n in made.pruned], name)
    args = {made.inputs[i].node.arg for i in donated}
    given = tuple(i for i, value in enumerate(plain.inputs) if value.arg in args)
    plan = donating(plain, given) if given else plain
    position = {root: i for i, root in enumerate(made.roots)}
    outputs = tuple(p if p.is_constant else position[p.node] for p in made.result.polys)
    result = attrs.evolve(made.result, polys=[])
    is_auto = options.tier == AUTO
    learnt = (partial(plan_digest, plan, XLA_FLAGS), default_store()) if is_auto else (None, None)
    run = runner(plan, options.tier, *learnt, name)
    keys = keys_of(plan, partial(array_at, target=within, auto=options.device is None))
    on_host = any(not isinstance(i.arg, BufferArg) and i.arg.device == PYTHON for i in plan.inputs)
    sources = _sources([i.arg for i in plan.inputs], made.inputs, keys, on_host)
    others_of = _reader(result.others)
    held = frozenset(i for i, root in enumerate(sink.src) if root.op is ops.BUFFER)
    return Captured(
        plan, sources, keys, outputs, result, others_of, run, target, donated, given, plain,
        notes=tuple(notes), held=held,
    )  # fmt: skip


def _marked(plan: Plan, pruned: list[Node], name: str) -> Plan:
    """The plan, its inputs that were computed from no argument marked so.

    Raises:
        TracedValueError: the plan would hold what a trace left behind.
    """
    computed, inputs = {id(node.arg.array) for node in pruned}, []
    for value in plan.inputs:
        held = value.arg if isinstance(value.arg, BufferArg) else None
        if held is not None and held.traced:
            raise TracedValueError(
                f"{name} closes over a polynomial that was made inside a JAX transformation.",
                "Outside of it, such a polynomial has no value.",
                "Return it from the transformed function, and pass it in as an argument.",
            )
        is_pruned = held is not None and id(held.array) in computed
        inputs.append(attrs.evolve(value, is_pruned=is_pruned))
    return attrs.evolve(plan, inputs=tuple(inputs))


def placeholder_for(p: Poly) -> Poly:
    """The polynomial that a captured function gets for an argument; a constant is itself."""
    if p.is_constant:
        return p
    node = p.node
    if node.op is ops.BUFFER:
        return from_node(placeholder(node.spec, claim_of(node.arg.array)))
    return from_node(placeholder(node.spec, PYTHON if p.device == PYTHON else None))


def _with_loops(
    function: Callable[[Any], Any],
    name: str,
    arguments: Structure,
    others: Sequence[Any],
    options: Options,
    donated: tuple[int, ...],
    target: Any,
) -> Captured:
    """The same of a function with loops of JAX; see `ren/capture/loops.py`."""
    polys = arguments.polys
    if any(isinstance(inner(value), SymbolicLength) for value in others):
        raise LengthNeeded  # JAX compares the types of carries, and a length is a part of one
    if options.tier == EAGER:
        raise JitError(
            f"{name} runs a loop of JAX under tier='eager'.",
            "The NumPy reference interprets polynomials; JAX compiles its loops.",
            "Take another tier, or write a loop of Python, which is unrolled.",
        )
    within = whole_at(divided_over(polys) if target is None else target)
    at = partial(array_at, target=within, auto=options.device is None)
    inputs = [placeholder_for(p) for p in polys]
    pairs = zip(inputs, polys, strict=True)
    # Of arguments and keys the places alone: the traced program may live as long as the plan.
    places = {id(i.node.arg): _bound_to(p.limbs) for i, p in pairs if not p.is_constant}
    held: dict[int, Any] = {}

    def place(source: Any) -> Any:
        if (key := key_input_of(source)) is not None:
            return _bound_to(at(key.sample))
        if isinstance(source, jax.Array):
            held[id(source)] = at(source)
            return _bound_to(held[id(source)])
        return places.get(id(source))

    structure = attrs.evolve(arguments, polys=inputs)
    made = record_loops(function, name, structure, others, options.prune, place)
    if options.show_graph:
        print(f"{name} captured:\n{made}")
    plan = _plan_of_loops(made)
    keys, args = keys_of(plan, at), []
    for given in made.inputs:
        source = given.source
        array = held[id(source)] if isinstance(source, jax.Array) else source
        args.append(given if isinstance(source, Symbolic) else array)
    sources = _sources(args, inputs, keys)
    return Captured(
        plan, sources, keys, made.outputs, made.result, _reader(made.result.others),
        LoopRunner(made, name), target, donated, (), plan, made,
    )  # fmt: skip


def _bound_to(array: Any) -> Any:
    """The sharding that an array is bound to; None for one that JAX may move."""
    return array.sharding if isinstance(array, jax.Array) and array.committed else None


def _plan_of_loops(made: LoopRecording) -> Plan:
    """Inputs and results of a traced program, as those of a plan without steps."""
    args = [given.source for given in made.inputs]
    nodes = [arg for arg in args if isinstance(arg, PlaceholderArg | ScalarArg)]
    specs = [Spec(a.ring, a.domain, getattr(a, "batch", ())) for a in nodes]
    inputs = tuple(Input(a, spec) for a, spec in zip(nodes, specs, strict=True))
    return Plan(inputs, made.specs, lambda: Schedule((), ()))


def _sources(
    args: Sequence[Any], inputs: list[Poly], keys: Sequence[Keys], on_host: bool = False
) -> tuple[Source, ...]:
    position: dict[Any, int] = {p.node.arg: i for i, p in enumerate(inputs)}
    position |= {key: i for i, key in enumerate(chain(*keys), len(inputs))}

    def source(arg: Any) -> Source:
        if isinstance(arg, BufferArg):
            return lambda arrays, values, held=arg.array: held
        if isinstance(arg, jax.Array):
            return lambda arrays, values: arg
        if isinstance(arg, TraceInput):
            return lambda arrays, values: number_of(arg, values)
        if isinstance(arg, ScalarArg):
            device = PYTHON if on_host else None
            return lambda arrays, values: placed(scalar_limbs(arg, values), device)
        arg = key_input_of(arg) or arg
        if isinstance(arg, PlaceholderArg) and arg.made is not None:
            return lambda arrays, values, made=arg.made: made(values)
        if arg not in position:  # of another capture, kept by a side effect
            raise realization.symbolic_value()
        return lambda arrays, values, i=position[arg]: arrays[i]

    return tuple(map(source, args))


def _reader(leaves: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """From the values of a call to the leaves of the result that are no polynomials."""
    found = [inner(leaf) for leaf in leaves]
    at = [i for i, value in enumerate(found) if isinstance(value, Symbolic)]
    known_of = evaluator([found[i] for i in at])
    wrappers = [type(leaves[i]) if type(leaves[i]) in WRAPPERS else None for i in at]
    copied = [i for i, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]

    def read(values: Sequence[Any]) -> list[Any]:
        made = list(leaves)
        for i in copied:  # nothing mutable is shared between results
            made[i] = leaves[i].copy()
        for i, wrapper, value in zip(at, wrappers, known_of(values), strict=True):
            made[i] = value if wrapper is None else wrapper(value)
        return made

    return read
