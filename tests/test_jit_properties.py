"""Replay equals a fresh run without jit, bit for bit: random programs, structures and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import ren
from ren import Poly, RingSpec
from ren.core.errors import DonatedBufferError
from ren.lowering.runtime.tiers.tiers import TIERS
from ren.schemes import ckks
from tests.arguments import POLYS, SPECS, Builder, Group, Leaf, Spec, groups, join, opened, paired
from tests.programs import Program, generate
from tests.properties.test_compositions import ren_step

PRIMES = (97, 17, 113, 193)
DEFAULT = 5


@attrs.frozen
class Form:
    """How a function is called, and what it does.

    Attributes:
        a, b, rest, c, more: its arguments; b is left out for None, and passed by name, as a is, if
            `by_name` says so.
        k: the static argument; left out for None.
        order: of the arguments that are passed by name.
        donated: the arguments that are given away.
        program: over the polynomials, in the order `picks` says.
        result: the structure of the result, of leaves that are chosen among what was made.
    """

    a: Spec
    b: Spec | None
    rest: tuple[Spec, ...]
    c: Spec
    more: tuple[tuple[str, Spec], ...]
    by_name: bool
    k: int | None
    order: tuple[str, ...]
    donated: tuple[str, ...]
    program: Program
    picks: tuple[int, ...]
    result: Spec

    @property
    def specs(self) -> list[Spec]:
        """The arguments in the order of the signature."""
        b = [] if self.b is None else [self.b]
        return [self.a, *b, *self.rest, self.c, *(spec for _, spec in self.more)]

    @property
    def ring(self) -> RingSpec:
        return RingSpec(self.program.n, tuple(PRIMES[i] for i in self.program.basis))

    def call(self, seed: int, device: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments: the same for the same seed, but no object that was given out before."""
        builder = Builder(seed, self.ring, device)
        made = [builder.build(spec) for spec in self.specs]
        first = [made.pop(0)] + ([] if self.b is None else [made.pop(0)])
        args = [*first, *(made.pop(0) for _ in self.rest)]
        named = {"c": made.pop(0), **dict(zip((n for n, _ in self.more), made, strict=True))}
        if self.k is not None:
            named["k"] = self.k
        if self.by_name and not self.rest:
            named |= dict(zip("ab", args, strict=False))
            args = []
        return tuple(args), {name: named[name] for name in self.order if name in named}


# Structures of what a function made, which the value of a leaf chooses.
RESULTS = st.recursive(st.builds(Leaf, st.just("made"), st.integers(0, 30)), groups, max_leaves=4)


@st.composite
def forms(draw: st.DrawFn, steps: int = 5) -> Form:
    limbs = draw(st.integers(1, 2))
    program = generate(draw(st.integers(0, 2**32 - 1)), 8, limbs, draw(st.integers(1, steps)))
    b = draw(st.one_of(st.none(), SPECS))
    rest = () if b is None else tuple(draw(st.lists(SPECS, max_size=1)))
    static = draw(st.one_of(st.none(), st.integers(-3, 3)))
    return Form(
        a=draw(st.one_of(POLYS, st.builds(Group, st.just("list"), st.tuples(POLYS, SPECS)))),
        b=b,
        rest=rest,
        c=draw(SPECS),
        more=tuple(zip("yx", draw(st.lists(SPECS, max_size=2)), strict=False)),
        by_name=draw(st.booleans()),
        k=static,
        order=tuple(draw(st.permutations("abckxy"))),
        donated=tuple(draw(st.lists(st.sampled_from(("a", "c", "rest")), unique=True))),
        program=program,
        picks=tuple(draw(st.lists(st.integers(0, 9), min_size=3, max_size=3))),
        result=draw(RESULTS),
    )


def function_of(form: Form, closed: Poly, device: str | None) -> Callable[..., Any]:
    """The function that a form describes."""

    def f(a, b=DEFAULT, *rest, c, k=2, **more):
        values = [a, *([] if form.b is None else [b]), *rest, c, *(more[n] for n, _ in form.more)]
        found = [
            pair for spec, v in zip(form.specs, values, strict=True) for pair in paired(spec, v)
        ]
        polys = [v for leaf, v in found if leaf.kind in ("poly", "again", "constant")]
        others = [v for leaf, v in found if leaf.kind not in ("poly", "again", "constant")]
        registers = [polys[form.picks[i] % len(polys)] for i in range(form.program.inputs)]
        registers[0] = registers[0] + closed
        for step in form.program.steps:
            registers.append(ren_step(step, [registers[i] for i in step.src], PRIMES))
        registers.append(registers[-1].rotate(k))
        for leaf, v in found:
            if leaf.kind in ("int", "bool"):
                registers.append(registers[-1] * v - v)
            if leaf.kind == "array":
                registers.append(registers[-1] + Poly(v, registers[-1].ring, device=device))
        if form.b is None:
            registers.append(registers[-1] * b)
        made = [*registers, *polys, *others, Poly.const(3, form.ring), "fixed"]
        return [registers[-1], chosen(form.result, made)]

    return f


