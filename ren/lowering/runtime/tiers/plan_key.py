"""Keys of plans, equal in every process: digests of what runs and how it is wired.

SHA-256 of a canonical print, without arrays, object identities or `hash()`. `plan_digest` adds what
else decides how fast a plan runs: versions, flags, machine.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Hashable, Iterator
from functools import lru_cache
from typing import Any

import jax
from jaxlib.version import __version__ as jaxlib_version

from ren.core.spec import BufferArg, PlaceholderArg, ScalarArg, Spec
from ren.core.version import __version__
from ren.lowering.backends.native import library
from ren.lowering.backends.native.backend import gains
from ren.lowering.backends.xla.jax_runtime import processor
from ren.lowering.devices.devices import PYTHON, claim_of
from ren.lowering.plan.plan import Plan
from ren.lowering.program.canonical import plain, program_line, table_line
from ren.lowering.program.graph import Program
from ren.lowering.program.instructions import Table
from ren.lowering.program.steps import CopyUnit, Input, Unit, ViewUnit


def plan_digest(plan: Plan, xla_flags: str = "") -> str:
    """The name, 64 hex digits, of a plan on this machine with these versions.

    SHA-256 of the `structure_digest`, of the native kernels that the plan calls, and of the
    `environment`. That has the flags that XLA was started with.
    """
    native = library.usable().name if any(map(gains, plan.programs)) else ""
    lines = (structure_digest(plan), environment(xla_flags), f"native {native}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@lru_cache(maxsize=16)
def environment(xla_flags: str = "") -> str:
    """Environment of a run besides its plan: versions, flags, processor and default device."""
    device = jax.devices()[0]
    lines = (
        f"ren {__version__} jax {jax.__version__} jaxlib {jaxlib_version}",
        f"flags {' '.join(sorted(xla_flags.split()))}",
        f"device {_kind(device)}",
        f"{platform.system()} {platform.machine()} {os.cpu_count()}",
        processor(),
    )
    return "\n".join(lines)


def structure_digest(plan: Plan) -> str:
    """SHA-256 of what a plan runs, in hex: the same in every process, whatever the arrays."""
    return hashlib.sha256("\n".join(canonical(plan)).encode()).hexdigest()


def canonical(plan: Plan) -> Iterator[str]:
    """The canonical print of a plan, line by line; each program and each table stands once."""
    return _Printer().plan(plan)


class _Printer:
    """Prints one plan; programs, tables and sets of devices are numbered as they come."""

    def __init__(self) -> None:
        self._programs: dict[Program, int] = {}
        self._tables: dict[Table, int] = {}
        self._device_sets: dict[Hashable, int] = {}

    def plan(self, plan: Plan) -> Iterator[str]:
        for source in plan.inputs:
            arg = source.arg
            claim = claim_of(arg.array) if isinstance(arg, BufferArg) else arg.device
            yield f"input {_role(source)} {_spec(source.spec)} {self._devices(claim)}"
        for unit in plan.units:
            yield from self._unit(unit)
        for value, spec in zip(plan.outputs, plan.output_specs, strict=True):
            yield f"output {value} {_spec(spec)}"

    def _unit(self, unit: Unit) -> Iterator[str]:
        if isinstance(unit, CopyUnit):
            yield f"copy {plain(unit.ins)} {self._target(unit.device)}"
            return
        if isinstance(unit, ViewUnit):
            yield f"view {plain(unit.ins)} {unit.start} {unit.length} {_spec(unit.spec)}"
            return
        program, tables = unit.kernel.program, unit.kernel.tables
        if program not in self._programs:
            yield program_line(program)
        for table in tables:
            if table not in self._tables:
                yield table_line(table)
                self._tables[table] = len(self._tables)
        which = self._programs.setdefault(program, len(self._programs))
        read = tuple(self._tables[t] for t in tables)
        yield f"run {which} {plain(read)} {plain(unit.ins)} {plain(unit.donate)}"

    def _target(self, device: Any) -> str:
        """Target of a copy; of a sharding also the division of the array."""
        if not isinstance(device, jax.sharding.Sharding):
            return self._devices(device if device == PYTHON else frozenset({device}))
        how = ""
        if isinstance(device, jax.sharding.NamedSharding):
            how = f" {dict(device.mesh.shape)} {device.spec}"
        return f"{self._devices(frozenset(device.device_set))} {type(device).__name__}{how}"

    def _devices(self, claim: Any) -> str:
        """A claim as the kinds of its devices: equal devices are not distinguished."""
        if claim is None or claim == PYTHON:
            return str(claim)
        kinds = ", ".join(sorted(map(_kind, claim)))
        return f"{self._device_sets.setdefault(claim, len(self._device_sets))} of {kinds}"


def _role(source: Input) -> str:
    if source.is_held:
        return "pruned" if source.is_pruned else "held"
    if isinstance(source.arg, ScalarArg):
        return "scalar"
    drawn = source.arg.how if isinstance(source.arg, PlaceholderArg) else ""
    return drawn or ("donated" if source.is_donated else "argument")


def _spec(spec: Spec) -> str:
    moduli = plain(spec.ring.moduli)
    return f"{spec.ring.n} {moduli} {spec.domain.value} {spec.dtype} {plain(spec.batch)}"


def _kind(device: Any) -> str:
    return f"{device.platform} {device.device_kind}"
