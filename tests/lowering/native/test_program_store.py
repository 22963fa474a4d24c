"""Native programs on disk: read instead of lowered again, with the same bits."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import attrs
import numpy as np
import pytest

import ren
from ren import Domain, RingSpec
from ren.lowering.backends.native import bytecode, library, program_store
from ren.lowering.plan.plan import Plan
from ren.lowering.runtime import native_calls
from ren.lowering.storage import executable_store as disk
from tests.lowering.plans import plan, poly
from tests.rings import primes

RING = RingSpec(4096, primes(4096)[-2:])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own, and a few steps are enough."""
    if library.outcome().reason:
        pytest.skip(library.outcome().reason)
    monkeypatch.setattr(bytecode, "LEAST_STEPS", 2)
    with ren.config.update(native=True, cache_dir=tmp_path):
        forget()
        yield tmp_path / program_store.FOLDER
    forget()


def forget() -> None:
    bytecode.lowered.cache_clear()
    native_calls.forget()


def products(constant: int = 3) -> Plan:
    x, y = poly(0, RING, Domain.NTT), poly(1, RING, Domain.NTT)
    return plan(x.rotate(5) * y + constant, (x * y).intt().rescale(RING.moduli[:1]))


def programs(p: Plan) -> list[bytecode.NativeProgram]:
    found = native_calls.native_calls(p.source)
    assert isinstance(found, native_calls.NativeCalls), found
    return list(found.programs)


def test_what_was_lowered_is_read(folder, monkeypatch):
    made = programs(products())
    assert len(list(folder.iterdir())) == len(made)
    forget()
    monkeypatch.setattr(bytecode, "lowering_of", lambda *_: pytest.fail("it was lowered"))
    read = programs(products())
    assert [attrs.astuple(p) for p in read] == [attrs.astuple(p) for p in made]


def test_what_decides_the_code_is_in_the_key(folder, monkeypatch):
    programs(products())
    keys = [{path.name for path in folder.iterdir()}]
    for change in (
        lambda: monkeypatch.setattr(bytecode, "threads", lambda: 7),
        lambda: monkeypatch.setattr(bytecode, "MAX_TERMS", 3),
        lambda: monkeypatch.setattr(program_store, "source_digest", lambda: "others"),
    ):
        change()
        forget()
        programs(products())
        keys.append({path.name for path in folder.iterdir()})
    forget()
    programs(products(4))
    keys.append({path.name for path in folder.iterdir()})
    assert all(before < after for before, after in itertools.pairwise(keys))


def test_small_programs_and_none_without_a_folder(folder, monkeypatch):
    monkeypatch.setattr(bytecode, "LEAST_STEPS", 500)
    programs(products())
    assert not folder.exists()
    monkeypatch.setattr(bytecode, "LEAST_STEPS", 2)
    forget()
    with ren.config.update(cache_dir="off"):
        programs(products())
    assert not folder.exists()


def test_matrices_of_integers_are_not_written(folder):
    x = poly(0, RING, Domain.NTT, batch=(2,))
    p = plan(x.mix(np.array([[1, 2], [3, 4]])))
    assert programs(p)
    assert not folder.exists() or not list(folder.iterdir())


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:90] + b"x" + b[91:]])
def test_a_damaged_entry_is_lowered_again(folder, caplog, damage):
    made = programs(products())
    for path in folder.iterdir():
        path.write_bytes(damage(path.read_bytes()))
    forget()
    disk._opened.cache_clear()
    assert [attrs.astuple(p) for p in programs(products())] == [attrs.astuple(p) for p in made]
    assert "damaged" in caplog.text


PROGRAM = """
import sys
import numpy as np
import ren
from ren.lowering.backends.native import bytecode
from ren.schemes import ckks

bytecode.LEAST_STEPS = 20
lowered, lowering_of = [], bytecode.lowering_of
bytecode.lowering_of = lambda *args: lowered.append(1) or lowering_of(*args)
params = ckks.Parameters.for_depth(2, n=2**12, security=None)
ctx = ckks.context(params=params)
weights = np.random.default_rng(0).normal(size=(12, 12))
m = ckks.linear(weights, ctx)
f = ren.jit(lambda m, x: (m @ x) * 0.5)
x = np.arange(12) / 12
assert np.abs(f(m, ctx.encrypt(x)).decrypt() - weights @ x / 2).max() < 2**-15
print(sum(lowered))
"""


def test_a_second_process_lowers_less_and_computes_right(tmp_path):
    def run() -> int:
        given = {"REN_CACHE_DIR": str(tmp_path / "shared"), "REN_NATIVE": "1"}
        environment = {**os.environ, **given}
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, capture_output=True, check=True, env=environment)
        return int(done.stdout)

    first = run()
    assert run() < first
