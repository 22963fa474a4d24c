"""Decryption takes one path: no call that it makes depends on the message."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ren
from ren import Poly
from ren.poly.realization import known_buffer
from ren.schemes import ckks
from ren.schemes.ckks.encoding import encoder


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
    """An encryption of zero with any coefficients added to it, up to Q/2."""
    x = ctx.encrypt(np.zeros(ctx.slots), level=level)
    c0 = (x.polys[0] + Poly(coefficients, x.polys[0].ring).ntt()).realize()
    return ckks.Ciphertext((c0, x.polys[1]), x.level, x.layout, x.key_id, x.params, x.noise)


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
        made = {k: calls_of(lambda x=x: ctx.decrypt(x)) for k, x in ciphertexts.items()}
    usual = made.pop("zero")
    assert any("centered" in name for _, _, name in usual)
    for name, calls in made.items():
        assert calls == usual, name
    assert known_buffer(node) is held.node


@pytest.mark.parametrize("level", [0, 1, 3])
def test_decrypt_gives_coefficients_near_half_of_the_modulus(ctx, level):
    params = ctx.params
    for coefficients in messages(ctx, level).values():
        x = with_message(ctx, coefficients, level)
        got = ctx.decrypt(x)
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
