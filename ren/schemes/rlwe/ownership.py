"""Check that keys belong to the owner that their `key_id` names.

The identity settles the public and the relinearization key. The secret settles other keys, where it
is held. A key is an RLWE sample, whose error is as small as the sampler's. Without the secret only
the owner's own copy settles them. Two keys of one name have to be equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ren.capture.programs import replayed
from ren.core.errors import ContextError
from ren.lowering.devices.devices import is_tracer
from ren.lowering.runtime.host_integers import centered
from ren.poly import Poly
from ren.sampling import gaussian_bound
from ren.schemes.rlwe.gadget import gadget_of
from ren.schemes.rlwe.keychain import (
    PUBLIC,
    RELINEARIZATION,
    Keychain,
    galois_label,
    switch_label,
)
from ren.schemes.rlwe.keys import PublicKey, Secret, SwitchingKey, automorphism_of, square_of
from ren.schemes.rlwe.parameters import RlweParameters

# ------------------------------------------------------------------- against the secret


def foreign_key(secret: Secret, keys: Keychain, params: RlweParameters) -> str | None:
    """The label of the first key of `keys` that is not of `secret`, or None.

    Switching keys to other owners are not checked: that takes the other secret.

    Cost: one limb-NTT for each limb of each half b, and one of the secret for each galois key.
    """
    bound, factors = gaussian_bound(params.sigma), gadget_of(params).factors
    if keys.public is not None:
        held = keys.public
        if not _is_small(replayed(_public_error, None, held.b, held.a, secret.poly), bound):
            return PUBLIC.decode()
    for label, key, source, target in _switched(secret, keys, params):
        given = source, target, *key.b, *key.a
        if not _is_small(replayed(_switching_errors, factors, *given), bound):
            return label.decode()
    return None


def _switched(
    secret: Secret, keys: Keychain, params: RlweParameters
) -> Iterator[tuple[bytes, SwitchingKey, Poly, Poly]]:
    """Relinearization and galois keys, each with the secrets that it leads from and to."""
    s = secret.poly
    if keys.relinearization is not None:
        yield RELINEARIZATION, keys.relinearization, square_of(secret), s
    for g, key in keys.galois.items():
        yield galois_label(g), key, s, automorphism_of(secret, pow(g, -1, 2 * params.n))


def _is_small(errors: Sequence[Poly], bound: int) -> bool:
    """Whether no coefficient of the errors, in the coefficient domain, is beyond the bound."""
    return all(np.abs(centered(e.limbs, e.ring.moduli)).max() <= bound for e in errors)


def _public_error(_: None, b: Poly, a: Poly, s: Poly) -> tuple[Poly]:
    return ((b + a * s.to_ring(b.ring)).intt(),)


def _switching_errors(
    factors: tuple[int, ...], source: Poly, target: Poly, *halves: Poly
) -> tuple[Poly, ...]:
    count = len(factors)
    parts = zip(factors, halves[:count], halves[count:], strict=True)
    return tuple((b + a * target - source * factor).intt() for factor, b, a in parts)


# ------------------------------------------------------------------- against keys that are held


def require_one_owner(held: Keychain, given: Keychain, what: str) -> None:
    """Raise ContextError unless two keychains of one `key_id` can be of one owner.

    Args:
        held: the keys of a context that lives.
        given: the keys that came.
        what: where they came to, for the error.
    """
    if held.identity != given.identity:
        raise _refusal(f"{what} got other keys for the key_id {held.key_id[:8]}.")
    mine = _by_label(held)
    for label, key in _by_label(given).items():
        if label in mine and not _is_same(mine[label], key):
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


def _by_label(keys: Keychain) -> dict[bytes, PublicKey | SwitchingKey]:
    found: dict[bytes, PublicKey | SwitchingKey] = {
        **{galois_label(g): key for g, key in keys.galois.items()},
        **{switch_label(to): key for to, key in keys.switches.items()},
    }
    if keys.public is not None:
        found[PUBLIC] = keys.public
    if keys.relinearization is not None:
        found[RELINEARIZATION] = keys.relinearization
    return found


def _is_same(mine: PublicKey | SwitchingKey, given: PublicKey | SwitchingKey) -> bool:
    """Whether seeds and halves b are equal; of tracers, which have no values, the seeds alone."""
    if mine is given:
        return True
    pairs = list(zip(_halves(mine), _halves(given), strict=True))
    return mine.seed == given.seed and all(
        p is q or is_tracer(p) or is_tracer(q) or np.array_equal(np.asarray(p), np.asarray(q))
        for p, q in pairs
    )


def _halves(key: PublicKey | SwitchingKey) -> list[Any]:
    polys = (key.b,) if isinstance(key, PublicKey) else key.b
    return [b.limbs for b in polys]
