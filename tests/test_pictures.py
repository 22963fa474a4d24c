"""The pictures of the pages are those that Ren draws now, and can be read in light and dark."""

from __future__ import annotations

from xml.etree import ElementTree

from tests.charts import CHARACTER, curves_chart, times_chart
from tests.pictures import DOCS, pictures

SVG = "{http://www.w3.org/2000/svg}"


def test_pictures_are_current() -> None:
    for name, text in pictures().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name}: run `make golden`"


def test_pictures_stand_by_themselves_in_light_and_dark() -> None:
    drawn = sorted(DOCS.glob("*.svg"))
    assert len(drawn) >= 4
    for path in drawn:
        text = path.read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        assert "prefers-color-scheme: dark" in text
        assert text.count("://") == text.count("http://www.w3.org/2000/svg") == 1


def test_charts_overlap_no_text_and_stay_on_the_page() -> None:
    for name in ("times.svg", "smoothing.svg"):
        root = ElementTree.fromstring((DOCS / name).read_text(encoding="utf-8"))
        boxes = []
        for text in root.iter(f"{SVG}text"):
            x, y = float(text.attrib["x"]), float(text.attrib["y"])
            width, role = len(text.text or "") * CHARACTER, text.attrib["class"].split()
            x -= width if "end" in role else width / 2 if "middle" in role else 0
            assert x >= 0 and x + width <= float(root.attrib["width"]), text.text
            assert 10 <= y <= float(root.attrib["height"]) - 3, text.text
            boxes.append((x, y - 10, x + width, y + 3))
        for i, a in enumerate(boxes):
            for b in boxes[:i]:
                assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3], name


def test_times_chart_places_marks_by_logarithm_and_prints_ratios() -> None:
    chart = times_chart({
        ("rotation", 8192, "Ren"): 1e-3, ("rotation", 8192, "SEAL"): 1e-1,
        ("rotation", 8192, "OpenFHE"): 1e-2, ("an operation that is not shown", 8192, "Ren"): 9.0,
    })  # fmt: skip
    root = ElementTree.fromstring(chart)
    marks = {
        path.attrib["class"]: float(path.attrib["transform"][10:].split()[0])
        for path in root.iter(f"{SVG}path") if not path.attrib["transform"].endswith(" 46.0)")
    }  # fmt: skip
    ours, seal, openfhe = (marks[f"mark {role}"] for role in "abc")
    assert abs((seal - ours) - 2 * (openfhe - ours)) < 0.2 and seal > openfhe > ours
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"2^13", "1.00", "10.0x to 100.0x"} <= {*texts}


def test_curves_chart_scales_each_panel_to_its_curves() -> None:
    root = ElementTree.fromstring(curves_chart("T", [("one", [[0, 1, 2]], "a")]))
    (curve,) = root.iter(f"{SVG}polyline")
    assert curve.attrib["points"] == "12.0,182.0 120.0,122.0 228.0,62.0"
