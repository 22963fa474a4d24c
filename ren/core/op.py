"""The op table: one row an op, with its argument class, type rule and algebraic flags.

Generic passes read the flags of a row, never its name. The two bodies of an op, its jax.numpy
emitter and its NumPy reference, stand in `ren.lowering.bodies`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import attrs

from ren.core.errors import DomainError, RingMismatchError
from ren.core.ring import Domain, RingSpec, difference, is_subset

if TYPE_CHECKING:
    from ren.core.node import Node


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


class Kind(enum.Enum):
    """What the scheduler may do with an op."""

    LEAF = "leaf"  # no sources: buffers, placeholders, slots
    CONSTANT = "constant"  # inlined wherever it is used
    ELEMENTWISE = "elementwise"  # fused with its neighbours
    VIEW = "view"  # an offset in the loads of its users
    TRANSFORM = "transform"  # a kernel of its own, from and to memory
    BOUNDARY = "boundary"  # forces its source into memory
    RING = "ring"  # high-level: rewritten into the others before scheduling
    ROOT = "root"  # groups roots; has no value


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


Infer = Callable[[tuple["Node", ...], Any], Spec | None]


@attrs.frozen(eq=False)
class Op:
    """A row of the op table.

    Args:
        name: how the op prints.
        arity: how many sources; None for any number.
        arg: the class of its argument.
        infer: `(src, arg) -> Spec`, raises a RenError where the op does not apply.
        kind: what the scheduler may do with it.
        is_linear: commutes with NTT, INTT and automorphisms.
        is_commutative: the order of two sources does not matter.
        wants: the domain that its sources must be in; None for "that of the result".
        fold: `(ring, arg, *values) -> value` on constant polynomials, as integers mod q.
        inverse: the name of the op that undoes it.
    """

    name: str
    arity: int | None
    arg: type
    infer: Infer = attrs.field(repr=False)
    kind: Kind
    is_linear: bool = False
    is_commutative: bool = False
    wants: Domain | None = None
    fold: Callable[..., int] | None = attrs.field(default=None, repr=False)
    inverse: str | None = None

    def __repr__(self) -> str:
        return self.name


def broadcast_batch(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """The batch shape of operands together, by NumPy's broadcasting rule."""
    rank = max((len(s) for s in shapes), default=0)
    out = []
    for axis in range(-rank, 0):
        sizes = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(sizes) > 1:
            raise DomainError(
                f"The batch shapes {' and '.join(map(str, shapes))} were combined.",
                "Batch axes follow NumPy's broadcasting: equal, or 1.",
                "Use jax.vmap, or reshape the limb arrays.",
            )
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def _same_ring(src: tuple[Node, ...], what: str) -> RingSpec:
    ring = src[0].spec.ring
    for s in src[1:]:
        other = s.spec.ring
        if other != ring:
            raise RingMismatchError(
                f"{what} got polynomials of two rings: {_brief(ring)} and {_brief(other)}.",
                "Both operands must be in one ring.",
                "Convert one of them: x.to_ring(y.ring) or x.rescale(y.ring.moduli).",
            )
    return ring


def _brief(ring: RingSpec) -> str:
    shown = ring.moduli if ring.limbs <= 4 else (*ring.moduli[:3], "...")
    return f"n={ring.n}, moduli=({', '.join(map(str, shown))}) [{ring.limbs} limbs]"


def _joint_domain(src: tuple[Node, ...]) -> Domain:
    return Domain.NTT if any(s.spec.domain is Domain.NTT for s in src) else Domain.COEFF


def _batch(src: tuple[Node, ...]) -> tuple[int, ...]:
    shapes = tuple(s.spec.batch for s in src)
    return shapes[0] if len(set(shapes)) == 1 else broadcast_batch(shapes)


def _infer_linear(what: str) -> Infer:
    def infer(src: tuple[Node, ...], arg: object) -> Spec:
        return Spec(_same_ring(src, what), _joint_domain(src), _batch(src))

    return infer


def _infer_mul(src: tuple[Node, ...], arg: object) -> Spec:
    """A product with a constant stays in its domain; any other is in the NTT domain."""
    ring = _same_ring(src, "A product")
    proper = tuple(s for s in src if s.op is not CONST)
    domain = Domain.NTT if len(proper) == 2 else _joint_domain(proper or src)
    return Spec(ring, domain, _batch(src))


