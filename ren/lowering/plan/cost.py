"""Cost of a plan, counted from its kernels, and models of the time that it takes.

The models compare programs; they are not promises. They are of two cores with AVX-512, unit by unit
and as native calls. They take counts alone. `python -m ren` measures how much longer native calls
take on this machine, and keeps that in the cache folder. Estimates of native calls count it.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import attrs

from ren.core import html
from ren.core import op as ops
from ren.core.node import Node, toposort
from ren.core.op import Kind
from ren.core.spec import Spec, Work
from ren.core.text_table import columns, size
from ren.lowering.backends.xla.jax_runtime import processor
from ren.lowering.devices.devices import threads
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import KernelUnit, Unit, ViewUnit, nbytes, read_slots, value_specs
from ren.lowering.storage.executable_store import store
from ren.lowering.storage.profile_store import cache_folder

_WORKING = (Kind.ELEMENTWISE, Kind.TRANSFORM)

# Two Zen 4 cores under XLA:CPU transformed 16 limbs of n = 2^14 in 1.0 ms. They streamed about 16
# GB/s through elementwise kernels, whose operands are too large for their caches.
SECONDS_PER_UNIT = 10e-6
SECONDS_PER_BUTTERFLY = 0.55e-9
SECONDS_PER_MULTIPLY_ADD = 0.3e-9
BYTES_PER_SECOND = 16e9

# Native code on two cores: a call with the waits between its phases. Transforms and sums of
# products on rows in the cache. Bytes that no core's own cache holds. docs/performance.md has the
# measurements.
NATIVE_SECONDS_PER_CALL = 0.15e-3
NATIVE_SECONDS_PER_BUTTERFLY = 0.095e-9
NATIVE_SECONDS_PER_MULTIPLY_ADD = 0.055e-9
NATIVE_BYTES_PER_SECOND = 24e9
_CALIBRATION = "calibration"  # the folder in the cache
_MOST = 1000.0  # times as long as on the machine of the model, or as short


@attrs.frozen
class Rates:
    """Rates of native calls, as many times slower than the model's.

    Attributes:
        factor: time here over time by the model.
        machine: for which machine they are, as estimates say it.
    """

    factor: float = 1.0
    machine: str = "on two cores with AVX-512 (python -m ren calibrates)"

    def seconds(
        self, butterflies: float, multiply_adds: float, moved: float, calls: int = 0
    ) -> float:
        """The time of so many butterflies, multiply-adds, bytes from or to memory, and calls."""
        return self.factor * (
            calls * NATIVE_SECONDS_PER_CALL
            + butterflies * NATIVE_SECONDS_PER_BUTTERFLY
            + multiply_adds * NATIVE_SECONDS_PER_MULTIPLY_ADD
            + moved / NATIVE_BYTES_PER_SECOND
        )


MODEL = Rates()


def rates() -> Rates:
    """The rates of this machine where it is calibrated, else `MODEL`."""
    folder = cache_folder()
    return MODEL if folder is None else rates_of(folder)


def keep_rates(factor: float) -> None:
    """Keep the factor of this machine in the cache folder, for this process and later ones."""
    if (kept := store(_CALIBRATION)) is not None:
        kept.write(machine_name(), repr(factor).encode())
    rates_of.cache_clear()


@lru_cache(maxsize=8)
def rates_of(folder: Path) -> Rates:
    """The rates in a folder; a damaged entry is ignored, and costs one warning of the log."""
    kept = store(_CALIBRATION)
    body = None if kept is None else kept.read(machine_name())
    if kept is None or body is None:
        return MODEL
    try:
        factor = float(body)
    except ValueError:
        factor = 0.0
    if 1 / _MOST <= factor <= _MOST:
        return Rates(factor, "on this machine")
    kept.warn(f"its calibration is ignored: it is {body[:40]!r}")
    return MODEL


def machine_name() -> str:
    """The name of this machine's entry, by its processors: machines may share a folder."""
    return hashlib.sha256(f"{threads()}\n{processor()}".encode()).hexdigest()


