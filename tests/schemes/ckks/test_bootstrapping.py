"""Bootstrapping against NumPy: the same numbers, more levels, in every mode of execution."""

from __future__ import annotations

import itertools
import math
import re

import jax
import numpy as np
import pytest
from jax import lax

import ren
from ren.poly import Poly
from ren.schemes import ckks
from ren.schemes.ckks.bootstrapping import keys as bootstrapping_keys
from ren.schemes.ckks.bootstrapping import pipeline, stages
from ren.schemes.ckks.bootstrapping.keys import sparse_secret
from ren.schemes.ckks.parameters.bootstrapping import matrices
from ren.schemes.ckks.parameters.bootstrapping.chain import chain_of
from ren.schemes.ckks.parameters.bootstrapping.cost import work_of
from ren.schemes.ckks.parameters.bootstrapping.labels import (
    SQUARE,
    folded,
    gadget_of,
    labels,
    trace,
)
from ren.schemes.ckks.parameters.bootstrapping.sine import Sine, failure_log2
from tests.schemes.ckks.keys import keys_of

# Without native code XLA compiles each stage for minutes; a slow test compares the bits of both.
pytestmark = pytest.mark.once
N = 1 << 12


@pytest.fixture(scope="module")
def ctx() -> ckks.Context:
    return ckks.context(depth=3, bootstrapping=True, n=N, security=None)


