"""Secrets come from ren.sampling alone: what the linter forbids, and that nothing gets past it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FORBIDDEN = {"random", "numpy.random", "jax.random"}
WAYS = (
    "import random\nrandom.random()",
    "from random import randbytes\nrandbytes(1)",
    "def f():\n    import random\n    return random.random()",
    "from numpy import random\nrandom.default_rng()",
    "from numpy.random import default_rng\ndefault_rng()",
    "import numpy.random\nnumpy.random.default_rng()",
    "import numpy as np\nnp.random.default_rng()",
    "import numpy as np\ndraw = np.random\ndraw.default_rng()",
    "import jax\njax.random.key(0)",
    "from jax import random\nrandom.key(0)",
    "from jax import random as jr\njr.key(0)",
    "import jax.random as jr\njr.key(0)",
    "from jax.random import bits\nbits",
)


def linted(code: str, path: str) -> str:
    """What the linter says of `code` as a file of the repository."""
    command = [sys.executable, "-m", "ruff", "check", "--output-format", "concise", "--no-cache"]
    ran = subprocess.run(
        [*command, "--stdin-filename", path, "-"],
        input=code + "\n", capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert ran.returncode in (0, 1), ran.stderr
    return ran.stdout


@pytest.mark.parametrize("code", WAYS)
def test_the_linter_refuses_every_way_to_other_generators(code):
    for path in ("ren/new.py", "ren/schemes/ckks/new.py", "ren/schemes/rlwe/keys.py"):
        assert "TID251" in linted(code, path)
    assert "TID251" not in linted(code, "tests/new.py")


def test_the_linter_takes_what_is_cryptographic():
    code = "import os\nimport secrets\nos.urandom(secrets.randbelow(9))"
    assert "TID251" not in linted(code, "ren/new.py")


def bindings(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Each name that an import binds, and the module or the member of one that it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for a in node.names:
                yield a.asname or a.name, a.name
                if not a.asname:
                    yield (first := a.name.partition(".")[0]), first
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield "", node.module or ""
            yield from ((a.asname or a.name, f"{node.module}.{a.name}") for a in node.names)


def names(tree: ast.AST) -> set[str]:
    """What is imported, also by name at run time, and every member of it that is read."""
    bound = dict(bindings(tree))
    found = {target for _, target in bindings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, _, rest = ast.unparse(node).partition(".")
            found |= {f"{bound[first]}.{rest}"} if first in bound else set()
        elif isinstance(node, ast.Call) and "import" in ast.unparse(node.func):
            found |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    return {name for name in found if isinstance(name, str)}


def uses(tree: ast.AST) -> set[str]:
    return {n for n in names(tree) for f in FORBIDDEN if n == f or n.startswith(f + ".")}


@pytest.mark.long
def test_nothing_in_the_library_uses_another_generator():
    """Read from the syntax trees: a comment that silences the linter does not help."""
    files = sorted((ROOT / "ren").rglob("*.py"))
    assert len(files) > 100
    for file in files:
        assert not uses(ast.parse(file.read_text(encoding="utf-8"))), file


@pytest.mark.parametrize("code", [*WAYS, "import importlib\nimportlib.import_module('random')"])
def test_the_reader_of_syntax_trees_finds_every_way(code):
    assert uses(ast.parse(code))
    assert not uses(ast.parse("import numpy as np\nfrom ren.poly import random\nnp.ones(3)"))
