"""ren.jit: keys, replay, the cache, closed-over polynomials, randomness and errors."""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections import namedtuple

import attrs
import jax
import numpy as np
import pytest

import ren
from ren import Poly, RingSpec
from ren.lowering.backends.xla import jax_executable
from ren.lowering.backends.xla.jax_executable import JaxExecutable

RING = RingSpec(n=8, moduli=(17, 97))
OTHER = RingSpec(n=8, moduli=(97, 113))
A, B = list(range(1, 9)), list(range(8, 0, -1))


def a(ring: RingSpec = RING) -> Poly:
    return Poly(A, ring)


def b(ring: RingSpec = RING) -> Poly:
    return Poly(B, ring)


def make_step():
    @ren.jit
    def step(x: Poly, y: Poly) -> Poly:
        return (x + y) * (x - 1)

    return step


def test_a_second_call_replays():
    step = make_step()
    assert ren.equal(step(a(), b()), (a() + b()) * (a() - 1))
    assert ren.equal(step(b(), a()), (a() + b()) * (b() - 1))
    assert step.cache_info() == ren.CacheInfo(1, 1, 1, 16, 0)


def test_the_function_runs_only_at_capture():
    calls = []

    @ren.jit
    def f(x):
        calls.append(1)
        return x * 2

    for _ in range(3):
        f(a())
    assert len(calls) == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda: Poly(A, OTHER),
        lambda: a().ntt(),
        lambda: a().to("python"),
        lambda: Poly.const(3, RING),
        lambda: Poly(np.ones((3, 8), int), RING),
    ],
    ids=["ring", "domain", "device", "constant", "batch"],
)
def test_what_makes_another_plan(other):
    square = ren.jit(lambda x: x * x + 1)
    square(a())
    for _ in range(2):
        x = other()
        assert ren.equal(square(x), x * x + 1)
    assert square.cache_info()[:3] == (1, 2, 2)


def test_constants_are_keyed_by_value():
    add = ren.jit(lambda x, c: x + c)
    for c in (7, 8, 7):
        assert add(a(), Poly.const(c, RING)).tolist() == (a() + c).tolist()
    assert add.cache_info()[:3] == (1, 2, 2)


def test_other_arguments_are_keyed_by_value():
    f = ren.jit(lambda x, mode: x + 1 if mode == "more" else x - 1)
    for mode in ("more", "less", "more"):
        assert f(a(), mode).tolist() == (a() + (1 if mode == "more" else -1)).tolist()
    assert f.cache_info()[:3] == (1, 2, 2)


def test_lazy_arguments_are_realized_at_the_boundary():
    step = make_step()
    x = a() * b()
    result = step(x, x + 1)
    assert x.is_realized
    assert ren.equal(result, (x + x + 1) * (x - 1))


def test_the_least_recently_used_plan_goes():
    f = ren.jit(max_plans=2)(lambda x: x + 1)
    rings = [RingSpec(4, (q,)) for q in (17, 41, 73)]
    x = [Poly([1, 2, 3, 4], ring) for ring in rings]
    f(x[0]), f(x[1]), f(x[0]), f(x[2]), f(x[0])
    assert f.cache_info() == ren.CacheInfo(hits=2, misses=3, plans=2, max_plans=2, evictions=1)
    f(x[1])
    assert f.cache_info().misses == 4


def test_clear_and_clear_jit():
    f, g = ren.jit(lambda x: x + 1), ren.jit(lambda x: x - 1)
    f(a()), g(a())
    f.clear()
    assert (f.cache_info().plans, g.cache_info().plans) == (0, 1)
    f(a())
    ren.clear_jit()
    assert (f.cache_info(), g.cache_info()) == (ren.CacheInfo(0, 0, 0, 16, 0),) * 2


@dataclasses.dataclass(frozen=True)
class Pair:
    left: Poly
    right: Poly
    note: str = ""


@attrs.frozen
class Box:
    inner: Pair


Named = namedtuple("Named", ["p", "q"])


def test_polynomials_are_found_in_structures():
    @ren.jit
    def f(d, *rest, named):
        total = d["pair"].inner.left * rest[0][1] - named.q
        return {"out": Box(Pair(total, named.p, "done")), "list": [total, 5, None]}

    args = {"pair": Box(Pair(a(), b(), "x"))}
    for _ in range(2):
        r = f(args, [0, b()], named=Named(a(), b()))
        assert isinstance(r["out"], Box)
        assert r["out"].inner.note == "done"
        assert ren.equal(r["out"].inner.left, a() * b() - b())
        assert ren.equal(r["out"].inner.right, a())
        assert ren.equal(r["list"][0], r["out"].inner.left)
        assert r["list"][1:] == [5, None]
    assert f.cache_info()[:3] == (1, 1, 1)


