"""The examples of the JIT guide and of the internals page, as they are written there."""

from __future__ import annotations

import pytest

from tests import oracle

A, B = [1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1]
Q = 17 * 97


def expected(a: list[int], b: list[int]) -> list[int]:
    less_one = oracle.add(a, oracle.constant(-1, 8, Q), Q)
    return oracle.mul(oracle.add(a, b, Q), less_one, Q)


def test_the_minimal_example_of_the_jit_guide() -> None:
    import ren
    from ren.poly import Poly
    from ren.ring import RingSpec

    ring = RingSpec(n=8, moduli=(17, 97))

    @ren.jit
    def step(x: Poly, y: Poly) -> Poly:
        return (x + y) * (x - 1)

    out1 = step(
        Poly([1, 2, 3, 4, 5, 6, 7, 8], ring),
        Poly([8, 7, 6, 5, 4, 3, 2, 1], ring),
    )
    out2 = step(
        Poly([2, 2, 2, 2, 2, 2, 2, 2], ring),
        Poly([1, 1, 1, 1, 1, 1, 1, 1], ring),
    )

    assert out1.tolist() == expected(A, B)
    assert out2.tolist() == expected([2] * 8, [1] * 8)
    info = step.cache_info()
    assert (info.hits, info.misses, info.plans, info.max_plans, info.evictions) == (1, 1, 1, 16, 0)


def test_the_ciphertext_example_of_the_jit_guide() -> None:
    import ren
    from ren.schemes.ckks import Ciphertext

    @ren.jit
    def encrypted_step(x: Ciphertext) -> Ciphertext:
        return x + 1

    from ren.schemes import ckks

    ctx = ckks.context(depth=1)
    with ctx:
        for value in (0.25, -0.75):
            result = encrypted_step(ctx.encrypt([value, 0.0]))
            assert result.decrypt() == pytest.approx([value + 1, 1.0], abs=2**-20)
    assert encrypted_step.cache_info().hits == 1


def test_changed_constants_are_captured_anew() -> None:
    import ren
    from ren.poly import Poly
    from ren.ring import RingSpec

    @ren.jit
    def add_const(x: Poly, c: Poly) -> Poly:
        return x + c

    x = Poly(A, RingSpec(n=8, moduli=(17, 97)))
    seven = add_const(x, Poly.const(7, x.ring))  # captures one plan
    eight = add_const(x, Poly.const(8, x.ring))  # captures another plan
    assert seven.tolist() == [8, *A[1:]]
    assert eight.tolist() == [9, *A[1:]]
    assert add_const.cache_info().plans == 2


def test_the_example_of_the_internals_page(capsys: pytest.CaptureFixture[str]) -> None:
    from ren.poly import Poly
    from ren.ring import RingSpec

    ring = RingSpec(n=8, moduli=(17, 97))
    a = Poly([1, 2, 3, 4, 5, 6, 7, 8], ring)
    b = Poly([8, 7, 6, 5, 4, 3, 2, 1], ring)

    expr = (a + b) * (a - 1)
    print(expr.node)
    expr.realize()

    assert "MUL" in capsys.readouterr().out.upper()
    assert expr.tolist() == expected(A, B)
