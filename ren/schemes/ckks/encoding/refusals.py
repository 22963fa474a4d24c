"""Errors for Python's operators and protocols that do not apply to encrypted numbers.

`Ciphertext`, `Plaintext` and `LinearMap` have these functions as methods. Each raises an error that
says what to write instead.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from ren.core.attributes import frozen, unknown_attribute
from ren.core.errors import (
    FrozenError,
    OperandError,
    ParameterError,
    RenError,
    TracedValueError,
    kind_of,
)
from ren.core.listed import undivided
from ren.core.user_frame import user_line
from ren.lowering.backends.xla.jax_runtime import on_operand
from ren.poly.loop_types import FLATTENING, refuse_mismatch
from ren.poly.mapped_axes import is_mapping, refuse_axes, refuse_collective, refuse_ravel
from ren.schemes.ckks.encoding.advice import factor_of, rounded_to
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData, batch_of
from ren.schemes.ckks.encoding.encoder import is_no_operand, is_sparse
from ren.schemes.ckks.encoding.other_libraries import IN_OTHERS
from ren.schemes.ckks.encoding.table_advice import affordable, in_table

_INSTEAD = {
    "level": "Write x = x.drop_to(level), which only goes down, or encrypt or encode at a level.",
    "scale": "A product changes the scale, x.rescale() divides it; the level fixes it otherwise.",
    "slots": "Make the context with ckks.context(depth, slots=...).",
    "layout": "Write x = x.reshape(...).",
    "shape": "Write x = x.reshape(...).",
}


def refusal(error: Callable[..., Exception], given: str, *reasons: str) -> Callable[..., NoReturn]:
    """A method that raises: the user's line and what it does, what is needed and what to do."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise error(f"{user_line()} {given}", *reasons)

    return refuse


def approximation(
    what: str, name: str, arguments: str = "ct, interval=(a, b)"
) -> Callable[..., NoReturn]:
    """A method that raises, and names the function of `ckks.math` to write instead."""
    return refusal(
        OperandError,
        f"asks for {what} of encrypted numbers.",
        "Functions of them are polynomials that are close on an interval.",
        f"Write ckks.math.{name}({arguments}); see help(ckks.math.{name}).",
    )


def division(what: str) -> Callable[..., NoReturn]:
    """A method that raises where an encrypted number divides."""
    return refusal(
        OperandError,
        f"{what}.",
        "Division by numbers and arrays in the clear is a product; by encrypted ones it is "
        "approximated.",
        "Multiply by ckks.math.inverse(x, interval=(a, b)), for x in [a, b] without zero.",
    )


def comparison(name: str) -> Callable[..., NoReturn]:
    """A method that raises, and names the comparison of `ckks.math` to write instead."""
    return refusal(
        TracedValueError,
        "asks whether encrypted numbers are true, or compares them.",
        "Only the owner of the secret key can see them: no branch can depend on them.",
        f"Write ckks.math.{name}(x, y), near 1 or 0 in each slot, and choose with ckks.where; or "
        "decrypt() first.",
    )


def wrong_operand(what: str, other: Any) -> OperandError:
    """The error for an operand beside a ciphertext that is nothing to compute with."""
    remedy = "Pass one of these; a function without a return statement gives None."
    if is_sparse(other):
        remedy = _DENSE
    elif is_no_operand(other) and not isinstance(other, str | bytes | bytearray):
        remedy = "Pass one of these: numbers in place of dates and of missing values."
    return OperandError(
        f"{what} got a ciphertext and {kind_of(other)}.",
        "The other operand is a ciphertext, a plaintext, a number or an array of numbers.",
        remedy,
    )


def operand_text(value: Any) -> str:
    """A number as it was written, and of anything else the class."""
    return f"{value!r:.60}" if isinstance(value, numbers.Number) else kind_of(value)


def power_text(exponent: Any) -> str:
    """The power that is taken, in words."""
    is_encrypted = isinstance(exponent, CiphertextData)
    return "an encrypted power" if is_encrypted else f"the power {operand_text(exponent)}"


