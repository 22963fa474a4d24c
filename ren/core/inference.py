"""Functions in the rows of the op table: type rules, folding of constants, work."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import attrs

from ren.core.errors import DomainError, RingMismatchError
from ren.core.numtheory import centered
from ren.core.ring import Domain, RingSpec, is_subset
from ren.core.spec import (
    ConstArg,
    DivideArg,
    MacArg,
    MixArg,
    ModUpArg,
    PartArg,
    RingArg,
    Spec,
    StackArg,
    Work,
)

Specs = tuple[Spec, ...]
Infer = Callable[[Specs, Any], Spec | None]
MOST_MIXED = 1 << 17  # terms of a sum in `kernels/mixing.py`: of 2^32 each it stays below 2^53


def batch(src: Specs) -> tuple[int, ...]:
    """The batch shape of operands together, by NumPy's broadcasting rule."""
    shapes = tuple([s.batch for s in src])
    if shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    out = []
    for axis in range(-max(map(len, shapes)), 0):
        sizes = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(sizes) > 1:
            raise DomainError(
                f"The batch shapes {' and '.join(map(str, shapes))} were combined.",
                "Batch axes follow NumPy's broadcasting: equal, or 1.",
                "Use jax.vmap, or reshape the limb arrays.",
            )
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def same_ring(src: Specs, what: str) -> RingSpec:
    ring = src[0].ring
    for s in src[1:]:
        other = s.ring
        if other != ring:
            raise RingMismatchError(
                f"{what} got polynomials of two rings: {brief(ring)} and {brief(other)}.",
                "Both operands must be in one ring.",
                "Convert one of them: x.to_ring(y.ring) or x.rescale(y.ring.moduli)."
                if other.n == ring.n
                else "Make both with one n; x.embed(ring) raises the degree.",
            )
    return ring


def brief(ring: RingSpec) -> str:
    shown = ring.moduli if ring.limbs <= 4 else (*ring.moduli[:3], "...")
    limbs = f"{ring.limbs} limb{'s' * (ring.limbs > 1)}"
    return f"n={ring.n}, moduli=({', '.join(map(str, shown))}) [{limbs}]"


def joint_domain(src: Specs) -> Domain:
    """NTT where an operand is in it."""
    return Domain.NTT if any([s.domain is Domain.NTT for s in src]) else Domain.COEFF


def infer_root(src: Specs, arg: Any) -> None:
    """A SINK and a KERNEL have no value."""


def infer_linear(what: str) -> Infer:
    def infer(src: Specs, arg: object) -> Spec:
        first = src[0]
        is_one = first is src[-1] and len(src) <= 2
        if is_one and not (first.is_literal or first.is_scalar):
            return first
        return Spec(same_ring(src, what), joint_domain(src), batch(src))

    return infer


def infer_mul(src: Specs, arg: object) -> Spec:
    """A product with a constant stays in its domain; any other is in the NTT domain, if any."""
    first = src[0]
    if first is src[1] and first.domain is Domain.NTT and not first.is_constant:
        return first
    ring = same_ring(src, "A product")
    proper = tuple([s for s in src if not s.is_constant])
    is_value = len(proper) == 2 and not ring.is_general
    domain = Domain.NTT if is_value else joint_domain(proper or src)
    return Spec(ring, domain, batch(src))


def infer_dot(src: Specs, arg: object) -> Spec:
    """x_1 y_1 + x_2 y_2 + ..., sources in the order x_1, y_1, x_2, y_2, ..."""
    if not src or len(src) % 2:
        raise DomainError(f"DOT got {len(src)} factors.", "It sums products of two.")
    return Spec(same_ring(src, "A sum of products"), Domain.NTT, batch(src))


