"""What guides to compilers of this kind warn of: here each is an error that helps, or right.

Tests of other files stand for the rest; `docs/seeds.md` is a table of all.
"""

from __future__ import annotations

import dataclasses
import gc
import os
import re
import subprocess
import sys
import types
import weakref
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import ren
from ren import Domain, Poly, RingSpec
from ren.core.errors import (
    CoefficientTypeError,
    DonatedBufferError,
    JitError,
    RenError,
    TracedValueError,
    UnknownSettingError,
)

ROOT = Path(__file__).resolve().parents[1]
RING = RingSpec(n=8, moduli=(17, 97))
A, B = list(range(1, 9)), list(range(8, 0, -1))


def a() -> Poly:
    return Poly(A, RING)


def b() -> Poly:
    return Poly(B, RING)


def equations(program: str) -> int:
    """How many lines of an xpr compute something."""
    return program.count(" = ")


# ---------------------------------------------------------------- how it is written


def test_a_call_a_decorator_and_a_decorator_with_options():
    def double(x: Poly) -> Poly:
        """Twice x."""
        return x * 2

    called, decorated = ren.jit(double), ren.jit(max_plans=2)(double)
    for f in (called, decorated):
        assert ren.equal(f(a()), a() * 2)
        assert ren.equal(f(x=b()), b() * 2)
        assert (f.__name__, f.__doc__) == ("double", "Twice x.")
    assert (called.cache_info().max_plans, decorated.cache_info().max_plans) == (16, 2)


def test_the_function_may_be_given_by_the_name_func():
    tripled = [v * 3 % RING.q for v in A]
    jitted, anew = ren.jit(func=lambda x: x * 3, max_plans=2), ren.djit(func=lambda x: x * 3)
    assert jitted(a()).tolist() == anew(a()).tolist() == tripled
    assert jitted.cache_info().max_plans == 2
    decorate = ren.jit(func=None, max_plans=3)
    assert decorate(lambda x: x * 3)(a()).tolist() == tripled
    with pytest.raises(JitError, match="got an int"):
        ren.djit(func=3)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("lower", "ren.stages(f, x)"),
        ("lower", "f.plans[0].explain()"),
        ("trace", "ren.xpr(f, x)"),
        ("cache_clear", "f.clear()"),
    ],
)
def test_attributes_of_other_jits_name_the_call(name, call):
    class Model:
        @ren.jit
        def step(self, x: Poly) -> Poly:
            return x * 3

    f = ren.jit(lambda x: x * 3)
    for jitted in (f, Model().step):
        with pytest.raises(AttributeError) as e:
            getattr(jitted, name)
        assert isinstance(e.value, RenError) and call in e.value.do and name in e.value.given
        assert not hasattr(jitted, name) and getattr(jitted, name, 17) == 17
    assert callable(f) and f(a()).tolist() == [v * 3 for v in A]


def test_clear_cache_drops_the_plans():
    f = ren.jit(lambda x: x * 3)
    f(a())
    f.clear_cache()
    assert f.cache_info()[:3] == (0, 0, 0) and f.plans == ()


def test_eval_shape_gives_types_and_captures_nothing():
    seen = []

    @ren.jit(static_argnames="power")
    def f(x: Poly, power: int = 2) -> dict[str, Poly]:
        seen.append(power)
        return {"power": x**power, "part": x.to_ring(RingSpec(8, (17,)))}

    batch = Poly(np.zeros((3, 8), int), RING)
    for given in (batch, ren.spec(RING, batch=(3,))):
        for shape in (f.eval_shape(given, 3), f.eval_shape(given, power=3)):
            (power,), (part,) = (jax.tree.leaves(shape[key]) for key in ("power", "part"))
            assert (power.shape, part.shape) == ((3, 2, 8), (3, 1, 8))
            assert shape["part"].ring.moduli == (17,) and power.dtype == np.uint32
    assert set(seen) == {3} and f.cache_info().misses == 0


