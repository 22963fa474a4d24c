"""Executables: made once, kept on disk, called as JAX would call them."""

from __future__ import annotations

import enum
import os
import subprocess
import sys
from types import SimpleNamespace

import attrs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout

import ren
from ren import Domain, Poly, RingSpec
from ren.lowering.backends.xla import jax_executable
from ren.lowering.backends.xla import jax_runtime as runtime
from ren.lowering.backends.xla.backend import XLA
from ren.lowering.backends.xla.executables import Executables, canonical
from ren.lowering.backends.xla.jax_executable import JaxExecutable
from ren.lowering.plan.plan import KernelUnit, Plan
from ren.lowering.program.steps import unit_segment
from ren.lowering.runtime.runner import graph_runner, run_plan, unit_runner
from ren.lowering.storage import executable_store as disk
from tests.lowering.plans import RING, arrays, plan, poly


@pytest.fixture
def folder(tmp_path):
    """A folder that executables are kept in; none is known yet."""
    jax_executable.clear_kernels()
    with ren.config.update(cache_dir=tmp_path):
        yield tmp_path / "executables"
    jax_executable.clear_kernels()


def program() -> Plan:
    """A plan with transforms, donated buffers, a view and two roots."""
    x, y = poly(1), poly(2, batch=(3,))
    product = x * y + 1
    sub = RingSpec(RING.n, RING.moduli[1:3])
    p = plan(product.rescale(RING.moduli[:2]), product.rotate(3), x.to_ring(sub))
    assert any(isinstance(u, KernelUnit) and u.donate for u in p.units)
    return p


RUNNERS = [lambda p: lambda inputs: run_plan(p, inputs), unit_runner, graph_runner]


def refuse_compiling(monkeypatch):
    def compiled(*_):
        raise AssertionError("an executable was compiled")

    monkeypatch.setattr(Executables, "lowered", compiled)


def values(made) -> list[np.ndarray]:
    return [np.asarray(a) for a in made]


def assert_equal(got, want):
    assert all(np.array_equal(g, w) for g, w in zip(got, want, strict=True))


@pytest.mark.usefixtures("through_xla")
@pytest.mark.parametrize("runner", RUNNERS)
def test_what_was_kept_is_not_compiled_again(folder, monkeypatch, runner):
    want = values(runner(program())(arrays(program())))
    kept = {path.name for path in folder.iterdir()}
    assert kept
    jax_executable.clear_kernels()
    refuse_compiling(monkeypatch)
    p = program()
    run = runner(p)
    assert_equal(values(run(arrays(p))), want)
    assert_equal(values(run(arrays(p))), want)
    assert {path.name for path in folder.iterdir()} == kept


def test_another_device_kind_version_or_flag_is_another_key(folder, monkeypatch):
    p = plan(poly(1) + poly(2))
    run_plan(p, arrays(p))
    (device,) = p.inputs[0].arg.array.devices()
    known = runtime.environment(device)
    for i in range(len(known)):
        other = (*known[:i], known[i] + "'", *known[i + 1 :])
        monkeypatch.setattr(runtime, "environment", lambda _, other=other: other)
        jax_executable.clear_kernels()
        run_plan(p, arrays(p))
        assert len(list(folder.iterdir())) == i + 2


def test_other_shapes_and_donations_are_other_keys(folder):
    for batch in ((), (2,), (2, 1)):
        p = plan(poly(1, batch=batch) + poly(2, batch=batch))
        run_plan(p, arrays(p))
    assert len(list(folder.iterdir())) == 3
    (unit,) = p.units
    donating = attrs.evolve(unit_segment(unit), donate=((0, 0),))
    XLA.compile(donating, arrays(p)).bind(list(map(jnp.copy, arrays(p))))
    assert len(list(folder.iterdir())) == 4


