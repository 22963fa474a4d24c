"""Randomness and noise of encryption: fresh each time, also in forked children."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import jax
import numpy as np
import pytest

import ren
from ren import Poly
from ren.capture.programs import Integers
from ren.core.errors import RandomnessError
from ren.schemes import ckks
from ren.schemes.ckks.encoding import encoder
from ren.schemes.rlwe.encryption import (
    decrypt_coefficients,
    encrypt_with_public_key,
    encrypt_with_secret,
)
from tests.schemes.ckks.keys import keys_of

# The parent imports and forks before JAX has started threads; each child then encrypts.
_FORKS = """
import os, warnings
warnings.simplefilter("ignore")
from ren.ring import RingSpec
from ren.schemes.rlwe.encryption import encrypt_with_secret
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.poly import Poly
from ren.schemes.rlwe.keyswitch import gadget_of
from ren.schemes.rlwe.keys import secret_from
import numpy as np
params = Parameters.for_depth(0, n=1024, security=None)
for _ in range(2):
    if os.fork() == 0:
        secret = secret_from(np.ones(1024, np.int8), gadget_of(params).ring)
        ring = params.ring(0)
        (c0, c1), seed = encrypt_with_secret(Poly([0], ring).ntt(), secret, params)
        e = (c0 + c1 * secret.poly.to_ring(ring)).tolist(centered=True)
        print(seed.hex(), hash(tuple(e)), max(map(abs, e)) < 40, flush=True)
        os._exit(0)
    os.wait()
"""

# A plan captured before the fork is replayed after it, by the interpreter: no thread of JAX's.
_FORKED_REPLAYS = """
import os, warnings
warnings.simplefilter("ignore")
import ren
ring = ren.RingSpec(8, (17, 97))
x = ren.Poly([0] * 8, ring, device="python")
draw = ren.jit(lambda x: x + ren.Poly.uniform(ring, device="python"))
print(draw(x).tolist(), flush=True)
for _ in range(2):
    if os.fork() == 0:
        print(draw(x).tolist(), flush=True)
        print(draw(x).tolist(), flush=True)
        os._exit(draw.cache_info().misses != 1)
    assert os.wait()[1] == 0