def test_each_use_of_jit_makes_a_cache_of_its_own():
    def double(x: Poly) -> Poly:
        return x * 2

    made = []
    for _ in range(3):
        f = ren.jit(double)
        f(a())
        made.append(f.cache_info()[:3])
    assert made == [(0, 1, 1)] * 3
    kept = ren.jit(double)
    for _ in range(3):
        kept(a())
    assert kept.cache_info()[:3] == (2, 1, 1)


def test_results_are_realized_and_each_call_has_its_own():
    f = ren.jit(lambda x: (x * x, x + 1))
    first, second = f(a()), f(b())
    assert all(p.is_realized for p in (*first, *second))
    assert first is not second and first[0] is not second[0]
    assert first[0].tolist() == (a() * a()).tolist()
    assert second[0].tolist() == (b() * b()).tolist()


def test_ten_steps_are_one_plan():
    step = ren.jit(lambda x: x * x - 1)
    x, want = a(), a()
    for _ in range(10):
        x, want = step(x.intt().realize()), want * want - 1
    assert ren.equal(x, want)
    assert step.cache_info()[:3] == (9, 1, 1)


def test_results_share_no_container_with_each_other():
    log: list[str] = ["from outside"]
    f = ren.jit(lambda x: {"x": [x, x], "log": log, "count": [0]})
    first, second = f(a()), f(b())
    first["x"].append(None)
    first["log"].append("changed")
    first["count"][0] += 1
    assert (len(second["x"]), second["log"], second["count"]) == (2, ["from outside"], [0])
    third = f(a())
    assert (len(third["x"]), third["log"], third["count"]) == (2, ["from outside"], [0])
    assert ren.equal(first["x"][0], third["x"][0])


# ---------------------------------------------------------------- the key


def test_constants_are_keyed_by_ring_domain_and_value():
    f = ren.jit(lambda x, c: x * c)
    other = RingSpec(8, (97, 113))
    for ring, domain, value in [
        (RING, Domain.COEFF, 3),
        (RING, Domain.NTT, 3),
        (other, Domain.COEFF, 3),
        (RING, Domain.COEFF, 4),
        (RING, Domain.COEFF, 3),
    ]:
        c = Poly.const(value, ring)
        c = c.ntt() if domain is Domain.NTT else c
        assert c.is_constant and c.domain is domain
        assert ren.equal(f(Poly(A, ring), c), Poly(A, ring) * value)
    assert f.cache_info()[:3] == (1, 4, 4)


def test_the_order_of_keys_and_the_kind_of_container_are_kept():
    f = ren.jit(lambda d: d)
    for given in ({"x": a(), "y": b()}, {"y": b(), "x": a()}, [a(), b()], (a(), b())):
        got = f(given)
        assert type(got) is type(given)
        if isinstance(given, dict):
            assert list(got) == list(given)
            assert ren.equal(got["x"], a()) and ren.equal(got["y"], b())
    assert f.cache_info().plans == 4


def test_static_values_are_told_apart_by_type_and_value():
    f = ren.jit(static_argnames="k")(lambda x, k: (x * int(k), type(k).__name__))
    for k in (1, True, 1.0, 2, 1):
        p, name = f(a(), k)
        assert ren.equal(p, a() * int(k))
        assert name == type(k).__name__
    assert f.cache_info()[:3] == (1, 4, 4)


def test_arrays_of_every_type_of_integer_are_inputs():
    f = ren.jit(lambda x, w: x * Poly(w, x.ring))
    kinds = [f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)]
    for kind in (*kinds, "bool"):
        for w in (np.ones(8, kind), np.arange(8).astype(kind)):
            assert ren.equal(f(a(), w), a() * Poly(w, RING))
    assert f.cache_info()[:3] == (9, 9, 9)


@dataclasses.dataclass(frozen=True)
class Noted:
    inner: Any
    note: Any


class Items(list):
    """A list that JAX and Ren do not know."""


def test_what_is_no_known_container_is_not_looked_into():
    f = ren.jit(lambda x, items: x * items[0])
    with pytest.raises(JitError, match=r"(?s)type Items.*hashable"):
        f(a(), Items([b()]))
    for given in (Items([a()]), {a()}, types.SimpleNamespace(x=a())):
        with pytest.raises(JitError, match="without a polynomial"):
            ren.jit(lambda v: v)(given)
    assert ren.equal(f(a(), [b()]), a() * b())


