"""Rotation keys for a few levels: parts of whole keys, with the bits of whole keys."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import ren
from ren.core.errors import OperandError, ParameterError
from ren.schemes import ckks
from ren.schemes.rlwe.keyswitch import gadget_of
from ren.schemes.rlwe.ownership import foreign_key
from tests.schemes.ckks.frames import header_of, with_header
from tests.schemes.ckks.keys import keys_of

PARAMS = ckks.Parameters.for_depth(5, n=1 << 8, security=None)
VALUES = np.linspace(-1, 1, PARAMS.slots)
BAR = 1e-4


@pytest.fixture(scope="module")
def owner() -> ckks.Context:
    return ckks.context(params=PARAMS)


def new_owner(**options: Any) -> ckks.Context:
    return ckks.context(params=PARAMS, **options)


def bits(x: ckks.Ciphertext) -> list[np.ndarray]:
    return [np.asarray(p.limbs) for p in x.realize().polys]


def is_same(a: ckks.Ciphertext, b: ckks.Ciphertext) -> bool:
    return all(map(np.array_equal, bits(a), bits(b)))


# ------------------------------------------------------------------- what a part is


@pytest.mark.parametrize("level", range(PARAMS.depth + 1))
def test_a_part_has_limbs_of_the_whole_key_and_its_results_the_same_bits(level):
    owner = new_owner(rotations={3: level})
    (part,) = keys_of(owner.server()).galois.values()
    assert foreign_key(keys_of(owner).require_secret(), keys_of(owner), PARAMS) is None
    xs = [owner.encrypt(VALUES, low) for low in range(level + 1)]
    cut = [x.rotate(3).realize() for x in xs]
    (whole,) = keys_of(owner.rotation_keys(3).server()).galois.values()
    assert part.seed == whole.seed and whole.ring == gadget_of(PARAMS).ring
    assert part.nbytes == PARAMS.key_nbytes(level) and whole.nbytes == PARAMS.key_nbytes()
    moduli = part.ring.moduli
    rows = [whole.ring.moduli.index(m) for m in moduli]
    held = [j for j, digit in enumerate(PARAMS.digits) if set(digit) & set(moduli)]
    assert {m for low in range(level + 1) for m in PARAMS.ring(low).moduli} <= set(moduli)
    for name in "ba":
        wholes = [getattr(whole, name)[j] for j in held]
        for p, q in zip(getattr(part, name), wholes, strict=True):
            assert np.array_equal(p.limbs, np.asarray(q.limbs)[rows])
    for x, y in zip(xs, cut, strict=True):
        assert is_same(y, x.rotate(3)) and y.level == x.level
        assert np.abs(owner.decrypt(y) - np.roll(VALUES, -3)).max() < BAR


def test_keys_for_fewer_levels_are_smaller():
    params = ckks.Parameters.for_depth(7)
    sizes = [params.key_nbytes(level) for level in range(params.depth + 1)]
    assert sizes == sorted(sizes) and sizes[1] < 0.5 * sizes[-1]
    low, high = (new_owner(rotations={1: level}).server().to_bytes() for level in (0, 5))
    assert len(low) < len(high) - 0.45 * (PARAMS.key_nbytes() - PARAMS.key_nbytes(0))


# ------------------------------------------------------------------- who has which


def test_an_owner_makes_the_rest_where_it_is_used_and_a_server_says_what_it_has(owner):
    maker = new_owner(rotations={1: 2}).conjugation_key(1)
    assert "rotation by 1 up to level 2" in str(maker) and "conjugation up to level 1" in str(maker)
    server, x = maker.server(), maker.encrypt(VALUES)
    with server:
        assert is_same(x.drop_to(2).rotate(1), x.drop_to(2).rotate(1))
        with pytest.raises(ckks.MissingKeyError) as raised:
            x.drop_to(3).rotate(1)
        with pytest.raises(
            ckks.MissingKeyError, match=r"for conjugation, .* there is conjugation up to level 1"
        ):
            x.conj()
    assert "rotation by 1" in str(raised.value) and "rotation by 1 up to level 2" in str(
        raised.value
    )
    assert "ctx.rotation_keys([1])" in str(raised.value)
    y = x.rotate(1)
    assert "up to level" not in str(maker.rotation_keys([1]).server(rotations=[1]))
    server.adopt(maker.server())
    with server:
        assert is_same(x.rotate(1), y)


def test_levels_only_grow():
    maker = new_owner(rotations={1: 3})
    maker.rotation_keys({1: 1, 2: 4}).rotation_keys(2, level=0)
    assert {k.nbytes for k in keys_of(maker).galois.values()} == {
        PARAMS.key_nbytes(3), PARAMS.key_nbytes(4),
    }  # fmt: skip
    slots = PARAMS.slots
    maker.rotation_keys({5: 1, 5 - slots: 2, 0: 3, slots: 1})
    assert "rotation by 5 up to level 2" in str(maker) and "rotation by 0" not in str(maker)


def test_a_server_is_sent_parts(owner):
    maker = new_owner(rotations=[1, 2])
    server = maker.server(rotations={1: 1, 2: 3, 7: 0})
    assert keys_of(server).nbytes - keys_of(server).relinearization.nbytes == sum(
        map(PARAMS.key_nbytes, (1, 3, 0))
    )
    assert str(maker).count("up to level") == 1  # what it had is whole as before
    kept = maker.server(rotations=[2, 7])
    assert "rotation by 7 up to level 0" in str(kept) and "rotation by 2 up" not in str(kept)
    read = ckks.load_server(server.to_bytes())
    assert str(read) == str(server) and read.to_bytes() == server.to_bytes()
    x = maker.encrypt(VALUES, 3)
    with read:
        y = x.rotate(2).realize()
    assert is_same(y, x.rotate(2))


@pytest.mark.parametrize("first", [1, None])
def test_parts_and_whole_keys_join(first):
    maker = new_owner()
    smaller, larger = maker.server(rotations={1: 1}), maker.server(rotations={1: 3, 2: 0})
    servers = [ckks.load_server(s.to_bytes()) for s in (smaller, larger)]
    a, b = servers[:: 1 if first else -1]
    text = str(a.adopt(b))
    assert "rotation by 1 up to level 3" in text and "rotation by 2 up to level 0" in text


def test_a_part_of_another_key_is_not_taken():
    maker, other = new_owner(rotations={1: 1}), new_owner(rotations={1: 3})
    forged = other.server(relinearization=False)
    object.__setattr__(keys_of(forged), "identity", keys_of(maker).identity)
    for holder in (maker, maker.server()):
        with pytest.raises(ckks.ContextError, match="galois/"):
            holder.adopt(forged)
        assert "up to level 1" in str(holder)


# ------------------------------------------------------------------- plans


def smooth(x: ckks.Ciphertext) -> ckks.Ciphertext:
    y = x * x
    return y + y.rotate(1) * 0.5 + (y * y).rotate(2)


smoothed = ren.jit(smooth)


def wanted(v: np.ndarray, beyond: float | None = None) -> np.ndarray:
    """Results of `smooth` on values that fill the slots, or with zeros beyond them."""
    v = v if beyond is None else np.append(v, [beyond] * 2)
    result = v**2 + np.roll(v**2, -1) * 0.5 + np.roll(v**4, -2)
    return result if beyond is None else result[:-2]


def test_a_plan_tells_the_levels_of_keys_and_its_context_has_them():
    plan = ren.plan(lambda x: smoothed(x) + x.conj(), ckks.spec(VALUES.size), n=1 << 13)
    levels = plan.rotation_levels
    assert plan.rotations == (1, 2) == tuple(levels) and plan.depth > levels[1] > levels[2]
    assert plan.conjugation_level == plan.depth and hash(plan)
    ctx = ckks.context(plan)
    held = keys_of(ctx.server())
    public = keys_of(ctx.public()).nbytes
    assert held.nbytes == plan.key_bytes and public > 0
    assert plan.key_bytes < plan.keys * plan.params.key_nbytes()
    server = ckks.load_server(ctx.server().to_bytes())
    x = ctx.encrypt(VALUES)
    with server:
        y = smoothed(x) + x.conj()
    assert np.abs(ctx.decrypt(y) - wanted(VALUES, 0) - VALUES).max() < BAR


def test_a_planned_function_is_not_captured_again():
    f = ren.jit(lambda x: smoothed(x) - 1)
    plan = ren.plan(f, ckks.spec(VALUES.size))
    assert len(f.plans) == 1
    ctx = ckks.context(plan)
    y = f(ctx.encrypt(VALUES))
    assert len(f.plans) == 1 and np.abs(y.decrypt() - wanted(VALUES, 0) + 1).max() < BAR


def test_tenants_with_parts_and_with_whole_keys_share_plans():
    levels = [{1: 4, 2: 3}, None, {1: 5, 2: 4}, {1: 4, 2: 3}]
    owners = [new_owner(rotations=[1, 2] if k is None else k) for k in levels]
    tenants = [(o, o.server()) for o in owners]
    for order in ([0, 1, 2, 3], [1, 0, 3, 2]):
        f = ren.jit(smooth)
        for turn in range(3):
            for k in order:
                own, server = tenants[k]
                with server:
                    y = f(own.encrypt(VALUES))
                assert np.abs(own.decrypt(y) - wanted(VALUES)).max() < BAR
            # Keys with more limbs than a plan reads fit it; those with fewer have their own.
            assert len(f.plans) <= (1 if order[0] == 0 else 3), (order, turn)


def test_a_plan_with_keys_that_grow_between_calls():
    own = new_owner(rotations={1: 4, 2: 3})
    f = ren.jit(smooth)
    before = f(own.encrypt(VALUES)).decrypt()
    own.rotation_keys([1, 2])
    after = f(own.encrypt(VALUES)).decrypt()
    assert len(f.plans) == 1 and np.abs(before - after).max() < BAR


def test_a_capture_that_makes_a_key_larger():
    own = new_owner(rotations={1: 1})
    f = ren.jit(lambda x: x.drop_to(1).rotate(1) + x.rotate(1))
    for _ in range(2):
        y = f(own.encrypt(VALUES))
        assert np.abs(y.decrypt() - 2 * np.roll(VALUES, -1)).max() < BAR


@pytest.mark.long
def test_parts_inside_of_transformations_and_loops(owner):
    own = new_owner(rotations={1: 4})
    server, x = own.server(), own.encrypt(VALUES, 4)

    def turned(server: ckks.Context, x: ckks.Ciphertext) -> ckks.Ciphertext:
        with server:
            return x.rotate(1)

    assert is_same(jax.jit(turned)(server, x), x.rotate(1))
    with server:
        f = ren.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c.rotate(1), x))
        assert np.abs(own.decrypt(f(x)) - np.roll(VALUES, -3)).max() < BAR
        batch = own.encrypt(np.stack([VALUES, -VALUES]), 4, pack="rows")
        g = jax.vmap(lambda c: c.rotate(1))
        assert np.abs(own.decrypt(g(batch)) - np.roll([VALUES, -VALUES], -1, 1)).max() < BAR


@pytest.mark.long
@pytest.mark.property
@pytest.mark.parametrize("seed", range(6))
def test_a_context_of_a_plan_computes_its_function(seed):
    rng = np.random.default_rng(seed)
    turns = rng.integers(-3, 4, 6).tolist()
    length = int(rng.integers(3, 12)) if seed % 2 else PARAMS.slots

    def f(x: Any) -> Any:
        for k in turns:
            turned = np.roll(x, -k, -1) if isinstance(x, np.ndarray) else x.roll(-k)
            x = x * x - turned * 0.5 if k % 2 else x + turned * 0.25
        return x

    plan = ren.plan(f, ckks.spec(length))
    ctx, v = ckks.context(plan), np.linspace(-0.5, 0.5, length)
    with ckks.load_server(ctx.server().to_bytes()):
        y = f(ctx.encrypt(v))
    assert np.abs(ctx.decrypt(y) - f(v)).max() < BAR


def test_a_map_rotates_at_its_own_level():
    own = new_owner()
    rng = np.random.default_rng(0)
    matrix, v = rng.uniform(-0.2, 0.2, (20, 20)), rng.uniform(-1, 1, 20)
    m = ckks.linear(matrix, own, level=2)
    server = own.server(rotations=dict.fromkeys(m.rotations, m.level))
    with server:
        for level in (1, 2, 5):
            y = m @ own.encrypt(v, level)
            assert np.abs(own.decrypt(y) - matrix @ v).max() < BAR
            assert y.level == min(level, 2) - 1


# ------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda c: c.rotation_keys(1, level=6), "level"),
        (lambda c: c.rotation_keys({1: -1}), "level"),
        (lambda c: c.rotation_keys({1: 2}, level=2), "twice|mapping"),
        (lambda c: c.rotation_keys({1: "2"}), "level"),
        (lambda c: c.rotation_keys({1.5: 2}), "integer|step"),
        (lambda c: c.conjugation_key(level=17), "level"),
        (lambda c: c.server(rotations={1: 99}), "level"),
        (lambda c: ckks.context(params=PARAMS, rotations={1: 99}), "level"),
    ],
)
def test_levels_that_are_none(owner, call, told):
    before = str(owner)
    with pytest.raises((ParameterError, OperandError), match=told):
        call(owner)
    assert str(owner) == before


@pytest.mark.parametrize(
    "moduli",
    ["none", [], [1], [2**70], "reversed", "twice", {"a": 1}, [True], "specials", "another"],
)
def test_forged_lists_of_moduli(moduli):
    maker = new_owner(rotations={1: 2})
    data = maker.server().to_bytes()
    ((g, seed, held),) = header_of(data)["galois"]
    given = {
        "none": None,
        "reversed": held[::-1],
        "twice": [*held, held[0]],
        "specials": [*held, PARAMS.specials[0]],
        "another": list(PARAMS.moduli_to(3)),
    }
    item = [g, seed, given[moduli] if isinstance(moduli, str) else moduli]
    with pytest.raises(ckks.SerializationError):
        ckks.load_server(with_header(data, galois=[item]))
    with pytest.raises(ckks.SerializationError, match="galois"):
        ckks.load_server(with_header(data, galois=[[g, seed, held, held]]))
    public = maker.public().to_bytes()
    with pytest.raises(ckks.SerializationError):
        ckks.load_context(with_header(public, switches=[["0" * 32, seed, held]]))


@pytest.mark.parametrize("keys", ["a", float("nan"), -1])
def test_counts_of_maps_are_numbers(owner, keys):
    for wish in ({"keys": keys}, {"memory": keys}):
        with pytest.raises(ParameterError, match=f"{next(iter(wish))}="):
            ckks.linear(np.eye(4), owner, **wish)
    with pytest.raises(ParameterError, match="level=0"):
        ckks.linear(np.eye(4), owner, level=0)
    with pytest.raises(ckks.ContextError, match="str as the context"):
        ckks.linear(np.eye(4), "a")  # type: ignore[arg-type]


def test_maps_at_a_level_are_planned():
    m = np.eye(4) * 0.5
    plan = ren.plan(lambda x: ckks.linear(m, level=1) @ x + x.rotate(1), ckks.spec(4))
    assert plan.depth == 1 and plan.rotation_levels[1] == 1
    for level in (-1, "a"):  # no depth has such a level: the first trial tells
        with pytest.raises(ParameterError, match="level is"):
            ren.plan(lambda x, level=level: ckks.linear(m, level=level) @ x, ckks.spec(4))
    plan.rotation_levels[1] = 99
    assert plan.rotation_levels[1] == 1
