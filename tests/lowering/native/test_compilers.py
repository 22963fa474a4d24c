"""The library as each compiler here builds it, for each kind of vectors of this processor."""

from __future__ import annotations

import os
import platform
import shutil
from itertools import product

import pytest

import ren
from ren.lowering.backends.native import build, library, self_check
from ren.lowering.backends.xla import jax_executable
from ren.lowering.backends.xla.jax_runtime import processor
from tests.lowering.native import test_batches, test_code, test_ops
from tests.lowering.native.test_ops import DEGREES, SIZES

PRESENT = {os.path.realpath(path): path for path in map(shutil.which, build.COMPILERS) if path}
# Those narrower than what the processor has: AVX2 and plain numbers beside AVX-512.
NARROWER = {"x86_64": ("haswell", "x86-64") if "avx2" in processor() else ("x86-64",)}
PROCESSORS = ("native", *NARROWER.get(platform.machine(), ()))


def test_a_compiler_is_here():
    """The tests below run with none left out: there is a compiler, or no native kernel at all."""
    assert PRESENT or "no C++ compiler" in library.outcome().reason


@pytest.fixture(scope="module", params=product(PRESENT.values(), PROCESSORS), ids=" ".join)
def name(request):
    """A library that was built without a warning, in the stead of the usual one."""
    path, march = request.param
    flags = {"-w": "-Wall -Wextra -Werror", "-march=native": f"-march={march}"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "CXX", path)
        patch.setattr(build, "LIMIT_S", 120.0)
        patch.setattr(build, "FLAGS", " ".join(flags.get(f, f) for f in build.FLAGS).split())
        compiler = build.compiler()
        made = build.key(compiler)[:16]
        if made not in library._registered:
            library._registered[made] = library._register(build.library(compiler), made)
        patch.setattr(library, "_outcome", library.Outcome(made))
        jax_executable.clear_kernels()
        with ren.config.update(native=True, cache_dir="off"):
            yield made
        jax_executable.clear_kernels()


@pytest.mark.slow
def test_what_every_compiler_makes_computes_the_same(name):
    self_check.check(name)
    self_check.check_functions(library._registered[name])
    for op in ("NTT", "INTT"):
        for n in DEGREES:
            test_ops.test_transforms_of_every_degree(name, op, n)
    for op in ("CONVERT", "LIFT"):
        for k, m in SIZES:
            test_ops.test_conversions_between_bases(name, op, k, m)
    for n in (256, 4096):
        test_code.test_key_switches(n)
        test_code.test_products_that_are_rescaled(n)
    for seed in range(8):
        test_code.test_random_programs(seed)
    test_batches.test_vmap_of_vmap()
    test_batches.test_random_programs_over_batches(0)
    test_code.test_rotations(3)
    test_code.test_coefficients_that_move_and_change_their_sign(1024)


def named(monkeypatch, text: str) -> build.Compiler:
    monkeypatch.setattr(build, "CXX", text)
    return build.compiler()


@pytest.mark.skipif(not PRESENT, reason="no C++ compiler")
def test_the_compiler_that_the_environment_names_is_taken(monkeypatch, tmp_path):
    (path,) = named(monkeypatch, "").command
    assert os.path.realpath(path) in PRESENT
    other = tmp_path / "another compiler"
    other.symlink_to(path)
    found = named(monkeypatch, f"'{other}' -O1")
    assert found.command == (str(other), "-O1") and found.version
    assert build.key(found) != build.key(named(monkeypatch, f"'{other}'"))
    with pytest.raises(build.BuildError, match="no-such-compiler, as CXX says"):
        named(monkeypatch, "no-such-compiler")
