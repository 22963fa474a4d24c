"""The op table: one row an op, with its argument class, type rule and algebraic flags.

Generic passes read the flags of a row, never its name. An op that reaches a kernel is an
instruction there, of `ren.lowering.program.instructions`, which each backend runs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import attrs

from ren.core import inference as rules
from ren.core import spec as args
from ren.core.inference import Infer, Specs
from ren.core.ring import Domain
from ren.core.spec import NoArg, RingArg, Spec, Work


class Kind(enum.Enum):
    """Class of an op, which decides how the scheduler may treat it."""

    LEAF = "leaf"  # no sources: buffers, placeholders, slots
    CONSTANT = "constant"  # inlined wherever it is used
    ELEMENTWISE = "elementwise"  # fused with its neighbours
    VIEW = "view"  # an offset in the loads of its users
    TRANSFORM = "transform"  # a kernel of its own, from and to memory
    BOUNDARY = "boundary"  # forces its source into memory
    MEMORY = "memory"  # a place in memory, or what fills it
    INDEX = "index"  # where a kernel reads
    RING = "ring"  # high-level: rewritten into the others before scheduling
    ROOT = "root"  # groups roots; has no value


@attrs.frozen(eq=False)
class Op:
    """A row of the op table.

    Args:
        name: how the op prints.
        arity: how many sources; None for any number.
        arg: the class of its argument, or several.
        infer: `(src, arg) -> Spec`, `src` the types of the sources; raises a RenError where the op
            does not apply.
        kind: what the scheduler may do with it.
        is_commutative: the order of two sources does not matter.
        wants: the domain that its sources must be in; None for "that of the result".
        fold: `(ring, arg, *values) -> value` on constant polynomials, as integers mod q.
        inverse: the name of the op that undoes it.
        work: `(src, spec, arg) -> Work`, from the types of the sources and of the result.
    """

    name: str
    arity: int | None
    arg: type | tuple[type, ...]
    infer: Infer = attrs.field(repr=False)
    kind: Kind
    is_commutative: bool = False
    wants: Domain | None = None
    fold: Callable[..., int] | None = attrs.field(default=None, repr=False)
    inverse: str | None = None
    work: Callable[[Specs, Spec, Any], Work] = attrs.field(default=lambda *_: Work(), repr=False)

    def __repr__(self) -> str:
        return self.name


BUFFER = Op("BUFFER", 0, args.BufferArg, rules.infer_leaf, Kind.LEAF)
PLACEHOLDER = Op("PLACEHOLDER", 0, args.PlaceholderArg, rules.infer_leaf, Kind.LEAF)
SCALAR = Op("SCALAR", 0, args.ScalarArg, rules.infer_scalar, Kind.LEAF)
SLOT = Op("SLOT", 0, args.SlotArg, rules.infer_own, Kind.LEAF)
CONST = Op("CONST", 0, args.ConstArg, rules.infer_literal, Kind.CONSTANT)

ADD = Op(
    "ADD", 2, NoArg, rules.infer_linear("A sum"), Kind.ELEMENTWISE,
    is_commutative=True, fold=lambda ring, arg, a, b: (a + b) % ring.q,
)  # fmt: skip
SUB = Op(
    "SUB", 2, NoArg, rules.infer_linear("A difference"), Kind.ELEMENTWISE,
    fold=lambda ring, arg, a, b: (a - b) % ring.q,
)  # fmt: skip
MUL = Op(
    "MUL", 2, NoArg, rules.infer_mul, Kind.ELEMENTWISE,
    is_commutative=True, wants=Domain.NTT, fold=lambda ring, arg, a, b: a * b % ring.q,
    work=rules.product_work,
)  # fmt: skip
DOT = Op(
    "DOT", None, NoArg, rules.infer_dot, Kind.ELEMENTWISE,
    wants=Domain.NTT, work=rules.product_work,
)  # fmt: skip
MAC = Op(
    "MAC", None, args.MacArg, rules.infer_mac, Kind.ELEMENTWISE,
    wants=Domain.NTT, work=rules.mac_work,
)  # fmt: skip
NEG = Op(
    "NEG", 1, NoArg, rules.infer_same, Kind.ELEMENTWISE,
    fold=lambda ring, arg, a: -a % ring.q, inverse="NEG",
)  # fmt: skip

NTT = Op(
    "NTT", 1, NoArg, rules.infer_into(Domain.NTT), Kind.TRANSFORM,
    wants=Domain.COEFF, fold=rules.reduced, inverse="INTT", work=rules.transform_work,
)  # fmt: skip
INTT = Op(
    "INTT", 1, NoArg, rules.infer_into(Domain.COEFF), Kind.TRANSFORM,
    wants=Domain.NTT, fold=rules.reduced, inverse="NTT", work=rules.transform_work,
)  # fmt: skip

TO_RING = Op("TO_RING", 1, RingArg, rules.infer_to_ring, Kind.RING, fold=rules.lifted)
RESCALE = Op("RESCALE", 1, RingArg, rules.infer_rescale, Kind.RING)
MODUP = Op("MODUP", 1, args.ModUpArg, rules.infer_mod_up, Kind.RING)
MODDOWN = Op("MODDOWN", 1, RingArg, rules.infer_mod_down, Kind.RING)
BOUNDED = Op("BOUNDED", 1, args.BoundArg, rules.infer_same, Kind.RING, fold=rules.reduced)
ROTATE = Op("ROTATE", 1, args.RotateArg, rules.infer_same, Kind.RING, fold=rules.reduced)

VIEW = Op("VIEW", 1, RingArg, rules.infer_to_ring, Kind.VIEW,
          fold=lambda ring, arg, a: a % arg.ring.q)  # fmt: skip
LIFT = Op(
    "LIFT", 1, RingArg, rules.infer_base_change, Kind.TRANSFORM,
    wants=Domain.COEFF, fold=rules.lifted, work=rules.lift_work,
)  # fmt: skip
CONVERT = Op(
    "CONVERT", 1, RingArg, rules.infer_base_change, Kind.TRANSFORM,
    wants=Domain.COEFF, fold=rules.converted, work=rules.convert_work,
)  # fmt: skip
DIVIDE = Op(
    "DIVIDE", 1, args.DivideArg, rules.infer_divide, Kind.TRANSFORM,
    wants=Domain.COEFF, work=rules.divide_work,
)  # fmt: skip
JOIN = Op("JOIN", None, RingArg, rules.infer_join, Kind.TRANSFORM)
STACK = Op("STACK", None, args.StackArg, rules.infer_stack, Kind.TRANSFORM)
PART = Op("PART", 1, args.PartArg, rules.infer_part, Kind.TRANSFORM)
MIX = Op("MIX", 1, args.MixArg, rules.infer_mix, Kind.TRANSFORM, work=rules.mix_work)
SHIFT = Op("SHIFT", 1, args.ShiftArg, rules.infer_shift, Kind.TRANSFORM, wants=Domain.COEFF)
AUTOMORPHISM = Op(
    "AUTOMORPHISM", 1, args.AutomorphismArg, rules.infer_same, Kind.TRANSFORM, fold=rules.reduced
)
EMBED = Op("EMBED", 1, RingArg, rules.infer_embed, Kind.TRANSFORM, fold=rules.reduced)

COPY = Op("COPY", 1, args.CopyArg, rules.infer_same, Kind.BOUNDARY)
CONTIGUOUS = Op("CONTIGUOUS", 1, NoArg, rules.infer_same, Kind.BOUNDARY)
SINK = Op("SINK", None, (NoArg, args.SinkArg), rules.infer_root, Kind.ROOT)

BUFFERIZE = Op("BUFFERIZE", 1, args.BufferizeArg, rules.infer_same, Kind.MEMORY)
RESERVED = Op("RESERVED", 0, args.ReservedArg, rules.infer_own, Kind.MEMORY)
STORE = Op("STORE", 2, args.StoreArg, rules.infer_stored, Kind.MEMORY)
AFTER = Op("AFTER", 2, NoArg, rules.infer_same, Kind.MEMORY)
BUFFER_VIEW = Op("BUFFER_VIEW", 1, args.BufferViewArg, rules.infer_to_ring, Kind.MEMORY)
KERNEL = Op("KERNEL", None, args.KernelArg, rules.infer_root, Kind.MEMORY)

PERMUTE = Op("PERMUTE", 1, args.AutomorphismArg, rules.infer_same, Kind.VIEW)
FLIP = Op("FLIP", 1, args.AutomorphismArg, rules.infer_same, Kind.ELEMENTWISE)
AT_ZERO = Op("AT_ZERO", 1, NoArg, rules.infer_same, Kind.ELEMENTWISE)
FILL = Op("FILL", 0, args.ConstArg, rules.infer_literal, Kind.CONSTANT)
DELTA = Op("DELTA", 0, args.ConstArg, rules.infer_leaf, Kind.CONSTANT)
GIDX = Op("GIDX", 0, args.GridArg, rules.infer_own, Kind.INDEX)
INDEX = Op("INDEX", 1, args.IndexArg, lambda src, arg: src[0], Kind.INDEX)
LOAD = Op("LOAD", 2, NoArg, rules.infer_stored, Kind.INDEX)

OPS: dict[str, Op] = {op.name: op for op in tuple(globals().values()) if isinstance(op, Op)}
