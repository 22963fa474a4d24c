"""The call of a graph's bytecode, also where a program may be divided among devices.

XLA divides an opaque call by gathering all of its arrays on each device. The rule here declares
that the loops of a call may be divided. Each device then calls the kernel for its part. Where
arrays are on one device, or are divided by `jax.shard_map`, the rule changes nothing. A call with
batch axes that are taken apart is left whole, as its code contains their lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import jax
import numpy as np
from jax.custom_batching import custom_vmap
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from ren.lowering.backends.native.limb_program import Shape, filled, looped

PLATFORM = "cpu"
HANDLER = "ren_plan"  # it runs bytecode: see `ren.lowering.backends.native.bytecode`
_Names = list[str | None]


def handler_name(library: str) -> str:
    """The name by which the handler of a library is registered: no two libraries share one."""
    return f"{HANDLER}_{library}"


@attrs.frozen
class FfiCall:
    """A handler with the arrays that it takes.

    Args:
        target: the name by which the handler is registered.
        n: the length of rows.
        masks: of each array `Axes.mask`; None for other buffers.
        outputs: of each output `Axes.pattern`, and its number of limbs.
        leading: how many axes of `jax.vmap` stand before all others.
    """

    target: str
    n: int
    masks: tuple[int | None, ...]
    outputs: tuple[tuple[Shape, int], ...]
    leading: int = 0

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """The outputs, for inputs that have all loops, of length 1 or as long as they are."""
        shapes = self.shapes([array.shape for array in arrays])
        types = [jax.ShapeDtypeStruct(shape, np.uint32) for shape in shapes]
        call = jax.ffi.ffi_call(self.target, types, vmap_method="expand_dims")
        return tuple(call(*arrays))

    def loops(self, arrays: Sequence[Shape]) -> Shape:
        """The lengths of the loops that the call's inputs, of these shapes, have."""
        inputs = zip(arrays, self.masks, strict=False)  # the others are tables
        own = (looped(s[self.leading : -2], m) for s, m in inputs if m is not None)
        return np.broadcast_shapes(*own)

    def shapes(self, arrays: Sequence[Shape]) -> list[Shape]:
        """The shapes of the outputs, for arrays of these shapes."""
        ahead = np.broadcast_shapes(*(shape[: self.leading] for shape in arrays))
        loops = self.loops(arrays)
        return [(*ahead, *filled(pattern, loops), limbs, self.n) for pattern, limbs in self.outputs]

    def divisible(self) -> Callable[..., tuple[Any, ...]]:
        """The same, of which XLA may divide the loops among devices."""
        if any(self.masks) or any(pattern for pattern, _ in self.outputs):
            return self

        @custom_vmap
        def run(*arrays: Any) -> tuple[Any, ...]:
            made = custom_partitioning(self.__call__)
            made.def_partition(partition=self._partition, sharding_rule=self._rule)
            return made(*arrays)

        @run.def_vmap
        def _(size: int, batched: Sequence[bool], *arrays: Any) -> Any:
            wide = [x if own else x[None] for x, own in zip(arrays, batched, strict=True)]
            made = attrs.evolve(self, leading=self.leading + 1).divisible()(*wide)
            return made, (True,) * len(made)

        return run

    def _names(self, shape: Shape, whole: dict[str, int]) -> _Names:
        """Name of each axis of an array, where it is a loop of its whole length; else None."""
        axes = len(shape) - 2 - self.leading
        loops = [f"v{k}" for k in range(self.leading)] + [f"b{axes - k}" for k in range(axes)]
        found: _Names = [
            name if whole.setdefault(name, n) == n > 1 else None
            for name, n in zip(loops, shape[:-2], strict=True)
        ]
        return [*found, None, None]

    def _named(
        self, arrays: Sequence[Shape], results: Sequence[Shape]
    ) -> tuple[list[_Names], list[_Names]]:
        whole: dict[str, int] = {}
        made = [self._names(s, whole) for s in results]  # of their whole lengths
        given: list[_Names] = [
            [None] * len(s) if mask is None else self._names(s, whole)
            for s, mask in zip(arrays, self.masks, strict=True)
        ]
        return given, made

    def _rule(self, mesh: Any, arrays: Sequence[Any], results: Sequence[Any]) -> Any:
        given, made = self._named(
            [tuple(t.shape) for t in arrays], [tuple(t.shape) for t in results]
        )
        whole: list[str] = []

        def text(names: _Names) -> str:
            found = []
            for name in names:
                if name is None:
                    whole.append(name := f"w{len(whole)}")
                found.append(name)
            return " ".join(found)

        rule = ", ".join(map(text, given)) + " -> " + ", ".join(map(text, made))
        return rule, {"need_replication_factors": tuple(whole)}

    def _partition(self, mesh: Any, arrays: Any, results: Any) -> Any:
        given, made = self._named([a.shape for a in arrays], [r.shape for r in results])
        known: dict[str, Any] = {}
        for result, names in zip(results, made, strict=True):
            for name, over in zip(names, _axes_of(result), strict=True):
                if name is not None and over is not None:
                    known.setdefault(name, over)

        def sharding(names: _Names) -> NamedSharding:
            over = (None if name is None else known.get(name) for name in names)
            return NamedSharding(mesh, PartitionSpec(*over))

        return mesh, self.__call__, tuple(map(sharding, made)), tuple(map(sharding, given))


def _axes_of(array: Any) -> tuple[Any, ...]:
    """Over which axes of the mesh each axis of an array is divided."""
    spec = tuple(array.sharding.spec)
    return (*spec, *[None] * (len(array.shape) - len(spec)))
