"""Secrets, public keys and switching keys of ring-LWE schemes, with their uniform halves as seeds.

Public uniform halves are expanded from 32-byte seeds, one seed for each key. Domain separation is
by (parameters digest, label, component). Secrets and noise never come from a stored seed. An
`Entropy` gives 32 bytes at each call. They come from the operating system, or from a stream that
the scheme derives for one key.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ren.capture.programs import Integers, replayed
from ren.core.attributes import frozen
from ren.core.errors import SerializationError
from ren.core.listed import Listed
from ren.core.ring import Domain, RingSpec
from ren.lowering.runtime import host_arrays
from ren.lowering.runtime.host_arrays import placed
from ren.poly import Poly
from ren.poly.display import steady
from ren.poly.poly import from_array
from ren.poly.realization import is_capturing
from ren.sampling import SEED_BYTES, Xof, fresh_seed, gaussian, ternary, uniform_residues
from ren.schemes.rlwe.security import security_bits

Entropy = Callable[[], bytes]
Batch = tuple[int, ...]
Part = tuple[Sequence[int], RingSpec]  # of a key: the numbers of its digits, and its ring


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Secret:
    """A secret s: its ternary coefficients int8 [n], and s over the key ring in the NTT domain.

    It is not a pytree, so that it cannot slip into a compiled program as an argument.
    """

    coefficients: NDArray[np.int8]
    poly: Poly

    def __repr__(self) -> str:
        return "<Secret>"

    def __reduce__(self) -> Any:
        raise SerializationError(
            "A secret key was to be pickled or copied.",
            "Whoever reads the secret key decrypts everything.",
            "For your own backup use ctx.save(path, include_secret=True).",
        )


@steady("b", "a")
class _Key(metaclass=Listed):
    """Halves b and a of a key, each a polynomial or one for each digit, and the seed of a."""

    __internal__ = ("a", "b", "seed", "halves", "ring")

    b: Any

    @property
    def halves(self) -> tuple[Poly, ...]:
        """The polynomials b."""
        return self.b if isinstance(self.b, tuple) else (self.b,)

    @property
    def ring(self) -> RingSpec:
        """The ring of the halves."""
        return self.halves[0].ring

    @property
    def nbytes(self) -> int:
        """Bytes of all halves in memory."""
        return 2 * self._half_nbytes

    @property
    def saved_nbytes(self) -> int:
        """Bytes when saved: the halves b, and the seed of the others."""
        return self._half_nbytes + SEED_BYTES

    @property
    def _half_nbytes(self) -> int:
        ring = self.ring
        return 4 * len(self.halves) * ring.limbs * ring.n

    def __repr__(self) -> str:
        ring, digits = self.ring, ""
        if isinstance(self.b, tuple):
            digits = f"of {len(self.b)} digit{'s' * (len(self.b) > 1)} "
        mark = "" if security_bits(ring.n, ring.log2_q) else ", INSECURE"  # of this key alone
        return f"<{type(self).__name__} {digits}over {ring.limbs} limbs, {sizes(self)}{mark}>"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PublicKey(_Key):
    """(b, a) with b + a s = e: one polynomial each, NTT domain; a is expanded from `seed`."""

    b: Poly
    a: Poly
    seed: bytes


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SwitchingKey(_Key):
    """For each digit j, (b_j, a_j) with b_j + a_j t = e_j + P g_j s'; a_j expanded from `seed`."""

    b: tuple[Poly, ...]
    a: tuple[Poly, ...]
    seed: bytes


def sizes(held: Any) -> str:
    """The bytes of keys in memory, and saved, where uniform halves are seeds."""
    memory, saved = held.nbytes / 2**20, held.saved_nbytes / 2**20
    return f"{memory:.2f} MiB in memory, {saved:.2f} MiB saved"


for _kind in (Secret, PublicKey, SwitchingKey):
    _kind.__setattr__ = _kind.__delattr__ = frozen(otherwise="A context makes keys.")  # type: ignore
