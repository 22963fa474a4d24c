"""The pictures of the pages are those that Ren draws now, and can be read in light and dark."""

from __future__ import annotations

from xml.etree import ElementTree

from tests.pictures import DOCS, pictures


def test_pictures_are_current() -> None:
    for name, text in pictures().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name}: run `make golden`"


def test_pictures_stand_by_themselves_in_light_and_dark() -> None:
    drawn = sorted(DOCS.glob("*.svg"))
    assert len(drawn) >= 2
    for path in drawn:
        text = path.read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        assert "prefers-color-scheme: dark" in text
        assert text.count("://") == text.count("http://www.w3.org/2000/svg") == 1
