"""Every stage of eight small programs prints what its golden file holds; `make golden` rewrites."""

from __future__ import annotations

import pytest

from tests.golden_programs import FOLDER, PROGRAMS, GoldenProgram, text_of, write


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_stages_are_as_they_were(program: GoldenProgram) -> None:
    golden = (FOLDER / f"{program.name}.txt").read_text(encoding="utf-8")
    assert text_of(program) == golden, "changed on purpose? `make golden`, and read the diff"


def test_no_golden_file_is_without_its_program() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == {p.name for p in PROGRAMS}


def test_rewriting_writes_each_program_and_removes_the_rest(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tests.golden_programs.FOLDER", tmp_path / "golden")
    write(PROGRAMS[:2])
    write(PROGRAMS[1:3])
    names = sorted(path.stem for path in (tmp_path / "golden").iterdir())
    assert names == sorted(p.name for p in PROGRAMS[1:3])
    for program in PROGRAMS[1:3]:
        written = (tmp_path / "golden" / f"{program.name}.txt").read_text(encoding="utf-8")
        assert written == text_of(program)
