"""Calls of public functions: errors for arguments that they do not have, or without some.

A call of what is deprecated warns.
"""

from __future__ import annotations

import difflib
import functools
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, Signature, getattr_static, signature
from types import FunctionType
from typing import Any, TypeVar

from ren.core.errors import OperandError, ParameterError, RenError
from ren.core.user_frame import user_line, warn_user
from ren.lowering.runtime.host_arrays import own_errors

KindT = TypeVar("KindT", bound=type)
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
Advice = Mapping[str, str]  # by "name", or by "function.name" for one function alone
_COUNTS = r"takes (?:from )?(\d+ to )?(\d+) positional arguments? but (\d+) w\w+ given(.*)"
_MARK = "__ren_checked__"
# What Python says of integers that it does not write, or that machine types do not hold.
_OF_INTEGERS = re.compile(r"Exceeds the limit|.*int too (large|big) to convert|cannot fit 'int'")


def checked_call(
    called: str, function: Callable[..., Any], instead: Advice, *, page: str = "", more: str = ""
) -> Callable[..., Any]:
    """A function that raises OperandError where its arguments are not those of `function`.

    Python's own TypeError is replaced where the arguments do not fit the signature. Any other error
    passes unchanged. Signature, docstring, module and name are those of `function`.

    Args:
        called: the function as errors name it.
        function: a function or a method, whose first argument is then `self` or `cls`.
        instead: for arguments of other libraries by their names, words that say what to write. For
            arguments that are missing, by "+" and their names, an example.
        page: the name for `help`, of a method; `called` of a function.
        more: what is said at the end if it has one of the arguments, as `dtype=`. It is said too
            if an argument follows the axis.
    """

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            with own_errors():
                return function(*args, **kwargs)
        except (ValueError, OverflowError) as error:
            if isinstance(error, RenError) or not _OF_INTEGERS.match(str(error)):
                raise
            raise ParameterError(
                f"{user_line()} calls {called}() with an integer that is too large for it.",
                "It has more digits than Python writes, or than a float or a size can have.",
                "Pass a smaller one.",
            ) from None
        except TypeError as error:
            if isinstance(error, RenError):
                raise
            full = signature(function)
            try:
                full.bind(*args, **kwargs)
            except TypeError as unbound:
                told = _told(error, bool(page)) or str(unbound)
            else:
                raise
            parameters = list(full.parameters.values())[bool(page) :]
            own = Signature([p.replace(annotation=p.empty) for p in parameters])
            given = len(args) - bool(page)
            advice = dict.fromkeys(_advice(called, parameters, given, kwargs, instead))
            is_told = any(f"{name}=" in more for name in kwargs)
            is_told |= "axis" in full.parameters and given > 1  # NumPy's next argument is dtype
            raise OperandError(
                f"{user_line()} calls {called}() with other arguments than it has: it {told}.",
                f"Its arguments are {own}.",
                " ".join([*advice, f"See help({page or called}).", *([more] if is_told else [])]),
            ) from None

    setattr(run, _MARK, True)
    return run


def _told(error: TypeError, is_method: bool) -> str:
    """Python's words on the arguments, without the function, its own advice, and `self`."""
    told = str(error).partition("() ")[2].partition(". Did you mean")[0]
    if is_method and (counts := re.fullmatch(_COUNTS, told)):
        before, takes, given, after = counts.groups()
        most, count = int(takes) - 1, int(given) - 1
        least = f"from {int(before[:-4]) - 1} to " if before else ""
        words = f"positional argument{'s' * (most != 1 or bool(least))}"
        verb = "was" if count == 1 else "were"
        told = f"takes {least}{most} {words} but {count} {verb} given{after}"
    return f"is {told}" if told.startswith("missing") else told


def _advice(
    called: str, parameters: list[Parameter], given: int, kwargs: Iterable[str], instead: Advice
) -> Iterable[str]:
    """Words for each argument that is unknown, and for those that are missing."""
    if given < 0:
        yield f"Call it on an object: x.{called}(...)."
    last = called.rpartition(".")[2]
    known = [p.name for p in parameters if p.kind in _NAMED]
    for name in sorted(set(kwargs) - set(known)):
        own = instead.get(f"{last}.{name}", instead.get(name))
        if own and (written := _WRITTEN.match(own)) and written[1] not in known:
            own = None  # an argument of other functions
        close = difflib.get_close_matches(name, known, n=1)
        is_slip = bool(difflib.get_close_matches(name, known, n=1, cutoff=_SLIP))
        if own is not None and not is_slip:
            yield own
        elif close:
            yield f"Perhaps you mean {close[0]}=."
    passed = {p.name for p in parameters[: max(given, 0)] if p.kind in _BY_PLACE}.union(kwargs)
    required = [p.name for p in parameters if p.kind in _REQUIRED and p.default is p.empty]
    if missing := [name for name in required if name not in passed]:
        yield f"Pass {', '.join(instead.get(f'+{name}', name) for name in missing)}."


