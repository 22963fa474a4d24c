"""Logistic regression trained on a server that holds evaluation keys only."""

from __future__ import annotations

import time

import jax
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import ren
from examples import training
from ren.demo.report import peak_bytes
from ren.schemes import ckks

SMALL = training.Recipe(samples=30, features=3, degree=7, rate=2.0, reach=6.0)


@pytest.fixture(scope="module")
def small():
    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (SMALL.samples, SMALL.features))
    return training.signed(x, x @ [1, -2, 0.5] + 0.3 > 0)


@pytest.fixture(scope="module")
def cancer():
    """The breast cancer set: 456 samples to train on, 113 to test on, features in [-1, 1]."""
    x, labels = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    mean, deviation = x[order[:456]].mean(0), x[order[:456]].std(0)
    z = training.signed(training.scaled(x, mean, deviation), labels)[order]
    return z[:456], z[456:]


def test_in_the_clear_it_is_nesterovs_method(cancer):
    z, unseen = cancer
    weights = training.train_in_the_clear(z, training.Recipe(456, 30))
    assert np.abs(weights).max() > 0.5
    assert training.accuracy(z, weights) > 0.94 and training.accuracy(unseen, weights) > 0.92
    w, before = np.zeros(31), np.zeros(31)
    for e in (0, 0, 0.25):  # with the sigmoid itself
        v = w + e * (w - before)
        before, w = w, v + 4 * np.mean(z / (1 + np.exp(z @ v))[:, None], 0)
    close = training.train_in_the_clear(z, training.Recipe(456, 30, degree=31))
    assert np.abs(close - w).max() < 1e-3 < np.abs(weights - w).max() < 0.3
    for degree, far in ((3, 0.09), (5, 0.04), (7, 0.02)):
        recipe = training.Recipe(456, 30, degree=degree, reach=6.0)
        m = np.linspace(-6, 6, 999)
        got = np.polynomial.polynomial.polyval(m / 6, recipe.coefficients)
        assert np.abs(got - 1 / (1 + np.exp(m))).max() < far


@pytest.mark.parametrize(("degree", "steps", "depth"), [(3, 1, 1), (3, 3, 9), (7, 2, 6)])
def test_levels(degree, steps, depth):
    recipe = training.Recipe(30, 3, steps, degree=degree)
    plan = ren.plan(
        training.train,
        ckks.spec(recipe.slots),
        recipe,
        slots=recipe.slots,
        n=1 << 10,
        security=None,
    )
    assert (plan.depth, plan.needs_products) == (depth, steps > 1)
    assert plan.keys == (2 * 2 + 5 + 1 if steps > 1 else 5)


@pytest.mark.slow
def test_any_degree_on_few_slots(small):
    plan = ren.plan(
        training.train, ckks.spec(SMALL.slots), SMALL, slots=SMALL.slots, n=1 << 10, security=None
    )
    ctx = ckks.context(plan, slots=SMALL.slots)
    with ctx.server():
        made = ren.jit(training.train)(ctx.encrypt(training.packed(small, SMALL), bound=1), SMALL)
    want = training.train_in_the_clear(small, SMALL)
    got = training.unpacked(ctx.decrypt(made), SMALL)
    assert 1e-12 < np.abs(got - want).max() < min(1e-4, made.estimate.error_bound)
    rows = ctx.slots_of(made).reshape(SMALL.shape)
    assert np.abs(rows - rows[0]).max() < 1e-4  # the same weights in every row


@pytest.mark.slow
def test_the_example_trains(capsys):
    training.main()
    printed = capsys.readouterr().out
    encrypted, clear = (line.split("[")[1] for line in printed.splitlines()[1:3])
    assert "200 samples" in printed and "128-bit security" in printed
    got, want = (np.fromstring(text.rstrip("]"), sep=" ") for text in (encrypted, clear))
    assert np.abs(got - want).max() < 1e-3 and np.abs(want).max() > 0.5


@pytest.mark.slow
def test_on_the_breast_cancer_set(cancer, capsys):
    z, unseen = cancer
    recipe = training.Recipe(z.shape[0], z.shape[1] - 1)
    plan = ren.plan(training.train, ckks.spec(recipe.slots), recipe, slots=recipe.slots)
    assert plan.params.security_bits >= 128
    owner = ckks.context(plan, slots=recipe.slots)
    sent = owner.encrypt(training.packed(z, recipe), bound=1).to_bytes()

    keys = owner.server().to_bytes()
    server, run = ckks.Context.from_bytes(keys), ren.jit(training.train)
    assert server.rank == 1
    seconds = []
    with server:
        for _ in range(2):
            start = time.perf_counter()
            made = jax.block_until_ready(run(ckks.Ciphertext.from_bytes(sent), recipe))
            seconds.append(time.perf_counter() - start)
        with pytest.raises(ckks.MissingKeyError):
            made.decrypt()
    assert run.cache_info()[:2] == (1, 1)
    received = made.to_bytes()

    weights = owner.decrypt(ckks.Ciphertext.from_bytes(received))
    got, want = training.unpacked(weights, recipe), training.train_in_the_clear(z, recipe)
    error = np.abs(got - want).max()
    with capsys.disabled():
        print(f"\n{plan}\nfirst {seconds[0]:.1f} s, replay {seconds[1]:.2f} s", end="")
        print(f", peak of the process {peak_bytes() / 2**20:.0f} MiB", end="")
        print(f"; keys {len(keys) / 2**20:.0f} MiB, samples {len(sent) / 2**20:.1f} MiB", end="")
        print(f", weights {len(received) / 2**10:.0f} KiB, saved; error {error:.1e}")
    assert np.abs(want).max() > 0.1 and np.abs(got).max() > 0.1
    assert error < 1e-3
    for part in (z, unseen):
        assert training.accuracy(part, got) == training.accuracy(part, want) > 0.9