def infer_mac(src: Specs, arg: MacArg) -> Spec:
    """w[i_1] x_1 + w[i_2] x_2 + ..., sources in the order w, x_1, x_2, ..."""
    if len(src) < 2 or len(src) - 1 != len(arg.indices):
        raise DomainError(
            f"MAC got {len(src)} sources and {len(arg.indices)} indices.",
            "It takes the factors w, then one source for each index.",
            "Pass one index for each term.",
        )
    w, terms = src[0], src[1:]
    count = w.batch[0] if w.batch else 0
    if not all(0 <= i < count for i in arg.indices):
        raise DomainError(
            f"Indices up to {max(arg.indices)} were asked of a polynomial with batch shape "
            f"{w.batch}.",
            "They count along its first axis.",
            "Pass indices from 0 on that are below its size.",
        )
    ring = same_ring(src, "A sum of products")
    return Spec(ring, Domain.NTT, batch((attrs.evolve(w, batch=w.batch[1:]), *terms)))


def infer_same(src: Specs, arg: object) -> Spec:
    return dense(src[0])


def dense(spec: Spec) -> Spec:
    """The type of a computed value: all n residues a limb, not known to be a constant."""
    return Spec(spec.ring, spec.domain, spec.batch) if spec.is_constant else spec


def stored(spec: Spec) -> Spec:
    """The type of a value in memory: a scalar stays one, a literal is not known to be one."""
    return attrs.evolve(spec, is_literal=False) if spec.is_literal else spec


def infer_into(domain: Domain) -> Infer:
    def infer(src: Specs, arg: object) -> Spec:
        return Spec(src[0].ring, has_domain(src[0].ring, domain), src[0].batch)

    return infer


def has_domain(ring: RingSpec, domain: Domain) -> Domain:
    """`domain`, if a ring has it.

    Raises:
        DomainError: the NTT domain of a general ring.
    """
    if ring.is_general and domain is Domain.NTT:
        raise DomainError(
            f"The NTT domain was asked of {brief(ring)}.",
            f"It needs primes q = 1 (mod {2 * ring.n}) below 2^30 for all limbs.",
            "Leave out ntt(): a general ring keeps coefficients, and multiplies them exactly.",
        )
    return domain


def own_domain(ring: RingSpec, domain: Domain) -> Domain:
    """`domain`, or coefficients where the ring has no other domain."""
    return Domain.COEFF if ring.is_general else domain


def infer_leaf(src: Specs, arg: Any) -> Spec:
    return _leaf(arg.ring, arg.domain, getattr(arg, "batch", ()))


@lru_cache(maxsize=1 << 10)
def _leaf(ring: RingSpec, domain: Domain, batch: tuple[int, ...]) -> Spec:
    """One object for equal types, so that operands of one type are seen to have it."""
    return Spec(ring, has_domain(ring, domain), batch)


def infer_scalar(src: Specs, arg: Any) -> Spec:
    return Spec(arg.ring, has_domain(arg.ring, arg.domain), is_scalar=True)


def infer_literal(src: Specs, arg: ConstArg) -> Spec:
    return Spec(arg.ring, has_domain(arg.ring, arg.domain), is_literal=True)


def over(spec: Spec, ring: RingSpec, what: str) -> Spec:
    """The type of a computed value over other moduli."""
    if ring.n != spec.ring.n:
        raise RingMismatchError(
            f"{what} got a ring of degree {ring.n} for a polynomial of degree {spec.ring.n}.",
            "A conversion changes the moduli, never the degree.",
            f"Use RingSpec(n={spec.ring.n}, moduli=...).",
        )
    return Spec(ring, own_domain(ring, spec.domain), spec.batch)


def infer_to_ring(src: Specs, arg: RingArg) -> Spec:
    return over(src[0], arg.ring, "to_ring")


def infer_rescale(src: Specs, arg: RingArg) -> Spec:
    made, have = over(src[0], arg.ring, "rescale"), src[0].ring
    if is_subset(have.moduli, arg.ring.moduli):
        raise RingMismatchError(
            f"rescale from {brief(have)} to {brief(arg.ring)} divides nothing away.",
            "At least one modulus of the polynomial must be missing from the new basis.",
            "Leave out what to divide by: x.rescale(x.ring.moduli[:-1]); "
            "to change basis only, use to_ring.",
        )
    left = math.prod(m for m in have.moduli if m not in arg.ring.moduli)
    for m in arg.ring.moduli:
        if (shared := math.gcd(m, left)) > 1:
            raise RingMismatchError(
                f"rescale from {brief(have)} to {brief(arg.ring)} divides by a multiple of "
                f"{shared}, a factor of the modulus {m}.",
                "What is divided away has an inverse modulo each modulus of the new basis.",
                "Leave out whole moduli with no prime in common with the others; to change basis "
                "only, use to_ring.",
            )
    return made


