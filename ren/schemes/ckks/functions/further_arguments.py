"""The code to write for arguments of NumPy's functions that no method of a Ciphertext takes."""

from __future__ import annotations

import inspect
import opcode
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from ren.core.errors import OperandError
from ren.core.user_frame import user_line
from ren.schemes.ckks.encoding.advice import factor_of, instead_of, rounded_to
from ren.schemes.ckks.encoding.table_advice import in_table

_WHERE = "np.sum(ct{rest}, where=mask) / np.sum(mask{rest})"
_DISTANCE = f"np.sum(d * d{{rest}}, where=mask) / np.sum(mask{{rest}}), with d = ct - {_WHERE}"
_STD = "ckks.stats.std(ct{rest}, ddof={ddof}, interval=(a, b))"
_IN_ORDER = "(np.eye(k)[{0}.ravel()] @ ct.reshape(-1)){1}, with k = ct.size"

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
    rest = ", ".join(
        f"{key}={given[key]!r:.20}" for key in _TAKEN if key in given and (key in own or not own)
    )
    values = {key: _shown(key, value) for key, value in given.items()}
    values |= {"rest": f", {rest}" if rest else "", "first": f"{rest}, " if rest else ""}
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
        code = f"ct.{name}({rest})" if name in _METHODS else f"np.{name}(ct{values['rest']})"
        codes |= {"out": f"z = {code}", "dtype": f"ckks.typed({code}, dtype)"}
    _refuse(name, {key: given[key] for key in further}, codes, code, str(taken or ""))


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
    """An integer, or the name of the argument: the error shows no other numbers."""
    return str(value) if isinstance(value, int | np.integer) else name


def _refuse(
    name: str, given: Mapping[str, Any], codes: Mapping[str, str], code: str, taken: str
) -> NoReturn:
    """Raise the error for arguments: `codes` by their names, else `code`, which leaves them out."""
    names = ", ".join(f"{key}=" for key in given)
    write = list(dict.fromkeys(codes[key] for key in given if key in codes))
    do = f"Write {'; '.join(write)}." if write else ""
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
