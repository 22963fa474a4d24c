"""Values that nodes carry: their types, and the arguments of ops."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import attrs

from ren.core.ring import Domain, RingSpec


@attrs.frozen
class Spec:
    """The type of a node's value: residues `dtype[*batch, ring.limbs, ring.n]` in a domain."""

    ring: RingSpec
    domain: Domain
    batch: tuple[int, ...] = ()
    dtype: str = "uint32"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the limb array, `[*batch, limb, n]`."""
        return (*self.batch, self.ring.limbs, self.ring.n)


@attrs.frozen
class NoArg:
    """The argument of an op that needs none."""


@attrs.frozen
class BufferArg:
    """Limbs in memory, compared by the identity of their array.

    `traced` says that the array is a JAX tracer: such a buffer is never interned.
    """

    array: Any = attrs.field(eq=id, repr=False)
    ring: RingSpec
    domain: Domain
    batch: tuple[int, ...]
    serial: int = attrs.field(eq=False)
    traced: bool = attrs.field(default=False, repr=False)


@attrs.frozen
class PlaceholderArg:
    """An input of a captured program; `serial` tells placeholders apart.

    `draw` is None for an argument, else what draws the value anew at every replay.
    """

    serial: int
    ring: RingSpec
    domain: Domain
    batch: tuple[int, ...]
    device: Hashable = None
    draw: Callable[[], Any] | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class SlotArg:
    """The `index`-th input of a kernel."""

    index: int
    spec: Spec


@attrs.frozen
class ConstArg:
    """The constant polynomial `value`, 0 <= value < ring.q."""

    value: int
    ring: RingSpec
    domain: Domain


@attrs.frozen
class RingArg:
    """The ring that an op leads to."""

    ring: RingSpec


@attrs.frozen
class ModUpArg:
    """The limbs that make the digit, and the ring that it is lifted to."""

    digit: tuple[int, ...]
    ring: RingSpec


@attrs.frozen
class RotateArg:
    """Steps of X -> X^(5^k)."""

    k: int


@attrs.frozen
class AutomorphismArg:
    """The galois element g of X -> X^g, odd, 0 < g < 2n."""

    g: int


@attrs.frozen
class CopyArg:
    """Where the value goes: "python", a JAX device or a sharding."""

    device: Hashable


@attrs.frozen
class Work:
    """What an op costs: whole limb transforms, and multiply-adds outside of them."""

    limb_ntts: int = 0
    multiply_adds: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.limb_ntts + other.limb_ntts, self.multiply_adds + other.multiply_adds)
