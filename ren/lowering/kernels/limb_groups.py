"""Values of a kernel that are held as groups of limbs, so that no JOIN need be copied together.

XLA:CPU neither fuses a concatenation with what reads it nor reads through it without a choice for
each element. So elementwise work on a JOIN runs over each group of limbs by itself. Only its result
is a concatenation, which XLA writes region by region.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import jax.numpy as jnp

from ren.core.op import OPS, Kind


@attrs.frozen(eq=False)
class Parts:
    """A value as groups of its limbs, in order, each `uint32[*batch, limb, n]`."""

    arrays: tuple[Any, ...]

    def cuts(self) -> set[int]:
        """Limb positions at which groups begin and end."""
        return set(itertools.accumulate((a.shape[-2] for a in self.arrays), initial=0))

    def between(self, start: int, stop: int) -> Any:
        """The limbs from `start` to `stop`, which lie in one group."""
        first = 0
        for array in self.arrays:
            if stop <= first + array.shape[-2]:
                return array[..., start - first : stop - first, :]
            first += array.shape[-2]
        raise IndexError(f"no group of limbs holds {start} to {stop} of {first}")

    def whole(self) -> Any:
        """All limbs in one array."""
        shapes = [array.shape for array in self.arrays]
        batch = jnp.broadcast_shapes(*(shape[:-2] for shape in shapes))
        n = max(shape[-1] for shape in shapes)
        full = [jnp.broadcast_to(a, (*batch, a.shape[-2], n)) for a in self.arrays]
        return full[0] if len(full) == 1 else jnp.concatenate(full, axis=-2)


def emitted(
    body: Callable[..., Any], instr: Any, tables: list[tuple[Any, ...]], src: Sequence[Any]
) -> Any:
    """The value of one instruction, an array or `Parts`.

    Args:
        body: the emitter of its op.
        instr: the `ren.lowering.program.instructions.Instr`.
        tables: what it reads besides its sources; of elementwise ops, columns `[limb, 1]` or rows.
        src: arrays, or `Parts`.
    """
    if not any(isinstance(s, Parts) for s in src):
        return body(instr, tables, *src)
    if OPS[instr.op].kind is not Kind.ELEMENTWISE or instr.structure:  # of moduli with two limbs
        return body(instr, tables, *(s.whole() if isinstance(s, Parts) else s for s in src))
    cuts = sorted(set().union(*(s.cuts() for s in src if isinstance(s, Parts))))
    columns = (instr.limbs, 1)
    groups = []
    for start, stop in itertools.pairwise(cuts):
        own = [tuple(a[start:stop] if a.shape == columns else a for a in table) for table in tables]
        part = attrs.evolve(instr, limbs=stop - start)
        groups.append(body(part, own, *(limbs(s, start, stop) for s in src)))
    return Parts(tuple(groups))


def limbs(x: Any, start: int, stop: int) -> Any:
    """The limbs from `start` to `stop` of an array or of `Parts`."""
    if isinstance(x, Parts):
        return x.between(start, stop)
    return x if x.shape[-2] == 1 else x[..., start:stop, :]
