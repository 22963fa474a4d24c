"""decrypt_shared: noise for others' eyes, once for each ciphertext, within a budget."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import ren
from ren.core.errors import MissingKeyError, ParameterError, SharingError
from ren.schemes import ckks
from ren.schemes.ckks.noise import decryption_budget as ledger
from tests.schemes.ckks.keys import keys_of


@pytest.fixture(autouse=True)
def log(caplog, capsys):
    """The log tells what was spent; nothing is printed."""
    caplog.set_level("INFO", logger="ren")
    yield
    assert not capsys.readouterr().out


@pytest.fixture
def owner(small_params):
    return ckks.context(params=small_params)


def test_the_noise_is_that_of_the_formula(owner, caplog):
    a = np.random.default_rng(0).uniform(-1, 1, owner.slots) + 0j
    x = owner.encrypt(a)
    plan = x.estimate
    got = owner.decrypt_shared(x, plan, queries=3)
    norm = np.sqrt(plan.variance) * (np.sqrt(owner.slots) + 6.5) + plan.offset * 22.7
    sigma = np.sqrt(12 * 3) * 2.0**15 * norm
    parts = np.concatenate([(got - a).real, (got - a).imag])
    assert parts.std() == pytest.approx(sigma, rel=0.15)
    assert abs(parts.mean()) < 5 * sigma / np.sqrt(parts.size)
    text = caplog.text
    assert f"about {-np.log2(sigma):.1f} bits left" in text and "1 of 3" in text


def test_at_scale_40_eight_bits_are_left(ctx14, caplog):
    x = ctx14.encrypt([0.5])
    ctx14.decrypt_shared(x, x.estimate, queries=1)
    bits = float(caplog.text.split("about ")[1].split()[0])
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
    x = owner.encrypt(np.ones((3, 4)), pack="rows")
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
    with pytest.raises(SharingError, match="any of them; nothing was shared"):
        owner.decrypt_shared(x, 0.5, queries=1)
    for plan in (None, -1.0, np.inf, x):
        with pytest.raises(ParameterError, match="plan"):
            owner.decrypt_shared(x, plan, queries=1)
    finer = ckks.context(depth=1, scale_bits=60, n=1 << 12, security=None).encrypt([0.5]).estimate
    for plan in (1e-30, finer, x.estimate.error_bound / 1e3):
        with pytest.raises(ParameterError, match=r"each ciphertext has an error .*\n.*f\(x\)\.est"):
            owner.decrypt_shared(x, plan, queries=1)
    for terms in ({"queries": 0}, {"queries": 1.5}, {"queries": 1, "statistical_bits": 500}):
        with pytest.raises(ParameterError, match="decrypt_shared"):
            owner.decrypt_shared(x, x.estimate, **terms)
    with pytest.raises(MissingKeyError):
        owner.server().decrypt_shared(x, x.estimate, queries=1)


def share(context, x, queries=3):
    return context.decrypt_shared(x, 2.0**-25, queries=queries)


def elsewhere(blob: bytes, monkeypatch) -> ckks.Context:
    """The context of these bytes in a process that knows nothing of it."""
    monkeypatch.setattr(ledger, "_ledgers", {})
    return ckks.Context.from_bytes(blob, include_secret=True)


def test_a_budget_is_saved_with_the_secret(owner, tmp_path, monkeypatch, caplog):
    xs = [owner.encrypt([0.5]) for _ in range(4)]
    unused = owner.to_bytes(include_secret=True)
    first = share(owner, xs[0])
    share(owner, xs[1])
    owner.save(tmp_path / "keys", include_secret=True)
    assert "loaded" not in caplog.text

    again = elsewhere((tmp_path / "keys").read_bytes(), monkeypatch)
    assert np.array_equal(share(again, xs[0]), first)  # the same noise: nothing to average
    assert "2 of 3 ciphertexts shared, counting on from" in caplog.text
    with pytest.raises(SharingError, match="other terms"):
        share(again, xs[2], queries=9)
    share(again, xs[2])
    with pytest.raises(SharingError, match="after 3 of 3"):
        share(again, xs[3])
    assert np.array_equal(share(elsewhere(unused, monkeypatch), xs[0]), first)


def test_loading_twice_gives_no_second_budget(owner):
    xs = [owner.encrypt([0.5]) for _ in range(4)]
    blob = owner.to_bytes(include_secret=True)
    copies = [owner, *(ckks.Context.from_bytes(blob, include_secret=True) for _ in range(2))]
    for context, x in zip(copies, xs, strict=False):
        share(context, x)
    copies = context = None  # budgets outlive the contexts
    for late in (owner, ckks.Context.from_bytes(blob, include_secret=True)):
        with pytest.raises(SharingError, match="after 3 of 3"):
            share(late, xs[3])


@pytest.mark.parametrize("queries", [(1, 1), (1, 4), (4, 1)], ids=str)
def test_merged_copies_over_the_budget_are_saved_and_read(owner, monkeypatch, queries):
    """Each of two copies spends a budget apart; a context that holds both loads again."""
    blob, x = owner.to_bytes(include_secret=True), owner.encrypt([0.5])
    saved = []
    for count in queries:
        copy = elsewhere(blob, monkeypatch)
        share(copy, copy.encrypt(np.ones((count, 2)), pack="rows"), queries=count)
        saved.append(copy.to_bytes(include_secret=True))
    monkeypatch.setattr(ledger, "_ledgers", {})
    merged, _ = (ckks.Context.from_bytes(data, include_secret=True) for data in saved)
    again = elsewhere(merged.to_bytes(include_secret=True), monkeypatch)
    assert again.decrypt(x) == pytest.approx([0.5], abs=1e-3)
    with pytest.raises(SharingError, match=f"after {sum(queries)} of {queries[0]}"):
        share(again, x, queries=queries[0])


def test_copies_apart_give_independent_noise_for_other_plans(owner, monkeypatch):
    x, blob = owner.encrypt(np.ones(owner.slots)), owner.to_bytes(include_secret=True)
    a = owner.decrypt_shared(x, 2.0**-25, queries=3)
    b = elsewhere(blob, monkeypatch).decrypt_shared(x, 2.0**-24, queries=3)
    assert np.abs(np.corrcoef(a, b)[0, 1]) < 0.3


WEIGHTS = np.linspace(-1, 1, 8) / 1000


def deviation(plan, slots, queries, bits=30):
    """The formula of docs/security.md, of an error that is random alone."""
    norm = np.sqrt(plan.variance) * (np.sqrt(slots) + 6.5) + plan.offset * np.sqrt(slots)
    return np.sqrt(12 * queries) * 2.0 ** (bits / 2) * norm


def test_noise_above_the_numbers_is_told_before_it_is_shared(owner):
    x = owner.encrypt(WEIGHTS) * 0.5
    sigma = deviation(x.estimate, owner.slots, 10)
    with pytest.raises(SharingError, match="nothing was shared") as told:
        owner.decrypt_shared(x, x.estimate, queries=10)
    text = str(told.value)
    assert f"add noise of {sigma:.2g} to numbers up to 2^-10" in text
    assert "shared=10) choose" in text and "noise=" in text
    assert ledger.ledger_of(keys_of(owner).require_secret()).saved.entries == ()
    bits = int(text.split("scale_bits=")[1].split()[0])
    finer = ckks.context(depth=1, n=1 << 10, scale_bits=bits, security=None)
    y = finer.encrypt(WEIGHTS) * 0.5
    assert deviation(y.estimate, finer.slots, 10) < 0.0005 * 2.0**-9
    got = finer.decrypt_shared(y, y.estimate, queries=10)
    assert np.abs(got - WEIGHTS / 2).max() < 6 * 0.0005 * 2.0**-9
    with pytest.raises(SharingError, match="No scale_bits would do"):
        owner.decrypt_shared(x, 0.1, queries=10)


def test_noise_that_is_accepted_is_shared(owner):
    x = owner.encrypt(np.zeros(4))
    sigma = deviation(x.estimate, owner.slots, 3)
    with pytest.raises(SharingError, match=f"not below {sigma / 2:.3g}"):
        owner.decrypt_shared(x, x.estimate, queries=3, noise=sigma / 2)
    got = owner.decrypt_shared(x, x.estimate, queries=3, noise=2 * sigma)
    assert 0 < np.abs(got).max() < 6 * sigma
    large = owner.encrypt(np.full(owner.slots, 200.0))
    sigma = np.sqrt(12 * 3) * 2.0**15 * 2.0**-20 * np.sqrt(owner.slots)  # above 1, far below 200
    got = owner.decrypt_shared(large, 2.0**-20, queries=3)
    assert sigma < np.abs(got - 200).max() < 6 * sigma
    for noise in (0, -1.0, np.inf, np.nan, "1", True):
        with pytest.raises(ParameterError, match="noise is a number above 0"):
            owner.decrypt_shared(x, x.estimate, queries=3, noise=noise)


SHARED = {
    "affine": lambda x: x * 0.5 + 1,
    "square": lambda x: x * x,
    "jitted": ren.jit(lambda x: x * x + x.rotate(1)),
    "several": lambda x: {"a": x * 0.25, "b": [x.rotate(1) * x, 3]},
}


@pytest.mark.parametrize("name", SHARED)
def test_plan_chooses_a_scale_at_which_shared_results_are_useful(name):
    f = SHARED[name]
    for wanted, terms in (
        (1e-4, {"noise": 1e-4}),
        (2.0**-9, {}),
        (2.0**-9, {"statistical_bits": 40}),
    ):
        plan = ren.plan(f, ckks.spec(8), shared=10, n=1 << 10, security=None, **terms)
        ctx = ckks.context(plan)
        results = jax.tree.leaves(
            f(ctx.encrypt(WEIGHTS)), is_leaf=lambda v: isinstance(v, ckks.Ciphertext)
        )
        results = [y for y in results if isinstance(y, ckks.Ciphertext)]
        bits = terms.get("statistical_bits", 30)
        sigmas = [deviation(y.estimate, ctx.slots, 10, bits) for y in results]
        bounds = [1.0 if "noise" in terms else y.estimate.message_bound for y in results]
        assert max(s / b for s, b in zip(sigmas, bounds, strict=True)) < wanted
        assert max(s / b for s, b in zip(sigmas, bounds, strict=True)) > wanted / 32
        y, accepted = results[0], 2 * sigmas[0]
        terms = {"statistical_bits": bits, "noise": accepted}
        got = ctx.decrypt_shared(y, y.estimate, queries=10, **terms)
        assert np.abs(got - y.decrypt()).max() < 6 * sigmas[0]


def test_plan_with_shared_results_that_no_scale_makes_useful():
    small = {"n": 1 << 10, "security": None}
    enough = ren.plan(lambda x: x * x, ckks.spec(8), shared=1, noise=9.0, **small)
    assert enough.params == ren.plan(lambda x: x * x, ckks.spec(8), **small).params
    for f, queries in ((lambda x: x * x, 10**15), (rough, 10), (counted, 10)):
        with pytest.raises(ParameterError, match="no scale makes the noise useful"):
            ren.plan(f, ckks.spec(8), shared=queries, **small)
    for terms in ({"shared": 0}, {"noise": -1}, {"statistical_bits": 5}):
        with pytest.raises(ParameterError, match="decrypt_shared"):
            ren.plan(lambda x: x, ckks.spec(8), **small, **{"shared": 10, **terms})


def counted(x):
    return jax.lax.fori_loop(0, 3, lambda _, carry: carry + 1, x)


def rough(x):
    return ckks.chebyshev(x, np.exp, (-1, 1), 3)