no_truth = refusal(
    TracedValueError,
    "asks whether encrypted numbers are true.",
    "Only the owner of the secret key can see them: no branch can depend on them.",
    "Write x & y for `x and y`, x | y for `x or y`, ~x for `not x`. Write ckks.where(condition, a, "
    "b), which computes both, for `a if condition else b`, ckks.math.max(x, y) for max(x, y), "
    "(a < x) & (x < b) for a < x < b, any(x is y for y in items) for `x in items`; or decrypt() "
    "first.",
)
_COMPUTED = "Compute with ct's own operators, methods and ckks.math, and decrypt() the result."
_FILLED = "Fill the masked array that stands on its left: array.filled(0.0) + ct."
_DENSE = (
    "Write matrix.toarray() @ ct, or * and + with matrix.toarray(): the array of its numbers. "
    "Operators of sparse matrices take numbers."
)


def no_value(x: Any = None, dtype: Any = None, **_: Any) -> Any:
    """Refuse to show the numbers, which sparse matrices and masked arrays ask for as well.

    An array of objects holds `x` itself.
    """
    if dtype is not None and np.dtype(dtype).kind == "O":
        array = np.empty((), object)
        array[()] = x
        return array
    module = sys._getframe(1).f_globals.get("__name__", "")
    others = {"scipy.sparse": _DENSE, "numpy.ma": _FILLED}
    do = next((text for name, text in others.items() if module.startswith(name)), _COMPUTED)
    raise TracedValueError(
        f"{user_line()} takes the numbers of a ciphertext, as a NumPy array or a number.",
        "They are encrypted: only the context of their owner gives them, by decrypt().",
        do,
    )


no_item_assignment = refusal(
    OperandError,
    "assigns to slots of a ciphertext.",
    "Ciphertexts never change, so that programs can share them.",
    "Write x = x.mask(m) + values, with m zero where the values go.",
)
no_item_deletion = refusal(
    OperandError,
    "deletes slots of a ciphertext.",
    "Ciphertexts never change, so that programs can share them.",
    "Write ckks.concat([x[:i], x[j:]]), which leaves x[i:j] out.",
)
no_bytes = refusal(
    OperandError,
    "takes the bytes of a ciphertext, as those of an array.",
    "Python's protocols of bytes read numbers in memory, and these are encrypted.",
    "Write ct.to_bytes(), which ckks.Ciphertext.from_bytes reads, or ct.decrypt().tobytes().",
)
no_with = refusal(
    OperandError,
    "enters a ciphertext by `with`.",
    "It holds nothing that has to be closed: its memory is freed with its last name.",
    "Leave `with` out; contexts have one, `with ctx:`.",
)
no_remainder = refusal(
    OperandError,
    "takes a remainder or an integer quotient of encrypted numbers.",
    "Slots hold real or complex numbers, and arithmetic on them is + - * and polynomials.",
    "Write x % number or x // number with a number in the clear; see ckks.math.mod and "
    "ckks.math.round.",
)
no_shift = refusal(
    OperandError,
    "shifts the bits of encrypted numbers.",
    "Slots hold real or complex numbers.",
    "Write x * 2**k for x << k, x * 2.0**-k for x >> k; x.rotate(k) moves slots.",
)
no_rounding = approximation("the nearest integers", "round")


_COLUMN_BY_COLUMN = "np.eye(k)[np.arange(k).reshape(ct.shape).T.ravel()] @ ct.reshape(-1)"


def no_order(order: object, shape: tuple[int, ...]) -> NoReturn:
    """Refuse a reshape in another order than that of the slots."""
    raise OperandError(
        f"{user_line()} calls reshape() with order={order!r}.",
        "Numbers lie in C order in their slots; another order moves them.",
        f"Column by column: {affordable(_COLUMN_BY_COLUMN, shape)}.",
    )


def no_decimals(digits: Any) -> NoReturn:
    """Refuse `round(ct, digits)`, and say how decimals are rounded."""
    factor = factor_of(digits) if isinstance(digits, int) else "10**digits"
    raise OperandError(
        f"{user_line()} rounds encrypted numbers to {digits!r:.20} decimals.",
        "Functions of them are polynomials that are close on an interval: round() gives integers.",
        f"Write {rounded_to(factor)}; see help(ckks.math.round).",
    )


