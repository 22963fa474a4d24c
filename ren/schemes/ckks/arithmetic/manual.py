"""Manual mode, `ckks.manual()`: relinearization, rescaling and alignment are the user's.

Operations take any number of components at any scale, and nothing is inserted. Ciphertexts may have
three components, or a scale of their own: they are loose. Automatic mode brings them to normal form
first: two components, at the canonical scale of the level.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

from ren.core.errors import DepthError, ScaleError
from ren.core.ring import Domain
from ren.core.spec import Spec
from ren.poly import Poly
from ren.poly.poly import from_node
from ren.poly.symbolic import as_symbol
from ren.schemes.ckks.arithmetic import automatic as arithmetic
from ren.schemes.ckks.arithmetic.evolve import evolve, need_level
from ren.schemes.ckks.arithmetic.lazy_product import LazySum, Operand, Polys
from ren.schemes.ckks.arithmetic.operation_hooks import (
    is_of_program,
    operation,
    settings,
    with_settings,
)
from ren.schemes.ckks.encoding import encoder
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT, with_fields
from ren.schemes.ckks.encoding.layout import Layout
from ren.schemes.ckks.encoding.plaintext import Plaintext, as_slots, encode
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.readable import Noise
from ren.schemes.ckks.noise.sigmas import as_float, log2_of, rescale_sigma, switch_sigma
from ren.schemes.rlwe.active_context import context_for, same_key
from ren.schemes.rlwe.keys import from_residues
from ren.schemes.rlwe.keyswitch import gadget_of, key_switch

_SPARE_BITS = 20  # scales closer than 2^-(scale_bits + 20) are one: canonical ones are, by 62


@contextmanager
def manual() -> Iterator[None]:
    """Inside, operators do what they say and no more.

    A product has three components until `.relinearize()`, and the product of the scales until
    `.rescale()`. `.scale` and `.level` give the true ones. Operands of a sum have one level and one
    scale, those of a product one level; `.drop_to(level)` aligns levels. Arrays and numbers are
    encoded at the scale that a sum needs. For a product they are encoded at the scale of the level.

    Outside, such ciphertexts are brought to normal form where they are used.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1, n=2**13)
        >>> x = ctx.encrypt([1.0, 2.0])
        >>> with ckks.manual():
        ...     z = (x * x + x * x).relinearize().rescale()
        >>> z.decrypt().round(3)
        array([2., 8.])
    """
    with with_settings(manual=True):
        yield


def is_manual() -> bool:
    """True inside `ckks.manual()`."""
    return settings().manual


def at_scale(
    x: CiphertextT,
    polys: Polys,
    noise: Noise,
    scale: Fraction,
    level: int | None = None,
    layout: Layout | None = None,
) -> CiphertextT:
    """`x` with other polynomials at a scale, which is its own where it is not the level's."""
    result = evolve(x, polys, noise, level, layout)
    canonical = result.params.scale(result.level)
    own_scale = None if _is_one_scale(scale, canonical, x) else scale
    return with_fields(result, own_scale=own_scale)


def _is_one_scale(a: Fraction, b: Fraction, x: CiphertextData) -> bool:
    return abs(a / b - 1) < Fraction(1, 1 << (x.params.scale_bits + _SPARE_BITS))


class Manual(arithmetic.Automatic):
    """Operations that align nothing: a product multiplies the scales, at the same level."""

    def addend(self, x: Operand) -> LazySum:
        """All components of `x`."""
        return LazySum(base=(x.poly,) if isinstance(x, Plaintext) else x.polys, noise=x.noise)

    def addends(self, x: CiphertextData, y: Operand) -> tuple[LazySum, LazySum, int]:
        """Two addends of one level and one scale."""
        _need_level(x, y.level)
        if not _is_one_scale(y.scale, x.scale, x):
            raise ScaleError(
                f"In manual mode scales 2^{log2_of(x.scale):.4f} and 2^{log2_of(y.scale):.4f} met "
                "in a sum.",
                "Addends have one scale; these cannot be aligned by a rescale alone.",
                "Rescale or multiply the one, add plain arrays instead, or leave ckks.manual().",
            )
        return self.addend(x), self.addend(y), x.level

    def factors(self, x: CiphertextT, y: CiphertextT) -> tuple[CiphertextT, CiphertextT]:
        """Two factors of one level, of two components each."""
        same_key(x.key_id, y.key_id, "A product")
        _need_level(x, y.level)
        return two_components(x, "A product"), two_components(y, "A product")

    def plain_factor(self, x: CiphertextT, p: Plaintext) -> tuple[CiphertextT, Poly, Noise]:
        """Two factors of one level."""
        _need_level(x, p.level)
        return x, p.factor, p.noise

    def start_of(self, x: CiphertextT, value: Any) -> tuple[CiphertextT, Any, None]:
        """The same: nothing is merged."""
        return x, value, None

    def check_factor_of_number(self, x: CiphertextData) -> None:
        """Any ciphertext will do."""

    def summed(self, x: CiphertextT, terms: LazySum, level: int, layout: Layout) -> CiphertextT:
        """`x` with the components of a sum."""
        return evolve(x, terms.base, terms.noise, level, layout)

    def multiplied(
        self, x: CiphertextT, terms: LazySum, scale: Fraction, layout: Layout
    ) -> CiphertextT:
        """The product of the scales, at the same level."""
        scale = x.scale * scale
        _need_room(x, x.level, scale, "A product")
        return at_scale(x, terms.product, terms.noise, scale, layout=layout)

    @operation("a sum with an array", np.add, is_method=True)
    def add_array(self, x: CiphertextT, values: Any) -> CiphertextT:
        """x + values, encoded at the scale of `x`."""
        return self._sum_with_array(x, values, 1)

    @operation("a difference with an array", np.subtract, is_method=True)
    def subtract_array(self, x: CiphertextT, values: Any) -> CiphertextT:
        """x - values, encoded at the scale of `x`."""
        return self._sum_with_array(x, values, -1)

    def _sum_with_array(self, x: CiphertextT, values: Any, sign: int) -> CiphertextT:
        terms, layout = _encoded(x, values)
        terms, layout = self.addend(x).plus(terms, sign), x.layout.plus(layout, sign)
        return self.summed(x, terms, x.level, layout)


