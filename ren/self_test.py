"""Ren's self-test: does this machine compute exactly, precisely, and keep what it compiled?

Each check compares with Python integers, with NumPy in the clear, or with the NumPy reference of
the kernels. None compares with earlier results of the same code.
"""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections.abc import Callable

import attrs
import jax
import jax.numpy as jnp
import numpy as np

from ren.config import config
from ren.core import html
from ren.core.numtheory import ntt_primes_below, primitive_root_of_unity
from ren.core.text_table import columns
from ren.jit import jit
from ren.lowering.backends.xla.executables import Executables
from ren.lowering.devices.devices import Place
from ren.lowering.plan.cost import MODEL, native_seconds
from ren.lowering.storage import executable_store as disk
from ren.poly import Poly
from ren.poly.calls import check_functions
from ren.ring import RingSpec
from ren.schemes import ckks

_LIMBS = 3
_MEASURED_S = 0.2  # for each program that is measured


class _Differs(Exception):
    """A failed check: one line says what differs."""


@attrs.frozen
class Check:
    """One line of the self-test.

    Attributes:
        name: what was looked at.
        passed: whether it holds.
        found: what was seen.
        seconds: how long it took.
    """

    name: str
    passed: bool
    found: str
    seconds: float


@attrs.frozen(repr=False)
class SelfTest:
    """Result of `ren.selftest`: true when every check passed; prints as a table.

    Attributes:
        checks: one for each thing looked at.
    """

    checks: tuple[Check, ...]

    def __bool__(self) -> bool:
        return all(check.passed for check in self.checks)

    def _rows(self) -> list[tuple[str, ...]]:
        head = ("check", "", "seconds", "found")
        return [
            head,
            *(
                (c.name, "passed" if c.passed else "FAILED", f"{c.seconds:.2f}", c.found)
                for c in self.checks
            ),
        ]

    def __repr__(self) -> str:
        return columns(self._rows(), left=(0, 1, 3))

    def _repr_html_(self) -> str:
        table = html.table(self._rows(), left=(0, 1, 3))
        return html.card("Self-test", table, warning="" if self else "FAILED")


def selftest() -> SelfTest:
    """Checks Ren on this machine, in under 20 seconds.

    The checks: products, automorphisms and rescaling against Python integers; compiled kernels
    against the NumPy reference, bit for bit. Then an encrypted computation against the same in the
    clear, and whether executables are kept and found again.

    Returns:
        What was seen: true when all of it holds. Nothing is raised and nothing is printed.
    """
    return SelfTest(tuple(map(check, CHECKS)))


def check(name: str) -> Check:
    """Run one of `CHECKS`; whatever is raised is a failure of the machine."""
    start = time.perf_counter()
    try:
        passed, found = True, CHECKS[name]()
    except _Differs as difference:
        passed, found = False, str(difference)
    except Exception as error:  # a machine that cannot run a check has not passed it
        passed, found = False, disk.first_line(error)
    return Check(name, passed, found, time.perf_counter() - start)


def _ring(n: int) -> RingSpec:
    primes = ntt_primes_below(n, 1 << 30)
    return RingSpec(n, tuple(next(primes) for _ in range(_LIMBS)))


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise _Differs(what)


