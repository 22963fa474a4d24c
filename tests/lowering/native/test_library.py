"""The library in a process: chosen, built, kept, refused; programs with it and without it."""

from __future__ import annotations

import os
import re
from functools import cache

import attrs
import jax
import numpy as np
import pytest

import ren
from ren import progress
from ren.core.errors import NativeError
from ren.lowering.backends.native import build, library, self_check
from ren.lowering.backends.xla import jax_executable
from ren.lowering.runtime.runner import graph_runner, run_plan
from ren.lowering.runtime.tiers.plan_key import plan_digest
from ren.lowering.storage import executable_store as disk
from ren.schemes import ckks
from tests.lowering.plans import RING, arrays, plan, poly
from tests.rings import primes

_build = build.library


@cache
def body() -> bytes:
    return _build(build.compiler())


@pytest.fixture(autouse=True)
def compiler():
    """The tests need a compiler."""
    try:
        return build.compiler()
    except build.BuildError as error:
        pytest.skip(str(error))


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """A process that has not loaded a library, to which building takes no time; counts builds."""
    jax_executable.clear_kernels()
    disk._opened.cache_clear()
    builds, made = [], body()

    def built(compiler):
        builds.append(compiler)
        return made

    monkeypatch.setattr(library, "_outcome", None)
    monkeypatch.setattr(build, "library", built)
    monkeypatch.setattr(self_check, "check", lambda library: None)
    monkeypatch.setattr(self_check, "check_functions", lambda functions: None)
    with ren.config.update(native="auto", cache_dir=tmp_path):
        yield builds
    jax_executable.clear_kernels()
    disk._opened.cache_clear()


def restart(monkeypatch):
    """As another process would begin."""
    jax_executable.clear_kernels()
    disk._opened.cache_clear()
    monkeypatch.setattr(library, "_outcome", None)


def program():
    x, y = poly(1), poly(2, batch=(3,))
    return plan((x * y + 1).rescale(RING.moduli[:2]))


def results(run=None):
    p = program()
    return [np.asarray(a) for a in (run or run_plan)(p, arrays(p))]


def want():
    with ren.config.update(native=False):
        return results()


def assert_equal(got, expected):
    assert all(np.array_equal(g, w) for g, w in zip(got, expected, strict=True))


def libraries():
    """The libraries that graphs call in this process."""
    return {key[1] for key in jax_executable._graphs if isinstance(key, tuple)}


RUNNERS = [
    run_plan,
    lambda p, a: graph_runner(p)(a),
    lambda p, a: jax.jit(lambda *a: run_plan(p, a))(*a),
]


@pytest.mark.long
@pytest.mark.parametrize("run", RUNNERS)
def test_every_way_to_run_is_the_same_with_and_without(fresh, run):
    expected = want()
    assert not libraries() and not fresh
    assert_equal(results(run), expected)
    assert len(libraries()) == len(fresh) == 1


@pytest.mark.long
def test_what_was_built_is_kept(fresh, monkeypatch, tmp_path):
    expected, first = want(), library.outcome()
    (kept,) = (tmp_path / "native").iterdir()
    assert kept.stem == build.key(build.compiler()) and kept.stem.startswith(first.name)
    assert kept.stat().st_mode & 0o077 == 0
    restart(monkeypatch)
    assert_equal(results(), expected)
    assert library.outcome() == first and len(fresh) == 1


@pytest.mark.long
def test_a_damaged_library_is_built_again(fresh, monkeypatch, tmp_path, caplog):
    expected = want()
    results()
    (kept,) = (tmp_path / "native").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:5000] + bytes(8) + whole[5008:])
    restart(monkeypatch)
    assert_equal(results(), expected)
    assert len(fresh) == 2 and kept.read_bytes() == whole
    (record,) = caplog.records
    assert "damaged" in record.getMessage()


@pytest.mark.long
@pytest.mark.usefixtures("through_xla")
def test_executables_on_disk_are_those_of_their_library(fresh, monkeypatch, tmp_path):
    expected = want()
    count = len(list((tmp_path / "executables").iterdir()))
    assert_equal(results(), expected)
    both = len(list((tmp_path / "executables").iterdir()))
    assert both > count
    restart(monkeypatch)
    assert_equal(results(), expected)
    assert len(list((tmp_path / "executables").iterdir())) == both


