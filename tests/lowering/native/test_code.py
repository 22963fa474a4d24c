"""Whole plans as one native call, against the NumPy interpreter, bit for bit."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import ren
from ren import Domain, Poly, RingSpec
from ren.lowering.backends.native import limb_program as rows
from ren.lowering.backends.native.bytecode import Form, NativeProgram, lowered
from ren.lowering.backends.xla import jax_executable
from ren.lowering.runtime.runner import graph_runner, interpret_plan
from ren.schemes import ckks
from ren.schemes.rlwe.keys import make_secret, make_switching_key
from ren.schemes.rlwe.keyswitch import Gadget, key_switch
from tests.lowering.native.calls import assert_one_call, form_of, native_program_of, ring
from tests.lowering.native.calls import compiler as compiler  # a fixture of all tests here
from tests.lowering.plans import arrays, plan, poly
from tests.lowering.test_memory import program_polys
from tests.programs import generate
from tests.rings import primes


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    n = (4, 16, 1024, 2048)[seed % 4]
    p = plan(*program_polys(generate(seed, n, 1 + seed % 4, 4 + 2 * seed)))
    if p.inputs:
        assert_one_call(p)
    else:
        assert form_of(p) is None


@pytest.mark.parametrize("n", [64, 1024, 4096, 1 << 15])
def test_products_that_are_rescaled(n):
    r = ring(n, 4)
    x, y, z = (poly(i, r) for i in range(3))
    assert_one_call(plan((x * y + z).rescale(r.moduli[:2]), (x - y).ntt(), -(z * 5 - 7)))


@pytest.mark.parametrize("modulus", [(1 << 30) - 35, (1 << 61) - 1])
def test_integers_are_lifted_and_multiplied_in_one_phase(modulus):
    r = ring(1024, 4)
    values = np.random.default_rng(0).integers(-modulus // 2 + 1, modulus // 2, (2, 1024))
    values[0, :3] = modulus // 2, -(modulus // 2), 0
    small = [Poly(v, RingSpec(1024, modulus)) for v in values]
    keys = poly(0, r, Domain.NTT), poly(1, r, Domain.NTT)
    total = sum(c.to_ring(r).ntt() * k for c, k in zip(small, keys, strict=True))
    p = plan(total)
    (result,) = assert_one_call(p)
    want = sum(Poly(v, r).ntt() * k for v, k in zip(values, keys, strict=True))
    assert np.array_equal(result, want.limbs)
    (step,) = graph_runner(p).steps
    found = native_program_of(step, arrays(p))
    assert isinstance(found, NativeProgram) and (found.phases, found.kept) == (1, 0)
    assert found.tasks == r.limbs


def test_outputs_that_are_each_other_parts_and_constants():
    r = ring(1024, 3)
    x, y = poly(0, r, Domain.NTT), poly(1, r)
    part = RingSpec(1024, r.moduli[1:])
    s = x * x
    p = plan(s, s + 0, s.to_ring(part), y.ntt(), y.ntt().to_ring(part), poly(3, r) * 0 + s)
    assert_one_call(p)


@pytest.mark.parametrize("k", [1, 3, -2])
def test_rotations(k):
    r = ring(2048, 3)
    x = poly(0, r, Domain.NTT)
    assert_one_call(plan(x.rotate(k) + x, x.rotate(k).rotate(k)))


@pytest.mark.parametrize("n", [8, 1024])
def test_coefficients_that_move_and_change_their_sign(n):
    x = poly(0, ring(n, 2))
    assert_one_call(plan(x.automorphism(3), x.automorphism(-1) * 2 + 1, x - 5))


@pytest.mark.parametrize("n", [4, 32, 2048])
@pytest.mark.parametrize(
    "moduli", [(2**61 - 1,), (2**30 + 3, 7), (2**30 - 35, 3**38, 11, 2**60 - 93)]
)
def test_moduli_of_two_limbs(n, moduli):
    r = RingSpec(n, moduli)
    x, y = Poly.uniform(r, seed=b"x", batch=(3,)), Poly.uniform(r, seed=b"y")
    ends = Poly(([0, 1, r.q - 1, r.q // 2, r.q // 2 + 1, r.q - 2] * n)[:n], r)
    whole = ends.to_ring(RingSpec(n, (*moduli, 101)))
    assert_one_call(plan(x * y - y * 3, -x + y.automorphism(5), ends * ends - ends, whole * 7))


def test_what_the_code_has_no_name_for_is_left_to_xla(monkeypatch):
    monkeypatch.delitem(rows.STEPS, "NEG")
    lowered.cache_clear()
    p = plan(-poly(0, ring(1024, 2)))
    assert form_of(p) is None
    (got,) = graph_runner(p)(arrays(p))
    np.testing.assert_array_equal(np.asarray(got), interpret_plan(p, arrays(p))[0])
    lowered.cache_clear()


@pytest.mark.parametrize(("n", "count"), [(1024, 20), (1 << 14, 19), (1 << 16, 5)])
def test_long_sums_of_products_are_split(n, count):
    r = ring(n, 2)
    xs = [poly(i, r, Domain.NTT) for i in range(2 * count)]
    total = xs[0] * xs[1]
    for a, b in zip(xs[2::2], xs[3::2], strict=True):
        total = total + a * b
    assert_one_call(plan(total, total.intt()))


@pytest.mark.parametrize("n", [256, 4096])
def test_key_switches(n):
    *moduli, s0, s1 = primes(n)[-7:]
    gadget = Gadget(n, (tuple(moduli[:2]), tuple(moduli[2:4]), tuple(moduli[4:])), (s0, s1))
    secret = make_secret(gadget.ring)
    key = make_switching_key(
        secret.poly, secret.poly.rotate(1), gadget.factors, bytes(32), b"test", 3.2
    )
    c, d = (
        poly(0, RingSpec(n, tuple(moduli)), Domain.NTT),
        poly(1, RingSpec(n, tuple(moduli[:3])), Domain.NTT),
    )
    assert_one_call(plan(*key_switch(c, key, gadget), *key_switch(d, key, gadget)))


def test_extreme_residues():
    r = ring(4096, 3)
    q = np.array(r.moduli, np.uint32)[:, None]
    extreme = np.broadcast_to(q - 1, (3, 4096)).copy()
    extreme[:, ::2] = 0
    x = ren.Poly.from_limbs(ren.Poly.zeros(r).limbs.at[:].set(extreme), r, Domain.COEFF)
    assert_one_call(plan((x * x).rescale(r.moduli[:2]), -x, x - x * x))


def test_numbers_that_are_known_at_each_call():
    r = ring(1024, 2)
    x = poly(0, r, Domain.NTT)

    def f(x, k, m):
        return x * k + m

    made = ren.jit(f, tier="graph")
    for k, m in ((3, -5), (1 << 70, 0)):
        assert ren.equal(made(x, k, m), f(x, k, m))


def test_rings_share_the_call_and_not_the_code():
    jax_executable.clear_kernels()
    found = []
    for moduli in (primes(1024)[-3:], primes(1024)[-6:-3]):
        r = RingSpec(1024, tuple(moduli))
        x, y = poly(0, r), poly(1, r)
        p = plan((x * y).rescale(r.moduli[:2]))
        assert_one_call(p)
        (step,) = graph_runner(p).steps
        found.append(native_program_of(step, arrays(p)))
    one, two = found
    assert isinstance(one, NativeProgram) and isinstance(two, NativeProgram)
    assert one.form == two.form and one.tables[-1] != two.tables[-1]
    keys = [key for key in jax_executable._graphs if isinstance(key, tuple)]
    assert [type(form) for form, _ in keys] == [Form]


def test_code_is_not_kept_beyond_its_plan():
    x = poly(0, ring(4096, 2))
    x.ntt().realize()
    before = set(jax_executable._tables)
    for k in range(3, 8):
        (x.ntt() * k).realize()
    assert {table.kind for table, _ in before} >= {"rows"}
    assert not [table.kind for table, _ in set(jax_executable._tables) - before]


def test_threads_run_one_plan_at_once():
    r = ring(4096, 4)
    x, y = poly(0, r), poly(1, r)
    p = plan((x * y).rescale(r.moduli[:2]))
    run, inputs = graph_runner(p), arrays(p)
    want = interpret_plan(p, inputs)[0]
    wrong: list[int] = []

    def work():
        for i in range(20):
            if not np.array_equal(np.asarray(run(inputs)[0]), want):
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.long
def test_ciphertexts_are_the_same_without_native_kernels():
    ctx = ckks.context(params=ckks.Parameters.for_depth(2, n=1 << 12, security=None))
    x, y = ctx.encrypt(np.linspace(-1, 1, 100)), ctx.encrypt(np.linspace(0, 2, 100))

    def f(x, y):
        turned = sum((x.rotate(i) * 0.5 for i in (1, 2, 3)), start=x * y)
        return turned, (x * y).rescale() * x, x + y - 0.5

    f(x, y)  # makes the keys
    made = ren.jit(f, tier="auto")(x, y)
    with ren.config.update(native=False):
        want = ren.jit(f, tier="units")(x, y)
    for got, expected in zip(made, want, strict=True):
        for a, b in zip(got.polys, expected.polys, strict=True):
            assert ren.equal(a, b)


def test_the_first_call_of_a_large_plan_is_one_call():
    x, y = poly(0, ring(4096, 2)), poly(1, ring(4096, 2))
    made = ren.jit(lambda x, y: x * y + 1)
    made(x, y)
    assert made.plans[0].telemetry.tier == "graph"
    with ren.config.update(native=False):
        made = ren.jit(lambda x, y: x * y + 1)
        made(x, y)
        assert made.plans[0].telemetry.tier == "units"
