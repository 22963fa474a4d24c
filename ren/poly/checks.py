"""Checks of what users pass to Poly and to ren.jit, and what operators of Poly make of it."""

from __future__ import annotations

import difflib
import numbers
import operator
from collections.abc import Iterable
from types import NoneType
from typing import Any, NoReturn

import jax
import numpy as np

from ren.core.errors import (
    CoefficientTypeError,
    DeviceError,
    DomainError,
    JitError,
    OperandError,
    RenError,
    RingError,
    RingMismatchError,
    TracedValueError,
    kind_of,
)
from ren.core.node import Node, buffer, const
from ren.core.ring import Domain, RingSpec
from ren.core.user_frame import user_line
from ren.lowering.devices.devices import TRACED, is_tracer
from ren.lowering.kernels import embedding
from ren.poly.integers import of_moduli
from ren.poly.symbolic import Symbolic


def as_int(value: Any) -> int:
    """`value` as a Python int, without rounding."""
    check_concrete(value)
    try:
        return operator.index(value)
    except RenError:
        raise
    except TypeError:
        raise CoefficientTypeError(
            f"{value!r} of type {type(value).__name__} was given.",
            "An integer is needed here.",
            "Write a Python int.",
        ) from None


def check_concrete(value: Any) -> None:
    """Raises TracedValueError where a number is needed and JAX traces one."""
    if is_tracer(value):
        raise TracedValueError(
            f"{user_line()} needs the value of a number that is traced by JAX.",
            "Steps, exponents and constants make a program: they are known while it is traced.",
            "Make it static (static_argnums of jax.jit). For the counter of a loop write a loop of "
            "Python, or jax.lax.switch over its values.",
        )


def check_ring(ring: Any) -> None:
    """Raises RingError unless `ring` is a RingSpec."""
    if not isinstance(ring, RingSpec):
        raise RingError(
            f"The ring given is of type {type(ring).__name__}.",
            "A ren.RingSpec is needed.",
            "Write for example RingSpec(n=8, moduli=(17, 97)).",
        )


def check_polys(method: str, others: Iterable[Any], poly: type) -> None:
    """Raises OperandError unless all of `others` are of the class `poly`."""
    for other in others:
        if not isinstance(other, poly):
            raise OperandError(
                f"Poly.{method} got {kind_of(other)}.",
                "It takes polynomials.",
                f"Write ren.{method}(p, other), which takes any structures of them.",
            )


# Options that decorators of the kind have elsewhere.
_OF_OTHERS = {
    "static": "Name what is static by static_argnames=. For static=False write @ren.djit.",
    "donate": "Name what is donated by donate_argnames=.",
    "strategy": "Write ren.submit(f, x) for a call in another thread, and tier= for how plans run.",
    "return_type": "Leave it out: results have the types that the function returns.",
    **dict.fromkeys(("fun", "f"), "The function comes first, without a name: ren.jit(f)."),
}


