"""Forked processes: an error where JAX's threads would be needed, and none where they are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import jax
import pytest

from ren.core.errors import ForkError
from ren.lowering.backends.xla import jax_runtime as runtime

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no process forks here")

# A child that hangs is ended by its alarm. What it prints: the name, and the result or the error.
_COMMON = """
import json, os, signal, sys, warnings
warnings.simplefilter("ignore")
import ren
from ren import Poly, RingSpec
from ren.schemes import ckks

ring = RingSpec(1024, (12289,))
params = ckks.Parameters.for_depth(0, n=1024, security=None)

def told(name, act):
    try:
        said = ["made", str(act())]
    except Exception as error:
        said = [type(error).__name__, str(error)]
    print(json.dumps([name, *said]), flush=True)

def forked(name, act):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        told(name, act)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        print(json.dumps([name, "hung", ""]), flush=True)
"""

_AFTER = """
ctx = ckks.context(params=params)
public, x = ctx.public(), ctx.encrypt([1.0, 2.0])
p, q = Poly([1, 2, 3], ring), Poly([5, 6], ring)
host = Poly([1, 2], ring, device="python")
f = ren.jit(lambda a, b: a * b + 1)
for _ in range(3):
    ctx.decrypt(x), ctx.decrypt(x + x), f(p, q).tolist(), public.encrypt([1.0]), f(host, host)
data = x.to_bytes()
lazy = p * q
acts = {
    "decrypt": lambda: ctx.decrypt(x),
    "realize": lambda: lazy.realize(),
    "tolist of a product": lambda: (p * q + p).tolist(),
    "jit": lambda: f(p, q).tolist(),
    "a new jit": lambda: ren.jit(lambda a: a * a)(p),
    "encrypt": lambda: ctx.encrypt([1.0]),
    "encrypt with the public key": lambda: public.encrypt([1.0]),
    "encode": lambda: ctx.encode([1.0]).to_bytes(),
    "sum": lambda: (x + x).decrypt(),
    "context": lambda: ckks.context(params=params).encrypt([1.0]),
    "submit": lambda: ren.submit(f, p, q).result(),
    "grandchild": lambda: forked("decrypt in a grandchild", lambda: ctx.decrypt(x)),
    "tolist": lambda: p.tolist()[:3],
    "to_bytes": lambda: x.to_bytes() == data,
    "python device": lambda: f(host, host * host).tolist()[:4],
}
for name, act in acts.items():
    forked(name, act)
told("parent", lambda: f(p, q).tolist()[:4])
"""

_BEFORE = """
host = Poly([1, 2], ring, device="python")
host * host

def computed():
    ctx = ckks.context(params=params)
    x = ctx.encrypt([1.0, 2.0])
    f = ren.jit(lambda a, b: a * b + 1)
    p = Poly([1, 2], ring)
    assert abs((x + x).decrypt() - [2.0, 4.0]).max() < 1e-3
    forked("child of the child", lambda: f(p, p))
    return f(p, p).tolist()[:4]

forked("child", computed)
told("parent", computed)
"""


def outcomes(script: str, **settings: str) -> dict[str, tuple[str, str]]:
    """What a script tells: by name, "made" and the result, or the error and its message."""
    ran = subprocess.run(
        [sys.executable, "-c", _COMMON + script], env={**os.environ, **settings},
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return {name: (kind, said) for name, kind, said in lines}


@pytest.fixture(scope="module")
def after() -> dict[str, tuple[str, str]]:
    """Children of a process in which Ren has computed."""
    return outcomes(_AFTER)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        "decrypt", "realize", "tolist of a product", "jit", "a new jit", "encrypt",
        "encrypt with the public key", "encode", "sum", "context", "submit",
        "decrypt in a grandchild",
    ],
)  # fmt: skip
def test_computing_in_a_child_forked_after_jax_raises(after, name):
    kind, said = after[name]
    assert kind == "ForkError", said
    assert "was forked after JAX had started" in said
    assert "JAX's threads do not exist in this process" in said
    assert 'multiprocessing.get_context("spawn")' in said


def test_reading_and_interpreting_in_a_child_forked_after_jax_work(after):
    assert after["tolist"] == ("made", "[1, 2, 3]")
    assert after["to_bytes"] == ("made", "True")
    assert after["python device"] == ("made", "[2, 6, 12, 8]")


def test_the_parent_computes_after_forks(after):
    assert after["parent"] == ("made", "[6, 16, 27, 18]")


@pytest.mark.long
def test_a_child_forked_before_jax_computes(tmp_path):
    # The parent reads what the child has compiled.
    found = outcomes(_BEFORE, REN_NATIVE="0", REN_CACHE_DIR=str(tmp_path))
    for name in ("child", "parent"):
        assert found[name] == ("made", "[2, 4, 4, 0]")
    assert found["child of the child"][0] == "ForkError"


class _Computing:
    """Looks like an array that JAX still computes."""

    def is_ready(self) -> bool:
        return False


def test_on_host_refuses_an_array_that_was_not_computed(monkeypatch: Any) -> None:
    monkeypatch.setattr(runtime, "_is_forked", True)
    with pytest.raises(ForkError, match="had started"):
        runtime.on_host(_Computing())
    assert runtime.on_host([1, 2]).tolist() == [1, 2]


def test_without_jax_s_private_names_no_process_is_forked(monkeypatch: Any) -> None:
    assert jax.devices() and runtime.has_started()
    monkeypatch.setattr(runtime, "_private", None)
    assert not runtime.has_started()