_WRITTEN = re.compile(r"Write (\w+)=(?! of )")
_SLIP = 0.9  # from here on one letter is too much, or missing
_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_REQUIRED = (*_BY_PLACE, Parameter.KEYWORD_ONLY)


def check_functions(
    names: dict[str, Any], listed: Iterable[str], prefix: str, instead: Advice
) -> None:
    """Replace the public functions of a module by those of `checked_call`.

    Each takes the place of the function in the module of its definition too, and in its packages.
    So pickle finds it there, and a function that two modules list is one object.

    Args:
        names: the module's `globals()`.
        listed: its public names; what is not a function stays as it is.
        prefix: the module as users write it.
        instead: as for `checked_call`.
    """
    listed = [name for name in listed if isinstance(names.get(name), FunctionType)]
    for name in sorted(listed, key=lambda name: names[name].__name__ != name):  # aliases last
        function = names[name]
        if hasattr(function, _MARK):
            continue
        homes = [vars(sys.modules[home]) for home in _with_packages(function.__module__)]
        there = homes[0].get(function.__name__)
        if getattr(there, "__wrapped__", None) is function and hasattr(there, _MARK):
            names[name] = there
            continue
        names[name] = checked_call(f"{prefix}.{name}", function, instead)
        for home in homes:
            if home.get(function.__name__) is function:
                home[function.__name__] = names[name]


def _with_packages(module: str) -> list[str]:
    """A module and the packages that it is in, from the inside."""
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]


def check_methods(
    kind: KindT,
    page: str,
    instead: Advice,
    *,
    more: str = "",
    leave: Iterable[str] = (),
    operators: str = "",
    inherited: Iterable[str] = (),
) -> KindT:
    """Replace the public methods of a class, static ones included, by those of `checked_call`.

    Args:
        kind: the class.
        page: the class as users write it.
        instead, more: as for `checked_call`.
        leave: methods that stay as they are.
        operators: names of methods of operators, without underscores, which are replaced too.
        inherited: methods of a base that the class gets as its own.
    """
    methods = {**vars(kind), **{name: getattr_static(kind, name) for name in inherited}}
    for name, held in methods.items():
        is_public = not name.startswith("_") and name not in leave
        is_public |= name[2:-2] in operators.split()
        if is_public and isinstance(held, FunctionType):
            set_to: Any = checked_call(name, held, instead, page=f"{page}.{name}", more=more)
        elif is_public and isinstance(held, classmethod):
            inner = held.__func__
            set_to = checked_call(name, inner, instead, page=f"{page}.{name}", more=more)
            set_to = classmethod(set_to)
        elif is_public and isinstance(held, staticmethod):
            called = f"{page}.{name}"
            set_to = staticmethod(checked_call(called, held.__func__, instead, more=more))
        else:
            continue
        setattr(kind, name, set_to)
    return kind


def check_constructor(kind: KindT, called: str, instead: Advice) -> KindT:
    """Replace the `__init__` of a class by that of `checked_call`."""
    made = checked_call(called, vars(kind)["__init__"], instead, page=called)
    setattr(kind, "__init__", made)  # noqa: B010 - type checkers see the signature of the class
    return kind


def deprecated(since: str, instead: str, argument: str = "") -> Callable[[FunctionT], FunctionT]:
    """Return a decorator for a function or a method, or for one argument of it, that is deprecated.

    A call warns at the user's line, and then runs as before. For an argument only calls that pass
    it warn, by its name or its position.

    Args:
        since: the version that deprecated it, such as "0.2".
        instead: code that the caller writes in place of it.
        argument: the name of the deprecated argument; empty where the function itself is.

    Warns:
        DeprecationWarning: at each line of the user's code that calls it.

    Example:
        >>> @deprecated("0.2", "total(x)")
        ... def add_up(x):
        ...     return sum(x)
    """

    def decorate(function: Any) -> Any:
        place = list(signature(function).parameters).index(argument) if argument else 0
        what = f"{argument}= of {function.__qualname__}()" if argument else function.__qualname__

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if not argument or argument in kwargs or len(args) > place:
                text = f"{what} is deprecated since Ren {since}. Write {instead}."
                warn_user(text, DeprecationWarning)
            return function(*args, **kwargs)

        return run

    return decorate
