"""Attributes that objects, classes and modules lack, assignments, and operators of Poly.

The table's form is that of `tests.mistakes`.
"""

from __future__ import annotations

import copy
import gc
import inspect
import operator
import pickle
import pydoc
import weakref
from typing import Any, cast

import attrs
import jax
import numpy as np
import pytest

import ren
from ren import Poly, RingSpec, errors
from ren.core.attributes import closed, lacking
from ren.core.listed import Listed
from ren.schemes import ckks
from tests.mistakes import Mistake, check, mistakes

TABLE = """
the scale of TenSEAL | FrozenError | 'global_scale' of a Context; never changes; scale_bits=40
    ctx.global_scale = 2**30
a setting of TenSEAL | FrozenError | 'auto_rescale'; automatic; ckks.manual()
    ctx.auto_rescale = False
any attribute of a context | FrozenError | 'foo' of a Context; ckks.context(depth=4)
    ctx.foo = 1
the parameters of a context | FrozenError | 'params'; ckks.context(params=...)
    ctx.params = 3
the slots of a context | FrozenError | 'slots'; ckks.context(params=ctx.params, slots=...
    ctx.slots = 3
an attribute of a context is deleted | FrozenError | 'params' of a Context
    del ctx.params
the depth of parameters | FrozenError | 'depth' of a Parameters; ckks.context(depth=4
    ctx.params.depth = 3
parameters are deleted in part | FrozenError | 'n' of a Parameters
    del ctx.params.n
the degree of a ring | FrozenError | 'n' of a RingSpec; RingSpec(n=8
    ring.n = 16
the bits of an estimate | FrozenError | 'bits' of an Estimate; Make another one
    x.estimate.bits = 30
the shape of a linear map | FrozenError | 'shape' of a LinearMap; ckks.linear(matrix, ctx)
    ckks.linear([[1.0, 2.0]], ctx).shape = 3
the ring of a polynomial | FrozenError | 'ring' of a Poly; never changes; p.to_ring(ring)
    p.ring = ring
the limbs of a polynomial are deleted | FrozenError | 'limbs' of a Poly; from_limbs
    del p.limbs
an option of a jitted function | FrozenError | sets max_plans; ren.jit(function, max_plans=...)
    ren.jit(lambda p: p).max_plans = 3
the memory of a plan | FrozenError | 'memory' of a Captured; Jit the function again
    jitted(p), setattr(jitted.plans[0], "memory", 0)
a misspelt attribute of a plan | UnknownAttributeError | Perhaps you mean 'memory'
    jitted(p), jitted.plans[0].memry
a misspelt attribute of a report | UnknownAttributeError | of a MemoryReport
    jitted(p), jitted.plans[0].memory.foo
any attribute of parameters | UnknownAttributeError | 'foo' of a Parameters; It has bootstrapping
    ctx.params.foo
the degree of parameters in SEAL | UnknownAttributeError | Write ctx.params.n.
    ctx.params.poly_modulus_degree
a misspelt field of parameters | UnknownAttributeError | Perhaps you mean 'scale_bits'
    ctx.params.scale_bit
the error of an estimate | UnknownAttributeError | of an Estimate; Write x.estimate.error_bound
    x.estimate.error
the bits of a precision | UnknownAttributeError | worst_bits
    ckks.precision(x, [1.0, 2.0]).bits
the modulus of a ring | UnknownAttributeError | Write ring.q
    ring.modulus
coefficients of python-flint | UnknownAttributeError | 'coeffs' of a Poly; Write p.tolist()
    p.coeffs()
coefficients of SageMath | UnknownAttributeError | 'list' of a Poly; Write p.tolist()
    p.list()
the degree of a polynomial | UnknownAttributeError | Write p.ring.n
    p.degree()
an inverse | UnknownAttributeError | Write p.inverse()
    p.inv()
a misspelt method | UnknownAttributeError | Perhaps you mean 'round_div'
    p.rounddiv(1, 2)
a random polynomial | UnknownAttributeError | 'random' of the class Poly; Poly.uniform(ring)
    Poly.random(ring)
a polynomial of ones | UnknownAttributeError | Write ren.Poly([1] * ring.n, ring)
    Poly.ones(ring)
a constructor of ciphertexts | UnknownAttributeError | 'zeros' of the class Ciphertext; It has
    ckks.Ciphertext.zeros
encryption without a scheme | UnknownAttributeError | 'encrypt' of ren; ctx.encrypt(values)
    ren.encrypt
a context without a scheme | UnknownAttributeError | 'context' of ren; ckks.context(depth=4)
    ren.context(depth=2)
a misspelt name of ren | UnknownAttributeError | Perhaps you mean 'realize'
    ren.realise
divmod of a polynomial | OperandError | divides; round_div
    divmod(p, 2)
divmod of a number | OperandError | divides; round_div
    divmod(2, p)
a polynomial as an exponent | OperandError | exponent; p.shift(k)
    2**p
a power by ^ | OperandError | bits; p ** k is a power
    p ^ p
bits of coefficients | OperandError | bits; p.digits(2)
    p & 1
bits of a number | OperandError | bits; p.digits(2)
    1 | p
a shift of bits | OperandError | bits; p * 2**k; p.shift(k)
    p << 1
the complement of a polynomial | OperandError | bits; -p
    ~p
a product by @ | OperandError | by @; p * r; batch.mix(matrix)
    p @ p
a matrix times a polynomial | OperandError | by @; batch.mix(matrix)
    [[1, 2]] @ p
less than a polynomial | OperandError | size; p.norm(); ren.equal
    p < p
polynomials in order | OperandError | size; p.norm()
    sorted([p, p])
the integer of a polynomial | OperandError | makes a number; p.evaluate(x)
    int(p)
the float of a polynomial | OperandError | makes a number; p.tolist()[0]
    float(p)
the absolute value of a polynomial | OperandError | absolute value; p.norm()
    abs(p)
a polynomial is rounded | OperandError | rounds; round_div
    round(p, 2)
"""


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """Names in the lines of the table; the parameters are insecure, for speed."""
    ctx = ckks.context(depth=1, n=1 << 10, security=None)
    ring = RingSpec(n=8, moduli=(17, 97))
    return {
        "ren": ren, "ckks": ckks, "ctx": ctx, "Poly": Poly, "ring": ring,
        "p": Poly(range(8), ring), "x": ctx.encrypt([1.0, 2.0]),
        "jitted": ren.jit(lambda p: p + 1),
    }  # fmt: skip


