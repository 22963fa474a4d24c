"""The graph runner: what units compute, bit for bit, as one executable between copies."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

import ren
from ren import Domain, RingSpec
from ren.lowering.backends.xla import emit, jax_executable
from ren.lowering.kernels import keeps_calls as apart
from ren.lowering.plan.partition import MAX_FUSED
from ren.lowering.plan.plan import Plan
from ren.lowering.program.graph import Call, Graph, Slice
from ren.lowering.program.steps import CopyUnit, Segment
from ren.lowering.runtime.runner import Runner, graph_runner, interpret_plan, run_plan
from ren.schemes import ckks
from ren.schemes.rlwe.keys import make_secret, make_switching_key
from ren.schemes.rlwe.keyswitch import Gadget, key_switch
from tests.lowering.plans import RING, arrays, plan, poly
from tests.lowering.test_memory import program_polys
from tests.programs import generate
from tests.rings import primes


def runner(p: Plan) -> Runner:
    made = graph_runner(p)
    assert isinstance(made, Runner)
    return made


def function_of(graph: Graph) -> object:
    return jax_executable.graph_function(graph, partial(emit.emit_graph, graph))


def assert_same(p: Plan) -> tuple:
    """Graph, units and reference give equal arrays, twice; the graph's are returned."""
    run, inputs = runner(p), arrays(p)
    want = [np.asarray(a) for a in interpret_plan(p, inputs)]
    for made in (run_plan(p, inputs), run(inputs), run(inputs)):
        for got, expected in zip(made, want, strict=True):
            assert got.dtype == np.uint32
            assert np.array_equal(np.asarray(got), expected)
    return run(inputs)


# ------------------------------------------------------------------- values


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed):
    p = plan(*program_polys(generate(seed, 16, 1 + seed % 4, 4 + 2 * seed)))
    assert_same(p)


@pytest.mark.parametrize("shapes", [((3,), ()), ((2, 3), (3,)), ((2, 1), (3,))], ids=str)
def test_batches_broadcast(shapes):
    x, y = (poly(i, batch=shape) for i, shape in enumerate(shapes))
    (made,) = assert_same(plan((x * y + x).rotate(3)))
    assert made.shape[:-2] == np.broadcast_shapes(*shapes)


def test_roots_that_are_inputs_constants_and_each_other():
    x, y = poly(), poly(1)
    s = x.ntt()
    p = plan(x, s, y.contiguous(), x + 0, s, poly(2) * 0)
    made = assert_same(p)
    assert made[0] is x.limbs


def test_inputs_survive():
    x = poly(domain=Domain.NTT)
    p = plan(x * x, x + 1)
    inputs = [np.array(a) for a in arrays(p)]
    assert_same(p)
    assert all(np.array_equal(a, b) for a, b in zip(inputs, arrays(p), strict=True))


# ------------------------------------------------------------------- structure


def test_a_plan_without_copies_is_one_executable():
    p = plan(((poly() * poly(1)).rescale(RING.moduli[:2]) + 1).rotate(3))
    assert len(p.units) > 3
    (step,) = runner(p).steps
    assert isinstance(step, Segment)
    assert sum(isinstance(s, Call) for s in step.graph.steps) == len(p.units)
    assert len(set(step.tables)) == len(step.tables)
    assert len(step.graph.outputs) == len(step.outs) == 1


def test_views_are_slices():
    sub = RingSpec(RING.n, RING.moduli[1:3])
    p = plan((poly() * poly(1)).to_ring(sub), poly(2).to_ring(sub))
    (step,) = runner(p).steps
    assert isinstance(step, Segment)
    assert {(s.start, s.length) for s in step.graph.steps if isinstance(s, Slice)} >= {(1, 2)}
    assert_same(p)


def test_equal_graphs_share_what_is_compiled():
    def graph(ring):
        x, y = poly(0, ring), poly(1, ring)
        p = plan((x * y + 1).rescale(ring.moduli[:2]))
        assert_same(p)
        (step,) = runner(p).steps
        assert isinstance(step, Segment)
        return step

    one, two = (graph(RingSpec(16, primes(16)[i : i + 4])) for i in (0, 4))
    assert one.graph == two.graph and one.tables != two.tables
    assert function_of(one.graph) is function_of(two.graph)