def test_an_object_around_a_number_among_the_results():
    f = ren.jit(lambda x, c: (x, Noted(c + 1, None), Noted([c], Noted("text", -c))))
    for c in (3, 4):
        assert f(a(), c)[1:] == (Noted(c + 1, None), Noted([c], Noted("text", -c)))
    assert f.cache_info()[:2] == (1, 1)


def test_a_symbolic_number_is_no_int_and_prints_as_its_argument(capsys):
    def f(x: Poly, c: int) -> Poly:
        print(c, isinstance(c, int))
        return x * c

    ren.jit(f)(a(), 3)
    ren.jit(static_argnames="c")(f)(a(), 3)
    ren.djit(f)(a(), 3)
    assert capsys.readouterr().out.splitlines() == [
        "<int from the argument 'c'> False", "3 True", "3 True",
    ]  # fmt: skip


# ---------------------------------------------------------------- what capture sees


def repeated(x: Poly, w: Poly, n: int) -> Poly:
    for _ in range(n):
        x = (x * w).ntt() + 1
    return x


def test_python_loops_are_unrolled():
    two, three, five = (equations(ren.xpr(repeated, a(), b(), n)) for n in (2, 3, 5))
    assert five - three == 2 * (three - two) > 0
    f = ren.jit(static_argnames="n")(repeated)
    for n in (2, 5, 2):
        assert ren.equal(f(a(), b(), n), repeated(a(), b(), n))
    assert f.cache_info()[:3] == (1, 2, 2)
    with pytest.raises(TracedValueError, match=r"static_argnames='n'"):
        ren.jit(repeated)(a(), b(), 2)


def test_control_flow_on_static_values_is_pythons_own():
    def f(x: Poly, ws: list[Poly], steps: int, mode: str) -> Poly:
        total = sum((w * i for i, w in enumerate(ws) if i % 2 == 0), x)
        for i in range(steps, 0, -2):
            if i == 1 and mode != "all":
                break
            if 2 <= i < 4:
                continue
            total = total * x if mode == "product" or not i else total - x
        while steps > 3:
            total, steps = -total, steps - 1
        kinds = [len(w.ring.moduli) == 2 for w in ws]
        return total if all(kinds) and any(kinds) else x

    jitted = ren.jit(static_argnames=("steps", "mode"))(f)
    ws = [b(), a(), b() + 1]
    for steps, mode in [(5, "all"), (5, "product"), (2, "all"), (5, "all")]:
        assert ren.equal(jitted(a(), ws, steps, mode), f(a(), ws, steps, mode))
    assert jitted.cache_info()[:3] == (1, 3, 3)


def linear(x: Poly, w: Poly, bias: Poly | None, use_bias: bool) -> Poly:
    if use_bias:
        assert bias is not None
        return x * w + bias
    return x * w


def test_an_if_takes_the_branch_of_the_static_value():
    f = ren.jit(static_argnames="use_bias")(linear)
    assert ren.equal(f(a(), b(), a(), use_bias=True), a() * b() + a())
    assert ren.equal(f(a(), b(), None, use_bias=False), a() * b())
    with_bias, without = (plan.plan.inputs for plan in f.plans)
    assert (len(with_bias), len(without)) == (3, 2)
    with pytest.raises(TracedValueError, match=r"static_argnames='use_bias'"):
        ren.jit(linear)(a(), b(), a(), True)


def test_static_arguments_can_be_validated_and_symbolic_ones_say_how():
    def share(x: Poly, weights: tuple[int, ...]) -> Poly:
        if sum(weights) != 10:
            raise ValueError("the weights must add up to 10")
        return sum((x * w for w in weights), Poly.zeros(x.ring))

    f = ren.jit(static_argnames="weights")(share)
    assert ren.equal(f(a(), (3, 7)), a() * 10)
    with pytest.raises(ValueError, match="add up to 10"):
        f(a(), (3, 8))
    assert f.cache_info().plans == 1
    with pytest.raises(TracedValueError, match=r"static_argnames='weights'"):
        ren.jit(share)(a(), (3, 7))


