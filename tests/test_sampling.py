"""The samplers: exact supports, distributions within statistical bounds, streams, forks."""

from __future__ import annotations

import bisect
import hashlib
import math
import os

import numpy as np
import pytest

import ren
from ren import sampling
from ren.core.errors import RandomnessError
from ren.core.numtheory import ntt_primes_below
from ren.ring import RingSpec
from ren.sampling import (
    MAX_SIGMA,
    Xof,
    fresh_seed,
    gaussian,
    sparse_ternary,
    ternary,
    uniform_integers,
    uniform_residues,
)
from ren.schemes.rlwe import keys

Z_LIMIT = 4.75  # one in a million; seeds are fixed, so each test has one outcome


# By hashlib alone, and by a native library where there is a compiler.
NATIVE = [False, "auto"]


def source(label: str) -> Xof:
    return Xof(b"test seed", label.encode())


def chi_square(observed: np.ndarray, probabilities: np.ndarray) -> float:
    """Pearson's statistic as a standard normal deviate (Wilson and Hilferty, 1931)."""
    expected = probabilities * observed.sum()
    statistic, freedom = ((observed - expected) ** 2 / expected).sum(), len(observed) - 1
    spread = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


def test_stream_is_shake_256_of_domain_seed_and_counter():
    def framed(part: bytes) -> bytes:
        return len(part).to_bytes(8, "little") + part

    prefix = framed(b"ren/xof/2") + framed(b"domain") + framed(b"seed")
    chunks = [hashlib.shake_256(prefix + i.to_bytes(8, "little")).digest(4080) for i in range(300)]
    want = b"".join(chunks)
    for native in NATIVE:
        with ren.config.update(native=native):
            assert Xof(b"seed", b"domain").read(5000) == want[:5000]
            assert Xof(b"seed", b"domain").read(len(want)) == want


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("expected", [0, 20_000, 10_000_000])
def test_streams_are_the_same_however_they_are_hashed(native, expected):
    want = source("x").read(3 << 20)
    with ren.config.update(native=native):
        xof, read = source("x"), b""
        xof.expect(expected)
        for count in (1, 4078, 2, 4079, 3 * 4080, 5 * 4080 + 1, 0, 100_000, 1_300_000):
            read += xof.read(count)
    assert read == want[: len(read)]


def test_stream_does_not_depend_on_how_it_is_read():
    whole = source("x").read(5_000_000)
    xof = source("x")
    parts = [xof.read(k) for k in (0, 1, 2, 1021, 1 << 20, 3_000_000)]
    joined = b"".join(parts)
    assert joined == whole[: len(joined)]


@pytest.mark.parametrize("expected", [0, 1, 1000, 70_000, 1 << 20, 3 << 20])
def test_what_is_expected_changes_no_byte(expected):
    whole = source("x").read(3 << 20)
    xof = source("x")
    for label, counts in (("few", [3, 100, 2000]), ("many", [1 << 20, 5, 1 << 19])):
        xof = source("x")
        xof.expect(expected)
        parts = [xof.read(k) for k in counts]
        xof.expect(0 if label == "few" else expected)
        parts += [xof.read(17), xof.words(1000, "<u4").tobytes()]
        joined = b"".join(parts)
        assert joined == whole[: len(joined)]


def reference_words(xof: Xof, size: int, count: int, largest: int) -> list[int]:
    """Words of `size` bytes: all, then those in place of the rejected, and so on."""
    words = [int.from_bytes(xof.read(size), "little") for _ in range(count)]
    while rejected := [i for i, word in enumerate(words) if word > largest]:
        for i in rejected:
            words[i] = int.from_bytes(xof.read(size), "little")
    return words


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("n", [300, 1031])
def test_residues_are_words_of_the_stream_reduced(n, native):
    # A half of the words is rejected for (1 << 31) + 1, almost none for the last.
    moduli = (17, (1 << 31) + 1, 786433, (1 << 33) // 9, (1 << 30) - 35)
    with ren.config.update(native=native):
        xof, same = source("words"), source("words")
        out = np.zeros((5, n), np.uint32)
        for _ in range(2):
            assert uniform_residues(xof, n, moduli, out=out) is out
            for limb, q in zip(out, moduli, strict=True):
                words = reference_words(same, 4, n, (1 << 32) // q * q - 1)
                assert limb.tolist() == [word % q for word in words]
        assert xof.read(9) == same.read(9)


def inverted(table: np.ndarray, first: np.ndarray, rest: np.ndarray) -> list[int]:
    """Samples of the cumulative table by words of 16 and then of 48 bits, as integers do it."""
    steps, found, rest = table.tolist(), [], iter(rest.tolist())
    edges = {step >> 48 for step in steps}
    for word in first.tolist():
        low = next(rest) >> 16 if word in edges else 0
        found.append(bisect.bisect_right(steps, word << 48 | low) - len(steps) // 2)
    return found


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.2, 500.0, MAX_SIGMA])
def test_gaussian_is_the_inverse_of_the_cumulative_table(sigma):
    table, same, count = sampling.gaussian_table(sigma), source("gaussian"), 1000
    wanted = inverted(table, same.words(count, "<u2"), same.words(count, "<u8"))
    got = gaussian(source("gaussian"), count, sigma)
    assert got.dtype == np.int64 and got.tolist() == wanted


@pytest.mark.parametrize("sigma", [0.3, 3.2, 500.0])
def test_gaussian_at_every_step_of_the_table(sigma, monkeypatch):
    table = sampling.gaussian_table(sigma)
    words = np.concatenate([table, table - np.uint64(1), table + np.uint64(1)])
    words = np.append(words, np.array([0, (1 << 64) - 1], np.uint64))
    first = (words >> np.uint64(48)).astype(np.uint16)
    unsure = np.isin(first, table >> np.uint64(48))
    assert unsure[: len(table)].all()
    reads = iter([first, words[unsure] << np.uint64(16)])
    monkeypatch.setattr(Xof, "words", lambda self, count, dtype: next(reads))
    wanted = np.searchsorted(table, words, side="right") - len(table) // 2
    assert np.array_equal(gaussian(source("x"), len(words), sigma), wanted)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.2, 500.0])