@attrs.frozen
class Cost:
    """Counts of a unit or a plan; `a + b` is the cost of running both.

    Attributes:
        kernels: how many kernels are launched; copies are none.
        limb_ntts: transforms, forward and inverse, of one limb each.
        multiply_adds: modular products outside of transforms, with the sum that takes each.
        bytes_read: of the inputs of kernels and copies; of a value read through views alone, the
            limbs that they show. Twiddles and other tables are not counted.
        bytes_written: of what kernels store and copies make.
    """

    kernels: int = 0
    limb_ntts: int = 0
    multiply_adds: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def __add__(self, other: Cost) -> Cost:
        pairs = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return Cost(*(a + b for a, b in pairs))

    def _rows(self) -> list[tuple[str, str]]:
        return [
            ("kernels", f"{self.kernels:,}"),
            ("limb-NTTs", f"{self.limb_ntts:,}"),
            ("multiply-adds", f"{self.multiply_adds:,}"),
            ("bytes read", size(self.bytes_read)),
            ("bytes written", size(self.bytes_written)),
        ]

    def __str__(self) -> str:
        return columns(self._rows())

    def _repr_html_(self) -> str:
        return html.card("Cost of one run", html.facts(self._rows()))


def cost_of(plan: Plan) -> Cost:
    """The cost of one run of a plan: the sum of its units."""
    return sum((cost for cost, _ in unit_costs(plan)), Cost())


def unit_costs(plan: Plan) -> list[tuple[Cost, int]]:
    """The cost of each unit of a plan, with the degree of its ring."""
    specs = value_specs(plan.inputs, plan.units)
    return [(unit_cost(unit, specs), specs[unit.outs[0]].ring.n) for unit in plan.units]


def unit_cost(unit: Unit, specs: Sequence[Spec]) -> Cost:
    """The cost of one unit; `specs` are the types of the plan's values."""
    written = sum(nbytes(specs[v]) for v in unit.outs)
    if not isinstance(unit, KernelUnit):  # reading a view slices it once
        return Cost(bytes_read=written, bytes_written=written)
    works = [node.work for node in unit.kernel.nodes if node.op.kind in _WORKING]
    ntts, adds = sum(w.limb_ntts for w in works), sum(w.multiply_adds for w in works)
    parts = _parts_read(unit)
    read = sum(
        _limb_bytes(s.spec) * len(limbs) * parts.get(s, 1) for s, limbs in _limbs_read(unit).items()
    )
    return Cost(1, ntts, adds, int(read), written)


def _parts_read(unit: KernelUnit) -> dict[Node, Fraction]:
    """For each SLOT with factors of MACs, the part of the factors that these take."""
    indices: dict[Node, set[int]] = {}
    for node in unit.kernel.nodes:
        if node.op is ops.MAC and node.src[0].op is ops.LOAD:
            indices.setdefault(node.src[0].src[0], set()).update(node.arg.indices)
    return {slot: Fraction(len(found), slot.spec.batch[0]) for slot, found in indices.items()}


def _limbs_read(unit: KernelUnit) -> dict[Node, set[int]]:
    """The limbs that a kernel reads of each of its SLOTs."""
    order = unit.kernel.nodes
    limbs: dict[Node, set[int]] = {slot: set() for slot in read_slots(order)}
    for node in order:
        if node.op is ops.LOAD:
            limbs[node.src[0]].update(node.src[1].arg.limbs)
    return limbs


