"""Settings of the property tests, and rings that several files use."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from ren.ring import RingSpec
from tests.rings import primes

# No deadlines: the first example of a shape compiles, and machines differ.
_COMMON = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("ci", _COMMON)
settings.register_profile("quick", _COMMON, max_examples=20)
settings.load_profile("ci")


@pytest.fixture
def ring() -> RingSpec:
    """The ring of the examples in the guides: Z_q[X]/(X^8 + 1), q = 17 * 97."""
    return RingSpec(n=8, moduli=(17, 97))


@pytest.fixture
def wide_ring() -> RingSpec:
    """n = 256, three limbs: the smallest valid prime, one in the middle, one just under 2^30."""
    pool = primes(256)
    return RingSpec(n=256, moduli=(pool[0], pool[len(pool) // 2], pool[-1]))