def test_bytes_that_are_no_executable_cost_one_warning(folder, caplog):
    want = values(run_plan(program(), arrays(program())))
    for path in folder.iterdir():
        body = disk.Store(folder).read(path.stem)
        assert body is not None
        disk.Store(folder).write(path.stem, body[: len(body) // 2])
    jax_executable.clear_kernels()
    disk._opened.cache_clear()
    assert_equal(values(run_plan(program(), arrays(program()))), want)
    (record,) = caplog.records
    assert "cannot be loaded" in record.getMessage()


def test_a_runtime_that_serializes_nothing_costs_one_warning(folder, caplog, monkeypatch):
    def unimplemented(*_):
        raise RuntimeError("UNIMPLEMENTED\nat length")

    monkeypatch.setattr(runtime, "to_bytes", unimplemented)
    assert_equal(
        values(run_plan(program(), arrays(program()))),
        values(graph_runner(program())(arrays(program()))),
    )
    (record,) = caplog.records
    assert record.getMessage().endswith("RuntimeError: UNIMPLEMENTED.")


@pytest.mark.parametrize("missing", ["all", "pxla", "lib", "cache_key"])
def test_without_the_private_names_jax_runs_everything(folder, caplog, monkeypatch, missing):
    want = values(run_plan(program(), arrays(program())))
    jax_executable.clear_kernels()
    runtime.environment.cache_clear()
    other = disk.Store(folder.parent / "other")
    monkeypatch.setattr(disk, "store", lambda: other)
    names = None if missing == "all" else SimpleNamespace(**vars(runtime._private))
    if names is not None:
        delattr(names, missing)
    monkeypatch.setattr(runtime, "_private", names)
    monkeypatch.setattr(runtime, "_has_given_up", False)
    for runner in RUNNERS:
        p = program()
        assert_equal(values(runner(p)(arrays(p))), want)
    assert 1 <= len({r.getMessage() for r in caplog.records}) == len(caplog.records) <= 2
    runtime.environment.cache_clear()


def test_users_settings_and_compiles_are_left_alone(folder):
    before = jax.config.values.copy()
    program_plan = program()
    run_plan(program_plan, arrays(program_plan))
    kept = set(folder.iterdir())
    assert jax.jit(lambda x: x * 3 + 1)(jnp.arange(7)).tolist() == [1, 4, 7, 10, 13, 16, 19]
    assert set(folder.iterdir()) == kept
    assert jax.config.values == before


SCORE = """
import jax, ren
compiles = []
jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: compiles.append(name))
ring = ren.RingSpec(n=16, moduli=(97, 193, 257))
sub = ring.with_moduli((193,))
f = ren.jit(lambda x: ((x * x + 1).rescale((97, 193)).rotate(1), x.to_ring(sub)))
x = ren.Poly(range(16), ring)
for _ in range(2):
    print([p.tolist() for p in f(x)])
print(sum("compile" in name for name in compiles))
"""


@pytest.mark.long
def test_a_second_process_compiles_nothing(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    env |= {"REN_CACHE_DIR": str(tmp_path), "REN_JIT_TIER": "units"}
    command = [sys.executable, "-c", SCORE]
    first, second = (
        subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    *want, some = first.stdout.splitlines()
    *got, none = second.stdout.splitlines()
    assert got == want and len(got) == 2
    assert int(some) > 0 and int(none) == 0
    told = (first.stderr + second.stderr).splitlines()
    # XLA's loader in jaxlib below 0.10.2 takes its own preferences for features of the processor.
    assert not [line for line in told if "cpu_aot_loader.cc" not in line]


# ------------------------------------------------------------------- calls


def test_results_are_bound_to_devices_as_those_of_jax(ring):
    for device in (None, jax.devices()[0]):
        x = Poly.from_limbs(jax.device_put(np.ones((2, 8), np.uint32), device), ring, Domain.NTT)
        p = plan(x * x + 1)
        for run in (unit_runner(p), graph_runner(p)):
            for _ in range(2):
                (made,) = run(arrays(p))
                assert made.committed is (device is not None)
                assert made.sharding == x.limbs.sharding
                assert made.aval == jax.jit(lambda a: a)(x.limbs).aval


def test_arrays_of_another_layout_and_batch_come_in_turns():
    f = ren.jit(lambda x, y: (x + y).ntt())
    x, y = poly(1), poly(2)
    want = values([f(x, y).limbs])
    turned = jax.device_put(x.limbs, Format(Layout((1, 0)), x.limbs.sharding))
    assert turned.format.layout != x.limbs.format.layout
    for array in (turned, x.limbs, turned):
        got = f(Poly.from_limbs(array, RING, Domain.COEFF), y)
        assert_equal(values([got.limbs]), want)
    captured = f.plans[0]
    batch = [jnp.stack([a.limbs, a.limbs]) for a in (x, y)]
    for _ in range(2):
        assert_equal(values(captured.run(batch)), [np.stack(want * 2)])
        assert_equal(values(captured.run([x.limbs, y.limbs])), want)


def test_a_bound_plan_calls_what_is_compiled_after_clearing():
    p = plan((poly(1) + poly(2)).ntt())
    run = unit_runner(p)
    want = values(run(arrays(p)))
    jax_executable.clear_kernels()
    assert_equal(values(run(arrays(p))), want)
    assert jax_executable.compiled_count() > 0


def test_a_replay_prepares_nothing(monkeypatch):
    p = program()
    runners = unit_runner(p), graph_runner(p)
    want = [values(run(arrays(p))) for run in runners]
    monkeypatch.setattr(JaxExecutable, "bind", None)
    for run, made in zip(runners, want, strict=True):
        assert_equal(values(run(arrays(p))), made)


def test_traced_arguments_are_emitted_into_the_trace():
    p = plan((poly(1) * poly(2)).rescale(RING.moduli[:2]))
    run = unit_runner(p)
    want = values(run(arrays(p)))
    assert_equal(values(jax.jit(lambda *a: run(a))(*arrays(p))), want)
    assert_equal(values(run(arrays(p))), want)


# ------------------------------------------------------------------- keys


class Color(enum.Enum):
    RED = 1
    GREEN = 2


@attrs.frozen
class Pair:
    left: object
    right: object


def test_prints_tell_values_apart():
    some = [
        None, True, 1, -1, "1", "", (), (1,), ((1,),), (1, 2), (12,), ("1, 2",), Color.RED,
        Color.GREEN, "Color.RED", Pair(1, 2), Pair((1,), 2), (1, (2,)), ("a", "b"), ("a','b",),
    ]  # fmt: skip
    assert len(set(map(canonical, some))) == len(some)


@pytest.mark.parametrize("value", [1.5, object(), np.int64(3), {1}, [1], (1, [2]), len])
def test_what_has_no_stable_print_has_no_key(value):
    with pytest.raises(TypeError, match="canonical"):
        canonical(value)
