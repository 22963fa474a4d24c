"""Part of pass 2: products in general rings, through the exact product modulo NTT primes.

A product of coefficients below m is an integer polynomial with coefficients below n m^2. Modulo NTT
primes whose product is larger it is known exactly, and lifts back to any modulus. So MUL becomes a
lift of both factors, one product, and one lift back for each modulus. Sums of products are summed
before they are lifted back, where the primes hold the sum.

Wide moduli have no products at all. Their products with constants, mixes of batches, and lifts from
them go the same way.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping

import attrs
import numpy as np

from ren.core import op as ops
from ren.core.node import Node, const, make, toposort
from ren.core.numtheory import centered
from ren.core.rewrite import Table, readers, rebuild, rewrite, to_domain
from ren.core.ring import (
    Domain,
    RingSpec,
    basis_over,
    exact_basis,
    is_ntt_prime,
    product_bound,
    width,
)
from ren.core.spec import MixArg, RingArg, ScalarArg
from ren.lowering.kernels.mixing import entries, matrix_of
from ren.lowering.passes.lower_ring_ops import join, scaled, view


def exact_products(sink: Node) -> Node:
    """`sink` without products in general rings, and with wide moduli only where they are cheap."""
    if not any(node.spec and node.spec.ring.is_general for node in toposort(sink)):
        return sink
    return _sum_before_lifting(rewrite(sink, RULES))


def _product(node: Node) -> Node | None:
    """a b, modulus by modulus."""
    a, b = node.src
    ring = node.spec.ring
    if not ring.is_general:
        return None
    is_constant = a.spec.is_constant or b.spec.is_constant
    if is_constant and not ring.has_wide:
        return None
    by_modulus = _scaled_part if is_constant else _product_part
    parts = [by_modulus(_limbs_of(a, (m,)), _limbs_of(b, (m,)), m) for m in ring.moduli]
    return join(parts, ring)


def _limbs_of(x: Node, moduli: tuple[int, ...]) -> Node:
    if x.op is ops.SCALAR:  # known at each run, and still a constant
        return make(ops.SCALAR, (), attrs.evolve(x.arg, ring=x.arg.ring.with_moduli(moduli)))
    return view(x, moduli)


def _product_part(a: Node, b: Node, m: int) -> Node:
    n = a.spec.ring.n
    if is_ntt_prime(n, m):
        return to_domain(make(ops.MUL, (a, b)), Domain.COEFF)
    basis = RingSpec(n, exact_basis(n, m))
    product = make(ops.MUL, (_to_primes(a, basis), _to_primes(b, basis)))
    return make(ops.LIFT, (product,), RingArg(a.spec.ring))


def _scaled_part(a: Node, b: Node, m: int) -> Node:
    """c x for a constant c; modulo a wide m through primes whose product is over m^2 / 2."""
    if width(m) == 1:
        return make(ops.MUL, (a, b))
    x, c = (b, a) if a.spec.is_constant else (a, b)
    if c.op is ops.CONST and centered(c.arg.value, m) in (-1, 2):
        return make(ops.NEG, (x,)) if c.arg.value > 2 else make(ops.ADD, (x, x))
    basis = basis_over(x.spec.ring.n, m * m // 2)
    product = make(ops.MUL, (_to_primes(x, basis), _constant(c, m, basis)))
    return make(ops.LIFT, (product,), RingArg(x.spec.ring))


def _constant(c: Node, m: int, basis: RingSpec) -> Node:
    """A constant modulo m, by its representative that is least in absolute value."""
    if c.op is ops.CONST:
        return const(centered(c.arg.value, m), basis)
    value: Callable = c.arg.value
    # Another value than that modulo another m over the same basis: it has a number of its own.
    digest = hashlib.sha256(f"{c.arg.serial} modulo {m}".encode()).digest()
    serial, centred = int.from_bytes(digest, "big"), lambda values: centered(value(values), m)
    return make(ops.SCALAR, (), ScalarArg(serial, basis, c.arg.domain, centred, c.arg.device))


def _mix(node: Node) -> Node | None:
    """Modulo a wide m through primes whose product is over that of all terms."""
    (x,), ring = node.src, node.spec.ring
    if not ring.has_wide:
        return None
    return join([_mixed_part(view(x, (m,)), m, node.arg) for m in ring.moduli], ring)


def _mixed_part(x: Node, m: int, arg: MixArg) -> Node:
    if width(m) == 1:
        return make(ops.MIX, (x,), arg)
    least = entries(arg.weights).astype(object) % m
    least -= (least > m // 2) * m
    basis = basis_over(x.spec.ring.n, m * int(np.abs(least).sum(1).max()))
    mixed = make(ops.MIX, (_to_primes(x, basis),), attrs.evolve(arg, weights=matrix_of(least)))
    return make(ops.LIFT, (mixed,), RingArg(x.spec.ring))


def _to_primes(x: Node, basis: RingSpec) -> Node:
    return make(ops.LIFT, (x,), RingArg(basis))


def _lift(node: Node) -> Node | None:
    """A lift between wide moduli, from several or to several of which one is wide."""
    (x,) = node.src
    have, ring = x.spec.ring, node.spec.ring
    if have.has_wide and (len(have.moduli) > 1 or ring.has_wide):
        return make(ops.LIFT, (_centred(x),), node.arg)
    if not ring.has_wide or len(ring.moduli) == 1:
        return None
    narrow = tuple(m for m in ring.moduli if width(m) == 1)
    groups = [*([narrow] if narrow else []), *((m,) for m in ring.moduli if width(m) == 2)]
    parts = [make(ops.LIFT, (x,), RingArg(ring.with_moduli(group))) for group in groups]
    return join(parts, ring)


def _centred(x: Node) -> Node:
    """The centred lift of x modulo NTT primes whose product is over q.

    Mixed radix u = v_1 + v_2 m_1 + v_3 m_1 m_2 + ... with v_i centred modulo m_i, which adds up to
    (q - 1)/2 at most (all moduli are odd).
    """
    ring = x.spec.ring
    basis = basis_over(ring.n, ring.q)
    total: Node | None = None
    for i, m in enumerate(ring.moduli):
        own, done = view(x, (m,)), math.prod(ring.moduli[:i])
        if total is not None:
            known = make(ops.LIFT, (total,), RingArg(own.spec.ring))
            own = scaled(make(ops.SUB, (own, known)), pow(done, -1, m))
        term = scaled(_to_primes(own, basis), done)
        total = term if total is None else make(ops.ADD, (total, term))
    assert total is not None  # a ring has moduli
    return total


RULES: Table = {"MUL": (_product,), "LIFT": (_lift,), "MIX": (_mix,)}


def _sum_before_lifting(sink: Node) -> Node:
    """`sink` with LIFT(a) + LIFT(b) as LIFT(a + b), where the primes hold the sum."""
    order = toposort(sink)
    users = readers(order)
    terms: dict[Node, int] = {}  # how many products a value modulo primes is the sum of

    def summed(node: Node, new: Mapping[Node, Node]) -> Node | None:
        if node.op is ops.MUL and not any(s.spec.is_constant for s in node.src):
            terms[node] = 1
        if node.op not in (ops.ADD, ops.SUB) or not node.spec.ring.is_general:
            return None
        a, b = (new[s] for s in node.src)
        if any(len(users[s]) > 1 for s in node.src) or not (_is_lifted(a) and _is_lifted(b)):
            return None
        pairs = list(zip(_lifts(a), _lifts(b), strict=True))
        if not all(_fits(p, q, terms) for p, q in pairs):
            return None
        parts = []
        for p, q in pairs:
            (x,), (y,) = p.src, q.src
            total = make(node.op, (x, y))
            terms[total] = terms[x] + terms[y]
            parts.append(make(ops.LIFT, (total,), p.arg))
        return join(parts, node.spec.ring)

    return rebuild(order, summed)[sink]


def _lifts(x: Node) -> tuple[Node, ...]:
    return x.src if x.op is ops.JOIN else (x,)


def _is_lifted(x: Node) -> bool:
    return all(part.op is ops.LIFT and len(part.spec.ring.moduli) == 1 for part in _lifts(x))


def _fits(a: Node, b: Node, terms: Mapping[Node, int]) -> bool:
    """True where a sum of products modulo NTT primes is below half the product of the primes."""
    (x,), (y,) = a.src, b.src
    if x not in terms or y not in terms or x.spec.ring != y.spec.ring:
        return False
    bound = product_bound(x.spec.ring.n, a.spec.ring.q)
    return 2 * (terms[x] + terms[y]) * bound < x.spec.ring.q
