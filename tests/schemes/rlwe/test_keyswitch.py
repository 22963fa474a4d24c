"""Keys and key switching against Python integers: the noise is small, the message unchanged."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from ren.core.errors import SerializationError
from ren.core.numtheory import ntt_primes_below
from ren.poly import Poly
from ren.ring import Domain, RingSpec
from ren.schemes.rlwe.keys import (
    automorphism_of,
    expand_switching_halves,
    expand_uniform,
    make_public_key,
    make_secret,
    make_switching_key,
    square_of,
)
from ren.schemes.rlwe.keyswitch import Gadget, key_switch

N = 64
PRIMES = [p for p, _ in zip(ntt_primes_below(N, 1 << 30), range(9), strict=False)]
GADGETS = {
    "one digit": Gadget(N, (tuple(PRIMES[2:4]),), tuple(PRIMES[:2])),
    "three digits": Gadget(
        N, (tuple(PRIMES[2:4]), tuple(PRIMES[4:6]), (PRIMES[6],)), tuple(PRIMES[:2])
    ),
    "a digit a limb": Gadget(N, tuple((p,) for p in PRIMES[1:5]), (PRIMES[0],)),
}
DIGEST = b"digest of the test parameters"


def small(poly: Poly) -> int:
    """The largest centred coefficient."""
    return max(map(abs, poly.tolist(centered=True)))


@pytest.fixture(params=GADGETS, ids=lambda name: name.replace(" ", "-"))
def gadget(request) -> Gadget:
    return GADGETS[request.param]


def test_factors_select_their_digit(gadget):
    special = int(np.prod(np.array(gadget.specials, object)))
    for digit, factor in zip(gadget.digits, gadget.factors, strict=True):
        for q in gadget.ring.moduli:
            assert factor % q == (special % q if q in digit else 0)


def test_public_keys_are_rlwe_samples(gadget):
    secret = make_secret(gadget.ring)
    key = make_public_key(secret, gadget.ring, DIGEST, 3.2)
    assert 0 < small(key.b + key.a * secret.poly) < 40


def test_automorphism_of_permutes_a_secret_as_polynomials_are(gadget):
    secret = make_secret(gadget.ring)
    for k in (1, 3, 5, 2 * N - 1, pow(5, -1, 2 * N), 2 * N + 3):
        want = secret.poly.automorphism(k % (2 * N))
        assert np.array_equal(automorphism_of(secret, k).limbs, want.limbs)
    assert np.array_equal(square_of(secret).limbs, (secret.poly * secret.poly).limbs)


def test_switching_keys_encrypt_the_source_in_each_digit(gadget):
    s, t = make_secret(gadget.ring).poly, make_secret(gadget.ring).poly
    key = make_switching_key(s, t, gadget.factors, DIGEST, b"test", 3.2)
    for a, b, factor in zip(key.a, key.b, gadget.factors, strict=True):
        assert 0 < small(b + a * t - s * factor) < 40
    again = expand_switching_halves(key.seed, DIGEST, b"test", range(len(key.a)), gadget.ring)
    assert all(np.array_equal(p.limbs, q.limbs) for p, q in zip(key.a, again, strict=True))


@pytest.mark.slow
def test_key_switch_at_every_part_of_the_union(gadget):
    """k0 + k1 t - c s' is below sum_j n D_j |e| / P + (k + 1) n: 2^14 at n = 64."""
    s, t = make_secret(gadget.ring).poly, make_secret(gadget.ring).poly
    key = make_switching_key(s, t, gadget.factors, DIGEST, b"test", 3.2)
    union = gadget.ring.moduli[: -len(gadget.specials)]
    for start in range(len(union)):
        for stop in range(start + 1, len(union) + 1):
            ring = RingSpec(N, union[start:stop])
            c = Poly.uniform(ring, seed=b"c").ntt()
            k0, k1 = key_switch(c, key, gadget)
            assert k0.ring == k1.ring == ring and k0.domain is Domain.NTT
            error = small(k0 + k1 * t.to_ring(ring) - c * s.to_ring(ring))
            assert error < (1 << 14 if len(ring.moduli) > 1 else ring.q // 2)


def test_uniform_halves_are_separated_by_everything(gadget):
    ring = gadget.ring
    seen = {
        expand_uniform(seed, domain, ring).limbs.__array__().tobytes()
        for seed in (b"a" * 32, b"b" * 32)
        for domain in (b"one", b"two")
    }
    assert len(seen) == 4
    halves = {
        p.limbs.__array__().tobytes()
        for digest in (b"x", b"y")
        for label in (b"galois/5", b"galois/25", b"relinearization")
        for p in expand_switching_halves(b"s" * 32, digest, label, range(2), ring)
    }
    assert len(halves) == 12


def test_each_key_takes_a_new_seed_and_new_noise(gadget):
    s = make_secret(gadget.ring).poly
    first, second = (
        make_switching_key(s, s, gadget.factors, DIGEST, b"test", 3.2) for _ in range(2)
    )
    assert first.seed != second.seed
    errors = [(k.b[0] + k.a[0] * s - s * gadget.factors[0]).tolist() for k in (first, second)]
    assert errors[0] != errors[1]


def test_secrets_do_not_print(gadget):
    secret = make_secret(gadget.ring)
    assert repr(secret) == "<Secret>" and set(secret.coefficients.tolist()) <= {-1, 0, 1}
    key = make_switching_key(secret.poly, secret.poly, gadget.factors, DIGEST, b"test", 3.2)
    assert repr(key).startswith(f"<SwitchingKey of {len(key.b)} digit")
    assert f"over {gadget.ring.limbs} limbs" in repr(key) and repr(key).endswith("INSECURE>")
    assert key.nbytes == sum(p.limbs.nbytes for p in (*key.b, *key.a))
    for leak in (pickle.dumps, copy.copy):
        with pytest.raises(SerializationError, match="include_secret=True"):
            leak(secret)
