"""The walk of docs/internals.md: the files that one program enters, against a trace of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ren
from ren.lowering.backends.native import library

ROOT = Path(__file__).resolve().parents[1]
MOST_FILES = 25  # the walk may become shorter
TRACE = """
import os, sys
import numpy as np
import ren
from ren import Poly, RingSpec
from tests.rings import primes

n = 1 << 14  # a smaller program would not take the way through XLA
ring = RingSpec(n, primes(n)[-3:])
x, y, z = (Poly(np.arange(n) + i, ring).realize() for i in range(3))
(x * y).realize()  # JAX, the library and the tables are up
ren.config.cache_dir = "off"
root, seen = os.path.dirname(ren.__file__), {}

def enter(frame, event, arg):
    name = frame.f_code.co_filename
    if event == "call" and name.startswith(root):
        seen.setdefault(os.path.relpath(name, root))

sys.setprofile(enter)
(x * y + z).realize()
sys.setprofile(None)
print(*seen, sep="\\n")
"""


@pytest.mark.long
def test_the_walk_is_that_of_the_program(tmp_path: Path) -> None:
    if library.outcome().reason or not ren.config.native:
        pytest.skip(library.outcome().reason or "native code is off")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "REN_CACHE_DIR": str(tmp_path)}
    env |= {"REN_NATIVE": "1", "REN_NATIVE_FLAGS": "-O1"}  # the compiler may take its time
    command = [sys.executable, "-c", TRACE]
    made = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    entered = [name for name in made.stdout.split() if not name.startswith("lowering/passes/")]
    text = (ROOT / "docs" / "internals.md").read_text(encoding="utf-8")
    section = text[text.index("## A walk") : text.index("## Where to start")]
    told = re.findall(r"^\| \d+ \| `ren/(.+?)` \|", section, re.MULTILINE)
    assert entered == told
    assert len(entered) <= MOST_FILES
