"""The user's own line in messages: of a file, of a cell in a notebook."""

from __future__ import annotations

import sys
import types

import pytest
from IPython.core.compilerop import CachingCompiler

import ren
from ren.core.user_frame import user_line


def in_file(name: str) -> str:
    """`user_line()` as code of a file of this name sees it, on its second line."""
    names = {"user_line": user_line}
    exec(compile("\nmade = user_line()", name, "exec"), names)
    return str(names["made"])


def test_a_line_of_a_file() -> None:
    assert in_file("/somewhere/analysis.py") == "analysis.py:2"


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """What `IPython.get_ipython()` gives in a kernel whose third cell is the file 123.py."""
    cells = {"/tmp/ipykernel_1/123.py": ("Cell", "In[3]")}
    compiler = types.SimpleNamespace(format_code_name=cells.get)
    shell = types.SimpleNamespace(compile=compiler)
    module = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", module)
    return shell


def test_a_line_of_a_cell(shell: types.SimpleNamespace) -> None:
    assert in_file("/tmp/ipykernel_1/123.py") == "In[3]:2"
    assert in_file("/somewhere/analysis.py") == "analysis.py:2"


def test_ipython_without_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.SimpleNamespace(get_ipython=lambda: None)
    monkeypatch.setitem(sys.modules, "IPython", module)
    assert in_file("/tmp/ipykernel_1/123.py") == "123.py:2"


def test_ipython_names_its_cells_so(shell: types.SimpleNamespace) -> None:
    shell.compile = CachingCompiler()
    assert in_file(shell.compile.cache("made = user_line()", number=7)) == "In[7]:2"


def test_an_error_names_the_cell(shell: types.SimpleNamespace) -> None:
    text = "import ren\nren.RingSpec(n=12, moduli=(17,))"
    with pytest.raises(ren.errors.RingError) as caught:
        exec(compile(text, "/tmp/ipykernel_1/123.py", "exec"), {})
    assert "In[3]:2" in caught.value.__notes__[0]
