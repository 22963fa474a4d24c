"""Lint the prose of docstrings, comments and pages: `python -m tests.prose [path ...]`.

The rules, each named as `RULES` names it:

- first-word: a docstring opens with a verb or a noun, never with one of `FIRST_WORDS`.
- phrase: none of `PHRASES` stands outside of code spans and quotations.
- length: a sentence has at most `MAX_WORDS` words. A code span counts as one word, numbers and the
  symbols of formulas as none. Citations are exempt.

The text is that of docstrings and comments in `ren/`, of comments in native C++ sources, and of
`docs/**/*.md` and `README.md`. Fenced code, tables, headings, doctests and directives (`# noqa`)
are skipped.
`NOT_COVERED` lists for each rule the paths that still await their rewrite.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("ren/**/*.py", "ren/lowering/backends/native/src/*", "docs/**/*.md", "README.md")
RULES = ("first-word", "phrase", "length")
FIRST_WORDS = frozenset({"what", "whatever", "of", "as", "how", "where", "which"})
MAX_WORDS = 20
PHRASES = {
    "has no name for": r"\b(?:has|have) no names? for\b",
    "is no": r"(?<!\bthere )\bis no (?!(?:longer|more|less|fewer|[a-z]+er)\b|one\b)",
    "of no account": r"\bof no account\b",
    "in the stead of": r"\bin the stead of\b",
    "nobody": r"\bnobody\b",
    "whoever": r"\bwhoever\b",
    "is told": r"\b(?:is|are|was|were) told\b",
    "code does not know": r"\bknows\b",
    "code does not learn": r"\blearns\b",
    "code does not look": r"\blooks\b(?! up\b)",
    "code does not go away": r"\bgo(?:es)? away\b",
    "code is not kind": r"\b(?:is|are|be) kind\b",
}
_PHRASES = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in PHRASES.items()}

# Paths, or folders with a `/` at their end, that a rule does not cover yet: to be emptied.
NOT_COVERED: dict[str, tuple[str, ...]] = {
    "first-word": (),
    "phrase": (),
    "length": (),
}

_DIRECTIVE = re.compile(r"#\s*(?:noqa|fmt:|type:|pyright:|pragma|ruff:|!|-{3,})")
_CPP_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SECTION = re.compile(r"(?:Args|Attributes|Returns|Raises|Yields|Example):")
_ITEM = re.compile(r"(?:[-*+]|\d+\.)\s+")
_FIELD = re.compile(r"[*`]*\w+[*`]*(?:, [*`]*\w+[*`]*)*:(?: |$)")
_COLUMNS = re.compile(r"[^\s.] {3,}\S")  # a row of aligned formulas
_WORD = re.compile(r"[^\W\d_]{2}|^[\W_]*[aA][\W_]*$")
_CITATION = ("Reference: ", "References: ")
_CODE = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
_QUOTE = re.compile(r'"[^"\n]*"')
_LINK = re.compile(r"\]\([^)\s]*\)")
_MARK = re.compile(r"<!--.*?-->", re.DOTALL)
_END = re.compile(
    r"(?<!e\.g)(?<!i\.e)(?<! cf)(?<!\bvs)(?<!Sec)(?<!Fig)[.!?][\"')*\]]*\s+(?=[^a-z\s])"
)


class Finding(NamedTuple):
    """One violation.

    Fields: `path` relative to the repository, `line` (from 1), the `rule` and the `text` at fault.
    """

    path: str
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


class Paragraph(NamedTuple):
    """Consecutive lines of prose, from line number `line` on."""

    line: int
    lines: list[str]
    opens_docstring: bool = False


def paragraphs(lines: list[str], first: int, is_docstring: bool = False) -> Iterator[Paragraph]:
    """Split lines at blank lines, at list items and fields, and where the indentation shrinks."""
    block: list[str] = []
    start, indent, skipping, opens = first, 0, False, is_docstring
    in_doctest = in_section = False
    for number, line in enumerate([*lines, ""], first):
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        in_doctest = bool(text) and (in_doctest or text.startswith(">>>"))
        if skipping and (depth > indent or not text):
            continue
        skipping = False
        is_code = in_doctest or text.startswith(("|", "#", "<")) or bool(_COLUMNS.search(text))
        in_section = bool(text) and (in_section or bool(_SECTION.fullmatch(text)))
        is_item = _ITEM.match(text) or (in_section and _FIELD.match(text))
        if block and (not text or is_code or is_item or depth < indent):
            yield Paragraph(start, block, opens)
            skipping, block, opens = block[-1].endswith("::") and not text, [], False
        if not text or is_code or skipping:
            continue
        if not block:
            start = number
        indent = depth
        block.append(text)
        if _SECTION.fullmatch(text):
            yield Paragraph(start, block, opens)
            block, opens = [], False


def docstrings(tree: ast.Module, source: list[str]) -> Iterator[Paragraph]:
    """Paragraphs of the docstrings of a module, its classes and its functions."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            held = node.body[0]
            end = held.end_lineno or held.lineno
            lines = source[held.lineno - 1 : end]
            indent = len(lines[0]) - len(lines[0].lstrip())
            body = re.sub(r'^(\s*)r?"""', r"\1", lines[0], count=1)
            lines = [body, *lines[1:]]
            lines[-1] = lines[-1].rstrip().removesuffix('"""')
            yield from paragraphs([line[indent:] for line in lines], held.lineno, True)


