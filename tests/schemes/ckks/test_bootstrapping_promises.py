"""What bootstrapping promises, measured over many runs: precision, noise, overflows, equal bits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ren
from ren import Poly, RingSpec
from ren.poly import realization
from ren.schemes import ckks
from ren.schemes.ckks.bootstrapping import pipeline, stages
from ren.schemes.ckks.bootstrapping.keys import sparse_secret
from ren.schemes.ckks.parameters.bootstrapping import precision
from ren.schemes.ckks.parameters.bootstrapping.chain import Chain, chain_of
from ren.schemes.ckks.parameters.bootstrapping.labels import gadget_of, labels
from ren.schemes.ckks.parameters.bootstrapping.sine import failure_log2
from tests.lowering.plans import interpret_planned
from tests.schemes.ckks.keys import keys_of

# Without native code XLA compiles each stage for minutes; a slow test compares the bits of both.
pytestmark = pytest.mark.once
N = 1 << 12


@pytest.fixture(scope="module")
def ctx() -> ckks.Context:
    """Seeded: its counts of rare overflows are the same in each run."""
    params = ckks.Parameters.for_bootstrapping(3, n=N, security=None)
    return ckks.testing.context(b"bootstrapping", params=params)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def uniform(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Complex numbers whose real and imaginary parts are uniform in [-1, 1]."""
    return rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape)


def at_floor(ctx: ckks.Context, z: np.ndarray, **how: str) -> ckks.Ciphertext:
    return ctx.encrypt(z, level=2, bound=2.0, **how).within(1.0)


def rms(error: np.ndarray) -> float:
    return math.sqrt(np.mean(np.abs(error).astype(float) ** 2))


# ------------------------------------------------------------------- noise


