"""Runs plans: each unit in order, values dropped after their last use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs
import jax
import numpy as np
from jax.profiler import TraceAnnotation

from ren.core.node import Node, toposort
from ren.lowering.backends import emit
from ren.lowering.backends.emit import Prepared
from ren.lowering.backends.reference import interpret as reference
from ren.lowering.backends.xla import jax_runtime as runtime
from ren.lowering.devices.devices import (
    PYTHON,
    check_devices,
    claim_of,
    is_host,
    is_tracer,
    resolve_device,
)
from ren.lowering.devices.donation import check_all, check_not_donated, has_host_marks
from ren.lowering.devices.shardings import default_device, mesh_in_use
from ren.lowering.devices.tracing import concretely, is_tracing
from ren.lowering.passes.pipeline import run_pipeline
from ren.lowering.plan.lifetimes import values_of
from ren.lowering.plan.memory import with_donations
from ren.lowering.plan.plan import Plan
from ren.lowering.plan.schedule import schedule
from ren.lowering.program.graph import Graph, Slice
from ren.lowering.program.steps import CopyUnit, KernelUnit, Unit, ViewUnit, with_last_uses
from ren.lowering.runtime.prepared import Bindings
from ren.lowering.runtime.trace import active_trace
from ren.lowering.runtime.xla_streams import lanes_for
from ren.progress import Progress


def plan_of(sink: Node) -> Plan:
    """The plan of a SINK: devices checked, passes run, kernels scheduled, donations chosen.

    Raises:
        DeviceError: operands on two devices.
    """
    claims = check_devices(toposort(sink))
    plan = schedule(run_pipeline(sink))
    return with_donations(_at_home(plan, [claims[root] for root in sink.src]))


def _at_home(plan: Plan, claims: Sequence[Any]) -> Plan:
    """The plan with its outputs where their programs are.

    What a pass folded to a constant reads nothing any more, and so would be on JAX's own device.
    """
    values, units, outputs = values_of(plan), list(plan.units), list(plan.outputs)
    count = len(values)
    for i, claim in enumerate(claims):
        if values[outputs[i]].device is not None or claim is None:
            continue
        if claim == PYTHON or len(claim) == 1:
            device = claim if claim == PYTHON else next(iter(claim))
            units.append(CopyUnit(device, (outputs[i],), (count,)))
            outputs[i], count = count, count + 1
    if count == len(values):
        return plan
    units = with_last_uses(units, tuple(outputs))
    return attrs.evolve(plan, units=units, outputs=tuple(outputs))


def run_plan(plan: Plan, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The arrays of the plan's roots.

    Args:
        plan: what to run.
        inputs: an array `uint32[*batch, limb, n]` for each of `plan.inputs`, in order.

    Raises:
        DonatedBufferError: an input was given away before, or is now, by another thread.
    """
    if has_host_marks():
        check_all(filter(is_host, inputs))
    try:
        return _run_units(plan, inputs, _run_unit)
    except (RuntimeError, ValueError):  # JAX raises the one on dispatch, XLA the other
        _check_donations(plan, inputs)
        raise


def _check_donations(plan: Plan, inputs: Sequence[Any]) -> None:
    """Raises DonatedBufferError where an input, not donated in this call, was given away."""
    for given, array in zip(plan.inputs, inputs, strict=True):
        if not given.is_donated:
            check_not_donated(array)


class UnitRunner:
    """Callable form of `run_plan`: a function of the plan's inputs that caches its bindings."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        held = [i for i, source in enumerate(plan.inputs) if source.is_held]
        lanes = partial(lanes_for, plan)
        self._bindings = Bindings(plan.units, prepared_unit, held, plan.outputs, lanes)

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The arrays of the plan's roots.

        Args:
            inputs: an array `uint32[*batch, limb, n]` for each of the plan's, in order.
        """
        if active_trace() is None and not is_tracing():
            try:
                made = self._bindings(inputs)
            except (RuntimeError, ValueError):  # as in run_plan
                _check_donations(self._plan, inputs)
                raise
            if made is not None:
                return made
        return run_plan(self._plan, inputs)


