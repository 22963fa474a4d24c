"""The lint of docstrings, comments and pages finds each violation, and the sources have none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import prose

LONG = " ".join(f"Word{i}" for i in range(prose.MAX_WORDS + 1)) + "."


def found(path: Path, text: str) -> list[tuple[int, str]]:
    path.write_text(text, encoding="utf-8")
    return [(f.line, f.rule) for f in prose.findings([path])]


@pytest.mark.long
def test_main_finds_nothing_in_the_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(prose.sources()) > 250
    assert prose.main([]) == 0, capsys.readouterr().out


def test_main_prints_file_line_rule_and_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.py"
    path.write_text('"""Nouns."""\n\n\ndef f():\n    """What f does."""\n', encoding="utf-8")
    assert prose.main([str(path)]) == 1
    assert capsys.readouterr().out == f"{path}:5: first-word: What f does.\n"


def test_not_covered_names_paths_that_exist_and_await_a_rewrite() -> None:
    assert set(prose.NOT_COVERED) == set(prose.RULES)
    for rule, paths in prose.NOT_COVERED.items():
        assert list(paths) == sorted(set(paths))
        for path in paths:
            target = prose.ROOT / path
            assert target.is_dir() if path.endswith("/") else target.is_file(), path
            files = [p for p in prose.sources() if p == target or target in p.parents]
            held = [f for p in files for block in prose.prose(p) for f in prose.check(block)]
            assert any(f[1] == rule for f in held), f"{rule} holds for {path}: take it off the list"


@pytest.mark.parametrize("word", sorted(prose.FIRST_WORDS))
def test_check_finds_the_first_word_of_a_docstring(tmp_path: Path, word: str) -> None:
    text = (
        f'"""{word.title()} there is.\n\n{word.title()} a later line may begin."""\n# {word} it\n'
    )
    assert found(tmp_path / "a.py", text) == [(1, "first-word")]
    assert found(tmp_path / "b.py", f'"""{word.title()}ever."""\n') in ([], [(1, "first-word")])


@pytest.mark.parametrize(
    "text",
    [
        "The graph has a step that rows have no name for.",
        "A number is no polynomial.",
        "The device is of no account.",
        "One call in the stead of many.",
        "Nobody reads it, and that is so.",
        "Freed by whoever reads it.",
        "The caller is told at once.",
        "XLA knows the kernel.",
        "The process learns the form.",
        "The function looks at flags.",
        "Views do not go away here.",
        "Be kind to the user.",
    ],
)
def test_check_finds_phrases(tmp_path: Path, text: str) -> None:
    assert found(tmp_path / "a.md", f"Text.\n\n{text}\n") == [(3, "phrase")]
    assert found(tmp_path / "a.py", f"x = 1  # {text}\n") == [(1, "phrase")]
    assert found(tmp_path / "a.h", f"int x;\n// {text}\n") == [(2, "phrase")]


@pytest.mark.parametrize(
    "text",
    [
        "There is no carry.", "It is no longer read.", "A limb is no wider than 62 bits.",
        "`nobody knows`", 'The error says "is no polynomial".', "The encoder looks up a table.",
    ],
)  # fmt: skip
def test_check_allows_plain_words(tmp_path: Path, text: str) -> None:
    assert found(tmp_path / "a.md", text) == []


def test_check_counts_words_of_sentences(tmp_path: Path) -> None:
    assert found(tmp_path / "a.md", LONG.removeprefix("Word0 ")) == []
    assert found(tmp_path / "a.md", f"Short.\n{LONG}") == [(2, "length")]
    assert found(tmp_path / "a.md", LONG.replace("Word3 Word4", "Word3. Word4")) == []
    assert found(tmp_path / "a.md", LONG.replace("Word3", "e.g. Word3")) == [(1, "length")]
    assert found(tmp_path / "a.md", LONG.replace("Word3 Word4", "`Word3 Word4`")) == []
    assert found(tmp_path / "a.md", LONG.replace("Word3 Word4", "x = 2^32 q")) == []
    assert found(tmp_path / "a.md", LONG.replace("Word3 Word4", "a word")) == [(1, "length")]
    assert found(tmp_path / "a.md", f"References: {LONG}") == []


@pytest.mark.parametrize("code", ["```\n{}\n```\n", "| {} |\n", "## {}\n"])
def test_markdown_skips_code_tables_and_headings(tmp_path: Path, code: str) -> None:
    assert found(tmp_path / "a.md", code.format(LONG)) == []


def test_markdown_skips_marks_of_tests_and_keeps_line_numbers(tmp_path: Path) -> None:
    mark = "<!--\ntests/test_a.py::test_b -->"
    half = " ".join(["word"] * 12)
    assert found(tmp_path / "a.md", f"{half}.{mark}\nSo {half}.") == []
    assert found(tmp_path / "a.md", f"{half}{mark}\nand {half}.") == [(1, "length")]
    assert found(tmp_path / "a.md", f"{half}.{mark}\nEnd.\n\n{LONG}") == [(5, "length")]


def test_docstrings_split_at_fields_and_items(tmp_path: Path) -> None:
    half = " ".join(["word"] * 12)
    fields = f"Args:\n    x: {half}\n        {half}\n    y: {half}\n\n- {half}\n- {half}\n"
    assert found(tmp_path / "a.py", f'"""Title.\n\n{fields}"""\n') == [(4, "length")]


def test_docstrings_skip_doctests_and_literal_blocks(tmp_path: Path) -> None:
    text = f'"""Title.\n\n>>> f()\n{LONG}\n\nLiterally::\n\n    {LONG}\n\n    {LONG}\n\n{LONG}"""\n'
    assert found(tmp_path / "a.py", text) == [(12, "length")]


def test_docstrings_are_those_of_modules_classes_and_functions() -> None:
    text = '"""M."""\nclass A:\n    """A."""\n    async def f(self):\n        """F."""\n'
    blocks = prose.docstrings(ast.parse(text), text.split("\n"))
    assert [(b.line, b.lines) for b in blocks] == [(1, ["M."]), (3, ["A."]), (5, ["F."])]


def test_comments_of_adjacent_lines_are_one_paragraph(tmp_path: Path) -> None:
    half = " ".join(["word"] * 12)
    assert found(tmp_path / "a.py", f"# {half}\n# {half}\n") == [(1, "length")]
    assert found(tmp_path / "a.h", f"// {half}\n// {half}\n") == [(1, "length")]
    assert found(tmp_path / "a.h", f"/* {half}\n * {half} */\n") == [(1, "length")]
    assert found(tmp_path / "a.py", f"x = 1  # {half}\ny = 10  # {half}\n") == []
    assert found(tmp_path / "a.py", f"# noqa {LONG}\n# ---- {LONG}\n") == []
    assert found(tmp_path / "a.h", f'const char* s = "// {LONG}";\n') == []