MANUAL = Manual()


def _encoded(x: CiphertextData, values: Any) -> tuple[LazySum, Layout]:
    """Values over the ring of `x` at its scale, and their layout."""
    if x.own_scale is None:
        p = encode(values, x.params, x.level, x.layout.blocks)
        return MANUAL.addend(p), p.layout
    return encoded_at(x, values, x.scale)


def encoded_at(x: CiphertextData, values: Any, scale: Fraction) -> tuple[LazySum, Layout]:
    """Values over the ring of `x` at any scale, and their layout.

    Inside a circuit they are constants of the program, and their bound is their largest modulus.
    """
    params, ring, blocks = x.params, x.polys[0].ring, x.layout.blocks

    def cut(numbers: Any) -> Any:
        return as_slots(numbers, params.slots, blocks)[0]

    def limbs(numbers: Any) -> Any:
        coefficients = encoder.encode(cut(numbers), ring.n, params.slots, scale)
        return encoder.residues(coefficients, ring.moduli)

    symbol = as_symbol(values)
    z, layout = as_slots(values if symbol is None else symbol.sample, params.slots, blocks)
    bound = float(np.abs(z).max()) if is_of_program() and symbol is None else None
    given = z if symbol is None else symbol.map(cut)
    noise = noises.of_values(given, params, as_float(scale), bound)
    if symbol is None:
        poly = from_residues(limbs(values), ring, Domain.COEFF)
    else:
        spec = Spec(ring, Domain.COEFF, z.shape[:-1])
        poly = from_node(symbol.encoded((ring, scale, blocks), spec, limbs))
    return LazySum(base=(poly.ntt(),), noise=noise), layout


def _need_room(x: CiphertextData, level: int, scale: Fraction, what: str) -> None:
    q = x.params.ring(level).q
    if 4 * scale > q:
        raise DepthError(
            f"{what} at scale 2^{log2_of(scale):.1f} was asked for at level {level} of "
            f"{x.params.depth}.",
            f"The modulus there has {q.bit_length()} bits: the message would wrap around.",
            "Call .rescale() before, or make the context with more depth.",
        )


def _need_level(x: CiphertextData, level: int) -> None:
    if level != x.level:
        low = min(level, x.level)
        raise ScaleError(
            f"In manual mode levels {x.level} and {level} met in one operation.",
            "Operands have one level: nothing is aligned for you.",
            f"Write .drop_to({low}) on the higher one; plaintexts: ctx.encode(..., level={low}).",
        )


def power(x: CiphertextT, exponent: int) -> CiphertextT:
    """x^exponent for 1 and 2; higher ones are products of the user's own."""
    if exponent not in (1, 2):
        raise ScaleError(
            f"In manual mode the power {exponent} was asked for.",
            "It is several products, with relinearizations and rescales in between.",
            "Write the products out, or leave ckks.manual().",
        )
    return x if exponent == 1 else MANUAL.multiply(x, x)


# ------------------------------------------------------------------- what the user inserts


