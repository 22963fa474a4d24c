"""Decryption errors at scale 2^40 on dense vectors over all slots, both ends included."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ren.schemes import ckks
from ren.schemes.ckks.context import Context
from tests.schemes.ckks.keys import keys_of

BAR = 2.0**-20


def error(x, want) -> float:
    return float(np.abs(x.decrypt() - want).max())


@pytest.fixture(params=["ctx13", pytest.param("ctx14", marks=pytest.mark.slow)])
def owner(request) -> Context:
    return request.getfixturevalue(request.param)


def test_product_rotations_and_scalar_sum(owner, slots):
    a, b = slots(owner.slots, 0), slots(owner.slots, 1)
    x, y = owner.encrypt(a), owner.encrypt(b)
    assert error(x * y, a * b) < BAR
    for steps in (3, -1, 0, owner.slots + 3, -owner.slots - 1):
        assert error(x.rotate(steps), np.roll(a, -steps)) < BAR
    assert error(x + 1, a + 1) < BAR


def test_adding_a_scalar_loses_no_precision(owner, slots):
    a = slots(owner.slots)
    x = owner.encrypt(a)
    assert error(x + 1, a + 1) <= 2 * error(x, a)
    assert error(x + 0.1, a + 0.1) <= 2 * error(x, a)


@pytest.mark.slow
def test_polynomial_of_degree_eight(ctx14, slots):
    a = slots(ctx14.slots)
    x = ctx14.encrypt(a)
    z = x**8 - 0.5 * x**3 + x
    assert z.level == x.level - 3
    assert error(z, a**8 - 0.5 * a**3 + a) < BAR


def test_public_key_encryption(owner, slots):
    a = slots(owner.slots)
    assert error(owner.public().encrypt(a), a) < 2.0**-22


@pytest.mark.slow
def test_no_slot_has_more_rotation_noise_than_the_others(owner, slots):
    """Uncentered digits would pile the error up in one slot: fixed for a step, so one step is used.

    What rounding leaves is multiplied by the secret, and a key's noise is fixed as well: slots of
    one secret alone differ by sqrt(ln(n/2) / ln 2), 3.6 times at n = 2^14. So 64 rotations go
    over 8 secrets and a fresh key each.
    """
    a = slots(owner.slots)
    total = np.zeros(owner.slots)
    for _ in range(8):
        other = ckks.context(params=owner.params)
        for _ in range(8):
            maker = Context(other.params, dataclasses.replace(keys_of(other), galois={}))
            with maker:
                total += (maker.encrypt(a).rotate(1).decrypt() - np.roll(a, -1)) ** 2
    rms = np.sqrt(total / 64)
    assert rms.max() < 4 * np.median(rms)
