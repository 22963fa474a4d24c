"""ren.jit among JAX's transformations, threads, shardings, and the ways to write a function."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, PartitionSpec

import ren
from ren import Domain, Poly, RingSpec

ROOT = Path(__file__).resolve().parents[1]
RING = RingSpec(n=8, moduli=(17, 97))
LOW = RingSpec(n=8, moduli=(97,))
TIERS = ("units", "graph")


def poly(seed: int = 0, batch: tuple[int, ...] = (), ring: RingSpec = RING) -> Poly:
    """Random coefficients."""
    rng = np.random.default_rng(seed)
    return Poly(rng.integers(0, ring.q, (*batch, ring.n)), ring)


def mixed(x: Poly, y: Poly) -> tuple[Poly, Poly]:
    """Two results, in two rings."""
    z = (x + y) * (x - 1)
    return z.rotate(3) - y, z.rescale(LOW.moduli)


def step(x: Poly, y: Poly) -> Poly:
    """A result of the type of x, as loops need it."""
    return (x * y - 1).intt()


def same(got, want) -> bool:
    """Equal structure, domains and limbs, bit for bit."""
    got, want = jax.tree.flatten(got), jax.tree.flatten(want)
    pairs = zip(got[0], want[0], strict=True)
    return got[1] == want[1] and all(np.array_equal(g, w) for g, w in pairs)


def element(value, i: int):
    """Element i of a batch."""
    return jax.tree.map(lambda leaf: leaf[i], value)


@pytest.fixture(params=TIERS)
def tier(request):
    return request.param


@pytest.fixture
def jitted(tier):
    """`jitted(f)`: under ren.jit, in each tier."""
    return ren.jit(tier=tier)


# ------------------------------------------------------------------- transformations
# Under a trace a jitted function is inlined: its tier is of no account there.


def test_vmap():
    f, x, y = ren.jit(mixed), poly(0, (3,)), poly(1, (3,))
    got = jax.vmap(f)(x, y)
    for i in range(3):
        assert same(element(got, i), mixed(element(x, i), element(y, i)))
    assert f.cache_info().misses == 0


def test_vmap_with_axes():
    f, x, y = ren.jit(step), poly(0, (3,)), poly(1)
    assert same(jax.vmap(f, in_axes=(0, None))(x, y), step(x, y))
    assert same(jax.vmap(f, in_axes=(None, 0))(y, x), step(y, x))
    x, y = poly(0, (2, 3)), poly(1, (2, 3))
    assert same(jax.vmap(jax.vmap(f))(x, y), step(x, y))
    assert same(jax.vmap(f, in_axes=1, out_axes=1)(x, y), step(x, y))


def test_jax_jit_around_it():
    f = ren.jit(mixed)
    outer = jax.jit(lambda x, y: f(*f(x, y)[:1], y))
    for i in range(2):
        x, y = poly(i), poly(i + 1)
        assert same(outer(x, y), mixed(mixed(x, y)[0], y))
    assert f.cache_info() == ren.CacheInfo(0, 0, 0, 16, 0)


def test_ahead_of_time_compilation():
    x, y = poly(), poly(1)
    compiled = jax.jit(ren.jit(step)).lower(x, y).compile()
    assert same(compiled(y, x), step(y, x))


def test_scan():
    f, x, ys = ren.jit(step), poly(), poly(1, (4,))

    def body(carry: Poly, y: Poly) -> tuple[Poly, Poly]:
        carry = f(carry, y)
        return carry, carry + y

    last, sums = lax.scan(body, x, ys)
    want = x
    for i in range(4):
        want = step(want, element(ys, i))
        assert same(element(sums, i), want + element(ys, i))
    assert same(last, want)
    assert f.cache_info().misses == 0


def test_cond_and_switch():
    add, mul = ren.jit(lambda x, y: x + y), ren.jit(lambda x, y: (x * y).intt())
    x, y = poly(), poly(1)
    wanted = (x + y, (x * y).intt(), x)
    conditional = jax.jit(lambda flag, *p: lax.cond(flag, add, mul, *p))
    for flag, want in zip((True, False), wanted, strict=False):
        assert same(lax.cond(flag, add, mul, x, y), want)
        assert same(conditional(flag, x, y), want)
    for i, want in enumerate(wanted):
        assert same(lax.switch(i, [add, mul, lambda x, _: x], x, y), want)


def test_loops():
    f, x, y = ren.jit(step), poly(), poly(1)
    want = step(step(step(x, y), y), y)
    assert same(lax.fori_loop(0, 3, lambda _, p: f(p, y), x), want)
    start = (jnp.int32(0), x)
    done = lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, f(s[1], y)), start)
    assert same(done[1], want)
    batch = poly(0, (3,))
    assert same(lax.map(lambda p: f(p, y), batch), step(batch, y))


@pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
def test_no_tracer_outlives_its_trace(x64):
    f, x, y = ren.jit(step), poly(), poly(1)
    with jax.enable_x64(x64), jax.checking_leaks():
        outer = jax.jit(lambda x, y: lax.scan(lambda c, _: (f(c, y), None), x, length=2)[0])
        assert same(outer(x, y), step(step(x, y), y))


def test_eval_shape_tells_the_shape_and_no_value():
    made = jax.eval_shape(lambda x: x * x, poly(0, (5,)))
    assert made.shape == (5, 2, 8)
    with pytest.raises(ren.errors.DomainError, match="call f with a polynomial"):
        made.tolist()


@pytest.mark.parametrize("batch", [(), (5,), (2, 3)], ids=str)
def test_programs_of_shapes_alone_are_those_of_polynomials(batch):
    x = poly(0, batch)
    for abstract in (ren.spec(RING, batch=batch), jax.eval_shape(lambda p: p, x)):
        assert "ShapeDtypeStruct" in repr(abstract) and abstract.shape == x.shape
        assert ren.xpr(mixed, abstract, x) == ren.xpr(mixed, x, x)
        assert (
            ren.stages(mixed, x, abstract)["limb_program"]
            == ren.stages(mixed, x, x)["limb_program"]
        )
        assert jax.eval_shape(mixed, abstract, x)[0].shape == jax.eval_shape(mixed, x, x)[0].shape
    in_ntt = ren.spec(RING, ren.Domain.NTT, batch)
    assert "NTT" not in ren.xpr(lambda p: p * p, in_ntt) and not jax.tree.leaves(in_ntt)[0].sharding


def test_what_is_no_shape_of_a_polynomial_is_told():
    for wrong in (
        lambda: ren.spec(8),
        lambda: ren.spec(RING, "coeff"),
        lambda: ren.spec(RING, batch=(-1,)),
        lambda: ren.xpr(
            mixed, jax.tree.map(lambda a: jax.ShapeDtypeStruct((3, 8), a.dtype), poly(0)), poly(1)
        ),
        lambda: ren.jit(mixed)(ren.spec(RING), poly(1)),
    ):
        with pytest.raises((ren.errors.DomainError, ren.errors.RingError)):
            wrong()


def test_batches_of_no_polynomials_have_shapes():
    empty = ren.spec(RING, batch=(0,))
    assert empty.shape == (0, 2, 8) and "batch=(0,)" in ren.xpr(lambda p: p * p, empty)


def test_eval_shape_runs_nothing():
    f, x, y = ren.jit(mixed), poly(0, (5,)), poly(1)
    first, second = jax.eval_shape(f, x, y)
    assert (first.ring, second.ring) == (RING, LOW)
    leaves = jax.tree.leaves((first, second))
    assert [leaf.shape for leaf in leaves] == [(5, 2, 8), (5, 1, 8)]
    assert {leaf.dtype.name for leaf in leaves} == {"uint32"}
    assert (first.domain, second.domain) == tuple(p.domain for p in mixed(x, y))
    assert repr(second) == "Poly(n=8, 1 limb, log2(q)=6.6, ntt, holding ShapeDtypeStruct)"
    assert "holding ShapeDtypeStruct" in second._repr_html_()
    assert f.cache_info().misses == 0


def test_inside_a_trace_of_other_things():
    """Where nothing of the arguments is traced it is inlined too: nothing is kept of it."""
    f, x, y = ren.jit(step), poly(), poly(1)
    doubled, made = jax.jit(lambda a: (a * 2, f(x, y)))(jnp.ones(3))
    assert same(made, step(x, y)) and doubled.sum() == 6
    assert f.cache_info().misses == 0
    assert same(f(x, y), step(x, y))


def test_shard_map_leaves_nothing_traced_behind():
    """Tables and values that are first made inside it are concrete, and of use outside."""
    ring, over = RingSpec(8, (113, 193)), PartitionSpec("batch")
    shared, mesh = poly(0, ring=ring) * poly(1, ring=ring), Mesh(jax.devices()[:1], ("batch",))
    f = ren.jit(lambda x: (x * shared).rotate(1) + shared.realize())
    mapped = jax.shard_map(f, mesh=mesh, in_specs=over, out_specs=over)
    batch = poly(2, (3,), ring)
    for run in (mapped, jax.jit(mapped), f):
        assert same(run(batch), (batch * shared).rotate(1) + shared)
    assert shared.is_realized and ren.equal(shared, poly(1, ring=ring) * poly(0, ring=ring))
    assert f.cache_info()[:3] == (0, 1, 1)


SETTINGS = {
    "64 bits": lambda: jax.enable_x64(True),
    "strict promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "debugged": lambda: jax.debug_nans(True),
    "no transfers": lambda: jax.transfer_guard("disallow"),
    "a mesh": lambda: jax.set_mesh(jax.make_mesh((1,), ("batch",))),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_jax_change_no_replay(jitted, setting):
    f, x, y = jitted(step), poly(0, (3,)).realize(), poly(1).realize()
    want = f(x, y)
    with SETTINGS[setting]():
        made = f(x, y)
    assert same(made, want)
    assert f.cache_info()[:3] == (1, 1, 1)


def test_results_go_on_into_jax(jitted):
    made = jax.block_until_ready(jitted(mixed)(poly(), poly(1)))
    assert same(jax.device_put(made, jax.devices()[0]), mixed(poly(), poly(1)))
    doubled = jax.tree.map(lambda p: p + p, made, is_leaf=lambda v: isinstance(v, Poly))
    assert same(doubled[1], mixed(poly(), poly(1))[1] * 2)


@pytest.mark.parametrize("shapes", [((3,), ()), ((2, 1), (3,))], ids=str)
def test_batches(jitted, shapes):
    f = jitted(step)
    x, y = (poly(i, shape) for i, shape in enumerate(shapes))
    for _ in range(3):
        assert same(f(x, y), step(x, y))
    assert f.cache_info()[:3] == (2, 1, 1)
    assert f(x, y).shape[:-2] == np.broadcast_shapes(*shapes)


SHARDED = """
import jax, numpy as np, ren
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from ren import Poly, RingSpec
from tests.test_jit_with_jax import TIERS, mixed, poly, same, step

