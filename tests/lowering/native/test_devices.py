"""Whole plans as one native call in a process that sees four CPUs, on one of them and over all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ren.lowering.backends.native import library

FOUR_DEVICES = """
import jax, numpy as np, ren
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from ren import Poly, RingSpec
from ren.poly.batching import stacked
from ren.lowering.inspect.memory_report import memory_of
from ren.lowering.runtime.runner import interpret_plan
from tests.lowering.plans import arrays, plan, poly
from tests.rings import primes

devices = jax.devices()
assert len(devices) == 4
ring = RingSpec(4096, primes(4096)[-3:])
x, y, z = poly(0, ring, batch=(8,)), poly(1, ring), poly(2, ring, batch=(2, 4))


def f(x, y):
    return (x * y + x).rescale(ring.moduli[:2])


def expected(p):
    made = plan(p)
    return np.asarray(interpret_plan(made, arrays(made))[0])


def check(g, want, *args, calls=1, gathers=0):
    lowered = jax.jit(g).lower(*args).compile()
    text = lowered.as_text()
    assert text.count('custom_call_target="ren_plan') == calls, text
    assert text.count("all-gather(") == gathers, text
    got = jax.jit(g)(*args).limbs
    np.testing.assert_array_equal(np.asarray(got), want)
    return got.sharding


want = expected(f(x, y))

# one device: the first, and another one
check(f, want, x, y)
there = [p.to(devices[2]).realize() for p in (x, y)]
assert check(f, want, *there).device_set == {devices[2]}
jitted = ren.jit(f)
assert jitted(*there).device is devices[2]
assert jitted.plans[0].telemetry.tier == "graph"
check(jax.vmap(f, in_axes=(0, None)), want, x, y)

# divided among all: each calls the kernel for its part
line, square = Mesh(np.array(devices), ("b",)), Mesh(np.array(devices).reshape(2, 2), ("a", "b"))
rows, whole = NamedSharding(line, P("b")), NamedSharding(line, P())
xs, ys = jax.device_put(x, rows), jax.device_put(y, whole)
for args in ((xs, ys), (xs, y)):
    assert check(f, want, *args).is_equivalent_to(rows, 3)
    assert check(jax.vmap(f, in_axes=(0, None)), want, *args).is_equivalent_to(rows, 3)
zs = jax.device_put(z, NamedSharding(square, P("a", "b")))
w = poly(3, ring, batch=(4,))
ws = jax.device_put(w, NamedSharding(square, P("b")))
assert check(f, expected(f(z, w)), zs, ws).spec == P("a", "b")
assert check(jax.vmap(f, in_axes=(0, None)), expected(f(z, w)), zs, ws).spec == P("a", "b")
turned = [np.asarray(p.limbs) for p in (z, w)]
turned = [np.ascontiguousarray(turned[0].swapaxes(0, 1)), turned[1][:, None]]
turned = [Poly.from_limbs(a, ring, z.domain) for a in turned]
check(jax.vmap(f, in_axes=(1, 0)), expected(f(*turned)), zs, ws)

# divided along what a row needs whole, or taken apart: right, whatever is moved
columns = jax.device_put(x, NamedSharding(line, P(None, None, "b")))
np.testing.assert_array_equal(np.asarray(jax.jit(f)(columns, ys).limbs), want)
both = stacked([x.ntt(), y.ntt()])
g = lambda x, y: stacked([x.ntt(), y.ntt()])
check(g, expected(both), xs, ys, calls=2)  # the transforms; the stack is XLA's

# outside of a trace, in a scan, and divided by hand
for made in (ren.realize(f(xs, ys)), ren.jit(f)(xs, ys), ren.jit(f, tier="units")(xs, ys)):
    assert made.limbs.sharding.is_equivalent_to(rows, 3)
    np.testing.assert_array_equal(np.asarray(made.limbs), want)
_, made = lax.scan(lambda c, x: (c, f(x, c)), y, x)
np.testing.assert_array_equal(np.asarray(made.limbs), want)
by_hand = jax.jit(jax.shard_map(f, mesh=line, in_specs=(P("b"), P()), out_specs=P("b")))
assert "ren_plan" in by_hand.lower(xs, ys).as_text()
np.testing.assert_array_equal(np.asarray(by_hand(xs, ys).limbs), want)

# what is reported
told = memory_of(plan(f(xs, ys)))
one = memory_of(plan(f(x, y)))
assert one.call_bytes <= told.call_bytes <= 4 * one.call_bytes
assert memory_of(plan(stacked([xs.ntt(), ys.ntt()]))).call_bytes is None
"""


@pytest.mark.slow
def test_four_host_devices():
    if library.outcome().reason:
        pytest.skip(library.outcome().reason)
    flags = "--xla_force_host_platform_device_count=4"
    root = Path(__file__).parents[3]
    env = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(root), "REN_NATIVE": "1"}
    command = [sys.executable, "-W", "error", "-c", FOUR_DEVICES]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