print(draw(x).tolist(), flush=True)
"""


def test_two_encryptions_differ_in_everything(ctx):
    x, y = ctx.encrypt([1.0]), ctx.encrypt([1.0])
    assert x.seed != y.seed
    for p, q in zip(x.polys, y.polys, strict=True):
        assert not np.array_equal(p.limbs, q.limbs)
    assert not np.array_equal(x.decrypt(), y.decrypt())
    p, q = (ctx.public().encrypt([1.0]) for _ in range(2))
    assert not np.array_equal(p.polys[1].limbs, q.polys[1].limbs)
    batch = ctx.encrypt(np.zeros((2, 3)), pack="rows")
    for half in batch.polys:
        assert not np.array_equal(half.limbs[0], half.limbs[1])


@pytest.mark.long
def test_forked_children_differ():
    ran = subprocess.run(
        [sys.executable, "-c", _FORKS], capture_output=True, text=True, check=True, timeout=120
    )
    first, second = (line.split() for line in ran.stdout.splitlines())
    assert first[0] != second[0] and first[1] != second[1]
    assert first[2] == second[2] == "True"


def test_replays_in_forked_children_differ():
    ran = subprocess.run(
        [sys.executable, "-c", _FORKED_REPLAYS],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    drawn = ran.stdout.splitlines()
    assert len(drawn) == len(set(drawn)) == 6


def test_encryption_is_refused_where_its_noise_would_repeat(ctx):
    x = ctx.encrypt([1.0])
    with pytest.raises(RandomnessError, match="Encrypt outside"):
        jax.jit(lambda x: x + ctx.encrypt([1.0]))(x)
    with pytest.raises(RandomnessError, match="Encrypt outside"):
        jax.vmap(lambda x: x + ctx.encrypt([1.0]))(ctx.encrypt([[1.0], [2.0]], pack="rows"))


def test_under_ren_jit_encryption_is_drawn_anew_at_each_replay(ctx):
    for maker in (ctx, ctx.public()):
        f = ren.jit(lambda x, maker=maker: x * 2 + maker.encrypt([1.0, 2.0]))
        x = ctx.encrypt([5.0, 7.0])
        runs = [f(x) for _ in range(3)]
        assert f.cache_info()[:3] == (2, 1, 1)
        for run in runs:
            assert np.abs(run.decrypt() - [11.0, 16.0]).max() < 1e-6
        for i in (0, 1):
            assert len({tuple(run.polys[i].limbs[0, :8].tolist()) for run in runs}) == 3


def test_keys_are_never_made_twice_alike(small_params):
    first, second = (ckks.context(params=small_params, rotations=[1]) for _ in range(2))
    again = ckks.context(params=small_params)
    a, b = (keys_of(c) for c in (first, second))
    assert first.key_id != second.key_id
    assert not np.array_equal(a.secret.coefficients, b.secret.coefficients)
    made = [k.relinearization for k in (a, b)] + [k.galois[5] for k in (a, b)]
    made += [keys_of(c.public()).public for c in (first, second, again)]
    assert len({key.seed for key in made}) == len(made)
    halves = [key.b if not isinstance(key.b, tuple) else key.b[0] for key in made]
    assert len({half.limbs[0].tobytes() for half in halves}) == len(made)
    digits = made[0]
    for half in (digits.a, digits.b):
        assert len({p.limbs.tobytes() for p in half}) == len(half)


def test_a_key_made_during_a_capture_is_a_key(ctx):
    fresh = ckks.context(params=ctx.params)
    f = ren.jit(lambda x: x.rotate(3) + x.conj())
    x = fresh.encrypt([1.0, 2.0, 3.0, 4.0, 5.0])
    first = f(x).decrypt()
    assert np.abs(first - f(x).decrypt()).max() < 1e-6
    assert np.abs(first - ([5, 7, 3, 4, 5])).max() < 1e-6
    assert np.abs(x.rotate(3).decrypt() - [4, 5, 0, 0, 0]).max() < 1e-6


def test_noise_of_fresh_ciphertexts(ctx13):
    """c0 + c1 s - m is Gaussian of sigma 3.2 with the secret key, small with the public one."""
    n, level = ctx13.params.n, ctx13.params.depth
    values = np.random.default_rng(0).uniform(-1, 1, n // 2)
    message = encoder.encode(values, n, n // 2, ctx13.params.scale(level))
    secret = keys_of(ctx13).secret
    ring = ctx13.params.ring(level)

    def noise(x):
        decrypted = (x.polys[0] + x.polys[1] * secret.poly.to_ring(ring)).tolist(centered=True)
        return np.array(decrypted, float) - message

    fresh = noise(ctx13.encrypt(values))
    assert abs(fresh.std() / 3.2 - 1) < 0.05 and np.abs(fresh).max() < 6 * 3.2
    # Rounding by p: sqrt((1 + 2n/3) / 12) a coefficient, whatever p is.
    public = noise(ctx13.public().encrypt(values))
    assert abs(public.std() / np.sqrt((1 + 2 * n / 3) / 12 + 3.2**2) - 1) < 0.1


def test_the_secret_is_uniform_ternary(ctx13):
    counts = np.unique(keys_of(ctx13).secret.coefficients, return_counts=True)
    assert counts[0].tolist() == [-1, 0, 1]
    assert np.abs(counts[1] / ctx13.params.n - 1 / 3).max() < 0.03


# ------------------------------------------------------------------- at once, and as programs


def entropy():
    """Seeds in a fixed order."""
    return map(bytes, zip(*[range(200)] * 32, strict=True)).__next__


def same(polys, others):
    return all(ren.equal(p, q) and p.domain is q.domain for p, q in zip(polys, others, strict=True))


@pytest.mark.parametrize(("level", "batch"), [(2, ()), (0, (2,)), (2, (2, 3))])
def test_encryption_at_once_is_bit_for_bit_the_program(ctx, batch, level):
    params, ring = ctx.params, ctx.params.ring(level)
    values = np.random.default_rng(level).integers(-(2**50), 2**50, (*batch, params.n))
    message, secret = Poly(values, ring), keys_of(ctx).secret
    made, seed = encrypt_with_secret(Integers(values, ring), secret, params, entropy())
    wanted, wanted_seed = encrypt_with_secret(message, secret, params, entropy())
    assert seed == wanted_seed and same(made, wanted)
    key = keys_of(ctx.public()).public
    made = encrypt_with_public_key(Integers(values, ring), key, params, entropy())
    assert same(made, encrypt_with_public_key(message, key, params, entropy()))


@pytest.mark.parametrize("value", [0.0, 1.0, -2.5 + 0.75j, 2.0**23])
@pytest.mark.parametrize("maker", ["owner", "public"])
def test_coefficients_beyond_64_bits_are_encrypted_too(ctx, maker, value):
    params = ckks.Parameters.for_depth(1, 60, n=1 << 10, security=None, integer_bits=30)
    owner = ckks.context(params=params)
    encrypting = owner if maker == "owner" else owner.public()
    assert encoder.as_integers(np.array([2.0**62])) is None
    for values in (value, np.full(8, value)):
        decrypted = encrypting.encrypt(values).decrypt()
        assert np.abs(decrypted - values).max() < 2**-35 * max(1, abs(value))


def test_encrypting_anew_plans_nothing(ctx, slots, monkeypatch):
    values, maker = slots(ctx.slots), ctx.public()
    for _ in range(2):
        ctx.encode(values).to_bytes(), ctx.decrypt(ctx.encrypt(values)), maker.encrypt(values)

        def never(sink):
            raise AssertionError("planned anew")

        monkeypatch.setattr("ren.lowering.runtime.planning.source_of", never)
        monkeypatch.setattr("ren.capture.programs.source_of", never)


# ------------------------------------------------------------------- decrypting any coefficients


def ciphertext_of(values, ctx, level):
    """Polynomials that decrypt to exactly these integer coefficients, c1 uniform."""
    ring, secret = ctx.params.ring(level), keys_of(ctx).secret
    c1 = Poly.uniform(ring, seed=b"c1").ntt()
    return Poly(values, ring).ntt() - c1 * secret.poly.to_ring(ring), c1


@pytest.mark.parametrize("level", [0, 1, 3])
@pytest.mark.parametrize("bits", [1, 20, 50, 80, 500])
def test_any_coefficients_are_decrypted_to_52_bits(ctx, level, bits):
    """All coefficients below 2^bits, one that is larger, and all up to Q/2."""
    n, q = ctx.params.n, ctx.params.ring(level).q
    rng = np.random.default_rng(bits)
    small = [int(rng.integers(-(2**bits), 2**bits + 1)) if bits < 60 else i - 9 for i in range(n)]
    small = [v % q - q * (v % q > q // 2) for v in small]
    wide = [int(rng.integers(2**62)) ** 9 % q - q // 2 for _ in range(n)]
    wide[:4] = q // 2, -(q // 2), q // 2 - 1, 0
    for values in (small, [*small[:-1], wide[7]], wide):
        polys = ciphertext_of([v % q for v in values], ctx, level)
        got = decrypt_coefficients(polys, keys_of(ctx).secret)
        assert got.shape == (n,) and got.dtype == np.float64
        for v, x in zip(values, got.tolist(), strict=True):
            assert abs(Fraction(x) - v) * 2**52 <= abs(v)


def test_decrypting_realizes_the_ciphertext_and_three_components(ctx):
    with ckks.manual():
        product = ctx.encrypt([2.0, 3.0]) * ctx.encrypt([5.0, 7.0])
        assert len(product.polys) == 3
        assert np.abs(product.decrypt()[:2] - [10, 21]).max() < 1e-5
    lazy = ctx.encrypt([2.0, 3.0]) + 1
    assert np.abs(lazy.decrypt() - [3, 4]).max() < 1e-6
    assert all(p.is_realized for p in lazy.polys)