devices = np.array(jax.devices())
assert devices.size == 4
line, square = Mesh(devices, ("batch",)), Mesh(devices.reshape(2, 2), ("a", "b"))
x, y, one = poly(0, (8,)), poly(1, (8,)), poly(2)
grid = poly(3, (2, 4))
over = NamedSharding(line, P("batch"))
cases = [
    (x, over, y, over),
    (x, over, one, None),
    (grid, NamedSharding(square, P("a", "b")), one, None),
]
for number, (u, over_u, v, over_v) in enumerate(cases):
    want = step(u, v)
    put_u = jax.device_put(u, over_u)
    put_v = v if over_v is None else jax.device_put(v, over_v)
    for tier in TIERS:
        f = ren.jit(tier=tier)(step)
        assert same(f(u, v), want), (number, tier)
        x = put_u
        for _ in range(2):
            x = f(x, put_v)
            assert x.limbs.sharding.is_equivalent_to(over_u, x.limbs.ndim), (number, tier)
            assert len(x.limbs.addressable_shards) == 4
        assert same(x, step(want, v)), (number, tier)
        assert f.cache_info()[:3] == (1, 2, 2), (number, tier, f.cache_info())

put_x, put_y = jax.device_put((poly(0, (8,)), one), (over, NamedSharding(line, P())))
for tier in TIERS:
    got = ren.jit(tier=tier)(mixed)(put_x, put_y)
    assert same(got, mixed(poly(0, (8,)), one)), tier
    assert all(p.limbs.sharding.is_equivalent_to(over, 3) for p in got), tier

