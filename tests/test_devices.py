"""Devices and shardings, on four host devices forced in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import ren
from ren import Poly, RingSpec
from tests.rings import primes

RING = RingSpec(8, (17, 97))

FOUR_DEVICES = """
import jax, numpy as np, ren
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from ren import Poly, RingSpec

ring = RingSpec(8, (17, 97))
devices = jax.devices()
assert len(devices) == 4
a = Poly(range(8), ring)
batch = Poly(np.arange(64).reshape(8, 8), ring)

moved = a.to(devices[1])
square = moved * moved + 1
assert moved.device == square.device == square.realize().device == devices[1]
assert ren.equal(moved * moved, a * a)
try:
    (moved + a.to("cpu:2")).realize()
except ren.errors.DeviceError as error:
    assert "cpu:1" in str(error) and "cpu:2" in str(error), error
else:
    raise AssertionError("two devices in one sum")
across = ren.jit(lambda x, y: (x * y).to("cpu:1") + y.to(devices[1]))
for _ in range(2):
    assert across(a, a).device == devices[1]
    assert ren.equal(across(a, a).to("cpu:0"), a * a + a)

sharding = NamedSharding(Mesh(np.array(devices), ("batch",)), PartitionSpec("batch"))
sharded = jax.device_put(batch, sharding)
f = ren.jit(lambda x, y: (x * y + 1).rescale((97,)).rotate(3))
expected = f(batch, a)
for _ in range(2):
    result = f(sharded, a)
    assert result.limbs.sharding.is_equivalent_to(sharding, 3)
    assert np.array_equal(np.asarray(result.limbs), np.asarray(expected.limbs))
assert f.cache_info()[:3] == (1, 2, 2)

loop = lambda x: jax.lax.fori_loop(0, 2, lambda i, x: x * a, x.ntt())
expected, jitted = batch * a * a, ren.jit(loop)
result = jitted(sharded)
assert result.limbs.sharding.is_equivalent_to(sharding, 3)
assert np.array_equal(np.asarray(result.limbs), np.asarray(expected.limbs))
result = ren.jit(device=devices[2])(loop)(batch)
assert result.device == devices[2]
assert np.array_equal(np.asarray(result.limbs), np.asarray(expected.limbs))
a = a.to(devices[3]).realize()
try:
    ren.jit(loop)(jax.device_put(batch, devices[1]))
except ren.errors.DeviceError as error:
    assert "on several devices" in str(error)
else:
    raise AssertionError("two devices")
"""


@pytest.mark.long
def test_four_host_devices():
    flags = "--xla_force_host_platform_device_count=4"
    env = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-W", "error", "-c", FOUR_DEVICES]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_names_of_devices():
    a = Poly(range(8), RING)
    assert a.device == jax.devices()[0]
    assert a.to("python").device == a.to("python").realize().device == "python"
    assert a.to("cpu").device == a.to("cpu:0").device == jax.devices("cpu")[0]
    assert Poly.const(3, RING).device is None
    with pytest.raises(ren.errors.DeviceError, match="There is no device 'tpu:7'"):
        a.to("tpu:7")
    with pytest.raises(ren.errors.DeviceError, match="devices here are"):
        a.to(3)


def test_the_python_device_keeps_numpy_arrays():
    p = Poly(range(8), RING, device="python")
    result = (p * p - p.rotate(2)).rescale((97,)).realize()
    assert isinstance(result.limbs, np.ndarray)
    q = Poly(range(8), RING)
    same = (q * q - q.rotate(2)).rescale((97,))
    assert np.array_equal(result.limbs, np.asarray(same.limbs))


def test_a_move_inside_a_trace_is_told():
    with pytest.raises(ren.errors.DeviceError, match="inside a trace"):
        jax.jit(lambda x: x.to("cpu"))(Poly(range(8), RING))


@pytest.mark.parametrize("tier", ["auto", "units", "graph", "eager"])
@pytest.mark.parametrize("n", [8, 4096])
def test_copies_are_steps_of_a_captured_plan(tier, n):
    ring = RingSpec(n, primes(n)[-2:])
    x, y = Poly(range(1, n), ring), Poly([5, -1], ring)
    f = ren.jit(
        lambda x, y: (((x * y).to("python") + 1).to("cpu:0") * x, (x + y).to("python")), tier=tier
    )
    for a, b in ((x, y), (y, x), (y, y)):
        back, there = f(a, b)
        assert back.device == jax.devices()[0] and there.device == "python"
        assert ren.equal(back, (a * b + 1) * a) and ren.equal(there.to("cpu"), a + b)
    assert f.cache_info().plans == 1 and "COPY to python" in f.plans[0].explain()
    with ren.trace() as seen:
        f(x, y)
    places = {"python"} if tier == "eager" else {"cpu:0", "python"}  # NumPy interprets all of it
    assert {r.device for r in seen.records} == places
    assert ("COPY to cpu:0" in str(seen)) is ("device" in str(seen)) is (tier != "eager")


def test_python_and_jax_operands_are_told():
    p = Poly(range(8), RING, device="python")
    with pytest.raises(ren.errors.DeviceError, match="python and"):
        (p + Poly(range(8), RING)).realize()


def test_what_folds_to_a_constant_stays_on_its_device():
    ring = RingSpec(n=4, moduli=(17,))
    x = Poly([1, 2, 3, 4], ring, device="python").realize()
    for zero in (x - x, x * 0):
        realized = zero.realize()
        assert realized.device == "python"
        assert (realized + x).tolist() == x.tolist()
    f = ren.jit(lambda x: (x - x, x + 1))
    assert all(p.device == "python" for p in f(x))
    y = x.to("cpu").realize()
    assert (y - y).realize().device == y.device
