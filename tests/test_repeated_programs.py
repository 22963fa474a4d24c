"""Programs are planned once by structure, whoever asks: repeated expressions, and `ren.jit`.

Their values are compared with the oracle in `tests/properties/test_compositions.py`, which runs
each program on many moduli and operands.
"""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import weakref

import jax
import numpy as np
import pytest

import ren
from ren import Poly, RingSpec
from ren.core.errors import DeviceError, DonatedBufferError
from ren.lowering.backends.native.backend import NO_GAIN
from ren.lowering.runtime import open_constants, planning
from ren.lowering.runtime.native_calls import native_calls
from ren.schemes import ckks
from tests import oracle
from tests.rings import primes

RING = RingSpec(16, primes(16)[-3:])
LARGE = RingSpec(4096, primes(4096)[-3:])


def random_poly(seed: int, ring: RingSpec = RING, batch: tuple[int, ...] = ()) -> Poly:
    values = np.random.default_rng(seed).integers(0, 2**62, (*batch, ring.n))
    return (Poly(values, ring) + 0).realize()


@pytest.fixture
def plans(monkeypatch) -> list[int]:
    """Grows by one with each program that is planned."""
    count: list[int] = []
    source_of = planning.source_of

    def counted(sink):
        count.append(1)
        return source_of(sink)

    monkeypatch.setattr(planning, "source_of", counted)
    return count


@pytest.mark.parametrize("ring", [RING, LARGE], ids=["kernels", "native"])
def test_a_repeated_expression_is_planned_once(ring, plans):
    for seed in range(3):
        x, y = random_poly(seed, ring), random_poly(seed + 50, ring)
        plans.clear()
        got = (x * y + 3).intt().rotate(1).tolist()
        assert len(plans) == (seed == 0)
        expected = oracle.mul(x.tolist(), y.tolist(), ring.q)
        expected[0] = (expected[0] + 3) % ring.q
        assert got == oracle.automorphism(expected, 5, ring.q)


@pytest.mark.usefixtures("through_xla")
@pytest.mark.parametrize("terms", [2, 3, 5])
def test_sums_that_run_often_become_one_executable(terms, monkeypatch):
    monkeypatch.setattr(planning, "OFTEN", 3)
    for seed in range(5):
        polys = [random_poly(10 * seed + i, LARGE) for i in range(terms)]
        sums = [a + b * k for k, (a, b) in enumerate(itertools.pairwise(polys), 1)]
        ren.realize([*sums, -polys[0]])
        numbers = np.array([p.tolist() for p in polys], object)
        for k, total in enumerate(sums, 1):
            assert total.tolist() == ((numbers[k - 1] + k * numbers[k]) % LARGE.q).tolist()
    found = planning.kept_programs.values()
    often = [p for p in found if p.count >= 3 and len(p.source.sink.src) > 1]
    steps = {len(run.steps) for run in often[-1].runs.values()}
    is_cheap = native_calls(often[-1].source) is NO_GAIN  # else native code is switched off
    assert steps == {1} if is_cheap else steps == {len(often[-1].plan.units)}


def test_a_function_under_jit_shares_the_plan(plans):
    x, y, held = (random_poly(seed) for seed in range(3))
    (x * y - held * 7).realize()
    plans.clear()
    jitted = ren.jit(lambda x, y: x * y - held * 7)
    for a, b in ((x, y), (y, x)):
        assert ren.equal(jitted(a, b), b * a - held * 7)
    del plans[1:]  # of the comparison
    assert jitted.plans[0].memory.held_bytes == 4 * RING.limbs * RING.n
    assert [i.is_held for i in jitted.plans[0].plan.inputs].count(True) == 1


def test_a_ciphertext_expression_is_planned_once(plans):
    ctx = ckks.context(depth=1)
    for seed in range(3):
        values = np.random.default_rng(seed).uniform(-1, 1, 8)
        x, y = (ren.realize(ctx.encrypt(v)) for v in (values, values[::-1].copy()))
        plans.clear()
        got = ren.realize((x * y).rotate(1) + x)
        assert len(plans) == (seed == 0)
        expected = np.roll(values * values[::-1], -1) + values
        assert np.allclose(got.decrypt()[:7], expected[:7], atol=1e-5)


