"""A `key_id` is bound to keys: attacks with keys, secrets and ledgers under a foreign `key_id`."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
import threading
import weakref
from collections.abc import Iterator
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import ren
from ren.schemes import ckks
from ren.schemes.ckks.encoding.serialization import read_context
from ren.schemes.ckks.noise import decryption_budget as ledger
from ren.schemes.ckks.noise.decryption_budget import ledger_name
from ren.schemes.rlwe import active_context as active
from ren.schemes.rlwe.identity import Identity
from ren.schemes.rlwe.keychain import Keychain, key_entropy, master_of
from ren.schemes.rlwe.keys import SwitchingKey
from ren.schemes.rlwe.ownership import foreign_key
from tests.schemes.ckks.frames import context_bytes, header_of, with_header
from tests.schemes.ckks.keys import keys_of

BAR = 2.0**-20


def error(values, want) -> float:
    return float(np.abs(values - want).max())


@pytest.fixture
def victim(small_params) -> ckks.Context:
    return ckks.context(params=small_params, rotations=[1])


@pytest.fixture
def attacker(small_params) -> ckks.Context:
    return ckks.context(params=small_params, rotations=[1, 2])


def read_own(data: bytes) -> ckks.Context:
    return ckks.Context.from_bytes(data, include_secret=True)


@pytest.fixture
def own_process(monkeypatch) -> SimpleNamespace:
    """From here on this process knows no context and no ledger of before, but those in here."""
    known = SimpleNamespace(live=weakref.WeakKeyDictionary(), ledgers={})
    monkeypatch.setattr(active, "_live", known.live)
    monkeypatch.setattr(active, "_by_id", weakref.WeakValueDictionary())
    monkeypatch.setattr(active, "_owners", weakref.WeakValueDictionary())
    monkeypatch.setattr(active, "_recent", weakref.WeakValueDictionary())
    monkeypatch.setattr(ledger, "_ledgers", known.ledgers)
    return known


def forgeries(victim: ckks.Context, attacker: ckks.Context) -> Iterator[tuple[str, Keychain]]:
    """Keychains under the victim's `key_id` with the attacker's secret: as good as they get.

    The attacker knows the victim's public, relinearization and galois keys, and no secret.
    """
    theirs, mine = keys_of(victim.public()), keys_of(attacker)
    known = dataclasses.replace(
        keys_of(victim.server()), public=theirs.public, secret=mine.require_secret()
    )
    yield "the victim's keys beside a foreign secret", known
    yield "foreign keys under the identity", dataclasses.replace(mine, identity=theirs.identity)
    yield "no public key", dataclasses.replace(known, public=None)
    yield "no relinearization key", dataclasses.replace(known, relinearization=None)
    yield "no keys", Keychain(theirs.identity, mine.secret)


# ------------------------------------------------------------------- the identity


def test_key_id_is_a_hash_of_the_public_and_the_relinearization_key(ctx):
    keys, label = keys_of(ctx), b"ren/ckks/key_id/1/"

    def hashed(kind: bytes, key, halves) -> bytes:
        limbs = b"".join(np.asarray(b.limbs, "<u4").tobytes() for b in halves)
        return hashlib.sha256(label + kind + b"/" + key.seed + limbs).digest()

    hashes = hashed(b"public", keys.public, [keys.public.b]) + hashed(
        b"relinearization", keys.relinearization, keys.relinearization.b
    )
    named = hashlib.sha256(label + b"identity/" + ctx.params.digest + hashes).digest()
    assert ctx.key_id == named[:16].hex()
    for context in (ctx, ctx.server(), ctx.public(), ctx.server(relinearization=False)):
        assert context.key_id == ctx.key_id and keys_of(context).identity.tobytes() == hashes
    assert header_of(ctx.public().to_bytes())["identity"] == hashes.hex()


def test_keychain_identity_is_static_in_pytrees(ctx):
    leaves, tree = jax.tree.flatten(ctx.server())
    moved = jax.tree.unflatten(tree, leaves)
    assert keys_of(moved).identity == keys_of(ctx).identity and moved.key_id == ctx.key_id
    assert all(leaf.dtype == np.uint32 for leaf in leaves)
    assert hash(tree) == hash(jax.tree.structure(ctx.server()))


@pytest.mark.parametrize("name", ["key_id", "identity"])
def test_from_bytes_refuses_a_key_id_of_other_keys(victim, attacker, name):
    for made in (attacker.server(), attacker.public(), attacker.server([1], False)):
        forged = with_header(made.to_bytes(), **{name: header_of(victim.server().to_bytes())[name]})
        with pytest.raises(ckks.SerializationError, match="not those of its key_id"):
            ckks.Context.from_bytes(forged)


def test_from_bytes_refuses_foreign_keys_under_a_whole_identity(victim, attacker):
    identity, mine = keys_of(victim).identity, keys_of(attacker)
    for forged in (
        Keychain(identity, public=mine.public),
        Keychain(identity, relinearization=mine.relinearization),
    ):
        with pytest.raises(ckks.SerializationError, match="not those of its key_id"):
            ckks.Context.from_bytes(context_bytes(victim.params, forged))


# ------------------------------------------------------------------- attacks on an owner


def test_from_bytes_refuses_a_foreign_secret_under_the_key_id(victim, attacker):
    x = victim.encrypt([1.0, 2.0])
    blob = attacker.to_bytes(include_secret=True)
    forged = {"header": with_header(blob, key_id=victim.key_id)} | {
        name: context_bytes(victim.params, keys) for name, keys in forgeries(victim, attacker)
    }
    before = dict(active._live)
    for data in forged.values():
        with pytest.raises(ckks.SerializationError, match="key_id"):
            read_own(data)
    assert dict(active._live) == before
    assert error(x.decrypt(), [1, 2]) < BAR and active.live_context(victim.key_id) is victim


def test_resume_keeps_a_foreign_ledger_from_the_owner(victim, attacker, own_process):
    """The key of the noise would be the attacker's, who could subtract it."""
    y = attacker.encrypt([0.5])
    attacker.decrypt_shared(y, y.estimate, queries=1)
    chosen = ledger.ledger_of(keys_of(attacker).require_secret()).saved
    forged = [context_bytes(victim.params, keys) for _, keys in forgeries(victim, attacker)]
    assert all(header_of(data)["shared"]["key"] == chosen.key.hex() for data in forged)
    own_process.ledgers.clear()
    for data in forged:
        with pytest.raises(ckks.SerializationError):
            read_own(data)
    assert not own_process.ledgers
    read_own(attacker.to_bytes(include_secret=True))
    x = victim.encrypt([0.5])
    victim.decrypt_shared(x, x.estimate, queries=1)
    own = ledger.ledger_of(keys_of(victim).require_secret()).saved
    assert own.key != chosen.key and len(own.entries) == 1


