"""decrypt_shared: noise for others' eyes, once for each ciphertext, within a budget."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ren.core.errors import MissingKeyError, ParameterError, SerializationError, SharingError
from ren.schemes import ckks
from ren.schemes.ckks.noise import decryption_budget as ledger
from tests.schemes.ckks.frames import header_of, sealed, with_header
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
    x = owner.encrypt(np.zeros((3, 4)), pack="rows")
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
        share(copy, copy.encrypt(np.zeros((count, 2)), pack="rows"), queries=count)
        saved.append(copy.to_bytes(include_secret=True))
    monkeypatch.setattr(ledger, "_ledgers", {})
    merged, _ = (ckks.Context.from_bytes(data, include_secret=True) for data in saved)
    again = elsewhere(merged.to_bytes(include_secret=True), monkeypatch)
    assert again.decrypt(x) == pytest.approx([0.5], abs=1e-3)
    with pytest.raises(SharingError, match=f"after {sum(queries)} of {queries[0]}"):
        share(again, x, queries=queries[0])


def test_copies_apart_give_independent_noise_for_other_plans(owner, monkeypatch):
    x, blob = owner.encrypt(np.zeros(owner.slots)), owner.to_bytes(include_secret=True)
    a = owner.decrypt_shared(x, 2.0**-25, queries=3)
    b = elsewhere(blob, monkeypatch).decrypt_shared(x, 2.0**-24, queries=3)
    assert np.abs(np.corrcoef(a, b)[0, 1]) < 0.3


@pytest.mark.parametrize(
    "changes",
    [
        {"terms": None}, {"terms": [30]}, {"terms": [5, 3]}, {"terms": [30, 0]}, {"terms": "x"},
        {"entries": 1}, {"entries": 3}, {"entries": -1}, {"entries": 1 << 60}, {"key": "00"},
    ],
)  # fmt: skip
def test_forged_budgets(owner, changes):
    for _ in range(2):
        share(owner, owner.encrypt([0.5]), queries=2)
    blob = owner.to_bytes(include_secret=True)
    shared = header_of(blob)["shared"]
    for forged in (with_header(blob, shared=shared | changes), with_header(blob, shared=None)):
        with pytest.raises(SerializationError):
            ckks.Context.from_bytes(forged, include_secret=True)


@pytest.mark.parametrize(("field", "value"), [("count", 0), ("count", -1), ("sigma", np.nan)])
def test_entries_out_of_range(owner, field, value):
    x = owner.encrypt([0.5])
    share(owner, x, queries=1)
    (entry,) = ledger.ledger_of(keys_of(owner).require_secret()).saved.entries
    blob = owner.to_bytes(include_secret=True)
    start = blob.index(entry.digest) + 32 + 8 * (field == "count")
    forged = blob[:start] + struct.pack("<d" if field == "sigma" else "<q", value)
    with pytest.raises(SerializationError, match="out of range"):
        ckks.Context.from_bytes(sealed(forged + blob[start + 8 : -32]), include_secret=True)


def test_normal_draws():
    noise = ledger.Ledger(ledger.SavedLedger(b"k" * 32)).noise
    assert np.array_equal(2 * noise(b"d", 1.0, (3,)), 2 * noise(b"d", 1.0, (3,)))
    assert not np.isclose(2 * noise(b"d", 1.0, (3,)), noise(b"d", 2.0, (3,))).any()
    z = noise(b"digest", 1.0, (4, 50_000))
    for part in (z.real, z.imag):
        assert part.mean() == pytest.approx(0, abs=0.01)
        assert part.std() == pytest.approx(1, rel=0.01)
        assert np.mean(np.abs(part) > 3) == pytest.approx(0.0027, rel=0.2)
    assert np.mean(z.real * z.imag) == pytest.approx(0, abs=0.01)
