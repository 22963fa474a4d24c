"""Ren on a GPU: the same bits as Python integers and the NumPy reference, wherever a program runs.

They need JAX with CUDA, and are left out by every command of the README. In an environment that has
it: `python -m pytest -m gpu tests/test_gpu.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import ren
from ren import Poly, RingSpec
from ren.core.numtheory import primitive_root_of_unity
from ren.schemes import ckks
from tests.programs import generate
from tests.properties.test_compositions import assert_program, check_compiled, run_ren
from tests.rings import primes

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

GPU = "gpu:0"


@pytest.fixture(scope="module")
def on_gpu() -> Any:
    return jax.devices("gpu")[0]


def drawn(seed: int, n: int, limbs: int, length: int) -> Any:
    """A random program with primes and operands."""
    program, rng = generate(seed, n, limbs, length), random.Random(seed)
    chosen = tuple(rng.sample(primes(n), program.primes))
    q = RingSpec(n, chosen[: len(program.basis)]).q
    return program, chosen, [[rng.randrange(q) for _ in range(n)] for _ in range(program.inputs)]


def test_the_self_test_passes(on_gpu):
    assert jax.default_backend() == "gpu"
    found = ren.selftest()
    assert found, found


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_agree_with_python_integers(on_gpu, seed):
    check_compiled(drawn(seed, (8, 32, 64, 128)[seed % 4], 2 + seed % 3, 9))


@pytest.mark.parametrize("seed", range(3))
def test_large_random_programs_agree_with_the_interpreter(on_gpu, seed):
    case = program, chosen, data = drawn(seed, 4096, 3, 6)
    there, host = (ren.realize(run_ren(program, data, chosen, d)) for d in (None, "python"))
    assert_program(case, there)
    for a, b in zip(there, host, strict=True):
        assert a.device == on_gpu
        assert np.array_equal(np.asarray(a.limbs), np.asarray(b.limbs))


@pytest.mark.parametrize(("n", "limbs"), [(2, 1), (4, 2), (1 << 13, 5), (1 << 16, 36)])
def test_a_product_at_roots(on_gpu, n, limbs):
    ring = RingSpec(n, primes(n)[-limbs:])
    x, y = Poly.uniform(ring), Poly.uniform(ring)
    assert (x * y).device == on_gpu
    a, b, c = (p.tolist() for p in (x, y, x * y))
    for q in {ring.moduli[0], ring.moduli[-1]}:
        root = pow(primitive_root_of_unity(n, q), 2 * random.randrange(n) + 1, q)
        u, v, w = (value(p, root, q) for p in (a, b, c))
        assert u * v % q == w


def value(coefficients: list[int], at: int, q: int) -> int:
    """The value of a polynomial at a number, modulo q."""
    total = 0
    for c in reversed(coefficients):
        total = (total * at + c) % q
    return total


@pytest.mark.parametrize("tier", ["auto", "units", "graph", "eager"])
def test_each_tier_and_a_batch(on_gpu, tier):
    ring = RingSpec(4096, primes(4096)[-3:])
    batch = Poly(np.arange(4 * 4096).reshape(4, 4096), ring)
    one = Poly(range(4096), ring)

    def function(x: Poly, y: Poly) -> Poly:
        return (x * y + 1).rescale(ring.moduli[:-1]).rotate(3)

    wanted = function(batch.to("python"), one.to("python")).realize()
    jitted = ren.jit(tier=tier)(function)
    for _ in range(3):
        made = jitted(batch, one)
        assert made.device == on_gpu
        assert np.array_equal(np.asarray(made.limbs), wanted.limbs)


@pytest.fixture
def pair() -> tuple[Poly, Poly]:
    """Two polynomials on the GPU, bound to no device."""
    ring = RingSpec(256, primes(256)[-2:])
    return Poly(range(256), ring), Poly([5, -1], ring)


def test_what_is_bound_to_two_devices_is_refused(on_gpu, pair):
    x, _ = pair
    host = x.to("cpu")
    assert host.device == jax.devices("cpu")[0] and x.device == on_gpu
    with pytest.raises(ren.errors.DeviceError, match="gpu:0"):
        (host + x.to(GPU)).realize()


def test_what_is_bound_to_none_goes_where_its_partner_is(on_gpu, pair):
    host = pair[0].to("cpu")
    assert (host + pair[0]).realize().device == host.device


def test_copies_are_steps_of_a_plan(on_gpu, pair):
    x, y = pair
    f = ren.jit(lambda x, y: ((x * y).to("cpu") + 1).to(GPU) * y)
    for _ in range(2):
        assert f(x, y).device == on_gpu
        assert ren.equal(f(x, y), (x * y + 1) * y)


def test_the_only_accelerator_takes_what_is_on_the_host_unless_told_not_to(on_gpu, pair):
    x, host = pair[0], pair[0].to("cpu")
    assert ren.jit(lambda a: a * a)(host).device == on_gpu
    assert ren.jit(device="cpu")(lambda a: a * a)(x).device == jax.devices("cpu")[0]


def programs(ctx: ckks.Context) -> dict[str, tuple[Callable[..., Any], Callable[..., Any]]]:
    """Encrypted programs of x and y, and the same of NumPy."""
    numbers = np.random.default_rng(3).normal(size=(16, ctx.params.slots)) / 64
    return {
        "a sum": (lambda x, y: x + y - 0.5, lambda x, y: x + y - 0.5),
        "a product": (lambda x, y: x * y, lambda x, y: x * y),
        "a rotation": (lambda x, y: x.rotate(3), lambda x, y: np.roll(x, -3)),
        "a conjugate": (lambda x, y: x.conj(), lambda x, y: x),
        "a dot product": (lambda x, y: x.dot(y), lambda x, y: x @ y),
        "a matrix": (lambda x, y: numbers @ x, lambda x, y: numbers @ x),
        "a polynomial": (
            lambda x, y: ckks.poly(x, [0.5, 1, -1, 0.25]),
            lambda x, y: 0.5 + x - x**2 + x**3 / 4,
        ),
    }  # fmt: skip


NAMES = ("a sum", "a product", "a rotation", "a conjugate", "a dot product", "a matrix",
         "a polynomial")  # fmt: skip


@pytest.fixture(scope="module")
def context() -> ckks.Context:
    return ckks.context(n=1 << 13, depth=3, scale_bits=30)


@pytest.mark.parametrize("name", NAMES)
def test_encrypted_programs(on_gpu, context, name):
    """Precise, within the estimate; the same bits on the GPU and on the CPU."""
    mine, clear = programs(context)[name]
    values = [np.linspace(-1, 1, context.params.slots), np.cos(np.arange(context.params.slots))]
    x, y = (context.encrypt(v) for v in values)
    wanted = np.asarray(clear(*values))
    eager, there, traced = ren.realize(mine(x, y)), ren.jit(mine)(x, y), jax.jit(mine)(x, y)
    for made in (eager, there, traced):
        report = ckks.precision(made, wanted)
        assert report.worst_bits >= report.estimated_bits
    host = ren.jit(device="cpu")(mine)(x, y)
    for a, b in zip(there.polys, host.polys, strict=True):
        assert a.device == on_gpu and b.device == jax.devices("cpu")[0]
        assert np.array_equal(np.asarray(a.limbs), np.asarray(b.limbs))


def test_a_batch_of_ciphertexts(on_gpu, context):
    values = np.random.default_rng(0).normal(size=(4, context.params.slots))
    batch = ckks.stack([context.encrypt(v) for v in values])
    server = context.server(rotations=[1])

    def one(keys: ckks.Context, x: ckks.Ciphertext) -> ckks.Ciphertext:
        with keys:
            return x * x + x.rotate(1)

    made = jax.jit(jax.vmap(one, in_axes=(None, 0)))(server, batch)
    wanted = values**2 + np.roll(values, -1, axis=1)
    assert np.max(np.abs(context.decrypt(made) - wanted)) < 1e-3


def test_bytes_travel_between_the_devices(on_gpu, context):
    x = context.encrypt([1.0, 2.0, 3.0])
    data = (x * 2).to_bytes()
    back = ckks.Ciphertext.from_bytes(data)
    assert np.allclose(context.decrypt(back)[:3], [2, 4, 6], atol=1e-3)
    assert back.to_bytes() == data