def test_a_cache_that_others_may_write_to_is_not_read(fresh, monkeypatch, tmp_path, caplog):
    results()
    os.chmod(tmp_path / "native", 0o777)
    restart(monkeypatch)
    assert library.outcome().name and len(fresh) == 2
    assert "others may write" in caplog.text


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")
@pytest.mark.parametrize("is_given_away", [True, False])
def test_library_that_others_may_have_written_is_built_again(
    fresh, monkeypatch, tmp_path, caplog, is_given_away
):
    results()
    (kept,) = (tmp_path / "native").iterdir()
    if not is_given_away:
        kept.chmod(0o666)
    elif os.geteuid() == 0:
        os.chown(kept, 12345, -1)
    else:
        pytest.skip("only root gives files to other users")
    restart(monkeypatch)
    assert library.outcome().name and len(fresh) == 2
    (record,) = caplog.records
    assert "foreign" in record.getMessage()
    (kept,) = (tmp_path / "native").iterdir()
    assert (kept.stat().st_uid, kept.stat().st_mode & 0o777) == (os.geteuid(), 0o600)


def assert_refused(reason, caplog):
    """XLA runs, one line says why; where native kernels are demanded, it is an error."""
    expected = want()
    for _ in range(2):
        assert_equal(results(), expected)
    assert not libraries()
    (record,) = caplog.records
    assert reason in record.getMessage()
    jax_executable.clear_kernels()
    with ren.config.update(native=True), pytest.raises(NativeError, match=re.escape(reason)):
        results()


def test_building_says_so_once(fresh, monkeypatch, caplog, capsys):
    with caplog.at_level("DEBUG", "ren"), ren.config.update(progress=True):
        for _ in range(2):
            assert library.outcome().name
            restart(monkeypatch)
    assert caplog.text.count("Native kernels: built once, in 0 s.") == len(fresh) == 1
    assert capsys.readouterr().err.count("building native kernels, once") >= 1


@pytest.mark.parametrize(("wanted", "has_line"), [(True, True), ("auto", False), (False, False)])
def test_without_a_bar_it_is_a_line(fresh, monkeypatch, caplog, capsys, wanted, has_line):
    """On stderr before a terminal without tqdm, else to the logger."""
    monkeypatch.setattr(progress, "_tqdm", lambda: None)
    with caplog.at_level("INFO", "ren"), ren.config.update(progress=wanted):
        assert library.outcome().name
    assert capsys.readouterr().err.count("ren: building native kernels, once\n") == has_line
    assert caplog.text.count("building native kernels, once") == (not has_line)


