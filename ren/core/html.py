"""HTML for notebooks: cards of facts and tables, light and dark, that style nothing but themselves.

Text is escaped here and nowhere else. A card is well-formed XML, holds its own style, and refers to
nothing outside.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from html import escape

# Pages say in these ways whether they are light or dark. A page that says nothing follows its
# reader's system setting. VS Code gives light high contrast both of its names, so light comes last.
_DARK_PAGES = (
    '[data-jp-theme-light="false"]', '[data-md-color-scheme="slate"]', ".vscode-dark",
    ".vscode-high-contrast",
)  # fmt: skip
_LIGHT_PAGES = (
    '[data-jp-theme-light="true"]', '[data-md-color-scheme="default"]', ".vscode-light",
    ".vscode-high-contrast-light",
)  # fmt: skip

_LIGHT = """--page: #ffffff; --text: #1c1c1c; --dim: #55606e; --line: #d4d8de; --tint: #f3f5f8;
  --bar: #3b78c4; --bad: #a3160c; --bad-page: #fde9e7;"""
_DARK = """--page: #16181c; --text: #eceef1; --dim: #aab2bd; --line: #3a4048; --tint: #20242a;
  --bar: #6cabf0; --bad: #ffb4ab; --bad-page: #5c1a15;"""

# Twice the class: notebooks style every table, and this is closer than they are.
_CARD = ".ren-card.ren-card"
_RULES = f"""
{_CARD} {{ display: inline-block; max-width: 100%; box-sizing: border-box; overflow-x: auto;
  margin: 2px 0; padding: 8px 14px 10px; border: 1px solid var(--line); border-radius: 6px;
  background: var(--page); color: var(--text); font: 13px/1.5 system-ui, sans-serif; }}
{_CARD} .ren-head {{ font-weight: 600; margin: 0 0 4px; }}
{_CARD} .ren-tag {{ margin-left: 8px; padding: 1px 8px; border-radius: 9px; font-size: 12px;
  font-weight: 400; background: var(--tint); color: var(--dim); }}
{_CARD} .ren-bad {{ margin-left: 8px; padding: 1px 8px; border-radius: 9px; font-size: 12px;
  font-weight: 700; background: var(--bad-page); color: var(--bad); }}
{_CARD} .ren-note {{ margin: 6px 0 0; color: var(--dim); font-size: 12px; }}
{_CARD} .ren-scroll {{ max-height: 420px; overflow-y: auto; margin: 8px 0 0; }}
{_CARD} table.ren-table {{ border-collapse: collapse; border: 0; margin: 0; width: auto;
  table-layout: auto; font-size: 13px; color: inherit; font-variant-numeric: tabular-nums; }}
{_CARD} .ren-scroll + .ren-table {{ margin-top: 10px; }}
{_CARD} .ren-table tr:nth-child(n) {{ background: none; border: 0; }}
{_CARD} .ren-table tr > :nth-child(n) {{ padding: 1px 16px 1px 0; border: 0; max-width: none;
  text-align: right; vertical-align: top; white-space: nowrap; color: inherit;
  background: none; font-weight: 400; }}
{_CARD} .ren-table tr > .ren-left:nth-child(n) {{ text-align: left; }}
{_CARD} .ren-table tr > th:nth-child(n) {{ color: var(--dim); }}
{_CARD} .ren-table tr > .ren-long:nth-child(n) {{ white-space: normal; max-width: 46em; }}
{_CARD} .ren-rows thead th:nth-child(n) {{ position: sticky; top: 0; background: var(--page);
  border-bottom: 1px solid var(--line); }}
{_CARD} .ren-meter {{ display: inline-block; width: 90px; height: 8px; margin-left: 10px;
  border-radius: 4px; background: var(--tint); border: 1px solid var(--line); }}
{_CARD} .ren-meter span {{ display: block; height: 8px; border-radius: 4px;
  background: var(--bar); }}
{_CARD} .ren-picture {{ margin: 8px 0 0; max-height: 720px; overflow: auto; }}
"""
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")


class Markup(str):
    """Text that is HTML already; everything else is escaped."""

    __slots__ = ()


Cell = str | Markup


def themed(selector: str, light: str, dark: str) -> str:
    """Declarations for `selector`, light or dark as the page around it is, or else the system."""
    dark_pages, light_pages = (
        ", ".join(f"{page} {selector}" for page in pages) for pages in (_DARK_PAGES, _LIGHT_PAGES)
    )
    return (
        f"{selector} {{ {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ {selector} {{ {dark} }} }}\n"
        f"{dark_pages} {{ {dark} }}\n"
        f"{light_pages} {{ {light} }}\n"
    )


_STYLE = themed(".ren-card", _LIGHT, _DARK) + _RULES


def card(title: str, *parts: Markup, tags: Iterable[str] = (), warning: str = "") -> str:
    """A framed piece of a notebook: a title, tags behind it, a warning that is seen, and parts."""
    marks = [f'<span class="ren-tag">{_text(tag)}</span>' for tag in tags if tag]
    marks += [f'<span class="ren-bad">{_text(warning)}</span>'] if warning else []
    head = f'<div class="ren-head">{_text(title)}{"".join(marks)}</div>'
    return f'<div class="ren-card"><style>{_STYLE}</style>{head}{"".join(parts)}</div>'


def facts(rows: Iterable[tuple[Cell, ...]]) -> Markup:
    """Names and what they are, a row each, in as many cells; those that are empty are left out."""
    made = "".join(
        f'<tr><th class="ren-left">{_text(name)}</th>'
        + "".join(f'<td class="ren-left ren-long">{_text(cell)}</td>' for cell in (value, *more))
        + "</tr>"
        for name, value, *more in rows
        if value
    )
    return Markup(f'<table class="ren-table">{made}</table>')


def table(rows: Iterable[Sequence[Cell]], left: Collection[int] = (0,)) -> Markup:
    """Rows under the first, which is the head; columns not in `left` are aligned right."""
    head, *body = [_row(row, "th" if not i else "td", left) for i, row in enumerate(rows)]
    made = f"<thead>{head}</thead><tbody>{''.join(body)}</tbody>"
    return Markup(f'<div class="ren-scroll"><table class="ren-table ren-rows">{made}</table></div>')


def _row(row: Sequence[Cell], tag: str, left: Collection[int]) -> str:
    aligned = (' class="ren-left"' if i in left else "" for i in range(len(row)))
    cells = (f"<{tag}{a}>{_text(c)}</{tag}>" for a, c in zip(aligned, row, strict=True))
    return f"<tr>{''.join(cells)}</tr>"


def meter(part: float) -> Markup:
    """A bar that is filled to `part`, from 0 to 1."""
    width = round(100 * min(max(part, 0.0), 1.0))
    return Markup(f'<span class="ren-meter"><span style="width: {width}%"></span></span>')


def joined(*pieces: Cell) -> Markup:
    """Pieces one behind the other, in one cell."""
    return Markup("".join(map(_text, pieces)))


def note(words: str) -> Markup:
    """A line of small print."""
    return Markup(f'<div class="ren-note">{_text(words)}</div>')


def picture(svg: str) -> Markup:
    """A picture that `ren.lowering.inspect.svg` made, which scrolls where the page is narrower."""
    return Markup(f'<div class="ren-picture">{svg}</div>')


def _text(value: Cell) -> str:
    return value if isinstance(value, Markup) else escape(_NOT_IN_XML.sub("\ufffd", value))
