"""Where a jitted call runs: with stand-ins for accelerators, and on four host devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import ren
from ren import Poly
from ren.capture.placement import is_at, moved, place, target_of, visible_devices, with_buffers_at
from ren.core import op as ops
from ren.core.errors import DeviceError
from ren.core.node import toposort
from ren.poly.poly import from_node
from tests.lowering.plans import RING, poly

CPU = jax.devices("cpu")[0]


class FakeDevice:
    """Enough of a jax.Device to be chosen."""

    def __init__(self, platform: str, number: int = 0) -> None:
        self.platform, self.id = platform, number

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"


GPU, OTHER_GPU, HOST, OTHER_HOST = (
    FakeDevice("gpu"), FakeDevice("gpu", 1), FakeDevice("cpu"), FakeDevice("cpu", 1),
)  # fmt: skip


def on(*devices: FakeDevice, committed: bool = True) -> SimpleNamespace:
    """Stands in for an array on these devices."""
    sharding = SimpleNamespace(device_set=set(devices))
    return SimpleNamespace(sharding=sharding, committed=committed)


PYTHON = np.zeros((4, 16), np.uint32)
ONE, TWO, NONE = (HOST, GPU), (HOST, GPU, OTHER_GPU), (HOST, OTHER_HOST)


@pytest.mark.parametrize(
    ("arrays", "devices", "target"),
    [
        ([on(HOST)], ONE, GPU),
        ([on(HOST), on(HOST, committed=False)], ONE, GPU),
        ([on(HOST), on(OTHER_HOST)], ONE, GPU),
        ([on(HOST), on(GPU)], ONE, GPU),
        ([on(GPU)], ONE, None),
        ([on(GPU), on(GPU, committed=False)], ONE, None),
        ([on(HOST)], TWO, None),
        ([on(HOST, committed=False)], TWO, None),
        ([on(OTHER_GPU)], TWO, None),
        ([on(HOST)], NONE, None),
        ([on(HOST), on(OTHER_HOST, committed=False)], NONE, None),
        ([], ONE, None),
        ([PYTHON], ONE, None),
        ([on(HOST, OTHER_HOST)], ONE, None),
        ([on(HOST, OTHER_HOST), on(HOST, committed=False)], ONE, None),
        ([on(HOST, OTHER_HOST), on(OTHER_HOST, HOST)], NONE, None),
    ],
)
def test_inputs_go_to_the_only_accelerator_or_stay(arrays, devices, target):
    assert target_of(arrays, True, devices) is target
    if target is not None and len({next(iter(a.sharding.device_set)) for a in arrays}) == 1:
        assert target_of(arrays, False, devices) is None


@pytest.mark.parametrize(
    ("arrays", "auto_device", "devices", "names"),
    [
        ([on(HOST), on(GPU)], False, ONE, ("cpu:0", "gpu:0")),
        ([on(HOST), on(GPU)], True, TWO, ("cpu:0", "gpu:0")),
        ([on(GPU), on(OTHER_GPU)], True, TWO, ("gpu:0", "gpu:1")),
        ([on(HOST), on(OTHER_HOST)], True, NONE, ("cpu:0", "cpu:1")),
        ([PYTHON, on(HOST)], True, ONE, ("python", "cpu:0")),
        ([PYTHON, on(HOST, committed=False)], True, ONE, ("python", str(jax.devices()[0]))),
        ([on(HOST, OTHER_HOST), on(HOST)], True, ONE, ("cpu:0, cpu:1", "cpu:0")),
        ([on(HOST, OTHER_HOST), on(GPU)], True, ONE, ("cpu:0, cpu:1", "gpu:0")),
    ],
)
def test_two_devices_are_an_error_that_names_both(arrays, auto_device, devices, names):
    with pytest.raises(DeviceError) as caught:
        target_of(arrays, auto_device, devices, "step")
    text = str(caught.value)
    assert all(name in text for name in ("step", *names))
    assert "device=" in text and "x.to(device)" in text
    assert text.count("\n") <= 3


def test_the_device_asked_for_is_taken_whatever_the_polynomials_say():
    x, host = poly(1), poly(1).to("python").realize()
    assert place([x, host], "cpu") is CPU
    assert place([x], CPU, devices=(GPU,)) is CPU
    assert place([x], "python") == "python"
    with pytest.raises(DeviceError, match="There is no device"):
        place([x], "tpu:9")


def test_constants_have_no_device_and_lazy_polynomials_are_realized():
    lazy = poly(1) + 1
    constant = Poly.const(3, RING)
    assert place([constant], devices=(GPU,)) is None
    assert place([constant, lazy], devices=(HOST, GPU)) is GPU
    assert lazy.is_realized
    with pytest.raises(DeviceError, match="python"):
        place([poly(1).to("python"), constant, lazy])


def test_moved_polynomials_are_realized_there_and_shared_when_they_were():
    x, constant = (poly(1) + 1).realize(), Poly.const(3, RING)
    assert moved([x, constant], CPU) == [x, constant]
    (host,) = moved([x], "python")
    assert host.device == "python" and host.is_realized and ren.equal(host, x)
    assert moved([host], "python")[0] is host
    (back,) = moved([host], CPU)
    assert back.device == CPU and ren.equal(back, x)
    assert is_at(back.limbs, CPU) and not is_at(back.limbs, "python")


def test_what_a_program_closes_over_moves_with_it():
    x, host = poly(1), poly(2).to("python").realize()
    program = (x * 3 + 1).node
    assert with_buffers_at(program, CPU) is program
    there = with_buffers_at(program, "python")
    buffers = [n for n in toposort(there) if n.op is ops.BUFFER]
    assert [type(n.arg.array) for n in buffers] == [np.ndarray]
    assert ren.equal(from_node(there), x * 3 + 1)
    assert with_buffers_at(host.node, CPU, auto=True) is host.node
    assert is_at(with_buffers_at(host.node, CPU).arg.array, CPU)


def test_the_cpu_is_among_the_visible_devices():
    found = visible_devices()
    assert set(jax.devices()) | {CPU} == set(found) and len(set(found)) == len(found)


FOUR_DEVICES = """
import jax, jax.numpy as jnp, numpy as np, ren
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from ren.core.errors import DeviceError, DonatedBufferError
from ren.lowering.devices.donation import is_donated, may_donate
from ren.capture.placement import is_at, moved, place, with_buffers_at
from tests.donation import address, call
from tests.lowering.plans import RING, poly

