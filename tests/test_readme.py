"""The snippets of the README run as they are written."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_encrypted_vectors() -> None:
    names: dict = {}
    exec(SNIPPETS[0], names)
    x, y = np.linspace(0, 1, 1000), np.linspace(1, 2, 1000)
    expected = x * y + np.append(x[1:], 0) - 0.5
    assert names["z"].decrypt() == pytest.approx(expected, abs=2**-20)


def test_polynomials() -> None:
    names: dict = {}
    exec(SNIPPETS[1], names)
    a, b = names["a"], names["b"]
    assert names["expr"].tolist() == names["step"](a, b).tolist()
    info = names["step"].cache_info()
    assert (info.misses, info.plans) == (1, 1)
    assert names["step"](b, a).tolist() == ((a + b) * (b - 1)).tolist()


def test_the_two_commands_come_first() -> None:
    before, _, after = README.read_text(encoding="utf-8").partition("```sh\n")
    assert after.startswith("make demo")
    assert after.split("\n")[1].startswith("make test")
    assert len(before.split("\n\n")) <= 3  # the title and two sentences
    assert len(SNIPPETS) == 2
