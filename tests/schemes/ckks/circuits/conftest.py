"""Deeper chains than a secure small degree allows: insecure, for what does not depend on it."""

from __future__ import annotations

import pytest

from ren.schemes import ckks


@pytest.fixture(scope="session")
def ctx6() -> ckks.Context:
    """n = 2^12, depth 6; insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(6, n=1 << 12, security=None))


@pytest.fixture(scope="session")
def ctx14() -> ckks.Context:
    """n = 2^12, depth 14; insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(14, n=1 << 12, security=None))


@pytest.fixture(scope="session")
def ctx4() -> ckks.Context:
    """n = 2^12, depth 4; insecure."""
    return ckks.context(params=ckks.Parameters.for_depth(4, n=1 << 12, security=None))


@pytest.fixture(scope="session")
def ctx64(ctx4) -> ckks.Context:
    """The same with 64 slots, repeated."""
    return ckks.context(params=ctx4.params, slots=64)