def check_options(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises JitError, with what to write, if `what` is `given` an option that is not `known`."""
    for name in given:
        near = difflib.get_close_matches(name, known := sorted(known), 1)
        raise JitError(
            f"{what} got the option {name!r}, which it does not have.",
            f"Its options are {', '.join(known)}.",
            _OF_OTHERS.get(
                name, f"Perhaps you mean {near[0]!r}." if near else "Pass one of these."
            ),
        )


def check_limbs(limbs: Any, ring: RingSpec, is_shape: bool = False) -> None:
    """Raises DomainError unless `limbs` is a `uint32[*batch, limb, n]` array that fits the ring.

    With `is_shape` it is a `jax.ShapeDtypeStruct`.
    """
    shape, dtype = getattr(limbs, "shape", None), getattr(limbs, "dtype", None)
    if shape is None or dtype is None or not (is_shape or hasattr(limbs, "__array__")):
        given = f"The limb array of a polynomial is {kind_of(limbs)}."
    elif tuple(shape[-2:]) != (ring.limbs, ring.n) or dtype != np.uint32:
        given = f"The limb array of a polynomial is {dtype}{list(shape)}."
    else:
        return
    raise DomainError(
        given,
        f"It is uint32[*batch, {ring.limbs}, {ring.n}] for this ring: limbs second to last, "
        "coefficients last.",
        "A shape alone has a program, ren.xpr(f, p), and no values: call f with a polynomial."
        if isinstance(limbs, jax.ShapeDtypeStruct)
        else "Keep the last two axes and the dtype when you map over a polynomial's leaf.",
    )


def as_batch(batch: Any) -> tuple[int, ...]:
    """The lengths of batch axes, from 0 on; DomainError for anything else."""
    lengths = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
    are_counts = [_is_integer(k) and not isinstance(k, bool | np.bool) for k in lengths]
    if not all(are_counts) or any(operator.index(k) < 0 for k in lengths):
        raise DomainError(
            f"{user_line()} gives batch={batch!r:.60} for polynomials.",
            "It is a tuple of the lengths of the batch axes, integers from 0 on.",
            "Write for example batch=(8,).",
        )
    return tuple(map(operator.index, lengths))


def check_distinct(digit: tuple[int, ...]) -> None:
    """Raises RingMismatchError where a digit of `mod_up` has a modulus twice."""
    if len(set(digit)) < len(digit):
        raise RingMismatchError(
            f"{user_line()} calls mod_up with the digit {digit!r:.80}, a modulus of it twice.",
            "A digit is a part of the moduli of the polynomial, each once.",
            f"Write {tuple(dict.fromkeys(digit))!r:.80}.",
        )


def check_domain(domain: Any) -> None:
    """Raises DomainError unless `domain` is a Domain."""
    if not isinstance(domain, Domain):
        raise DomainError(
            f"The domain of a polynomial was given as {domain!r:.40}.",
            "It is how its limbs are to be read: coefficients or evaluations.",
            "Write ren.Domain.COEFF or ren.Domain.NTT.",
        )


def refuse_traced(coeffs: Any) -> None:
    """Raises TracedValueError where coefficients are traced by JAX, or some of them."""
    is_list = isinstance(coeffs, list | tuple)
    if is_tracer(coeffs) or (is_list and any([is_tracer(c) for c in coeffs])):
        what = "traced integers" if is_list else "a traced array"
        raise TracedValueError(
            f"{user_line()} makes a polynomial of {what} inside a JAX transformation.",
            "Coefficients become residues on the host, from concrete integers.",
            "Make the Poly outside and pass it in, or use Poly.from_limbs. One traced integer may "
            "be added, or be a factor, as it is: p + k, p * k.",
        )


def check_residues(limbs: Any, ring: RingSpec) -> None:
    """Raises DomainError for residues of an array of NumPy that are not below their modulus.

    Arrays of JAX are on their way, maybe from another device, and are not waited for.
    """
    if not isinstance(limbs, np.ndarray):
        return
    values = of_moduli(limbs, ring.moduli)
    beyond = values >= np.array(ring.moduli, np.uint64)[:, None]
    if beyond.any():
        place = tuple(np.argwhere(beyond)[0])
        raise DomainError(
            f"The limb array of a polynomial has {values[place]} for the modulus "
            f"{ring.moduli[place[-2]]}.",
            "It holds residues from 0 to the modulus - 1.",
            "Write Poly(coefficients, ring), which reduces integers of any size.",
        )


_NO_OPERANDS = (
    numbers.Number, np.ndarray, np.generic, jax.Array, str, bytes, bytearray, list, tuple, set,
    frozenset, dict, NoneType,
)  # fmt: skip


def operand(value: Any, ring: RingSpec, domain: Domain, symbol: str) -> Node | None:
    """The constant that an operand is beside a polynomial; None for types that are ignored.

    Raises:
        CoefficientTypeError: numbers that are not integers, and arrays.
    """
    if isinstance(value, Symbolic):
        return value.scalar(ring, domain)
    if is_tracer(value) and value.ndim == 0 and value.dtype.kind in "iub":
        return _traced_constant(value, ring, domain)
    if _is_integer(value):
        return const(as_int(value), ring, domain)
    if is_tracer(value):
        raise CoefficientTypeError(
            f"poly {symbol} a traced {value.aval.str_short()} was written.",
            "A polynomial combines with polynomials of its ring and with integers.",
            "Pass one integer, or a Poly as an argument: Poly(coefficients, ring).",
        )
    if isinstance(value, _NO_OPERANDS):
        raise CoefficientTypeError(
            f"poly {symbol} {type(value).__name__} was written.",
            "A polynomial combines with polynomials of its ring and with Python ints.",
            "Write round(value), or round(value * scale) with a scale of yours."
            if isinstance(value, numbers.Real)
            else "Make a Poly of it: Poly(coefficients, ring).",
        )
    return None


def _traced_constant(value: Any, ring: RingSpec, domain: Domain) -> Node:
    """The constant polynomial of an integer that JAX traces: residues inside the traced program."""
    if domain is Domain.NTT:
        limbs = embedding.evaluated_constant(value, ring.moduli, ring.n)
    else:
        limbs = embedding.limbs_of_integer(value, ring.moduli, ring.n)
    return buffer(limbs, ring, domain, traced=True)


def _is_integer(value: Any) -> bool:
    """True of one number of an integer type, also of one that JAX traces: `as_int` tells of it."""
    if isinstance(value, jax.Array):
        return value.ndim == 0 and value.dtype.kind in "iub"
    return hasattr(value, "__index__") and np.ndim(value) == 0


def as_exponent(exponent: Any, modulus: Any = None) -> int:
    """An exponent as an integer >= 0; pow() has no third argument here."""
    check_concrete(exponent)
    if modulus is not None:
        raise OperandError(
            f"{user_line()} calls pow() of a polynomial with a modulus.",
            "A polynomial is computed modulo the q of its ring.",
            "Write p**e. The remainders of its coefficients are (p**e) % m.",
        )
    e = exponent.__index__() if hasattr(exponent, "__index__") else -1
    if e < 0:
        raise CoefficientTypeError(
            f"A polynomial was raised to the power {exponent!r}.",
            "Powers are integers >= 0.",
            "For an inverse, which need not exist, write p.inverse(), and p.inverse() ** 2.",
        )
    return e


def as_galois_element(g: Any, n: int) -> int:
    """The exponent of an automorphism of Z_q[X]/(X^n + 1), an odd number in [1, 2n)."""
    g = as_int(g)
    if g % 2 == 0:
        raise DomainError(
            f"automorphism got the galois element {g}.",
            "X -> X^g is an automorphism of Z_q[X]/(X^n + 1) for odd g only.",
            "For a rotation of slots use rotate(k).",
        )
    return g % (2 * n)


def check_movable(source: Any, target: Any) -> None:
    """Raises DeviceError for a polynomial under a trace: its device is decided outside."""
    if source == TRACED:
        raise DeviceError(
            f"{user_line()} moves a polynomial to {target!r} inside a trace.",
            "Under a JAX transformation, where things run is decided outside.",
            "Move the arguments before the call: x.to(device) or jax.device_put.",
        )


_REFUSED = {  # operators: what a user does, what is so, what to write
    "rpow": (
        "takes a polynomial as an exponent", "Powers are integers >= 0.",
        "Write p ** 3 for a power of p, p.shift(k) for the product with X^k.",
    ),
    **dict.fromkeys(
        ("and", "or", "xor", "rand", "ror", "rxor", "lshift", "rshift", "rlshift", "rrshift"), (
            "computes on the bits of a polynomial", "Coefficients are residues modulo q.",
            "Write p.digits(2) for the bits of each coefficient, p * 2**k for a shift of them; "
            "p.shift(k) multiplies by X^k, p ** k is a power.",
        ),
    ),
    **dict.fromkeys(
        ("setitem", "delitem"), (
            "assigns to, or deletes, a part of a polynomial", "It never changes.",
            "Write np.stack([*p[:i], other, *p[i + 1 :]]) for a batch with another entry.",
        ),
    ),
    **dict.fromkeys(
        ("matmul", "rmatmul"), (
            "multiplies a polynomial by @", "It is one element of a ring, and @ is for matrices.",
            "Write p * r for the product, batch.mix(matrix) for a matrix times a batch axis.",
        ),
    ),
    **dict.fromkeys(
        ("lt", "le", "gt", "ge"), (
            "compares a polynomial by its size", "Residues modulo q have no order.",
            "Compare p.norm(), or coefficients: p.tolist(centered=True). ren.equal(p, r) is for "
            "equal values.",
        ),
    ),
    **dict.fromkeys(
        ("int", "float", "complex"), (
            "makes a number of a polynomial", "It has n coefficients.",
            "Write p.tolist()[0] for the constant one, p.evaluate(x) for the value at x.",
        ),
    ),
    **dict.fromkeys(
        ("round", "trunc", "floor", "ceil"), (
            "rounds a polynomial", "Its coefficients are integers.",
            "Write p.round_div(1, c), which divides by c and rounds.",
        ),
    ),
    "invert": (
        "computes on the bits of a polynomial", "Coefficients are residues modulo q.",
        "Write -p, or p.inverse().",
    ),
    "abs": (
        "takes the absolute value of a polynomial", "Residues modulo q have no sign.",
        "Write p.norm() for the largest absolute value of a centred coefficient.",
    ),
}  # fmt: skip
_UNARY = ("int", "float", "complex", "round", "trunc", "floor", "ceil", "invert", "abs")
_UNARY += ("setitem", "delitem")  # whose results Python does not read


def refuse_operators(kind: type) -> None:
    """Let the operators and number protocols that a class of polynomials lacks raise OperandError.

    An operand of a foreign class computes by its own operator.
    """

    def refused(name: str, reasons: tuple[str, str, str]) -> Any:
        def run(p: Any, *others: Any) -> Any:
            known = (kind, Symbolic, *_NO_OPERANDS)
            if name not in _UNARY and not all(isinstance(o, known) for o in others):
                return NotImplemented
            given, needed, do = reasons
            raise OperandError(f"{user_line()} {given}.", needed, do)

        return run

    for name, reasons in _REFUSED.items():
        setattr(kind, f"__{name}__", refused(name, reasons))


def no_division(*_: Any) -> NoReturn:
    """The operators `/` and `//` of a polynomial."""
    raise OperandError(
        f"{user_line()} divides by or into a polynomial.",
        "Inverses in Z_q[X]/(X^n + 1) need not exist.",
        "x * y.inverse() divides where y has an inverse, x * pow(c, -1, x.ring.q) by a constant; "
        "x.round_div(1, c) divides and rounds.",
    )
