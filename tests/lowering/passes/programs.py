"""Random well-typed programs, drawn from the op table itself.

Every op that a program can be written with is drawn: its sources by its arity, its argument by the
class that its row names. An op whose argument has no strategy here makes the tests fail.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import jax
import numpy as np
from hypothesis import strategies as st

from ren.core import OPS, Domain, Node, Op, RingSpec, Spec, buffer, make, placeholder
from ren.core import op as ops
from ren.core.errors import RenError
from ren.core.node import next_serial
from ren.core.op import Kind
from ren.core.spec import (
    AutomorphismArg,
    BoundArg,
    ConstArg,
    CopyArg,
    DivideArg,
    MacArg,
    MixArg,
    ModUpArg,
    NoArg,
    PartArg,
    RingArg,
    RotateArg,
    ScalarArg,
    ShiftArg,
    StackArg,
)
from ren.lowering.kernels.mixing import matrix_of
from tests import oracle, rings
from tests.lowering.passes.polynomials import meaning

# Ops that only passes make, and what they make them of; so are all of the kinds below.
LOWERED = {"SLOT": "BUFFER", "PERMUTE": "AUTOMORPHISM", "FLIP": "AUTOMORPHISM", "FILL": "CONST",
           "DELTA": "CONST", "AT_ZERO": "SCALAR"}  # fmt: skip
_LOWERED_KINDS = (Kind.MEMORY, Kind.INDEX, Kind.ROOT)

WRITTEN: tuple[Op, ...] = tuple(
    op for op in OPS.values() if op.kind not in _LOWERED_KINDS and op.name not in LOWERED
)
LEAVES = tuple(op for op in WRITTEN if op.kind is Kind.LEAF and op is not ops.SCALAR)
# An op that leads to another degree: `embedded` draws it.
OF_DEGREES = (ops.EMBED,)
DRAWN = tuple(op for op in WRITTEN if op.kind is not Kind.LEAF and op not in OF_DEGREES)
# The ops when seeds of programs were noted: others that are drawn would give other programs.
NOTED = tuple(op for op in DRAWN if op not in (ops.MAC, ops.MIX, ops.DIVIDE, ops.SHIFT))

PRIMES, MOST_LIMBS, MOST_VALUE, MOST_BATCH = 6, 4, 1 << 70, 12


@attrs.frozen(repr=False)
class Program:
    """A SINK, and the coefficients `object[*batch, n]` of every node drawn, by the oracle."""

    sink: Node
    values: dict[Node, np.ndarray]

    def __repr__(self) -> str:
        return str(self.sink)

    @property
    def inputs(self) -> dict[Node, np.ndarray]:
        """The values of the inputs alone; a SCALAR gives its own."""
        return {x: value for x, value in self.values.items() if x.op in LEAVES}


@attrs.frozen
class _Drawing:
    """A program being drawn: its degree and primes, and the value of each node so far."""

    rng: random.Random
    n: int
    primes: tuple[int, ...]
    values: dict[Node, np.ndarray]

    def ring(self, pool: Sequence[int]) -> RingSpec:
        """A ring over some moduli of `pool`, in any order."""
        limbs = self.rng.randint(1, min(MOST_LIMBS, len(pool)))
        return RingSpec(self.n, self.rng.sample(list(pool), limbs))

    def node(self, among: Sequence[Node]) -> Node:
        """One of `among`, the last ones more often than not: so programs get deep and share."""
        return self.rng.choice(among[-3:] if self.rng.random() < 0.5 else among)


def _ring_arg(d: _Drawing, op: Op, src: Sequence[Node]) -> RingArg:
    """Any ring, or a part of the source's where the op takes one; a JOIN's is given."""
    if op.arity is None:
        moduli = list(dict.fromkeys(m for s in src for m in s.spec.ring.moduli))
        return RingArg(RingSpec(d.n, d.rng.sample(moduli, len(moduli))))
    is_part = op.kind is Kind.VIEW or d.rng.random() < 0.5
    return RingArg(d.ring(src[0].spec.ring.moduli if is_part else d.primes))


def _mod_up_arg(d: _Drawing, op: Op, src: Sequence[Node]) -> ModUpArg:
    return ModUpArg(d.ring(src[0].spec.ring.moduli).moduli, d.ring(d.primes))


def _const_arg(d: _Drawing, op: Op, src: Sequence[Node]) -> ConstArg:
    ring = d.node(list(d.values)).spec.ring
    value = d.rng.choice([0, 1, 2, ring.q - 1, ring.q // 2, d.rng.randrange(MOST_VALUE)])
    return ConstArg(value % ring.q, ring, d.rng.choice(list(Domain)))


def _bound_arg(d: _Drawing, op: Op, src: Sequence[Node]) -> BoundArg:
    """A promise that the source keeps."""
    q = src[0].spec.ring.q
    largest = max(abs(oracle.centred(x, q)) for x in d.values[src[0]].flat)
    return BoundArg(float((largest + 1).bit_length()))


def _part_arg(d: _Drawing, op: Op, src: Sequence[Node]) -> PartArg:
    axis = d.rng.choice((0, -1))
    return PartArg(d.rng.randrange((src[0].spec.batch or (1,))[axis]), axis)


def _divide_arg(d: _Drawing, op: Op, src: Sequence[Node]) -> DivideArg:
    """Centred or not; digits are those of an integer that is not negative."""
    kind, ring, q = (
        d.rng.choice(("quotient", "remainder", "digits")),
        d.ring(d.primes),
        src[0].spec.ring.q,
    )
    by = d.rng.choice((1, 2, 7, q, 2 * q + 1, d.rng.randrange(1, MOST_VALUE)))
    if kind == "digits":
        plus, minus = d.rng.choice((0, d.rng.randrange(MOST_VALUE))), d.rng.randrange(3)
        return DivideArg(kind, ring, by + 1, 1, plus, 0, minus, d.rng.randint(1, 3))
    times = d.rng.choice((1, 2, 2 * q, d.rng.randrange(1, MOST_VALUE)))
    plus, below = d.rng.randrange(-MOST_VALUE, MOST_VALUE), d.rng.choice((0, -times * q))
    return DivideArg(kind, ring, by, times, plus, below, d.rng.randrange(-3, 3))


def _mac_arg(d: _Drawing, op: Op, src: Sequence[Node]) -> MacArg:
    count = (src[0].spec.batch or (1,))[0]
    return MacArg(tuple(d.rng.randrange(count) for _ in src[1:]))


def _mix_arg(d: _Drawing, op: Op, src: Sequence[Node]) -> MixArg:
    batch = src[0].spec.batch or (1,)
    axis = -d.rng.randint(1, len(batch))
    rows, most = d.rng.randint(1, 5), d.rng.choice((1, 1 << 7, MOST_VALUE))
    weights = [[d.rng.randint(-most, most) for _ in range(batch[axis])] for _ in range(rows)]
    return MixArg(matrix_of(np.array(weights, object)), axis)


ARGUMENTS: dict[Any, Callable[[_Drawing, Op, Sequence[Node]], Any]] = {
    NoArg: lambda d, op, src: NoArg(),
    PartArg: _part_arg,
    DivideArg: _divide_arg,
    ShiftArg: lambda d, op, src: ShiftArg(d.rng.randrange(1, 2 * d.n)),
    MacArg: _mac_arg,
    MixArg: _mix_arg,
    StackArg: lambda d, op, src: StackArg(d.rng.choice((0, -1))),
    RingArg: _ring_arg,
    ModUpArg: _mod_up_arg,
    ConstArg: _const_arg,
    BoundArg: _bound_arg,
    RotateArg: lambda d, op, src: RotateArg(d.rng.randrange(d.n // 2)),
    AutomorphismArg: lambda d, op, src: AutomorphismArg(d.rng.randrange(1, 2 * d.n, 2)),
    CopyArg: lambda d, op, src: CopyArg(jax.devices("cpu")[0]),
}


def _sources(d: _Drawing, op: Op) -> list[Node]:
    """Sources in one ring; for an op of any number of sources, that or over disjoint moduli."""
    if op.arity == 0:
        return []
    nodes = list(d.values)
    first = d.node(nodes)
    same = [x for x in nodes if x.spec.ring == first.spec.ring]
    if op.arity is not None:
        return [first, *(d.node(same) for _ in range(op.arity - 1))]
    if d.rng.random() < 0.5:
        return [d.node(same) for _ in range(d.rng.randint(1, 6))]
    src = [first]
    for node in d.rng.sample(nodes, len(nodes)):
        taken = {m for s in src for m in s.spec.ring.moduli}
        if taken.isdisjoint(node.spec.ring.moduli) and len(src) < 3:
            src.append(node)
    return src


def _append(d: _Drawing, op: Op) -> None:
    """Draws one more node; draws again where the op does not apply to what was drawn."""
    assert op.arg in ARGUMENTS, f"add a strategy for the argument of {op.name} to {__name__}"
    for _ in range(10):
        src = _sources(d, op)
        if op.kind is Kind.ELEMENTWISE and d.rng.random() < 0.5:
            d.rng.shuffle(src)
        if op in (ops.ADD, ops.SUB, ops.MUL) and d.rng.random() < 0.25:
            src[d.rng.randrange(2)] = _scalar(d, src[0].spec.ring)
        if op is ops.MAC:  # the factors have a batch axis
            src.sort(key=lambda s: not s.spec.batch)
        try:
            node = make(op, src, ARGUMENTS[op.arg](d, op, src))
        except RenError:
            continue
        if math.prod(node.spec.batch) > MOST_BATCH:
            continue
        known = (meaning(s) if s.op is ops.SCALAR else d.values[s] for s in src)
        d.values[node] = meaning(node, *known)
        return


def _scalar(d: _Drawing, ring: RingSpec) -> Node:
    """A constant whose value comes with each run: a factor or a term, as users can write it."""
    value = d.rng.choice([0, 1, -1, 1 - ring.q, d.rng.randrange(-MOST_VALUE, MOST_VALUE)])
    domain = d.rng.choice(list(Domain))
    return make(ops.SCALAR, (), ScalarArg(next_serial(), ring, domain, lambda values: value))


def _input(d: _Drawing, ring: RingSpec) -> None:
    """A BUFFER or a PLACEHOLDER with random coefficients: any, small, or at the edges."""
    spec = Spec(ring, d.rng.choice(list(Domain)), d.rng.choice([(), (), (2,)]))
    edges = [0, 1, ring.q - 1, ring.q // 2, ring.q // 2 + 1]
    kinds = [
        lambda: d.rng.randrange(ring.q),
        lambda: d.rng.randint(-3, 3) % ring.q,
        lambda: d.rng.choice(edges),
    ]
    kind = d.rng.choice(kinds)
    values = np.empty((*spec.batch, d.n), object)
    for index in np.ndindex(*values.shape):
        values[index] = kind()
    if d.rng.choice(LEAVES) is ops.PLACEHOLDER:
        node = placeholder(spec)
    else:
        node = buffer(np.zeros(spec.shape, np.uint32), ring, spec.domain)
    d.values[node] = values


def generate(
    seed: int, n: int, steps: int, using: Op | None = None, among: Sequence[Op] = DRAWN
) -> Program:
    """The program that belongs to `seed`; one of fewer steps is its beginning."""
    rng = random.Random(seed)
    pool = rings.primes(n)
    primes = rng.sample(rng.choice([pool, pool[:16], pool[-16:]]), PRIMES)
    d = _Drawing(rng, n, tuple(primes), {})
    main = d.ring(primes)
    for ring in (main, main, d.ring(primes)):
        _input(d, ring)
    for i in range(steps):
        _append(d, using if using and i % 3 == 0 else rng.choice(among))
    nodes = list(d.values)
    roots = dict.fromkeys((nodes[-1], *nodes[-9:-1:3]))  # unused values beside the last one
    return Program(make(ops.SINK, roots), d.values)


def embedded(seed: int, n: int, steps: int) -> Program:
    """A program of degree n on embedded values of programs of smaller degrees; some are roots."""
    rng = random.Random(seed)
    primes = tuple(rng.sample(rings.primes(n), PRIMES))
    values: dict[Node, np.ndarray] = {}
    for degree in [m for m in (n // 4, n // 2, n) if m >= 4]:
        d = _Drawing(rng, degree, primes, {})
        _input(d, d.ring(primes))
        for x in rng.sample(list(values), min(3, len(values))):
            ring = RingSpec(degree, x.spec.ring.moduli)
            node = make(ops.EMBED, (x,), RingArg(ring))
            d.values[node] = meaning(node, values[x])
        for _ in range(steps):
            _append(d, rng.choice(DRAWN))
        values |= d.values
    nodes = list(values)
    roots = dict.fromkeys((nodes[-1], *rng.sample(nodes, min(3, len(nodes)))))
    return Program(make(ops.SINK, roots), values)


def of_several_degrees(
    steps: int = 8, degrees: Sequence[int] = (4, 8, 16)
) -> st.SearchStrategy[Program]:
    """Programs that `embedded` draws, of up to `steps` ops in each degree."""
    seeds = st.integers(0, 2**32 - 1)
    return st.builds(embedded, seeds, st.sampled_from(degrees), st.integers(1, steps))


def programs(
    steps: int = 24, degrees: Sequence[int] = (4, 8, 16), using: Op | None = None
) -> st.SearchStrategy[Program]:
    """Programs of up to `steps` ops of the table, with one to four roots.

    Args:
        steps: how many ops are drawn at most.
        degrees: the degrees n to draw from.
        using: an op that is drawn more often than the others.
    """
    seeds = st.integers(0, 2**32 - 1)
    lengths = st.integers(1, steps).map(lambda k: steps + 1 - k)  # long ones are the simplest
    lengths = st.one_of(lengths, st.integers(1, steps))
    return st.builds(generate, seeds, st.sampled_from(degrees), lengths, st.just(using))
