"""Capture: a function of polynomials, run once on placeholders, becomes a plan that replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import attrs
import numpy as np

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
from ren.core.errors import JitError, TracedValueError
from ren.core.listed import Listed
from ren.core.node import Node, make, placeholder, toposort
from ren.core.op import Kind
from ren.core.rewrite import rewrite
from ren.core.ring import is_subset
from ren.core.spec import BufferArg, PlaceholderArg, ScalarArg
from ren.lowering.backends.xla.jax_runtime import check_inputs
from ren.lowering.devices.devices import PYTHON, claim_of
from ren.lowering.devices.donation import mark, may_donate
from ren.lowering.inspect.explain import explain
from ren.lowering.inspect.markup import dot, mermaid
from ren.lowering.inspect.memory_plot import plot_memory
from ren.lowering.inspect.memory_report import MemoryReport, memory_of
from ren.lowering.inspect.plan_diagram import plan_card, plan_diagram
from ren.lowering.plan.cost import Cost, cost_of
from ren.lowering.plan.memory import donating
from ren.lowering.plan.plan import Plan
from ren.lowering.runtime.host_arrays import placed
from ren.lowering.runtime.planning import plan_of
from ren.lowering.runtime.runner import run_plan
from ren.lowering.runtime.tiers.plan_key import plan_digest
from ren.lowering.runtime.tiers.tiers import AUTO, runner
from ren.lowering.runtime.trace import Trace
from ren.lowering.storage.profile_store import default_store
from ren.lowering.storage.telemetry import Runner, Telemetry
from ren.poly import Poly, realization
from ren.poly.key_ids import KeyId, Keys, all_missing_keys, key_input_of, keys_of
from ren.poly.poly import arrays_of, from_array, from_node
from ren.poly.symbolic import Aside, Length, Symbolic, evaluator
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


@attrs.frozen(eq=False, repr=False)
class Captured(metaclass=Listed):
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
    """

    __internal__ = (
        "sources", "keys", "outputs", "result", "others", "run", "target", "donated",
        "donated_inputs", "plain", "replay",
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

    def replay(self, polys: Sequence[Poly], values: Sequence[Any]) -> Any:
        """The function's result on the realized polynomials and the other leaves of a call.

        Raises:
            Unfit: the program was captured for other values.
            DonatedBufferError: a buffer was given away before.
        """
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
        specs = self.plan.output_specs
        results = (
            o if isinstance(o, Poly) else from_array(made[o], specs[o].ring, specs[o].domain)
            for o in self.outputs
        )
        return self.result.rebuild(results, iter(others))

    @property
    def cost(self) -> Cost:
        """Kernels, limb-NTTs, multiply-adds and bytes of one replay."""
        return cost_of(self.plan)

    @property
    def memory(self) -> MemoryReport:
        """Planned memory of one replay, in bytes."""
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
        return explain(self.plan, trace)

    def plot_memory(self, ax: Any = None) -> Any:
        """Draws the buffers that are live while each unit runs, stacked up to the planned peak.

        Args:
            ax: matplotlib Axes to draw on; None makes a figure.

        Returns:
            The Axes; nothing is shown or saved.

        Raises:
            MissingPackageError: matplotlib is not installed.
        """
        return plot_memory(self.plan, ax)

    def to_mermaid(self) -> str:
        """The units as a Mermaid flowchart, the values between them as arrows with their bytes."""
        return mermaid(plan_diagram(self.plan))

    def to_dot(self) -> str:
        """The same in the DOT language of Graphviz."""
        return dot(plan_diagram(self.plan))

    def _repr_html_(self) -> str:
        return plan_card(self.plan)

    def __repr__(self) -> str:
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
    inputs = [_placeholder_for(p) for p in arguments.polys]
    with realization.capturing():
        with all_missing_keys():
            result = take_apart(function(arguments.rebuild(iter(inputs), iter(others))))
        if not result.polys:
            raise JitError(
                f"The captured function {name} returned no polynomial.",
                "What is captured is the program of the polynomials returned.",
                "Return a Poly or something that holds one; call it without ren.jit otherwise.",
            )
        roots = list(dict.fromkeys(p.node for p in result.polys if not p.is_constant))
        sink = realization.resolved(make(ops.SINK, roots))
        once = _independent(sink, prune)
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
    made = record(function, name, arguments, others, options.prune)
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
    sources, others_of = _sources(plan, made.inputs, keys), _reader(result.others)
    return Captured(
        plan, sources, keys, outputs, result, others_of, run, target, donated, given, plain
    )


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


def _placeholder_for(p: Poly) -> Poly:
    if p.is_constant:
        return p
    node = p.node
    if node.op is ops.BUFFER:
        return from_node(placeholder(node.spec, claim_of(node.arg.array)))
    return from_node(placeholder(node.spec, PYTHON if p.device == PYTHON else None))


def _sources(plan: Plan, inputs: list[Poly], keys: Sequence[Keys]) -> tuple[Source, ...]:
    position: dict[Any, int] = {p.node.arg: i for i, p in enumerate(inputs)}
    position |= {key: i for i, key in enumerate(chain(*keys), len(inputs))}
    on_host = any(not isinstance(i.arg, BufferArg) and i.arg.device == PYTHON for i in plan.inputs)

    def source(arg: Any) -> Source:
        if isinstance(arg, BufferArg):
            return lambda arrays, values, held=arg.array: held
        if isinstance(arg, ScalarArg):
            device = PYTHON if on_host else None
            return lambda arrays, values: placed(_scalar_limbs(arg, values), device)
        arg = key_input_of(arg) or arg
        if isinstance(arg, PlaceholderArg) and arg.made is not None:
            return lambda arrays, values, made=arg.made: made(values)
        if arg not in position:  # of another capture, kept by a side effect
            raise realization.symbolic_value()
        return lambda arrays, values, i=position[arg]: arrays[i]

    return tuple(source(i.arg) for i in plan.inputs)


def _scalar_limbs(arg: ScalarArg, values: Sequence[Any]) -> np.ndarray:
    """A constant as Montgomery residues `uint32[limb, 1]`."""
    value = arg.value(values)
    return np.array([[(value << 32) % m] for m in arg.ring.moduli], np.uint32)


_WRAPPERS = (Length, Aside, KeyId)


def _reader(leaves: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """From the values of a call to the leaves of the result that are no polynomials."""
    inner = [_inner(leaf) for leaf in leaves]
    at = [i for i, value in enumerate(inner) if isinstance(value, Symbolic)]
    known_of = evaluator([inner[i] for i in at])
    wrappers = [type(leaves[i]) if type(leaves[i]) in _WRAPPERS else None for i in at]
    copied = [i for i, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]

    def read(values: Sequence[Any]) -> list[Any]:
        made = list(leaves)
        for i in copied:  # nothing mutable is shared between results
            made[i] = leaves[i].copy()
        for i, wrapper, value in zip(at, wrappers, known_of(values), strict=True):
            made[i] = value if wrapper is None else wrapper(value)
        return made

    return read


def _inner(leaf: Any) -> Any:
    if isinstance(leaf, Length):
        return leaf.count
    if isinstance(leaf, KeyId):
        return leaf.known
    return leaf.value if isinstance(leaf, Aside) else leaf


def _independent(sink: Node, prune: bool) -> list[Node]:
    """The outermost lazy nodes under `sink` that depend on no argument.

    Without `prune` only those made before the current capture. Views of arrays are left in the
    program: they cost nothing there, and an array of their own would.
    """
    depends: dict[Node, bool] = {}
    found: list[Node] = []
    for node in toposort(sink):
        here = node.op in (ops.PLACEHOLDER, ops.SCALAR, ops.SINK)
        here |= not prune and node.serial > realization.capture_serial()
        depends[node] = here or any(depends[s] for s in node.src)
        if depends[node]:
            found += (_behind_views(s) for s in node.src if not depends[s])
    computed = (node for node in found if node.op.kind not in (Kind.LEAF, Kind.CONSTANT))
    return [node for node in dict.fromkeys(computed) if realization.reads_array(node)]


def _behind_views(node: Node) -> Node:
    while node.op is ops.BOUNDED or (
        node.op is ops.TO_RING and is_subset(node.arg.ring.moduli, node.src[0].spec.ring.moduli)
    ):
        node = node.src[0]
    return node