def test_from_bytes_parses_no_secret_unless_asked(victim, own_process, tmp_path):
    blob = victim.to_bytes(include_secret=True)
    victim.save(tmp_path / "keys", include_secret=True)
    own_process.ledgers.clear()
    for read, given in (
        (ckks.Context.from_bytes, blob),
        (ckks.load_server, blob),
        (ckks.Context.load, tmp_path / "keys"),
    ):
        with pytest.raises(ckks.SerializationError, match=r"hold a secret key[\s\S]*own backup"):
            read(given)
    assert not own_process.live and not own_process.ledgers
    assert read_own(blob).rank == 2
    for made in (victim.server(), victim.public()):
        assert read_own(made.to_bytes()).to_bytes() == made.to_bytes()


def changed(key: SwitchingKey, digit: int) -> SwitchingKey:
    """The key with one residue of one digit, in the last limb, one higher."""
    limbs = np.array(key.b[digit].limbs)
    limbs[-1, 5] = (limbs[-1, 5] + 1) % key.b[digit].ring.moduli[-1]
    poly = ren.Poly.from_limbs(limbs, key.b[digit].ring, key.b[digit].domain)
    return dataclasses.replace(key, b=(*key.b[:digit], poly, *key.b[digit + 1 :]))


def test_from_bytes_checks_all_digits_of_an_owner_against_its_secret(victim, attacker):
    mine, theirs = keys_of(victim), keys_of(attacker)
    (g,) = mine.galois
    assert foreign_key(mine.secret, mine, victim.params) is None
    last = len(mine.galois[g].b) - 1
    for forged in (theirs.galois[g], changed(mine.galois[g], 0), changed(mine.galois[g], last)):
        keys = dataclasses.replace(mine, galois={g: forged})
        with pytest.raises(ckks.SerializationError, match=f"galois/{g} is not of its secret"):
            read_own(context_bytes(victim.params, keys))
    swapped = dataclasses.replace(mine, galois={next(h for h in theirs.galois if h != g): forged})
    assert foreign_key(mine.secret, swapped, victim.params)


