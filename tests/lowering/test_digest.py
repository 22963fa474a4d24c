"""Digests of plans: equal in every process, different for what runs differently."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import ren
from ren import Domain, Poly, RingSpec
from ren.lowering.backends.xla import jax_runtime
from ren.lowering.program.canonical import plain
from ren.lowering.runtime.tiers import plan_key as digest
from ren.lowering.runtime.tiers.plan_key import (
    canonical,
    environment,
    plan_digest,
    structure_digest,
)
from tests.lowering.plans import RING, plan, poly
from tests.lowering.test_memory import program_polys
from tests.programs import generate
from tests.rings import primes

ROOT = Path(__file__).resolve().parents[2]

PRINT_DIGESTS = """
from tests.lowering.test_digest import samples
from ren.lowering.runtime.tiers.plan_key import plan_digest, structure_digest
print(*[d for p in samples() for d in (structure_digest(p), plan_digest(p, "--a --b"))])
"""


def samples():
    """Plans of random programs, of one that was captured, and of one over devices."""
    made = [plan(*program_polys(generate(seed, 16, 3, 20))) for seed in range(6)]
    step = ren.jit(lambda x, y: (x * y + Poly.uniform(RING), x.rotate(1) - 3))
    step(poly(), poly(1))
    copied = plan((poly() + 1).to("cpu") * 3, (poly(1) - 2).to("python"))
    return [*made, step.plans[0].plan, copied]


@pytest.mark.slow
def test_every_process_has_the_same_digests():
    expected = [d for p in samples() for d in (structure_digest(p), plan_digest(p, "--a --b"))]
    assert len(set(expected)) == len(expected)
    for seed in ("0", "1", "random"):
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", PRINT_DIGESTS], env=env, capture_output=True, text=True
        )
        assert done.stdout.split() == expected, done.stderr


DIFFERENT = {
    "op": lambda x, y: x - y,
    "sources": lambda x, y: (x, x - y),
    "other sources": lambda x, y: (x, y - x),
    "constant": lambda x, y: x + y + 1,
    "other constant": lambda x, y: x + y + 2,
    "product": lambda x, y: x * y,
    "rotation": lambda x, y: x.rotate(1) + y,
    "other rotation": lambda x, y: x.rotate(2) + y,
    "ring": lambda x, y: (x + y).rescale(RING.moduli[:2]),
    "other ring": lambda x, y: (x + y).rescale(RING.moduli[1:3]),
    "roots": lambda x, y: (x + y, x - y),
    "order of roots": lambda x, y: (x - y, x + y),
    "one source twice": lambda x, y: x + x,
    "domain": lambda x, y: x.ntt() + y.ntt(),
    "kernels": lambda x, y: (x + y).contiguous() + 1,
    "view": lambda x, y: (x * y).to_ring(RING.with_moduli(RING.moduli[1:3])),
    "other view": lambda x, y: (x * y).to_ring(RING.with_moduli(RING.moduli[:2])),
    "copy": lambda x, y: (x + y).to("cpu"),
    "copy to the host": lambda x, y: (x + y).to("python"),
}


def roots(made) -> tuple[Poly, ...]:
    return made if isinstance(made, tuple) else (made,)


def test_different_programs_have_different_digests():
    digests = {
        name: structure_digest(plan(*roots(f(poly(), poly(1))))) for name, f in DIFFERENT.items()
    }
    assert len(set(digests.values())) == len(DIFFERENT), digests


def test_different_inputs_have_different_digests():
    other = RingSpec(RING.n, primes(RING.n)[:4])
    inputs = {
        "plain": poly(),
        "batch": poly(batch=(3,)),
        "other batch": poly(batch=(5,)),
        "domain": poly(domain=Domain.NTT),
        "moduli": poly(ring=other),
        "size": poly(ring=RingSpec(32, primes(32)[-4:])),
        "host": poly().to("python").realize(),
        "committed": poly().to("cpu").realize(),
    }
    digests = {name: structure_digest(plan(p + p)) for name, p in inputs.items()}
    assert len(set(digests.values())) == len(inputs), digests


def test_arrays_and_names_are_of_no_account():
    def f(x, y):
        return (x * y + 3).rescale(RING.moduli[:2])

    assert structure_digest(plan(f(poly(), poly(1)))) == structure_digest(plan(f(poly(5), poly(6))))


def test_where_an_input_comes_from_counts():
    weight = poly(1).realize()
    functions = {
        "argument": (lambda x, y: x + y, (poly(), weight)),
        "held": (lambda x: x + weight, (poly(),)),
        "drawn": (lambda x: x + Poly.uniform(RING), (poly(),)),
    }
    digests = set()
    for f, args in functions.values():
        jitted = ren.jit(f)
        jitted(*args)
        digests.add(structure_digest(jitted.plans[0].plan))
    scalar = ren.jit(lambda x, c: x + c)
    scalar(poly(), 3)
    donating = ren.jit(donate_argnames="x")(lambda x, y: x + y)
    donating(poly(2), weight)
    digests |= {structure_digest(f.plans[0].plan) for f in (scalar, donating)}
    assert len(digests) == 5


def test_a_sharding_counts_by_how_it_divides():
    mesh = jax.sharding.Mesh(jax.devices()[:1], ("batch",))
    batch = Poly.from_limbs(jnp.zeros((2, *poly().shape), jnp.uint32), RING)
    specs = (jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("batch"))
    places = [jax.sharding.NamedSharding(mesh, spec) for spec in specs]
    digests = {structure_digest(plan((batch + 1).to(place) * 3)) for place in (*places, "cpu")}
    assert len(digests) == 3


def test_the_print_holds_no_identity():
    for p in samples():
        assert structure_digest(p) == hashlib.sha256("\n".join(canonical(p)).encode()).hexdigest()
        assert not [line for line in canonical(p) if " at 0x" in line or "object" in line]


def test_programs_and_tables_are_printed_once():
    x, y = poly(domain=Domain.NTT), poly(1, domain=Domain.NTT)
    for _ in range(40):
        x = (x * y).contiguous()
    lines = list(canonical(plan(x)))
    kinds = [line.split()[0] for line in lines]
    assert kinds.count("run") == 40
    assert kinds.count("program") <= 3 and kinds.count("table") == 1


def test_what_prints_differently_elsewhere_is_refused():
    for value in (object(), 1.5, frozenset({1}), ((1, [2]),)):
        with pytest.raises(TypeError, match="canonical"):
            plain(value)


def test_the_environment_counts(monkeypatch, tmp_path):
    p = plan(poly() + 1)
    here = plan_digest(p)
    assert plan_digest(p, "--xla_a=1 --xla_b") == plan_digest(p, "--xla_b  --xla_a=1") != here
    seen = {here}
    info = tmp_path / "cpuinfo"
    info.write_text("processor : 0\nflags : sse avx\n\nprocessor : 1\nflags : other\n")
    for module, name, value in (
        (digest, "__version__", "9.9"),
        (digest.jax, "__version__", "9.9"),
        (digest, "jaxlib_version", "9.9"),
        (jax_runtime, "CPU_INFO", info),
        (jax_runtime, "CPU_INFO", tmp_path / "none"),
        (digest.platform, "machine", lambda: "z80"),
    ):
        environment.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            seen.add(plan_digest(p))
    environment.cache_clear()
    assert len(seen) == 7
    assert plan_digest(p) == here


def test_features_of_processors_are_listed_once(monkeypatch, tmp_path):
    info = tmp_path / "cpuinfo"
    first, second = ("\n".join(["flags : sse avx", f"bogomips : {i}", ""]) for i in (17, 18))
    info.write_text(f"processor : 0\n{first}\nprocessor : 1\n{second}")
    monkeypatch.setattr(jax_runtime, "CPU_INFO", info)
    assert jax_runtime.processor() == "flags : sse avx"
