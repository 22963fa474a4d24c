"""The code to write for arguments of NumPy's functions that no method of a Ciphertext takes."""

from __future__ import annotations

import inspect
import opcode
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import numpy as np

from ren.core.errors import OperandError
from ren.core.user_frame import user_line
from ren.schemes.ckks.arithmetic.shapes import batch_axes
from ren.schemes.ckks.encoding.advice import factor_of, instead_of, rounded_to
from ren.schemes.ckks.encoding.ciphertext_data import CiphertextData
from ren.schemes.ckks.encoding.table_advice import affordable, in_table

_WHERE = "np.sum(ct{rest}, where=mask) / np.sum(mask{rest})"
_DISTANCE = f"np.sum(d * d{{rest}}, where=mask) / np.sum(mask{{rest}}), with d = ct - {_WHERE}"
_STD = "ckks.stats.std(ct{rest}, ddof={ddof}, interval=(a, b))"
_IN_ORDER = "(np.eye(k)[{0}.ravel()] @ {{vector}}){1}, with k = ct.size"

# By function and argument. Names in braces are the integers that were given; `rest` is what the
# method takes too, `axis=0` for example.
_CODE: dict[str, dict[str, str]] = {
    "sum": {"initial": "np.sum(ct{rest}) + initial"},
    "nansum": {"initial": "np.sum(ct{rest}) + initial", "where": "np.sum(ct{rest}, where=mask)"},
    "mean": {"where": _WHERE}, "nanmean": {"where": _WHERE},
    "var": {"correction": "ct.var({first}ddof={correction})", "where": _DISTANCE},
    "nanvar": {"correction": "ct.var({first}ddof={correction})", "where": _DISTANCE},
    "std": {"ddof": _STD, "correction": _STD.replace("{ddof}", "{correction}")},
    "nanstd": {"ddof": _STD, "correction": _STD.replace("{ddof}", "{correction}")},
    "average": {
        "keepdims": "np.mean(ct{rest}, keepdims=True)",
        "returned": "np.mean(ct{rest}); the weights add up to the count of the numbers",
    },
    "any": {"keepdims": "np.any(ct{rest}) + np.zeros(shape)"},
    "all": {"keepdims": "np.all(ct{rest}) + np.zeros(shape)"},
    "convolve": {
        "mode": "ckks.conv1d(ct, kernel[::-1]) for mode='valid', ckks.conv1d(ct, kernel[::-1], "
        "padding=len(kernel) // 2) for mode='same' and an odd number of weights",
    },
    "correlate": {"mode": "ckks.conv1d(ct, np.conj(kernel), padding=len(kernel) - 1), mode='full'"},
    "reshape": {
        "order": _IN_ORDER.format(
            "np.reshape(np.arange(k).reshape(ct.shape), shape, order='F')", ".reshape(shape)"
        ),
    },
    "ravel": {"order": _IN_ORDER.format("np.arange(k).reshape(ct.shape).T", "")},
}  # fmt: skip
_METHODS = ("sum", "mean", "var", "cumsum", "any", "all")
_TAKEN = ("axis", "keepdims")  # by methods as well
_DROPPED = ("dtype", "out", "where", "initial", "casting", "order", "subok", "keepdims")


def inplace_operator() -> bool:
    """Whether the caller of the calling function runs `a += b` or another such statement.

    NumPy calls np.add(a, b, out=(a,)) for it, as a user may. The instruction tells them apart.
    """
    frame = sys._getframe(2)
    code, place = frame.f_code.co_code, frame.f_lasti
    return code[place] == _BINARY_OP and code[place + 1] in _INPLACE


_BINARY_OP = opcode.opmap["BINARY_OP"]
_INPLACE = range(13, 26)  # NB_INPLACE_ADD to NB_INPLACE_XOR of CPython


def refuse_ufunc_arguments(name: str, ufunc: np.ufunc, given: Mapping[str, Any]) -> NoReturn:
    """Refuse arguments of an element-wise function other than its operands.

    Args:
        name: of the function.
        ufunc: the function.
        given: the arguments by their names.
    """
    operands = ", ".join("xy"[: ufunc.nin])
    code = (instead_of("np", name) or "") if name in _SYMBOLIC else f"np.{name}({operands})"
    codes = {
        "out": f"z = {code}", "where": f"ckks.where(mask, {code}, otherwise)",
        "dtype": f"ckks.typed({code}, dtype)",
    }  # fmt: skip
    _refuse(name, given, codes, code, f"({operands})")


_SYMBOLIC = ("add", "subtract", "multiply", "negative", "square")


def left_out(text: str, given: Iterable[str]) -> str:
    """A sentence on the arguments that were given and that the code of an error does not have."""
    left = [f"{key}=" for key in given if not re.search(rf"\b{key}\b", text)]
    return f" That leaves out {', '.join(left)}." if left else ""


def optional(function: Callable[..., Any], given: Iterable[str]) -> list[str]:
    """Those of these arguments of a function of NumPy that may be left out."""
    try:
        known = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return list(given)
    is_optional = {name for name, p in known.items() if p.default is not p.empty}
    return [name for name in given if name not in known or name in is_optional]


