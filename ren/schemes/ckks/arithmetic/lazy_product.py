"""Late relinearization and late rescaling: what a ciphertext is before it is in normal form.

A product at level l is c0 + c1 s + c2 s^2 = s_l^2 message over Q_l, and sums may stay there. They
are relinearized and rescaled once, when an operation needs two components of degree 1. Programs are
lazy, so both forms are built where a result is made. The ciphertext holds the normal form alone.
Beside it stand, for the sums to come, the terms that it was made of.

As a rewrite of the program this would be unsound. The key switch of a + b and the sum of both
differ by multiples of the key. Only decryption removes these.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import attrs

from ren.poly import Poly
from ren.poly.poly import from_node
from ren.schemes.ckks.encoding.ciphertext_data import Beyond, CiphertextData, Pending
from ren.schemes.ckks.encoding.plaintext import Plaintext
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise import sigmas
from ren.schemes.ckks.noise.readable import Noise
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.keys import SwitchingKey
from ren.schemes.rlwe.keyswitch import gadget_of, key_switch

Polys = tuple[Poly, ...]
Operand = CiphertextData | Plaintext


@attrs.frozen(eq=False)
class LazySum:
    """A ciphertext of level l as a sum that is not carried out: settle(product) + base.

    Args:
        product: what is not relinearized or rescaled, at scale s_(l+1)^2 over Q_(l+1): none, or
            up to three components (a plaintext has one).
        base: addends at scale s_l over Q_l: none, or up to two components.
        key: relinearizes the third component of `product`, where it has one.
        noise: of the sum as it is, before relinearization and rescale.
        source: noise of `product` alone, where that differs: it decides the place of the errors
            of relinearization and rescale.
        beyond: the same as `noise` of the slots beyond the length; None where it is `noise`.
    """

    product: Polys = ()
    base: Polys = ()
    key: SwitchingKey | None = None
    noise: Noise = attrs.field(default=noises.ZERO, kw_only=True)
    source: Noise | None = attrs.field(default=None, kw_only=True)
    beyond: Beyond | None = attrs.field(default=None, kw_only=True)

    @property
    def rounded(self) -> Noise:
        """Noise of what relinearization and rescale round: of `product` alone."""
        return self.noise if self.source is None else self.source

    def map(self, function: Callable[[Poly], Poly], noise: Noise) -> LazySum:
        """A linear function of every polynomial; `noise` is that of the result."""
        product, base = tuple(map(function, self.product)), tuple(map(function, self.base))
        return LazySum(product, base, self.key, noise=noise, source=self.source)

    def plus_constant(self, constant: Any, noise: Noise) -> LazySum:
        """The sum with a constant, at the scale of `product` where there is one."""
        noise = noises.total(self.noise, noise)
        if not self.product:
            c0, *rest = self.base
            return LazySum(base=(c0 + constant, *rest), noise=noise)
        c0, *rest = self.product
        return attrs.evolve(self, product=(c0 + constant, *rest), noise=noise)

    def plus(self, other: LazySum, sign: int = 1) -> LazySum:
        """The sum with another; the difference where `sign` is -1."""
        products = [t for t in (self, other) if t.product]
        source = products[0].rounded if len(products) == 1 else None
        if len(products) == 2 and (self.source is not None or other.source is not None):
            source = noises.total(self.rounded, other.rounded)
        product = added(self.product, other.product, sign)
        base = added(self.base, other.base, sign)
        noise, beyond = noises.total(self.noise, other.noise), _sum_beyond(self, other)
        key = self.key or other.key
        return LazySum(product, base, key, noise=noise, source=source, beyond=beyond)

    def settled(self, params: Parameters, level: int) -> Polys:
        """The normal form: two components of degree 1 at `level`.

        With three components in `product` it takes one key switch and two rescales. With two it
        takes the rescales alone, with none nothing.
        """
        if not self.product:
            return self.base
        c0, c1, *rest = self.product
        if rest:
            assert self.key is not None  # the product of ciphertexts that made `rest` gave it
            k0, k1 = key_switch(rest[0], self.key, gadget_of(params))
            c0, c1 = c0 + k0, c1 + k1
        ring = params.ring(level)
        return added((c0.rescale(ring), c1.rescale(ring)), self.base)

    def settled_noise(self, params: Parameters, level: int, scale: Fraction | None = None) -> Noise:
        """The noise of the normal form, at `scale` or that of the level."""
        if not self.product:
            return self.noise
        sigma = sigmas.settle_sigma(params, level, len(self.product) > 2, scale)
        return noises.with_source(self.noise, sigma, self.source)


def _sum_beyond(a: LazySum, b: LazySum) -> Beyond | None:
    first, second = a.beyond, b.beyond
    if first is None or (second is not None and not _is_same(first.length, second.length)):
        first, second, a, b = second, None, b, a
    if first is None:
        return None
    return Beyond.of(first.length, noises.total, first, b.noise if second is None else second)


def product_beyond(x: CiphertextData, a: Noise, y: Operand, b: Noise) -> Beyond | None:
    """Noise of a product beyond the length of both factors, which have noises `a` and `b`.

    None unless one of them is zero there.
    """
    left, right = x.layout, y.layout
    tails = left.tail, right.tail
    if left.blocks > 1 or left.length is None or not _is_same(left.length, right.length):
        return None
    if not any(t.is_zero for t in tails) or not all(t.is_zero or t.is_bounded for t in tails):
        return None
    return Beyond.of(left.length, noises.product, _factor_beyond(x, a), _factor_beyond(y, b))


def _factor_beyond(x: Operand, noise: Noise) -> Beyond | Noise:
    """Noise of a factor at the level of a product, which has `noise` there, beyond its length."""
    if not x.layout.tail.is_zero:
        return noise
    beyond = _settled_beyond(x) if isinstance(x, CiphertextData) else None
    if beyond is None or not _is_same(beyond.length, x.layout.length):
        return noises.without_message(noise)
    return beyond


def _settled_beyond(x: CiphertextData) -> Beyond | None:
    pending = x.pending
    if pending is None or pending.beyond is None:
        return None
    source = pending.noise if pending.source is None else pending.source
    params, level, is_switched = x.params, x.level, len(pending.product) > 2

    def settled(beyond: Noise, source: Noise) -> Noise:
        return noises.with_source(beyond, sigmas.settle_sigma(params, level, is_switched), source)

    return Beyond.of(pending.beyond.length, settled, pending.beyond, source)


def noise_beyond(x: CiphertextData, length: int) -> Noise | None:
    """Noise of `x` beyond its `length`, if it is known to be other noise than that before."""
    beyond = _settled_beyond(x)
    return beyond.made() if beyond is not None and _is_same(beyond.length, length) else None


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def added(a: Polys, b: Polys, sign: int = 1) -> Polys:
    """a + b or a - b by components; a missing one is zero."""
    rest = b[len(a) :] if sign > 0 else [-q for q in b[len(a) :]]
    both = [p + q if sign > 0 else p - q for p, q in zip(a, b, strict=False)]
    return (*both, *a[len(b) :], *rest)


def pending_of(terms: LazySum) -> Pending | None:
    """Pending form to keep beside the normal form of `terms`; None without a product."""
    if not terms.product:
        return None
    product, base = (tuple(weakref.ref(p.node) for p in t) for t in (terms.product, terms.base))
    return Pending(product, base, terms.key, terms.noise, terms.source, terms.beyond)


def lazy_sum_of(pending: Pending) -> LazySum | None:
    """The sum that goes on from a pending form, while its addends live."""
    nodes = [ref() for ref in (*pending.product, *pending.base)]
    polys = tuple(from_node(node) for node in nodes if node is not None)
    if len(polys) < len(nodes):
        return None
    count = len(pending.product)
    return LazySum(
        polys[:count], polys[count:], pending.key, noise=pending.noise, source=pending.source,
        beyond=pending.beyond,
    )  # fmt: skip
