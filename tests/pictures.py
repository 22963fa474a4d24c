"""The pictures of the pages, drawn by Ren: `python -m tests.pictures` writes them to docs/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ren
from ren import Poly
from ren.lowering.inspect.plan_diagram import plan_diagram
from ren.lowering.inspect.svg import svg
from ren.schemes import ckks

DOCS = Path(__file__).resolve().parents[1] / "docs"


def picture(function: Any, *args: Any) -> str:
    """The plan of a function as SVG."""
    jitted = ren.jit(tier="units")(function)
    jitted(*args)
    return svg(plan_diagram(jitted.plans[0].plan)) + "\n"


def pictures() -> dict[str, str]:
    """What each file shows."""
    context = ckks.context(depth=1)
    encrypted = context.encrypt([1.0, 2.0])
    x, y = (Poly(coeffs, encrypted.ring) for coeffs in ([1, 2], [3, 4]))
    return {
        "plan.svg": picture(lambda x, y: (x * y).rotate(1) + x, x, y),
        "rotation.svg": picture(lambda x: x.rotate(1), encrypted),
    }


def main() -> None:
    """Writes them all."""
    for name, text in pictures().items():
        (DOCS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
