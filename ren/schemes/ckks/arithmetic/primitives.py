"""Sums and products of ciphertexts, written once for automatic and for manual mode.

A mode decides how operands are aligned, and in which form a result is kept: see `Automatic` and
`Manual`. Each operation is checked, and seen by `ckks.debug`, as one of users' programs.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from fractions import Fraction

import numpy as np

from ren.core.errors import ParameterError
from ren.poly import Poly
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.arithmetic.lazy_product import LazySum
from ren.schemes.ckks.arithmetic.operation_hooks import in_circuit, primitive, told_if_zero
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT
from ren.schemes.ckks.encoding.constants import constant_poly
from ren.schemes.ckks.encoding.layout import Layout, Tail
from ren.schemes.ckks.encoding.plaintext import Plaintext, check_factor, check_reachable
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.bounds import Noise
from ren.schemes.ckks.noise.sigmas import as_float
from ren.schemes.rlwe.active_context import same_key

Polys = tuple[Poly, ...]


class Primitives(ABC):
    """The operations of ciphertexts in one mode."""

    # ---------------------------------------------------------------- decisions of a mode

    @abstractmethod
    def addend(self, x: CiphertextData | Plaintext) -> LazySum:
        """The polynomials that sums with `x` start from."""

    @abstractmethod
    def addends(
        self, x: CiphertextData, y: CiphertextData | Plaintext
    ) -> tuple[LazySum, LazySum, int]:
        """Two addends, and the level of their sum."""

    @abstractmethod
    def factors(self, x: CiphertextT, y: CiphertextT) -> tuple[CiphertextT, CiphertextT]:
        """Two ciphertexts of two components, at one level."""

    @abstractmethod
    def plain_factor(self, x: CiphertextT, p: Plaintext) -> tuple[CiphertextT, Poly, Noise]:
        """A ciphertext, and a plaintext over its ring with its noise."""

    @abstractmethod
    def check_factor_of_number(self, x: CiphertextData) -> None:
        """Raise where `x` cannot be multiplied by a number that is not an integer."""

    @abstractmethod
    def summed(self, x: CiphertextT, terms: LazySum, level: int, layout: Layout) -> CiphertextT:
        """`x` with the value of a sum."""

    @abstractmethod
    def multiplied(
        self,
        x: CiphertextT,
        polys: Polys,
        noise: Noise,
        layout: Layout,
        factor: CiphertextData | Plaintext | None = None,
    ) -> CiphertextT:
        """`x` with the components of its product with a factor, or with a number (None)."""

    # ---------------------------------------------------------------- sums

    @primitive("a negation", np.negative)
    def negate(self, x: CiphertextT) -> CiphertextT:
        """-x."""
        terms, tail = self.addend(x), x.layout.tail
        layout = x.layout.with_tail(tail.mapped(-tail.value))
        return self.summed(x, terms.map(operator.neg, terms.noise), x.level, layout)

    @primitive("a sum", np.add)
    def add(self, x: CiphertextT, y: CiphertextT) -> CiphertextT:
        """x + y."""
        same_key(x.key_id, y.key_id, "A sum")
        layout = x.layout.plus(y.layout)
        left, right, level = self.addends(x, y)
        return self.summed(x, left + right, level, layout)

    @primitive("a difference", np.subtract)
    def subtract(self, x: CiphertextT, y: CiphertextT) -> CiphertextT:
        """x - y."""
        same_key(x.key_id, y.key_id, "A difference")
        layout = x.layout.plus(y.layout, -1)
        left, right, level = self.addends(x, y)
        return self.summed(x, left - right, level, layout)

    @primitive("a sum with a plaintext", np.add)
    def add_plain(self, x: CiphertextT, p: Plaintext) -> CiphertextT:
        """x + p."""
        check_plain(x, p, "A sum")
        layout = x.layout.plus(p.layout)
        left, right, level = self.addends(x, p)
        return self.summed(x, left + right, level, layout)

    @primitive("a difference with a plaintext", np.subtract)
    def subtract_plain(self, x: CiphertextT, p: Plaintext) -> CiphertextT:
        """x - p."""
        check_plain(x, p, "A difference")
        layout = x.layout.plus(p.layout, -1)
        left, right, level = self.addends(x, p)
        return self.summed(x, left - right, level, layout)

    @primitive("a sum with a number", np.add)
    def add_scalar(self, x: CiphertextT, value: complex | Symbolic) -> CiphertextT:
        """x + value in every slot, encoded at the exact scale of `x`, pending or not."""
        check_reachable(x, value)
        terms, level, scale, degree = self.addend(x), x.level, x.scale, 1
        if terms.product:  # one level above, at the square of its scale
            level, scale, degree = level + 1, x.params.scale(level + 1), 2
        constant = constant_poly(value, x.params.ring(level), scale**degree)
        noise = _constant_noise(value, scale, degree)
        layout = _scalar_layout(x, value, x.layout.tail.plus(Tail(value=value)))
        return self.summed(x, terms.plus_constant(constant, noise), x.level, layout)

    # ---------------------------------------------------------------- products

    @primitive("a product", np.multiply)
    def multiply(self, x: CiphertextT, y: CiphertextT) -> CiphertextT:
        """x * y, three components: the tensor product.

        Raises:
            DepthError: too few levels are left.
        """
        x, y = self.factors(x, y)
        (a0, a1), (b0, b1) = x.polys, y.polys
        polys = (a0 * b0, a0 * b1 + a1 * b0, a1 * b1)
        noise = noises.product(x.noise, y.noise)
        return self.multiplied(x, polys, noise, x.layout.times(y.layout), y)

    @primitive("a product with a plaintext", np.multiply)
    def multiply_plain(self, x: CiphertextT, p: Plaintext) -> CiphertextT:
        """x * p slot by slot."""
        return self._times_plain(x, p)

    @primitive("a product with an array", np.multiply)
    def multiply_array(self, x: CiphertextT, p: Plaintext) -> CiphertextT:
        """The same with a plaintext that was made of the user's array, for this product."""
        return self._times_plain(x, p)

    def _times_plain(self, x: CiphertextT, p: Plaintext) -> CiphertextT:
        check_plain(x, p, "A product")
        layout = x.layout.times(p.layout)
        x, poly, noise = self.plain_factor(x, p)
        noise = noises.product(x.noise, noise)
        return self.multiplied(x, tuple(c * poly for c in x.polys), noise, layout, p)

    @primitive("a product with an integer", np.multiply)
    def multiply_integer(self, x: CiphertextT, value: int | Symbolic) -> CiphertextT:
        """x * value for an integer, exact, at the same level and scale."""
        check_factor(x, value)
        terms = self.addend(x)
        noise = noises.scaled(terms.noise, value, is_public=in_circuit())
        noise = told_if_zero(noise, value, 1.0, "a product with an integer")
        layout = x.layout.with_tail(x.layout.tail.times(Tail(value=value)))
        return self.summed(x, terms.map(lambda p: p * value, noise), x.level, layout)

    @primitive("a product with a number", np.multiply)
    def multiply_scalar(self, x: CiphertextT, value: complex | Symbolic) -> CiphertextT:
        """x * value in every slot, encoded at the scale of the level."""
        self.check_factor_of_number(x)
        scale = x.params.scale(x.level)
        check_factor(x, value, scale)
        factor = constant_poly(value, x.params.ring(x.level), scale)
        noise = noises.product(x.noise, _constant_noise(value, scale))
        noise = told_if_zero(noise, value, float(scale), "a product with a number")
        layout = _scalar_layout(x, value, x.layout.tail.times(Tail(value=value)))
        return self.multiplied(x, tuple(c * factor for c in x.polys), noise, layout)


def check_plain(x: CiphertextData, p: Plaintext, what: str) -> None:
    """Raise ParameterError where a plaintext has other parameters than a ciphertext."""
    if p.params != x.params:
        raise ParameterError(
            f"{what} got a plaintext of other parameters, {p.params.slots} slots at "
            f"n={p.params.n}.",
            f"The ciphertext has {x.slots} slots at n={x.params.n}.",
            "Encode with the context that made the ciphertext.",
        )


def _constant_noise(value: complex | Symbolic, scale: Fraction, degree: int = 1) -> Noise:
    return noises.of_constant(value, as_float(scale) ** degree, is_public=in_circuit())


def _scalar_layout(x: CiphertextData, value: complex | Symbolic, tail: Tail) -> Layout:
    """The layout of `x` combined with a number, which fills all slots."""
    sample = value.sample if isinstance(value, Symbolic) else value
    return x.layout.joined(Layout(None, isinstance(sample, complex)), tail)