# ------------------------------------------------------------------- a server with two clients


def test_load_server_keeps_two_clients_apart(victim, attacker, own_process):
    """B claims A's `key_id`, with keys of its own, while A's keys live."""
    server, x = victim.server(), victim.encrypt([1.0, 2.0])
    data = server.to_bytes()
    del server
    a = ckks.load_server(data)
    with pytest.raises(ckks.SerializationError, match="not those of its key_id"):
        ckks.load_server(with_header(attacker.server().to_bytes(), key_id=victim.key_id))
    copied = dataclasses.replace(keys_of(a), galois=keys_of(attacker).galois)
    for keys in (copied, dataclasses.replace(copied, relinearization=None)):
        with pytest.raises(ckks.ContextError, match=r"galois/\d+ [\s\S]*one owner"):
            ckks.load_server(context_bytes(victim.params, keys))
    b = ckks.load_server(attacker.server().to_bytes())
    y = attacker.encrypt([5.0, 7.0])
    assert error(victim.decrypt(x * x + x.rotate(1)), [3, 4]) < BAR  # no `with`: found by key_id
    assert error(attacker.decrypt(y * y + y.rotate(1)), [32, 49]) < BAR
    assert active.live_context(victim.key_id) is a and active.live_context(attacker.key_id) is b


def test_from_bytes_compares_contents_beyond_seeds(victim, own_process):
    server = ckks.load_server(victim.server().to_bytes())
    keys = keys_of(server)
    (g,) = keys.galois
    forged = dataclasses.replace(keys, galois={g: changed(keys.galois[g], 0)})
    with pytest.raises(ckks.ContextError, match=f"galois/{g}"):
        ckks.load_server(context_bytes(victim.params, forged))
    again = ckks.load_server(victim.server().to_bytes())  # a copy is welcome
    assert pickle.loads(pickle.dumps(again)).key_id == server.key_id


def test_from_bytes_compares_switching_keys(small_params, victim, attacker, own_process):
    other = ckks.context(params=small_params)
    server = ckks.load_server(victim.switching_key(other).server().to_bytes())
    foreign = keys_of(attacker.switching_key(other)).switches
    forged = dataclasses.replace(keys_of(server), switches=foreign)
    with pytest.raises(ckks.ContextError, match=f"switch/{other.key_id}"):
        ckks.load_server(context_bytes(victim.params, forged))


def test_adopt_refuses_another_identity_under_one_key_id(victim, attacker):
    """What takes 2^128 hashes: another identity with the same `key_id`."""
    forged = keys_of(attacker).identity
    found = Keychain(Identity(forged.params, forged.public, forged.relinearization))
    object.__setattr__(found.identity, "key_id", victim.key_id)  # of a frozen class, cached
    with pytest.raises(ckks.ContextError, match="other keys"):
        victim.adopt(ckks.Context(victim.params, found))


def test_adopt_refuses_forged_keys(victim, attacker):
    server, (g,) = victim.server(), keys_of(victim).galois
    with_own = dataclasses.replace(
        keys_of(victim).evaluation_only(), galois=keys_of(attacker).galois
    )
    forged = ckks.Context(victim.params, with_own)
    with pytest.raises(ckks.ContextError, match=f"galois/{g} "):
        server.adopt(forged)
    unheld = {h: key for h, key in with_own.galois.items() if h != g}
    unnoticed = ckks.Context(victim.params, dataclasses.replace(with_own, galois=unheld))
    with pytest.raises(ckks.ContextError, match="not of the secret key held here"):
        victim.adopt(unnoticed)
    assert list(keys_of(victim).galois) == list(keys_of(server).galois) == [g]
    assert victim.adopt(server) is victim and server.adopt(victim) is server


