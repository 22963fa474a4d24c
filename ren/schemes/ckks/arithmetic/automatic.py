"""Sums and products of ciphertexts, in automatic mode: levels are aligned, and so are scales.

A product is tensor, key switch, rescale, all of it lazy in the graph. Sums start from the terms
before the key switch (see `lazy_product`). So a sum of products is relinearized and rescaled once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial, reduce
from typing import Any, TypeGuard

import attrs
import numpy as np

from ren.core.errors import DepthError, ParameterError
from ren.core.ring import Domain
from ren.lowering.devices.devices import is_tracer
from ren.lowering.kernels import embedding
from ren.poly import Poly
from ren.poly.batching import item, multiply_accumulate
from ren.poly.poly import from_array
from ren.poly.realization import capture_serial
from ren.poly.symbolic import Symbolic, derived
from ren.schemes.ckks.arithmetic.evolve import (
    drop_to,
    dropped,
    evolve,
    fills_slots,
    in_span,
    is_view,
    need_level,
    need_normal_form,
    within_that_of,
)
from ren.schemes.ckks.arithmetic.lazy_product import (
    LazySum,
    Operand,
    added,
    lazy_sum_of,
    pending_of,
    product_beyond,
)
from ren.schemes.ckks.arithmetic.operation_hooks import (
    circuit,
    is_of_program,
    note_cleared,
    operation,
    told_if_zero,
    with_levels,
)
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    Origin,
    known_length,
    with_fields,
)
from ren.schemes.ckks.encoding.layout import LEFTOVERS, Layout, Tail, number_tail
from ren.schemes.ckks.encoding.modulus_checks import check_factor, check_reachable, reached
from ren.schemes.ckks.encoding.plaintext import (
    Plaintext,
    constant_poly,
    decoded,
    encode,
)
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise import spans
from ren.schemes.ckks.noise.readable import Noise
from ren.schemes.ckks.noise.sigmas import as_float
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.active_context import context_for, same_key


def _sum(name: str, what: str, sign: int) -> Callable[[Automatic, CiphertextT, Any], CiphertextT]:
    """x + y, or x - y where the sign is -1: `y` a ciphertext, or a plaintext."""
    formula = operator.add if sign > 0 else operator.sub

    @operation(name, np.add if sign > 0 else np.subtract, is_method=True)
    def run(mode: Automatic, x: CiphertextT, y: Operand) -> CiphertextT:
        span = None
        if isinstance(y, Plaintext):
            check_plain(x, y, what)
        else:
            same_key(x.key_id, y.key_id, what)
            span = spans.combined(formula, x.span, y.span)
        layout = x.layout.plus(y.layout, sign)
        if _is_settled(x) and _is_settled(y) and x.level == y.level:  # in less time
            polys, noise = added(x.polys, y.polys, sign), noises.total(x.noise, y.noise)
            return evolve(x, polys, noise, layout=layout, span=span)
        left, right, level = mode.addends(x, y)
        return in_span(mode.summed(x, left.plus(right, sign), level, layout), span)

    return run


def _is_settled(x: Operand) -> TypeGuard[CiphertextData]:
    """True for a ciphertext in normal form from whose pending form no sum goes on."""
    if isinstance(x, Plaintext):
        return False
    return x.is_normal and x.pending is None


@attrs.frozen(eq=False)
class Factors:
    """Some of the plaintexts that lie in batches, all of the first batch's level and layout.

    Args:
        plaintexts: batches along one axis, all but the last of one size.
        numbers: of each factor its number among all.
    """

    plaintexts: tuple[Plaintext, ...]
    numbers: tuple[int, ...]

    def parts(self, terms: Sequence[Any]) -> list[tuple[Plaintext, list[int], list[Any]]]:
        """The batches that are read, each with the indices in it and the terms that they meet."""
        size, found = self.plaintexts[0].wide.shape[0], dict[int, tuple[list[int], list[Any]]]()
        for number, term in zip(self.numbers, terms, strict=True):
            indices, met = found.setdefault(number // size, ([], []))
            indices.append(number % size)
            met.append(term)
        return [(self.plaintexts[i], *part) for i, part in found.items()]

    def shadow(self, terms: Sequence[Any]) -> Any:
        """The sum of products of slots."""
        return sum(
            decoded(with_fields(p, wide=item(p.wide, i, 0))) * x
            for p, indices, met in self.parts(terms)
            for i, x in zip(indices, met, strict=True)
        )


class Automatic:
    """The operations of ciphertexts; each is checked, and seen by `ckks.debug`, as one of users'.

    `Manual` takes other decisions: how operands are aligned, and in which form a result is kept.
    """

    # ---------------------------------------------------------------- decisions

    def addend(self, x: Operand) -> LazySum:
        """The pending form of `x` until the normal form has run.

        What a function under `ren.jit` closes over runs once, at the capture, and counts as run.
        """
        if isinstance(x, Plaintext):
            return LazySum(base=(x.poly,), noise=x.noise)
        need_normal_form(x)
        settled = LazySum(base=x.polys, noise=x.noise)
        if x.pending is None:
            return settled
        first = capture_serial()
        if any(p.is_realized or p.node.serial < first for p in x.polys):
            return settled
        return lazy_sum_of(x.pending) or settled

    def addends(self, x: CiphertextData, y: Operand) -> tuple[LazySum, LazySum, int]:
        """Both at the lower level, pending where one of them is pending there; and the level."""
        level = min(x.level, y.level)
        left, right = [self.addend(o) if o.level == level else None for o in (x, y)]
        if left is None or right is None:
            there = left or right
            is_pending = there is not None and bool(there.product)
            left = left or _lowered(x, level, is_pending)
            right = right or _lowered(y, level, is_pending)
        return left, right, level

    def factors(self, x: CiphertextT, y: CiphertextT) -> tuple[CiphertextT, CiphertextT]:
        """Both at the lower level, with zeros in place of leftovers that no bound covers."""
        x, y = (bounded(v, 1, "A product of ciphertexts") for v in (x, y))
        same_key(x.key_id, y.key_id, "A product")
        level = min(x.level, y.level)
        x, y = drop_to(x, level), drop_to(y, level)
        need_level(x, 1, "A product of ciphertexts")
        return x, y

    def plain_factor(self, x: CiphertextT, p: Plaintext) -> tuple[CiphertextT, Poly, Noise]:
        """Both at the lower level, the plaintext as a polynomial and its noise."""
        level = min(x.level, p.level)
        if not p.level and x.level:
            raise DepthError(
                f"A product with a plaintext takes 1 level, and the plaintext is at level 0 of "
                f"{x.params.depth}.",
                "The product is at the lower level of the two, and none is left there.",
                "Encode it at a level of 1 or more: leave level= out for the highest.",
            )
        (poly,), noise = dropped(p, (p.factor,), level)
        x = drop_to(x, level)
        need_level(x, 1, "A product with a plaintext")
        return x, poly, noise

    def start_of(self, x: CiphertextT, value: Any) -> tuple[CiphertextT, Any, Origin | None]:
        """A ciphertext and a factor whose product is that of `x` and `value`; and its origin."""
        value = value.copy() if isinstance(value, np.ndarray) else value
        origin, length = x.origin, x.layout.length
        if origin is not None and np.ndim(origin.factor):
            is_whole = np.shape(origin.factor)[-1] == getattr(length, "sample", length)
            origin = origin if is_whole else None  # else the numbers have been cut since
        origin = origin and origin.times(value)
        if origin is None:
            return x, value, Origin(with_fields(x, origin=None), value)
        start: Any = with_fields(origin.source, layout=x.layout, keeps=x.keeps)
        return start, origin.factor, origin

    def product_of(
        self, x: CiphertextT, value: Any, result: CiphertextT, origin: Origin | None
    ) -> CiphertextT:
        """`result`, that is the product of `x` and `value`, and so nowhere larger."""
        if x.origin is not None and x.later is None:
            size = value if is_tracer(value) else derived(_largest, value)
            most = noises.scaled(x.noise, size, is_public=is_of_program())
            result = within_that_of(result, most)
        return with_fields(result, origin=origin)

    def check_factor_of_number(self, x: CiphertextData) -> None:
        """Raise where `x` cannot be multiplied by a number that is not an integer."""
        need_normal_form(x)
        need_level(x, 1, "A product with a number that is not an integer")

    def summed(self, x: CiphertextT, terms: LazySum, level: int, layout: Layout) -> CiphertextT:
        """`x` with the value of `terms`: in normal form, and with what sums can go on from."""
        polys, noise = terms.settled(x.params, level), terms.settled_noise(x.params, level)
        result = evolve(x, polys, noise, level, layout)
        return with_fields(result, pending=pending_of(terms)) if terms.product else result

    def multiplied(
        self, x: CiphertextT, terms: LazySum, scale: Fraction, layout: Layout
    ) -> CiphertextT:
        """`x` times a factor at a scale: one level below, the scale is that of the level again."""
        if len(terms.product) > 2:
            context = context_for(x.key_id, "A product of ciphertexts")
            terms = attrs.evolve(terms, key=context.relinearization_key())
        return self.summed(x, terms, x.level - 1, layout)

    # ---------------------------------------------------------------- sums

    @operation("a negation", np.negative, is_method=True)
    def negate(self, x: CiphertextT) -> CiphertextT:
        """-x."""
        terms, tail = self.addend(x), x.layout.tail
        layout = x.layout.with_tail(tail.mapped(-tail.value))
        result = self.summed(x, terms.map(operator.neg, terms.noise), x.level, layout)
        result = with_fields(result, origin=x.origin and x.origin.times(-1))
        return in_span(result, spans.combined(operator.neg, x.span))

    add = _sum("a sum", "A sum", 1)
    add_plain = _sum("a sum with a plaintext", "A sum", 1)
    subtract = _sum("a difference", "A difference", -1)
    subtract_plain = _sum("a difference with a plaintext", "A difference", -1)

    @operation("a sum with a number", np.add, is_method=True)
    def add_scalar(self, x: CiphertextT, value: complex | Symbolic) -> CiphertextT:
        """x + value in every slot, encoded at the exact scale of `x`, pending or not."""
        check_reachable(x, value)
        terms, level, scale, degree = self.addend(x), x.level, x.scale, 1
        if terms.product:  # one level above, at the square of its scale
            level, scale, degree = level + 1, x.params.scale(level + 1), 2
        constant = constant_poly(value, x.params.ring(level), scale**degree)
        noise = noises.of_constant(value, as_float(scale) ** degree, is_public=is_of_program())
        noise = reached(noise, x, value)
        layout = _scalar_layout(x, value, x.layout.tail.plus(number_tail(value)))
        result = self.summed(x, terms.plus_constant(constant, noise), x.level, layout)
        return in_span(result, span_with_number(operator.add, x, value))

    # ---------------------------------------------------------------- products

    @operation("a product", np.multiply, is_method=True)
    def multiply(self, x: CiphertextT, y: CiphertextT) -> CiphertextT:
        """x * y, three components: the tensor product."""
        x, y = self.factors(x, y)
        (a0, a1), (b0, b1) = x.polys, y.polys
        polys = (a0 * b0, a0 * b1 + a1 * b0, a1 * b1)
        beyond = product_beyond(x, x.noise, y, y.noise)
        terms = LazySum(polys, noise=noises.product(x.noise, y.noise), beyond=beyond)
        result = self.multiplied(x, terms, y.scale, x.layout.times(y.layout))
        span = spans.square(x.span) if x is y else spans.combined(operator.mul, x.span, y.span)
        return in_span(result, span)

    def _times_plain(self, x: CiphertextT, p: Plaintext) -> CiphertextT:
        check_plain(x, p, "A product")
        layout = x.layout.times(p.layout)
        x, poly, noise = self.plain_factor(x, p)
        beyond = product_beyond(x, x.noise, p, noise)
        polys, noise = tuple(c * poly for c in x.polys), noises.product(x.noise, noise)
        return self.multiplied(x, LazySum(polys, noise=noise, beyond=beyond), p.scale, layout)

    multiply_plain = operation("a product with a plaintext", np.multiply, True, True)(_times_plain)
    multiply_array = operation("a product with an array", np.multiply, True, True)(_times_plain)

    @operation("a sum of products", lambda factors, *x: factors.shadow(x), is_method=True)
    def multiply_accumulate(self, factors: Factors, *terms: CiphertextT) -> CiphertextT:
        """The sum of products with plaintexts: what `add` makes of the products, in few nodes."""
        first, whole = terms[0], factors.plaintexts[0]
        check_plain(first, whole, "A product")
        level = min(whole.level, *(x.level for x in terms))
        terms = tuple(drop_to(x, level) for x in terms)
        need_level(first, 1, "A product with a plaintext")
        parts = factors.parts(terms)
        made = [dropped(p, (p.factor,), level) for p, _, _ in parts]
        halves = [[multiply_accumulate(w, [x.polys[c] for x in xs], indices)
                   for ((w,), _), (_, indices, xs) in zip(made, parts, strict=True)]
                  for c in range(2)]  # fmt: skip
        noise = noises.of_products(
            [noise for _, noise in made],
            [indices for _, indices, _ in parts],
            [x.noise for _, _, xs in parts for x in xs],
        )
        lazy = LazySum(tuple(reduce(operator.add, half) for half in halves), noise=noise)
        layout = first.layout.times(whole.layout)
        return self.multiplied(terms[0], lazy, whole.scale, layout)

    @operation("a product with an integer", np.multiply, is_method=True)
    def multiply_integer(self, x: CiphertextT, value: int | Symbolic) -> CiphertextT:
        """x * value for an integer, exact, at the same level and scale."""
        check = partial(check_factor, x.params, x.level, 1)
        check(value)
        terms = self.addend(x)
        noise = noises.scaled(terms.noise, value, is_public=is_of_program())
        noise = told_if_zero(noise, value, 1.0, "a product with an integer", check)
        layout = x.layout.with_tail(x.layout.tail.times(number_tail(value)))
        result = self.summed(x, terms.map(lambda p: p * value, noise), x.level, layout)
        result = with_fields(result, origin=x.origin and x.origin.times(value))
        return in_span(result, span_with_number(operator.mul, x, value))

    @operation("a product with an integer", np.multiply, is_method=True)
    def multiply_traced_integer(self, x: CiphertextT, value: Any) -> CiphertextT:
        """x * value for an integer that JAX traces, exact, at the same level and scale."""
        terms = self.addend(x)
        noise = noises.scaled(terms.noise, value, is_public=is_of_program())
        layout = x.layout.with_tail(x.layout.tail.times(LEFTOVERS))
        result = self.summed(x, terms.map(partial(_times_traced, value), noise), x.level, layout)
        return with_fields(result, origin=x.origin and x.origin.times(value))

    @operation("a product with a number", np.multiply, is_method=True)
    def multiply_scalar(self, x: CiphertextT, value: complex | Symbolic) -> CiphertextT:
        """x * value in every slot, encoded at the scale of the level.

        Where `x` is such a product itself, one product with both factors takes one level.
        """
        check_factor(x.params, x.level, x.params.scale(x.level), value)
        is_other = x.origin is not None and not x.origin.is_by_number
        start = with_fields(x, origin=None) if is_other else x
        result, factor, origin = self.start_of(start, value)
        layout = _scalar_layout(x, value, x.layout.tail.times(number_tail(value)))
        self.check_factor_of_number(result)
        result = self._times_number(result, factor, result.params.scale(result.level))
        result = with_fields(result, layout=layout, span=span_with_number(operator.mul, x, value))
        return self.product_of(x, value, result, origin)

    def _times_number(
        self, x: CiphertextT, value: complex | Symbolic, scale: Fraction
    ) -> CiphertextT:
        check = partial(check_factor, x.params, x.level, scale)
        check(value)
        factor = constant_poly(value, x.params.ring(x.level), scale)
        constant = noises.of_constant(value, as_float(scale), is_public=is_of_program())
        noise = noises.product(x.noise, constant)
        noise = told_if_zero(noise, value, float(scale), "a product with a number", check)
        layout = _scalar_layout(x, value, x.layout.tail.times(number_tail(value)))
        terms = LazySum(tuple(c * factor for c in x.polys), noise=noise)
        result = self.multiplied(x, terms, scale, layout)
        return in_span(result, span_with_number(operator.mul, x, value))


def _largest(values: Any) -> Any:
    if not np.ndim(values):
        return values
    return float(np.abs(np.asarray(values, np.result_type(values, np.float64))).max(initial=0.0))


def _times_traced(value: Any, p: Poly) -> Poly:
    limbs = embedding.evaluated_constant(value, p.ring.moduli, p.ring.n)
    return p * from_array(limbs, p.ring, Domain.NTT)


AUTOMATIC = Automatic()
add, subtract, negate = AUTOMATIC.add, AUTOMATIC.subtract, AUTOMATIC.negate
add_plain, multiply_plain = AUTOMATIC.add_plain, AUTOMATIC.multiply_plain
multiply, multiply_scalar = AUTOMATIC.multiply, AUTOMATIC.multiply_scalar
sum_of_products = AUTOMATIC.multiply_accumulate


def _lowered(x: Operand, level: int, is_pending: bool) -> LazySum:
    """`x` from above `level` taken down to it, to be added to what is pending there or not.

    It meets what is pending one level above, at s_(level+1)^2. There an integer multiple of it has
    that scale, with a relative error of 2^-(scale_bits + 1) as in going down. So no rescale is
    needed where the ring there is a part of its own.
    """
    if not isinstance(x, Plaintext):
        need_normal_form(x)
    polys, params = (x.poly,) if isinstance(x, Plaintext) else x.polys, x.params
    if not is_pending:
        polys, noise = dropped(x, polys, level)
        return LazySum(base=polys, noise=noise)
    above, scale, noise = level + 1, x.scale, x.noise
    if is_view(params, x.level, above):
        polys = tuple(p.to_ring(params.ring(above)) for p in polys)
    else:
        (polys, noise), scale = dropped(x, polys, above), params.scale(above)
    factor = round(params.scale(above) ** 2 / scale)
    noise = noises.with_relative(noise, 0.5 / factor)
    return LazySum(tuple(p * factor for p in polys), noise=noise)


def check_plain(x: CiphertextData, p: Plaintext, what: str) -> None:
    """Raise ParameterError where a plaintext has other parameters than a ciphertext."""
    if p.params != x.params:
        raise ParameterError(
            f"{what} got a plaintext of other parameters: {_facts(p.params)}.",
            f"Those of the ciphertext are: {_facts(x.params)}.",
            "Encode with the context that made the ciphertext.",
        )


def _facts(params: Parameters) -> str:
    return f"n={params.n}, {params.slots} slots, depth {params.depth}, {params.log_qp:.1f} bits"


def _scalar_layout(x: CiphertextData, value: complex | Symbolic, tail: Tail) -> Layout:
    """The layout of `x` combined with a number, which fills all slots."""
    sample = value.sample if isinstance(value, Symbolic) else value
    return x.layout.joined(Layout(None, isinstance(sample, complex)), tail)


def span_with_number(
    formula: Callable[..., float], x: CiphertextData, value: complex | Symbolic
) -> spans.Span | None:
    """The span of formula(x, value)."""
    return x.span and spans.combined(formula, x.span, spans.of_number(value, is_of_program()))


@with_levels
def power(x: CiphertextT, exponent: int) -> CiphertextT:
    """x^exponent, from 0 on, in ceil(log2(exponent)) levels, each power made once."""
    if exponent == 0:
        return _ones(x)
    need_level(x, (exponent - 1).bit_length(), f"The power {exponent}", has_parts=True)
    return _powers(x, exponent, {1: x})


@circuit("the power 0")
def _ones(x: CiphertextT) -> CiphertextT:
    return AUTOMATIC.add_scalar(AUTOMATIC.multiply_integer(x, 0), 1)


def _powers(x: CiphertextT, exponent: int, known: dict[int, CiphertextT]) -> CiphertextT:
    if exponent not in known:
        half = 1 << ((exponent - 1).bit_length() - 1)  # halves of depth one less, largest first
        low, high = _powers(x, exponent - half, known), _powers(x, half, known)
        known[exponent] = multiply(low, high)
    return known[exponent]


def bounded(x: CiphertextT, needed: int, what: str) -> CiphertextT:
    """`x` with zeros in place of leftovers that its tracked bound does not cover: a product grows.

    One level where there are such, beside those `needed`; `within()` after a slice leaves them.
    """
    if x.layout.tail.is_bounded or fills_slots(x):
        return x
    need_level(x, needed, what, clearing=1)
    return masked(x)


def masked(x: CiphertextT) -> CiphertextT:
    """The same numbers of the same type, and zeros beyond the length: one level."""
    note_cleared(x)
    ones = np.ones(known_length(x) or 0)
    result = multiply_plain(x, encode(ones, x.params, x.level, x.layout.blocks))
    return with_fields(result, span=x.span, stated_dtype=x.stated_dtype)
