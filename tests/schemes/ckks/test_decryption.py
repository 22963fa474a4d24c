"""Decryption takes one path: no call that it makes depends on the message."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ren
from ren import Poly
from ren.core.errors import PrecisionError
from ren.poly.realization import known_buffer
from ren.schemes import ckks
from ren.schemes.ckks.encoding import encoder
from ren.schemes.ckks.noise import bounds as noises
from ren.schemes.ckks.noise.range_checks import largest_message


def calls_of(f: Callable[[], Any]) -> list[tuple[str, str, str]]:
    """Each Python and C function that f calls in this thread, in order, by kind, place and name."""
    found: list[tuple[str, str, str]] = []

    def record(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            code = frame.f_code
            found.append((event, f"{code.co_filename}:{frame.f_lineno}", code.co_qualname))
        elif event == "c_call":
            name = getattr(arg, "__qualname__", repr(arg))
            found.append((event, f"{frame.f_code.co_filename}:{frame.f_lineno}", name))

    gc.disable()  # its callbacks come at any time
    sys.setprofile(record)
    try:
        f()
    finally:
        sys.setprofile(None)
        gc.enable()
    return found


def with_message(ctx: ckks.Context, coefficients: list[int], level: int) -> ckks.Ciphertext:
    """An encryption of zero with any coefficients added to it, up to Q/2.

    Its tracked bound is the range of the level.
    """
    x = ctx.encrypt(np.zeros(ctx.slots), level=level)
    told = noises.reaching(x.noise, largest_message(ctx.params, level))
    c0 = (x.polys[0] + Poly(coefficients, x.polys[0].ring).ntt()).realize()
    return ckks.Ciphertext((c0, x.polys[1]), x.level, x.layout, x.key_id, x.params, told)


def messages(ctx: ckks.Context, level: int) -> dict[str, list[int]]:
    """Coefficients of all sizes: small ones, one that is large, and all near Q/2."""
    n, q = ctx.params.n, ctx.params.ring(level).q
    rng = np.random.default_rng(level)
    near = [(-1) ** int(s) * (q // 2 - int(d)) for s, d in rng.integers(1, 1 << 40, (n, 2))]
    scale = 1 << 40
    return {
        "zero": [0] * n,
        "one": [scale] + [0] * (n - 1),
        "2^25": [scale << min(25, q.bit_length() - 43)] + [0] * (n - 1),
        "one large": [1] * (n - 1) + [q // 3],
        "near Q/2": near,
    }


@pytest.mark.parametrize("native", ["auto", False])
@pytest.mark.parametrize("level", [0, 1, 3])
def test_decrypt_makes_the_same_calls_for_every_message(ctx, level, native):
    ciphertexts = {k: with_message(ctx, m, level) for k, m in messages(ctx, level).items()}
    held = Poly([1], ctx.params.ring(0)) + 1
    node = held.node  # kept, so that the map of realized nodes is never empty below
    held.realize()
    with ren.config.update(native=native):
        # Compiled here, by a ciphertext whose types then are the keys of caches.
        ctx.decrypt(with_message(ctx, [7], level))
        made = {k: calls_of(lambda x=x: ctx.slots_of(x)) for k, x in ciphertexts.items()}
        # The others are beyond the tracked bound, which decrypt() reports once it has read them.
        within = ("zero", "one", "2^25")
        whole = {k: calls_of(lambda k=k: ctx.decrypt(ciphertexts[k])) for k in within}
    for runs in (made, whole):
        usual = runs.pop("zero")
        assert any("centered" in name for _, _, name in usual)
        for name, calls in runs.items():
            assert calls == usual, name
    assert known_buffer(node) is held.node


@pytest.mark.parametrize("level", [0, 1, 3])
def test_decrypt_gives_coefficients_near_half_of_the_modulus(ctx, level):
    params = ctx.params
    for coefficients in messages(ctx, level).values():
        x = with_message(ctx, coefficients, level)
        got = ctx.slots_of(x).real
        want = encoder.decode(
            np.array(coefficients, object).astype(np.float64), params.n, x.slots, x.scale
        ).real
        # The noise of a fresh encryption is below 2^10 in a slot.
        assert np.abs(got - want).max() <= 2**-30 + 2**-40 * np.abs(want).max()


@pytest.mark.filterwarnings("ignore::ren.core.errors.MessageBoundWarning")
def test_the_largest_numbers_that_are_added_come_out():
    ctx = ckks.context(depth=40, n=1 << 8, security=None)
    x = ctx.encrypt([1.0, -1.0])
    assert np.allclose((x + 2.0**899).decrypt() / 2.0**899, 1)
    assert np.allclose((x * 2.0**890).decrypt() / 2.0**890, [1, -1])
    with pytest.raises(ckks.MessageBoundError, match="wrap around"):
        x + 2.0**960


# ------------------------------------------------------------------- limbs that others changed

SMALL = {"n": 1 << 10, "security": None}
A, B, C = np.random.default_rng(1).uniform(-1, 1, (3, 100))


@pytest.fixture(scope="module")
def few():
    return ckks.context(depth=2, **SMALL)


@pytest.fixture
def promoted():
    """JAX as users have it: residues times 0.1 are floats."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def swapped(x):
    """The two polynomials of a ciphertext in each other's place."""
    leaves, structure = jax.tree.flatten(x)
    return jax.tree.unflatten(structure, [leaves[1], leaves[0], *leaves[2:]])


