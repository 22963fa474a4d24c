"""The toy schemes on general rings: they compute what they say, and say that they are insecure."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from examples import bfv, kem
from ren import Poly
from tests import oracle


@pytest.mark.long
def test_bfv_computes_on_encrypted_polynomials() -> None:
    """Sums, products and a product of products, modulo t and X^n + 1."""
    rng, n, t = np.random.default_rng(1), bfv.RING.n, bfv.T
    key = bfv.Key()
    clear = [[int(c) for c in rng.integers(0, t, n)] for _ in range(3)]
    x, y, z = (key.encrypt(Poly(m, bfv.RING)) for m in clear)
    assert key.decrypt(x) == clear[0]
    assert key.decrypt(bfv.add(x, y)) == oracle.add(clear[0], clear[1], t)
    product = bfv.multiply(x, y, key.relinearization)
    want = oracle.mul(clear[0], clear[1], t)
    assert key.decrypt(product) == want
    again = bfv.multiply(product, z, key.relinearization)
    assert key.decrypt(again) == oracle.mul(want, clear[2], t)


def test_bfv_has_no_use_for_another_key() -> None:
    x = bfv.Key().encrypt(Poly([1, 2, 3], bfv.RING))
    assert bfv.Key().decrypt(x)[:3] != [1, 2, 3]


def test_both_sides_of_the_kem_share_a_secret() -> None:
    public, secret = kem.generate()
    shared = set()
    for _ in range(10):
        sent, theirs = kem.encapsulate(public)
        assert kem.decapsulate(secret, sent) == theirs
        shared.add(theirs)
    assert len(shared) == 10
    (u, v), theirs = kem.encapsulate(public)
    assert kem.decapsulate(secret, (u, v + (1 << kem.BITS_V - 1))) != theirs
    assert kem.decapsulate(kem.generate()[1], (u, v)) != theirs


@pytest.mark.parametrize(("example", "line"), [
    (bfv, "product [5, 17, 29, 21, 0]"), (kem, "both sides have the same 32 bytes: True"),
])  # fmt: skip
def test_they_say_what_they_are(
    example: ModuleType, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    example.main()
    printed = capsys.readouterr().out
    assert printed.startswith("INSECURE toy") and line in printed
    assert (example.__doc__ or "").startswith("INSECURE toy")
    assert "s=" not in repr(bfv.Key())