@operation("relinearize()", lambda x: x)
def relinearize(x: CiphertextT) -> CiphertextT:
    """Two components instead of three: one key switch; with two it is the identity."""
    if len(x.polys) == 2:
        return x
    key = context_for(x.key_id, "relinearize()").relinearization_key()
    c0, c1, c2 = x.polys
    k0, k1 = key_switch(c2, key, gadget_of(x.params))
    sigma = switch_sigma(x.params, x.level, as_float(x.scale))
    return evolve(x, (c0 + k0, c1 + k1), noises.with_source(x.noise, sigma))


@operation("rescale()", lambda x: x)
def rescale(x: CiphertextT) -> CiphertextT:
    """One level down, every component and the scale divided by the ratio of the moduli.

    Raises:
        DepthError: at level 0.
        ScaleError: the message would be divided away.
    """
    need_level(x, 1, "rescale()")
    ring = x.params.ring(x.level - 1)
    scale = x.scale * ring.q / x.params.ring(x.level).q
    if (left := round(log2_of(scale), 1)) < x.params.scale_bits / 2:
        raise ScaleError(
            f"rescale() was asked of a ciphertext at scale 2^{log2_of(x.scale):.1f}.",
            f"It would leave a scale of 2^{left + 0.0:.1f}: the message would be lost.",
            "Rescale after a product; use .drop_to(level) to go down without one.",
        )
    return rescaled(x, x.polys, x.noise, x.level - 1, scale)


def rescaled(
    x: CiphertextT, polys: Polys, noise: Noise, target: int, scale: Fraction
) -> CiphertextT:
    """`polys` divided onto the ring of a lower level, which makes their scale `scale`."""
    ring = x.params.ring(target)
    sigma = rescale_sigma(x.params, target, as_float(scale), len(polys))
    noise = noises.with_source(noise, sigma)
    return at_scale(x, tuple(p.rescale(ring) for p in polys), noise, scale, target)


def drop_to(x: CiphertextT, target: int) -> CiphertextT:
    """The same message at a lower level, at that level's scale to the power that `x` is at."""
    if x.is_normal or not 0 <= target < x.level:
        return arithmetic.drop_to(x, target) if target != x.level else x
    degree = max(1, round(log2_of(x.scale) / log2_of(x.params.scale(x.level))))
    scale = x.params.scale(target) ** degree
    _need_room(x, target, scale, "A ciphertext")
    return _at(x, target, scale)


@operation("a change of scale", lambda x, target, scale: x)
def _at(x: CiphertextT, target: int, scale: Fraction) -> CiphertextT:
    """`x` at a lower level and about any scale: multiplied by an integer, then rescaled."""
    exact = scale_factor(x, target, scale)
    factor = round(exact)
    noise = noises.with_relative(x.noise, float(abs(factor / exact - 1)))
    return rescaled(x, tuple(p * factor for p in x.polys), noise, target, scale)


def scale_factor(x: CiphertextData, target: int, scale: Fraction) -> Fraction:
    ratio = Fraction(x.params.ring(x.level).q, x.params.ring(target).q)
    return scale * ratio / x.scale


# ------------------------------------------------------------------- normal form


def normal(x: CiphertextT) -> CiphertextT:
    """`x` with two components at the canonical scale of its level or of the next that it can reach.

    Raises DepthError where no level is left to bring its scale in order.
    """
    if x.is_normal:  # as a rule
        return x
    x = relinearize(x)
    if x.own_scale is None:
        return x
    tolerance = Fraction(1, 1 << (x.params.scale_bits - 4))
    for level in reversed(range(x.level)):
        factor = scale_factor(x, level, x.params.scale(level))
        if round(factor) and abs(round(factor) / factor - 1) < tolerance:
            return _at(x, level, x.params.scale(level))
    raise DepthError(
        f"A ciphertext at level {x.level} has the scale 2^{log2_of(x.scale):.1f}, from manual "
        "mode.",
        f"Outside of it that is 2^{log2_of(x.params.scale(x.level)):.1f}, and no level is left to "
        "bring it there.",
        "Call .rescale() inside ckks.manual(), or make the context with more depth.",
    )


def ordered(x: CiphertextT) -> CiphertextT:
    """An operand of a circuit: as it is in manual mode, and in normal form outside of it."""
    return x if is_manual() else normal(x)


def two_components(x: CiphertextT, what: str) -> CiphertextT:
    """`x` where it has two components; raises ScaleError where it has three."""
    if len(x.polys) == 2:
        return x
    raise ScaleError(
        f"{what} was asked of a ciphertext of {len(x.polys)} components in manual mode.",
        "It works on two: nothing is relinearized for you.",
        "Call .relinearize() first.",
    )


def check_automatic(what: str) -> None:
    """Raise ScaleError in manual mode, where nothing is relinearized or rescaled by itself."""
    if is_manual():
        raise ScaleError(
            f"{what} was asked for in manual mode.",
            "Its products are relinearized and rescaled at places that it chooses.",
            "Leave ckks.manual() for it, or write the products out.",
        )