def test_closed_over_polynomials_are_inputs_of_the_plan():
    closed = a() * b()
    expected = a() * b()

    @ren.jit
    def f(x):
        return x + closed

    assert ren.equal(f(a()), a() + expected)
    closed = Poly.const(0, RING)  # rebinding the name changes nothing
    assert ren.equal(f(b()), b() + expected)
    (plan,) = f.plans
    assert len(plan.plan.inputs) == 2
    assert len(plan.plan.units) == 2  # x to NTT, and the sum: the product was made at capture


def test_replays_do_not_keep_their_inputs():
    f = ren.jit(lambda x: x * x)
    x = a().realize()
    f(x)
    kept = [i.arg for i in f.plans[0].plan.inputs]
    assert not any(hasattr(arg, "array") for arg in kept)


def test_feedback_and_fresh_results():
    step = make_step()
    x, first = a(), None
    expected = a()
    for _ in range(4):
        x = step(x, b())
        first = x if first is None else first
        expected = (expected + b()) * (expected - 1)
    assert ren.equal(x, expected)
    assert ren.equal(first, (a() + b()) * (a() - 1))


def test_a_result_that_is_an_argument_or_a_constant():
    f = ren.jit(lambda x: (x, Poly.const(4, x.ring), x + 0))
    for p in (a(), b()):
        same, constant, plus_zero = f(p)
        assert ren.equal(same, p)
        assert ren.equal(plus_zero, p)
        assert constant.is_constant
        assert constant.tolist() == [4, *[0] * 7]


def test_realize_inside_means_contiguous():
    @ren.jit
    def f(x):
        y = (x.ntt() + 1).realize()
        return y * x

    assert ren.equal(f(a()), (a() + 1) * a())
    assert ren.equal(f(b()), (b() + 1) * b())


def test_nested_functions_are_inlined():
    inner = make_step()
    outer = ren.jit(lambda x, y: inner(x, y) * 2)
    assert ren.equal(outer(a(), b()), (a() + b()) * (a() - 1) * 2)
    assert inner.cache_info().misses == 0


def test_randomness_is_drawn_anew_at_each_replay():
    f = ren.jit(lambda x: (x + Poly.uniform(RING), Poly.gaussian(RING) - Poly.gaussian(RING)))
    runs = [f(a()) for _ in range(3)]
    assert len({tuple(u.tolist()) for u, _ in runs}) == 3
    assert len({tuple(g.tolist()) for _, g in runs}) > 1
    assert any(c for _, g in runs for c in g.tolist())
    assert f.cache_info().plans == 1


def test_a_seeded_draw_is_part_of_the_program():
    f = ren.jit(lambda x: x + Poly.uniform(RING, seed=b"public"))
    assert f(a()).tolist() == f(a()).tolist() == (a() + Poly.uniform(RING, seed=b"public")).tolist()


def test_under_jax_transformations_it_is_inlined():
    step = make_step()
    batch = Poly(np.arange(24).reshape(3, 8), RING)
    mapped = jax.vmap(step)(batch, batch)
    assert ren.equal(mapped, (batch + batch) * (batch - 1))
    assert ren.equal(jax.jit(step)(a(), b()), (a() + b()) * (a() - 1))
    assert step.cache_info().misses == 0


def test_methods_and_wrapped_names():
    class Model:
        def __init__(self, weight):
            self.weight = weight

        @ren.jit
        def scale(self, x):
            """Scales."""
            return x * self.weight

    model = Model(3)
    assert ren.equal(model.scale(a()), a() * 3)
    assert Model.scale.__name__ == "scale"
    assert Model.scale.__doc__ == "Scales."


def test_the_python_device_replays_too():
    step = make_step()
    for _ in range(2):
        r = step(a().to("python"), b().to("python"))
        assert r.device == "python"
        assert ren.equal(r, (a() + b()) * (a() - 1))


def test_an_exception_inside_leaves_nothing_behind():
    fail = True

    @ren.jit
    def f(x):
        if fail:
            raise RuntimeError("mine")
        return x + 1

    with pytest.raises(RuntimeError, match="mine"):
        f(a())
    fail = False
    assert f.cache_info() == ren.CacheInfo(0, 0, 0, 16, 0)
    assert ren.equal(f(a()), a() + 1)