zero, one, two, three = devices = jax.devices()
x, y = poly(1), poly(2)
a, b = x.to(one).realize(), y.to(two).realize()

assert place([x, y]) is place([a, x]) is None
try:
    place([a, b], name="step")
except DeviceError as error:
    assert "cpu:1" in str(error) and "cpu:2" in str(error) and "step" in str(error), error
else:
    raise AssertionError("two devices")
assert place([a, b], device=three) is three
m, n = moved([a, b], three)
assert m.device is n.device is (m * n).realize().device is three
assert ren.equal(m * n, x * y)
assert moved([m], three)[0] is m
assert with_buffers_at((a + b.to(one)).node, three) is not None

mesh = Mesh(np.array(devices), ("batch",))
rows = NamedSharding(mesh, PartitionSpec("batch"))
batch = jax.device_put(poly(3, batch=(8,)), rows)
assert place([batch, x]) is place([batch]) is None
try:
    place([batch, a])
except DeviceError as error:
    assert "cpu:3" in str(error), error
else:
    raise AssertionError("shards and another device")
(again,) = moved([batch], rows)
assert again is batch
(spread,) = moved([x], NamedSharding(mesh, PartitionSpec()))
assert spread.limbs.sharding.is_fully_replicated and ren.equal(spread, x)

# donation: on the device where it is, and of shards, which XLA is not given
w, g = (a + 1).realize(), moved([y], one)[0]
before = address(w)
result = call(lambda w, g: w - g * 3, w, g)
assert address(result) == before and result.device is one
assert ren.equal(result, x + 1 - y * 3)

# what JAX is free to move is computed with where its partner is, and given up like the rest
loose = (x + 1).realize()
assert not loose.limbs.committed
result = call(lambda w, g: w - g * 3, loose, g)
assert result.device is one
assert is_donated(loose.node.arg.array) and ren.equal(result, x + 1 - y * 3)

rep = jax.device_put(x, NamedSharding(mesh, PartitionSpec()))
assert not may_donate([batch.limbs], [0])
result = call(lambda w: w.contiguous(), batch)
assert ren.equal(result, poly(3, batch=(8,))) and result.limbs.sharding.is_equivalent_to(rows, 3)
result = call(lambda w, g: w + g, rep, result)
for gone in (w, batch, rep):
    try:
        gone.tolist()
    except DonatedBufferError:
        pass
    else:
        raise AssertionError("donated")
"""


@pytest.mark.slow
def test_four_host_devices():
    flags = "--xla_force_host_platform_device_count=4"
    env = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, "-W", "error", "-c", FOUR_DEVICES]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_constants_follow_the_python_device():
    ring = ren.RingSpec(8, (17, 97))
    a = Poly([1, 2, 3], ring).to("python")
    seven = Poly.const(3, ring) + Poly.const(4, ring)
    for prune in (False, True):
        f = ren.jit(lambda p: (Poly.const(3, ring) + Poly.const(4, ring)) + p, prune=prune)
        assert f(a).device == "python" and ren.equal(f(a), a + 7)
    product = seven * a
    assert ren.equal(seven.realize(), Poly([7], ring))
    assert product.realize().device == "python"
    assert ren.equal(product, a * 7)


def test_what_is_made_at_each_replay_is_on_the_python_device_too():
    """Arrays that are encoded, draws, and numbers, beside arguments that were copied there."""
    p, w = Poly(np.arange(16), RING), np.arange(16) + 3

    def on_host(function):
        return ren.jit(function, device="python")

    total = on_host(lambda p, w: p + Poly(w, RING))(p, w)
    assert total.device == "python" and total.tolist() == [2 * i + 3 for i in range(16)]
    drawn = on_host(lambda p: p - p + Poly.uniform(RING))(p)
    assert drawn.device == "python" and len({*drawn.tolist()}) == 16
    assert on_host(lambda p, k: p * k)(p, 3).tolist() == [3 * i for i in range(16)]
