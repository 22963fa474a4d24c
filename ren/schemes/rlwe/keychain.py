"""The keys that a context holds, how each is made, and which of them others may have.

The randomness of each key is derived from the secret, so that copies of one owner make equal keys.
A secret is drawn from 32 bytes of the operating system (or of a test's stream). The rest follows:

    master = SHA-256(label, parameters digest, coefficients of the secret).
    Seeds of a key = SHAKE-256(label of the key, master), 32 bytes at a time.

The first seed of a key is public and expands its uniform halves; the others give its noise.

Why this is sound: take both hashes for random oracles. Before an attacker asks for the hash of the
secret itself, all seeds are independent, uniform and unrelated to it. They are exactly as if they
were drawn. Asking for it is finding the secret, which has the 256 bits of entropy of its seed.
Blocks of one stream are independent, so public seeds tell nothing about seeds of noise. A label
names the key. Label, parameters and secret fix what the key encrypts: no two keys share a stream.

The number in the label is that of the derivation. It changes with anything that changes a key. Two
keys with the same uniform halves and different noise tell the difference of their noises.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax

from ren.core.errors import ContextError, MissingKeyError
from ren.core.node import placeholder
from ren.core.ring import Domain
from ren.core.spec import Spec
from ren.lowering.devices.devices import is_tracer
from ren.lowering.runtime.host_arrays import trim
from ren.poly import Poly
from ren.poly.display import steady
from ren.poly.key_ids import KeyId
from ren.poly.poly import from_node
from ren.progress import Progress
from ren.sampling import SeedStream, fresh_seed
from ren.schemes.rlwe.identity import (
    PUBLIC,
    RELINEARIZATION,
    Identity,
    SymbolicIdentity,
    identity_of,
)
from ren.schemes.rlwe.keys import (
    Entropy,
    Part,
    PublicKey,
    Secret,
    SwitchingKey,
    automorphism_of,
    make_public_key,
    make_secret,
    make_switching_key,
    square_of,
)
from ren.schemes.rlwe.keyswitch import Gadget, cut, gadget_of, reaches
from ren.schemes.rlwe.parameters import RlweParameters

# Never changed, or all keys change. The digest of the parameters separates schemes.
_MASTER = b"ren/ckks/keys/1/master/"
_KEY = b"ren/ckks/keys/1/"
_MANY = 8  # keys: what they are made in is given back then
OWNER = 2  # the highest rank: with the secret key
Key = TypeVar("Key")


def galois_label(galois: int) -> bytes:
    """Label that separates the seed of one galois key from that of another."""
    return b"galois/" + str(galois).encode()


def switch_label(key_id: str) -> bytes:
    """Label that separates the seed of the key that leads to another owner's secret."""
    return b"switch/" + key_id.encode()


def labelled_label(label: str) -> bytes:
    """Label that separates the seed of one of the scheme's own keys from that of another."""
    return b"labelled/" + label.encode()


