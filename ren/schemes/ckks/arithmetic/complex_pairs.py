"""Real and imaginary parts, and two real vectors as those of one complex vector.

A product with real factors is computed for both at once. Products with complex factors add up two:

    Re((p - i q) (a + i b)) = p a + q b

Twice a real part is the sum with the conjugate: one key switch. X^(n/2) is i in every slot, so a
product with i takes no level.
"""

from __future__ import annotations

import math

import attrs
import numpy as np

from ren.poly import Poly
from ren.poly.poly import bounded
from ren.schemes.ckks.arithmetic.automatic import add
from ren.schemes.ckks.arithmetic.evolve import (
    evolve,
    evolve_layout,
    kept_to,
    need_level,
    within_that_of,
)
from ren.schemes.ckks.arithmetic.manual import normal
from ren.schemes.ckks.arithmetic.number_types import real_part
from ren.schemes.ckks.arithmetic.operation_hooks import circuit, operation
from ren.schemes.ckks.arithmetic.rotation import conjugate
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, CiphertextT
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.rlwe.keyswitch import gadget_of


def imaginary_unit(x: CiphertextData) -> Poly:
    """X^(n/2) over the ring of the level of `x` and the special primes, NTT domain.

    It is known there, so that a sum of its products is divided by P once.
    """
    power = np.zeros(x.n, np.int64)
    power[x.n // 2] = 1
    device = "python" if x.polys[0].device == "python" else None
    ring = gadget_of(x.params).extended(x.ring)
    return bounded(Poly(power, ring, device).ntt(), 1)


@operation("a product with i", lambda x, *_: 1j * x)
def times_i(x: CiphertextT, unit: Poly | None = None) -> CiphertextT:
    """i x; `unit` is the `imaginary_unit` of its level, made once for many."""
    x = normal(x)
    unit = imaginary_unit(x) if unit is None else unit
    polys = tuple(p * unit.to_ring(p.ring) for p in x.polys)
    return evolve(x, polys, x.noise, layout=attrs.evolve(x.layout, is_complex=True))


def paired(a: CiphertextT, b: CiphertextT, unit: Poly | None = None) -> CiphertextT:
    """a + i b, of real numbers."""
    made = add(a, times_i(b, unit))
    return within_that_of(made, noises.larger(a.noise, b.noise), math.sqrt(2))


def twice_real(z: CiphertextT) -> CiphertextT:
    """Twice the real parts, as complex numbers: one conjugation."""
    return add(z, conjugate(z))


@circuit("real", real_part)
def real(ct: CiphertextT) -> CiphertextT:
    """The real parts: one level and a conjugation; none where what went in is real."""
    if not ct.layout.is_complex:
        return ct
    need_level(ct, 1, "The real part")
    return evolve_layout(kept_to((ct + conjugate(ct)) * 0.5, ct), is_complex=False)


@circuit("imag", real_part)
def imag(ct: CiphertextT) -> CiphertextT:
    """The imaginary parts: one level and a conjugation; zeros where what went in is real."""
    if not ct.layout.is_complex:
        return ct * 0
    need_level(ct, 1, "The imaginary part")
    return evolve_layout(kept_to((ct - conjugate(ct)) * -0.5j, ct), is_complex=False)