def estimated_seconds(cost: Cost, n: int) -> float:
    """The time that the model gives one unit: launch, transforms, and the slower of the rest.

    n/2 log2(n) butterflies a limb-NTT; multiply-adds overlap with the bytes that they wait for.
    """
    moved = (cost.bytes_read + cost.bytes_written) / BYTES_PER_SECOND
    rest = max(moved, cost.multiply_adds * SECONDS_PER_MULTIPLY_ADD)
    return SECONDS_PER_UNIT + _butterflies(cost.limb_ntts, n) * SECONDS_PER_BUTTERFLY + rest


def graph_work(sink: Node) -> Work:
    """The work of a graph after the passes of algebra, and of the units that it becomes."""
    return sum((node.work for node in toposort(sink)[:-1] if node.op.kind in _WORKING), Work())


def graph_seconds(sink: Node) -> float:
    """The time that the model gives a graph after the passes of algebra as one native call.

    It is that of `native_seconds`, without the units that the graph would be divided into.
    """
    order = toposort(sink)[:-1]
    whole = {node for node in order if node.op.kind is Kind.LEAF}
    viewed: dict[Node, set[int]] = {}
    butterflies, adds, moved = 0, 0, 2 * sum(nbytes(r.spec) for r in set(sink.src))
    for node in order:
        if node.op is ops.VIEW:
            viewed.setdefault(node.src[0], set()).update(node.spec.ring.moduli)
        elif node.op.kind in _WORKING:
            butterflies += _butterflies(node.work.limb_ntts, node.spec.ring.n)
            adds += node.work.multiply_adds
    for node in order:
        if node.op in (ops.CONVERT, ops.LIFT):
            moved += 2 * (nbytes(node.src[0].spec) + nbytes(node.spec))
        if node.op is not ops.VIEW:
            for s in node.src:
                viewed.pop(s, None)
    for leaf in whole:
        read = viewed.get(leaf)
        moved += nbytes(leaf.spec) if read is None else _limb_bytes(leaf.spec) * len(read)
    return rates().seconds(butterflies, adds, moved, calls=1)


def native_seconds(plan: Plan, calls: int = 1, by: Rates | None = None) -> float:
    """The time that the model gives one run of a plan as so many native calls through XLA.

    The steps of a limb stay in the cache of a core. The limbs of inputs that are read, such as
    keys, come from memory, once each. To memory go the results. So do the operands and results of
    base conversions, which one phase writes and the next reads. They count two times each, as a
    line of memory is read before it is written. Rates are those of `rates()`, or `by`.
    """
    specs, costs = value_specs(plan.inputs, plan.units), unit_costs(plan)
    moved = _input_bytes(plan, specs) + 2 * sum(nbytes(specs[v]) for v in set(plan.outputs))
    for unit, (cost, _) in zip(plan.units, costs, strict=True):
        order = unit.kernel.nodes if isinstance(unit, KernelUnit) else ()
        if any(node.op in (ops.CONVERT, ops.LIFT) for node in order):
            moved += 2 * (cost.bytes_read + cost.bytes_written)
    butterflies = sum(_butterflies(cost.limb_ntts, n) for cost, n in costs)
    adds = sum(cost.multiply_adds for cost, _ in costs)
    return (by or rates()).seconds(butterflies, adds, moved, calls)


def _butterflies(limb_ntts: int, n: int) -> int:
    return limb_ntts * n // 2 * (n.bit_length() - 1)


def _limb_bytes(spec: Spec) -> int:
    return nbytes(spec) // spec.ring.limbs


def _input_bytes(plan: Plan, specs: Sequence[Spec]) -> int:
    """The limbs of inputs that units read, once each."""
    limbs: dict[int, set[int]] = defaultdict(set)
    for unit in plan.units:
        if isinstance(unit, ViewUnit):
            limbs[unit.ins[0]].update(range(unit.start, unit.start + unit.length))
        elif isinstance(unit, KernelUnit):
            for slot, read in _limbs_read(unit).items():
                limbs[unit.ins[slot.arg.index]].update(read)
    return sum(_limb_bytes(specs[v]) * len(limbs[v]) for v in range(len(plan.inputs)))
