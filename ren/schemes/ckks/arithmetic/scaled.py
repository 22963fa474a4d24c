"""Arithmetic with target scales: operands are aligned without a product by 1 and a rescale.

In automatic mode a ciphertext has the canonical scale of its level. So each dropped level takes a
product with an integer and a rescale. A circuit that fixes where its values meet needs neither.
Where the lower basis is a part of the higher one, a drop leaves out limbs, at the same scale. It
takes no transform and adds no noise. Constants are then encoded at the scale that brings their term
to that of the sum.

Scales are exact rationals. A ciphertext whose scale is not the level's has it in `own_scale`, as in
manual mode. What a circuit returns is settled at the canonical scale.
"""

from __future__ import annotations

import operator
from fractions import Fraction

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.schemes.ckks.arithmetic.evolve import drop_factor, drop_source, in_span, is_view
from ren.schemes.ckks.arithmetic.lazy_product import LazySum, pending_of
from ren.schemes.ckks.arithmetic.manual import (
    Manual,
    at_scale,
    encoded_at,
    rescaled,
)
from ren.schemes.ckks.arithmetic.operation_hooks import operation
from ren.schemes.ckks.encoding.ciphertext_data import (
    CiphertextData,
    CiphertextT,
    batch_of,
    with_fields,
)
from ren.schemes.ckks.encoding.layout import Layout
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise import spans
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.active_context import context_for


class Scaled(Manual):
    """Operations that align nothing, for circuits that count levels before they begin.

    A product multiplies the scales, at the same level; `settled` relinearizes and rescales it.
    """

    def multiplied(
        self, x: CiphertextT, terms: LazySum, scale: Fraction, layout: Layout
    ) -> CiphertextT:
        """The product of the scales, at the same level."""
        return at_scale(x, terms.product, terms.noise, x.scale * scale, layout=layout)

    @operation("a product with numbers", lambda x, value, scale: x * value, is_method=True)
    def multiply_onto(
        self, x: CiphertextT, value: complex | NDArray, scale: Fraction
    ) -> CiphertextT:
        """x * value at `scale`: the number, or those of the slots, take what is missing."""
        if not isinstance(value, np.ndarray):
            return self._times_number(x, value, scale / x.scale)
        terms, layout = _of_slots(x, value, scale / x.scale)
        noise = noises.product(x.noise, terms.noise)
        product = LazySum(tuple(c * terms.base[0] for c in x.polys), noise=noise)
        return self.multiplied(x, product, scale / x.scale, x.layout.times(layout))

    @operation("a sum with an array", np.add, is_method=True)
    def add_array(self, x: CiphertextT, values: NDArray) -> CiphertextT:
        """x + values, of the slots, encoded at the scale of `x`."""
        terms, layout = _of_slots(x, values, x.scale)
        terms = self.addend(x).plus(terms)
        return self.summed(x, terms, x.level, x.layout.plus(layout))


SCALED = Scaled()
_FACTOR_BITS = 10  # of the integer in a drop by a rescale: the scale is near that of the level


def _of_slots(x: CiphertextData, values: NDArray, scale: Fraction) -> tuple[LazySum, Layout]:
    terms, layout = encoded_at(x, values, scale)
    if x.layout.length is None and batch_of(x):  # a number of each batch, in all slots
        layout = attrs.evolve(x.layout, is_complex=layout.is_complex)
    return terms, layout


@operation("drop_to()", lambda x, level: x)
def lowered(x: CiphertextT, level: int) -> CiphertextT:
    """`x` at a level up to its own: at its own scale where that is a view, else rescaled.

    Rescaled, it is within 2^-10 of the scale of the level, and its scale is known exactly.
    """
    params = x.params
    if level == x.level:
        return x
    if is_view(params, x.level, level):
        polys = tuple(p.to_ring(params.ring(level)) for p in x.polys)
        return in_span(at_scale(x, polys, x.noise, x.scale, level), x.span)
    ring, source = params.ring(level), drop_source(params, x.level, level, _FACTOR_BITS)
    factor = drop_factor(params, source, x.scale, level)
    polys = tuple(p.to_ring(source) * factor for p in x.polys)
    scale = x.scale * factor * ring.q / source.q
    return in_span(rescaled(x, polys, x.noise, level, scale), x.span)


def zero(x: CiphertextT, scale: Fraction) -> CiphertextT:
    """Zeros at the level of `x`, at any scale; it is transparent."""
    none = SCALED.multiply_integer(x, 0)
    return at_scale(none, none.polys, none.noise, scale)


def scale_above(params: Parameters, level: int, scale: Fraction) -> Fraction:
    """The scale one level above from which a rescale leads to `scale`."""
    return scale * params.ring(level + 1).q / params.ring(level).q


@operation("a relinearization and a rescale", lambda x, base=None: x if base is None else x + base)
def settled(x: CiphertextT, base: CiphertextData | None = None) -> CiphertextT:
    """A sum of products one level lower, relinearized and rescaled, plus `base` there.

    Where that is the canonical scale, sums may go on from the pending form, as in automatic mode.
    """
    params, level = x.params, x.level - 1
    scale = x.scale * params.ring(level).q / params.ring(x.level).q
    key = None
    if len(x.polys) > 2:
        key = context_for(x.key_id, "A product of ciphertexts").relinearization_key()
    terms, layout = LazySum(x.polys, key=key, noise=x.noise), x.layout
    if base is not None:
        terms, layout = terms.plus(SCALED.addend(base)), layout.plus(base.layout)
    polys, noise = terms.settled(params, level), terms.settled_noise(params, level, scale)
    result = at_scale(x, polys, noise, scale, level, layout)
    span = x.span if base is None else spans.combined(operator.add, x.span, base.span)
    result = in_span(result, span)
    if result.own_scale is not None:
        return result
    return with_fields(result, pending=pending_of(terms))
