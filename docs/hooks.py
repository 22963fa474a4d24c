"""MkDocs hooks: pages written for GitHub in the form of MkDocs, and notebooks as pages.

The folder `notebooks/` appears on the site as it is in the repository: `README.md` as its index,
each notebook with the outputs that it was saved with. Nothing runs.
"""

import logging
import re
from html import escape
from pathlib import Path
from typing import Any

RAISES = re.compile(r"^```python raises=(\w+)$", re.MULTILINE)
MENDED = re.compile(r'(^```python title="raises [^`]*^```\n\n```python)$', re.MULTILINE)
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
# A block inside a list item: two spaces are enough on GitHub, four are needed here.
NESTED = re.compile(r"(?<=\n\n)(?:  \S.*\n)+")
UNREAD = re.compile(r"```|\|\s*:?-{3}|^\s*- ", re.MULTILINE)
FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", re.DOTALL)
# Tests that hold a sentence: a comment on GitHub, a small mark in the text here.
TESTED = re.compile(r"\s*<!--\s*((?:tests/[\w/]+\.py::\w+\s*)+)-->")
HELD = re.compile(r'<p><span data-held="(\d+)"></span></p>|<span data-held="(\d+)"></span>')
NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
# Links on GitHub and on the site: a notebook is a page, and docs/ is the root.
LINKS = (
    (re.compile(r"(\]\([\w./]*)README\.md\)"), r"\1index.md)"),
    (re.compile(r"(\]\([\w./]*\w)\.ipynb\)"), r"\1.md)"),
    (re.compile(r"(\]\()\.\./notebooks/"), r"\1notebooks/"),
    (re.compile(r"(\]\()\.\./docs/"), r"\1../"),
)

_log = logging.getLogger("mkdocs.hooks")
_held: dict[str, list[str]] = {}  # HTML of each page that Markdown leaves alone


def on_files(files: Any, config: Any, **_: Any) -> None:
    """Add the folder of notebooks."""
    from mkdocs.structure.files import File

    readme = (NOTEBOOKS / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "notebooks/index.md", content=readme))
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        name = f"notebooks/{path.stem}.md"
        files.append(File.generated(config, name, content=notebook_page(path, name)))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The text of a page as MkDocs reads it."""
    titled = RAISES.sub(r'```python title="raises \1"', markdown)
    parts = FENCED.split(MENDED.sub(r'\1 title="mended"', titled))
    return "".join(p if p.startswith("```") else _outside_of_fences(p) for p in parts)


def _outside_of_fences(text: str) -> str:
    for pattern, replacement in LINKS:
        text = pattern.sub(replacement, text)
    text = TESTED.sub(_mark, text)
    return NESTED.sub(_indented, text)


def _mark(tests: re.Match[str]) -> str:
    """An element without text, drawn by site.css; its title names the tests."""
    return f'<span class="ren-tested" title="Tested: {", ".join(tests[1].split())}"></span>'


def _indented(block: re.Match[str]) -> str:
    return re.sub("^  ", "    ", block[0], flags=re.MULTILINE) + "\n"


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Put outputs in place; warn where a fence, a table or a list stayed text."""
    if found := UNREAD.search(re.sub(r"<pre.*?</pre>", "", html, flags=re.DOTALL)):
        _log.warning("%s: markdown that was not read: %r", page.file.src_path, found[0])
    held = _held.get(page.file.src_uri, [])
    return HELD.sub(lambda m: held[int(m[1] or m[2])], html)


# --------------------------------------------------------------------------------------- notebooks


def notebook_page(path: Path, name: str) -> str:
    """The Markdown of a notebook; its formulas and pictures are held until they are put in place.

    Args:
        path: the notebook.
        name: of its page, under which the HTML is held.
    """
    import nbformat

    held = _held[name] = []

    def hold(html: str) -> str:
        held.append(html)
        return f'<span data-held="{len(held) - 1}"></span>'

    parts = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            parts.append(FORMULA.sub(lambda m: hold(_mathml(m)), cell.source))
            continue
        parts.append(f"```python\n{cell.source}\n```")
        parts += [_output(output, hold) for output in cell.outputs]
    return "\n\n".join(parts) + "\n"


def _mathml(formula: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    return convert(formula[1] or formula[2], "block" if formula[1] else "inline")


def _output(output: Any, hold: Any) -> str:
    """Text as a block of its own; HTML and pictures as they were saved."""
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```"
    data = output.data
    if "text/html" in data:
        return hold(data["text/html"])
    if "image/png" in data:
        size = output.metadata.get("image/png", {})
        picture = "".join(data["image/png"].split())
        width = f' width="{size["width"]}"' if "width" in size else ""
        alt = escape(data.get("text/plain", ""), quote=True)
        source = f"data:image/png;base64,{picture}"
        return hold(f'<img class="ren-output" alt="{alt}" src="{source}"{width}>')
    return f"```text\n{data['text/plain']}\n```"