def test_two_threads_may_call_one_function():
    step = make_step()
    results: list[Poly] = []
    threads = [threading.Thread(target=lambda: results.append(step(a(), b()))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(ren.equal(r, (a() + b()) * (a() - 1)) for r in results)
    assert len(results) == 4


def test_threads_that_come_at_once_capture_once():
    begun, captures = threading.Barrier(4), []

    @ren.jit
    def slow(x: Poly) -> Poly:
        captures.append(x)
        time.sleep(0.2)
        return x * 2

    def call() -> None:
        x = a().realize()
        begun.wait()
        slow(x)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(captures) == 1
    assert slow.cache_info() == ren.CacheInfo(3, 1, 1, 16, 0)


def test_a_thread_that_waits_captures_where_the_first_failed():
    begun, results = threading.Barrier(2), []

    @ren.jit
    def once(x: Poly) -> Poly:
        results.append("captured")
        time.sleep(0.1)
        if results == ["captured"]:
            raise ValueError("not yet")
        return x * 2

    def call() -> None:
        x = a().realize()
        begun.wait()
        try:
            results.append(once(x))
        except ValueError:
            results.append("failed")

    threads = [threading.Thread(target=call) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results.count("failed") == 1
    assert ren.equal(results[-1], a() * 2) and once.cache_info().misses == 1


# ---------------------------------------------------------------- tiers

TIERS = ("units", "graph", "eager", "auto")


def mixed(x: Poly, y: Poly) -> tuple[Poly, Poly]:
    z = (x + y) * (x - 1)
    return z.rotate(3), z.rescale((97,)) + y.to_ring(RingSpec(8, (97,)))


@pytest.mark.parametrize("tier", TIERS)
def test_tiers_agree(tier):
    f = ren.jit(tier=tier)(mixed)
    batch = Poly(np.arange(24).reshape(3, 8), RING)
    for x, y in ((a(), b()), (b(), a()), (a().ntt(), b()), (batch, a()), (batch, batch)):
        for got, want in zip(f(x, y), mixed(x, y), strict=True):
            assert got.domain == want.domain and got.device == want.device
            assert np.array_equal(np.asarray(got.limbs), np.asarray(want.limbs))
    assert f.cache_info()[:3] == (1, 4, 4)


@pytest.mark.parametrize("tier", TIERS)
def test_tiers_under_jax_transformations(tier):
    f = ren.jit(tier=tier)(mixed)
    batch = Poly(np.arange(24).reshape(3, 8), RING)
    for run in (jax.vmap(f), jax.jit(f)):
        assert ren.equal(run(batch, batch)[0], mixed(batch, batch)[0])
    assert f.cache_info().misses == 0


@pytest.mark.parametrize("tier", TIERS)
def test_tiers_feed_back_close_over_and_draw(tier):
    closed = (a() * b()).realize()
    f = ren.jit(tier=tier)(lambda x: (x * x + closed, x + Poly.uniform(RING)))
    x, want, drawn = a(), a(), []
    for _ in range(3):
        x, noise = f(x)
        drawn.append(tuple(noise.tolist()))
        want = want * want + closed
    assert ren.equal(x, want)
    assert len(set(drawn)) == 3


def test_eager_runs_no_compiled_kernel(monkeypatch):
    want = [p.realize() for p in mixed(a(), b())]
    f = ren.jit(tier="eager")(mixed)
    x, y = a().realize(), b().realize()
    monkeypatch.setattr(JaxExecutable, "bind", None)
    monkeypatch.setattr(JaxExecutable, "traced", None)
    got = f(x, y)
    monkeypatch.undo()
    assert all(ren.equal(g, w) for g, w in zip(got, want, strict=True))


@pytest.mark.long
def test_a_graph_that_fails_falls_back_to_units_with_one_warning(monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("no compiler today\nand more")

    f = ren.jit(tier="graph")(mixed)
    monkeypatch.setattr(jax_executable, "graph_function", broken)
    with ren.config.update(native=False):
        for _ in range(3):
            assert ren.equal(f(a(), b())[0], mixed(a(), b())[0])
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("ren", "WARNING")
    assert record.getMessage().endswith("one executable: no compiler today")


def test_the_python_device_falls_back_to_units(caplog):
    f = ren.jit(tier="graph")(mixed)
    for _ in range(2):
        got = f(a().to("python"), b().to("python"))
        assert got[0].device == "python"
        assert ren.equal(got[0].to("cpu"), mixed(a(), b())[0])
    assert len(caplog.records) == 1


@pytest.mark.usefixtures("through_xla")
def test_what_fails_in_units_too_is_no_fault_of_the_graph(monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("the inputs are at fault")

    f = ren.jit(tier="graph")(mixed)
    x, y = a().realize(), b().realize()
    with monkeypatch.context() as patch:
        patch.setattr(JaxExecutable, "bind", broken)
        with pytest.raises(RuntimeError, match="at fault"):
            f(x, y)
    assert ren.equal(f(x, y)[0], mixed(x, y)[0])
    assert not caplog.records


def test_prune_computes_once_what_depends_on_no_argument():
    weight = Poly(B, RING)

    def f(x):
        noise = Poly.uniform(RING)
        return x * (weight * weight + 3), x.ntt() + noise - noise + weight.to_ring(RING)

    plain, pruned = ren.jit(f), ren.jit(prune=True)(f)
    for p in (a(), b()):
        for g in (plain, pruned):
            assert ren.equal(g(p)[0], p * (weight * weight + 3))
            assert ren.equal(g(p)[1], p + weight)
    before, after = plain.plans[0], pruned.plans[0]
    assert after.cost.multiply_adds < before.cost.multiply_adds
    assert sum(i.is_pruned for i in after.plan.inputs) == 1
    assert "pruned" in after.explain()
    assert (after.memory.pruned_bytes, before.memory.pruned_bytes) == (64, 0)
    assert after.memory.held_bytes == 128  # and the weight, for the sum
    assert before.memory.held_bytes == 64
    assert not any(i.is_pruned for i in before.plan.inputs)


def test_pruning_leaves_views_of_keys_alone():
    key, part = Poly(A, RING).ntt().realize(), RING.with_moduli((97,))
    f = ren.jit(prune=True)(lambda x: x * key.to_ring(part))
    x = Poly(B, part)
    assert ren.equal(f(x), x * key.to_ring(part))
    assert not any(i.is_pruned for i in f.plans[0].plan.inputs)


def test_a_result_that_depends_on_no_argument():
    for prune in (False, True):
        f = ren.jit(prune=prune)(lambda x: (x, Poly(B, RING) * Poly(B, RING)))
        for _ in range(2):
            assert ren.equal(f(a())[1], b() * b())


@pytest.mark.parametrize(
    "options",
    [{"static_argnames": "power"}, {"static_argnums": 1}, {"static_argnums": [-1]}],
    ids=str,
)
def test_static_arguments(options):
    @ren.jit(**options)
    def f(x, power=2):
        return x**power

    assert ren.equal(f(a(), 3), a() ** 3)
    assert ren.equal(f(a(), power=3), a() ** 3)
    assert ren.equal(f(a()), a() ** 2)
    with pytest.raises(ren.errors.JitError, match=r"'power' holds a polynomial"):
        f(a(), power=b())
    with pytest.raises(ren.errors.JitError, match="Leave out 'q'"):
        ren.jit(static_argnames=("power", "q"))(lambda x, power: x)


def test_djit_captures_anew():
    calls, factor = [], 2

    @ren.djit
    def f(x):
        """Doc."""
        calls.append(1)
        return x * factor

    assert ren.equal(f(a()), a() * 2)
    factor = 5
    assert ren.equal(f(a()), a() * 5)
    assert (len(calls), f.__doc__) == (2, "Doc.")
    assert ren.equal(jax.jit(f)(a()), a() * 5)
    with pytest.raises(ren.errors.JitError, match="without a polynomial"):
        f(3)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("tier", ["quick", "fast", None, 1, ("graph",)])
def test_tiers_are_checked(tier):
    with pytest.raises(ren.errors.JitError, match="tier=") as e:
        ren.jit(tier=tier)
    assert e.value.needed and e.value.do


def test_no_polynomial_among_the_arguments():
    with pytest.raises(ren.errors.JitError, match="called without a polynomial") as e:
        ren.jit(lambda x: x)(3)
    assert isinstance(e.value, ValueError)


def test_no_polynomial_among_the_results():
    with pytest.raises(ren.errors.JitError, match="returned no polynomial"):
        ren.jit(lambda x: 3)(a())


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.tolist(),
        lambda x: x.tobytes(),
        lambda x: np.asarray(x, np.int64),
        lambda x: x.limbs,
        lambda x: ren.equal(x, x),
        lambda x: jax.tree.leaves(x * 2),
    ],
    ids=["tolist", "tobytes", "asarray", "limbs", "equal", "tree"],
)
def test_values_are_refused_at_capture_and_the_line_is_named(ask):
    with pytest.raises(ren.errors.TracedValueError, match=r"test_jit\.py:\d+"):
        ren.jit(lambda x: ask(x) and x)(a())


def test_truth_is_refused():
    with pytest.raises(ren.errors.TracedValueError, match="truth value"):
        ren.jit(lambda x: x if x else x + 1)(a())


def test_a_polynomial_that_escapes_the_capture_is_told():
    escaped = []

    @ren.jit
    def f(x):
        escaped.append(x * 2)
        return x

    f(a())
    with pytest.raises(ren.errors.TracedValueError, match="symbolic"):
        escaped[0].tolist()


def test_unhashable_arguments_are_told():
    class Odd:
        __hash__ = None

    with pytest.raises(ren.errors.JitError, match="hashable"):
        ren.jit(lambda x, o: x)(a(), Odd())


@pytest.mark.parametrize("max_plans", [0, -1, 2.5, "many"])
def test_max_plans_is_checked(max_plans):
    with pytest.raises(ren.errors.JitError, match="max_plans"):
        ren.jit(max_plans=max_plans)


def test_only_functions_are_jitted():
    with pytest.raises(ren.errors.JitError, match="decorates a function"):
        ren.jit(3)
    with pytest.raises(ren.errors.JitError, match="decorates a function"):
        ren.jit(max_plans=2)(3)


def test_two_devices_are_told():
    with pytest.raises(ren.errors.DeviceError, match="two devices"):
        ren.jit(lambda x, y: x + y)(a(), b().to("python"))


def test_generators_are_told():
    @ren.jit
    def total(x, terms):
        return sum(terms, x)

    with pytest.raises(ren.errors.JitError, match="list"):
        total(a(), (p for p in [b(), b()]))
    with pytest.raises(ren.errors.JitError, match="list"):
        total(a(), map(lambda p: p, [b()]))
    with pytest.raises(ren.errors.JitError, match="list"):
        ren.jit(lambda x: (x, (x for _ in range(2))))(a())

    def steps(x):
        yield x

    async def later(x):
        return x

    for wrong in (steps, later):
        with pytest.raises(ren.errors.JitError, match="generator or a coroutine"):
            ren.jit(wrong)
    assert total.cache_info()[:3] == (0, 0, 0)


def test_recapture_for_a_constant_alone_warns_once_at_the_eighth():
    add = ren.jit(lambda x, c: x + c)
    for c in range(7):
        add(a(), Poly.const(c, RING))
    with pytest.warns(ren.errors.RecaptureWarning, match=r"(?s)captured 8 times.*contiguous") as w:
        add(a(), Poly.const(7, RING))
    assert w[0].filename == __file__
    add(a(), Poly.const(8, RING))
    fresh = ren.jit(lambda x, c: x + c)
    for c in range(10):
        fresh(a(), Poly.const(c, RING).contiguous().realize())
        fresh(a(), c)
    assert fresh.cache_info()[:2] == (18, 2)


def test_without_jit_each_call_is_captured():
    f = ren.jit(lambda x, k: x.rotate(k))
    with ren.config.update(jit=False):
        for k in (1, 2, 1):
            assert ren.equal(f(a(), k), a().rotate(k))
    assert f.cache_info()[:3] == (0, 0, 0)


def test_what_happens_is_logged(caplog):
    caplog.set_level("INFO", logger="ren")
    f = ren.jit(max_plans=1)(lambda x, y: x + y)
    f(a(), b())
    f(Poly(A, OTHER), Poly(B, OTHER))
    lines = [r.getMessage() for r in caplog.records]
    assert sum("captured" in line for line in lines) == 2
    assert sum("goes" in line for line in lines) == 1


def test_djit_takes_options(capsys):
    shown = ren.djit(show_graph=True, auto_device=False)(lambda x, k: x.rotate(k) * k)
    for k in (1, 2):
        assert ren.equal(shown(a(), k), a().rotate(k) * k)
    assert capsys.readouterr().out.count("captured:") == 2


def test_donation_of_keyword_arguments_without_a_name():
    f = ren.jit(donate_argnames="more")(lambda x, **more: x + more["y"])
    x, y = a(), b()
    assert ren.equal(f(x, y=y), a() + b())
    with pytest.raises(ren.errors.DonatedBufferError):
        y.tolist()
    assert x.tolist() == A


def test_arrays_among_the_results_are_fresh():
    f = ren.jit(lambda x: (x, np.arange(3)))
    f(a())[1][0] = 99
    assert list(f(a())[1]) == [0, 1, 2]


@pytest.mark.parametrize(
    ("one", "other"),
    [(0.0, -0.0), ((1,), (True,)), ((1, (2.0,)), (1, (2,))), (frozenset([1]), frozenset([1.0]))],
)
def test_static_values_that_are_equal_and_not_the_same(one: object, other: object):
    shown = ren.jit(static_argnames="k")(lambda x, k: (x * 2, repr(k)))
    assert shown(a(), one)[1] == repr(one)
    assert shown(a(), other)[1] == repr(other)
    plain = ren.jit(lambda x, k: (x * 2, repr(k)))
    if not isinstance(one, float | tuple):  # numbers that are not static are symbolic
        assert plain(a(), one)[1] == repr(one)
        assert plain(a(), other)[1] == repr(other)


def test_not_a_number_is_one_static_value():
    f = ren.jit(static_argnames="k")(lambda x, k: x * 2)
    f(a(), float("nan"))
    f(a(), float("nan"))
    assert f.cache_info().misses == 1


def test_what_another_capture_left_behind_is_told():
    left: list[Poly] = []
    ren.jit(lambda x: (left.append(x * 2), x)[1])(a())
    with pytest.raises(ren.errors.TracedValueError, match="symbolic"):
        ren.jit(lambda x: x * left[0])(a())


LIST, DICT, ARRAY = [2, 3], {"k": 2}, np.array([2, 3])


@pytest.mark.parametrize(
    "value", [LIST, DICT, ARRAY, (LIST, 1)], ids=["list", "dict", "array", "in"]
)
@pytest.mark.parametrize("is_named", [False, True])
def test_a_default_that_changes_in_place_is_read_anew(value, is_named):
    def by_place(x, w=value):
        return x * first(w)

    def by_name(x, *, w=value):
        return x * first(w)

    def first(w):
        return int((w[0] if isinstance(w, tuple) else w)["k" if isinstance(w, dict) else 0])

    f = by_name if is_named else by_place
    g = ren.jit(f)
    place = value[0] if isinstance(value, tuple) else value
    key = "k" if isinstance(value, dict) else 0
    for number in (2, 5, 2):
        place[key] = number
        assert ren.equal(g(a()), a() * number)
    assert g.cache_info().misses == 2 and g.cache_info().hits == 1


def test_a_default_that_holds_polynomials_counts_by_identity():
    held = [a()]

    @ren.jit
    def f(x, ps=held):
        return x + ps[0]

    assert ren.equal(f(b()), a() + b())
    held[0] = b()
    assert ren.equal(f(b()), b() + b())
    held.append(a())
    assert ren.equal(f(b()), b() + b()) and f.cache_info().misses == 3


def test_an_argument_that_holds_itself():
    p = [a()]
    p.append(p)
    with pytest.raises(ren.errors.JitError, match="holds itself"):
        ren.jit(lambda q: q[0] * 2)(p)


def _wrapped(wrapper):
    return functools.wraps(_shifted)(wrapper)


def _shifted(x, k):
    return x.shift(k)


@pytest.mark.parametrize(
    ("wrapper", "call"),
    [
        (lambda *args, **kwargs: _shifted(*args, **kwargs), lambda f, x: f(x, k=2)),
        (lambda x, **kwargs: _shifted(x, **kwargs), lambda f, x: f(x, k=2)),
        (lambda x, **kwargs: _shifted(x, **kwargs), lambda f, x: f(k=2, x=x)),
        (lambda *args: _shifted(*args), lambda f, x: f(x, 2)),
        (lambda a, b: _shifted(a, b), lambda f, x: f(x, 2)),
    ],
)
def test_static_arguments_go_through_wrappers_as_they_are_passed(wrapper, call):
    ring = RingSpec(n=8, moduli=(97,))
    f, x = ren.jit(_wrapped(wrapper), static_argnames="k"), Poly(range(8), ring)
    for _ in range(2):
        assert call(f, x).tolist() == [91, 90, 0, 1, 2, 3, 4, 5]
    assert f.cache_info()[:2] == (1, 1)
    with pytest.raises(ren.errors.JitError, match=r"functools\.wraps"):
        ren.jit(lambda *args: _shifted(*args), static_argnames="k")