jax.tree_util.register_dataclass(PublicKey, ["b", "a"], ["seed"])
jax.tree_util.register_dataclass(SwitchingKey, ["b", "a"], ["seed"])


def from_residues(residues: NDArray[np.uint32], ring: RingSpec, domain: Domain) -> Poly:
    """The polynomial of host limbs [*batch, limb, n] (Montgomery) on JAX's default device."""
    return from_array(placed(residues), ring, domain)


def from_integers(values: NDArray[np.int64], ring: RingSpec) -> Poly:
    """The polynomial with the coefficients int64 [*batch, n], any values, on JAX's default device.

    Nothing is written to the array afterwards: the polynomial may stand on its memory.
    """
    return from_array(host_arrays.residues(values, ring.moduli), ring, Domain.COEFF)


def expand_uniform(
    seed: bytes, domain: bytes, ring: RingSpec, batch: Batch = (), part: RingSpec | None = None
) -> Poly:
    """The uniform polynomial over `ring`, in the NTT domain, that `seed` stands for in `domain`.

    Of it the limbs for `part`, a ring of some of the moduli, where that is given.
    """
    xof = Xof(seed, domain)
    limbs = host_arrays.empty((*batch, ring.limbs, ring.n), np.uint32)
    for one in limbs.reshape(-1, ring.limbs, ring.n):
        uniform_residues(xof, ring.n, ring.moduli, out=one)
    if part is None or part == ring:
        return from_residues(limbs, ring, Domain.NTT)
    kept = host_arrays.empty((*batch, part.limbs, ring.n), np.uint32)
    np.take(limbs, [ring.moduli.index(m) for m in part.moduli], axis=-2, out=kept)
    return from_residues(kept, part, Domain.NTT)


def noise(ring: RingSpec, sigma: float, entropy: Entropy = fresh_seed, batch: Batch = ()) -> Poly:
    """Fresh Gaussian noise over `ring`: coefficients [*batch, n].

    In a function that is being captured it is an input of the plan, drawn anew at every replay.
    """
    if is_capturing():
        return Poly.gaussian(ring, sigma, batch=batch)
    return from_integers(noise_draws((*batch, ring.n), sigma, entropy), ring)


def noise_draws(shape: Batch, sigma: float, entropy: Entropy = fresh_seed) -> NDArray[np.int64]:
    """The coefficients of fresh Gaussian noise: int64 of this shape."""
    return gaussian(Xof(entropy(), b"ren/rlwe/noise"), math.prod(shape), sigma).reshape(shape)


def small_ternary(ring: RingSpec, entropy: Entropy = fresh_seed, batch: Batch = ()) -> Poly:
    """Fresh uniform ternary coefficients [*batch, n], over `ring`; at a capture as in `noise`."""
    if is_capturing():
        return Poly.ternary(ring, batch=batch)
    return from_integers(ternary_draws((*batch, ring.n), entropy).astype(np.int64), ring)


def ternary_draws(shape: Batch, entropy: Entropy = fresh_seed) -> NDArray[np.int8]:
    """Fresh uniform ternary coefficients: int8 of this shape."""
    return ternary(Xof(entropy(), b"ren/rlwe/ternary"), math.prod(shape)).reshape(shape)


def secret_from(coefficients: NDArray[np.int8], ring: RingSpec) -> Secret:
    """The secret with the given coefficients over the key ring."""
    return Secret(coefficients, Poly(coefficients.astype(np.int64), ring).ntt())


def make_secret(ring: RingSpec, entropy: Entropy = fresh_seed) -> Secret:
    """A fresh uniform ternary secret over the key ring."""
    return secret_from(ternary_draws((ring.n,), entropy), ring)


