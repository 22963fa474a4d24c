"""What `import ren` loads, and what it leaves until it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ren

FRESH = """
import sys
import jax
import ren
assert not [name for name in sys.modules if name.startswith("ren.schemes")]
assert {"plan", "schemes", *ren.__all__} <= set(dir(ren))
assert not [name for name in sys.modules if name.startswith("ren.schemes")]
FIRST
assert "ren.schemes.ckks" in sys.modules
assert not {"matplotlib", "tqdm", "IPython"} & set(sys.modules)  # optional ones
assert ren.plan is ren.schemes.ckks.analysis.planning.plan is vars(ren)["plan"]
"""

OPTIONAL = {"IPython", "ipywidgets", "matplotlib", "pandas", "scipy", "sklearn", "tqdm"}
LOADED = """
import sys
import jax
before = set(sys.modules)
import ren
from ren.schemes import ckks
print(*{name.partition(".")[0] for name in set(sys.modules) - before})
"""


@pytest.mark.long
def test_packages_that_are_optional_are_not_loaded() -> None:
    """They would take most of the time of the import."""
    ran = subprocess.run(
        [sys.executable, "-c", LOADED], check=True, timeout=120, capture_output=True, text=True
    )
    assert "ren" in ran.stdout.split()
    assert not OPTIONAL & set(ran.stdout.split())


@pytest.mark.long
@pytest.mark.parametrize("first", ["from ren import plan", "ren.schemes.ckks", "from ren import *"])
def test_schemes_are_imported_when_they_are_asked_for(first: str) -> None:
    subprocess.run([sys.executable, "-c", FRESH.replace("FIRST", first)], check=True, timeout=120)


def test_dir_of_a_public_module_lists_public_names_alone() -> None:
    from ren.schemes import ckks

    assert set(dir(ren)) == {*ren.__all__, "__version__", "poly", "ring", "schemes"}
    for module in (ckks, ckks.math, ckks.testing):
        assert {name for name in dir(module) if name[:2] != "__"} == {*module.__all__}
    assert all(isinstance(getattr(ren.errors, name), type) for name in dir(ren.errors))
    assert len(dir(ren.errors)) > 30


def test_every_name_is_there_and_others_are_not() -> None:
    assert all(hasattr(ren, name) for name in ren.__all__)
    assert not hasattr(ren, "tensor")
    name = "ckks"
    with pytest.raises(AttributeError, match=r"Write `from ren\.schemes import ckks`") as caught:
        getattr(ren, name)
    assert (caught.value.name, caught.value.obj) == (name, ren)


AGAIN = """
import sys
import jax
for _ in range(3):
    import ren
    from ren.lowering.backends.native import library
    p = ren.Poly([1, 2, 3, 4], ren.RingSpec(n=4, moduli=(97,)))
    assert (p * p).tolist() == [73, 77, 91, 20], (p * p).tolist()
    assert library.outcome().name or library.outcome().reason.startswith("no C++")
    for name in [name for name in sys.modules if name.partition(".")[0] == "ren"]:
        del sys.modules[name]
"""


@pytest.mark.long
def test_ren_is_imported_again_where_its_modules_were_dropped() -> None:
    """XLA keeps the native kernels of the first import, under the same name."""
    subprocess.run([sys.executable, "-W", "error", "-c", AGAIN], check=True, timeout=120)
