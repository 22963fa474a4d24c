"""Values that nodes carry: their types, and the arguments of ops."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from typing import Any

import attrs

from ren.core.ring import LIMB_DTYPE, Domain, RingSpec

KEY = "KEY"  # how an input is made: found by an id of keys


@attrs.frozen(cache_hash=True)
class Spec:
    """The type of a node's value: residues `dtype[*batch, ring.limbs, ring.n]` in a domain.

    `is_scalar` marks a constant polynomial whose value is known only at each run: one residue a
    limb. `is_literal` marks one that the program names, CONST or FILL. A literal has the type of
    any other polynomial, so equality ignores the mark. No computed value is either.
    """

    ring: RingSpec
    domain: Domain
    batch: tuple[int, ...] = ()
    dtype: str = LIMB_DTYPE
    is_scalar: bool = False
    is_literal: bool = attrs.field(default=False, eq=False, repr=False)

    @property
    def is_constant(self) -> bool:
        """True for a constant polynomial, also one whose value is known only at each run."""
        return self.is_literal or self.is_scalar

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the limb array, `[*batch, limb, n]`; of a scalar `[limb, 1]`."""
        return (*self.batch, self.ring.limbs, 1 if self.is_scalar else self.ring.n)


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

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for equal arguments while both live, and hashed without a call of Python."""
        return id(self.array), self.domain, self.ring.moduli, self.batch, self.traced


@attrs.frozen
class PlaceholderArg:
    """An input of a captured program; `serial` tells placeholders apart.

    `made` is None for an argument. Else it makes the limbs anew at every replay, from the values of
    the call's arguments that are not polynomials. `how` is its name: DRAW or ENCODE. Of a KEY it
    finds the limbs, and `label` says which key it is.
    """

    serial: int
    ring: RingSpec
    domain: Domain
    batch: tuple[int, ...]
    device: Hashable = None
    made: Any = attrs.field(default=None, eq=False, repr=False)
    how: str = ""
    label: str = ""


@attrs.frozen
class ScalarArg:
    """A constant polynomial whose value is an argument; `serial` tells values apart.

    `value` gives the integer from the values of the call's arguments that are no polynomials.
    `bits` is the length of it, `ren.core.numtheory.length`, where that is known.
    """

    serial: int
    ring: RingSpec
    domain: Domain
    value: Callable[[Sequence[Any]], int] = attrs.field(eq=False, repr=False)
    device: Hashable = None
    bits: int | None = None


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
class PartArg:
    """Index of the entry taken from a batch axis: from the first, axis 0, or the last, axis -1."""

    index: int
    axis: int = 0


@attrs.frozen
class ShiftArg:
    """The exponent of a factor X^k, 0 < k < 2n."""

    k: int


@attrs.frozen
class StackArg:
    """Position of the new batch axis: 0, the first, or -1, the last."""

    axis: int = 0


@attrs.frozen
class MacArg:
    """For each term the index of its factor along the first batch axis of the first source."""

    indices: tuple[int, ...]


@attrs.frozen
class Matrix:
    """A matrix of integers, row by row: signed, little-endian, of `size` bytes each."""

    rows: int
    columns: int
    size: int
    data: bytes = attrs.field(repr=lambda data: blake2b(data, digest_size=16).hexdigest())


@attrs.frozen
class MixArg:
    """The weights, and the batch axis that they mix: -1 is the last."""

    weights: Matrix
    axis: int


@attrs.frozen
class BoundArg:
    """The centred coefficients are below 2^bits in absolute value."""

    bits: float


@attrs.frozen
class DivideArg:
    """Quotients, remainders or digits of each coefficient c, as an integer in [0, q).

    With y = times c + plus, and below more where c > q / 2: "quotient" is floor(y / by) - minus,
    "remainder" is y mod by - minus. "digits" are the `count` lowest digits of y >= 0 in base `by`,
    each minus `minus`, along a new first batch axis. `times` and `by` are positive.
    """

    kind: str
    ring: RingSpec
    by: int
    times: int = 1
    plus: int = 0
    below: int = 0
    minus: int = 0
    count: int = 0


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
    """Target of a copy: "python", a JAX device or a sharding."""

    device: Hashable


@attrs.frozen
class BufferizeArg:
    """The number of the kernel that is to store the value."""

    kernel: int


@attrs.frozen
class ReservedArg:
    """The `index`-th buffer that a plan makes for itself, and what it holds."""

    index: int
    spec: Spec


@attrs.frozen
class StoreArg:
    """The number of the kernel that stores; 0 inside its body."""

    kernel: int = 0


@attrs.frozen
class SinkArg:
    """For each root, where its value will be."""

    places: tuple[str, ...]


@attrs.frozen
class BufferViewArg:
    """Limbs `start` to `start + length` of an array, over `ring`."""

    ring: RingSpec
    start: int
    length: int


@attrs.frozen
class GridArg:
    """The grid that a kernel runs over: a place for each residue of `spec`."""

    spec: Spec


@attrs.frozen
class IndexArg:
    """Index of a load: limb `limbs[i]` for limb i, and the permutation of X -> X^galois."""

    limbs: tuple[int, ...]
    galois: int = 1


@attrs.frozen
class KernelArg:
    """The body of a kernel, SINK(STORE(...), ...) over SLOTs, and the buffers that it fills."""

    body: Any = attrs.field(eq=id, repr=lambda body: body.digest.hex())
    places: tuple[int, ...] = ()


@attrs.frozen
class Work:
    """Cost of an op: whole limb transforms, and multiply-adds outside of them."""

    limb_ntts: int = 0
    multiply_adds: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.limb_ntts + other.limb_ntts, self.multiply_adds + other.multiply_adds)