def test_closed_over_numbers_are_read_at_each_call():
    threshold, bias = 1, 5

    @ren.jit
    def f(x: Poly) -> Poly:
        return x * 2 if threshold > 3 else x + bias

    assert ren.equal(f(a()), a() + 5)
    threshold, bias = 7, 6
    assert ren.equal(f(b()), b() * 2)
    threshold, bias = 1, 5
    assert ren.equal(f(b()), b() + 5)
    assert f.cache_info().misses == 2
    threshold, bias = 7, 6
    anew = ren.djit(lambda x: x * 2 if threshold > 3 else x + bias)
    assert ren.equal(anew(a()), a() * 2)
    threshold = 0
    assert ren.equal(anew(a()), a() + 6)


class Model:
    """State that a method changes: what no captured function should do."""

    def __init__(self) -> None:
        self.weight, self.steps = Poly([0], RING), 0

    def step(self, gradient: Poly) -> Poly:
        self.steps += 1
        self.weight = self.weight - gradient * 3
        return self.weight


def test_side_effects_happen_at_capture_and_leave_a_symbol_that_tells():
    model = Model()
    step = ren.jit(model.step)
    results = [step(a()).tolist() for _ in range(3)]
    assert results == [(-(a() * 3)).tolist()] * 3
    assert model.steps == 1
    for read in (lambda: model.weight.tolist(), lambda: (model.weight + 1).realize()):
        with pytest.raises(TracedValueError, match=r"(?s)test_jit_guide.py.*symbolic"):
            read()


def test_state_is_kept_at_the_call():
    step = ren.jit(lambda weight, gradient: weight - gradient * 3)
    weight = Poly([0], RING)
    for i in range(1, 4):
        weight = step(weight, a())
        assert ren.equal(weight, -(a() * 3 * i))


def test_a_number_that_escapes_the_capture_is_told():
    kept: list[Any] = []

    def f(x: Poly, c: int) -> Poly:
        kept.append(c)
        return x * c

    ren.jit(f)(a(), 4)
    with pytest.raises(TracedValueError, match="'c'"):
        int(kept[0])


@pytest.mark.parametrize("operation", ["/", "//", "@", "<", ">="])
def test_operations_that_residues_do_not_have(operation):
    f = eval(f"lambda x, y: x {operation} y")  # the operator is the parameter of this test
    for run in (f, ren.jit(f)):
        for other in (b(), 2):
            with pytest.raises((TypeError, RenError)):
                run(a(), other)


def test_the_divisor_of_a_remainder_is_an_integer():
    for divisor in (b(), 2.5, "3"):
        with pytest.raises(CoefficientTypeError, match="An integer is needed"):
            a() % divisor
    assert ren.jit(lambda x: x % 3)(a()).tolist() == [c % 3 for c in a().tolist()]


# ---------------------------------------------------------------- prune, donation, djit


@pytest.mark.long
def test_what_was_pruned_goes_with_clear():
    weight = b()
    f = ren.jit(prune=True)(lambda x: x * (weight * weight + 3))
    assert ren.equal(f(a()), a() * (weight * weight + 3))
    (plan,) = f.plans
    (held,) = [weakref.ref(i.arg.array) for i in plan.plan.inputs if i.is_pruned]
    assert plan.memory.input_bytes == a().realize().limbs.nbytes + held().nbytes
    del plan
    f.clear()
    gc.collect()
    assert held() is None


def test_donated_arguments_are_given_up_and_others_stay():
    step = ren.jit(donate_argnames="w")(lambda w, g: w - g * 3)
    g = b().realize()
    w = a().realize()
    for i in range(1, 4):
        before, w = w, step(w, g)
        with pytest.raises(DonatedBufferError, match=r"donate_argnames"):
            before.tolist()
        assert ren.equal(w, a() - b() * (3 * i))
    assert g.tolist() == B
    assert step.cache_info()[:3] == (2, 1, 1)
    with pytest.raises(JitError, match=r"Leave out 'v'"):
        ren.jit(donate_argnames=("w", "v"))(lambda w: w)


