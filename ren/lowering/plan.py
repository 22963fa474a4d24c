"""Plan: frozen; what to run, in what order, and which values die when."""

from __future__ import annotations

from collections.abc import Hashable

import attrs

from ren.core.args import BufferArg, PlaceholderArg, Spec
from ren.lowering.program import Kernel, Program


@attrs.frozen(eq=False)
class Input:
    """An array that a plan reads: of a buffer held by the plan, or bound at each call."""

    arg: BufferArg | PlaceholderArg
    spec: Spec


@attrs.frozen(eq=False)
class KernelUnit:
    """Runs a kernel: `values[outs] = kernel(*values[ins])`, then forgets `drops`."""

    kernel: Kernel
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    drops: tuple[int, ...] = ()


@attrs.frozen(eq=False)
class CopyUnit:
    """Moves `values[ins[0]]` to a device, then forgets `drops`."""

    device: Hashable
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    drops: tuple[int, ...] = ()


@attrs.frozen(eq=False)
class ViewUnit:
    """Binds limbs `start` to `start + length` of `values[ins[0]]`; no kernel runs.

    JAX arrays have no free views: reading the limbs slices them once.
    """

    start: int
    length: int
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    drops: tuple[int, ...] = ()


Unit = KernelUnit | CopyUnit | ViewUnit


@attrs.frozen(eq=False)
class Plan:
    """A scheduled program: inputs are values 0, 1, ...; units make the others, in order.

    Attributes:
        inputs: the arrays read, in slot order.
        units: kernels and copies in execution order.
        outputs: the values of the roots, in the order of the roots.
        output_specs: their types.
    """

    inputs: tuple[Input, ...]
    units: tuple[Unit, ...]
    outputs: tuple[int, ...]
    output_specs: tuple[Spec, ...]

    @property
    def programs(self) -> tuple[Program, ...]:
        """The distinct kernel programs, in order of first use: what has to be compiled."""
        kernels = (u.kernel.program for u in self.units if isinstance(u, KernelUnit))
        return tuple(dict.fromkeys(kernels))

    def __repr__(self) -> str:
        return (
            f"<Plan: {len(self.inputs)} inputs, {len(self.units)} units, "
            f"{len(self.programs)} distinct kernels, {len(self.outputs)} outputs>"
        )


def with_last_uses(units: list[Unit], outputs: tuple[int, ...]) -> tuple[Unit, ...]:
    """The units, each with the values that nothing after it reads."""
    live = set(outputs)
    done: list[Unit] = []
    for unit in reversed(units):
        used = dict.fromkeys((*unit.ins, *unit.outs))
        drops = tuple(v for v in used if v not in live)
        live.update(used)
        done.append(attrs.evolve(unit, drops=drops))
    return tuple(reversed(done))