@pytest.mark.long
def test_without_a_compiler(fresh, monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(build, "CXX", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_refused("no C++ compiler", caplog)


class TooLate(Exception):
    """The exception of a handler of signals, where a time limit ends."""


def test_what_a_handler_of_the_user_raises_is_the_users(fresh, monkeypatch):
    """It says nothing of the library, which is loaded the next time."""
    monkeypatch.undo()
    monkeypatch.setattr(library, "_outcome", None)

    def late(*_):
        raise TooLate

    with monkeypatch.context() as patch:
        patch.setattr(build, "compiler", late)
        with pytest.raises(TooLate):
            library.outcome()
    assert not library.outcome().reason


@pytest.mark.long
def test_a_build_that_fails(fresh, monkeypatch, caplog):
    monkeypatch.undo()
    monkeypatch.setattr(library, "_outcome", None)
    monkeypatch.setattr(build, "sources", lambda: {"a.cc": b"#error this is no kernel\n"})
    assert_refused("this is no kernel", caplog)


@pytest.mark.long
def test_a_build_that_takes_too_long(fresh, monkeypatch, caplog, tmp_path):
    slow = tmp_path / "bin" / "c++"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nsleep 60 & wait\n")
    slow.chmod(0o700)
    monkeypatch.setattr(build, "CXX", "")
    monkeypatch.setenv("PATH", str(slow.parent), prepend=os.pathsep)
    monkeypatch.setattr(build, "LIMIT_S", 0.2)
    assert_refused("more than 0 s", caplog)


@pytest.mark.long
def test_a_library_that_computes_something_else(fresh, monkeypatch, caplog, tmp_path):
    right = build.sources()
    wrong = {k: v.replace(b"v = a - b + m.twice;", b"v = a + b;") for k, v in right.items()}
    assert wrong != right
    monkeypatch.undo()
    monkeypatch.setattr(library, "_outcome", None)
    monkeypatch.setattr(build, "sources", lambda: wrong)
    assert_refused("self-check of NTT at n = 16 failed", caplog)
    assert not any((tmp_path / "native").iterdir())


@pytest.mark.long
def test_a_library_that_cannot_be_loaded(fresh, monkeypatch, caplog):
    monkeypatch.setattr(build, "library", lambda compiler: b"no library")
    monkeypatch.setattr(library, "_registered", {})
    assert_refused("OSError", caplog)


@pytest.mark.parametrize("part", ["version", "processor", "source", "flags", "environment"])
def test_what_the_library_is_named_by(monkeypatch, part):
    compiler = build.compiler()
    before = build.key(compiler)
    if part == "version":
        compiler = attrs.evolve(compiler, version="another")
    if part == "processor":
        monkeypatch.setattr(build, "processor", lambda: "another")
    if part == "source":
        monkeypatch.setattr(build, "sources", lambda: {"kernels.cc": b"another"})
    if part == "flags":
        monkeypatch.setattr(build, "FLAGS", ("-O0",))
    if part == "environment":
        monkeypatch.setattr(build, "NATIVE_FLAGS", "-DREN_DEBUG")
    assert build.key(compiler) != before


def test_flags_of_the_environment_follow_the_usual_ones(monkeypatch):
    commands = []

    def run(given, limit_s=build.LIMIT_S):
        commands.extend((command, limit_s) for command in given)
        raise build.BuildError("not run")

    compiler = build.compiler()
    monkeypatch.setattr(build, "_run", run)
    for flags in ("", "-O1 '-DREN_NAME=a b'"):
        monkeypatch.setattr(build, "NATIVE_FLAGS", flags)
        with pytest.raises(build.BuildError, match="not run"):
            build.library(compiler)
    (usual, limit_s), (flagged, longer_s) = commands[0], commands[-1]
    start = len(compiler.command)
    assert tuple(usual[start : start + len(build.FLAGS)]) == build.FLAGS
    more = flagged[start + len(build.FLAGS) :][:2]
    assert more == ["-O1", "-DREN_NAME=a b"] and len(flagged) == len(usual) + 2
    assert limit_s == build.LIMIT_S < longer_s


def test_plans_are_named_by_the_library_that_they_call(fresh):
    p, plain = program(), plan(poly(1) + poly(2))
    digests = {}
    for native in (True, False):
        with ren.config.update(native=native):
            digests[native] = plan_digest(p), plan_digest(plain)
    assert digests[True][0] != digests[False][0]
    assert digests[True][1] == digests[False][1]


def test_programs_without_native_kernels_build_nothing(fresh):
    p = plan(poly(1) + poly(2))
    run_plan(p, arrays(p))
    assert not fresh


def test_what_is_donated_is_gone_and_the_result_is_right(fresh):
    ring = ren.RingSpec(1024, primes(1024)[-3:])
    f = ren.jit(lambda x: x.ntt(), donate_argnames="x", tier="units")
    x, y = poly(1, ring), poly(1, ring)
    with ren.config.update(native=False):
        expected = f(y).limbs
    assert_equal([f(x).limbs], [expected])
    with pytest.raises(ren.errors.DonatedBufferError):
        _ = x.limbs


@pytest.mark.long
def test_decryptions_are_equal(fresh):
    ctx = ckks.context(params=ckks.Parameters.for_depth(1, n=1 << 6, security=None))
    x = ctx.encrypt(np.arange(8.0))
    decrypted = []
    for native in (True, False):
        jax_executable.clear_kernels()
        with ren.config.update(native=native):
            f = ren.jit(lambda x: (x * x).rotate(1) + x)
            decrypted.append([ctx.decrypt(f(x)) for _ in range(2)])
    np.testing.assert_array_equal(*decrypted)
    np.testing.assert_allclose(decrypted[0][0], np.array([1.0, 5, 11, 19, 29, 41, 55, 7]), atol=0.1)


@pytest.mark.long
def test_the_check_passes_whatever_settings_of_jax_forbid():
    found = library.outcome()
    with jax.numpy_rank_promotion("raise"), jax.transfer_guard("disallow"):
        self_check.check(found.name)