def infer_mod_up(src: Specs, arg: ModUpArg) -> Spec:
    made, have = over(src[0], arg.ring, "mod_up"), src[0].ring
    if not arg.digit or not is_subset(arg.digit, have.moduli):
        raise RingMismatchError(
            f"mod_up got the digit {arg.digit}, not a part of {brief(have)}.",
            "A digit is one or more of the polynomial's own moduli.",
            "Pass for example x.ring.moduli[:2].",
        )
    return _without_wide(made, src[0], "mod_up")


def infer_mod_down(src: Specs, arg: RingArg) -> Spec:
    made, have = over(src[0], arg.ring, "mod_down"), src[0].ring
    if not set(arg.ring.moduli) < set(have.moduli):
        raise RingMismatchError(
            f"mod_down got {brief(arg.ring)} for a polynomial over {brief(have)}.",
            "The target is a proper part of the polynomial's basis; the rest is divided away.",
            "Pass the ring without the special primes; for any other basis use rescale.",
        )
    return _without_wide(made, src[0], "mod_down")


def _without_wide(made: Spec, src: Spec, what: str) -> Spec:
    """`made`, where no modulus is wide: the approximate lift is made of limbs below 2^30."""
    for ring in (made.ring, src.ring):
        if ring.has_wide:
            raise RingMismatchError(
                f"{what} got {brief(ring)}.",
                "Its approximate lift takes moduli below 2^30.",
                "Use to_ring and rescale, which are exact for any moduli.",
            )
    return made


def infer_base_change(src: Specs, arg: RingArg) -> Spec:
    return Spec(over(src[0], arg.ring, "base conversion").ring, Domain.COEFF, src[0].batch)


def infer_divide(src: Specs, arg: DivideArg) -> Spec:
    """The target ring; digits along a new first batch axis."""
    made = infer_base_change(src, RingArg(arg.ring))
    return attrs.evolve(made, batch=(arg.count, *made.batch)) if arg.count else made


def infer_shift(src: Specs, arg: object) -> Spec:
    return Spec(src[0].ring, Domain.COEFF, src[0].batch)


def infer_join(src: Specs, arg: RingArg) -> Spec:
    parts = [m for s in src for m in s.ring.moduli]
    if sorted(parts) != sorted(arg.ring.moduli):
        raise RingMismatchError(
            f"JOIN got limbs for {parts}.", f"It makes {brief(arg.ring)} from disjoint parts."
        )
    return Spec(arg.ring, own_domain(arg.ring, joint_domain(src)), batch(src))


def infer_stack(src: Specs, arg: StackArg) -> Spec:
    """A new batch axis, one entry a source."""
    if not src:
        raise DomainError(
            "STACK got no polynomials.", "It takes one or more of one ring.", "Pass a polynomial."
        )
    axes = batch(src)
    made = (len(src), *axes) if arg.axis == 0 else (*axes, len(src))
    return Spec(same_ring(src, "A stack"), joint_domain(src), made)


def infer_part(src: Specs, arg: PartArg) -> Spec:
    spec = src[0]
    if not spec.batch or not 0 <= arg.index < spec.batch[arg.axis]:
        raise DomainError(
            f"Position {arg.index} was asked of a polynomial with batch shape {spec.batch}.",
            f"It takes one entry of the {'last' if arg.axis else 'first'} one.",
            "Pass an index from 0 on that is below its size.",
        )
    return attrs.evolve(spec, batch=spec.batch[:-1] if arg.axis else spec.batch[1:])


