"""Numbers that stand in every slot, as polynomials: integers mostly, else of two terms."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ren.core.ring import Domain, RingSpec
from ren.core.spec import Spec
from ren.poly import Poly
from ren.poly.symbolic import Symbolic
from ren.schemes.ckks.encoding import encoder
from ren.schemes.rlwe.keys import from_residues


def constant_poly(
    value: complex | Symbolic, ring: RingSpec, scale: Fraction
) -> Poly | int | Symbolic:
    """round(value scale): an integer, or for complex values a polynomial of two terms."""
    if isinstance(value, Symbolic):
        return _constant_symbol(value, ring, scale)
    parts = encoder.encode_constant(value, ring.n, scale)
    if parts.keys() <= {0}:
        return parts.get(0, 0)
    return from_residues(_constant_limbs(value, ring, scale), ring, Domain.COEFF).ntt()


def _constant_symbol(value: Symbolic, ring: RingSpec, scale: Fraction) -> Poly | Symbolic:
    """Symbolic form of `constant_poly`, for a number that is known at each call."""
    if not isinstance(value.sample, complex):
        return value.map(lambda v: encoder.encode_constant(v, ring.n, scale).get(0, 0))
    node = value.encoded(
        (ring, scale), Spec(ring, Domain.COEFF), lambda v: _constant_limbs(v, ring, scale)
    )
    return Poly.from_node(node).ntt()


def _constant_limbs(value: complex, ring: RingSpec, scale: Fraction) -> NDArray[np.uint32]:
    return encoder.residues(encoder.constant_coefficients(value, ring.n, scale), ring.moduli)
