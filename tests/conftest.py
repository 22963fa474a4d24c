"""Settings of the property tests, and rings that several files use."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

os.environ.setdefault("REN_CACHE_DIR", "off")  # what one run learnt must not steer another
# The native library is built once, and not by each process of a test.
os.environ.setdefault(
    "CXX", shlex.join(["sh", str(Path(__file__).with_name("cached_compiler.sh"))])
)
# LLVM's optimizations double the time of compiling; they change no bits. `make slow` has them.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jax
import pytest
from hypothesis import HealthCheck, settings

from ren.lowering.backends.native import bytecode
from ren.ring import RingSpec
from tests.rings import primes

# Test processes share what XLA compiles, and so do later runs. It is a cache of JAX's own; where it
# does not work, everything is compiled again.
_CACHE = Path(__file__).parent.parent / ".pytest_cache" / "xla"
jax.config.update("jax_compilation_cache_dir", str(_CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

# Types meet as written: promotion by accident raises.
jax.config.update("jax_numpy_dtype_promotion", "strict")

# No deadlines: the first example of a shape compiles, and machines differ.
_COMMON = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("ci", _COMMON, max_examples=40)
settings.register_profile("thorough", _COMMON, max_examples=500)
settings.register_profile("quick", _COMMON, max_examples=20)
settings.load_profile("ci")


# Pages, errors, bytes, pictures, parameters, graphs, keys; programs that are interpreted; tests
# that call bodies of ops, or turn native code on and off, by themselves; circuits of operations
# that other tests have. `make xla` leaves them out.
ONCE = tuple(
    f"tests/{path}"
    for path in (
        "core/", "demo/", "lowering/kernels/", "lowering/native/", "lowering/passes/",
        "test_sampling",
        *(f"lowering/test_{name}.py" for name in (
            "cache_attacks", "digest", "disk", "drawing", "private_folder", "store", "tlsf",
        )),
        *(f"schemes/ckks/circuits/test_{name}.py" for name in (
            "approximation", "convolution", "math", "matmul", "reductions", "slot_polynomials",
            "tables",
        )),
        *(f"schemes/ckks/test_{name}.py" for name in (
            "automatic_bootstraps", "context", "damaged_bytes", "debugging", "decryption",
            "depth_errors", "encoder", "entry_points", "files", "idioms", "kept_contexts",
            "kernel_memory", "key_identity", "key_sharing", "loops", "map_memory", "masked_loops",
            "missing_keys", "mix", "mutated_bytes", "noise", "noise_circuits", "noise_privacy",
            "number_types", "numpy_arguments", "operators", "outside_programs", "parameters",
            "pending", "planner", "planning", "precision", "random_programs", "ranges", "reprs",
            "scaled", "seal", "secret_bytes", "security_table", "serialization", "sharing",
            "stats", "symbolic", "tails", "tenants", "testing", "traced_numbers", "training",
            "transparent", "user_objects",
        )),
        "schemes/rlwe/test_security.py",
        *(f"test_{name}.py" for name in (
            "arguments", "attributes", "benchmarks", "calls", "coming_from", "config", "counts",
            "display", "docs", "docstring_examples", "docstrings", "forks", "golden", "import",
            "jit_guide", "jit_pickle", "layers", "links", "machines", "mistakes", "notebooks",
            "numpy", "packaging", "pictures", "placement", "plots", "poly_errors", "progress",
            "prose", "randomness_sources", "submit",
        )),
    )
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by folder and file; property tests draw more examples beside the slow tests."""
    for item in items:
        is_drawn = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if is_drawn or "tests/properties/" in item.nodeid:
            item.add_marker("property")
        if item.nodeid.startswith(ONCE):
            item.add_marker("once")


@pytest.fixture
def ring() -> RingSpec:
    """The ring of the examples in the guides: Z_q[X]/(X^8 + 1), q = 17 * 97."""
    return RingSpec(n=8, moduli=(17, 97))


@pytest.fixture
def through_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small native calls go through XLA too, as large ones do."""
    monkeypatch.setattr(bytecode, "MOST_SECONDS", 0.0)


@pytest.fixture
def wide_ring() -> RingSpec:
    """n = 256, three limbs: the smallest valid prime, one in the middle, one just under 2^30."""
    pool = primes(256)
    return RingSpec(n=256, moduli=(pool[0], pool[len(pool) // 2], pool[-1]))
