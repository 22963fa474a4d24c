"""Check that keys belong to the owner that their `key_id` names.

The identity settles the public and the relinearization key. The secret settles other keys, where it
is held. A key is an RLWE sample, whose error is as small as the sampler's. Without the secret only
the owner's own copy settles them. Two keys of one name have to be equal.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ren.capture.programs import replayed
from ren.core.errors import ContextError
from ren.lowering.devices.devices import is_tracer
from ren.lowering.runtime.host_arrays import centered
from ren.poly import Poly
from ren.sampling import gaussian_bound
from ren.schemes.rlwe.identity import PUBLIC, RELINEARIZATION
from ren.schemes.rlwe.keychain import Keychain, galois_label
from ren.schemes.rlwe.keys import PublicKey, Secret, SwitchingKey, automorphism_of, square_of
from ren.schemes.rlwe.keyswitch import cut, gadget_of
from ren.schemes.rlwe.parameters import RlweParameters

# ------------------------------------------------------------------- against the secret


def foreign_key(secret: Secret, keys: Keychain, params: RlweParameters) -> str | None:
    """The label of the first key of `keys` that is not of `secret`, or None.

    Switching keys to other owners are not checked: that takes the other secret.

    Cost: one limb-NTT for each limb of each half b, and one of the secret for each galois key.
    """
    bound = gaussian_bound(params.sigma)
    for label, key, factors, source, target in _equations(secret, keys, params):
        a = key.a if isinstance(key.a, tuple) else (key.a,)
        errors = replayed(_errors, factors, source, target, *key.halves, *a)
        if any(np.abs(centered(e.limbs, e.ring.moduli)).max() > bound for e in errors):
            return label.decode()
    return None


def _equations(
    secret: Secret, keys: Keychain, params: RlweParameters
) -> Iterator[tuple[bytes, PublicKey | SwitchingKey, tuple[int, ...], Poly, Poly]]:
    """Each key with the factors, the source and the target of b + a target = e + factor source."""
    s, gadget = secret.poly, gadget_of(params)
    factors = gadget.factors
    if keys.public is not None:
        yield PUBLIC, keys.public, (0,), s, s
    if keys.relinearization is not None:
        yield RELINEARIZATION, keys.relinearization, factors, square_of(secret), s
    for g, key in keys.galois.items():
        target = automorphism_of(secret, pow(g, -1, 2 * params.n))
        own = gadget.cut(key.ring.moduli).factors
        yield galois_label(g), key, own, s, target


def _errors(
    factors: tuple[int, ...], source: Poly, target: Poly, *halves: Poly
) -> tuple[Poly, ...]:
    """The errors e in the coefficient domain."""
    count, ring = len(factors), halves[0].ring
    parts = zip(factors, halves[:count], halves[count:], strict=True)
    source, target = source.to_ring(ring), target.to_ring(ring)
    return tuple((b + a * target - source * factor).intt() for factor, b, a in parts)


# ------------------------------------------------------------------- against keys that are held


def require_one_owner(held: Keychain, given: Keychain, params: RlweParameters, what: str) -> None:
    """Raise ContextError unless two keychains of one `key_id` can be of one owner.

    `held` are the keys of a live context, `given` came to `what`.
    """
    if held.identity != given.identity:
        raise _refusal(f"{what} got other keys for the key_id {held.key_id[:8]}.")
    mine = held.by_label()
    for label, key in given.by_label().items():
        if label in mine and not _is_same(mine[label], key, params):
            raise _refusal(
                f"{what} got a key {label.decode()} of the key_id {held.key_id[:8]} that differs "
                "from the one of a live context."
            )


def require_owned(held: Keychain, given: Keychain, params: RlweParameters, what: str) -> None:
    """Raise ContextError when the secret is held and one of the keys that came is not of it."""
    if held.secret is not None and (label := foreign_key(held.secret, given, params)):
        raise _refusal(f"{what} got a key {label} that is not of the secret key held here.")


def _refusal(given: str) -> ContextError:
    return ContextError(
        given,
        "All keys of one key_id are made by one owner, and copies of an owner make equal keys.",
        "Find out who sent the keys; drop the live context first if its keys are the forged ones.",
    )


def _is_same(
    mine: PublicKey | SwitchingKey, given: PublicKey | SwitchingKey, params: RlweParameters
) -> bool:
    """Whether seeds and halves b are equal; of tracers, which have no values, the seeds alone.

    Of parts of keys the limbs that both have are compared.
    """
    if mine is given:
        return True
    if mine.ring != given.ring:
        assert isinstance(mine, SwitchingKey) and isinstance(given, SwitchingKey)
        gadget = gadget_of(params)
        both = set(mine.ring.moduli).intersection(given.ring.moduli)
        mine, given = cut(mine, gadget, both), cut(given, gadget, both)
    pairs = [(p.limbs, q.limbs) for p, q in zip(mine.halves, given.halves, strict=True)]
    return mine.seed == given.seed and all(
        p is q or is_tracer(p) or is_tracer(q) or np.array_equal(np.asarray(p), np.asarray(q))
        for p, q in pairs
    )