def one_limb(x):
    """One residue of c1 is another one."""
    leaves, structure = jax.tree.flatten(x)
    leaves[1] = jnp.asarray(leaves[1]).at[..., 0, 3].set(7)
    return jax.tree.unflatten(structure, leaves)


CHANGES = {
    "step": lambda x: jax.tree.map(lambda p, g: (p - 0.1 * g).astype(p.dtype), x, x),
    "half": lambda x: jax.tree.map(lambda p: (p * 0.5).astype(p.dtype), x),
    "whole": lambda x: jax.tree.map(lambda p: p // 2, x),
    "ones": lambda x: jax.tree.map(jnp.ones_like, x),
    "swapped": swapped,
    "one limb": one_limb,
}
PACKED = {
    "vector": lambda ctx, **level: ctx.encrypt(A, **level),
    "number": lambda ctx, **level: ctx.encrypt(0.5, **level),
    "blocks": lambda ctx, **level: ctx.encrypt(np.resize(A, 700), **level),
    "columns": lambda ctx, **level: ctx.encrypt(np.resize(A, (9, 3)), pack="columns", **level),
    "rows": lambda ctx, **level: ctx.encrypt(np.resize(A, (3, 9)), pack="rows", **level),
    "complex": lambda ctx, **level: ctx.encrypt(A + 1j * B, **level),
}


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("packed", PACKED)
def test_decrypt_raises_where_limbs_were_changed(promoted, few, packed, level):
    for change in CHANGES.values():
        changed = change(PACKED[packed](few, level=level).realize())
        with pytest.raises(PrecisionError, match=r"read numbers up to 2\^.*\n.*outside of Ren's"):
            few.decrypt(changed)


def test_decrypt_raises_for_changed_limbs_from_bytes_and_servers(promoted, few):
    changed = CHANGES["half"](few.encrypt(A))
    again = ckks.Ciphertext.from_bytes(changed.to_bytes())
    square = ren.jit(lambda x: x**2)(again)
    for x in (again, again * again, again.rotate(1) * 0.5 + few.encrypt(B), square):
        with pytest.raises(PrecisionError, match="tracked bound"):
            few.decrypt(x)
    with pytest.raises(PrecisionError, match=r"decrypt_shared\(\) read"):
        few.decrypt_shared(again, few.encrypt(A).estimate, queries=1)
    deep = ckks.context(depth=28, n=1 << 6, security=None)  # the modulus is beyond floats
    with pytest.raises(PrecisionError, match="tracked bound"):
        CHANGES["half"](deep.encrypt([0.5])).decrypt()


def test_decrypt_raises_for_one_changed_row_of_a_batch(promoted, few):
    x = few.encrypt(np.resize(A, (3, 9)), pack="rows")
    with pytest.raises(PrecisionError):
        ckks.stack([*ckks.unstack(x)[:2], CHANGES["half"](ckks.unstack(x)[2])]).decrypt()


def test_sums_of_leaves_are_right_or_found(few):
    x, y, z = map(few.encrypt, (A, B, C))
    two = jax.tree.map(lambda p, q: p + q, x, y)
    assert np.abs(few.decrypt(two) - (A + B)).max() <= two.estimate.error_bound
    three = jax.tree.map(lambda p, q, r: p + q + r, x, y, z) * z
    try:
        assert np.abs(few.decrypt(three) - (A + B + C) * C).max() <= three.estimate.error_bound
    except PrecisionError as error:
        assert "outside of Ren's operations" in str(error)


def test_decrypt_gives_numbers_beyond_a_false_promise(few):
    """The tracked bound is then the user's. What is read is right."""
    a = np.array([300.0, -2.0])
    for level in (0, 2):
        x = few.encrypt(a, level=level)
        assert np.abs(few.decrypt(x.within(1.0)) - a).max() < 1e-3
        assert np.abs(few.decrypt(x[1:].within(2.0**-6)) - a[1:]).max() < 1e-3
    tiny = ckks.context(depth=1, slots=1, **SMALL)  # its one number fills the range
    for value in (500.0, 350.0 + 350.0j):
        x = tiny.encrypt([value], level=0)
        assert abs(tiny.decrypt(x.within(1.0))[0] - value) < 1e-3
    leftovers = few.encrypt(np.r_[1e-6, np.full(99, 500.0)])[:1].within(2e-6)
    assert abs(few.decrypt(leftovers)[0] - 1e-6) < 1e-6


def test_decrypt_names_a_false_promise_whose_numbers_wrap_around(few):
    x = few.encrypt(np.full(few.slots, 20.0), level=0).within(1.0)
    with pytest.raises(PrecisionError, match="a bound that you stated is false"):
        few.decrypt(few.encrypt(np.full(few.slots, 3e4)).within(1.0))
    assert np.abs(few.decrypt(x) - 20).max() < 1e-3


@pytest.mark.filterwarnings("ignore::ren.core.errors.MessageBoundWarning")
def test_decrypt_gives_what_a_reported_bound_may_have_made(promoted, few):
    x = few.encrypt(A, level=0) * 2**12  # which warned that it may wrap around
    assert few.decrypt(x).shape == A.shape
    unknown = few.encrypt(A) * 2.0**70
    assert few.decrypt(CHANGES["half"](unknown)).shape == A.shape