def test_the_least_recently_used_graph_goes(monkeypatch):
    monkeypatch.setattr(jax_executable, "MAX_GRAPHS", 1)
    steps = [runner(plan(poly() + c)).steps[0] for c in (1, poly(1))]
    graphs = [step.graph for step in steps if isinstance(step, Segment)]
    first = function_of(graphs[0])
    assert function_of(graphs[0]) is first
    function_of(graphs[1])
    assert function_of(graphs[0]) is not first


def test_no_table_is_a_literal():
    ring = RingSpec(4096, primes(4096)[-3:])
    p = plan((poly(0, ring) * poly(1, ring)).rotate(1))
    (step,) = runner(p).steps
    assert isinstance(step, Segment)
    read = tuple(tuple(map(jax.numpy.asarray, t.build())) for t in step.tables)
    with jax.enable_x64(True):
        lowered = jax.jit(lambda t, a: emit.emit_graph(step.graph, t, *a)).lower(read, arrays(p))
    assert 'dense<"0x' not in lowered.as_text()


@pytest.mark.long
@pytest.mark.parametrize("is_apart", [True, False])
def test_long_elementwise_runs_are_cut_where_kernels_are_inlined(monkeypatch, is_apart):
    if is_apart:
        assert apart.is_apart()
    else:
        monkeypatch.setattr(apart, "set_xla_metadata", None)
    x = y = poly(domain=Domain.NTT)
    for _ in range(MAX_FUSED):
        x, y = x * y + 1, x - y
    p = plan(x, y)
    steps = len(runner(p).steps)
    assert steps == 1 if is_apart else 3 <= steps <= 6
    assert_same(p)