def chosen(spec: Spec, made: Sequence[Any]) -> Any:
    """A structure of what was made."""
    if isinstance(spec, Group):
        return join(spec, [chosen(part, made) for part in spec.parts])
    return made[-1 - (spec.value or 0) % len(made)]


def assert_same(got: Any, want: Any) -> None:
    """Equal types, polynomials bit for bit in the same domain, other leaves equal."""
    assert type(got) is type(want)
    if isinstance(got, Poly):
        assert (got.ring, got.domain, got.shape, got.is_constant) == (
            want.ring, want.domain, want.shape, want.is_constant
        )  # fmt: skip
        # A result that reads no argument has no device, and is put on the default one.
        assert got.device == want.device or "python" in (got.device, want.device)
        assert ren.equal(got, want)
        if not got.is_constant:
            assert np.array_equal(np.asarray(got.limbs), np.asarray(want.limbs))
    elif isinstance(got, ckks.Ciphertext):
        assert (got.level, got.layout, got.key_id) == (want.level, want.layout, want.key_id)
        assert_same(tuple(got.polys), tuple(want.polys))
    elif isinstance(got, np.ndarray):
        assert got.dtype == want.dtype and np.array_equal(got, want)
    elif (parts := opened(want)) is None:
        assert got == want
    else:
        keys, inside = parts
        assert keys == opened(got)[0]
        for pair in zip(opened(got)[1], inside, strict=True):
            assert_same(*pair)


def check(form: Form, tiers: Sequence[str], device: str | None = None) -> None:
    """Four calls in each tier, against the function without jit.

    Under "auto" the graph is compiled after the first call, and then both tiers are timed by turns.
    """
    closed = Poly([1, 2, 3], form.ring, device=device) * Poly([3, 2], form.ring, device=device)
    function = function_of(form, closed, device)
    wanted = []
    for seed in range(3):
        args, kwargs = form.call(seed, device)
        wanted.append(ren.realize(function(*args, **kwargs)))
    static = () if form.k is None else ("k",)
    for tier in tiers:
        options = {"tier": tier, "donate_argnames": form.donated, "static_argnames": static}
        jitted = ren.jit(**options)(function)
        for seed in (0, 1, 2, 1):
            args, kwargs = form.call(seed, device)
            assert_same(jitted(*args, **kwargs), wanted[seed])
            assert_donated(form, args, kwargs)
            with ren.config.update(jit_speculate=True, compile_budget_ns=10**15):
                assert jitted.plans[0].wait(120)
        info = jitted.cache_info()
        assert (info.hits, info.misses, info.plans) == (3, 1, 1), tier
        telemetry = jitted.plans[0].telemetry
        assert not telemetry.failures
        if tier == "auto" and jitted.plans[0].plan.units and not form.donated:
            assert telemetry.tiers[-1].tier == "graph" or "known" in str(telemetry)