def automorphism_of(secret: Secret, k: int) -> Poly:
    """s(X^k) over the key ring in the NTT domain, for an odd k, computed at once.

    Its plan does not depend on k: the coefficients are permuted before they are transformed.
    """
    n = len(secret.coefficients)
    exponents = np.arange(n) * (k % (2 * n)) % (2 * n)  # below 2 n^2 <= 2^37
    image = np.empty(n, np.int64)
    image[exponents % n] = np.where(exponents < n, secret.coefficients, -secret.coefficients)
    return replayed(_transformed, None, Integers(image, secret.poly.ring))[0]


def square_of(secret: Secret) -> Poly:
    """s^2 over the key ring in the NTT domain, computed at once."""
    return replayed(_square, None, secret.poly)[0]


def _transformed(_: None, p: Poly) -> tuple[Poly]:
    return (p.ntt(),)


def _square(_: None, s: Poly) -> tuple[Poly]:
    return (s * s,)


def make_public_key(
    secret: Secret, ring: RingSpec, digest: bytes, sigma: float, entropy: Entropy = fresh_seed
) -> PublicKey:
    """(b, a), b = -a s + e over `ring`, a part of the key ring, computed at once.

    The first 32 bytes of `entropy` are the seed of a, the next ones that of e.
    """
    seed = entropy()
    a = expand_public_half(seed, digest, ring)
    e = Integers(noise_draws((ring.n,), sigma, entropy), ring)
    (b,) = replayed(_public_half, None, e, a, secret.poly)
    return PublicKey(b, a, seed)


def _public_half(_: None, e: Poly, a: Poly, s: Poly) -> tuple[Poly]:
    return (e.ntt() - a * s.to_ring(e.ring),)


def expand_public_half(seed: bytes, digest: bytes, ring: RingSpec) -> Poly:
    """The half `a` of a public key."""
    return expand_uniform(seed, b"ren/rlwe/public/" + digest, ring)


def make_switching_key(
    source: Poly,
    target: Poly,
    factors: Sequence[int],
    digest: bytes,
    label: bytes,
    sigma: float,
    entropy: Entropy = fresh_seed,
    part: Part | None = None,
) -> SwitchingKey:
    """The key that takes c s' to a pair under t: b_j = -a_j t + e_j + P g_j s'; computed at once.

    Args:
        source, target: s' and t, in the NTT domain over the key ring.
        factors: the integers P g_j, one for each digit (`Gadget.factors`).
        digest, label: of the parameters, and of the key; they separate the seeds.
        entropy: its first 32 bytes are the seed of all a_j, then 32 bytes for each e_j follow.
        part: of the key, to make it alone: the limbs are those of the whole key.
    """
    seed, whole = entropy(), source.ring
    kept, ring = part or (range(len(factors)), whole)
    a = expand_switching_halves(seed, digest, label, kept, whole, ring)
    seeds = [entropy() for _ in factors]
    e = [Integers(noise_draws((ring.n,), sigma, lambda j=j: seeds[j]), ring) for j in kept]
    own = tuple(factors[j] % ring.q for j in kept)
    b = replayed(_switching_halves, own, source, target, *e, *a)
    return SwitchingKey(tuple(b), a, seed)


def _switching_halves(
    factors: tuple[int, ...], source: Poly, target: Poly, *given: Poly
) -> list[Poly]:
    count, ring = len(factors), given[0].ring
    source, target = source.to_ring(ring), target.to_ring(ring)
    parts = zip(factors, given[:count], given[count:], strict=True)
    return [e.ntt() - a * target + source * factor for factor, e, a in parts]


def expand_switching_halves(
    seed: bytes,
    digest: bytes,
    label: bytes,
    digits: Iterable[int],
    ring: RingSpec,
    part: RingSpec | None = None,
) -> tuple[Poly, ...]:
    """The halves a_j of a switching key over `ring` for some digits; their limbs for `part`."""
    prefix = b"ren/rlwe/switching/" + digest + b"/" + label + b"/"
    return tuple(expand_uniform(seed, prefix + str(j).encode(), ring, (), part) for j in digits)
