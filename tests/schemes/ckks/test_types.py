"""Types that checkers see in programs of users; pyright reads this file, and pytest runs it."""

from __future__ import annotations

import copy
import pickle
from typing import assert_type

import numpy as np

import ren
from ren.core.text_table import Shown
from ren.schemes import ckks
from ren.schemes.ckks import Ciphertext


@ren.jit
def scaled(u: Ciphertext, k: int) -> Ciphertext:
    return u * k


@ren.jit(static_argnames="k")
def turned(u: Ciphertext, k: int = 1) -> Ciphertext:
    return u.rotate(k)


class Model:
    @ren.jit
    def double(self, u: Ciphertext) -> Ciphertext:
        return u * 2


def plain(u: Ciphertext) -> Ciphertext:
    return np.ones(2) * u


def test_arrays_and_numbers_beside_ciphertexts_give_ciphertexts(ctx: ckks.Context) -> None:
    x, w = ctx.encrypt([1.0, 2.0]), np.ones(2)
    made = [
        assert_type(w * x, Ciphertext), assert_type(1 - w * x, Ciphertext),
        assert_type(np.eye(2) @ x, Ciphertext), assert_type(w - x, Ciphertext),
        assert_type(2.0 * x, Ciphertext), assert_type(np.float64(2) * x, Ciphertext),
        assert_type(x.reshape((2, 1)), Ciphertext), assert_type(plain(x), Ciphertext),
    ]  # fmt: skip
    assert all(isinstance(y, Ciphertext) for y in made)


def test_jitted_functions_keep_their_types(ctx: ckks.Context) -> None:
    x = ctx.encrypt([1.0, 2.0])
    pruned, anew = ren.jit(plain, prune=True), ren.djit(plain, show_graph=False)
    made = [
        assert_type(scaled(x, 3), Ciphertext), assert_type(turned(x, k=2), Ciphertext),
        assert_type(Model().double(x), Ciphertext), assert_type(pruned(x), Ciphertext),
        assert_type(anew(x), Ciphertext),
    ]  # fmt: skip
    assert all(isinstance(y, Ciphertext) for y in made)
    assert scaled.plans and isinstance(Model.double, type(scaled))


def test_text_that_notebooks_show_is_copied_and_pickled() -> None:
    shown = Shown("text", "<b>text</b>")
    for made in (copy.copy(shown), copy.deepcopy(shown), pickle.loads(pickle.dumps(shown))):
        assert (made._repr_html_(), str(made)) == ("<b>text</b>", "text")
