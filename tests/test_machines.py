"""Ciphertexts over devices, over processes that JAX connects, and over the workers of a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.processes import free_port

ROOT = Path(__file__).parents[1]
DEVICES = "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0"

PARAMETERS = """
import contextlib, sys
import jax, numpy as np
import ren
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from ren.core.errors import DeviceError
from ren.schemes import ckks

params = ckks.Parameters.for_depth(4, n=1 << 12, security=None)
values = np.linspace(-1, 1, 8)[:, None] * [1, 0.5, 0.25, 0]


def f(x, mask=(1.0, 0, 1, 0)):
    return x * x + x.rotate(1) * np.array(mask)


def same(x, y):
    return all(ren.equal(a, b) for a, b in zip(x.polys, y.polys, strict=True))
"""

MESHES = (
    PARAMETERS
    + """
ctx = ckks.context(params=params)
x, w = ckks.stack([ctx.encrypt(v) for v in values]), ctx.encrypt([1.0, 2, 3, 4])
want, weighted = ren.realize(f(x)), ren.realize(x * w)
for mesh in (jax.make_mesh((4,), ("rows",)), Mesh(np.array(jax.devices()), ("rows",))):
    rows, whole = NamedSharding(mesh, P("rows")), NamedSharding(mesh, P())
    xs, ws = jax.device_put(x, rows), jax.device_put(w, whole)
    with jax.set_mesh(mesh):  # first: numbers are encoded by a kernel that nothing has compiled
        for g in (lambda c: c + 1, lambda c: c * np.arange(1, 5), lambda c: c.mask([1, 0, 1, 1])):
            assert np.allclose(jax.jit(g)(xs).decrypt(), g(x).decrypt(), atol=2.0**-20)
    for context in (contextlib.nullcontext, lambda: jax.set_mesh(mesh)):
        runs = {
            "eager": (f, (xs,), want), "ren.jit": (ren.jit(f), (xs,), want),
            "units": (ren.jit(f, tier="units"), (xs,), want), "jax.jit": (jax.jit(f), (xs,), want),
            "device": (ren.jit(f, device=rows), (x,), want), "vmap": (jax.vmap(f), (xs,), want),
            "two": (ren.jit(lambda x, w: x * w, device=rows), (x, w), weighted),
        }
        for name, (g, args, expected) in runs.items():
            with context():
                for _ in range(2):
                    made = ren.realize(g(*args))
            assert all(p.limbs.sharding.is_equivalent_to(rows, 3) for p in made.polys), name
            assert np.allclose(made.decrypt(), expected.decrypt(), atol=2.0**-25), name
            assert name in ("jax.jit", "vmap") or same(made, expected), name
    try:
        ren.jit(f, device=rows)(ckks.stack(ckks.unstack(x)[:3]))
    except DeviceError as error:
        assert "multiple of the devices" in str(error)
    else:
        raise AssertionError("three rows on four devices")
"""
)

PROCESSES = (
    PARAMETERS
    + """
address, number, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jax.distributed.initialize(address, num_processes=2, process_id=number)
from jax.experimental import multihost_utils

ctx = ckks.Context.load(folder + "/owner", include_secret=True)
x = ckks.Ciphertext.load(folder + "/x")
want = ren.realize(f(x))
rows = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), P("rows"))
xs = jax.device_put(x, rows)
made = {
    "eager": ren.realize(f(xs)), "ren.jit": ren.jit(f)(xs), "jax.jit": jax.jit(f)(xs),
    "units": ren.jit(f, tier="units")(xs), "again": ren.realize(f(ren.realize(f(xs) * 1.0))),
}
for name, y in made.items():
    if number == 0:  # alone: nothing here waits for the other process
        assert "level" in repr(y) and y._repr_html_() and "limb" in repr(y.polys[0])
        for ask in (y.decrypt, lambda: y.estimate, y.to_bytes, y.polys[0].tolist):
            try:
                ask()
            except DeviceError as error:
                assert "process_allgather" in str(error)
            else:
                raise AssertionError(f"{name} was read by one process")
        own = jax.tree.map(lambda leaf: leaf.addressable_data(0), y)
        if name != "again":
            assert np.allclose(own.decrypt(), want.decrypt()[:4], atol=2.0**-25)
    whole = multihost_utils.process_allgather(y, tiled=True)
    replicated = jax.device_put(y, NamedSharding(rows.mesh, P()))
    if name != "again":
        for z in (whole, replicated):
            assert np.allclose(z.decrypt(), want.decrypt(), atol=2.0**-25), name
            assert name == "jax.jit" or (same(z, want) and z.estimate == want.estimate), name
"""
)


def run(*command: str, **environment: str) -> str:
    """What a Python process prints, at the root; raises unless it succeeds without a warning."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *command], cwd=ROOT, env={**os.environ, **environment},
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_results_are_divided_as_their_arguments_are():
    run("-c", MESHES, XLA_FLAGS=DEVICES)


@pytest.mark.long
def test_two_processes_compute_the_bits_of_one(tmp_path):
    made = PARAMETERS + (
        "ctx = ckks.context(params=params)\n"
        "ctx.rotation_keys([1])\n"
        "ctx.save(sys.argv[1] + '/owner', include_secret=True)\n"
        "ckks.stack([ctx.encrypt(v) for v in values]).save(sys.argv[1] + '/x')\n"
    )
    run("-c", made, str(tmp_path))
    command = [sys.executable, "-c", PROCESSES, f"127.0.0.1:{free_port()}"]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    processes = [
        subprocess.Popen(
            [*command, str(i), str(tmp_path)], cwd=ROOT, env=environment,
            stderr=subprocess.PIPE, text=True,
        )
        for i in range(2)
    ]  # fmt: skip
    try:  # the first asks alone: where it fails, the other would wait for it
        assert processes[0].wait(timeout=100) == 0
        assert processes[1].wait(timeout=100) == 0
    finally:
        for process in processes:
            process.kill()
            print(process.communicate()[1])


@pytest.mark.long
def test_the_example_of_devices():
    assert "the same bits: True" in run("-m", "examples.devices", XLA_FLAGS=DEVICES)


@pytest.mark.slow
def test_the_example_of_processes():
    printed = run("-m", "examples.processes", JAX_PLATFORMS="cpu")
    assert "2 rows of 4" in printed and "the bits of one process: True" in printed


@pytest.mark.long
def test_the_example_of_workers():
    pytest.importorskip("distributed")
    printed = run("-m", "examples.workers")
    assert "the owner stays here" in printed and "the bits of one process: True" in printed
