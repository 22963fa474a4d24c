"""Programs as text: what a function records, what each pass makes of it, what will run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, product
from string import ascii_lowercase
from typing import Any

import attrs
import jax
import numpy as np

from ren.capture.arguments import with_key_symbols
from ren.capture.capture import Recording, placeholder_for, record
from ren.capture.loops import LoopRecording, record_loops
from ren.capture.pytrees import take_apart
from ren.core import op as ops
from ren.core.errors import OperandError, kind_of
from ren.core.inference import has_domain
from ren.core.node import Node, placeholder, toposort
from ren.core.printer import Names, print_graph, shortened
from ren.core.rewrite import rewrite
from ren.core.ring import Domain, RingSpec
from ren.core.spec import ConstArg, PlaceholderArg
from ren.core.user_frame import user_line
from ren.lowering.passes.pipeline import PIPELINE, made_explicit
from ren.lowering.plan.plan import KernelUnit, Plan, Unit
from ren.lowering.program.steps import value_specs
from ren.lowering.runtime.native_calls import listing
from ren.lowering.runtime.planning import plan_from, source_of
from ren.poly import Poly
from ren.poly.checks import as_batch, check_domain, check_ring
from ren.poly.poly import from_array, stood_for
from ren.poly.realization import LoopNeeded
from ren.poly.symbolic import Aside, sampled


def spec(ring: RingSpec, domain: Domain = Domain.COEFF, batch: tuple[int, ...] = ()) -> Poly:
    """Stands for a polynomial in `xpr`, `stages` and `jax.eval_shape`: a type, and no array.

    It is what `jax.eval_shape` returns for polynomials: a `Poly` whose leaf is a
    `jax.ShapeDtypeStruct`.

    Args:
        ring, domain: those of the polynomial.
        batch: the lengths of its batch axes.

    Raises:
        RingError: `ring` is not a `RingSpec`.
        DomainError: another domain, or one that the ring lacks; a batch that no array has.

    Example:
        >>> import ren
        >>> x = ren.spec(ren.RingSpec(n=4, moduli=(17,)), batch=(3,))
        >>> ren.xpr(lambda x: x + x, x).splitlines()[0]
        '{ lambda ; a:R0[coeff batch=(3,)] . let'
    """
    check_ring(ring)
    check_domain(domain)
    lengths = as_batch(batch)
    has_domain(ring, domain)
    shape = (*lengths, ring.limbs, ring.n)
    return from_array(jax.ShapeDtypeStruct(shape, np.uint32), ring, domain)


def xpr(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The program of `function(*args, **kwargs)` in the manner of a jaxpr; nothing is computed.

    Args:
        function: takes and returns polynomials, as for `ren.jit`; a jitted function is looked into.
        args, kwargs: polynomials, realized or not, of which only ring, domain, batch shape and
            device matter. `ren.spec` and what `jax.eval_shape` returns stand for polynomials. With
            `ckks.spec` the program is at the least depth, as in `ckks.plan`. Anything else is
            passed on.

    Returns:
        `{ lambda closed-over ; arguments . let equations in (results) }`, then the rings. Of a
        function with loops of JAX the loops in order, with the graph of each program in them.

    Raises:
        OperandError: `function` is not a function.
        JitError: no polynomial among the results.

    Example:
        >>> import ren
        >>> x = ren.Poly([1, 2], ren.RingSpec(n=4, moduli=(17,)))
        >>> print(ren.xpr(lambda x: x * x - 1, x))
        { lambda ; a:R0[coeff] . let
            b:R0[ntt] = MUL a a
            c:R0[ntt] = SUB b 1
          in (c,) }
        R0: n=4, 1 limb, moduli=(17)
    """
    made = _recorded(function, args, kwargs)
    if isinstance(made, LoopRecording):
        return str(made)
    sink, stand_ins = _with_stand_ins(made)
    order = toposort(sink)[:-1]
    names = Names(order)
    letters = _letters()
    asked = [p.node for p in made.inputs if not p.is_constant]
    outside = [n for n in order if n.op is ops.BUFFER or n in stand_ins]
    called = {node: next(letters) for node in (*outside, *asked)}
    typed = [f"{called[node]}:{_type(node, names)}" for node in (*outside, *asked)]
    equations = [n for n in order if n.op is not ops.CONST and n not in called]
    lines = [_equation(n, called, letters, names) for n in equations]
    by_root = dict(zip(made.roots, sink.src, strict=True))
    results = [_result(by_root.get(p.node, p.node), called, names) for p in made.result.polys]
    head = " ".join(["{ lambda", *typed[: len(outside)], ";", *typed[len(outside) :], ". let"])
    tail = f"  in ({', '.join(results)}{',' * (len(results) == 1)}) }}"
    return "\n".join([head, *(f"    {line}" for line in lines), tail, *names.rings()])


def stages(function: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, str]:
    """The program of `function(*args, **kwargs)` after every pass, as text; nothing is computed.

    Args:
        function, args, kwargs: as for `xpr`.

    Returns:
        "capture", then the name of each pass of the pipeline in order, to the graph after it. Then
        "kernels": the units of the plan, and what each distinct kernel computes. Then "explicit",
        the graph that native code is lowered from, and the steps to one native call:
        "limb_program", "phases", "bytecode". Where there is none, "native" says why. Of a function
        with loops of JAX "capture", as `xpr` prints it, and "jaxpr", the program that XLA compiles.

    Raises:
        JitError: no polynomial among the results.
        DeviceError: operands on two devices.
    """
    made = _recorded(function, args, kwargs)
    if isinstance(made, LoopRecording):
        return {"capture": str(made), "jaxpr": str(made.traced.jaxpr)}
    sink, _ = _with_stand_ins(made)
    source, shown = source_of(sink), {"capture": print_graph(sink)}
    plan = plan_from(source)
    for step in PIPELINE:
        sink = step.run(sink)
        shown[step.name] = print_graph(sink)
    explicit = print_graph(made_explicit(source.sink))
    return {**shown, "kernels": _listing(plan), "explicit": explicit, **listing(source)}


