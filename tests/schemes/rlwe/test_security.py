"""The security bound: the table as published, and what it says of given moduli."""

from __future__ import annotations

import math

import pytest

from ren.core.errors import InsecureParametersError, ParameterError
from ren.schemes.rlwe.security import (
    check_security_target,
    max_log_qp,
    require_security,
    require_sparse_security,
    security_bits,
    smallest_secure_degree,
)

# eprint 2024/463, Table 5.2: log2 n -> 128, 192, 256 bits; None: not listed.
PUBLISHED = {
    10: (26, None, None),
    11: (53, 36, 27),
    12: (106, 73, 56),
    13: (214, 147, 114),
    14: (430, 297, 230),
    15: (868, 597, 462),
    16: (1747, 1199, 929),
    17: (3523, 2411, 1866),
}


@pytest.mark.parametrize("log_n", PUBLISHED)
def test_the_bound_is_the_published_table(log_n):
    for target, bound in zip((128, 192, 256), PUBLISHED[log_n], strict=True):
        assert max_log_qp(1 << log_n, target) == (bound or 0)


def test_no_target_has_no_bound_and_unlisted_degrees_hold_nothing():
    assert max_log_qp(1 << 13, None) == math.inf
    assert max_log_qp(1 << 9, 128) == max_log_qp(1 << 18, 128) == max_log_qp(1000, 128) == 0


@pytest.mark.parametrize("log_n", PUBLISHED)
def test_security_bits_is_the_highest_row_that_covers(log_n):
    n, row = 1 << log_n, PUBLISHED[log_n]
    for target, bound in zip((128, 192, 256), row, strict=True):
        if bound:
            assert security_bits(n, bound) == target
            assert security_bits(n, bound + 0.01) < target
    assert security_bits(n, 10_000) == 0


def test_bootstrapping_sets_of_1767_bits_are_over_the_bound():
    assert security_bits(1 << 16, 1767) == 0


@pytest.mark.parametrize(
    ("secret", "sigma"), [("sparse", 3.2), ("ternary", 3.19), ("ternary", 6.4), ("binary", 3.2)]
)
def test_unlisted_secrets_and_noise_are_insecure(secret, sigma):
    assert security_bits(1 << 14, 100, "ternary", 3.2) == 256
    assert security_bits(1 << 14, 100, secret, sigma) == 0
    with pytest.raises(InsecureParametersError, match=r"3\.2"):
        require_security(1 << 14, 100, 128, secret, sigma)
    require_security(1 << 14, 100, None, secret, sigma)


def test_moduli_over_the_bound_are_refused_with_the_degree_that_would_do():
    require_security(1 << 13, 214, 128)
    with pytest.raises(InsecureParametersError) as error:
        require_security(1 << 13, 214.5, 128)
    given, needed, do = str(error.value).splitlines()
    assert "214.5 bits at n=8192" in given
    assert "<= 214 at n=8192" in needed
    assert "n=16384" in do and "security=None" in do
    require_security(1 << 13, 214.5, None)


def test_refusals_where_no_degree_helps_and_where_none_is_listed():
    with pytest.raises(InsecureParametersError, match="less depth"):
        require_security(1 << 17, 5000, 128)
    with pytest.raises(InsecureParametersError, match="No modulus has 256-bit security at n=1024"):
        require_security(1 << 10, 20, 256)


def test_smallest_secure_degree():
    assert smallest_secure_degree(214, 128) == 1 << 13
    assert smallest_secure_degree(214.1, 128) == 1 << 14
    assert smallest_secure_degree(214, 256) == 1 << 14
    assert smallest_secure_degree(4000, 128) is None


@pytest.mark.parametrize("target", [100, 0, -128, 128.0, "128", True])
def test_targets_that_are_not_listed_are_refused(target):
    with pytest.raises(ParameterError, match="128, 192 and 256") as error:
        check_security_target(target)
    assert repr(target) in str(error.value)


def test_sparse_secrets_have_a_row_of_their_own():
    require_sparse_security(1 << 16, 110.0, 128)
    require_sparse_security(1 << 15, 90.0, 128)
    require_sparse_security(1 << 10, 900.0, None)
    for n, bits, target in (
        (1 << 16, 110.1, 128), (1 << 15, 90.1, 128), (1 << 14, 30.0, 128), (1 << 17, 80.0, 128),
        (1 << 16, 80.0, 192),
    ):  # fmt: skip
        with pytest.raises(InsecureParametersError, match="sparse secret"):
            require_sparse_security(n, bits, target)
