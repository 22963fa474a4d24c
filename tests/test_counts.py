"""What programs cost, counted: hoisting is sharing, views are free, kernels are compiled once."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

import ren
from ren import Domain, Poly, RingSpec
from ren.core import make
from ren.core import op as ops
from ren.lowering.backends.xla import jax_executable
from ren.lowering.inspect.explain import explain
from ren.lowering.plan.cost import cost_of
from ren.lowering.plan.plan import KernelUnit, Plan, ViewUnit
from ren.lowering.runtime.planning import plan_of
from ren.schemes import ckks
from ren.schemes.rlwe.keyswitch import gadget_of
from tests.rings import primes

N = 64
ROTATIONS = tuple(range(1, 9))
CASES = [(1, 1), (2, 2), (3, 2), (4, 3)]  # digits, limbs in each; as many special primes


def plan(*polys: Poly) -> Plan:
    return plan_of(make(ops.SINK, [p.node for p in polys]))


def cost_of_kernels(p: Plan, op: str) -> Counter[int]:
    """How many kernels of `op` there are, by the limbs that they make."""
    instrs = (i for u in p.units if isinstance(u, KernelUnit) for i in u.kernel.program.instrs)
    return Counter(i.limbs for i in instrs if i.op == op)


def random_poly(ring: RingSpec, seed: int) -> Poly:
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, q, (1, ring.n)) for q in ring.moduli]
    return Poly.from_limbs(np.concatenate(rows).astype(np.uint32), ring, Domain.NTT)


# ------------------------------------------------------------------------- one ModUp, many ModDowns


def hoisted_share(digits: int) -> Fraction:
    """(d + 16) / (8 (d + 2)): eight rotations that share their ModUp, over eight that do not.

    Over L + k limbs a ModUp takes d (L + k) transforms, with the L of its INTT and without the L
    limbs that the digits keep; the two ModDowns of a rotation take 2 (L + k).
    """
    return Fraction(digits + 16, 8 * (digits + 2))


class RawSwitch:
    """A key switch written with Poly alone: c to two polynomials, and the rotation after it."""

    def __init__(self, digits: int, limbs: int) -> None:
        pool = primes(N)[-(digits + 1) * limbs :]
        self.ring = RingSpec(N, pool[: digits * limbs])
        self.wide = RingSpec(N, pool)
        moduli = self.ring.moduli
        self.digits = [moduli[i : i + limbs] for i in range(0, len(moduli), limbs)]
        self.c0, self.c1 = random_poly(self.ring, 1), random_poly(self.ring, 2)

    def key(self, k: int) -> Sequence[tuple[Poly, Poly]]:
        return [
            (random_poly(self.wide, 100 * k + 2 * j), random_poly(self.wide, 100 * k + 2 * j + 1))
            for j in range(len(self.digits))
        ]

    def rotation(self, k: int) -> tuple[Poly, Poly]:
        lifted = [self.c1.mod_up(digit, self.wide) for digit in self.digits]
        b = sum((x * key[0] for x, key in zip(lifted[1:], self.key(k)[1:], strict=True)),
                start=lifted[0] * self.key(k)[0][0])  # fmt: skip
        a = sum((x * key[1] for x, key in zip(lifted[1:], self.key(k)[1:], strict=True)),
                start=lifted[0] * self.key(k)[0][1])  # fmt: skip
        return (self.c0 + b.mod_down(self.ring)).rotate(k), a.mod_down(self.ring).rotate(k)


@pytest.mark.parametrize(("digits", "limbs"), CASES)
def test_eight_raw_rotations_share_one_mod_up(digits, limbs):
    switch = RawSwitch(digits, limbs)
    pairs = [switch.rotation(k) for k in ROTATIONS]
    apart = sum(cost_of(plan(*pair)).limb_ntts for pair in pairs)
    together = plan(*(p for pair in pairs for p in pair))
    wide = switch.wide.limbs
    assert apart == 8 * (digits + 2) * wide
    assert cost_of(together).limb_ntts == (digits + 16) * wide
    assert Fraction(cost_of(together).limb_ntts, apart) == hoisted_share(digits)
    check_shared_mod_up(together, switch.ring.limbs, limbs, digits, special=limbs)


def check_shared_mod_up(p: Plan, limbs: int, digit: int, digits: int, special: int) -> None:
    """One INTT of the whole polynomial, a conversion a digit; 16 ModDowns with one of each."""
    wide = limbs + special
    inverse = Counter({limbs: 1}) + Counter({special: 16})
    forward = Counter({wide - digit: digits}) + Counter({limbs: 16})
    assert cost_of_kernels(p, "INTT") == inverse
    assert cost_of_kernels(p, "NTT") == forward
    assert cost_of_kernels(p, "CONVERT") == forward


def test_four_digits_take_42_percent():
    assert hoisted_share(4) == Fraction(20, 48)
    assert round(float(hoisted_share(4)), 2) == 0.42


@pytest.fixture(scope="module")
def context() -> ckks.Context:
    """n = 2^13, depth 3, 128-bit secure, several digits, with the keys of eight rotations."""
    return ckks.context(depth=3, n=1 << 13).rotation_keys(ROTATIONS)


@pytest.fixture(scope="module")
def ciphertext(context) -> ckks.Ciphertext:
    """At the top level, realized: its encryption is no part of what is counted."""
    return ren.realize(context.encrypt(np.linspace(-1, 1, context.slots)))


def digits_of(x: ckks.Ciphertext) -> int:
    present = [set(d) & set(x.polys[1].ring.moduli) for d in gadget_of(x.params).digits]
    return sum(map(bool, present))


@pytest.mark.long
def test_eight_rotations_of_a_ciphertext_share_one_mod_up(ciphertext):
    x, special = ciphertext, len(gadget_of(ciphertext.params).specials)
    limbs, digits = x.polys[1].ring.limbs, digits_of(ciphertext)
    pairs = [x.rotate(k).polys for k in ROTATIONS]
    apart = sum(cost_of(plan(*pair)).limb_ntts for pair in pairs)
    together = plan(*(p for pair in pairs for p in pair))
    assert digits > 1
    assert apart == 8 * (digits + 2) * (limbs + special)
    assert cost_of(together).limb_ntts == (digits + 16) * (limbs + special)
    assert Fraction(cost_of(together).limb_ntts, apart) == hoisted_share(digits)
    assert cost_of_kernels(together, "INTT") == {limbs: 1, special: 16}
    assert cost_of_kernels(together, "CONVERT").total() == digits + 16


def test_rotations_under_jit_share_it_too(ciphertext):
    every = ren.jit(lambda x: tuple(x.rotate(k) for k in ROTATIONS))
    one = ren.jit(lambda x: x.rotate(1))
    every(ciphertext)
    one(ciphertext)
    together, apart = every.plans[0].cost, one.plans[0].cost
    share = Fraction(together.limb_ntts, 8 * apart.limb_ntts)
    assert share == hoisted_share(digits_of(ciphertext))


def test_one_more_rotation_is_two_more_mod_downs(ciphertext):
    """The permutation comes after the product with the key, so it leaves the ModUp alone."""
    limbs = ciphertext.polys[1].ring.limbs + len(gadget_of(ciphertext.params).specials)
    costs = [
        cost_of(plan(*(p for k in ROTATIONS[:count] for p in ciphertext.rotate(k).polys))).limb_ntts
        for count in range(1, 5)
    ]
    assert [b - a for a, b in itertools.pairwise(costs)] == [2 * limbs] * 3


# ----------------------------------------------------------------------------------- views, kernels


RING = RingSpec(N, primes(N)[-4:])


@pytest.mark.parametrize("start", range(3))
def test_a_view_that_feeds_elementwise_work_is_no_kernel(start):
    sub = RING.with_moduli(RING.moduli[start : start + 2])
    x, y = random_poly(RING, 1), random_poly(sub, 2)
    assert cost_of(plan(x.to_ring(sub) + y)).kernels == 1
    assert cost_of(plan(x.to_ring(sub).rotate(3) + y)).kernels == 1
    alone = plan(x.to_ring(sub))
    assert cost_of(alone).kernels == 0
    assert [type(u) for u in alone.units] == [ViewUnit]
    assert "VIEW of limbs" in explain(alone)


def test_a_second_plan_of_the_same_kernels_compiles_none():
    """Other moduli, constants, keys and rotations: tables are arguments of the kernels."""
    first, second = RawSwitch(2, 2), RawSwitch(2, 2)
    ren.realize(*first.rotation(1))
    before = jax_executable.compiled_count()
    ren.realize(*second.rotation(5))
    assert jax_executable.compiled_count() == before
    ren.realize(*(p for k in ROTATIONS for p in second.rotation(k)))
    assert jax_executable.compiled_count() == before


def test_a_ciphertext_of_the_same_level_compiles_nothing_new(context):
    x, y = (context.encrypt(np.full(context.slots, v)) for v in (0.25, 0.5))
    x.rotate(1).decrypt()
    before = jax_executable.compiled_count()
    y.rotate(3).decrypt()  # another key, another permutation
    assert jax_executable.compiled_count() == before