def no_iteration(x: Any) -> Iterator[NoReturn]:
    """Refuse iteration, by a generator that raises at its first step.

    np.concatenate replaces a TypeError of `__iter__` itself.
    """
    raise OperandError(
        f"{user_line()} iterates over a ciphertext.",
        "Its slots are computed on all at once; one by one, each would take a rotation.",
        "Write what is to be done to the whole ct; ckks.unstack(ct) parts a batch, ct[i : i + "
        "1] cuts out one number.",
    )
    yield


no_assignment = frozen(_INSTEAD, "Write x = ... with the result of its operators and methods.")


def formatted(x: Any, spec: str) -> str:
    """The repr; a format of numbers is refused."""
    if not spec:
        return str(x)
    raise TracedValueError(
        f"{user_line()} formats {kind_of(x)} by {spec!r}.",
        "A format is that of a number, and this object is no number.",
        "Format numbers that x.decrypt() gives; f'{x!r:>60}' pads the text of the object itself.",
    )


def made_by(fields: int, remedy: str) -> Callable[..., Any]:
    """The `__new__` of a class that users do not call: it takes at least that many fields."""

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        if len(args) + len(kwargs) < fields:
            raise OperandError(
                f"{user_line()} calls {cls.__name__}() with {len(args) + len(kwargs)} arguments.",
                "A context makes such objects.",
                f"Write {remedy}.",
            )
        return object.__new__(cls)

    return new


# ------------------------------------------------------------------- attributes


def no_attribute(instead: Mapping[str, str]) -> Callable[[Any, str], NoReturn]:
    """The `__getattr__` of a class: a name that it lacks, and what to write instead.

    Names of other libraries are known beside those of `instead`.
    """
    instead = {**IN_OTHERS, **instead}

    def refuse(x: Any, name: str) -> NoReturn:
        if name == "as_integer_ratio" and isinstance(x, CiphertextData):  # module statistics
            no_value()
        if name == "__dataclass_fields__":  # `dataclasses.replace` asks for it, see `undivided`
            raise FrozenError(
                f"{user_line()} replaces fields of {kind_of(x)}.",
                "They say what its polynomials hold: no field can change without them.",
                "Write x.drop_to(level), x.reshape(...), ctx.encrypt(values), ctx.encode(values).",
            )
        is_dlpack = name.startswith("__dlpack")  # NumPy shows the error that it gets for it
        if name.startswith("_") and not is_dlpack:  # a protocol that Python or a library probes for
            raise AttributeError(name, name=name, obj=x)
        own = in_table(x, name) if isinstance(x, CiphertextData) and name in instead else None
        if own is None and name in instead and isinstance(x, CiphertextData):
            own = affordable(instead[name], x.shape)
        known = {**instead, name: own} if own else instead
        raise unknown_attribute(f"{kind_of(x)}", name, dir(x), known)

    return refuse


# ------------------------------------------------------------------- what only products know

BINARY = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow")
BINARY += ("and", "or", "xor", "lshift", "rshift")
_OTHERS = ("neg", "pos", "abs", "invert", "round", "trunc", "floor", "ceil", "lt", "le", "gt", "ge")
_OTHERS += ("float", "int", "complex", "index", "len", "iter", "getitem", "array", "next", "call")
_OTHERS += ("bytes", "buffer", "enter", "exit")