def _infer_same(src: tuple[Node, ...], arg: object) -> Spec:
    return src[0].spec


def _infer_into(domain: Domain) -> Infer:
    def infer(src: tuple[Node, ...], arg: object) -> Spec:
        return attrs.evolve(src[0].spec, domain=domain)

    return infer


def _infer_leaf(src: tuple[Node, ...], arg: Any) -> Spec:
    return Spec(arg.ring, arg.domain, getattr(arg, "batch", ()))


def _same_degree(src: tuple[Node, ...], ring: RingSpec, what: str) -> None:
    n = src[0].spec.ring.n
    if ring.n != n:
        raise RingMismatchError(
            f"{what} got a ring of degree {ring.n} for a polynomial of degree {n}.",
            "A conversion changes the moduli, never the degree.",
            f"Use RingSpec(n={n}, moduli=...).",
        )


def _infer_to_ring(src: tuple[Node, ...], arg: RingArg) -> Spec:
    _same_degree(src, arg.ring, "to_ring")
    return attrs.evolve(src[0].spec, ring=arg.ring)


def _infer_rescale(src: tuple[Node, ...], arg: RingArg) -> Spec:
    _same_degree(src, arg.ring, "rescale")
    have = src[0].spec.ring.moduli
    if not difference(have, arg.ring.moduli):
        raise RingMismatchError(
            f"rescale from {_brief(src[0].spec.ring)} to {_brief(arg.ring)} divides nothing away.",
            "At least one modulus of the polynomial must be missing from the new basis.",
            "Leave out what to divide by: x.rescale(x.ring.moduli[:-1]); "
            "to change basis only, use to_ring.",
        )
    return attrs.evolve(src[0].spec, ring=arg.ring)


def _infer_mod_up(src: tuple[Node, ...], arg: ModUpArg) -> Spec:
    _same_degree(src, arg.ring, "mod_up")
    if not arg.digit or not is_subset(arg.digit, src[0].spec.ring.moduli):
        raise RingMismatchError(
            f"mod_up got the digit {arg.digit}, not a part of {_brief(src[0].spec.ring)}.",
            "A digit is one or more of the polynomial's own moduli.",
            "Pass for example x.ring.moduli[:2].",
        )
    return attrs.evolve(src[0].spec, ring=arg.ring)


def _infer_mod_down(src: tuple[Node, ...], arg: RingArg) -> Spec:
    _same_degree(src, arg.ring, "mod_down")
    have = src[0].spec.ring.moduli
    if not is_subset(arg.ring.moduli, have) or not difference(have, arg.ring.moduli):
        raise RingMismatchError(
            f"mod_down got {_brief(arg.ring)} for a polynomial over {_brief(src[0].spec.ring)}.",
            "The target is a proper part of the polynomial's basis; the rest is divided away.",
            "Pass the ring without the special primes; for any other basis use rescale.",
        )
    return attrs.evolve(src[0].spec, ring=arg.ring)


def _infer_base_change(src: tuple[Node, ...], arg: RingArg) -> Spec:
    _same_degree(src, arg.ring, "base conversion")
    return attrs.evolve(src[0].spec, ring=arg.ring, domain=Domain.COEFF)


def _infer_join(src: tuple[Node, ...], arg: RingArg) -> Spec:
    parts = [m for s in src for m in s.spec.ring.moduli]
    if sorted(parts) != sorted(arg.ring.moduli):
        raise RingMismatchError(
            f"JOIN got limbs for {parts}.", f"It makes {_brief(arg.ring)} from disjoint parts."
        )
    return Spec(arg.ring, _joint_domain(src), _batch(src))


def _infer_slot(src: tuple[Node, ...], arg: SlotArg) -> Spec:
    return arg.spec


def _infer_root(src: tuple[Node, ...], arg: object) -> None:
    return None


def _lifted(ring: RingSpec, arg: RingArg, value: int) -> int:
    """The centred representative of a constant, mod the new q."""
    return (value - ring.q if 2 * value > ring.q else value) % arg.ring.q


def _reduced(ring: RingSpec, arg: object, value: int) -> int:
    return value


