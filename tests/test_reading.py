"""What a program looks like before it runs: ren.xpr, ren.stages, show_graph, notebooks."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import ren
from ren.lowering.backends.xla.jax_executable import compiled_count
from ren.lowering.inspect.markup import dot, mermaid
from ren.lowering.inspect.plan_diagram import plan_card, plan_diagram
from ren.lowering.passes.pipeline import PIPELINE
from ren.poly import Poly
from ren.ring import RingSpec
from ren.schemes import ckks

RING = RingSpec(8, (17, 97))
RING_LINE = "R0: n=8, 2 limbs, moduli=(17, 97)"


@pytest.fixture
def x() -> Poly:
    return Poly([1, 2, 3], RING)


@pytest.fixture
def y() -> Poly:
    return Poly([4, 5], RING)


def test_a_program_in_the_manner_of_a_jaxpr(x, y):
    text = ren.xpr(lambda x, y: (x + y) * (x - 1), x, y)
    assert text.splitlines() == [
        "{ lambda ; a:R0[coeff] b:R0[coeff] . let",
        "    c:R0[coeff] = ADD a b",
        "    d:R0[coeff] = SUB a 1",
        "    e:R0[ntt] = MUL c d",
        "  in (e,) }",
        RING_LINE,
    ]


def test_arguments_of_ops_stand_in_brackets(x):
    part = RING.with_moduli((17,))
    text = ren.xpr(lambda x: x.rotate(3).automorphism(7).to_ring(part), x)
    assert "ROTATE[k=3] a" in text
    assert "AUTOMORPHISM[g=7] b" in text
    assert "TO_RING[-> R1] c" in text
    assert text.endswith("R1: n=8, 1 limb, moduli=(17)")


def test_what_is_closed_over_comes_first_and_is_not_computed(x, y):
    lazy = y * y + 1
    text = ren.xpr(lambda x: x * lazy + y, x)
    assert text.splitlines()[0] == "{ lambda a:R0[ntt] b:R0[coeff] ; c:R0[coeff] . let"
    assert "d:R0[ntt] = MUL c a" in text and "e:R0[ntt] = ADD d b" in text
    assert not lazy.is_realized


def test_nothing_is_computed(x, y):
    x, y = x.ntt() * 3, y + 2
    before = compiled_count()
    ren.xpr(lambda x, y: (x * y).rescale((17,)), x, y)
    ren.stages(lambda x, y: (x * y).rescale((17,)), x, y)
    assert not x.is_realized and not y.is_realized
    assert compiled_count() == before


def test_shared_work_is_one_equation_and_containers_are_taken_apart(x, y):
    def f(pair, *, k):
        shared = pair["x"] + pair["y"]
        return {"a": shared.rotate(k), "b": [shared, shared]}

    text = ren.xpr(f, {"x": x, "y": y}, k=1)
    assert text.count("ADD") == 1
    assert "in (d, c, c) }" in text


def test_one_polynomial_given_twice_is_two_arguments(x):
    assert "c:R0[coeff] = SUB a b" in ren.xpr(lambda p, q: p - q, x, x)


def test_constants_are_written_where_they_are_used(x):
    seven = Poly.const(7, RING)
    text = ren.xpr(lambda x, c: (x * c, c), x, seven)
    assert "b:R0[coeff] = MUL a 7" in text
    assert "in (b, 7:R0[coeff]) }" in text
    wide = RingSpec(8, (17, 97, 113, 193, 241, 257, 337, 353, 401))
    large = ren.xpr(lambda x: x * (10**19), Poly([1], wide))
    assert "100000...000000 (20 digits)" in large


def test_a_draw_is_an_equation(x):
    text = ren.xpr(lambda x: x + Poly.ternary(RING), x)
    assert "b:R0[coeff] = DRAW" in text
    assert "{ lambda ; a:R0[coeff] . let" in text


def test_a_batch_is_part_of_the_type(x):
    batched = Poly(np.ones((3, 8), np.int64), RING)
    assert "c:R0[coeff batch=(3,)] = ADD a b" in ren.xpr(lambda x, y: x + y, batched, x)


def test_a_jitted_function_is_looked_into(x):
    inner = ren.jit(lambda x: x * x)
    assert "MUL a a" in ren.xpr(inner, x)
    assert inner.cache_info().plans == 0
    assert "MUL a a" in ren.xpr(lambda x: inner(x) + 1, x)


def test_no_polynomial_among_the_results_is_an_error(x):
    with pytest.raises(ren.errors.JitError, match="returned no polynomial"):
        ren.xpr(lambda x: 3, x)
    with pytest.raises(ren.errors.JitError, match="returned no polynomial"):
        ren.stages(lambda x: 3, x)


def test_a_thousand_names_are_distinct(x):
    def f(x):
        for i in range(1000):
            x = x + i
        return x

    text = ren.xpr(f, x)
    names = re.findall(r"^    (\w+):R0", text, re.MULTILINE)
    assert len(set(names)) == len(names) == 1000
    assert names[24:27] == ["z", "aa", "ab"]


def test_ciphertexts_are_read_like_polynomials():
    ctx = ckks.context(params=ckks.Parameters.for_depth(1, n=256, security=None))
    ct = ctx.encrypt([1.0, 2.0])
    text = ren.xpr(lambda ct: (ct + ct) * 2.0, ct)
    assert text.startswith("{ lambda ") and "ADD" in text


def test_stages_name_every_pass_in_order(x, y):
    shown = ren.stages(lambda x, y: (x + y) * (x - 1), x, y)
    native = ["explicit", "limb_program", "phases", "bytecode"]
    assert list(shown) == ["capture", *(step.name for step in PIPELINE), "kernels", *native]
    assert shown["capture"].splitlines()[-2:] == ["%6 = SINK %5", RING_LINE]
    assert "NTT" not in shown["capture"]
    last = shown[PIPELINE[-1].name]
    assert "NTT" in last and "PLACEHOLDER" in last


def test_stages_say_why_there_is_no_native_call(x):
    for function, reason in (
        (lambda x: x, "an input is returned as it is"),
        (lambda x: x * 0 + 3, "it reads no inputs"),
    ):
        shown = ren.stages(function, x)
        assert shown["native"] == f"no native call: {reason}"
        assert "bytecode" not in shown


def test_kernels_list_units_and_each_body_once(x, y):
    text = ren.stages(lambda x, y: (x * y, x.rotate(1) * y.rotate(1)), x, y)["kernels"]
    assert text.startswith("%0 = INPUT : R0 coeff\n%1 = INPUT : R0 coeff\n")
    bodies = re.findall(r"^(K\d+): (.*), executable (\d+)$", text, re.MULTILINE)
    assert len(bodies) == len({name for name, _, _ in bodies})
    used = re.findall(r"^%\d+ = (K\d+)", text, re.MULTILINE)
    assert set(used) == {name for name, _, _ in bodies}
    assert len(used) > len(bodies)  # the transforms of x and y are one kernel
    assert re.search(r"^results: %\d+ %\d+$", text, re.MULTILINE)


def test_stages_are_the_same_for_equal_programs():
    def shown():
        a, b = Poly([1, 2], RING), Poly([3], RING)
        return ren.stages(lambda x: x * a - b.rotate(1), Poly([5], RING))

    assert shown() == shown()


def test_operands_on_two_devices_are_told(x):
    there = Poly([1], RING, device="python")
    with pytest.raises(ren.errors.DeviceError):
        ren.stages(lambda x, y: x + y, x.to("cpu"), there)


def test_show_graph_prints_each_capture_and_no_replay(x, y, capsys):
    @ren.jit(show_graph=True)
    def f(x, y):
        return x * y

    f(x, y)
    printed = capsys.readouterr().out
    assert "f captured:" in printed and "MUL %0 %1 : R0 ntt" in printed
    f(y, x)
    assert capsys.readouterr().out == ""
    f(x.ntt(), y)
    assert "PLACEHOLDER p0 : R0 ntt" in capsys.readouterr().out


def test_plans_are_drawn(x, y):
    f = ren.jit(lambda x, y: (x + y) * (x - 1))
    f(x, y)
    (captured,) = f.plans
    plan = captured.plan
    assert captured.to_mermaid() == mermaid(plan_diagram(plan))
    assert captured.to_dot() == dot(plan_diagram(plan))
    assert captured._repr_html_() == plan_card(plan)
    ElementTree.fromstring(captured._repr_html_())


def test_notebooks_show_a_polynomial_without_running_it(x, y):
    lazy = x * y
    page = lazy._repr_html_()
    assert ">lazy<" in page and not lazy.is_realized
    ElementTree.fromstring(page)
    assert "MUL" in page and "MUL" not in lazy.realize()._repr_html_()
    assert ">constant<" in Poly.const(3, RING)._repr_html_()