def further_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call of a function of NumPy by their names, without those by default."""
    try:
        signature = inspect.signature(function)
        given = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # some have no signature
        return dict(kwargs)
    defaults = {name: p.default for name, p in signature.parameters.items()}
    return {name: value for name, value in given.items() if value is not defaults[name]}


def refuse_arguments(
    name: str, x: Any, given: Mapping[str, Any], taken: inspect.Signature | None = None
) -> None:
    """Refuse arguments of a function of NumPy that have no counterpart; say what to write.

    Args:
        name: of the function.
        x: the ciphertext.
        given: the arguments by their names.
        taken: the arguments of a function that is refused for others alone.

    It returns where `given` has nothing to tell.
    """
    own = () if taken is None else tuple(taken.parameters)
    values = {key: _shown(key, value) for key, value in given.items()}
    kept = [key for key in own[1:] if key in given]
    taken_too = [key for key in kept if key in (*_TAKEN, "where")] if own else _TAKEN
    rest = ", ".join(f"{key}={values[key]}" for key in taken_too if key in given)
    values |= {"rest": f", {rest}" if rest else "", "first": f"{rest}, " if rest else ""}
    is_batch = isinstance(x, CiphertextData) and bool(batch_axes(x))
    values["vector"] = "ckks.concat(ckks.unstack(ct))" if is_batch else "ct.reshape(-1)"
    codes = {key: text.format_map(values) for key, text in _CODE.get(name, {}).items()
             if key in given}  # fmt: skip
    if name in ("round", "around") and isinstance(given.get("decimals"), int | np.integer):
        codes["decimals"] = rounded_to(factor_of(int(given["decimals"])))
    if name == "diff" and (code := _difference(x, given)):
        codes.update(dict.fromkeys(("n", "prepend", "append"), code))
    further = [key for key in given if key not in own and (key in codes or key in _DROPPED)]
    further = [key for key in further if taken is not None or key != "keepdims" or key in codes]
    if not further or name.endswith("_like"):
        return
    if taken is None:
        code = in_table(x, name) or instead_of("np", name) or f"np.{name}(ct)"
        codes.setdefault("dtype", f"{code}; then ckks.typed(ct, dtype) for the type")
    else:
        passed = [f"{key}={values[key]}" for key in kept]
        code = f"ct.{name}({', '.join(passed)})"
        code = code if name in _METHODS else f"np.{name}({', '.join(['ct', *passed])})"
        codes |= {"out": f"z = {code}", "dtype": f"ckks.typed({code}, dtype)"}
    codes = {key: affordable(text, x.shape) for key, text in codes.items()}
    _refuse(name, {key: given[key] for key in further}, codes, code, str(taken or ""), kept)


def _difference(x: Any, given: Mapping[str, Any]) -> str:
    """The code for np.diff of a vector with these arguments: a matrix, and what the ends add."""
    if len(x.shape) != 1 or not {"n", "prepend", "append"} & given.keys():
        return ""
    count = f", n={given['n']}" if isinstance(given.get("n"), int | np.integer) else ""
    ends = [key for key in ("prepend", "append") if key in given]
    zeros = "".join(f", {key}=0" for key in ends)
    added = "".join(f", {key}={key}" for key in ends)
    matrix = f"np.diff(np.eye(k){count}, axis=0{zeros}) @ ct"
    return f"{matrix} + np.diff(np.zeros(k){count}{added})" * bool(ends) or matrix


def _shown(name: str, value: Any) -> str:
    """Integers, or the name of the argument: the error shows no other numbers."""
    parts = value if isinstance(value, tuple) else (value,)
    return str(value) if all(isinstance(part, int | np.integer) for part in parts) else name


def _refuse(
    name: str,
    given: Mapping[str, Any],
    codes: Mapping[str, str],
    code: str,
    taken: str,
    others: Iterable[str] = (),
) -> NoReturn:
    """Raise the error for arguments: `codes` by their names, else `code`, which leaves them out.

    Args:
        name: of the function.
        given: the arguments that are refused, by their names.
        codes: what to write for some of them.
        code: the call without them.
        taken: the signature of what is taken; empty where nothing is.
        others: names of arguments that were given too.
    """
    names = ", ".join(f"{key}=" for key in given)
    write = list(dict.fromkeys(codes[key] for key in given if key in codes))
    do = f"Write {'; '.join(write)}." if write else ""
    do += left_out(do, others) if write else ""
    if left := [f"{key}=" for key in given if key not in codes]:
        do = f"{do} Nothing gives {', '.join(left)} of a ciphertext: leave it out, {code}.".strip()
    if "out" in given:
        do += " A ciphertext never changes, and an array holds no encrypted numbers."
    raise OperandError(
        f"{user_line()} calls np.{name} on a ciphertext, with {names}.",
        f"Of a ciphertext its arguments are {taken}."
        if taken
        else "It computes on numbers, and these are encrypted.",
        do,
    )