NUMBERS = {
    "product": lambda x, y, c: x * c,
    "sum": lambda x, y, c: x + c,
    "sum of a product": lambda x, y, c: x * y + c,
    "product of a product": lambda x, y, c: (x * y) * c - x,
    "product of a rotation": lambda x, y, c: x.rotate(1) * c + y,
    "sum of all": lambda x, y, c: x.sum() * c,
    "dot": lambda x, y, c: x.dot(y) - c,
    "mean": lambda x, y, c: (x - x.mean()) * c,
    "two numbers": lambda x, y, c: (x * c + y * (c / 9)) * 0.3,
    "number twice": lambda x, y, c: x * c + y.sum() * c,
    "poly": lambda x, y, c: ckks.poly(x, [c, 1, c, 0.25]),
    "chebyshev": lambda x, y, c: ckks.chebyshev(x, [c, 0.5, 0.25, c]),
    "matrix": lambda x, y, c: (np.eye(8) + 0.5) @ (x * c),
    "integer": lambda x, y, c: x.sum() * round(1e4 * c),
    "complex": lambda x, y, c: x.sum() * (c + 2j * c),
    "two results": lambda x, y, c: [x.sum() * c, y * c],
    "batch": lambda x, y, c: ckks.stack([x, y, x * y]) * c + c,
    "sum of a batch": lambda x, y, c: ckks.stack([x, y]).sum(axis=0) * c,
    "table": lambda x, y, c: (x.reshape(2, 4) * c).sum(axis=0) - y[:4],
    "sum of rotations": lambda x, y, c: x.rotate(1) * c + y.rotate(2) * (c / 7),
    "rotation of a sum": lambda x, y, c: (x.rotate(1) * c + y.rotate(2) * c).rotate(1) + x,
    "product of a product by a number": lambda x, y, c: (x.rotate(1) * c) * 3 + y.rotate(2) * 7,
    "negative": lambda x, y, c: -(x.rotate(1) * c) - y.rotate(2) * c - c,
    "integers": lambda x, y, c: x.rotate(1) * round(1e4 * c) + y.rotate(2) * round(1e3 * c),
    "poly of a rotation": lambda x, y, c: ckks.poly(x.rotate(1), [c, c, 0.3, c]) + y.rotate(1) * c,
}


# Passes put its constants together; coefficients differ in size where numbers do not.
APART = ("product of a product by a number", "chebyshev")


@pytest.fixture(scope="module")
def operands():
    ctx = ckks.context(depth=3, n=1 << 10, security=None)
    rng = np.random.default_rng(8)
    return [ren.realize(ctx.encrypt(v)) for v in rng.uniform(-1, 1, (2, 8))]


@pytest.mark.parametrize("name", NUMBERS)
def test_programs_that_differ_in_numbers_share_a_plan(operands, plans, name):
    """The first has a plan of its own, and a second is for all of that length: equal bit for bit.

    How ModDowns round depends on the sizes of factors, and on whether a sum has several of them.
    """
    f, numbers = NUMBERS[name], (0.7, 0.3, -0.4, 0.3001, 0.7, -80, 900)
    forget()
    results = [jax.tree.leaves(ren.realize(f(*operands, c))) for c in numbers[:5]]
    assert len(plans) <= 2 or name in APART
    results += [jax.tree.leaves(ren.realize(f(*operands, c))) for c in numbers[5:]]
    for c, result in zip(numbers, results, strict=True):
        forget()
        alone = jax.tree.leaves(ren.realize(f(*operands, c)))
        jitted = jax.tree.leaves(ren.jit(lambda x, y, c=c: f(x, y, c))(*operands))
        for got, *others in zip(result, alone, jitted, strict=True):
            for other in others:
                np.testing.assert_array_equal(got, other)


def test_a_number_more_that_changes_is_planned_once_more(operands, plans):
    x, _ = operands
    values = x.decrypt()
    forget()
    changes = [(700, 200, 110), (710, 200, 110), (720, 200, 110), (700, 201, 110), (700, 200, 111)]
    for a, b, c in np.array([*changes, (730, 202, 112), *changes]) / 1000:
        got = ren.realize((x * a + b) * c)
        assert np.allclose(got.decrypt(), (values * a + b) * c, atol=1e-5)
    assert len(plans) == 4


def forget() -> None:
    planning.forget()
    open_constants.forget()


DIFFERENT = {
    "one operand twice": lambda x, y, z: x * x,
    "two operands": lambda x, y, z: x * y,
    "operands in turns": lambda x, y, z: x * y - y,
    "operands in other turns": lambda x, y, z: x * y - x,
    "a constant": lambda x, y, z: x * y + 1,
    "another constant": lambda x, y, z: x * y + 2,
    "a step": lambda x, y, z: x.rotate(1) * y,
    "another step": lambda x, y, z: x.rotate(2) * y,
    "shared": lambda x, y, z: (x + y) * (x + y) + (x + y),
    "not shared": lambda x, y, z: (x + y) * (x + z) + (x + y),
    "a ring": lambda x, y, z: x.to_ring(RingSpec(16, RING.moduli[:2])),
    "another ring": lambda x, y, z: x.to_ring(RingSpec(16, RING.moduli[1:])),
}