def infer_mix(src: Specs, arg: MixArg) -> Spec:
    """sum_b w[j, b] x[b] at each j, along a batch axis."""
    spec, w = dense(src[0]), arg.weights
    if len(spec.batch) < -arg.axis or spec.batch[arg.axis] != w.columns:
        raise DomainError(
            f"A matrix of {w.rows} x {w.columns} was to mix a polynomial with batch shape "
            f"{spec.batch}.",
            "It takes one column for each entry of the batch axis that it mixes.",
            "Pass a matrix with so many columns, or another axis.",
        )
    if not w.rows > 0 or not 0 < w.columns <= MOST_MIXED:
        raise DomainError(
            f"A matrix of {w.rows} x {w.columns} was to mix a batch of polynomials.",
            f"It has at least one row, and 1 to {MOST_MIXED:,} columns.",
            "Mix parts of the batch, and add the results.",
        )
    sizes = list(spec.batch)
    sizes[arg.axis] = w.rows
    return attrs.evolve(spec, batch=tuple(sizes))


def infer_embed(src: Specs, arg: RingArg) -> Spec:
    """The ring of the same moduli and a multiple of the degree."""
    have, ring = src[0].ring, arg.ring
    if ring.n % have.n:
        raise RingMismatchError(
            f"embed got a ring of degree {ring.n} for a polynomial of degree {have.n}.",
            "p(X^k) is of degree k n: embed leads to a ring of the same or a larger degree.",
            f"Use RingSpec(n={2 * have.n}, moduli=...), with the moduli of the polynomial.",
        )
    if ring.moduli != have.moduli:
        raise RingMismatchError(
            f"embed got {brief(ring)} for a polynomial over {brief(have)}.",
            "An embedding changes the degree, never the moduli or their order.",
            f"Use x.embed(RingSpec(n={ring.n}, moduli=x.ring.moduli)); to_ring changes moduli.",
        )
    return Spec(ring, own_domain(ring, src[0].domain), src[0].batch)


def infer_own(src: Specs, arg: Any) -> Spec:
    return stored(arg.spec)


def infer_stored(src: Specs, arg: object) -> Spec:
    """The second source's: what is stored at a place, or the grid that is loaded."""
    return stored(src[1])


def lifted(ring: RingSpec, arg: RingArg, value: int) -> int:
    """The centred representative of a constant, mod the new q."""
    return centered(value, ring.q) % arg.ring.q


def converted(ring: RingSpec, arg: RingArg, value: int) -> int:
    """The approximate centred lift of a constant: sum of y_i q/q_i, y_i = value (q/q_i)^-1."""
    total = 0
    for m in ring.moduli:
        rest = ring.q // m
        total += centered(value * pow(rest, -1, m), m) * rest
    return total % arg.ring.q


def reduced(ring: RingSpec, arg: object, value: int) -> int:
    return value


def transform_work(src: Specs, spec: Spec, arg: object) -> Work:
    return Work(limb_ntts=spec.ring.limbs * math.prod(spec.batch))


def product_work(src: Specs, spec: Spec, arg: object) -> Work:
    """One multiply-add a residue for each two factors."""
    return Work(multiply_adds=math.prod(spec.shape) * (len(src) // 2))


def mac_work(src: Specs, spec: Spec, arg: object) -> Work:
    """One multiply-add a residue for each term."""
    return Work(multiply_adds=math.prod(spec.shape) * (len(src) - 1))


def mix_work(src: Specs, spec: Spec, arg: MixArg) -> Work:
    """One multiply-add a residue for each column."""
    return Work(multiply_adds=math.prod(spec.shape) * arg.weights.columns)


def convert_work(src: Specs, spec: Spec, arg: object) -> Work:
    """Each of k source limbs is scaled once and multiplied into each of m target limbs."""
    k, m = src[0].ring.limbs, spec.ring.limbs
    return Work(multiply_adds=k * (m + 1) * spec.ring.n * math.prod(spec.batch))


def divide_work(src: Specs, spec: Spec, arg: object) -> Work:
    """Words of 16 bits of k residues, multiplied by as many for each of three products."""
    words = 2 * src[0].ring.limbs
    return Work(multiply_adds=3 * words * words * spec.ring.n * math.prod(spec.batch))


def lift_work(src: Specs, spec: Spec, arg: object) -> Work:
    """Mixed radix takes k (k - 1) / 2 products, each target limb k more."""
    k, m = src[0].ring.limbs, spec.ring.limbs
    products = k * (k - 1) // 2 + k * m
    return Work(multiply_adds=products * spec.ring.n * math.prod(spec.batch))