def test_without_donation_inputs_stay_valid():
    f = ren.jit(lambda w, g: w - g)
    w, g = a().realize(), b().realize()
    f(w, g)
    assert (w.tolist(), g.tolist()) == (A, B)


def test_djit_passes_numbers_as_they_are():
    f = ren.djit(lambda x, k: x.rotate(k) * [2, 3, 4][k])
    for k in (1, 2):
        assert ren.equal(f(a(), k), a().rotate(k) * (k + 2))
    assert ren.xpr(f, a(), 1) == ren.xpr(lambda x: x.rotate(1) * 3, a())


# ---------------------------------------------------------------- settings


@pytest.mark.parametrize("name", ["fast_math", "fastmath", "simd_math", "approximate", "precision"])
def test_no_setting_gives_exactness_up(name):
    with pytest.raises(UnknownSettingError, match=r"exact in every tier"):
        ren.config.update(**{name: True})


def test_several_settings_at_once_around_some_calls():
    settings = {
        "jit_speculate": True,
        "jit_speculate_after_ns": 0,
        "compile_budget_ns": 10**13,
        "compile_window_ns": 10**9,
        "compile_cooldown_base_ns": 0,
        "compile_cooldown_max_ns": 0,
    }
    heavy = ren.jit(lambda a, b, c: (a * a + b * b + c * c) * (a + b + c + 1))
    before = {name: getattr(ren.config, name) for name in settings}
    with ren.config.update(**settings):
        want = heavy(a(), b(), a())
        assert heavy.plans[0].wait(120)
        for _ in range(20):
            assert ren.equal(heavy(a(), b(), a()), want)
    assert before == {name: getattr(ren.config, name) for name in settings}
    assert heavy.plans[0].telemetry.decisions


# ---------------------------------------------------------------- other processes


