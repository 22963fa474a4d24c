"""Public noise: it depends on nothing encrypted but a bound, and on no clear operand's value."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import ren
from ren.schemes import ckks
from ren.schemes.ckks.noise import bounds as noise
from ren.schemes.ckks.noise.places import place_of
from ren.schemes.ckks.noise.readable import known

SOURCE = Path(noise.__file__).read_text(encoding="utf-8")
PLACES = Path(noise.__file__).with_name("places.py").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def owner():
    return ckks.context(depth=2, n=1 << 10, security=None)


def noise_bytes(data: bytes) -> bytes:
    """The serialized noise: the last array before the checksum."""
    return data[-32 - 4 * noise.WIDTH : -32]


@pytest.mark.long
@pytest.mark.parametrize("is_public", [False, True], ids=["secret key", "public key"])
def test_fresh_noise_has_one_distribution_for_any_two_messages(owner, is_public):
    """Two chosen messages under one bound: 1,000 encryptions each, in places by serial number."""
    ctx = owner.public() if is_public else owner
    messages = [np.array([0.3, 0.7]), np.array([0.6, -0.9])]
    start, seen = next(noise.serials) + 1, [Counter(), Counter()]
    for i in range(1_000):
        for which in (0, 1) if i % 2 else (1, 0):
            seen[which][noise_bytes(ctx.encrypt(messages[which]).to_bytes())] += 1
    expected = [Counter(), Counter()]
    for i in range(1_000):  # by serials alone
        for j, which in enumerate((0, 1) if i % 2 else (1, 0)):
            expected[which][place_of(start + 2 * i + j)] += 1
    for found, places in zip(seen, expected, strict=True):
        assert sorted(found.values()) == sorted(places.values())
    both = [{np.frombuffer(b, "<f4")[0] for b in found} for found in seen]
    assert both == [{1.0}, {1.0}]
    assert {bytes(sorted(b)) for b in seen[0]} == {bytes(sorted(b)) for b in seen[1]}


def test_fresh_noise_of_one_serial_is_that_of_any_message(owner):
    params = owner.params
    draw = np.random.default_rng(0)
    given = [draw.uniform(-1, 1, k) for k in (2, 9, 512)] + [np.zeros(3), np.ones(5)]
    made = [noise.fresh(v, params, 2.0**40, 1e-9, serial=7, bound=1.0) for v in given]
    assert all(np.array_equal(made[0], other) for other in made)


@pytest.mark.parametrize(
    "operation",
    [
        lambda x, v: x + v,
        lambda x, v: x - v,
        lambda x, v: v - x,
        lambda x, v: x * v,
        lambda x, v: x * v + v,
        lambda x, v: (x * v).rotate(1) + x * v,
    ],
)
def test_clear_operands_tell_a_power_of_two(owner, operation):
    """The noise of x with a private operand is that of x with any other of its binade."""
    x = owner.encrypt([0.5, 0.25], bound=1)
    pairs = [
        (3.1, 3.9), (5, 7), (np.array([2.5, -1.0]), np.array([0.001, 3.75])),
        ([0.3, 0.2], [0.26, -0.4]), (0.3 + 0.1j, 0.45), (np.float32(1.5), np.float32(1.25)),
        (owner.encode([1.5, 1.0]), owner.encode([1.9, 0.0])),
    ]  # fmt: skip
    for a, b in pairs:
        left, right = operation(x, a), operation(x, b)
        if left.level == right.level:
            assert np.array_equal(left.noise, right.noise)
    with pytest.raises(AssertionError):
        assert np.array_equal(operation(x, 3.9).noise, operation(x, 4.1).noise)


@pytest.mark.parametrize(
    "operation",
    [
        lambda x, t, v: ckks.where(t, v, 0.0),
        lambda x, t, v: ckks.where(t, v, -v),
        lambda x, t, v: ckks.where(t, x, v),
        lambda x, t, v: np.where(t, v, x),
        lambda x, t, v: ren.jit(lambda u, k: ckks.where(u, k, 0))(t, v),
        lambda x, t, v: ckks.math.max(x, v, degree=7),
        lambda x, t, v: ckks.math.min(v, x, degree=7),
        lambda x, t, v: np.minimum(x, v),
        lambda x, t, v: ckks.math.greater(x, v, degree=7),
        lambda x, t, v: ckks.math.less(x, v, degree=7),
        lambda x, t, v: ckks.math.equal(v, x, degree=7),
        lambda x, t, v: ckks.math.greater_equal(x, v, degree=7),
    ],
)
def test_numbers_that_are_compared_or_chosen_tell_a_power_of_two(operation):
    ctx = ckks.context(depth=9, n=1 << 6, security=None, bound=1.0)
    x, t = ctx.encrypt([0.1, 0.2]), ctx.encrypt([True, False])
    with ckks.intervals((-1, 1), precision=2, gap=0.5):
        found = [known(operation(x, t, v).noise) for v in (0.6, 0.75, 0.9)]
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_stated_bounds_stand_in_for_powers_of_two(owner):
    x = owner.encrypt([0.5, 0.25], bound=1)
    p, q = owner.encode([2.6, 1.0], bound=2.75), owner.encode([0.1, 0.2], bound=2.75)
    assert np.array_equal((x * p).noise, (x * q).noise)
    assert (x + p).estimate.message_bound == 3.75
    with pytest.raises(ckks.ParameterError, match="bound=2 was stated"):
        owner.encode([2.6], bound=2)


def test_matrices_tell_powers_of_two(owner):
    x = owner.encrypt(np.full(4, 0.5), bound=1)
    draw = np.random.default_rng(1)
    made = []
    for _ in range(2):
        m = draw.uniform(0.51, 0.99, (4, 4))
        made.append(m @ x)
        made.append(ren.jit(lambda x, w: x.dot(w))(x, m[0]))
    assert np.array_equal(made[0].noise, made[2].noise)
    assert np.array_equal(made[1].noise, made[3].noise)


def test_contexts_with_a_bound_tell_the_same_of_all_data():
    ctx = ckks.context(depth=1, n=1 << 10, security=None, bound=8.0)
    assert {ctx.encrypt([v]).estimate.message_bound for v in (0.0, 1.0, 7.9, -8.0)} == {8.0}
    with pytest.raises(ckks.ParameterError, match="bound=8 was stated"):
        ctx.encrypt([8.1])
    assert ctx.public().encrypt([0.1]).estimate.message_bound == 8


def test_places_follow_from_no_values():
    """Nothing is hashed, and a place is computed from a serial number or occupied places."""
    tree = ast.parse(SOURCE + PLACES)
    imported = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not imported & {"zlib", "hashlib", "hmac", "binascii", "random", "secrets"}
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    for function in functions:
        names = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
        if names & {"place_of", "next_place", "next_of_one", "_WEIGHTS"}:
            takes_values = {a.arg for a in function.args.args} & {"values", "value", "z"}
            assert not takes_values or function.name == "fresh"
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    made = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "place_of"]
    assert [ast.unparse(c.args[0]) for c in made] == ["serial"]


def test_noise_in_bytes_pickles_and_pytrees_is_public(owner):
    import jax

    x = owner.encrypt([0.5, 0.25])
    leaves, treedef = jax.tree.flatten(x + 3.25)
    assert "3.25" not in str(treedef)  # the number that stands beyond the length stays here
    assert b"3.25" not in (x + 3.25).to_bytes()
    assert leaves[-1].dtype == np.float32


def test_errors_on_values_tell_a_power_of_two() -> None:
    """Their texts go to logs: two values below one power of two have one text."""
    params = ckks.Parameters.for_depth(1, n=1 << 6, security=None)
    bounded, free = ckks.context(params=params, bound=1.0), ckks.context(params=params)
    for call, values in (
        (bounded.encrypt, (40000.5, 65000.1)),
        (bounded.public().encrypt, (40000.5, 65000.1)),
        (lambda v: free.encode(v, bound=1.0), (40000.5, 65000.1)),
        (free.encrypt, (4e299, 6e299)),
        (free.encode, (4e299, 6e299)),
    ):
        texts = set()
        for value in values:
            with pytest.raises(ckks.ParameterError) as raised:
                call([0.5, -value])
            texts.add((raised.value.given, raised.value.needed, raised.value.do))
        assert len(texts) == 1