@pytest.mark.long
@pytest.mark.parametrize("kind", ["complex", "real", "pair"])
def test_the_noise_is_what_the_stages_predict(ctx, rng, monkeypatch, kind):
    """Less the error of the sine, which is known for each slot, and without the room for tails.

    Of real numbers the real part of the noise is read, from a half of it to all. A pair shares a
    run, and each is a part of it.
    """
    monkeypatch.setattr(precision, "TAIL", 1.0)
    chain, is_complex = chain_of(ctx.params), kind == "complex"
    predicted = precision.error_of.__wrapped__(chain, is_complex, True).sigma
    sine = chain.above.sine
    left = []
    for _ in range(8):
        z = uniform(rng, N // 2)
        if is_complex:
            error = ctx.decrypt(at_floor(ctx, z).bootstrap()) - z
        else:
            parts = [ctx.encrypt(part, level=2, bound=1.0) for part in (z.real, z.imag)]
            made = ckks.bootstrap(parts) if kind == "pair" else [x.bootstrap() for x in parts]
            error = ctx.decrypt(made[0]) + 1j * ctx.decrypt(made[1]) - z
        real, imaginary = (
            sine.value(part * 2.0**-sine.ratio_bits) - part for part in (z.real, z.imag)
        )
        left.append(error - real - 1j * imaginary)
    found = math.log2(rms(np.array(left)) / predicted)
    assert abs(found) < 0.3 if is_complex else -0.3 < found < 0.5


@pytest.mark.slow
def test_a_thousand_bootstraps_keep_to_the_estimate(ctx, rng):
    ratios = []
    for _ in range(1000):
        z = uniform(rng, N // 2)
        y = at_floor(ctx, z).bootstrap()
        ratios.append(np.abs(ctx.decrypt(y) - z).max() / y.estimate.error_bound)
    assert 0.25 < max(ratios) <= 1


@pytest.mark.slow
def test_fifty_bootstraps_in_a_row_keep_to_the_estimate(ctx, rng):
    """Errors grow by sqrt(50), which is 2.8 bits; those that are the same each time stay below.

    Fifty sources of noise share 32 places, so the estimate of so long a row has half a bit more.
    """
    z = uniform(rng, N // 2)
    y, alone = at_floor(ctx, z), []
    bound = y.bootstrap().estimate.error_bound
    for _ in range(50):
        before, y = ctx.decrypt(y), y.within(1.0).bootstrap()
        alone.append(np.abs(ctx.decrypt(y) - before))
    error = np.abs(ctx.decrypt(y) - z)
    assert y.estimate.error_bound / 6 < error.max() <= y.estimate.error_bound < 10 * bound
    assert error.max() <= 8 * np.max(alone) and rms(error) < 2**3.4 * rms(np.array(alone))


# ------------------------------------------------------------------- overflows


def overflows(ctx: ckks.Context, x: ckks.Ciphertext) -> np.ndarray:
    """I of all coefficients of what is raised."""
    chain, keys = chain_of(ctx.params), keys_of(ctx.bootstrapping_keys()).labelled
    low = pipeline.lowered(chain, pipeline_pair(x), keys.__getitem__)
    b, a = pipeline._run(stages.raised, chain, low, (keys["sparse"].b, keys["sparse"].a))
    lowest = chain.rings[0]
    more = next(q for q in reversed(b.ring.moduli) if q not in lowest.moduli)
    ring = RingSpec(N, tuple(q for q in b.ring.moduli if q in (*lowest.moduli, more)))
    short = Poly(sparse_secret(keys_of(ctx).secret, chain).astype(np.int64), ring).ntt()
    limbs = np.asarray((b.to_ring(ring) + a.to_ring(ring) * short).intt().limbs, np.uint64)
    part = np.zeros(limbs.shape[:-2] + limbs.shape[-1:])
    for i, q in enumerate(ring.moduli):  # residues are Montgomery's, times 2^32
        part += limbs[..., i, :] * pow((ring.q // q) << 32, -1, q) % q / q
    return np.rint((part - np.rint(part)) * float(ring.q // lowest.q)).astype(int)


def pipeline_pair(x: ckks.Ciphertext) -> tuple[Poly, Poly]:
    b, a = x.polys
    return b, a


@pytest.mark.slow
def test_overflows_are_rounded_sums_of_32_uniform_numbers(ctx, rng):
    """800 of them are above 6: one standard deviation is 3.5 percent of that."""
    found = [
        np.abs(overflows(ctx, at_floor(ctx, rng.uniform(-1, 1, (16, N // 2)), pack="rows")))
        for _ in range(256)
    ]
    counts = np.concatenate(found).astype(np.int8)
    assert counts.size == 2**24 and counts.max() <= 10
    assert rms(counts) == pytest.approx(math.sqrt(33 / 12), abs=0.01)
    for most in (4, 5, 6):
        share = 2.0 ** failure_log2(32, most, 12, 1)
        assert np.mean(counts > most) == pytest.approx(share, rel=0.1)


# ------------------------------------------------------------------- equal bits


@pytest.mark.slow
@pytest.mark.parametrize("slots", [None, 64])
def test_each_stage_is_the_same_by_native_code_by_xla_and_by_numpy(monkeypatch, slots):
    n = 1 << 8 if slots is None else 1 << 11
    ctx = ckks.context(depth=1, bootstrapping=True, n=n, security=None, slots=slots)
    seen = []
    run = pipeline._run

    def noted(stage, static, *args):
        made = run(stage, static, *args)
        seen.append((stage, static, args, made))
        return made

    monkeypatch.setattr(pipeline, "_run", noted)
    floor = ctx.params.bootstrapping.floor
    z = np.linspace(-1, 1, ctx.slots) * (1 + 0.5j)
    ctx.encrypt(z, level=floor, bound=2.0).within(1.0).bootstrap()
    names = [stage.__name__ for stage, *_ in seen]
    few = [*["transformed"] * 2, "summed", "gathered", "sine", "unpacked"]
    many = [*["transformed"] * 3, "halved", "sine", "sine", "joined"]
    assert names == ["transformed", "transformed", "raised", *many] if slots is None else [
        "transformed", "raised", *few
    ]  # fmt: skip
    for stage, static, args, made in seen:
        want = limbs(made)
        with ren.config.update(native=False):
            assert all(map(np.array_equal, limbs(stage(static, *args)), want))
        with monkeypatch.context() as patch:
            patch.setattr(realization, "run_planned", interpret_planned)
            assert all(map(np.array_equal, limbs(stage(static, *args)), want))


def limbs(polys: tuple[Poly, ...]) -> list[np.ndarray]:
    return [np.asarray(p.limbs) for p in polys]


# ------------------------------------------------------------------- the default parameters


def test_all_keys_together_keep_to_the_bound_of_security():
    chain: Chain = chain_of(ckks.Parameters.for_bootstrapping())
    held = {*chain.params.union, *chain.params.specials}
    for label in labels(chain):
        held |= set(gadget_of(label, chain).ring.moduli)
    assert sum(map(math.log2, held)) <= 1747
    assert sum(map(math.log2, held)) == pytest.approx(chain.params.log_qp, abs=1e-6)


@pytest.mark.slow
def test_bootstraps_of_full_size(rng):
    """One test, so that its 6 GiB are held once."""
    ctx = ckks.context(bootstrapping=True)
    slots = ctx.params.n // 2
    alternating = np.where(np.arange(slots) % 2, -1.0, 1.0)
    one = np.zeros(slots)
    one[17] = 1
    for _ in range(20):
        z = uniform(rng, slots)
        error = ctx.decrypt(at_floor(ctx, z).bootstrap()) - z
        assert np.abs(error).max() <= 2.0**-20 and rms(error) <= 2.0**-22.5
    for z in (alternating, one, np.ones(slots), -np.ones(slots), 0 * one, (1 + 1j) * alternating):
        y = at_floor(ctx, z).bootstrap()
        assert (y.level, y.scale) == (16, ctx.params.scale(16))
        error = np.abs(ctx.decrypt(y) - z).max()
        assert error <= min(2.0**-20, y.estimate.error_bound)
    z = uniform(rng, slots)
    for level in (0, 8):
        y = at_floor(ctx, z).bootstrap(level=level)
        assert (y.level, y.scale) == (level, ctx.params.scale(level))
        assert np.abs(ctx.decrypt(y) - z).max() <= 2.0**-20
    error = ctx.decrypt(at_floor(ctx, z.real).bootstrap()) - z.real
    assert np.abs(error).max() <= 2.0**-20 and rms(error) <= 2.0**-22.5
    pair = ckks.bootstrap([at_floor(ctx, z.real), at_floor(ctx, z.imag)])
    for y, part in zip(pair, (z.real, z.imag), strict=True):
        error = ctx.decrypt(y) - part
        assert np.abs(error).max() <= 2.0**-20 and rms(error) <= 2.0**-22.5


@pytest.mark.slow
@pytest.mark.parametrize("slots", [1 << 5, 1 << 10])
def test_bootstraps_of_few_slots_at_full_size(rng, slots):
    ctx = ckks.context(bootstrapping=True, slots=slots)
    floor = ctx.params.bootstrapping.floor
    for _ in range(5):
        z = uniform(rng, slots)
        for clear in (z, z.real, np.ones(slots), 0 * z):
            y = ctx.encrypt(clear, level=floor, bound=2.0).within(1.0).bootstrap()
            assert (y.level, y.scale) == (16, ctx.params.scale(16))
            error = ctx.decrypt(y) - clear
            assert np.abs(error).max() <= min(2.0**-20, y.estimate.error_bound)
            assert rms(error) <= 2.0**-22.5
    assert sum(map(math.log2, {*ctx.params.union, *ctx.params.above.moduli})) < 1747


@pytest.mark.slow
def test_forty_bits_at_full_size(rng):
    ctx = ckks.context(bootstrapping=True, precision=40, scale_bits=60)
    z = uniform(rng, ctx.slots)
    y = at_floor(ctx, z).bootstrap()
    error = np.abs(ctx.decrypt(y) - z).max()
    assert error <= min(2.0**-40, y.estimate.error_bound)
