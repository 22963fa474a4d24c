"""What a notebook shows: well-formed, escaped, with the facts, no secrets, and nothing runs."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import attrs
import jax
import numpy as np
import pytest

import ren
from ren.core import html
from ren.core.node import toposort
from ren.lowering.backends.xla.jax_executable import compiled_count
from ren.poly import Poly
from ren.ring import RingSpec
from ren.schemes import ckks
from ren.schemes.ckks.noise.readable import is_known
from ren.schemes.rlwe.security import max_log_qp
from ren.self_test import Check, SelfTest
from tests.schemes.ckks.keys import keys_of

RING = RingSpec(8, (17, 97))
INSECURE = ckks.Parameters.for_depth(2, n=256, security=None)
SECURE = ckks.Parameters.for_depth(1)
NASTY = "<script>alert('x')</script> & \"quoted\" \x00\x1b\ud800"


@pytest.fixture(scope="module")
def context() -> ckks.Context:
    return ckks.context(params=INSECURE).rotation_keys([1, -3]).conjugation_key()


def shown(value: object) -> str:
    """The HTML of a value, checked as XML and as HTML."""
    page = value._repr_html_()  # type: ignore[attr-defined]
    ElementTree.fromstring(page)
    open_: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag, attributes):
            open_.append(tag)
            assert tag != "script" and not any(name.startswith("on") for name, _ in attributes)

        def handle_endtag(self, tag):
            assert open_.pop() == tag

        def handle_startendtag(self, tag, attributes):
            pass

    Parser().feed(page)
    assert not open_
    return page


def words(value: object) -> str:
    """The text of a page, in reading order, without its style."""
    page = re.sub(r"<style>.*?</style>", "", shown(value), flags=re.DOTALL)
    return " ".join(" ".join(ElementTree.fromstring(page).itertext()).split())


def captured() -> tuple:
    f = ren.jit(lambda x, y: (x + y) * (x - 1), tier="units")
    x, y = Poly([1, 2], RING), Poly([3], RING)
    f(x, y)
    with ren.trace() as trace:
        f(x, y)
    return f.plans[0], trace


# ------------------------------------------------------------------------------- the pieces


def test_text_is_escaped_wherever_it_stands():
    pieces = (html.facts([(NASTY, NASTY)]), html.table([(NASTY,), (NASTY,)]), html.note(NASTY))

    class Card:
        def _repr_html_(self) -> str:
            return html.card(NASTY, *pieces, tags=(NASTY,), warning=NASTY)

    page = shown(Card())
    assert page.count("&lt;script&gt;") == 8 and "<script" not in page
    assert words(Card()).count("<script>alert('x')</script> & \"quoted\"") == 8


def test_only_what_is_marked_as_html_is_left_as_it_is():
    assert html.joined("<b>", html.Markup("<i/>"), html.meter(0.5)).startswith("&lt;b&gt;<i/><span")
    assert 'style="width: 0%"' in html.meter(-3) and 'style="width: 100%"' in html.meter(7.0)


def test_styles_reach_nothing_outside_and_nothing_comes_from_there():
    page = html.card("x")
    style = page.partition("<style>")[2].partition("</style>")[0]
    rules = re.findall(r"([^{}]+) \{[^{}]*\}", style.replace("{ .ren", "{} .ren"))
    selectors = [s.strip() for rule in rules for s in rule.split(",") if "@media" not in s]
    assert len(selectors) > 15 and all(".ren-card" in s for s in selectors), selectors
    assert not re.search(r"http|url\(|@import|\bid=|<link|<img", page)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_can_be_read_on_light_and_dark_pages():
    page = html.card("x")
    schemes = [dict(re.findall(r"--([\w-]+): (#\w{6})", rule)) for rule in re.findall(
        r"\{ (--page[^}]*)\}", page)]  # fmt: skip
    light, dark, dark_pages, light_pages = schemes
    assert (light, dark) == (light_pages, dark_pages) and light != dark
    pairs = [(a, b) for a in ("text", "dim") for b in ("page", "tint")] + [("bad", "bad-page")]
    for colours in (light, dark):
        for text, ground in pairs:
            high, low = sorted(map(luminance, (colours[text], colours[ground])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)


@pytest.mark.parametrize(
    "page", ['[data-jp-theme-light="false"]', ".vscode-dark", '[data-md-color-scheme="slate"]']
)
def test_cards_and_graphs_follow_the_page_around_them(page):
    lazy = shown(Poly([1], RING) + 1)
    assert f"{page} .ren-card" in lazy and f"{page} .ren-diagram" in lazy


# ------------------------------------------------------------------------------- polynomials


def test_a_ring():
    text = words(RING)
    assert "Z_q[X]/(X^8 + 1)" in text and "2 limbs, log2 q = 10.7" in text
    assert "0 17 4.09" in text and "1 97 6.60" in text


def test_a_polynomial_in_memory_is_summarized():
    text = words(Poly(np.ones((3, 8), np.int64), RING).ntt().realize())
    for fact in ("realized", "Z_q[X]/(X^8 + 1)", "NTT", "3 x 2 x 8 uint32, 192 B", "batch 3"):
        assert fact in text
    assert "<svg" not in shown(Poly([1], RING))


def test_a_lazy_polynomial_is_drawn_and_stays_lazy():
    x, y = Poly([1, 2, 3], RING), Poly([4], RING)
    lazy = (x + y) * (x - 1)
    before = compiled_count()
    page = shown(lazy)
    assert not lazy.is_realized and compiled_count() == before
    assert page.count("<svg") == 1 and "MUL" in page and ">lazy<" in page
    assert "a program of 4 operations" in page


def test_a_long_program_is_summarized():
    x = Poly([1], RING)
    for _ in range(3000):
        x = x + 1
    page = shown(x)
    assert "Summarized" in page and len(page) < 60_000 and not x.is_realized


def test_a_constant_tells_its_value_and_has_no_limbs():
    text = words(Poly.const(3, RING))
    assert "constant" in text and "value 3" in text and "uint32" not in text


def test_what_jax_puts_in_place_of_limbs_is_told():
    held = jax.tree.map(lambda _: None, Poly([1], RING), is_leaf=lambda v: v is None)
    assert "holding NoneType" in words(held)
    seen = []
    jax.vmap(lambda p: seen.append(words(p + 1)) or p)(Poly(np.ones((2, 8), np.int64), RING))
    assert "lazy" in seen[0] and "traced" in seen[0]


def test_coefficients_are_not_shown():
    assert "123456" not in shown(Poly([123456] * 8, RingSpec(8, (536813569,)))).replace(
        "536813569", ""
    )


# ------------------------------------------------------------------------------- plans


def test_a_plan_is_summarized_and_drawn():
    plan, _ = captured()
    text = words(plan)
    assert f"units {len(plan.plan.units)}, of {len(plan.plan.programs)} distinct kernels" in text
    assert "inputs 2, 128 B" in text and "<svg" in shown(plan)
    assert f"{plan.cost.limb_ntts} limb-NTTs" in text


def test_what_a_plan_explains_is_a_table_of_its_units():
    plan, trace = captured()
    page = shown(plan.explain(trace))
    table = page.partition("<tbody>")[2].partition("</tbody>")[0]
    assert table.count("<tr>") == len(plan.plan.units) + 1
    assert "peak, planned" in page


def test_reports_tell_their_numbers():
    plan, trace = captured()
    cost, memory = words(plan.cost), words(plan.memory)
    assert f"limb-NTTs {plan.cost.limb_ntts}" in cost and "multiply-adds 16" in cost
    assert f"peak, planned {plan.memory.peak_bytes} B" in memory
    assert "peak, measured" not in memory
    known = attrs.evolve(plan.memory, measured_bytes=77)
    assert "peak, measured 77 B" in words(known)
    assert "units 2" in words(plan.telemetry) and "now units" in words(plan.telemetry)
    assert words(trace).count("NTT") == 2


def test_settings_are_a_table():
    assert "progress 'auto' REN_PROGRESS" in words(ren.config)
    with ren.config.update(cache_dir=NASTY.rstrip("\x00\x1b\ud800")):
        assert "&lt;script&gt;" in shown(ren.config)


def test_a_self_test_that_failed_says_so():
    passed, failed = (Check("kernels", ok, NASTY, 0.5) for ok in (True, False))
    assert "FAILED" not in words(SelfTest((passed,)))
    assert "FAILED" in words(SelfTest((passed, failed)))


# ------------------------------------------------------------------------------- CKKS


def test_parameters_show_levels_keys_and_security():
    text = words(SECURE)
    assert "128-bit security" in text and "INSECURE" not in text
    assert f"n = {SECURE.n}, {SECURE.slots} slots, depth 1, scale 2^40" in text
    assert f"the 128-bit bound is {max_log_qp(SECURE.n, 128):.0f}" in text
    rows = re.findall(r"<tr><td>(\d+)</td><td>(\d+)</td><td>([\d.]+)</td>", shown(SECURE))
    assert rows == [
        (str(i), str(SECURE.ring(i).limbs), f"{SECURE.ring(i).log2_q:.1f}") for i in (1, 0)
    ]


def test_whatever_has_insecure_parameters_says_so(context):
    x = context.encrypt([1.0])
    plan = ren.plan(lambda x: x + x, ckks.spec(10), n=256, security=None)
    for value in (
        INSECURE,
        context,
        context.server(),
        context.public(),
        x,
        context.encode(1),
        plan,
    ):
        assert '<span class="ren-bad">INSECURE</span>' in shown(value)
    assert "INSECURE" not in shown(ren.plan(lambda x: x + x, ckks.spec(10)))


def test_contexts_name_their_keys(context):
    owner, server, public = map(words, (context, context.server(), context.public()))
    for text in (owner, server):
        assert "relinearization, rotation by 1, rotation by -3, conjugation" in text
        assert context.key_id[:8] in text
    assert "owner (holds the secret key)" in owner
    assert "server (computes)" in server and "holds the secret" not in server
    assert "public (encrypts)" in public and "relinearization," not in public


def test_only_an_owner_lists_a_secret_key(context):
    for value in (context.server(), context.public()):
        assert "secret" not in words(value) and "secret" not in str(value)
    assert "secret" in words(context) and re.search(r"^secret +\S", str(context), re.MULTILINE)


def test_a_linear_map_shows_its_shape_rotations_and_keys(context):
    matrix = np.random.default_rng(0).normal(size=(20, 8))
    made = ckks.linear(matrix, context)
    text = words(made)
    for fact in ("20 x 8, real", "diagonals 8", "level 2 of 2", "copies, 8 slots apart"):
        assert fact in text
    assert f"keys {len(made.rotations)}: {', '.join(map(str, made.rotations))}" in text
    assert "INSECURE" in text and "copies" not in words(ckks.linear(np.eye(5), context))
    assert "keys 0: none" in words(ckks.linear(np.eye(5), context))


def test_approximations_and_estimates_are_cards(context):
    found = ckks.approximate(np.exp, (-1, 1), precision=20)
    text = words(found)
    assert f"degree {found.degree}" in text and f"{found.bits:.1f} bits" in text
    x = context.encrypt([1.0, 2.0])
    assert f"~{x.estimate.bits:.1f} bits are right" in words(x.estimate)
    assert "unknown" in words(attrs.evolve(x.estimate, error_bound=np.inf))


def test_many_keys_are_counted_and_named_as_in_the_text(context):
    many = ckks.context(params=INSECURE).rotation_keys(range(1, 33))
    assert "and 10 more" in words(many)
    assert all(f"rotation by {k}" in str(many) for k in (1, 32))


def test_a_ciphertext_tells_its_type_and_its_noise(context):
    x = context.encrypt(np.linspace(0, 1, 100))
    y = x * x
    text = words(y)
    for fact in ("100 real numbers", "level 1 of 2", "slots 128", "lazy", x.key_id[:8]):
        assert fact in text
    bits = re.search(r"precision ~(\d+) bits", text)
    assert bits and int(bits[1]) == int(y.estimate.bits)
    assert not any(p.is_realized for p in y.polys)
    assert "lazy" not in words(y.realize())
    image = words(context.encrypt(np.ones(6)).reshape(2, 3))
    assert "6 real numbers, as 2 x 3" in image
    assert "one complex number, in every slot" in words(context.encrypt(1j))
    assert "in 2 blocks" in words(context.encrypt(np.ones(200)))


def test_ciphertexts_inside_a_function_that_is_captured(context):
    seen = []

    @ren.jit
    def f(x):
        seen.append(words(x * x))
        assert not is_known((x * x).noise)
        return x * x

    f(context.encrypt([1.0, 2.0]))
    assert "precision not known" in seen[0] and "real numbers" in seen[0]


def test_a_plaintext_shows_its_type_and_says_that_it_is_not_encrypted(context):
    text = words(context.encode([1.5, 2.5]))
    assert "not encrypted" in text and "2 real numbers" in text and "level 2 of 2" in text


def test_nothing_secret_and_no_message_is_shown(context):
    value = 0.7391827364
    x = context.encrypt([value] * 128, bound=1.0)
    pages = [shown(v) for v in (context, x, x + 1.0, context.encode([value]), context.params)]
    pages += [shown(p) for p in (*x.polys, keys_of(context).require_secret().poly)]
    s = keys_of(context).require_secret().poly.tolist(centered=True)
    for page in pages:
        assert "0.739" not in page and ", ".join(map(str, s[:8])) not in page
        assert "".join(map(str, s[:12])) not in page
        assert context.key_id not in page  # public, and too long to be read


def test_precision_is_shown(context):
    report = ckks.precision(context.encrypt([1.0, 2.0]), [1.0, 2.0])
    assert f"worst {report.worst_bits:.1f} bits" in words(report)


def test_no_page_runs_a_program(context):
    x = context.encrypt([1.0, 2.0])
    values = (x, x * x, x.rotate(1), context.encode([1.0]), Poly([1], RING) * 2)
    lazy = [p for v in values[:3] for p in v.polys]
    before, known = compiled_count(), [p.is_realized for p in lazy]
    graphs = [len(toposort(p.node)) for p in lazy]
    for value in values:
        shown(value)
    assert compiled_count() == before
    assert [p.is_realized for p in lazy] == known
    assert [len(toposort(p.node)) for p in lazy] == graphs