def interpret_plan(plan: Plan, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Run a plan by the NumPy reference; results are put where `run_plan` would put them.

    Args:
        plan, inputs: as of `run_plan`; the arrays are concrete.

    Raises:
        DonatedBufferError: an input was given away before.
    """
    check_all(inputs)
    made = _run_units(plan, [np.asarray(a) for a in inputs], _interpret_unit)
    values = values_of(plan)
    return tuple(
        _returned(a, values[v].device, inputs) for a, v in zip(made, plan.outputs, strict=True)
    )


def _run_units(
    plan: Plan, inputs: Sequence[Any], run: Callable[[Unit, tuple[Any, ...], bool], Sequence[Any]]
) -> tuple[Any, ...]:
    values: list[Any] = list(inputs)
    # Under a JAX trace nothing runs yet: nothing may be overwritten, and there is nothing to time.
    is_concrete = not (is_tracing() or any(map(is_tracer, inputs)))
    trace = active_trace() if is_concrete else None
    with Progress(len(plan.units), "compiling and running kernels") as progress:
        for unit in plan.units:
            args = tuple(values[i] for i in unit.ins)
            with TraceAnnotation(unit.name):
                if trace is None:
                    results = run(unit, args, is_concrete)
                else:
                    results = trace.timed(unit, args, partial(run, unit, args, is_concrete))
            values.extend(results)
            for i in unit.drops:
                values[i] = None
            progress.step()
    return tuple(values[i] for i in plan.outputs)


def _run_unit(unit: Unit, args: tuple[Any, ...], is_concrete: bool) -> Sequence[Any]:
    if is_concrete:
        step = prepared_unit(unit, args)
        return step.results(args)
    if isinstance(unit, CopyUnit):
        return (copy(args[0], unit.device),)
    if isinstance(unit, ViewUnit):
        return (_view(unit, args[0]),)
    return emit.run(unit.kernel, args)


def prepared_unit(unit: Unit, args: tuple[Any, ...]) -> Prepared:
    """A unit made ready for concrete arrays like `args`."""
    alone = (0,)
    if isinstance(unit, CopyUnit):
        return Prepared(lambda arrays: (copy(arrays[0], unit.device),), alone, alone)
    if args and all(map(is_host, args)):
        if isinstance(unit, ViewUnit):
            return Prepared(lambda arrays: (_view(unit, arrays[0]),), alone, alone)
        return _unordered(unit, lambda arrays: _interpret(unit, tuple(arrays)))
    if isinstance(unit, ViewUnit):
        graph = Graph(1, (Slice(unit.start, unit.length, 0),), (1,))
        call = emit.prepared_graph(graph, (), args) or partial(emit.run_graph, graph, ())
        return Prepared(call, alone, alone)
    found = emit.prepared(unit.kernel, args, unit.donate)
    if found is not None:
        return found
    return _unordered(unit, lambda arrays: emit.run(unit.kernel, tuple(arrays), unit.donate))


def _unordered(unit: KernelUnit, call: emit.Call) -> Prepared:
    return Prepared(call, tuple(range(len(unit.ins))), tuple(range(len(unit.outs))))


def _view(unit: ViewUnit, array: Any) -> Any:
    return array[..., unit.start : unit.start + unit.length, :]


def _interpret(unit: KernelUnit, args: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return tuple(np.ascontiguousarray(a) for a in reference.interpret(unit.kernel, args))


def _interpret_unit(unit: Unit, args: tuple[Any, ...], is_concrete: bool) -> tuple[Any, ...]:
    """Interpret a unit with NumPy; device copies are no-ops."""
    if isinstance(unit, KernelUnit):
        return _interpret(unit, args)
    return args if isinstance(unit, CopyUnit) else (_view(unit, args[0]),)


def _returned(array: np.ndarray, claim: Any, inputs: Sequence[Any]) -> Any:
    """A host array where a value with this claim is: on the device of the inputs that have it."""
    if claim == PYTHON:
        return array
    if claim is None:
        return jax.device_put(array)
    alike = (a for a in inputs if claim_of(a) == claim and a.ndim == array.ndim)
    place = next((a.sharding for a in alike), None)
    return jax.device_put(array, place or _over(claim))


def _over(claim: frozenset[Any]) -> Any:
    """The one device of a claim, or a sharding with the whole array on each of its devices."""
    if len(claim) == 1:
        return next(iter(claim))
    mesh = jax.sharding.Mesh(np.array(sorted(claim, key=lambda d: d.id)), ("devices",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


def copy(array: Any, device: Any) -> Any:
    """`array` on another device: a NumPy array for "python", else a JAX array."""
    if device == PYTHON:
        return np.asarray(array)
    return jax.device_put(array, device)


def placed(array: np.ndarray, device: Any = None) -> Any:
    """A host array on a device, concretely, also while JAX is tracing; None is JAX's default."""
    target = None if device is None else resolve_device(device)
    if target == PYTHON:
        return array
    with concretely():
        usual = default_device() if target is None and mesh_in_use().empty else None
        if usual is not None and type(array) is np.ndarray and array.dtype == np.uint32:
            return runtime.put(array, usual)
        return jax.device_put(array, target)