def run_script(source: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-W", "error", "-c", source]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


LOGGED = """
import ren
from ren import Poly, RingSpec

@ren.jit(max_plans=1, tier="graph")
def square(x):
    return x * x

for moduli in ((17, 97), (97, 113)):
    for _ in range(3):
        square(Poly([1, 2], RingSpec(8, moduli)))
print(square.cache_info())
"""


@pytest.mark.long
def test_the_log_on_stderr_has_one_line_for_each_thing_that_happens():
    done = run_script(LOGGED, REN_JIT_LOG="1", JAX_PLATFORMS="cpu")
    assert "hits=4, misses=2, plans=1, max_plans=1, evictions=1" in done.stdout
    lines = [line for line in done.stderr.splitlines() if "building native kernels" not in line]
    assert all(line.startswith("ren: square") for line in lines)
    assert [sum(word in line for line in lines) for word in ("captured", "compiled", "goes")] == [
        2, 2, 1,
    ]  # fmt: skip
    assert sum("runs on the backend" in line for line in lines) == 2
    assert len(lines) == 7  # replays say nothing
    assert run_script(LOGGED, JAX_PLATFORMS="cpu").stderr == ""


def logged(caplog, run) -> list[str]:
    """What `run` logs with `jit_log` on."""
    caplog.clear()
    with ren.config.update(jit_log=True):
        run()
    return [r.getMessage() for r in caplog.records if r.name == "ren"]


def test_calls_that_take_longer_than_the_threshold_are_logged(caplog, capsys):
    f = ren.jit(lambda x: x * x)
    f(a())

    def calls() -> None:
        for _ in range(3):
            assert f(a()).tolist() == (a() * a()).tolist()

    hour = 3600 * 10**9
    assert ren.config.jit_log_ns == 0
    for threshold, lines in ((0, 0), (1, 3), (hour, 0)):
        ren.config.jit_log_ns = threshold
        try:
            found = logged(caplog, calls)
        finally:
            del ren.config.jit_log_ns
        assert len(found) == lines
        assert all(re.fullmatch(r".*<lambda>: a call took [\d.]+ (ms|us|s)", x) for x in found)
    with ren.config.update(jit=False, jit_log_ns=1):
        assert sum("a call took" in line for line in logged(caplog, calls)) == 3


@pytest.mark.parametrize(
    ("n", "device", "native", "backend"),
    [
        (1024, None, "auto", r"native, .+, \d+ lanes of 32 bits"),
        (1024, None, False, "XLA, which chooses its lanes"),
        (8, "python", "auto", "reference"),
    ],
)
def test_the_log_names_the_backend_and_its_lanes(n, device, native, backend, caplog, capsys):
    x = Poly([1, 2], RingSpec(n, (12289,)))
    x = x.to(device).realize() if device else x.realize()
    f = ren.jit(lambda x: x * x)
    with ren.config.update(native=native):
        lines = logged(caplog, lambda: [f(x), f(x), f(x)])
    found = [line for line in lines if "runs on the backend" in line]
    assert len(found) == 1
    assert re.search(f"runs on the backend {backend}$", found[0])


def test_the_log_names_the_backend_of_the_interpreter_and_of_loops(caplog, capsys):
    def looped(x: Poly) -> Poly:
        return jax.lax.fori_loop(0, 3, lambda i, c: c + c, x)

    for f, backend in (
        (ren.jit(lambda x: x * x, tier="eager"), "reference"),
        (ren.jit(looped), "XLA"),
    ):
        lines = logged(caplog, lambda f=f: [f(a()), f(a())])
        assert [backend in line for line in lines if "runs on the backend" in line] == [True]


WITHOUT_JIT = """
import ren
from ren import Poly, RingSpec

assert not ren.config.jit and not ren.config.jit_log
calls = []

@ren.jit
def step(x, k):
    calls.append(k)
    return x.rotate(k)

x = Poly([1, 2], RingSpec(8, (17, 97))).to("python").realize()
for k in (1, 2, 1):
    got = step(x, k)
    assert ren.equal(got, x.rotate(k)) and got.device == "python"
assert calls == [1, 2, 1] and step.cache_info()[:3] == (0, 0, 0)
"""


@pytest.mark.long
def test_without_jit_from_the_environment():
    run_script(WITHOUT_JIT, REN_JIT="0")


TWO_DEVICES = """
import jax, numpy as np, ren
from ren import Poly, RingSpec
from ren.core.errors import CoefficientTypeError, DeviceError

zero, one = jax.devices()
ring = RingSpec(8, (17, 97))
x, y = Poly([1, 2, 3], ring), Poly([3, 4], ring)
weight = (x * y + 1).realize()

def device(p):
    return p.device

# inferred from the arguments: one function, a plan for each device
add = ren.jit(lambda x, y: x * y)
for place in (zero, one, zero, one):
    got = add(x.to(place).realize(), y.to(place).realize())
    assert device(got) == place and ren.equal(got, x * y)
assert add.cache_info()[:3] == (2, 2, 2)
try:
    add(x.to(zero), y.to(one))
except DeviceError as error:
    assert "two devices" in str(error) and "@ren.jit(device=...)" in str(error), error
    assert "cpu:0" in str(error).lower().replace("_", ":"), error
else:
    raise AssertionError("two devices")

# pinned: inputs and what is closed over are copied there
pinned = ren.jit(device="cpu:1")(lambda x, y: x * y + weight)
for places in ((zero, zero), (zero, one), (one, one)):
    given = [p.to(place).realize() for p, place in zip((x, y), places)]
    got = pinned(*given)
    assert device(got) == one and ren.equal(got, x * y + weight)
    assert [device(p) for p in given] == list(places)
python = ren.jit(device="python")(lambda x: x * x)
assert device(python(x)) == "python"

# no array among the arguments: the default device
constants = ren.jit(lambda c: c + weight.to_ring(ring) * 0 + Poly([1, 2], ring))
assert device(constants(Poly.const(3, ring))) == jax.devices()[0]

# a name of no device
try:
    ren.jit(device="cpu:7")
except DeviceError as error:
    assert "cpu:7" in str(error), error
else:
    raise AssertionError("no such device")
"""


@pytest.mark.long
def test_a_call_runs_where_its_arguments_are_or_where_it_is_told():
    flags = "--xla_force_host_platform_device_count=2"
    run_script(TWO_DEVICES, XLA_FLAGS=flags, JAX_PLATFORMS="cpu")