def assert_donated(form: Form, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """What was given away cannot be read."""
    named = dict(zip("ab", args, strict=False)) | kwargs
    given = {"a": [(form.a, named["a"])], "c": [(form.c, named["c"])]}
    given["rest"] = list(zip(form.rest, args[2:], strict=True))
    for spec, value in (pair for name in form.donated for pair in given[name]):
        for leaf, v in paired(spec, value):
            if leaf.kind in ("poly", "again"):
                with pytest.raises(DonatedBufferError):
                    v.tolist()


@pytest.mark.long
@settings(max_examples=4)
@given(forms())
def test_a_replay_is_a_fresh_run(form: Form) -> None:
    check(form, TIERS)


@pytest.mark.long
@settings(max_examples=15)
@given(forms(steps=9))
def test_a_replay_on_the_python_device_is_a_fresh_run(form: Form) -> None:
    check(form, ("units", "eager"), "python")  # nothing compiles there


# What needs no key, and what does: each of the latter compiles for seconds.
LIGHT: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda x, y, v: x + y,
    "subtract": lambda x, y, v: v - x - y,
    "negate": lambda x, y, v: -x + v,
    "times": lambda x, y, v: x * v,
}
HEAVY: dict[str, Callable[[Any, Any, Any], Any]] = {
    "product": lambda x, y, v: x * y,
    "rotate": lambda x, y, v: (x + y).rotate(1),
    "conjugate": lambda x, y, v: x.conj() * v,
}
_CIPHERTEXTS = st.builds(Leaf, st.just("ciphertext"), st.integers(0, 1))
_PLAIN = st.sampled_from((Leaf("float"), Leaf("floats"), Leaf("fixed", "text")))
ENCRYPTED = pytest.mark.filterwarnings(
    "ignore::ren.core.errors.TransparentWarning"  # a sum of a ciphertext with its negative
)
CIPHERTEXT_SPECS = st.builds(
    Group,
    st.sampled_from(("list", "tuple", "bag", "pair", "box", "named")),
    st.tuples(
        _CIPHERTEXTS, st.one_of(_PLAIN, groups(st.one_of(_CIPHERTEXTS, _CIPHERTEXTS, _PLAIN)))
    ),
)


@pytest.fixture(scope="module")
def ciphertexts() -> Iterator[list[ckks.Ciphertext]]:
    """Two, as long as the arrays of `EncryptedBuilder`; their context lives as long."""
    context = ckks.context(depth=3, n=1024, security=None)  # three steps take a level
    with context:
        yield [context.encrypt(np.linspace(-1, 1, 5) * sign).realize() for sign in (1, -1)]


class EncryptedBuilder(Builder):
    """Builds structures of copies of two ciphertexts, which are swapped for odd seeds."""

    def __init__(self, seed: int, ciphertexts: list[ckks.Ciphertext]) -> None:
        super().__init__(seed, ciphertexts[0].polys[0].ring)
        self._given = ciphertexts[:: -1 if seed % 2 else 1]

    def leaf(self, spec: Leaf) -> Any:
        if spec.kind == "ciphertext":
            return jax.tree.map(jnp.copy, self._given[spec.value])
        drawn = [self._rng.uniform(-1, 1) for _ in range(5)]
        arrays = dict.fromkeys(("floats", "array"), np.array(drawn))
        made = {"float": drawn[0], **arrays}
        return made[spec.kind] if spec.kind in made else super().leaf(spec)


def check_encrypted(
    ciphertexts: list[ckks.Ciphertext], spec: Spec, steps: list[str], tiers: Sequence[str]
) -> None:
    def f(value: Any) -> Any:
        found = [v for leaf, v in paired(spec, value) if leaf.kind == "ciphertext"]
        plain = [v for leaf, v in paired(spec, value) if leaf.kind in ("float", "floats")] or [0.5]
        for i, step in enumerate(steps):
            x, y, v = found[-1], found[i % len(found)], plain[i % len(plain)]
            found.append({**LIGHT, **HEAVY}[step](x, y, v))
        return {"last": found[-1], "given": value, "all": tuple(found)}

    arguments = [EncryptedBuilder(seed, ciphertexts).build(spec) for seed in range(2)]
    wanted = [ren.realize(f(value)) for value in arguments]
    for tier in tiers:
        jitted = ren.jit(tier=tier, donate_argnames="value")(f)
        for seed in (0, 1, 0):
            value = EncryptedBuilder(seed, ciphertexts).build(spec)
            assert_same(jitted(value), wanted[seed])
        assert jitted.cache_info()[:3] == (2, 1, 1)


@ENCRYPTED
@settings(max_examples=2)
@given(CIPHERTEXT_SPECS, st.permutations(sorted(LIGHT)))
def test_a_replay_on_ciphertexts_is_a_fresh_run(ciphertexts, spec: Spec, steps: list[str]) -> None:
    check_encrypted(ciphertexts, spec, steps, ("units",))


@ENCRYPTED
@pytest.mark.slow
@settings(max_examples=2, phases=[Phase.reuse, Phase.generate])
@given(CIPHERTEXT_SPECS, st.permutations(sorted({**LIGHT, **HEAVY})).map(lambda names: names[:4]))
def test_a_replay_on_multiplied_ciphertexts(ciphertexts, spec: Spec, steps: list[str]) -> None:
    check_encrypted(ciphertexts, spec, steps, TIERS)


@pytest.mark.slow
@settings(max_examples=60)
@given(forms(steps=9))
def test_a_replay_is_a_fresh_run_of_longer_programs(form: Form) -> None:
    check(form, TIERS)
