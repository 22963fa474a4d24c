"""Pages are written for GitHub; what MkDocs reads otherwise is brought in its form here."""

import logging
import re
from typing import Any

RAISES = re.compile(r"^```python raises=(\w+)$", re.MULTILINE)
MENDED = re.compile(r'(^```python title="raises [^`]*^```\n\n```python)$', re.MULTILINE)
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
# A block inside a list item: two spaces are enough on GitHub, four are needed here.
NESTED = re.compile(r"(?<=\n\n)(?:  \S.*\n)+")
UNREAD = re.compile(r"```|\|\s*:?-{3}|^\s*- ", re.MULTILINE)

_log = logging.getLogger("mkdocs.hooks")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The text of a page as MkDocs reads it."""
    titled = RAISES.sub(r'```python title="raises \1"', markdown)
    parts = FENCED.split(MENDED.sub(r'\1 title="mended"', titled))
    return "".join(p if p.startswith("```") else NESTED.sub(_indented, p) for p in parts)


def _indented(block: re.Match[str]) -> str:
    return re.sub("^  ", "    ", block[0], flags=re.MULTILINE) + "\n"


def on_page_content(html: str, page: Any, **_: Any) -> None:
    """Warns where a fence, a table or a list stayed text."""
    if found := UNREAD.search(re.sub(r"<pre.*?</pre>", "", html, flags=re.DOTALL)):
        _log.warning("%s: markdown that was not read: %r", page.file.src_path, found[0])
