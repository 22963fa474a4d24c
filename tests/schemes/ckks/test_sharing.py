"""decrypt_shared: noise for others' eyes, once for each ciphertext, within a budget."""

from __future__ import annotations

import numpy as np
import pytest

from ren.core.errors import MissingKeyError, ParameterError, SharingError
from ren.sampling import Xof
from ren.schemes import ckks
from ren.schemes.ckks import sharing


@pytest.fixture
def owner(small_params):
    return ckks.context(params=small_params)


def test_the_noise_is_that_of_the_formula(owner, capsys):
    a = np.random.default_rng(0).uniform(-1, 1, owner.slots) + 0j
    x = owner.encrypt(a)
    plan = x.estimate
    got = owner.decrypt_shared(x, plan, queries=3)
    norm = np.sqrt(plan.variance) * (np.sqrt(owner.slots) + 6.5) + plan.offset * 22.7
    sigma = np.sqrt(12 * 3) * 2.0**15 * norm
    parts = np.concatenate([(got - a).real, (got - a).imag])
    assert parts.std() == pytest.approx(sigma, rel=0.15)
    assert abs(parts.mean()) < 5 * sigma / np.sqrt(parts.size)
    text = capsys.readouterr().out
    assert f"about {-np.log2(sigma):.1f} bits left" in text and "1 of 3" in text


def test_at_scale_40_eight_bits_are_left(ctx14, capsys):
    x = ctx14.encrypt([0.5])
    ctx14.decrypt_shared(x, x.estimate, queries=1)
    bits = float(capsys.readouterr().out.split("about ")[1].split()[0])
    assert 7.5 < bits < 8.5


def test_one_ciphertext_gives_one_result(owner):
    x = owner.encrypt([0.5, 0.25])
    first = owner.decrypt_shared(x, x.estimate, queries=2)
    assert first.shape == (2,) and first.dtype == np.float64
    again = ckks.Ciphertext.from_bytes(x.within(0.5).to_bytes())
    assert np.array_equal(owner.decrypt_shared(again, x.estimate, queries=2), first)
    y = owner.encrypt([0.5, 0.25])
    assert not np.array_equal(owner.decrypt_shared(y, x.estimate, queries=2), first)
    for refused in (x + 1, owner.encrypt([0.5])):
        with pytest.raises(SharingError, match="after 2 of 2"):
            owner.decrypt_shared(refused, x.estimate, queries=2)
    assert np.array_equal(owner.decrypt_shared(x, x.estimate, queries=2), first)


def test_a_batch_counts_each(owner):
    x = owner.encrypt(np.zeros((3, 4)))
    with pytest.raises(SharingError, match="3 more ciphertexts after 0 of 2"):
        owner.decrypt_shared(x, x.estimate, queries=2)
    assert owner.decrypt_shared(x, x.estimate, queries=3).shape == (3, 4)


def test_terms_and_plans_are_fixed(owner):
    x = owner.encrypt([0.5])
    owner.decrypt_shared(x, x.estimate, queries=5)
    with pytest.raises(SharingError, match="other terms"):
        owner.decrypt_shared(x, x.estimate, queries=6)
    with pytest.raises(SharingError, match="other terms"):
        owner.decrypt_shared(x, x.estimate, queries=5, statistical_bits=20)
    with pytest.raises(SharingError, match="another plan"):
        owner.decrypt_shared(x, 2.0**-30, queries=5)


def test_what_is_refused(owner):
    x = owner.encrypt([0.5])
    with pytest.raises(SharingError, match="Nothing would be left"):
        owner.decrypt_shared(x, 0.5, queries=1)
    for plan in (None, -1.0, np.inf, x):
        with pytest.raises(ParameterError, match="plan"):
            owner.decrypt_shared(x, plan, queries=1)
    for terms in ({"queries": 0}, {"queries": 1.5}, {"queries": 1, "statistical_bits": 500}):
        with pytest.raises(ParameterError, match="decrypt_shared"):
            owner.decrypt_shared(x, x.estimate, **terms)
    with pytest.raises(MissingKeyError):
        owner.server().decrypt_shared(x, x.estimate, queries=1)


def test_normal_draws():
    z = sharing.normal(Xof(b"seed", b"test"), (4, 50_000))
    for part in (z.real, z.imag):
        assert part.mean() == pytest.approx(0, abs=0.01)
        assert part.std() == pytest.approx(1, rel=0.01)
        assert np.mean(np.abs(part) > 3) == pytest.approx(0.0027, rel=0.2)
    assert np.mean(z.real * z.imag) == pytest.approx(0, abs=0.01)
