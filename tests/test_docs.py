"""The pages in docs/: snippets run, and print what is shown; what tables name is there."""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest

import ren
from ren import errors
from ren.config import SETTINGS, Setting
from ren.lowering.passes.pipeline import PIPELINE
from ren.lowering.plan import cost
from ren.schemes import ckks
from ren.schemes.ckks.parameters.bootstrapping.precision import SIGMAS

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
# Figures, a way in, a page on files, a copy of another file, and tables of tests.
UNTAUGHT = ("performance", "index", "notation", "contributing", "seeds", "byte-layout", "stability")
TAUGHT = [p for p in PAGES if p.parent.name == "docs" and p.stem not in UNTAUGHT]
ERRORS = ROOT / "docs" / "errors.md"
INTERNALS = (ROOT / "docs" / "internals.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "jit.md").read_text(encoding="utf-8")
TEST = re.compile(r"\b(tests/[\w/]+\.py)::(\w+)")
# A comment: GitHub shows nothing, the site a small mark. At the start of a line it would end the
# paragraph.
MARK = re.compile(r"(?<=\S)<!--\s(?:\s*tests/[\w/]+\.py::\w+)+ -->")
FOR_DEVELOPERS = ("contributing", "seeds")  # they name tests in the text


@attrs.frozen
class Snippet:
    """A python block of a page; the first line of a broken one is ```python raises=NameOfError.

    A text block right after it is what it prints; there, ... stands for what differs between runs.
    """

    line: int
    text: str
    raises: str
    prints: str | None

    def run(self, page: Path, names: dict) -> None:
        """Runs it as a part of the page; a broken one must raise its error, and no other."""
        code = compile("\n" * self.line + self.text, str(page), "exec")
        if not self.raises:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(code, names)
            if self.prints is not None:
                check_print(self.prints, printed.getvalue())
            return
        expected = getattr(errors, self.raises)
        with pytest.raises(expected) as caught:
            exec(code, names)
        assert type(caught.value) is expected, caught.value


def check_print(shown: str, printed: str) -> None:
    """Raises unless what was printed is what the page shows."""
    assert doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS), printed


BLOCK = re.compile(
    r"^```python(?: raises=(\w+))?\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?",
    re.DOTALL | re.MULTILINE,
)


def snippets(page: Path) -> list[Snippet]:
    """The python blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = BLOCK.finditer(text)
    return [Snippet(text.count("\n", 0, m.start(2)), m[2], m[1] or "", m[3]) for m in found]


def name_of(page: Path) -> str:
    """The path of a page inside docs/, without its ending."""
    return page.relative_to(ROOT / "docs").with_suffix("").as_posix()


def rows(text: str, first: str) -> list[list[str]]:
    """The cells of the table whose head begins with the cell `first`, without head and rule."""
    _, _, table = text.partition(f"| {first} |")
    lines = table.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@cache
def functions(path: str) -> frozenset[str]:
    """The functions at the top of a file of tests."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def runs(page: Path) -> Any:
    """A page; one whose programs XLA alone compiles for minutes runs with native code alone."""
    marks = [pytest.mark.once] if page.stem == "bootstrapping" else []
    return pytest.param(page, id=name_of(page), marks=marks)


@pytest.mark.long
@pytest.mark.parametrize("page", [runs(page) for page in PAGES])
def test_every_snippet_runs_as_written(page: Path) -> None:
    names: dict = {"__name__": page.stem}
    for snippet in snippets(page):
        snippet.run(page, names)