@pytest.mark.parametrize("device", [None, "python"])
def test_programs_that_differ_are_told_apart(device):
    """Each is computed among the others, and from a plan of its own."""
    x, y, z = (random_poly(seed).to(device or "cpu").realize() for seed in range(3))
    among = {name: function(x, y, z).tolist() for name, function in DIFFERENT.items()}
    for name, function in DIFFERENT.items():
        planning.forget()
        assert function(x, y, z).tolist() == among[name], name


def test_types_and_devices_are_told_apart(plans):
    def squared(p: Poly) -> list:
        return (p * p).tolist()

    x = random_poly(1)
    batch = Poly(np.stack([x.tolist(), x.tolist()]), RING).realize()
    here = jax.device_put(x, jax.devices("cpu")[0])  # bound to its device
    inputs = [x, x.ntt().realize(), batch, here, x.to("python").realize()]
    inputs.append(random_poly(1, RingSpec(16, primes(16)[-4:-1])))
    for p in inputs:
        rows = p.tolist() if p is batch else [p.tolist()]
        expected = [oracle.mul(row, row, p.ring.q) for row in rows]
        assert squared(p) == (expected if p is batch else expected[0])
    assert len(plans) >= len(inputs)
    plans.clear()
    for p in inputs:
        squared(p)
    assert not plans
    with pytest.raises(DeviceError):
        (x.to("python").realize() * here).realize()


@pytest.mark.long
def test_a_plan_keeps_no_arrays():
    x, y = random_poly(1, batch=(3,)), random_poly(2, batch=(3,))
    result = (x * y + y).realize()
    arrays = [weakref.ref(p.limbs) for p in (x, y, result)]
    del x, y, result
    gc.collect()
    assert not any(array() is not None for array in arrays)


def test_donated_operands_raise_as_before():
    x, y = random_poly(1), random_poly(2)
    product = x * y
    (random_poly(3) * random_poly(4)).realize()
    ren.jit(lambda x: x + 1, donate_argnames=("x",))(x)
    with pytest.raises(DonatedBufferError):
        product.realize()


def test_the_number_of_plans_is_bounded(monkeypatch):
    monkeypatch.setattr(planning, "MOST_PLANNED", 3)
    x = random_poly(1)
    expected = [(v + k) % RING.q for k in range(5) for v in x.tolist()[:1]]
    for _ in range(2):
        assert [(x.intt() + k).tolist()[0] for k in range(5)] == expected
        assert len(planning.kept_programs) <= 3


def test_under_jax_transformations_it_is_the_same():
    batch = random_poly(1, batch=(4,))

    def squared(p: Poly) -> Poly:
        return p * p + p

    mapped = jax.vmap(squared)(batch)
    traced = jax.jit(squared)(batch)
    expected = squared(batch)
    assert ren.equal(mapped, expected) and ren.equal(traced, expected)


def test_a_trace_sees_each_unit_of_a_repeated_expression():
    x, y = random_poly(1), random_poly(2)
    (x * y).intt().realize()
    with ren.trace() as trace:
        (y * x).intt().realize()
    assert len(trace.records) >= 2


def test_native_code_can_be_switched_off_between_two_runs(monkeypatch):
    x, y = random_poly(1, LARGE), random_poly(2, LARGE)
    found = []
    for native in ("auto", False, "auto"):
        monkeypatch.setattr(ren.config, "native", native)
        found.append((x * y + x).tolist())
    assert found[0] == found[1] == found[2]


def test_threads_share_plans():
    x, y = random_poly(1), random_poly(2)
    expected = oracle.mul(x.tolist(), y.tolist(), RING.q)
    got: list[list[int]] = []

    def work() -> None:
        for k in range(5):
            got.append((x * y * (k + 1)).tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(got) == 20
    assert all(g in [[v * k % RING.q for v in expected] for k in range(1, 6)] for g in got)


MOST_CALLS = 220  # of Python functions: 177 with jax 0.12, and 438 once


def test_a_repeated_sum_takes_few_calls_of_python():
    """Each takes a microsecond or two where caches are cold: they are most of a sum's time."""
    ctx = ckks.context(params=ckks.Parameters.for_depth(2, n=1 << 10, security=None))
    x, y = (ren.realize(ctx.encrypt(np.linspace(-1, k, 9))) for k in (1, 2))
    calls: list[str] = []

    def note(frame, event, _):
        name = frame.f_code.co_qualname
        if event == "call" and not name.endswith("comp>"):  # no calls from Python 3.12 on
            calls.append(name)

    for _ in range(3):
        jax.block_until_ready(ren.realize(x + y))
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = jax.block_until_ready(ren.realize(x + y))
    finally:
        sys.setprofile(before)
    assert 0 < len(calls) <= MOST_CALLS, calls
    np.testing.assert_allclose(result.decrypt(), 2 * np.linspace(-1, 1.5, 9), atol=1e-6)
