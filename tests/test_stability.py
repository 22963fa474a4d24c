"""docs/stability.md lists each public name once; the files at the root say what a release needs."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

import ren
from ren.schemes import ckks

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def listed(section: str, module: str) -> list[str]:
    """The names of a module in the table of a section."""
    (found,) = re.findall(rf"^## {section}\n(.*?)(?=^## )", PAGE, re.DOTALL | re.MULTILINE)
    rows = [line.strip("|").split("|") for line in found.splitlines() if line.startswith("| `")]
    cells = [cell for head, cell in rows if re.search(rf"`{module}`", head)]
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


@pytest.mark.parametrize(("module", "names"), [("ren", ren.__all__), ("ckks", ckks.__all__)])
def test_each_public_name_is_stable_or_provisional(module: str, names: list[str]) -> None:
    found = listed("Stable", module) + listed("Provisional", module)
    assert sorted(found) == sorted(names)
    assert listed("Stable", module) and listed("Provisional", module)


def test_the_newest_change_is_the_version_with_a_date_and_a_tag() -> None:
    heads = re.findall(r"^## (.*)$", CHANGES, re.MULTILINE)
    version, day, tag = re.fullmatch(r"([\d.]+), ([\d-]+), tag `(\S+)`", heads[0]).groups()
    assert version == ren.__version__ and tag == f"v{version}"
    assert date.fromisoformat(day) >= date(2026, 11, 28) and "unreleased" not in CHANGES
    assert f'version = "{version}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_policy_on_security_says_how_to_report_what_counts_and_that_there_was_no_review() -> (
    None
):
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert heads == ["Report a weakness", "In scope", "Out of scope"]
    assert "has not been reviewed" in text and "](docs/security.md)" in text


def test_contributing_is_five_lines_that_link() -> None:
    head, *lines = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").strip().splitlines()
    assert head == "# Contributing" and len([line for line in lines if line]) == 5
    linked = set(re.findall(r"\]\(([^)]+)\)", "\n".join(lines)))
    assert {"docs/contributing.md", "docs/stability.md", "SECURITY.md"} <= linked