def refuse_arithmetic(
    kind: type, refuse: Callable[..., NoReturn], is_operand: bool = False
) -> None:
    """Let every operator and number protocol that `kind` lacks raise `refuse`.

    Args:
        is_operand: whether a ciphertext on the other side computes by its own operators.
    """

    def unless_encrypted(x: Any, *others: Any, **_: Any) -> Any:
        kinds = (o if isinstance(o, type) else type(o) for group in others for o in _each(group))
        return NotImplemented if any(issubclass(k, CiphertextData) for k in kinds) else refuse()

    def binary(name: str) -> Callable[..., Any]:
        def run(x: Any, other: Any, *_: Any) -> Any:
            is_theirs = is_operand and isinstance(other, CiphertextData)
            return NotImplemented if is_theirs or _computes(other, name) else refuse()

        return run

    protocol = unless_encrypted if is_operand else refuse
    names: dict[str, Any] = {f"__{m}__": binary(m) for m in BINARY}
    names |= dict.fromkeys((f"__r{m}__" for m in BINARY), refuse)
    names |= dict.fromkeys((f"__{m}__" for m in _OTHERS), refuse)
    names |= dict.fromkeys(("__array_ufunc__", "__array_function__"), protocol)
    names |= {"__bool__": lambda x: True, "__format__": formatted}
    names |= {"__jax_array__": jax_protocol(lambda x, name: refuse())}
    for name, method in names.items():
        if name not in vars(kind):
            setattr(kind, name, method)
    refuse_primitives(undivided(kind), lambda x, name: refuse())


def _computes(other: Any, name: str) -> bool:
    """Whether an operand of a foreign class has the reflected operator."""
    home = type(other).__module__.partition(".")[0]
    known = ("builtins", "numpy", "jax", "jaxlib", "ren", "fractions", "decimal")
    return home not in known and hasattr(type(other), f"__r{name}__")


def _each(group: Any) -> Any:
    return group if isinstance(group, tuple | set | frozenset) else (group,)


# ------------------------------------------------------------------- JAX's functions


def jax_protocol(refuse: Callable[[Any, str], NoReturn]) -> property:
    """The attribute `__jax_array__`, which JAX's functions ask for: `refuse(x, name of the call)`.

    It is absent for all others. So it is for the operators of JAX's arrays, which leave an operand
    without it to its reflected operators.
    """

    def get(x: Any) -> NoReturn:
        frame = sys._getframe(1)
        module = frame.f_globals.get("__name__", "")
        if module.startswith("jax.") and not module.endswith(".array_methods"):
            refuse(x, jax_call())
        raise AttributeError("__jax_array__", name="__jax_array__", obj=x)

    return property(get)


def refuse_primitives(kind: type, refuse: Callable[[Any, str], NoReturn]) -> None:
    """The same for JAX's primitives, as under jax.lax, which replace a TypeError by their own."""

    def handler(x: Any) -> NoReturn:
        try:
            refuse(x, jax_call())
        except RenError as error:
            raise ParameterError(error.given, error.needed, error.do) from None

    on_operand(kind, handler)


def jax_call() -> str:
    """The function of JAX that the user called, as `jnp.exp`; empty where there is none."""
    frame, found = sys._getframe(1), ""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("jax."):
            found = _jax_name(module, frame) or found
        elif found and not module.startswith("ren."):
            break
        frame = frame.f_back
    return found


def _jax_name(module: str, frame: FrameType) -> str:
    name = frame.f_code.co_name
    if frame.f_code.co_qualname.startswith("ufunc."):
        ufunc = getattr(frame.f_locals.get("self"), "__name__", "")
        name = ufunc if name == "__call__" else f"{ufunc}.{name}"
    public = (text for prefix, text in _JAX_MODULES.items() if module.startswith(prefix))
    is_inner = name.startswith(("_", "<")) or name == "wrapped"
    is_inner |= module.endswith("numpy.util") and name not in ("size", "shape", "ndim")
    return "" if is_inner else next((f"{text}.{name}" for text in public), "")


_JAX_MODULES = {
    "jax._src.numpy.": "jnp", "jax._src.nn.": "jax.nn", "jax._src.lax.": "jax.lax",
    "jax._src.random": "jax.random", "jax._src.ops.scatter": "jax.ops",
    "jax._src.ops.special": "jax.nn", "jax._src.scipy.special": "jax.scipy.special",
    "jax._src.scipy.stats.norm": "jax.scipy.stats.norm",
    "jax._src.scipy.linalg": "jax.scipy.linalg", "jax._src.scipy.signal": "jax.scipy.signal",
}  # fmt: skip


