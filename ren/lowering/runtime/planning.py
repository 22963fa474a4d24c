"""Plans of programs, and arrays on devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import jax
import numpy as np

from ren.core.node import Node, toposort
from ren.core.op import Kind
from ren.lowering.backends.xla import jax_runtime as runtime
from ren.lowering.devices.devices import PYTHON, check_devices, resolve_device
from ren.lowering.devices.shardings import default_device, mesh_in_use
from ren.lowering.devices.tracing import concretely
from ren.lowering.passes.pipeline import run_algebra, run_kernel_passes
from ren.lowering.plan.lifetimes import values_of
from ren.lowering.plan.memory import with_donations
from ren.lowering.plan.plan import Plan, Source
from ren.lowering.plan.schedule import schedule
from ren.lowering.program.steps import CopyUnit, Input, with_last_uses


def source_of(sink: Node) -> Source:
    """The program of a SINK after the passes of algebra, its devices checked.

    Raises:
        DeviceError: operands on two devices.
    """
    claims = check_devices(toposort(sink))
    after = run_algebra(sink)
    leaves = tuple(node for node in toposort(after) if node.op.kind is Kind.LEAF)
    inputs = tuple(Input(leaf.arg, leaf.spec) for leaf in leaves)
    return Source(after, leaves, inputs, tuple(claims[root] for root in sink.src))


def plan_from(source: Source) -> Plan:
    """The plan of a program: divided into kernels, scheduled, donations chosen."""
    plan = schedule(run_kernel_passes(source.sink), source.leaves)
    return attrs.evolve(with_donations(_at_home(plan, source.claims)), source=source)


def plan_of(sink: Node) -> Plan:
    """The plan of a SINK; raises DeviceError for operands on two devices."""
    return plan_from(source_of(sink))


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