@steady("public", "relinearization", "galois", "switches", "labelled")
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Keychain:
    """Keys under one `key_id`, each None (or not in the dict) where it is not held.

    A pytree while it holds no secret. Making a key gives another keychain.

    Attributes:
        identity: binds the `key_id` to the public and the relinearization key, held or not.
        secret: uniform ternary.
        public: over the union and one special prime.
        relinearization: from s^2 to s.
        galois: by galois element g, the key from s to sigma_g^-1(s), or a part of it: see `cut`.
        switches: by the `key_id` of another owner, the key from s to that one's secret.
        labelled: by label, keys over other gadgets, which the scheme makes.
    """

    identity: Identity
    secret: Secret | None = None
    public: PublicKey | None = None
    relinearization: SwitchingKey | None = None
    galois: dict[int, SwitchingKey] = dataclasses.field(default_factory=dict)
    switches: dict[str, SwitchingKey] = dataclasses.field(default_factory=dict)
    labelled: dict[str, SwitchingKey] = dataclasses.field(default_factory=dict)

    def __ren_parts__(self) -> tuple[tuple[Any, ...], Hashable]:
        (public, relinearization, *named), identity = _flatten(self)
        if isinstance(identity, SymbolicIdentity):
            raise ContextError(
                "A function under ren.jit returned a context that is an argument.",
                "Its keys are inputs of the plan, which makes polynomials.",
                "Return ciphertexts alone: the caller has the context.",
            )
        names = public is not None, relinearization is not None, *map(tuple, named)
        halves = [(key.b, key.a) for key in self.by_label().values()]
        return (KeyId(self.key_id, self), *halves), names

    @classmethod
    def __ren_whole__(cls, parts: Sequence[Any], names: Any) -> Keychain:
        (key_id, *halves), (has_public, has_relinearization, *named) = parts, names
        held: Keychain | None = key_id.held
        identity: Any = SymbolicIdentity(key_id.value) if held is None else held.identity
        known = iter([] if held is None else held.by_label().values())
        rest = iter(halves)

        def made(kind: Callable[..., Any]) -> Any:
            b, a = next(rest)
            return kind(b, a, seed=b"" if held is None else next(known).seed)

        public = made(PublicKey) if has_public else None
        relinearization = made(SwitchingKey) if has_relinearization else None
        return cls(
            identity,
            None,
            public,
            relinearization,
            *({name: made(SwitchingKey) for name in held_names} for held_names in named),
        )

    def __repr__(self) -> str:
        return f"<Keychain {self.key_id[:8]}, {self.kind}>"

    @property
    def key_id(self) -> str:
        """32 hexadecimal digits: a hash of the identity."""
        return self.identity.key_id

    @property
    def rank(self) -> int:
        """OWNER with the secret, 1 with evaluation keys, 0 with the public key at most."""
        held = self.relinearization, self.galois, self.switches, self.labelled
        return OWNER if self.secret is not None else int(any(held))

    def by_label(self) -> dict[bytes, PublicKey | SwitchingKey]:
        """The public and the evaluation keys that are held."""
        keys: dict[bytes, PublicKey | SwitchingKey | None] = {
            PUBLIC: self.public,
            RELINEARIZATION: self.relinearization,
            **{galois_label(g): key for g, key in self.galois.items()},
            **{switch_label(to): key for to, key in self.switches.items()},
            **{labelled_label(label): key for label, key in self.labelled.items()},
        }
        return {label: key for label, key in keys.items() if key is not None}

    @property
    def nbytes(self) -> int:
        """Bytes of the public and the evaluation keys in memory."""
        return sum(key.nbytes for key in self.by_label().values())

    @property
    def saved_nbytes(self) -> int:
        """Bytes of these keys when saved: half, and seeds."""
        return sum(key.saved_nbytes for key in self.by_label().values())

    @property
    def kind(self) -> str:
        """Kind of the keys by their use, in words."""
        if self.secret is not None:
            return "owner (holds the secret key)"
        return "public (encrypts)" if self.public is not None else "server (computes)"

    def names(self, name: Callable[[int], str]) -> list[str]:
        """The public and evaluation keys held, by name; never their contents."""
        names = ["public"] if self.public is not None else []
        names += ["relinearization"] if self.relinearization is not None else []
        names += [name(g) for g in self.galois]
        names += [f"switch to {to[:8]}" for to in self.switches]
        names += [f"{len(self.labelled)} for bootstrapping"] if self.labelled else []
        return names

    # ---------------------------------------------------------------- what is needed

    def require_secret(self) -> Secret:
        """The secret key, or MissingKeyError."""
        remedy = "Decrypt, or make keys, with the owner's context."
        return _required(self.secret, "the secret key", remedy)

    def require_public(self) -> PublicKey:
        """The public key, or MissingKeyError."""
        remedy = "Encrypt with the owner's ctx or ctx.public()."
        return _required(self.public, "a key to encrypt with", remedy)

    def require_relinearization(self) -> SwitchingKey:
        """The relinearization key, or MissingKeyError."""
        remedy = "Multiply with the owner's ctx.server()."
        return _required(self.relinearization, "the relinearization key", remedy)

    # ---------------------------------------------------------------- making keys

    def with_galois(
        self, elements: Iterable[int] | Mapping[int, Iterable[int]], params: RlweParameters
    ) -> Keychain:
        """With the keys of these galois elements, those made that are not there.

        Each encrypts s under sigma_g^-1(s), so that the permutation may follow the key product.

        Args:
            elements: each may have the moduli that its key has limbs for at least, by default all.
        """
        gadget = gadget_of(params)
        if not isinstance(elements, Mapping):
            elements = dict.fromkeys(elements, gadget.union)
        missing = {g: set(m) for g, m in elements.items() if self.galois_for(g, m) is None}
        if not missing:
            return self
        secret = self.require_secret()
        made = {}
        with Progress(len(missing), "making rotation keys") as progress:
            for g, moduli in missing.items():
                target = automorphism_of(secret, pow(g, -1, 2 * params.n))
                if g in self.galois:
                    moduli.update(self.galois[g].ring.moduli)
                part, label = gadget.part(moduli), galois_label(g)
                made[g] = _switching_key(secret, secret.poly, target, label, params, part)
                progress.step()
        if len(made) > _MANY:
            trim()
        return dataclasses.replace(self, galois={**self.galois, **made})

    def galois_for(self, galois: int, moduli: Iterable[int]) -> SwitchingKey | None:
        """The key of a galois element, where it is held and has limbs for `moduli`."""
        key = self.galois.get(galois)
        return key if key is not None and reaches(key, moduli) else None

    def cut_to(self, moduli: Mapping[int, Iterable[int]], params: RlweParameters) -> Keychain:
        """With the keys of these galois elements alone, which are held, as parts for moduli."""
        gadget = gadget_of(params)
        some = {g: cut(self.galois[g], gadget, m) for g, m in moduli.items()}
        return dataclasses.replace(self, galois=some)

    def with_switch(self, other: Keychain, params: RlweParameters) -> Keychain:
        """With the key from this secret to that of `other`, made where there is none."""
        if other.key_id in self.switches:
            return self
        secret, target = self.require_secret(), other.require_secret().poly
        made = _switching_key(secret, secret.poly, target, switch_label(other.key_id), params)
        return dataclasses.replace(self, switches={**self.switches, other.key_id: made})

    def with_labelled(self, keys: dict[str, SwitchingKey]) -> Keychain:
        """With more keys over gadgets of the scheme's own."""
        return dataclasses.replace(self, labelled={**self.labelled, **keys})

    def with_keys_of(self, other: Keychain) -> Keychain:
        """With the evaluation keys of `other`, which is under the same secret.

        An owner makes labelled keys itself: nothing here tells whether those of others are its own.
        """
        labelled = {} if self.secret is not None else other.labelled
        larger = {
            g: key
            for g, key in other.galois.items()
            if g not in self.galois or reaches(key, self.galois[g].ring.moduli)
        }
        return dataclasses.replace(
            self,
            relinearization=self.relinearization or other.relinearization,
            galois={**self.galois, **larger},
            switches={**other.switches, **self.switches},
            labelled={**labelled, **self.labelled},
        )

    def sharing(self, other: Keychain) -> Keychain:
        """With the objects of `other` for equal keys, where they are on the same devices."""

        def shared(mine: Any, theirs: Any) -> Any:
            if not mine or not theirs or mine.ring != theirs.ring:
                return mine
            return theirs if _places(mine) == _places(theirs) else mine

        def each(mine: dict[Any, SwitchingKey], theirs: dict[Any, SwitchingKey]) -> Any:
            return {name: shared(key, theirs.get(name)) for name, key in mine.items()}

        return dataclasses.replace(
            self,
            public=shared(self.public, other.public),
            relinearization=shared(self.relinearization, other.relinearization),
            galois=each(self.galois, other.galois),
            switches=each(self.switches, other.switches),
            labelled=each(self.labelled, other.labelled),
        )

    # ---------------------------------------------------------------- what others may have

    def evaluation_only(self) -> Keychain:
        """Relinearization, galois, switching and labelled keys."""
        return dataclasses.replace(
            self,
            secret=None,
            public=None,
            galois=dict(self.galois),
            switches=dict(self.switches),
            labelled=dict(self.labelled),
        )

    def public_only(self) -> Keychain:
        """The public key."""
        return Keychain(self.identity, public=self.require_public())