def _small() -> str:
    """Against the definition of the ring, with Python integers."""
    n, ring = 32, _ring(32)
    q = ring.q
    a, b = ([secrets.randbelow(q) for _ in range(n)] for _ in range(2))
    x, y = Poly(a, ring), Poly(b, ring)
    product = [0] * n
    for i, u in enumerate(a):
        for j, v in enumerate(b):
            sign = 1 if i + j < n else -1
            product[(i + j) % n] += sign * u * v
    _require((x * y).tolist() == [c % q for c in product], "a product is wrong")
    turned = [0] * n
    for i, u in enumerate(a):
        sign = 1 if 5 * i % (2 * n) < n else -1
        turned[5 * i % n] = sign * u % q
    _require(x.rotate(1).tolist() == turned, "an automorphism is wrong")
    dropped = ring.moduli[-1]
    rescaled = [(2 * c + dropped) // (2 * dropped) % (q // dropped) for c in a]
    _require(x.rescale(ring.moduli[:-1]).tolist() == rescaled, "rescaling is wrong")
    return f"n = {n}, {_LIMBS} limbs: a product, an automorphism, a rescaling"


def _large() -> str:
    """Check a large product at some roots of X^n + 1, with Python integers."""
    n, ring = 8192, _ring(8192)
    x, y = Poly.uniform(ring), Poly.uniform(ring)
    polys = [p.tolist() for p in (x, y, x * y)]
    for q in ring.moduli:
        root = pow(primitive_root_of_unity(n, q), 2 * secrets.randbelow(n) + 1, q)
        u, v, w = (_value(p, root, q) for p in polys)
        _require(u * v % q == w, f"a product of n = {n} is wrong modulo {q}")
    return f"n = {n}, {_LIMBS} limbs: a product, at a root of X^n + 1 for each limb"


def _value(coefficients: list[int], at: int, q: int) -> int:
    total = 0
    for c in reversed(coefficients):
        total = (total * at + c) % q
    return total


def _reference() -> str:
    """Compiled kernels and their NumPy reference."""
    ring = _ring(1024)
    x, y = Poly.uniform(ring), Poly.uniform(ring)
    host = (x.to("python"), y.to("python"))
    ours, theirs = (
        np.asarray(((a + 3) * b - a.rotate(2)).rescale(ring.moduli[:-1]).limbs)
        for a, b in ((x, y), host)
    )
    _require(np.array_equal(ours, theirs), "kernels differ from NumPy")
    return f"bit for bit on {jax.devices()[0].platform}: product, rotation, rescaling"


def _precision() -> str:
    """An encrypted computation and the same in the clear."""
    context = ckks.context(depth=1)
    a, b = np.linspace(-1, 1, context.params.slots), np.linspace(1, 0, context.params.slots)
    x, y = context.encrypt(a), context.encrypt(b)
    z = x * y + x.rotate(1) - 0.5
    report = ckks.precision(z, a * b + np.roll(a, -1) - 0.5)
    bits, promised = report.worst_bits, report.estimated_bits
    _require(bits >= promised, f"{bits:.1f} bits are right, and {promised:.1f} were promised")
    return f"{bits:.1f} bits in the worst slot, {promised:.1f} promised"


def _cache() -> str:
    """Check that a stored executable is found again in the folder of executables."""
    store = disk.store()
    if store is None:
        return "off: nothing is kept (ren.config.cache_dir)"
    x = jnp.arange(8, dtype=jnp.uint32)
    function = jax.jit(lambda tables, x: x * x + 1, keep_unused=True)
    first, second = (Executables(function, "self-test") for _ in range(2))
    made = first.on((), [x], Place(x.sharding, False))
    if made is None:
        return "off: this JAX has no executables that can be kept"
    (result,) = made([x])
    _require(np.array_equal(result, np.arange(8) ** 2 + 1), "an executable computes something else")
    found = second.ahead((), [x], x.sharding) is None
    if not found and store.problem is not None:  # the rest of Ren works without
        return f"off: {store.problem}; name another folder by REN_CACHE_DIR"
    _require(found, "what was kept is not found again")
    return "an executable was kept and found again"


def measured_factor() -> float:
    """Measure how many times longer native calls take on this machine than by the model.

    The median of a product, a rotation and eight rotations, by the least of some runs each.
    """
    context = ckks.context(depth=5, n=1 << 13, security=None)
    x, factors = context.encrypt([1.0]), []
    for function in (
        lambda x: [x * x],
        lambda x: [x.rotate(1)],
        lambda x: [x.rotate(i) for i in range(1, 9)],
    ):
        with config.update(jit=True):
            jitted, least, end = jit(function), math.inf, math.inf
            while (start := time.perf_counter()) < end:
                jax.block_until_ready(jitted(x))
                least = min(least, (now := time.perf_counter()) - start)
                end = min(end, now + _MEASURED_S)
        factors.append(least / native_seconds(jitted.plans[0].plan, by=MODEL))
    return statistics.median(factors)


CHECKS: dict[str, Callable[[], str]] = {
    "exactness, small": _small,
    "exactness, large": _large,
    "kernels": _reference,
    "precision": _precision,
    "cache": _cache,
}


check_functions(globals(), ["selftest"], "ren", {})