@pytest.mark.parametrize("page", TAUGHT, ids=name_of)
def test_a_page_without_snippets_would_be_noticed(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    found = len(snippets(page))
    assert found >= 3
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * (found + text.count("\n```text\n"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tests_and_pages_that_are_named_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path, name in TEST.findall(text):
        assert name.startswith("test_") and name in functions(path), f"{path}::{name}"
    assert text.count("tests/") == len(TEST.findall(text))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tests_stand_in_marks_and_not_in_the_text(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.stem in FOR_DEVELOPERS:
        assert "<!--" not in text
        return
    read = MARK.sub("", text)
    assert "tests/" not in read and "::test_" not in read and "<!--" not in read
    paragraphs = re.split(r"\n\s*\n", text)
    assert all(p.count("<!--") == p.count("-->") for p in paragraphs)


@pytest.mark.parametrize(("page", "least"), [("ckks", 65), ("security", 65), ("coming-from", 14)])
def test_claims_keep_their_tests(page: str, least: int) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert sum(len(TEST.findall(mark)) for mark in MARK.findall(text)) >= least


def promises() -> dict[str, list[list[str]]]:
    """Rows of docs/seeds.md, by section."""
    text = (ROOT / "docs" / "seeds.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return {
        section.split("\n")[0]: [
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in section.splitlines()
            if line.startswith("| ") and not line.startswith("| promise |")
        ]
        for section in sections
    }


PROMISES = promises()


@pytest.mark.parametrize("section", PROMISES)
def test_each_promise_names_the_tests_that_show_it(section: str) -> None:
    for promise, ours, tests in PROMISES[section]:
        named = TEST.findall(tests)
        assert promise and ours and bool(named) != ours.startswith("not yet"), promise
        assert all(name in functions(path) for path, name in named), promise
        assert tests.count("`") == 2 * len(named) and "not applicable" not in ours, promise


def test_no_promise_has_two_rows() -> None:
    for found in PROMISES.values():
        assert len({promise for promise, *_ in found}) == len(found)
    assert len(PROMISES) == 6 and sum(map(len, PROMISES.values())) >= 200


def test_a_print_that_is_not_current_would_be_noticed() -> None:
    check_print("a ... c\n", "a b c\n")
    with pytest.raises(AssertionError):
        check_print("a c\n", "a b c\n")


def test_every_error_has_a_broken_and_a_mended_example() -> None:
    entries = re.split(r"^## ", ERRORS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    blocks = {e.split("\n")[0]: re.findall(r"^```python(.*)", e, re.MULTILINE) for e in entries}
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
    assert set(blocks) == kinds
    unlike = {
        "RenError", "VerificationError", "NativeError", "ForkError", "MissingPackageError",
        "OutOfMemoryError",
    }  # fmt: skip
    for name in kinds - unlike:
        broken = f" raises={name}"
        assert broken in blocks[name] and "" in blocks[name], name
        assert set(blocks[name]) == {broken, ""} and blocks[name][-1] == "", name


def setting_row(setting: Setting) -> list[str]:
    return [f"`{setting.name}`", f"`{setting.variable}`", f"`{setting.default!r}`", setting.meaning]


def test_the_table_of_settings_is_that_of_the_code() -> None:
    assert rows(GUIDE, "setting") == [setting_row(s) for s in SETTINGS]


def test_the_table_of_errors_quotes_them() -> None:
    sources = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "ren").rglob("*.py"))
    said = re.sub(r'"\s*\n\s*f?"', "", sources)
    quoted = rows(GUIDE, "it says")
    assert len(quoted) >= 12
    for text, because, do in quoted:
        assert text in said, text
        assert because and do


def test_the_page_on_performance_is_short_and_has_the_rates_of_the_model() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert page.count("\n") <= 80
    m = cost
    rates = {
        "butterfly": (m.SECONDS_PER_BUTTERFLY, m.NATIVE_SECONDS_PER_BUTTERFLY, 1e9, "ns"),
        "multiply-add": (m.SECONDS_PER_MULTIPLY_ADD, m.NATIVE_SECONDS_PER_MULTIPLY_ADD, 1e9, "ns"),
        "memory": (m.BYTES_PER_SECOND, m.NATIVE_BYTES_PER_SECOND, 1e-9, "GB/s"),
        "a unit, or a call": (m.SECONDS_PER_UNIT, m.NATIVE_SECONDS_PER_CALL, 1e6, "us"),
    }
    assert rows(page, "rate of two cores") == [
        [name, f"{units * factor:.3g} {unit}", f"{native * factor:.3g} {unit}"]
        for name, (units, native, factor, unit) in rates.items()
    ]


def test_each_word_of_the_compiler_stands_in_the_code() -> None:
    words = rows((ROOT / "NOTATION.md").read_text(encoding="utf-8"), "word")
    files = sorted((ROOT / "ren").rglob("*.py"))
    code = "\n".join([*(p.as_posix() for p in files), *(p.read_text("utf-8") for p in files)])
    assert len(words) >= 35
    for word, names, meaning in words:
        assert word and meaning
        for name in re.findall(r"`([^`]+)`", names):
            stem = re.escape(name.removesuffix("*"))
            assert re.search(rf"\b{stem}" + r"\b" * (not name.endswith("*")), code), name


def test_the_internals_list_every_pass_in_order() -> None:
    assert [name for name, _ in rows(INTERNALS, "pass")] == [f"`{p.name}`" for p in PIPELINE]
    rounding = [name for name, what in rows(INTERNALS, "pass") if "round otherwise" in what]
    assert rounding == [f"`{p.name}`" for p in PIPELINE if p.changes_rounding]


def test_each_section_of_the_internals_names_modules_that_are_there() -> None:
    sections = re.split(r"^## ", INTERNALS, flags=re.MULTILINE)[1:]
    for section in sections:
        named = re.findall(r"`(ren/[\w/]+(?:\.py|/)?)`", section)
        assert named, section.split("\n")[0]
        assert all((ROOT / name).exists() for name in named), named
    assert len(sections) >= 12


def test_the_ten_facts_on_security_are_those_of_the_code() -> None:
    facts = dict(rows((ROOT / "docs" / "security.md").read_text(encoding="utf-8"), "ten facts"))
    p, booted = ckks.Parameters.for_depth(7), ckks.Parameters.for_bootstrapping()
    boots = booted.bootstrapping
    assert boots is not None and len(facts) == 10
    sparse = math.log2(booted.ring(0).q * booted.specials[0])
    assert (p.security, p.security_bits, p.secret) == (128, 128, "ternary")
    expected = {
        "security": ("128 bits", "192 and 256"),
        "secret": ("uniform ternary",),
        "noise": (f"sigma {p.sigma},",),
        "second secret": (f"with {boots.sparse_weight} nonzero", f"under {sparse:.1f} bits"),
        "limbs": (
            "below 2^30", f"n = 2^{p.n.bit_length() - 1}, {len(p.union)} primes",
            f"and {len(p.specials)} special",
        ),
        "dnum": (f"{len(p.digits)} at depth 7", f"{len(booted.digits)} for bootstraps"),
        "failure": (f"2^{boots.failure_log2:.1f} by default", f"{SIGMAS} standard"),
    }  # fmt: skip
    assert all(part in facts[name] for name, parts in expected.items() for part in parts)
    assert max(*p.union, *p.specials, *booted.union, *booted.specials) < 1 << 30


def test_the_page_from_scikit_learn_holds_eight_fitted_models_against_it() -> None:
    page = ROOT / "docs" / "from-scikit-learn.md"
    code = "\n".join(s.text for s in snippets(page))
    imported = [
        alias.name
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("sklearn.")
        for alias in node.names
    ]
    models = [n for n in imported if not n.startswith("load_") and n != "StandardScaler"]
    assert len(models) == 8 and code.count(".fit(") == 7  # two linear models share a loop
    first = page.read_text(encoding="utf-8").partition("## ")[0]
    assert all(f"`{name}" in first or f"{name}(" in first for name in models)


def test_every_public_name_stands_on_a_page() -> None:
    words = set(re.findall(r"\w+", "".join(page.read_text() for page in PAGES)))
    for module in (ren, ckks, ckks.math, ckks.stats):
        assert words.issuperset(module.__all__), module.__name__