def _recorded(function: Callable[..., Any], args: Any, kwargs: Any) -> Recording | LoopRecording:
    if not callable(function):
        raise OperandError(
            f"{user_line()} asks for the program of {kind_of(function)}.",
            "It is that of a function, called with the arguments that follow it.",
            "Write ren.xpr(f, p), not ren.xpr(f(p)).",
        )
    name = getattr(function, "__qualname__", repr(function))
    is_leaf = lambda value: not isinstance(value, tuple | list | dict)  # noqa: E731
    for leaf in jax.tree.leaves((args, kwargs), is_leaf=is_leaf):
        if hasattr(leaf, "__ren_recorded__"):
            return leaf.__ren_recorded__(function, args, kwargs)
    arguments = take_apart((args, kwargs))
    arguments = attrs.evolve(arguments, polys=[stood_for(p) for p in arguments.polys])
    others = with_key_symbols(arguments.others, [""] * len(arguments.others))
    others = [stood_for_shape(other) for other in others]
    call = lambda given: function(*given[0], **given[1])  # noqa: E731
    try:
        return record(call, name, arguments, others)
    except LoopNeeded:
        pass
    arguments = attrs.evolve(arguments, polys=[placeholder_for(p) for p in arguments.polys])
    return record_loops(call, name, arguments, others)


def stood_for_shape(other: Any) -> Any:
    """A leaf that is not a polynomial, or what stands for a shape: a symbol, or unknown noise."""
    if isinstance(other, jax.ShapeDtypeStruct):
        return sampled(np.ones(other.shape, other.dtype), "a shape")
    if isinstance(other, Aside) and isinstance(shape := other.value, jax.ShapeDtypeStruct):
        return Aside(np.full(shape.shape, np.nan, shape.dtype))
    return other


def _with_stand_ins(made: Recording) -> tuple[Node, set[Node]]:
    """The program with placeholders for what capture computes: lazy polynomials closed over."""
    stand_ins = {node: placeholder(node.spec) for node in made.closed_over}
    return rewrite(made.sink, {}, stand_ins), set(stand_ins.values())


# -------------------------------------------------------------------------------------- equations


def _letters() -> Iterator[str]:
    """a, b, ..., z, aa, ab, ..."""
    for length in count(1):
        yield from map("".join, product(ascii_lowercase, repeat=length))


def _equation(node: Node, called: dict[Node, str], letters: Iterator[str], names: Names) -> str:
    called[node] = next(letters)
    if isinstance(node.arg, PlaceholderArg):  # no argument, but made at every replay
        right = node.arg.how + f"[{node.arg.label}]" * bool(node.arg.label)
    else:
        argument = " ".join(names.argument(node.arg))
        op = f"{node.op.name}[{argument}]" if argument else node.op.name
        right = " ".join([op, *(_operand(s, called) for s in node.src)])
    return f"{called[node]}:{_type(node, names)} = {right}"


def _operand(node: Node, called: dict[Node, str]) -> str:
    return shortened(node.arg.value) if isinstance(node.arg, ConstArg) else called[node]


def _result(node: Node, called: dict[Node, str], names: Names) -> str:
    typed = f":{_type(node, names)}" if node.op is ops.CONST else ""
    return _operand(node, called) + typed


def _type(node: Node, names: Names) -> str:
    ring, _, rest = names.type_of(node).partition(" ")
    return f"{ring}[{rest}]"


# ---------------------------------------------------------------------------------------- kernels


def _listing(plan: Plan) -> str:
    """Inputs, units and results by value, then each distinct kernel body, then the rings."""
    specs = value_specs(plan.inputs, plan.units)
    rings = Names([])
    kernels: dict[Node, str] = {}
    programs: dict[Any, int] = {}
    lines = [f"%{i} = INPUT : {rings.type(given.spec)}" for i, given in enumerate(plan.inputs)]
    lines += [_unit_line(unit, kernels, rings, specs) for unit in plan.units]
    lines.append(" ".join(["results:", *(f"%{v}" for v in plan.outputs)]))
    for unit in plan.units:
        if isinstance(unit, KernelUnit) and unit.kernel.body in kernels:
            name = kernels.pop(unit.kernel.body)
            program = programs.setdefault(unit.kernel.program, len(programs))
            lines.append(f"{name}: {unit.name}, executable {program}")
            body = [node for node in toposort(unit.kernel.body) if node.op is not ops.SINK]
            names = Names(body, share_rings_with=rings)
            lines += [f"    {names.line(node)}" for node in body]
    return "\n".join([*lines, *rings.rings()])


def _unit_line(unit: Unit, kernels: dict[Node, str], rings: Names, specs: Any) -> str:
    what = unit.name
    if isinstance(unit, KernelUnit):
        what = kernels.setdefault(unit.kernel.body, f"K{len(kernels)}")
    made = ", ".join(f"%{v}" for v in unit.outs)
    types = ", ".join(rings.type(specs[v]) for v in unit.outs)
    return f"{made} = {' '.join([what, *(f'%{v}' for v in unit.ins)])} : {types}"