x, y = poly(0, (8,)), poly(1, (8,))
put_x, put_y = jax.device_put((x, y), over)
f = ren.jit(step)
mapped = jax.shard_map(f, mesh=line, in_specs=P("batch"), out_specs=P("batch"))
for outer in (mapped, jax.jit(mapped), jax.jit(jax.vmap(f))):
    got = outer(put_x, put_y)
    assert same(got, step(x, y)), outer
    assert got.limbs.sharding.is_equivalent_to(over, 3), outer

for tier in TIERS:
    f = ren.jit(tier=tier)(step)
    assert f(x.to(devices[3]), one.to(devices[3])).device == devices[3], tier
    try:
        f(x.to(devices[1]), one.to(devices[2]))
    except ren.errors.DeviceError as error:
        assert "cpu:1" in str(error) and "cpu:2" in str(error), error
    else:
        raise AssertionError("two devices in one call")
"""


def run_on_four_devices(program: str) -> None:
    flags = "--xla_force_host_platform_device_count=4"
    env = {**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, "a tier fell back"


@pytest.mark.slow
def test_a_batch_over_four_devices():
    run_on_four_devices(SHARDED)


# ------------------------------------------------------------------- threads


def in_threads(count: int, f) -> list:
    """`f(0)`, `f(1)`, ... at once, one thread each; raises what one of them raised."""
    start, results, errors = threading.Barrier(count), [None] * count, []

    def run(i: int) -> None:
        start.wait()
        try:
            results[i] = f(i)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    return results


def test_threads_replay_one_function_on_different_arguments(jitted):
    f = jitted(step)
    polys = [poly(i).realize() for i in range(9)]
    f(polys[0], polys[1])
    for _ in range(5):
        got = in_threads(8, lambda i: f(polys[i], polys[i + 1]))
        assert all(same(g, step(polys[i], polys[i + 1])) for i, g in enumerate(got))
    assert f.cache_info()[:3] == (40, 1, 1)


def test_first_calls_at_once(jitted):
    for _ in range(5):
        f = jitted(step)
        polys = [poly(i).realize() for i in range(9)]
        got = in_threads(8, lambda i, f=f, polys=polys: f(polys[i], polys[i + 1]))
        assert all(same(g, step(polys[i], polys[i + 1])) for i, g in enumerate(got))
        info = f.cache_info()
        assert (info.hits + info.misses, info.plans) == (8, 1)


def test_threads_with_different_specs_and_a_small_cache(tier):
    shapes = [(), (3,), (2, 3)]
    options = {"tier": tier, "max_plans": 2}
    f = ren.jit(**options)(step)
    polys = [poly(i, shapes[i % 3]).realize() for i in range(8)]
    for _ in range(3):
        got = in_threads(8, lambda i: f(polys[i], polys[i]))
        assert all(same(g, step(polys[i], polys[i])) for i, g in enumerate(got))
    assert f.cache_info().plans == 2


def test_threads_share_lazy_arguments(jitted):
    """The argument of all is lazy: whoever comes first computes it."""
    f = jitted(step)
    for seed in range(5):
        x, y = poly(seed) * poly(seed + 1), poly(seed + 2)
        got = in_threads(8, lambda i, x=x, y=y: f(x + i, y))
        assert all(same(g, step(x + i, y)) for i, g in enumerate(got))


def test_threads_that_capture_do_not_see_each_other(jitted):
    """A thread that computes while another captures does not become part of its program."""
    captured, computed = threading.Event(), threading.Event()

    def slow(x: Poly) -> Poly:
        captured.set()
        assert computed.wait(60)
        return x * x + 1

    f, results = jitted(slow), []
    thread = threading.Thread(target=lambda: results.append(f(poly())))
    thread.start()
    assert captured.wait(60)
    assert (poly(1) * 2).tolist() == (poly(1) + poly(1)).tolist()
    assert same(jitted(step)(poly(), poly(1)), step(poly(), poly(1)))
    computed.set()
    thread.join()
    assert same(results[0], poly() * poly() + 1)


# ------------------------------------------------------------------- ways to write a function


def test_a_function_that_calls_itself(tier):
    @ren.jit(tier=tier, static_argnames="depth")
    def tower(x: Poly, depth: int) -> Poly:
        return x if depth == 0 else tower(x * x + 1, depth - 1) - x

    def plain(x: Poly, depth: int) -> Poly:
        return x if depth == 0 else plain(x * x + 1, depth - 1) - x

    for depth in (3, 0, 1, 3):
        assert ren.equal(tower(poly(), depth), plain(poly(), depth))
    assert tower.cache_info()[:3] == (1, 3, 3)


def test_functions_that_call_each_other(jitted):
    inner = jitted(step)
    outer = jitted(lambda x, y: inner(inner(x, y), y) + y)
    for i in range(2):
        x, y = poly(i), poly(i + 1)
        assert ren.equal(outer(x, y), step(step(x, y), y) + y)
    assert inner.cache_info().misses == 0
    assert outer.cache_info()[:3] == (1, 1, 1)
    assert ren.equal(inner(poly(), poly(1)), step(poly(), poly(1)))


def test_methods(jitted):
    class Model:
        def __init__(self, factor: int) -> None:
            self.factor, self.weight = factor, poly(factor)

        @jitted
        def score(self, x: Poly, shift: int = 1) -> Poly:
            return x * self.weight + self.factor * shift

        @classmethod
        @jitted
        def made(cls, x: Poly) -> Poly:
            return x + len(cls.__name__)

        @staticmethod
        @jitted
        def negated(x: Poly) -> Poly:
            return -x

    one, two = Model(1), Model(2)
    for model in (one, two, one):
        assert ren.equal(model.score(poly()), poly() * model.weight + model.factor)
        assert ren.equal(model.score(poly(), shift=3), poly() * model.weight + 3 * model.factor)
        assert ren.equal(model.negated(poly()), -poly())
        assert ren.equal(Model.made(poly()), poly() + 5)


def test_partial(jitted):
    def f(a: Poly, b: Poly, c: Poly) -> Poly:
        return a * b - c

    x, y, z = poly(), poly(1), poly(2)
    bound = jitted(functools.partial(f, x))
    for u, v in ((y, z), (z, y)):
        assert ren.equal(bound(u, v), f(x, u, v))
        assert ren.equal(bound(u, c=v), f(x, u, v))
    around = functools.partial(jitted(f), x, c=z)
    assert ren.equal(around(y), f(x, y, z))
    assert ren.equal(around(z, c=y), f(x, z, y))


def test_callable_objects_and_lambdas(jitted):
    class Twice:
        def __call__(self, x: Poly) -> Poly:
            return x + x

    assert ren.equal(jitted(Twice())(poly()), poly() * 2)
    assert ren.equal(jitted(lambda *, x: x + x)(x=poly()), poly() * 2)


def test_default_and_keyword_arguments(jitted):
    shift = poly(3)

    @jitted
    def f(x: Poly, y: Poly = shift, /, *more: Poly, scale: Poly | None = None, **named: Poly):
        total = x - y
        for p in (*more, *named.values()):
            total = total * p
        return total if scale is None else total + scale

    x, y, z = poly(), poly(1), poly(2)
    for _ in range(2):
        assert ren.equal(f(x), x - shift)
        assert ren.equal(f(x, y), x - y)
        assert ren.equal(f(x, y, z, x), (x - y) * z * x)
        assert ren.equal(f(x, y, scale=z), x - y + z)
        assert ren.equal(f(x, y, a=z, b=y), (x - y) * z * y)
    assert f.cache_info()[:3] == (5, 5, 5)


# ------------------------------------------------------------------- what goes wrong


class MineError(Exception):
    pass


@pytest.mark.parametrize("when", ["before", "after", "in a nested function", "in a trace"])
def test_an_exception_leaves_nothing_half_captured(jitted, when):
    fails, x, y = [True], poly(), poly(1)

    def check(stage: str) -> None:
        if fails[0] and stage == when:
            raise MineError(stage)

    @jitted
    def nested(p: Poly) -> Poly:
        check("in a nested function")
        return p * p

    @jitted
    def f(p: Poly, q: Poly) -> Poly:
        check("before")
        made = nested(p) + q
        check("after")
        check("in a trace")
        return made

    for _ in range(3):
        with pytest.raises(MineError, match=when):
            (jax.jit(f) if when == "in a trace" else f)(x, y)
        assert f.cache_info() == nested.cache_info() == ren.CacheInfo(0, 0, 0, 16, 0)
        assert f.plans == ()
        assert (x * y).tolist() == (y * x).tolist()  # values can be asked for again
        assert x.domain is Domain.COEFF and x.is_realized
    fails[0] = False
    for _ in range(2):
        assert ren.equal(f(x, y), x * x + y)
    assert f.cache_info()[:3] == (1, 1, 1)


def test_an_exception_in_one_call_leaves_other_plans_alone(jitted):
    @jitted
    def f(x: Poly) -> Poly:
        if len(x.shape) == 3:
            raise MineError
        return x + 1

    f(poly())
    for _ in range(2):
        with pytest.raises(MineError):
            f(poly(0, (2,)))
    assert ren.equal(f(poly(5)), poly(5) + 1)
    assert f.cache_info()[:3] == (1, 1, 1)


def test_lazy_arguments_survive_an_exception(jitted):
    x = poly() * poly(1)

    @jitted
    def f(p: Poly) -> Poly:
        p.realize()
        raise MineError

    with pytest.raises(MineError):
        f(x)
    assert ren.equal(x, poly() * poly(1))


def test_a_tracer_that_escaped_is_told(jitted):
    """A polynomial of a finished trace, closed over, is told."""
    kept: list[Poly] = []
    jax.jit(lambda p: (kept.append(p), p)[1])(poly())
    f = jitted(lambda x: x + kept[0])
    for _ in range(2):
        with pytest.raises(ren.errors.TracedValueError, match=r"closes over .* transformation"):
            f(poly())
    assert f.cache_info().plans == 0