@pytest.mark.parametrize("mistake", mistakes(TABLE), ids=lambda mistake: mistake.name)
def test_the_error_says_what_to_write(mistake: Mistake, names: dict) -> None:
    check(mistake, dict(names))


def objects(names: dict) -> list[Any]:
    x, ctx = names["x"], names["ctx"]
    return [
        x, ctx, ctx.params, x.estimate, names["p"], names["ring"], ren, Poly, ckks.Context,
        ckks.Parameters, ckks.precision(x, [1.0, 2.0]), ckks.approximate(np.exp, precision=5),
    ]  # fmt: skip


def test_probes_find_nothing_and_raise_nothing(names: dict) -> None:
    for value in objects(names):
        for name in ("absent", "_repr_mimebundle_", "_ipython_canary_method_", "__nothing__"):
            assert not hasattr(value, name)
            assert getattr(value, name, 3) == 3
        with pytest.raises(AttributeError) as caught:
            _ = value._private_name
        assert type(caught.value) is AttributeError  # a protocol: Python's own error
        assert inspect.getattr_static(value, "absent", None) is None
        assert pydoc.plaintext.document(value)


def test_values_are_copied_pickled_and_flattened_as_before(names: dict) -> None:
    for value in (names["ctx"].params, names["ring"], names["x"].estimate, names["p"], Poly):
        for again in (
            copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value)),
        ):  # fmt: skip
            assert ren.equal(again, value) if isinstance(value, Poly) else again == value
    params = names["ctx"].params
    assert attrs.evolve(params, slots=64).slots == 64
    assert attrs.evolve(params, slots=64).scales == params.scales  # a cached property
    leaves, structure = jax.tree.flatten(names["ctx"].server())
    assert isinstance(jax.tree.unflatten(structure, leaves), ckks.Context)
    assert isinstance(jax.tree.map(lambda a: None, names["p"]), Poly)


def test_a_context_works_as_before() -> None:
    ctx = ckks.context(depth=1, n=1 << 10, security=None)
    with ctx:
        assert (ctx.encrypt([2.0]) ** 2).decrypt().round(2) == 4
    again = pickle.loads(pickle.dumps(ctx.server()))
    assert again.key_id == ctx.key_id and again.params == ctx.params
    assert copy.deepcopy(ctx.public()).key_id == ctx.key_id
    assert ctx.rotation_keys([1]) is ctx and ctx.adopt(ctx.server()) is ctx
    kept = weakref.ref(ctx)
    ctx._of_mine = 1  # names with an underscore are the user's own
    del ctx, again
    gc.collect()
    assert kept() is None


def test_an_error_of_a_property_is_its_own() -> None:
    class Box:
        __getattr__ = lacking({"old": "box.new"})

        @property
        def broken(self) -> int:
            return self._not_there

    with pytest.raises(AttributeError, match="_not_there") as caught:
        _ = Box().broken
    assert type(caught.value) is AttributeError
    with pytest.raises(errors.UnknownAttributeError, match=r"Write box\.new"):
        _ = Box().old


def test_closed_classes_refuse_and_subclasses_say_their_names() -> None:
    @closed({"size": "box.length"}, "Make a box.")
    @attrs.frozen
    class Box:
        length: int

    class Iron(Box, metaclass=Listed):
        __instead__ = {"melt": "Iron(length)"}  # noqa: RUF012

    assert Box(2) == attrs.evolve(Box(1), length=2)
    box, iron, kind = cast("tuple[Any, ...]", (Box(1), Iron(1), Iron))
    with pytest.raises(errors.FrozenError, match=r"(?s)'length' of an Iron.*Make a box\."):
        iron.length = 2
    with pytest.raises(errors.UnknownAttributeError, match=r"(?s)of a Box.*box\.length"):
        _ = box.size
    with pytest.raises(errors.UnknownAttributeError, match=r"(?s)the class Iron.*Iron\(length\)"):
        _ = kind.melt


class Foreign:
    """A class whose reflected operators know polynomials."""

    def __rxor__(self, other: Any) -> str:
        return "rxor"

    def __gt__(self, other: Any) -> str:  # type: ignore[override]
        return "gt"

    __rmatmul__ = __rand__ = __rpow__ = __rxor__


def test_operators_of_foreign_classes_apply(names: dict) -> None:
    p = names["p"]
    assert (p ^ Foreign()) == (p @ Foreign()) == (p & Foreign()) == "rxor"
    assert (p < Foreign()) == "gt"
    with pytest.raises(TypeError, match="unsupported operand"):
        operator.xor(p, object())
    assert not callable(p) and not hasattr(p, "__index__")