def test_first_bits_that_decide_are_decided_alike_by_all_that_begin_with_them(sigma):
    table, guesses = sampling.gaussian_table(sigma), sampling.gaussian_guesses(sigma)
    least = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
    ends = [
        np.searchsorted(table, words, side="right") - len(table) // 2
        for words in (least, least + np.uint64((1 << 48) - 1))
    ]
    is_sure = guesses >= -(len(table) // 2)
    assert np.array_equal(guesses[is_sure], ends[0][is_sure])
    assert np.array_equal(guesses[is_sure], ends[1][is_sure])
    assert (~is_sure).sum() <= len(table)


def test_frozen_digest():
    xof = Xof(bytes(range(32)), b"frozen")
    digest = hashlib.sha256()
    digest.update(
        uniform_residues(xof, 64, (17, 97, 786433, (1 << 30) - 35)).astype("<u4").tobytes()
    )
    digest.update(ternary(xof, 64).tobytes())
    digest.update(sparse_ternary(xof, 64, 7).tobytes())
    digest.update(gaussian(xof, 64, 3.2).astype("<i8").tobytes())
    digest.update(repr(uniform_integers(xof, -(1 << 80), 1 << 80, 3).tolist()).encode())
    assert digest.hexdigest() == (
        "8cf456cfa6118bbcde72987008cff9e1a12bf1a372ab89ba5e9ee89ad2a5f8db"
    )


def test_seeds_and_domains_separate_streams():
    reads = {Xof(s, d).read(32) for s in (b"a", b"b", b"ab") for d in (b"", b"a", b"ba")}
    assert len(reads) == 9


@pytest.mark.parametrize("seed", [b"", "text", None, 7])
def test_bad_seed(seed):
    with pytest.raises(RandomnessError, match="non-empty bytes"):
        Xof(seed, b"")


def test_residues_are_in_range_and_uniform():
    moduli = (17, 97, 786433, 1073479681)
    limbs = uniform_residues(source("residues"), 1 << 17, moduli)
    assert limbs.dtype == np.uint32 and limbs.shape == (4, 1 << 17)
    for limb, q in zip(limbs, moduli, strict=True):
        assert int(limb.max()) < q
        cells = min(q, 97)
        counts = np.bincount(limb.astype(np.int64) * cells // q, minlength=cells)
        edges = np.array([-(-c * q // cells) for c in range(cells + 1)], float)
        assert chi_square(counts, np.diff(edges) / q) < Z_LIMIT


def share_below_half(values: np.ndarray, bound: int) -> float:
    """How far the share of values below bound / 2 is from a half, in standard deviations."""
    return abs((values < bound / 2).mean() - 0.5) * 2 * math.sqrt(len(values))


def test_a_million_residues_have_no_modulo_bias():
    # 2^32 = 4.5 q: a word reduced without rejection is below q/2 in 5 of 9 cases.
    q = next(ntt_primes_below(1 << 10, (1 << 33) // 9))
    assert abs((1 << 32) / q - 4.5) < 1e-3
    (limb,) = uniform_residues(source("modulo bias"), 1_000_000, (q,))
    assert share_below_half(limb, q) < Z_LIMIT
    cells = np.bincount(limb.astype(np.int64) * 1000 // q, minlength=1000)
    assert chi_square(cells, np.full(1000, 1 / 1000)) < Z_LIMIT
    words = source("modulo bias").words(1_000_000, "<u4")
    assert share_below_half(words % np.uint32(q), q) > 100


def test_a_million_wide_integers_have_no_modulo_bias():
    # 2^64 = 1.5 widths: a word reduced without rejection is below width / 2 in 2 of 3 cases.
    width = (1 << 65) // 3
    values = uniform_integers(source("wide bias"), 0, width, 1_000_000).astype(np.float64)
    assert share_below_half(values, width) < Z_LIMIT
    words = source("wide bias").words(1_000_000, "<u8")
    assert share_below_half((words % np.uint64(width)).astype(np.float64), width) > 100


def test_integers_small_and_signed():
    values = uniform_integers(source("integers"), -5, 6, 200_000)
    assert values.dtype == np.int64 and set(values.tolist()) == set(range(-5, 6))
    assert chi_square(np.bincount(values + 5), np.full(11, 1 / 11)) < Z_LIMIT


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (7, 8),
        (-(1 << 63), 1 << 63),
        (-(1 << 63), (1 << 63) - 1),
        (1 << 70, (1 << 70) + 3),
        (-(1 << 200), 1 << 199),
        (0, (1 << 64) + 1),
    ],
)
def test_integers_of_any_size(low, high):
    values = uniform_integers(source("wide"), low, high, 500).tolist()
    assert all(type(v) is int and low <= v < high for v in values)
    mean = sum(values) / 500
    assert abs(mean - (low + high - 1) / 2) <= 5 * (high - low) / math.sqrt(12 * 500)


def test_empty_interval():
    with pytest.raises(RandomnessError, match=r"empty interval \[3, 3\)"):
        uniform_integers(source("x"), 3, 3, 1)


def test_ternary():
    values = ternary(source("ternary"), 300_000)
    assert values.dtype == np.int8
    assert chi_square(np.bincount(values.astype(np.int64) + 1), np.full(3, 1 / 3)) < Z_LIMIT


def test_ten_million_ternary_values_have_no_modulo_bias():
    # 256 = 3 * 85 + 1: bytes reduced without rejection give -1 in 86 of 256 cases.
    values = np.bincount(ternary(source("ternary bias"), 10_000_000).astype(np.int64) + 1)
    assert chi_square(values, np.full(3, 1 / 3)) < Z_LIMIT
    biased = np.bincount(source("ternary bias").words(10_000_000, "<u1") % 3)
    assert chi_square(biased, np.full(3, 1 / 3)) > 2 * Z_LIMIT


@pytest.mark.parametrize("weight", [0, 1, 31, 64])
def test_sparse_ternary_has_the_exact_weight(weight):
    values = sparse_ternary(source("sparse"), 64, weight)
    assert np.abs(values.astype(int)).sum() == weight and set(values.tolist()) <= {-1, 0, 1}


def test_sparse_ternary_is_uniform_over_positions_and_signs():
    xof = source("positions")
    draws = np.stack([sparse_ternary(xof, 8, 3) for _ in range(20_000)]).astype(int)
    # Each of the C(8,3) 2^3 = 448 vectors is equally likely.
    codes = (draws + 1) @ 3 ** np.arange(8)
    counts = np.unique(codes, return_counts=True)[1]
    assert len(counts) == 448
    assert chi_square(counts, np.full(448, 1 / 448)) < Z_LIMIT


def test_sparse_ternary_of_the_usual_weight():
    """No position and no sign is favoured, nor are neighbours drawn together."""
    n, weight, count = 512, 32, 4000
    xof = source("usual weight")
    draws = np.stack([sparse_ternary(xof, n, weight) for _ in range(count)]).astype(int)
    assert (np.abs(draws).sum(1) == weight).all()
    share = weight / n  # positions are drawn without replacement: a cell varies by 1 - share less
    cells = (np.abs(draws).sum(0) - count * share) / math.sqrt(count * share * (1 - share))
    assert abs((cells**2).sum() - n) < Z_LIMIT * math.sqrt(2 * n) and np.abs(cells).max() < 5
    assert abs(draws.sum()) < Z_LIMIT * math.sqrt(count * weight)
    together = (draws[:, 1:] * draws[:, :-1] != 0).sum()
    expected = count * (n - 1) * share * (weight - 1) / (n - 1)
    assert abs(together - expected) < Z_LIMIT * math.sqrt(expected)


@pytest.mark.parametrize("weight", [-1, 9])
def test_sparse_ternary_bad_weight(weight):
    with pytest.raises(RandomnessError, match="between 0 and 8"):
        sparse_ternary(source("x"), 8, weight)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.2, 19.5])
def test_gaussian_distribution(sigma):
    values = gaussian(source(f"gaussian {sigma}"), 1 << 20, sigma)
    support = np.arange(-math.ceil(5 * sigma), math.ceil(5 * sigma) + 1)
    mass = np.exp(-(support**2) / (2 * sigma**2))
    mass /= mass.sum()
    inside = np.abs(values) <= support[-1]
    counts = np.bincount(values[inside] - support[0], minlength=len(support))
    common = mass * len(values) > 20
    observed = np.append(counts[common], len(values) - counts[common].sum())
    expected = np.append(mass[common], 1 - mass[common].sum())
    if expected[-1] * len(values) < 5:
        observed, expected = observed[:-1], expected[:-1] / expected[:-1].sum()
    assert chi_square(observed, expected) < Z_LIMIT
    variance, fourth = (float((support**k * mass).sum()) for k in (2, 4))
    spread = math.sqrt((fourth - variance**2) / len(values))
    assert abs(values.var() - variance) < Z_LIMIT * spread
    assert abs(values.mean()) < 5 * math.sqrt(variance / len(values))


def test_ten_million_values_of_the_noise():
    """sigma = 3.2: variance, tail and every value as often as the distribution says."""
    count, sigma = 10_000_000, 3.2
    values = gaussian(source("ten million"), count, sigma)
    support = np.arange(-32, 33)
    mass = np.exp(-(support**2) / (2 * sigma**2))
    mass /= mass.sum()
    assert abs(values.var() / (support**2 * mass).sum() - 1) < 0.005
    assert abs(values.mean()) < Z_LIMIT * sigma / math.sqrt(count)
    assert np.abs(values).max() <= 32
    beyond = count * mass[np.abs(support) > 4 * sigma].sum()
    assert beyond > 400 and abs((np.abs(values) > 4 * sigma).sum() / beyond - 1) < 0.2
    common = count * mass > 20
    observed = np.bincount(values + 32, minlength=65)
    assert chi_square(observed[common], mass[common] / mass[common].sum()) < Z_LIMIT
    pairs = np.sign(values[::2]) * np.sign(values[1::2])  # neighbours are independent
    assert abs(pairs.sum()) < Z_LIMIT * math.sqrt(len(pairs))


def test_keys_are_drawn_by_these_samplers_from_the_source_that_is_injected():
    ring = RingSpec(64, (257, 769))
    sources = iter([b"s", b"e", b"t"])
    secret = keys.make_secret(ring, lambda: next(sources))
    assert np.array_equal(secret.coefficients, ternary(Xof(b"s", b"ren/rlwe/ternary"), 64))
    noise = keys.noise(ring, 3.2, lambda: next(sources)).tolist(centered=True)
    assert noise == gaussian(Xof(b"e", b"ren/rlwe/noise"), 64).tolist()
    small = keys.small_ternary(ring, lambda: next(sources)).tolist(centered=True)
    assert small == ternary(Xof(b"t", b"ren/rlwe/ternary"), 64).tolist()


def test_gaussian_of_the_largest_sigma():
    values = gaussian(source("largest"), 1 << 20, MAX_SIGMA)
    assert abs(values.std() / MAX_SIGMA - 1) < 0.005


@pytest.mark.parametrize("sigma", [0.106, 0.1, 0.09, 0.05, 1e-9])
def test_gaussian_of_a_sigma_that_leaves_zeros(sigma):
    """exp(-1 / (2 sigma^2)) is below 2^-60."""
    assert not gaussian(source("smallest"), 1 << 12, sigma).any()


@pytest.mark.parametrize("sigma", [0, -1.0, 2 * MAX_SIGMA, float("nan")])
def test_gaussian_bad_sigma(sigma):
    with pytest.raises(RandomnessError, match="sigma lies in"):
        gaussian(source("x"), 4, sigma)


def test_fresh_seeds_differ():
    seeds = {fresh_seed() for _ in range(100)}
    assert len(seeds) == 100 and {len(s) for s in seeds} == {32}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork.*:RuntimeWarning")
def test_forked_children_draw_differently():
    gaussian(Xof(fresh_seed(), b"fork"), 64)
    assert len({_draw_in_child() for _ in range(3)}) == 3


def _draw_in_child() -> bytes:
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, gaussian(Xof(fresh_seed(), b"fork"), 64).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read()


def test_gaussian_bound_is_the_largest_value():
    for sigma, bound in ((3.2, 33), (1.0, 11), (20.0, 201)):
        values = sampling.gaussian(Xof(b"seed", b"bound"), 100_000, sigma)
        assert sampling.gaussian_bound(sigma) == bound >= np.abs(values).max()


def test_seed_stream_reads_one_xof():
    draw, xof = sampling.SeedStream(b"seed", b"domain"), Xof(b"seed", b"domain")
    seeds = [draw() for _ in range(200)]
    assert b"".join(seeds) == xof.read(32 * 200) and len(set(seeds)) == 200
