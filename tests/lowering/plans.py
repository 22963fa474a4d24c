"""Polynomials with random residues, and the plans of programs over them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import jax.numpy as jnp
import numpy as np

from ren import Domain, Poly, RingSpec
from ren.core import make
from ren.core import op as ops
from ren.lowering.plan.plan import KernelUnit, Plan, Schedule, Unit, with_schedule
from ren.lowering.runtime.planning import Planned, plan_of
from ren.lowering.runtime.runner import interpret_plan
from tests.rings import primes

RING = RingSpec(16, primes(16)[-4:])


def poly(seed: int = 0, ring: RingSpec = RING, domain: Domain = Domain.COEFF, batch=()) -> Poly:
    """Random residues on JAX's default device."""
    rng = np.random.default_rng(seed)
    limbs = [rng.integers(0, q, (*batch, 1, ring.n)) for q in ring.moduli]
    array = jnp.asarray(np.concatenate(limbs, axis=-2).astype(np.uint32))
    return Poly.from_limbs(array, ring, domain)


def plan(*polys: Poly) -> Plan:
    return plan_of(make(ops.SINK, [p.node for p in polys]))


def arrays(p: Plan) -> list:
    return [i.arg.array for i in p.inputs]


def without_donations(p: Plan) -> Plan:
    """The plan whose units give every result a new buffer."""
    units = (attrs.evolve(u, donate=()) if isinstance(u, KernelUnit) else u for u in p.units)
    return with_units(p, units)


def with_units(p: Plan, units: Iterable[Unit]) -> Plan:
    """The plan with other units."""
    made = Schedule(tuple(units), p.outputs)
    return with_schedule(p, lambda: made)


def interpret_planned(program: Planned, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a program by the NumPy reference."""
    return interpret_plan(program.plan, inputs)