@pytest.fixture(scope="module")
def z() -> np.ndarray:
    rng = np.random.default_rng(1)
    z = rng.uniform(-1, 1, N // 2) + 1j * rng.uniform(-1, 1, N // 2)
    return z / np.sqrt(2)


@pytest.fixture(scope="module")
def x(ctx, z) -> ckks.Ciphertext:
    return ctx.encrypt(z, level=2, bound=1.0)


def limbs_of_all(x) -> list[np.ndarray]:
    return [np.asarray(p.limbs) for p in (x.polys if isinstance(x, ckks.Ciphertext) else x)]


def bits(error: np.ndarray) -> float:
    return -math.log2(np.abs(error).max())


# ------------------------------------------------------------------- values


@pytest.mark.long
def test_complex_numbers_come_back_at_the_top(ctx, x, z):
    y = x.bootstrap()
    assert (y.level, y.scale) == (ctx.params.depth, ctx.params.scale(ctx.params.depth))
    assert y.own_scale is None and y.dtype == np.complex128
    assert bits(ctx.decrypt(y) - z) >= 20
    assert np.abs(ctx.decrypt(y) - z).max() <= y.estimate.error_bound


@pytest.mark.parametrize("level", [2, 3])
@pytest.mark.parametrize("dtype", [np.int64, np.bool, np.float32])
def test_the_type_of_numbers_is_kept(ctx, dtype, level):
    v = np.array([1, 0, 1], dtype)
    y = ctx.encrypt(v, bound=1.0).drop_to(level).bootstrap()
    assert y.dtype == dtype and np.allclose(ctx.decrypt(y), v, atol=2**-20)


@pytest.mark.parametrize("value", [1.0, -1.0, 0.0])
def test_constants_come_back_as_well_as_random_numbers(ctx, value):
    """The error of a slot depends on that slot alone: others methods fail on constants."""
    v = np.full(N // 2, value)
    y = ctx.encrypt(v, level=2, bound=1.0).bootstrap()
    assert bits(ctx.decrypt(y) - v) >= 20


def test_one_number_among_zeros(ctx):
    v = np.zeros(N // 2)
    v[17] = 1
    assert bits(ctx.decrypt(ctx.encrypt(v, level=2, bound=1.0).bootstrap()) - v) >= 20


def test_real_numbers_stay_real_and_short_vectors_short(ctx):
    v = np.linspace(-1, 1, 100)
    y = ctx.encrypt(v, level=4, bound=1.0).bootstrap()
    assert y.shape == (100,) and y.dtype == np.float64
    assert bits(ctx.decrypt(y) - v) >= 20


def test_programs_go_on_after_it(ctx):
    v = np.linspace(-1, 1, 100)
    x = ctx.encrypt(v, bound=1.0)
    y = x
    for _ in range(3):  # each time down to the floor
        for _ in range(ctx.params.bootstrapping.levels):
            y = y * x
        y = y.within(1.0).bootstrap()
    assert bits(ctx.decrypt(y) - v**10) >= 18


def test_a_chain_of_bootstraps_loses_little(ctx, x, z):
    first = y = x.bootstrap()
    for _ in range(7):
        y = y.within(1.0).bootstrap()
    assert bits(ctx.decrypt(y) - z) >= bits(ctx.decrypt(first) - z) - 3


def test_two_real_ciphertexts_share_one_run(ctx):
    v = np.linspace(-1, 1, N // 2)
    a, b = ctx.encrypt(v, level=3, bound=1.0), ctx.encrypt(v[::-1] / 2, level=2, bound=1.0)
    c = ctx.encrypt(1j * v, level=2, bound=1.0)
    made = ckks.bootstrap([a, c, b])
    for y, clear in zip(made, (v, 1j * v, v[::-1] / 2), strict=True):
        assert bits(ctx.decrypt(y) - clear) >= 20
    assert [y.dtype.kind for y in made] == ["f", "c", "f"]


@pytest.mark.parametrize("level", [0, 1, pytest.param(3, marks=pytest.mark.slow), 4])
def test_a_lower_target_level_takes_less_work(ctx, x, z, level):
    y = x.bootstrap(level=level)
    assert (y.level, y.scale) == (level, ctx.params.scale(level))
    assert bits(ctx.decrypt(y) - z) >= 20
    assert np.abs(ctx.decrypt(y) - z).max() <= y.estimate.error_bound
    work = work_of(chain_of(ctx.params, level))
    assert work.limb_ntts < work_of(chain_of(ctx.params)).limb_ntts


def test_a_level_that_there_is_not(ctx, x):
    with pytest.raises(ckks.ParameterError, match="level is 6"):
        x.bootstrap(level=6)
    with pytest.raises(ren.RenError, match="got True, a bool"):
        x.bootstrap(level=True)


@pytest.mark.parametrize("precision", [40, 7, "20", math.nan, True])
def test_a_precision_that_there_is_not(x, precision):
    for bootstrap in (x.bootstrap, lambda precision: ckks.bootstrap([x], precision=precision)):
        with pytest.raises(ckks.ParameterError, match=r"(?s)8 to 20.*precision=40, scale_bits=60"):
            bootstrap(precision=precision)


@pytest.mark.long
def test_another_bound():
    ctx = ckks.context(depth=2, bootstrapping=True, n=1 << 12, security=None, bound=16.0)
    v = np.linspace(-16, 16, 50)
    y = ctx.encrypt(v, level=3).bootstrap()
    error = np.abs(ctx.decrypt(y) - v).max()
    assert error <= y.estimate.error_bound and -math.log2(error / 16) >= 20


@pytest.mark.parametrize(
    "slots",
    [2, pytest.param(32, marks=pytest.mark.slow), pytest.param(1024, marks=pytest.mark.long)],
)
def test_few_slots(slots):
    """Messages repeat in the slots: a trace, smaller matrices, and one sine for both parts."""
    ctx = ckks.context(depth=3, bootstrapping=True, n=N, security=None, slots=slots)
    above, top = ctx.params.bootstrapping, ctx.params.depth
    assert above.levels == 3 and top == above.floor + 4
    rng = np.random.default_rng(slots)
    z = (rng.uniform(-1, 1, slots) + 1j * rng.uniform(-1, 1, slots)) / np.sqrt(2)

    def check(y, clear, level=top - 1):
        assert (y.level, y.scale, y.own_scale) == (level, ctx.params.scale(level), None)
        error = np.abs(ctx.decrypt(y) - clear).max()
        assert error <= min(2.0**-20, y.estimate.error_bound)

    given = (ctx.encrypt(v, level=above.floor, bound=1.0) for v in (z, z.real, z.imag))
    x, real, other = given
    check(x.bootstrap(), z)
    check(real.bootstrap(), z.real)
    check(ren.jit(lambda x: x.bootstrap())(x), z)
    levels = (0, above.floor + 1)
    for level in levels if slots == 32 else levels[:1]:
        check(x.bootstrap(level=level), z, level)
    for level in levels if slots == 32 else levels[1:]:
        check(real.bootstrap(level=level), z.real, level)
    for y, clear in zip(ckks.bootstrap([real, other]), (z.real, z.imag), strict=True):
        check(y, clear)
    with pytest.raises(ckks.ParameterError, match=f"ask for {top - 1} or less"):
        x.bootstrap(level=top)
    server = ckks.load_server(ctx.server().to_bytes())
    with server:
        y = ckks.Ciphertext.from_bytes(x.to_bytes()).bootstrap()
    assert all(map(np.array_equal, limbs_of_all(y), limbs_of_all(x.bootstrap())))


def test_a_plan_has_the_slots_that_were_asked_for():
    plan = ckks.plan(
        lambda x: (x * x).bootstrap(), ckks.spec(64), n=N, security=None, slots=64,
        bootstrapping=True,
    )  # fmt: skip
    assert plan.params.slots == 64 and plan.bootstraps == 1
    assert plan.params.bootstrapping.plaintext_nbytes < 1 << 22


@pytest.mark.long
def test_few_slots_by_two_runs(z):
    ctx = ckks.context(
        depth=2, bootstrapping=True, precision=40, scale_bits=60, n=N, security=None, slots=64
    )
    assert ctx.params.bootstrapping.levels == 2
    for v in (z[:64], z[:64].real):
        y = ctx.encrypt(v, bound=1.0).bootstrap()
        assert y.level == ctx.params.depth - 2 and bits(ctx.decrypt(y) - v) >= 40
        assert np.abs(ctx.decrypt(y) - v).max() <= y.estimate.error_bound


@pytest.mark.parametrize("copies", [2, 4, 8, 16, 64, 1 << 10])
def test_the_trace_sums_all_rotations_by_multiples_of_the_slots(copies):
    slots = N // 2 // copies
    params = ckks.Parameters.for_bootstrapping(1, n=N, security=None, slots=slots)
    chain = chain_of(params)
    groups = (folded(chain), *trace(chain))
    sums = sorted(sum(steps) % (N // 2) for steps in itertools.product(*groups))
    assert sums == [slots * i for i in range(copies)] and max(map(len, groups)) <= 4


@pytest.mark.long
def test_parameters_for_all_slots_serve_for_fewer():
    """They keep their levels; where slots are too few for so many matrices, an error tells."""
    params = ckks.Parameters.for_bootstrapping(2, n=N, security=None)
    ctx = ckks.context(params=params, slots=64)
    v = np.linspace(-1, 1, 64)
    y = ctx.encrypt(v, bound=1.0).bootstrap()
    assert bits(ctx.decrypt(y) - v) >= 20
    with pytest.raises(ckks.ParameterError, match="product of 3 matrices"):
        ckks.context(params=params, slots=4)


@pytest.mark.long
def test_forty_bits_by_two_runs(z):
    ctx = ckks.context(depth=2, bootstrapping=True, precision=40, scale_bits=60, n=N, security=None)
    assert ctx.params.bootstrapping.levels == 2 and ctx.params.depth == 5
    x = ctx.encrypt(z, level=2, bound=1.0)
    y = x.bootstrap()
    assert y.level == 4 and y.scale == ctx.params.scale(4)
    error = np.abs(ctx.decrypt(y) - z)
    assert bits(error) >= 40 and error.max() <= y.estimate.error_bound
    assert y.estimate.bits >= 40
    a, b = ckks.bootstrap([ctx.encrypt(z.real, level=2, bound=1.0)] * 2)
    assert bits(ctx.decrypt(a) - z.real) >= 40 and bits(ctx.decrypt(b) - z.real) >= 40
    once = x.bootstrap(precision=20)
    assert once.level == 5 and 20 <= bits(ctx.decrypt(once) - z) < 30
    assert np.abs(ctx.decrypt(once) - z).max() <= once.estimate.error_bound
    assert x.bootstrap(level=5, precision=np.int64(12)).level == 5
    low = x.bootstrap(level=2)
    assert low.level == 2 and bits(ctx.decrypt(low) - z) >= 40


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::ren.core.errors.MessageBoundWarning")
def test_noise_beyond_the_length_is_cleared(ctx):
    """The map enlarges noise around zero threefold at each step, and all slots go through it."""
    v = np.linspace(0.1, 0.9, 10)
    y = ctx.encrypt(v, bound=1.0)
    for _ in range(40):
        if y.level < 5:
            y = y.bootstrap()
        y, v = (3 * (y - y * y)).within(1.0), 3 * (v - v * v)
    assert np.abs(ctx.decrypt(y) - v).max() < 2**-12


@pytest.mark.long
def test_batches_and_vmap(ctx):
    v = np.linspace(-1, 1, 3 * 40).reshape(3, 40)
    m = ctx.encrypt(v, level=3, bound=1.0, pack="rows")
    assert bits(ctx.decrypt(m.bootstrap()) - v) >= 20
    mapped = jax.vmap(lambda row: row.bootstrap())(m)
    assert bits(ctx.decrypt(mapped) - v) >= 20


# ------------------------------------------------------------------- how it runs


@pytest.mark.long
def test_jit_equals_eager_bit_for_bit(ctx):
    x = ctx.encrypt(np.linspace(-1, 1, 64), bound=1.0)

    def f(x):
        y = (x * x).bootstrap()
        return y * x

    jitted = ren.jit(f)
    eager = limbs_of_all(f(x))
    for _ in range(2):
        assert all(map(np.array_equal, limbs_of_all(jitted(x)), eager))
    assert len(jitted.plans) == 1


@pytest.mark.long
def test_a_server_from_bytes_gives_the_same_bits(ctx, x):
    mine = limbs_of_all(x.bootstrap())
    server = ckks.load_server(ctx.server().to_bytes())
    assert "for bootstrapping" in str(server)
    with server:
        assert all(map(np.array_equal, limbs_of_all(x.bootstrap()), mine))

    @jax.jit
    def traced(server, x):
        with server:
            return x.bootstrap()

    assert all(map(np.array_equal, limbs_of_all(traced(server, x)), mine))


def test_owners_make_equal_keys_again(ctx):
    ctx.bootstrapping_keys()
    data = ctx.to_bytes(include_secret=True)
    again = ckks.load_context(data, include_secret=True)
    assert not keys_of(again).labelled
    for label, key in keys_of(again.bootstrapping_keys()).labelled.items():
        held = keys_of(ctx).labelled[label]
        assert key.seed == held.seed
        assert all(map(np.array_equal, limbs_of_all(key.b), limbs_of_all(held.b)))


def test_the_operation_is_one_for_debug(ctx):
    x = ctx.encrypt(np.linspace(-1, 1, 16), bound=1.0)
    y = ckks.debug(lambda x: x.bootstrap() * x, x, context=ctx)
    assert y.level == ctx.params.depth - 1
    with pytest.raises(ckks.PrecisionError, match=r"bootstrap\(\)"):
        ckks.debug(lambda x: x.bootstrap(), x, context=ctx, tolerance=1e-9)


# ------------------------------------------------------------------- secrets


def test_thesparse_secret_is_in_no_bytes_and_no_repr(ctx):
    ctx.bootstrapping_keys()
    sparse = sparse_secret(keys_of(ctx).secret, chain_of(ctx.params))
    assert np.abs(sparse).sum() == 32 and set(np.unique(sparse)) == {-1, 0, 1}
    data = ctx.to_bytes(include_secret=True) + ctx.server().to_bytes()
    assert sparse.tobytes() not in data
    places = str(np.flatnonzero(sparse)[:4].tolist())[1:-1]
    assert places not in repr(ctx) + str(ctx) + repr(vars(keys_of(ctx)))


def test_the_sparse_key_is_over_q0_and_one_prime(ctx):
    chain = chain_of(ctx.params)
    key = keys_of(ctx.bootstrapping_keys()).labelled["sparse"]
    assert key.b[0].ring.moduli == (*ctx.params.ring(0).moduli, ctx.params.specials[0])
    for label in labels(chain):
        ring = keys_of(ctx).labelled[label].b[0].ring
        assert ring == gadget_of(label, chain).ring
        assert set(ring.moduli) <= {
            *ctx.params.union,
            *ctx.params.above.moduli,
            *ctx.params.specials,
        }


# ------------------------------------------------------------------- parameters


def test_the_default_parameters():
    p = ckks.Parameters.for_bootstrapping()
    b = p.bootstrapping
    assert (p.n, b.levels, b.floor, p.security_bits) == (1 << 16, 14, 2, 128)
    assert p.log_qp <= 1747 and b.failure_log2 <= -64 and b.precision_bits >= 20
    assert b.key_nbytes <= 2.3 * 2**30
    assert chain_of(p).sparse.ring.log2_q <= 110
    assert "bootstrapping" in str(p) and "level 2 -> 16" in str(p)
    assert ckks.Parameters.from_bytes(p.to_bytes()) == p
    assert p.digest != ckks.Parameters.for_depth(16).digest


def test_fewer_levels_take_fewer_digits():
    few, default = (ckks.Parameters.for_bootstrapping(d) for d in (8, None))
    assert len(few.above.digits) < len(default.above.digits)
    assert few.bootstrapping.key_nbytes < default.bootstrapping.key_nbytes


def test_every_key_is_counted_and_bounded():
    p = ckks.Parameters.for_bootstrapping()
    chain = chain_of(p)
    for label in labels(chain):
        assert gadget_of(label, chain).ring.log2_q <= p.log_qp + 1e-6
    assert len(labels(chain)) == p.bootstrapping.keys == 52
    below = chain.full.ring.limbs - gadget_of(SQUARE, chain).ring.limbs
    assert below == 2 * (chain.top - chain.first)  # moduli of levels above the sine


def test_the_failure_probability_is_that_of_a_convolution():
    """Independently: the density of a sum of uniform numbers, by repeated convolution on a grid."""
    step = 1 / 256
    box = np.full(256, 1.0)
    density = box
    for _ in range(31):
        density = np.convolve(density, box) * step
    centre = (len(density) - 1) / 2
    positions = (np.arange(len(density)) - centre) * step
    for overflow in (4, 5, 6):
        bound = overflow + 0.5 - 2.0**-12
        tail = density[np.abs(positions) > bound].sum() * step
        assert failure_log2(32, overflow, 12, 1) == pytest.approx(math.log2(tail), abs=0.1)


def test_the_sine_is_right_and_degrades_gently():
    sine = Sine(14, 12)
    z = np.linspace(-1, 1, 101)
    x = np.arange(-14, 15)[:, None] + z * 2.0**-12
    assert np.abs(sine.value(x) - z).max() <= sine.error <= 2.0**-23
    assert sine.error < sine.error_within(2) < sine.error_within(4) < 2.0**-15


@pytest.mark.parametrize("slots", [8, 64, 512])
def test_the_matrices_are_the_embedding_and_its_inverse(slots):
    rng = np.random.default_rng(0)
    b = rng.normal(size=slots) + 1j * rng.normal(size=slots)

    def applied(product, x):
        x = np.roll(x, -product.offset)
        for m in product.matrices:
            total = np.zeros(slots, complex)
            for factors in reversed(m.factors()):
                total = np.roll(total, -m.giant_step)
                for rotation, v in factors.items():
                    assert np.abs(v).max() > 0
                    baby, base = divmod(rotation, m.bases)
                    moved = np.roll(np.roll(x, -m.unit * base), -m.baby_step * baby)
                    total += np.resize(v, slots) * moved
            x = total
        return x

    there = applied(matrices.slot_to_coeff(slots, 2), b)
    n, bits_ = 2 * slots, slots.bit_length() - 1
    reverse = [int(format(i, f"0{bits_}b")[::-1], 2) for i in range(slots)]
    coefficients = np.concatenate([b[reverse].real, b[reverse].imag])
    roots = np.exp(1j * np.pi / n * np.array([pow(5, j, 2 * n) for j in range(slots)]))
    np.testing.assert_allclose(there, np.polyval(coefficients[::-1], roots), atol=1e-9)
    back = applied(matrices.coeff_to_slot(slots, 3), there)
    np.testing.assert_allclose(2 * back, b, atol=1e-9)


def test_what_is_raised_overflows_as_a_rounded_sum_of_32_uniform_numbers(ctx, x):
    chain, keys = chain_of(ctx.params), keys_of(ctx.bootstrapping_keys()).labelled
    low = pipeline.lowered(chain, tuple(x.polys), keys.__getitem__)

    b, a = stages.raised(chain, low, (keys["sparse"].b, keys["sparse"].a))
    short = Poly(sparse_secret(keys_of(ctx).secret, chain).astype(np.int64), b.ring).ntt()
    phase = (b + a.to_ring(b.ring) * short).intt().tolist(centered=True)
    q0 = chain.rings[0].q
    counts = np.array([round(c / q0) for c in phase])
    assert abs(counts.std() - math.sqrt(33 / 12)) < 0.1 and np.abs(counts).max() <= 10
    clear = x.bootstrap()  # and what remains is the message
    assert clear.level == ctx.params.depth


# ------------------------------------------------------------------- errors


def test_parameters_without_bootstrapping():
    ctx = ckks.context(depth=3, n=1 << 12, security=None)
    with pytest.raises(ckks.ParameterError, match=re.escape("ckks.context(bootstrapping=True)")):
        ctx.encrypt([1.0]).bootstrap()
    with pytest.raises(ckks.ParameterError, match=re.escape("ckks.context(bootstrapping=True)")):
        ctx.bootstrapping_keys()


def test_a_level_below_the_floor(ctx):
    with pytest.raises(ckks.DepthError, match=r"at level 1\.\nIt begins at level 2"):
        ctx.encrypt([0.5], level=1).bootstrap()


@pytest.mark.parametrize("largest", [0.9, 100, 1e6])
def test_leftovers_at_the_floor_are_cleared_after_it(ctx, largest):
    v = np.linspace(-0.5, 0.5, 100)
    v[30] = largest
    x = ctx.encrypt(v, level=2)[10:20].within(0.5)
    assert not x.layout.tail.is_bounded
    y, z = x.bootstrap(), x.bootstrap(level=4)
    top = ctx.params.bootstrapping.levels + ctx.params.bootstrapping.floor
    assert (y.level, z.level) == (top - 1, 4) and y.layout.tail.is_zero
    for made in (y, z, *ckks.bootstrap([x, ctx.encrypt(v[10:20], level=2)])):
        assert np.abs(ctx.decrypt(made) - v[10:20]).max() <= made.estimate.error_bound
    assert np.abs(ctx.decrypt(y.sum()) - v[10:20].sum()) <= y.sum().estimate.error_bound
    with pytest.raises(ckks.ParameterError, match=rf"It ends at level {top - 1}: leftovers"):
        x.bootstrap(level=top)


def test_a_bound_that_is_passed_warns_with_the_bits_that_are_left(ctx):
    x = ctx.encrypt(np.linspace(-1.5, 1.5, 100), level=3)
    with pytest.warns(ckks.MessageBoundWarning, match=r"may reach 2; .* \|x\| <= 1, and about 20"):
        y = x.bootstrap()
    assert np.abs(ctx.decrypt(y) - np.linspace(-1.5, 1.5, 100)).max() <= y.estimate.error_bound


def test_a_bound_far_beyond_leaves_an_unknown_error(ctx):
    x = ctx.encrypt([40.0], level=3)
    with pytest.warns(ckks.MessageBoundWarning, match="far off"):
        y = x.bootstrap()
    assert np.isinf(y.estimate.error_bound)


def test_a_server_without_the_keys(ctx):
    fresh = ckks.context(params=ctx.params)
    x, server = fresh.encrypt([0.5], level=3), fresh.server()
    with (
        server,
        pytest.raises(ckks.MissingKeyError, match=re.escape("ctx.bootstrapping_keys()")),
    ):
        x.bootstrap()


def test_less_memory_than_the_keys_take(ctx, monkeypatch):
    monkeypatch.setattr(bootstrapping_keys, "free_bytes", lambda: 1 << 20)
    fresh = ckks.context(params=ctx.params)
    with pytest.raises(ckks.ParameterError, match=r"1 MiB of memory are free"):
        fresh.bootstrapping_keys()
    assert not keys_of(fresh).labelled


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"depth": 40}, "Up to 1[0-9] levels"),
        ({"n": 1 << 14}, "2\\^15 and 2\\^16|No level fits"),
        ({"security": 192}, "128"),
        ({"precision": 60}, "8 to 40"),
        ({"precision": 40}, "scale_bits=60"),
        ({"failure": 2.0**-180}, "failure"),
        ({"bootstrapping": "yes"}, "True, False"),
        ({"bootstrapping": False, "precision": 12}, "bootstrapping=True"),
        ({"slots": 1}, "slots=2"),
        ({"slots": 24}, "power of two"),
        ({"slots": 1 << 16}, "slots"),
    ],
)
def test_wishes_that_cannot_be_met(arguments, match):
    with pytest.raises(ckks.ParameterError, match=match):
        ckks.context(**{"bootstrapping": True, **arguments})


def test_arguments_of_ckks_bootstrap(ctx, x):
    with pytest.raises(ren.RenError, match="list of ciphertexts"):
        ckks.bootstrap(x)
    other = ckks.context(params=ctx.params).encrypt([0.5], level=3)
    with pytest.raises(ckks.ContextError, match="two contexts"):
        ckks.bootstrap([x, other])


@pytest.mark.long
def test_a_plan_counts_each_bootstrap_of_a_loop():
    def step(x):
        return (x * x * 0.5).within(1).bootstrap()

    def loop(x):
        after = lax.fori_loop(0, 4, lambda _, c: step(c), step(x))
        return lax.scan(lambda c, _: (step(c), None), after, None, length=3)[0]

    def body(_, c):
        return step(c)

    def twice(x):  # JAX traces the body once
        return lax.fori_loop(0, 3, body, lax.fori_loop(0, 4, body, step(x)))

    def unrolled(x):
        for _ in range(8):
            x = step(x)
        return x

    wishes = {"bootstrapping": True, "n": 1 << 12, "security": None}
    spec = ckks.spec(64, bound=1)
    plain = ren.plan(unrolled, spec, **wishes)
    for function in (loop, twice, ren.jit(twice)):
        found = ren.plan(function, spec, **wishes)
        assert (found.bootstraps, found.depth) == (8, plain.depth)
        assert plain.limb_ntts <= found.limb_ntts <= 1.1 * plain.limb_ntts
    assert keys_of(ckks.context(found).server()).nbytes == found.key_bytes >= plain.key_bytes


@pytest.mark.long
def test_a_level_that_no_depth_raises_before_a_bootstrap():
    wishes = {"bootstrapping": True, "n": 1 << 12, "security": None}
    with pytest.raises(ckks.DepthError, match=r"No depth suffices(.|\n)*begins at level 2"):
        ren.plan(lambda x: x.drop_to(1).within(1).bootstrap(), ckks.spec(4), **wishes)


def test_scales_of_transforms_beyond_2_to_the_62():
    ctx = ckks.context(depth=3, bootstrapping=True, n=1 << 8, scale_bits=55, precision=30,
                       security=None)  # fmt: skip
    chain = chain_of(ctx.params)
    assert max(*chain.coeff_to_slot, *chain.slot_to_coeff) > 1 << 61
    values = np.linspace(-1, 1, 8)
    y = ctx.encrypt(values).bootstrap()
    assert np.abs(y.decrypt() - values).max() < min(y.estimate.error_bound, 2.0**-30)


@pytest.mark.long
def test_debug_compares_bootstraps(ctx):
    """They make ciphertexts on their way, of which nothing is known but what is decrypted."""
    a = np.linspace(-1, 1, 50)
    for function, expected in (
        (lambda x: x.bootstrap(), a / 3),
        (lambda x: ckks.bootstrap([x, x * 0.5])[1], a / 6),
        (lambda x: (x[3:20] * 3).within(1.0).bootstrap() + 1, a[3:20] + 1),
    ):
        made = ckks.debug(function, a / 3, context=ctx)
        assert np.abs(made.decrypt() - expected).max() < 1e-5
        with pytest.raises(ckks.PrecisionError, match="bootstrap"):
            ckks.debug(function, a / 3, tolerance=1e-8, context=ctx)
    with (
        pytest.warns(ckks.MessageBoundWarning),
        pytest.raises(ckks.PrecisionError, match="bootstrap"),
    ):
        ckks.debug(lambda x: x.bootstrap(), 1000 * a, context=ctx)