def new_keychain(params: RlweParameters, entropy: Entropy = fresh_seed) -> Keychain:
    """A fresh secret, drawn from `entropy`, and the two keys that its `key_id` is a hash of."""
    secret = make_secret(gadget_of(params).ring, entropy)
    draws, digest = key_entropy(secret, params.digest, PUBLIC), params.digest
    public = make_public_key(secret, gadget_of(params).public_ring, digest, params.sigma, draws)
    square, s = square_of(secret), secret.poly
    relinearization = _switching_key(secret, square, s, RELINEARIZATION, params)
    return Keychain(identity_of(digest, public, relinearization), secret, public, relinearization)


def _switching_key(
    secret: Secret,
    source: Poly,
    target: Poly,
    label: bytes,
    params: RlweParameters,
    part: Part | None = None,
) -> SwitchingKey:
    factors, draws = gadget_of(params).factors, key_entropy(secret, params.digest, label)
    return make_switching_key(
        source, target, factors, params.digest, label, params.sigma, draws, part
    )


class MissingKey(SwitchingKey):
    """A placeholder for a key that a context lacks: programs with it never run."""


def key_of(gadget: Gadget, poly: Callable[[Spec], Poly]) -> SwitchingKey:
    """A key over a gadget, of polynomials that `poly` makes."""
    b, a = (tuple([poly(Spec(gadget.ring, Domain.NTT)) for _ in gadget.digits]) for _ in "ba")
    return SwitchingKey(b, a, b"")