def blocks(comments: list[tuple[int, int, str]]) -> Iterator[Paragraph]:
    """Paragraphs of comments (line, column, text): adjacent ones of one column belong together."""
    block: list[str] = []
    start, last = 0, (0, 0)
    for line, column, text in comments:
        if block and (line, column) != last:
            yield from paragraphs(block, start)
            block = []
        if not block:
            start = line
        block.append(text)
        last = (line + 1, column)
    yield from paragraphs(block, start)


def python_comments(text: str) -> list[tuple[int, int, str]]:
    """Comments (line, column, text without `#`) of a Python source, directives left empty."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [
        (*t.start, "" if _DIRECTIVE.match(t.string) else t.string[1:].removeprefix(" "))
        for t in tokens
        if t.type == tokenize.COMMENT
    ]


def cpp_comments(text: str) -> list[tuple[int, int, str]]:
    """Comments (line, column, text without `//`) of a C++ source, one for each line."""
    found = []
    for match in _CPP_COMMENT.finditer(text):
        if match[0].startswith('"'):
            continue
        line = text.count("\n", 0, match.start()) + 1
        column = match.start() - text.rfind("\n", 0, match.start())
        for offset, row in enumerate(match[0].split("\n")):
            bare = re.sub(r"^\s*(?://+|/\*+|\*+(?!/))\s?|\s*\*+/\s*$", "", row)
            found.append((line + offset, column, "" if re.match(r"-{3,}", bare) else bare))
    return found


def markdown(text: str) -> Iterator[Paragraph]:
    """Paragraphs of a page without its fenced code, headings, tables, comments and HTML."""
    lines, fenced = [], False
    text = _MARK.sub(lambda m: "\n·" * m[0].count("\n"), text)  # lines keep their numbers
    for line in text.split("\n"):
        is_fence = line.lstrip().startswith(("```", "~~~"))
        lines.append("" if fenced or is_fence else line)
        fenced ^= is_fence
    yield from paragraphs(lines, 1)


def prose(path: Path) -> Iterator[Paragraph]:
    """Paragraphs of a file, by its suffix."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from docstrings(ast.parse(text), text.split("\n"))
        yield from blocks(python_comments(text))
    elif path.suffix == ".md":
        yield from markdown(text)
    else:
        yield from blocks(cpp_comments(text))


def words(sentence: str) -> int:
    """Number of words; numbers and one-letter symbols of formulas are none, but "a" is one."""
    return sum(bool(_WORD.search(word)) for word in sentence.split())


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """Replace matches by one word of the same length, so that offsets stay."""
    return pattern.sub(lambda m: "X" * len(m[0]), text)


def check(paragraph: Paragraph) -> Iterator[tuple[int, str, str]]:
    """Findings of a paragraph, each as line, rule and text."""
    text = " ".join(paragraph.lines)
    starts = [0]
    for line in paragraph.lines[:-1]:
        starts.append(starts[-1] + len(line) + 1)

    def line_of(offset: int) -> int:
        return paragraph.line + bisect_right(starts, offset) - 1

    first = re.match(r"\W*(\w+)", text)
    if paragraph.opens_docstring and first and first[1].lower() in FIRST_WORDS:
        yield paragraph.line, "first-word", paragraph.lines[0]
    bare = _LINK.sub(lambda m: "]" + " " * (len(m[0]) - 1), _blank(_CODE, text))
    for name, pattern in _PHRASES.items():
        for match in pattern.finditer(_blank(_QUOTE, bare)):
            around = text[max(0, match.start() - 30) : match.end() + 30]
            yield line_of(match.start()), "phrase", f"{name!r} in {around!r}"
    if text.startswith(_CITATION):
        return
    begin = 0
    for end in [*(m.end() for m in _END.finditer(bare)), len(bare)]:
        count = words(bare[begin:end])
        if count > MAX_WORDS:
            yield line_of(begin), "length", f"{count} words: {text[begin:end].strip()}"
        begin = end


def is_covered(path: str, rule: str) -> bool:
    """Tell whether a rule covers a path (relative to the repository) already."""
    listed = NOT_COVERED.get(rule, ())
    return not any(path == p or (p.endswith("/") and path.startswith(p)) for p in listed)


def findings(paths: list[Path]) -> Iterator[Finding]:
    """Findings of files, in order, without those of rules that do not cover a file yet."""
    for path in paths:
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.as_posix()
        held = (Finding(name, *f) for p in prose(path) for f in check(p))
        yield from sorted(f for f in held if is_covered(name, f.rule))


def sources() -> list[Path]:
    """The files that the lint covers, sorted."""
    return sorted(p for pattern in SOURCES for p in ROOT.glob(pattern) if p.is_file())


def main(arguments: list[str]) -> int:
    """Print each finding as `path:line: rule: text`; the exit status is 1 where there is one."""
    found = list(findings([Path(a).resolve() for a in arguments] or sources()))
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
