"""Links lead somewhere; the site has every page, and its reference every public name."""

from __future__ import annotations

import importlib.util
import inspect
import re
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest

import ren
from ren.schemes import ckks

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NOTEBOOKS = ROOT / "notebooks"  # a folder of the site too
AT_THE_ROOT = ("README", "NOTATION", "CHANGELOG", "SECURITY", "CONTRIBUTING")
OTHERS = [*(ROOT / f"{name}.md" for name in AT_THE_ROOT), NOTEBOOKS / "README.md"]
READ = [*PAGES, *OTHERS]
SITE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
LINK = re.compile(r"(?<!`)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
EXTERNAL = ("https://", "mailto:")
DOCUMENTED = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def github_anchor(heading: str) -> str:
    """As GitHub names a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def site_anchor(heading: str) -> str:
    """As MkDocs names it: runs of spaces and hyphens become one."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page that are the same on GitHub and on the site."""
    headings = re.findall(r"^#+ (.*?)\s*$", prose(page), re.MULTILINE)
    return frozenset(github_anchor(h) for h in headings if github_anchor(h) == site_anchor(h))


def links(page: Path) -> list[str]:
    return LINK.findall(prose(page))


@pytest.mark.parametrize("page", READ, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith(EXTERNAL):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
        if page in PAGES:  # what is outside of these folders is not on the site
            assert target.is_relative_to(DOCS) or target.parent == NOTEBOOKS, link


def test_links_are_found() -> None:
    assert sum(len(links(page)) for page in READ) > 50
    assert "settings" in anchors(DOCS / "jit.md") and "deptherror" in anchors(DOCS / "errors.md")


def test_the_site_has_every_page() -> None:
    nav = SITE.partition("\nnav:\n")[2].partition("\n\n")[0]
    listed = re.findall(r"[\w/-]+\.md$", nav, re.MULTILINE)
    notebooks = [f"notebooks/{path.stem}.md" for path in NOTEBOOKS.glob("*.ipynb")]
    pages = [page.relative_to(DOCS).as_posix() for page in PAGES]
    assert sorted(listed) == sorted([*pages, "notebooks/index.md", *notebooks])


def test_the_table_of_features_stands_among_the_pages_for_contributors() -> None:
    section = re.search(r"^  - Contributing:\n((?:      .*\n)+)", SITE, re.MULTILINE)
    assert section is not None and "seeds.md" in section[1] and "contributing.md" in section[1]
    linking = {p.stem for p in READ if any("seeds.md" in link for link in links(p))}
    assert linking <= {"contributing", "CHANGELOG"}


def test_tables_are_the_second_notebook_of_the_menu_and_of_the_list() -> None:
    listed = (NOTEBOOKS / "README.md").read_text(encoding="utf-8")
    for found in (
        re.findall(r"notebooks/(\d\d)_", SITE),
        re.findall(r"^\| \[(\d\d)_", listed, re.M),
    ):
        assert found == ["01", "11", *(f"{i:02}" for i in range(2, 10))]


def test_the_site_needs_no_network() -> None:
    assert re.search(r"^  font: false\b", SITE, re.MULTILINE)
    assert "://" not in SITE
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert "```mermaid" not in text and "<script" not in text, page
        assert not re.search(r"!\[[^]]*\]\(https?:", text), page


def test_a_warning_fails_the_site() -> None:
    """With --quiet MkDocs sees no warnings, and so none that --strict could fail for."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    command = re.search(r"^docs:.*\n(?:\t.*\n)+", makefile, re.MULTILINE)
    assert command is not None and " mkdocs build --strict\n" in command[0]


def hooks_of_the_site() -> Any:
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    assert spec is not None and spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    return hooks


def test_what_github_reads_is_brought_in_the_form_of_the_site() -> None:
    hooks = hooks_of_the_site()
    text = "- item\n\n  | a |\n  |---|\n- item\n\n```python raises=RingError\n\n  x\n```\n"
    read = "- item\n\n    | a |\n    |---|\n\n- item\n\n"
    broken = '```python title="raises RingError"\n\n  x\n```\n'
    assert hooks.on_page_markdown(text) == read + broken
    mended = '\n```python title="mended"\ny\n```\n'
    assert hooks.on_page_markdown(text + "\n```python\ny\n```\n") == read + broken + mended


def test_a_test_that_holds_a_sentence_is_a_mark_without_text() -> None:
    read = hooks_of_the_site().on_page_markdown
    text = "Right.<!--\n  tests/a.py::test_b\n  tests/c.py::test_d -->\n  So"
    title = "Tested: tests/a.py::test_b, tests/c.py::test_d"
    assert read(text) == f'Right.<span class="ren-tested" title="{title}"></span>\n  So'
    assert (
        read("```text\n<!-- tests/a.py::test_b -->\n```")
        == "```text\n<!-- tests/a.py::test_b -->\n```"
    )


@pytest.mark.parametrize(
    ("github", "site"),
    [
        ("[a](../notebooks/README.md)", "[a](notebooks/index.md)"),
        ("[a](../notebooks/03_jit.ipynb)", "[a](notebooks/03_jit.md)"),
        ("[a](03_jit.ipynb)", "[a](03_jit.md)"),
        ("[a](../docs/jit.md)", "[a](../jit.md)"),
        ("[a](jit.md#settings)", "[a](jit.md#settings)"),
    ],
)
def test_links_to_notebooks_lead_to_their_pages(github: str, site: str) -> None:
    assert hooks_of_the_site().on_page_markdown(github) == site


def test_a_notebook_is_a_page_with_its_saved_outputs(tmp_path: Path) -> None:
    hooks, page = hooks_of_the_site(), SimpleNamespace(file=SimpleNamespace(src_uri="a.md"))
    v4 = nbformat.v4
    shown = v4.new_output("display_data", {"text/html": "<div>\n\n- raw</div>", "text/plain": "x"})
    drawn = v4.new_output(
        "display_data", {"image/png": "QUJD\n", "text/plain": "<Figure>"},
        metadata={"image/png": {"width": 7}},
    )  # fmt: skip
    printed = v4.new_output("stream", name="stdout", text="1\n")
    result = v4.new_output("execute_result", {"text/plain": "2"}, execution_count=1)
    code = v4.new_code_cell("f(1)", outputs=[printed, shown, drawn, result])
    path = tmp_path / "a.ipynb"
    nbformat.write(v4.new_notebook(cells=[v4.new_markdown_cell("# A"), code]), path)
    text = hooks.notebook_page(path, "a.md")
    assert text.startswith("# A\n\n```python\nf(1)\n```\n\n```text\n1\n```\n\n<span data-held")
    assert text.endswith("\n\n```text\n2\n```\n") and "raw" not in text
    held = re.findall("<span.*", text)
    html = hooks.on_page_content("".join(f"<p>{line}</p>" for line in held), page)
    assert html == (
        "<div>\n\n- raw</div>"
        '<img class="ren-output" alt="&lt;Figure&gt;" src="data:image/png;base64,QUJD" width="7">'
    )


# ------------------------------------------------------------------------------------- reference


def documented() -> list[str]:
    pages = sorted((DOCS / "reference").glob("*.md"))
    return [path for p in pages for path in DOCUMENTED.findall(p.read_text(encoding="utf-8"))]


def held(path: str) -> Any:
    """The module, or the member of a module, at a path."""
    module, _, name = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), name)


def objects() -> list[Any]:
    """What the reference pages show, the members of modules instead of the modules."""
    found = [held(path) for path in documented()]
    inside = [member for o in found if inspect.ismodule(o) for member in vars(o).values()]
    return found + inside


def public_names() -> list[tuple[str, Any]]:
    """The names of ren, ckks, ckks.math and errors that are classes or functions."""
    modules = (ren, ckks, ckks.math)
    found = [(f"{m.__name__}.{n}", getattr(m, n)) for m in modules for n in m.__all__]
    found += [(f"ren.errors.{n}", v) for n, v in vars(ren.errors).items() if inspect.isclass(v)]
    return [(name, v) for name, v in found if inspect.isclass(v) or inspect.isfunction(v)]


def test_the_reference_has_every_public_name() -> None:
    shown = objects()
    assert len(public_names()) > 90
    for name, value in public_names():
        assert any(value is s for s in shown), name


def test_no_name_stands_twice_in_the_reference() -> None:
    found = documented()
    assert len(set(found)) == len(found) > 40