def unknown(spec: Spec) -> Poly:
    """A polynomial that is a placeholder."""
    return from_node(placeholder(spec))


def missing_key(gadget: Gadget) -> MissingKey:
    """A placeholder for a key over a gadget."""
    made = key_of(gadget, unknown)
    return MissingKey(made.b, made.a, made.seed)


def key_entropy(secret: Secret, params: bytes, label: bytes) -> Entropy:
    """The seeds of the key that `label` names, under the parameters of this digest."""
    return SeedStream(master_of(secret, params), _KEY + label)


def master_of(secret: Secret, params: bytes) -> bytes:
    """The seed of all keys of a secret: as secret as that."""
    return hashlib.sha256(_MASTER + params + secret.coefficients.tobytes()).digest()


def _places(key: PublicKey | SwitchingKey) -> list[Any]:
    return [
        None if is_tracer(p.limbs) else (p.limbs.sharding, p.limbs.committed) for p in key.halves
    ]


def _required(key: Key | None, what: str, remedy: str) -> Key:
    if key is None:
        raise MissingKeyError(
            f"This context does not hold {what}.",
            "ctx.server() computes, ctx.public() encrypts, and the owner's context does "
            "everything.",
            remedy,
        )
    return key


def _flatten(keys: Keychain) -> tuple[tuple[Any, ...], Identity]:
    if keys.secret is not None:
        raise ContextError(
            "A context that holds the secret key was passed as a pytree.",
            "Only keys that may leave the owner travel into compiled or mapped functions.",
            "Pass ctx.server().",
        )
    named = keys.galois, keys.switches, keys.labelled
    return (keys.public, keys.relinearization, *named), keys.identity


def _unflatten(identity: Identity, held: Any) -> Keychain:
    return Keychain(identity, None, *held)


jax.tree_util.register_pytree_node(Keychain, _flatten, _unflatten)
