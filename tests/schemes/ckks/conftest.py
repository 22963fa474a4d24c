"""Contexts shared by the tests of a run: making keys and compiling kernels takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ren.schemes import ckks
from tests.properties.op_by_op import Runners, op_by_op

SMALL = 1 << 10  # insecure, for behaviour that does not depend on the degree


@pytest.fixture(scope="session")
def small_params() -> ckks.Parameters:
    return ckks.Parameters.for_depth(3, n=SMALL, security=None)


@pytest.fixture(scope="session")
def ctx(small_params) -> ckks.Context:
    """n = 2^10, depth 3, scale 2^40; insecure."""
    return ckks.context(params=small_params)


@pytest.fixture(scope="session")
def ctx13() -> ckks.Context:
    """n = 2^13, depth 2, scale 2^40, 128-bit secure."""
    return ckks.context(depth=2, n=1 << 13)


@pytest.fixture(scope="session")
def ctx14() -> ckks.Context:
    """n = 2^14, depth 5, scale 2^40, 128-bit secure."""
    return ckks.context(depth=5, n=1 << 14)


@pytest.fixture
def slots():
    """`slots(count, seed)`: a dense vector in [-1, 1] with both ends."""

    def draw(count: int, seed: int = 0) -> np.ndarray:
        values = np.random.default_rng(seed).uniform(-1, 1, count)
        values[:2] = (1, -1) if seed % 2 else (-1, 1)
        return values

    return draw


@pytest.fixture(scope="session")
def runners() -> Runners:
    return Runners()


@pytest.fixture
def interpreted(runners: Runners) -> Iterator[None]:
    """Programs run op by op in NumPy: for values and bounds of many small programs.

    Compiling their kernels would take longer than all else. Tests of kernels are elsewhere.
    """
    with op_by_op(runners):
        yield