def _is_view(src: Node, arg: RingArg) -> bool:
    return is_subset(arg.ring.moduli, src.spec.ring.moduli)


BUFFER = Op("BUFFER", 0, BufferArg, _infer_leaf, Kind.LEAF)
PLACEHOLDER = Op("PLACEHOLDER", 0, PlaceholderArg, _infer_leaf, Kind.LEAF)
SLOT = Op("SLOT", 0, SlotArg, _infer_slot, Kind.LEAF)
CONST = Op("CONST", 0, ConstArg, _infer_leaf, Kind.CONSTANT)

ADD = Op(
    "ADD", 2, NoArg, _infer_linear("A sum"), Kind.ELEMENTWISE,
    is_linear=True, is_commutative=True, fold=lambda ring, arg, a, b: (a + b) % ring.q,
)  # fmt: skip
SUB = Op(
    "SUB", 2, NoArg, _infer_linear("A difference"), Kind.ELEMENTWISE,
    is_linear=True, fold=lambda ring, arg, a, b: (a - b) % ring.q,
)  # fmt: skip
MUL = Op(
    "MUL", 2, NoArg, _infer_mul, Kind.ELEMENTWISE,
    is_commutative=True, wants=Domain.NTT, fold=lambda ring, arg, a, b: a * b % ring.q,
)  # fmt: skip
NEG = Op(
    "NEG", 1, NoArg, _infer_same, Kind.ELEMENTWISE,
    is_linear=True, fold=lambda ring, arg, a: -a % ring.q, inverse="NEG",
)  # fmt: skip

NTT = Op(
    "NTT", 1, NoArg, _infer_into(Domain.NTT), Kind.TRANSFORM,
    wants=Domain.COEFF, fold=_reduced, inverse="INTT",
)  # fmt: skip
INTT = Op(
    "INTT", 1, NoArg, _infer_into(Domain.COEFF), Kind.TRANSFORM,
    wants=Domain.NTT, fold=_reduced, inverse="NTT",
)  # fmt: skip

TO_RING = Op("TO_RING", 1, RingArg, _infer_to_ring, Kind.RING, fold=_lifted)
RESCALE = Op("RESCALE", 1, RingArg, _infer_rescale, Kind.RING)
MODUP = Op("MODUP", 1, ModUpArg, _infer_mod_up, Kind.RING)
MODDOWN = Op("MODDOWN", 1, RingArg, _infer_mod_down, Kind.RING)
ROTATE = Op("ROTATE", 1, RotateArg, _infer_same, Kind.RING, fold=_reduced)

VIEW = Op("VIEW", 1, RingArg, _infer_to_ring, Kind.VIEW, is_linear=True,
          fold=lambda ring, arg, a: a % arg.ring.q)  # fmt: skip
LIFT = Op("LIFT", 1, RingArg, _infer_base_change, Kind.TRANSFORM, wants=Domain.COEFF, fold=_lifted)
CONVERT = Op("CONVERT", 1, RingArg, _infer_base_change, Kind.TRANSFORM, wants=Domain.COEFF)
JOIN = Op("JOIN", None, RingArg, _infer_join, Kind.TRANSFORM, is_linear=True)
AUTOMORPHISM = Op("AUTOMORPHISM", 1, AutomorphismArg, _infer_same, Kind.TRANSFORM, fold=_reduced)

COPY = Op("COPY", 1, CopyArg, _infer_same, Kind.BOUNDARY)
CONTIGUOUS = Op("CONTIGUOUS", 1, NoArg, _infer_same, Kind.BOUNDARY)
STORE = Op("STORE", 1, NoArg, _infer_same, Kind.ROOT)
SINK = Op("SINK", None, NoArg, _infer_root, Kind.ROOT)

OPS: dict[str, Op] = {
    op.name: op
    for op in (
        BUFFER, PLACEHOLDER, SLOT, CONST, ADD, SUB, MUL, NEG, NTT, INTT, TO_RING, RESCALE, MODUP,
        MODDOWN, ROTATE, VIEW, LIFT, CONVERT, JOIN, AUTOMORPHISM, COPY, CONTIGUOUS, STORE, SINK,
    )
}  # fmt: skip
