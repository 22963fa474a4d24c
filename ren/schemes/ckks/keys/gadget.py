"""The gadget of a set of parameters: one for each, cached."""

from __future__ import annotations

from functools import lru_cache

from ren.core.ring import RingSpec
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.keyswitch import Gadget


@lru_cache(maxsize=64)
def gadget_of(params: Parameters) -> Gadget:
    """Digits of the union of the level bases, and the special primes."""
    return Gadget(params.n, params.digits, params.specials)


def public_ring(params: Parameters) -> RingSpec:
    """The ring of the public key: the union of the level bases, and one special prime."""
    return RingSpec(params.n, (*params.union, params.specials[0]))