def test_admission_is_atomic(victim, attacker, own_process):
    """Of two contexts that conflict one is read, however threads interleave."""
    honest = victim.server().to_bytes()
    keys = dataclasses.replace(keys_of(victim).evaluation_only(), galois=keys_of(attacker).galois)
    forged = context_bytes(victim.params, keys)
    for _ in range(10):
        own_process.live.clear()
        start, made = threading.Barrier(2), []

        def load(data: bytes, start=start, made=made) -> None:
            start.wait()
            try:
                made.append(ckks.load_server(data))
            except ckks.ContextError as refused:
                made.append(refused)

        threads = [threading.Thread(target=load, args=(data,)) for data in (honest, forged)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kinds = sorted(type(m).__name__ for m in made)
        assert kinds == ["Context", "ContextError"] and len(own_process.live) == 1


def test_live_context_finds_the_owner_while_others_come_and_go(victim):
    stop, failures = threading.Event(), []

    def come_and_go() -> None:
        try:
            while not stop.is_set():
                victim.server()
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=come_and_go) for _ in range(3)]
    for thread in threads:
        thread.start()
    found = [active.live_context(victim.key_id) for _ in range(2000)]
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures and all(context is victim for context in found)


# ------------------------------------------------------------------- ciphertexts


def test_decrypt_raises_for_foreign_data_under_the_key_id(victim, attacker, small_params):
    """It authenticates nothing: with equal parameters it parses, and the slots are noise."""
    data = attacker.encrypt([1.0, 2.0]).to_bytes()
    x = ckks.Ciphertext.from_bytes(with_header(data, key_id=victim.key_id))
    assert error(victim.slots_of(x)[:2], [1, 2]) > 1
    with pytest.raises(ckks.PrecisionError, match="or under another key"):
        victim.decrypt(x)
    other = ckks.context(depth=1, n=1 << 10, security=None).encrypt([1.0]).to_bytes()
    with pytest.raises(ckks.SerializationError, match="other parameters"):
        ckks.Ciphertext.from_bytes(with_header(other, key_id=victim.key_id))


# ------------------------------------------------------------------- derived keys


def test_rotation_keys_are_equal_in_copies_of_an_owner(victim, attacker):
    copy = read_own(victim.to_bytes(include_secret=True))
    first = victim.rotation_keys([5, 7]).conjugation_key().switching_key(attacker)
    second = copy.switching_key(attacker).conjugation_key().rotation_keys([7, 5])
    assert first.server().to_bytes() == second.server().to_bytes()
    first.server().adopt(second.server())


def test_key_entropy_differs_for_each_key_and_is_not_stored(victim, attacker):
    victim.rotation_keys([5]).conjugation_key().switching_key(attacker)
    keys, secret = keys_of(victim), keys_of(victim).require_secret()
    held = [keys.public, keys.relinearization, *keys.galois.values(), *keys.switches.values()]
    assert len({key.seed for key in held}) == len(held) == 6
    other = attacker.params.digest[::-1]
    streams = [
        key_entropy(secret, params, label)
        for params in (victim.params.digest, other)
        for label in (b"public", b"relinearization", b"galois/5", b"galois/25")
    ]
    seeds = [draw() for draw in streams for _ in range(5)]
    assert len(set(seeds)) == len(seeds)
    assert keys.public.seed == seeds[0]  # the first is public, the others give the noise
    stored = victim.server().to_bytes() + victim.public().to_bytes()
    secrets = {master_of(secret, victim.params.digest), ledger_name(secret), *seeds[1:5]}
    assert not any(s in stored or s.hex().encode() in stored for s in secrets)


def test_new_keychain_differs_for_each_secret(victim, attacker):
    blobs = [c.server([1]).to_bytes() + c.public().to_bytes() for c in (victim, attacker)]
    assert header_of(blobs[0])["galois"] != header_of(blobs[1])["galois"]
    assert header_of(blobs[0])["relinearization"] != header_of(blobs[1])["relinearization"]
    assert header_of(blobs[0])["identity"] != header_of(blobs[1])["identity"]


def test_context_made_inside_a_capture_has_keys(small_params):
    made = []

    @ren.jit
    def f(x: ckks.Ciphertext) -> ckks.Ciphertext:
        made.append(ckks.context(params=small_params))
        return x + 1

    f(ckks.context(params=small_params).encrypt([1.0]))
    y = made[-1].encrypt([3.0])
    assert error((y * y + y.rotate(1)).decrypt(), [9]) < BAR


def test_read_context_registers_nothing(victim, own_process):
    params, keys, shared = read_context(victim.to_bytes(include_secret=True), True)
    assert params == victim.params and keys.rank == 2 and shared is not None
    assert not own_process.live
