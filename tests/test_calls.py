"""Wrong arguments of public functions, methods and constructors: the error names the right ones.

The table's form is that of `tests.mistakes`.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
import sys
import timeit
from types import FunctionType
from typing import Any

import jax
import numpy as np
import pytest

import ren
from ren import Poly, RingSpec, errors
from ren.poly.calls import check_functions, check_methods, checked_call
from ren.schemes import ckks
from tests.mistakes import Mistake, check, mistakes

TABLE = """
a number of a rotation too many | OperandError | rotate(); takes 1 positional argument but 2 were
    p.rotate(1, 2)
no steps | OperandError | rotate(); is missing 1 required positional argument: 'k'; Pass k.
    p.rotate()
parameters without their name | ParameterError | got parameters as its depth; Write ckks.context(p
    ckks.context(ctx.params)
a class of polynomials | OperandError | derives from ren.Poly; register_dataclass
    type("Mine", (Poly,), {})
parameters and a depth for tests | ParameterError | params and n; Leave one of the two out
    ckks.testing.context(b"seed", params=ctx.params, n=1024)
options without names | JitError | 2 arguments without names; ren.jit(f, max_plans=4)
    ren.jit(lambda x: x, 4)
the scale of SEAL | OperandError | ckks.context(); 'scale'; scale_bits=40; Write scale_bits=
    ckks.context(depth=2, scale=2**40)
parameters of TenSEAL | OperandError | 'poly_modulus_degree'; Write depth=; Write n=
    ckks.context(poly_modulus_degree=8192, coeff_mod_bit_sizes=[60, 40, 40, 60])
parameters of OpenFHE | OperandError | 'multiplicative_depth'; Write depth=
    ckks.context(multiplicative_depth=2)
slots of OpenFHE | OperandError | 'batch_size'; Write slots=
    ckks.context(depth=2, batch_size=8)
a seed for keys | OperandError | 'seed'; operating system; ckks.testing.context(seed)
    ckks.context(depth=2, seed=1)
a misspelt argument | OperandError | 'secrity'; Perhaps you mean security=
    ckks.context(depth=2, secrity=128)
a scale for encrypt | OperandError | encrypt(); 'scale'; Its arguments are (values, level=None
    ctx.encrypt([1.0], scale=2**40)
a seed for encrypt | OperandError | encrypt(); 'seed'; operating system
    ctx.encrypt([1.0], seed=1)
a type for encrypt | OperandError | encrypt(); 'dtype'; np.asarray(values, dtype)
    ctx.encrypt([1.0], dtype=float)
a letter too much | OperandError | encrypt(); Perhaps you mean bound=. See
    ctx.encrypt([1.0], bounds=1)
another function's argument | OperandError | ren.Poly(); Perhaps you mean ring=. Pass ring=
    Poly([1], rng=ring)
a scale for encode | OperandError | encode(); scale_bits=; help(ckks.Context.encode)
    ctx.encode([1.0], scale=2**40)
a shared decryption without its terms | OperandError | decrypt_shared(); plan=f(x).estimate; queries
    ctx.decrypt_shared(x)
a class method of contexts | OperandError | load(); help(ckks.Context.load)
    ckks.Context.load()
a depth by another name | OperandError | for_depth(); Write depth=; Parameters.for_depth
    ckks.Parameters.for_depth(multiplicative_depth=2)
parameters of their degree alone | OperandError | ckks.Parameters(); missing 4; Pass terminals,
    ckks.Parameters(n=1024)
a deviation without an interval | OperandError | ckks.stats.std(); 'interval'; Pass interval=(a, b)
    ckks.stats.std(x)
a correction | OperandError | 'correction'; Write ddof=1
    ckks.stats.std(x, interval=(0.5, 2), degree=3, correction=1)
a bias | OperandError | ckks.stats.cov(); 'bias'; Write ddof=1
    ckks.stats.cov(x, y, bias=True)
variables in rows | OperandError | 'rowvar'; Leave it out; column
    ckks.stats.cov(x, rowvar=False)
bins | OperandError | 'bins'; Pass edges=np.linspace(a, b, 11).
    ckks.stats.histogram(x, bins=4)
a quantile without edges | OperandError | missing; 'edges'; Pass edges=np.linspace(a, b, 11)
    ckks.stats.quantile(x, 0.5)
standardize without an interval | OperandError | ckks.stats.standardize(); Pass interval=(a, b)
    ckks.stats.standardize(x)
an axis for concat | OperandError | ckks.concat(); 'axis'; first axis; ckks.stack([x, y])
    ckks.concat([x, y], axis=1)
a mode for a convolution | OperandError | ckks.conv1d(); 'mode'; padding=len(kernel) - 1
    ckks.conv1d(x, [1], mode="full")
a bias for a layer | OperandError | ckks.linear(); 'bias'; m @ x + bias
    ckks.linear(np.eye(4), ctx, bias=1)
two arguments for where | OperandError | where(); 'b'; (condition, a, b)
    ckks.where(x, x)
a loop without its steps | OperandError | ckks.while_loop(); 'max_steps'; Pass max_steps=10
    ckks.while_loop(lambda v: v, lambda v: v, x)
too many numbers for exp | OperandError | ckks.math.exp(); 5 were given; (ct, interval=
    ckks.math.exp(x, (0, 1), 1, 2, 3)
a lower bound for exp | OperandError | ckks.math.exp(); interval=(a, b)
    ckks.math.exp(x, lower_bound=0)
out= of a sum | OperandError | sum(); 'out'; help(ckks.Ciphertext.sum); out= and initial=
    x.sum(out=3)
a polynomial without a ring | OperandError | ren.Poly(); 'ring'; ring=ren.RingSpec
    Poly([1])
a polynomial with a modulus | OperandError | ren.Poly(); 'modulus'; ring=ren.RingSpec
    Poly([1], modulus=17)
a uniform polynomial by place | OperandError | ren.Poly.uniform(); (ring, *, seed=None
    Poly.uniform(ring, 5)
a remainder with another name | OperandError | mod(); 'center'; centered=
    p.mod(3, center=True)
a ring with q | OperandError | ren.RingSpec(); 'q'; Pass moduli=(17, 97).
    RingSpec(n=8, q=17)
a program of a number | OperandError | an int; ren.xpr(f, p)
    ren.xpr(3)
stages of a number | OperandError | an int; ren.xpr(f, p)
    ren.stages(3)
a plan at the scale of SEAL | ParameterError | got scale=; Write scale_bits=
    ren.plan(lambda v: v, ckks.spec(3), scale=2**40)
a context of tests without a seed | OperandError | ckks.testing.context(); seed=b"a seed"
    ckks.testing.context()
a method of a class without its object | OperandError | tolist(); Call it on an object: x.tolist(
    Poly.tolist()
a class method of plaintexts | OperandError | from_bytes(); (data); help(ckks.Plaintext.from_bytes)
    ckks.Plaintext.from_bytes()
an inherited class method | OperandError | load(); (path); help(ckks.LinearMap.load)
    ckks.LinearMap.load()
a program of nothing | OperandError | ren.xpr(); Pass a function f
    ren.xpr()
equal of one | OperandError | ren.equal(); (a, b)
    ren.equal(p)
a number of bits below zero | ParameterError | precision=-1; from 0 to 1000
    ckks.math.exp(x, interval=(-4, 4), precision=-1)
more bits than floats have | ParameterError | integer of 1329 bits; from 0 to 1000
    ckks.approximate(np.exp, (-1, 1), precision=10**400)
a truth value as a plan | ParameterError | the plan True; f(x).estimate
    ctx.decrypt_shared(x, True, queries=2)
a truth value as a count of queries | ParameterError | queries=True; from 1 on
    ctx.decrypt_shared(x, 1e-3, queries=True)
queries without end | ParameterError | queries=<integer of 1329 bits>; up to 2^53
    ctx.decrypt_shared(x, 1e-3, queries=10**400)
a truth value as a bound | ParameterError | bound=True; a number above 0
    ctx.encrypt([1.0], bound=True)
a bound of 5000 digits | ParameterError | bound=<integer of 16610 bits>
    ctx.encrypt([1.0], bound=10**5000)
an interval of 5000 digits | ParameterError | interval=<tuple with a huge integer>; two finite
    ckks.approximate(np.exp, (-1, 10**5000))
a bound of parameters of 401 digits | ParameterError | bound is <integer of 1329 bits>; up to 2^60
    ckks.Parameters.for_depth(2, bound=10**400)
a degree of 5000 digits | RingError | n=<integer of 16610 bits>; 131072
    RingSpec(n=10**5000, moduli=17)
a modulus of 5000 digits | RingError | <integer of 16610 bits>; below 2^61
    RingSpec(n=8, moduli=10**5000)
a precision without bootstraps | ParameterError | got precision=40.; those of a bootstrap
    ckks.context(depth=2, precision=40)
a failure without bootstraps | ParameterError | got failure=0.1.; those of a bootstrap
    ckks.context(depth=2, failure=0.1)
a value a little beyond its bound | ParameterError | beyond, up to 2^1; State a larger
    ckks.context(depth=1, n=64, security=None, bound=1.0).encrypt([1.0 + 1e-12])
a modulus twice in a digit | RingMismatchError | (17, 17); each once; Write (17,)
    p.mod_up((17, 17), RingSpec(8, (17, 97, 113)))
"""


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """Names in the lines of the table; the parameters are insecure, for speed."""
    ctx = ckks.context(depth=2, n=1 << 10, security=None)
    ring = RingSpec(n=8, moduli=(17, 97))
    return {
        "np": np, "ren": ren, "ckks": ckks, "ctx": ctx, "Poly": Poly, "RingSpec": RingSpec,
        "ring": ring, "p": Poly(range(8), ring), "x": ctx.encrypt([1.0, 2.0]),
        "y": ctx.encrypt([3.0, 4.0]),
    }  # fmt: skip


@pytest.mark.parametrize("mistake", mistakes(TABLE), ids=lambda mistake: mistake.name)
def test_the_error_names_the_arguments(mistake: Mistake, names: dict) -> None:
    check(mistake, dict(names))


MODULES = (ren, ckks, ckks.math, ckks.stats, ckks.testing)
KINDS = (ckks.Context, ckks.Ciphertext, ckks.Plaintext, ckks.LinearMap, ckks.Parameters, Poly)
# Functions and methods that check their arguments themselves, or that programs call in each step.
LEFT = {
    ren: {"jit", "djit"},
    Poly: {"to_ring", "realize", "contiguous", "from_limbs", "const", "zeros"},
}


@pytest.mark.parametrize("owner", MODULES, ids=lambda m: m.__name__)
def test_every_public_function_checks_its_arguments(owner: Any) -> None:
    functions = {n: f for n in owner.__all__ if isinstance(f := getattr(owner, n), FunctionType)}
    for name, function in functions.items():
        assert hasattr(function, "__ren_checked__") != (name in LEFT.get(owner, ())), name
        home = sys.modules[function.__module__]
        assert getattr(home, function.__name__) is function, name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_public_method_checks_its_arguments(kind: type) -> None:
    for name in dir(kind):
        held = inspect.unwrap(getattr(kind, name), stop=lambda f: hasattr(f, "__ren_checked__"))
        if not name.startswith("_") and isinstance(held, FunctionType):
            assert hasattr(held, "__ren_checked__") != (name in LEFT.get(kind, ())), name


def test_functions_that_are_checked_are_documented_and_pickled_as_before() -> None:
    functions: tuple[Any, ...] = (
        ckks.context, ckks.math.exp, ckks.stats.std, ckks.where, ren.xpr, ren.plan,
    )  # fmt: skip
    for function in functions:
        inner = function.__wrapped__
        assert inspect.signature(function) == inspect.signature(inner)
        assert (function.__doc__, function.__name__) == (inner.__doc__, inner.__name__)
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function
        assert function.__doc__.splitlines()[0] in pydoc.plaintext.document(function)
    assert ckks.math.ln is ckks.math.log and ckks.where is ckks.math.where
    assert ckks.plan is ren.plan
    assert (
        str(inspect.signature(Poly))
        == "(coeffs: 'Any', ring: 'RingSpec', device: 'Any' = None) -> 'None'"
    )
    assert list(inspect.signature(RingSpec).parameters) == ["n", "moduli"]
    assert inspect.signature(Poly.uniform).parameters.keys() == {"ring", "seed", "device", "batch"}


def test_an_error_from_deeper_inside_passes_unchanged() -> None:
    def failing(x: Any, y: int = 1) -> Any:
        return len(x) + inner(x)

    def inner(x: Any, z: Any) -> Any:
        return x, z

    checked = checked_call("f", failing, {})
    with pytest.raises(TypeError, match=r"object of type 'int' has no len\(\)") as caught:
        checked(1)
    assert type(caught.value) is TypeError
    with pytest.raises(TypeError, match=r"inner\(\) missing 1 required") as caught:
        checked([])
    assert type(caught.value) is TypeError
    with pytest.raises(errors.OperandError, match="unexpected keyword argument 'z'"):
        checked([], z=2)
    users: Any = dict  # a function of the user that fails
    with pytest.raises((TypeError, ValueError)) as caught:
        ckks.approximate(lambda x: users(1))
    assert not isinstance(caught.value, errors.RenError)


def test_a_class_of_ones_own_and_its_kinds_of_methods() -> None:
    class Box:
        def put(self, value: int) -> int:
            return value

        @classmethod
        def make(cls, value: int) -> type:
            return cls

        @staticmethod
        def twice(value: int) -> int:
            return 2 * value

        def left(self) -> int:
            return 1

    check_methods(Box, "box.Box", {"+value": "value=3"}, leave=("left",))
    box: Any = Box()
    assert (box.put(1), Box.make(1), box.twice(2), Box.twice(value=3)) == (1, Box, 4, 6)
    for call, page in ((box.put, "put"), (box.make, "make"), (box.twice, "twice")):
        with pytest.raises(errors.OperandError, match=rf"(?s)are \(value\).*box\.Box\.{page}\)"):
            call()
    with pytest.raises(TypeError, match="takes 1 positional") as caught:
        box.left(1)
    assert type(caught.value) is TypeError


def test_names_that_are_no_functions_stay() -> None:
    names = {"kind": int, "number": 3}
    check_functions(names, ["kind", "number", "absent"], "here", {})
    assert names == {"kind": int, "number": 3}


def test_a_check_costs_little() -> None:
    def f(a: int, b: int = 1) -> int:
        return a

    checked = checked_call("f", f, {})
    seconds = min(timeit.repeat(lambda: checked(1, b=2), number=10_000, repeat=5)) / 10_000
    assert seconds < 20e-6


def test_a_jitted_function_may_call_them(names: dict) -> None:
    x = names["x"]
    halved = ren.jit(ckks.stats.mean)(x)
    np.testing.assert_allclose(halved.decrypt(), 1.5, atol=1e-6)
    with pytest.raises(errors.OperandError, match="Pass interval"):
        ren.jit(lambda v: ckks.stats.std(v))(x)
    assert jax.tree.leaves(names["ctx"].server())