def test_transforms_end_an_elementwise_run():
    x = poly()
    for i in range(MAX_FUSED // 4):
        x = (x + i).ntt() * 3
        x = (x + 1).intt()
    assert len(runner(plan(x)).steps) == 1


# ------------------------------------------------------------------- devices


def test_copies_divide_a_plan():
    p = plan((poly() + 1).to("cpu") * poly(1).to("cpu"))
    kinds = [isinstance(step, CopyUnit) for step in runner(p).steps]
    assert kinds == [False, True, True, False]
    assert_same(p)


def test_the_python_device_is_refused():
    x = poly()
    with pytest.raises(ren.errors.DeviceError, match="python device"):
        graph_runner(plan(x.to("python") + 1))
    p = plan((x + 1).to("python"))
    (made,) = assert_same(p)
    assert isinstance(made, np.ndarray)


def test_each_executable_is_recorded_by_a_trace():
    p = plan((poly() + 1).to("cpu") * 3)
    run = runner(p)
    with ren.trace() as trace:
        run(arrays(p))
    assert [r.name for r in trace.records] == [step.name for step in run.steps]
    assert all(r.seconds > 0 for r in trace.records)


FOUR_DEVICES = """
from functools import partial
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import ren
from ren import Poly, RingSpec
from ren.lowering.runtime.tiers.auto import AutoRunner
from ren.lowering.runtime.runner import interpret_plan, run_plan
from ren.lowering.runtime.runner import graph_runner
from tests.lowering.plans import arrays, plan

ring = RingSpec(8, (17, 97))
devices = jax.devices()
a, b = Poly(range(8), ring), Poly(range(1, 9), ring)

def f(x, y):
    z = x * y
    return z, (z + 1).to(devices[1]) * y.to(devices[1]), x.rotate(1).to(devices[2]), y - 1

for moved in (b, b.to(devices[0])):
    p = plan(*f(a, moved))
    want = run_plan(p, arrays(p))
    assert [x.device for x in want] == [devices[i] for i in (0, 1, 2, 0)], want
    for run in (graph_runner(p), partial(interpret_plan, p)):
        got = run(arrays(p))
        assert [x.device for x in got] == [x.device for x in want], (run, got)
        assert [x.committed for x in got] == [x.committed for x in want], (run, got)
        assert all(np.array_equal(x, y) for x, y in zip(got, want)), run

def g(x, y):
    return x + 1, y + 1

one = b.to(devices[3])
for tier in ("units", "graph", "eager"):
    x, y = ren.jit(tier=tier)(g)(a, one)
    assert x.device == devices[0] and not x.limbs.committed and y.device == devices[3], tier

sharding = NamedSharding(Mesh(np.array(devices), ("batch",)), PartitionSpec("batch"))
batch = jax.device_put(Poly(np.arange(64).reshape(8, 8), ring), sharding)
h = lambda x, y: (x * y + 1).rescale((97,)).rotate(3)
want = np.asarray(ren.jit(h)(batch, a).limbs)
for tier in ("graph", "eager"):
    got = ren.jit(tier=tier)(h)(batch, a).limbs
    assert got.sharding.is_equivalent_to(sharding, 3), (tier, got.sharding)
    assert np.array_equal(np.asarray(got), want), tier

ren.config.jit_speculate = True
compile = jax.stages.Lowered.compile
d = devices[0]
both = lambda x, y: [((x * y + 1).to(d).rotate(3) + y.to(d)) * 2, x + 1]
for function, args in ((h, (batch, a)), (both, (batch, a)), (f, (a, b)), (g, (a, one))):
    made = function(*args)
    p = plan(*made) if isinstance(made, tuple | list) else plan(made)
    auto, want = AutoRunner(p), run_plan(p, arrays(p))
    auto(arrays(p)), auto(arrays(p))
    assert auto.wait(60)
    jax.stages.Lowered.compile = None
    for _ in range(4):
        got = auto(arrays(p))
        assert all(np.array_equal(x, y) and x.sharding == y.sharding for x, y in zip(got, want))
    jax.stages.Lowered.compile = compile
    assert auto.telemetry.tiers[1].calls >= 2, auto.telemetry
"""


@pytest.mark.long
def test_several_devices():
    flags = "--xla_force_host_platform_device_count=4"
    root = str(Path(__file__).parent.parent.parent)
    env = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": root}
    command = [sys.executable, "-W", "error", "-c", FOUR_DEVICES]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, "a tier fell back"


# ------------------------------------------------------------------- encrypted programs

CKKS = {
    "product": lambda x, y: x * y,
    "rotation": lambda x, y: x.rotate(1),
    "sum": lambda x, y: x * y + x.rotate(1) - 0.5,
}


@pytest.fixture(scope="module")
def ciphertexts():
    context = ckks.context(params=ckks.Parameters.for_depth(1, n=1 << 6, security=None))
    yield context.encrypt(np.linspace(-1, 1, 8)), context.encrypt(np.linspace(0, 1, 8))
    assert context.key_id  # it holds the keys, and lives as long as the tests


@pytest.mark.parametrize("name", CKKS)
def test_ciphertexts(ciphertexts, name):
    x, y = ciphertexts
    CKKS[name](x, y).decrypt()  # makes the keys
    made = {tier: ren.jit(tier=tier)(CKKS[name])(x, y) for tier in ("units", "graph", "eager")}
    leaves = {tier: jax.tree.leaves(ct) for tier, ct in made.items()}
    for tier in ("graph", "eager"):
        for got, want in zip(leaves[tier], leaves["units"], strict=True):
            assert np.array_equal(np.asarray(got), np.asarray(want)), tier


@pytest.mark.long
def test_batches_of_ciphertexts_under_vmap(ciphertexts):
    x, y = ciphertexts
    both = jax.tree.map(lambda a, b: jax.numpy.stack([a, b]), x, y)
    squares = [
        jax.vmap(ren.jit(tier=tier)(lambda z: z * z))(both) for tier in ("units", "graph", "eager")
    ]
    for made in squares[1:]:
        for got, want in zip(jax.tree.leaves(made), jax.tree.leaves(squares[0]), strict=True):
            assert np.array_equal(np.asarray(got), np.asarray(want))


def test_key_switching():
    moduli = primes(64)[-6:]
    gadget = Gadget(64, (moduli[:2], moduli[2:4]), moduli[4:])
    s, t = make_secret(gadget.ring).poly, make_secret(gadget.ring).poly
    key = make_switching_key(s, t, gadget.factors, b"parameters", b"test", 3.2)
    c = poly(0, RingSpec(64, moduli[:4]), Domain.NTT)
    p = plan(*key_switch(c, key, gadget), *key_switch(c.rotate(1), key, gadget))
    assert len(runner(p).steps) == 1
    assert_same(p)