def no_transformation(x: Any) -> None:
    """Refuse a derivative with respect to `x`, a map over one vector, and `x` as a condition.

    To be called where JAX takes its arguments and results apart.
    """
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in FLATTENING:
        frame = frame.f_back
    refuse_mismatch(frame)
    refuse_collective(frame, "encrypted or encoded numbers")
    refuse_ravel(frame, "encrypted or encoded numbers")
    polys = x.polys if isinstance(x, CiphertextData) else (x.wide,)
    if frame is not None and is_mapping(frame, polys):
        what, several = "a plaintext", "ctx.encode(rows, pack='rows')"
        if isinstance(x, CiphertextData):
            if frame.f_locals.get("in_axes") == 0:
                _check_batch(x)
            what, several = f"a ciphertext of shape {x.shape}", "ckks.stack([x, y])"
            batch = _mapped_axes(x)
        else:
            batch = len(x.wide.shape) - 2 - (x.layout.blocks > 1)
        refuse_axes(x, frame, batch, what, several, is_poly=False)
    if frame is None or frame.f_globals.get("__name__") not in _TRANSFORMING:
        return _check_no_condition(frame)
    name = frame.f_code.co_name
    if name == "infer_params" and frame.f_globals["__name__"] == "jax._src.pmap":
        raise ParameterError(
            f"{user_line()} calls jax.pmap on encrypted or encoded numbers.",
            "It parts the first axis of each array over devices; those of a ciphertext are limbs.",
            "Write jax.vmap(f)(batch), or ren.jit(f, device=NamedSharding(mesh, spec)).",
        )
    if name in _DERIVATIVES:
        raise TracedValueError(
            f"{user_line()} differentiates with respect to encrypted or encoded numbers.",
            "JAX differentiates floats; ciphertexts and plaintexts are integers modulo primes.",
            "Write the derivative as a function of ct, or differentiate in the clear.",
        )
    if frame.f_globals["__name__"] in _BRANCHES:
        _check_no_condition(frame)


def _check_no_condition(frame: FrameType | None) -> None:
    """Raises TracedValueError where `frame` takes the result of the condition of a loop apart."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module in _BRANCHES and frame.f_code.co_qualname == _TRACED:
            if "cond_jaxpr" not in frame.f_locals:
                no_branch("while_loop")
            return
        if not module.startswith("jax."):
            return
        frame = frame.f_back


def no_branch(name: str = "") -> None:
    """Refuse encrypted numbers as a condition of `jax.lax`.

    Args:
        name: the function of JAX. Without it, the one that asks for the shape of its condition.
    """
    if not name:
        frame = sys._getframe(2)
        module = frame.f_globals.get("__name__", "")
        if module not in _BRANCHES:
            return
        name = frame.f_code.co_name.strip("_").removesuffix("_internal")
    raise TracedValueError(
        f"{user_line()} lets encrypted numbers decide in jax.lax.{name}.",
        "Only the owner of the secret key can see them: no branch and no loop can depend on them.",
        "Write ckks.where(condition, a, b), which computes both, for a branch. Write "
        "ckks.while_loop(cond, body, x, max_steps=), a fixed number of masked steps, for a loop.",
    )


_TRACED = "while_loop.<locals>._create_jaxpr"  # the condition of a loop, then its body
_BRANCHES = ("jax._src.lax.control_flow.conditionals", "jax._src.lax.control_flow.loops")


def _mapped_axes(x: CiphertextData) -> int:
    """The number of its batch axes, without that of the blocks that a long vector is cut into."""
    return len(batch_of(x)) - (x.layout.blocks > 1)


def _check_batch(x: CiphertextData) -> None:
    if not _mapped_axes(x):
        raise ParameterError(
            f"{user_line()} calls jax.vmap on a ciphertext of one vector.",
            "It maps over the first batch axis; slots are computed on all at once.",
            "Write f(ct), or stack several: jax.vmap(f) of ckks.stack([x, y]). in_axes=None of "
            "jax.vmap keeps an argument whole.",
        )


_DERIVATIVES = {"grad_f", "value_and_grad_f", "jacfun", "_jvp", "_vjp", "vjp", "linearize"}
_TRANSFORMING = ("jax._src.api", "jax._src.pmap", "jax._src.lax.control_flow.loops")
