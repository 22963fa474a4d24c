"""Settings: `ren.config`, read once from the environment and changed at run time.

Every layer but core reads settings, so this module stands right above core. It is the only one that
reads the environment. An environment variable with a bad value costs one warning.

Example:
    >>> import ren
    >>> with ren.config.update(jit_speculate=False):
    ...     ren.config.jit_speculate
    False
"""

from __future__ import annotations

import difflib
import logging
import operator
import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from ren.core import html
from ren.core.errors import SettingError, UnknownSettingError, shown
from ren.core.text_table import columns

TIERS = ("eager", "units", "graph", "auto")

_SECOND = 1_000_000_000
_WORDS = {  # of switches in the environment
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
    "auto": "auto",
}


@attrs.frozen
class Setting:
    """One setting.

    Attributes:
        default: its value where nothing else is said.
        check: gives the value to store, or raises TypeError or ValueError.
        needed: which values it can have, as a sentence.
        meaning: what it does, in a few words.
        name: the attribute of `ren.config`.
    """

    default: Any
    check: Callable[[Any], Any]
    needed: str
    meaning: str
    name: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        object.__setattr__(self, "name", name)

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"REN_{self.name.upper()}"

    def parsed(self, text: str) -> Any:
        """The value that the text of the environment variable stands for."""
        text = text.strip()
        if self.check in (_bool, _auto_switch):
            return self.check(_WORDS.get(text.lower(), text))
        kind = type(self.default)
        return self.check(kind(text) if kind in (int, float) else text)

    def checked(self, value: object) -> Any:
        """`value` as it is stored.

        Raises:
            SettingError: the setting cannot have it.
        """
        try:
            return self.check(value)
        except (TypeError, ValueError, OSError):
            raise SettingError(
                f"ren.config.{self.name} got {shown(value)}.",
                f"It is {self.needed}.",
                f"The default is {self.default!r}.",
            ) from None


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _count(least: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        number = operator.index(value)
        if isinstance(value, bool) or number < least:
            raise ValueError
        return number

    return check


def _positive(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool | str) or not 0 < number < float("inf"):
        raise ValueError
    return number


def _tier(value: Any) -> str:
    if value not in TIERS:
        raise ValueError
    return value


def _auto_switch(value: Any) -> bool | str:
    return value if isinstance(value, str) and value == "auto" else _bool(value)


def _folder(value: Any) -> str | None:
    """An absolute path, of which "~" is the user's home; "off" in any case of its letters."""
    path = os.path.expanduser(os.fspath(value)) if value is not None else ""
    if path.lower() == "off":
        return "off"
    return os.path.abspath(path) if path else None


# Rows of `Config`, typed as the values of its instances are.


def _setting(default: Any, check: Callable[[Any], Any], needed: str, meaning: str) -> Any:
    return Setting(default, check, needed, meaning)


def _switch(default: bool, meaning: str) -> bool:
    return _setting(
        default,
        _bool,
        "True or False (in the environment 1, 0, true, false, yes, no, on, off)",
        meaning,
    )


def _auto(meaning: str) -> bool | str:
    words = "in the environment auto, 1, 0, true, false, yes, no, on, off"
    needed = f'True, False or "auto" ({words})'
    return _setting("auto", _auto_switch, needed, meaning)


def _number(default: int, meaning: str, least: int = 0) -> int:
    return _setting(default, _count(least), f"an integer >= {least}", meaning)


# What other systems have and Ren has not, and why.
_ABSENT = {
    name: "Residues are exact in every tier and kernel: no faster mode could give anything up."
    for name in ("fast_math", "fastmath", "simd_math", "approximate", "precision")
}
# The flags that XLA is started with, which the names of plans on disk depend on.
XLA_FLAGS = os.environ.get("XLA_FLAGS", "")
# The C++ compiler of native kernels, with arguments if it takes any; empty for the first on PATH.
CXX = os.environ.get("CXX", "")
# More flags for that compiler, for sanitizers and debug builds of native kernels.
NATIVE_FLAGS = os.environ.get("REN_NATIVE_FLAGS", "")
# Pairs of which the first may not be greater than the second.
_ORDERED = (
    ("compile_cooldown_base_ns", "compile_cooldown_max_ns"),
    ("cache_flush_min", "cache_flush_max"),
)


class Config:
    """The settings. Read and assign attributes, or change several with `update`; prints as a table.

    An assignment takes effect at once, in every thread. Values are checked.

    Raises:
        SettingError: a value that a setting cannot have.
        UnknownSettingError: no such setting.
    """

    jit = _switch(True, "ren.jit captures once and replays; without it, each call captures")
    jit_log = _switch(False, "log to stderr what ren.jit does")
    jit_log_ns = _number(0, "log calls of ren.jit that take at least so long; 0 logs none")
    jit_tier: str = _setting("auto", _tier, f"one of {', '.join(map(repr, TIERS))}",
        'how plans with tier="auto" run; "auto" decides by measuring')  # fmt: skip
    jit_speculate = _switch(True, "tier auto compiles graphs in the background; off under CI")
    jit_speculate_after_ns = _number(20_000_000, "time in a plan before auto may compile it")
    compile_budget_ns = _number(30 * _SECOND, "background compiling allowed in each window")
    compile_window_ns = _number(60 * _SECOND, "the window of the compile budget", 1)
    compile_cooldown_base_ns = _number(5 * _SECOND, "wait after the first failure of a tier")
    compile_cooldown_max_ns = _number(600 * _SECOND, "the longest wait; it doubles up to here")
    rearm_interval_ns = _number(60 * _SECOND, "time before a choice of tier is revisited")
    rearm_min_samples = _number(8, "timed calls since the choice that this needs", 1)
    rearm_max_volatility: float = _setting(0.25, _positive, "a number > 0",
        "their deviation over their mean that it allows")  # fmt: skip
    rearm_min_observed_ns = _number(0, "their mean time that this needs at least")
    native = _auto('kernels in C++ on CPUs, built at first use; "auto" where that works')
    cache_dir: str | None = _setting(
        None, _folder, 'a path, None for the user\'s cache folder, or "off"',
        'where compiled kernels and telemetry are kept; "off" keeps none')  # fmt: skip
    cache_ttl_s = _number(30 * 86_400, "age at which an entry of the cache goes")
    cache_max_entries = _number(4096, "plans that the cache remembers", 1)
    cache_refresh_s = _number(86_400, "age at which an entry that says the same is written again")
    cache_flush_min = _number(8, "plans that are new are written when they are so many", 1)
    cache_flush_max = _number(64, "entries, new or not, are written when they are so many", 1)
    check_memory = _switch(True, "OutOfMemoryError where a run is planned at more than is free")
    submit_workers = _number(0, "calls of ren.submit at a time; 0 for as many as processors")
    submit_max_waiting = _number(1024, "calls that wait before ren.submit itself waits", 1)
    progress = _auto('bars for what takes seconds, by tqdm; "auto" in notebooks and on terminals')
    _lock: threading.RLock

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        values = _from_environment(os.environ if environment is None else environment)
        self.__dict__.update(values, _lock=threading.RLock())
        if values["jit_log"]:
            _log_to_stderr(True)

    def update(self, **values: object) -> Restore:
        """Sets several settings at once, or, when one is wrong, none.

        Returns:
            A context manager, which need not be used: on leaving it, these settings are as before.
        """
        checked = {name: _named(name).checked(value) for name, value in values.items()}
        with self._lock:
            _check_order({**self.__dict__, **checked}, checked)
            before = {name: self.__dict__[name] for name in checked}
            self.__dict__.update(checked)
            if checked.get("jit_log", before.get("jit_log")) != before.get("jit_log"):
                _log_to_stderr(self.jit_log)
        return Restore(self, before)

    def __setattr__(self, name: str, value: object) -> None:
        self.update(**{name: value})

    def __delattr__(self, name: str) -> None:
        self.update(**{name: _named(name).default})

    if not TYPE_CHECKING:  # type checkers know the names

        def __getattr__(self, name: str) -> Any:  # reached for unknown names alone
            if name.startswith("__"):
                raise AttributeError(name)
            return _named(name)

    def __dir__(self) -> list[str]:
        return [*_BY_NAME, "update"]

    def __str__(self) -> str:
        return columns(self._rows(), left=range(4))

    def _repr_html_(self) -> str:
        return html.card("ren.config", html.table(self._rows(), left=range(4)))

    def _rows(self) -> list[tuple[str, ...]]:
        values = ((s, repr(getattr(self, s.name))) for s in SETTINGS)
        rows = [(s.name, value, s.variable, s.meaning) for s, value in values]
        return [("setting", "value", "variable", "meaning"), *rows]

    def __repr__(self) -> str:
        changed = [s.name for s in SETTINGS if getattr(self, s.name) != s.default]
        given = ", ".join(f"{name}={getattr(self, name)!r}" for name in changed)
        return f"<ren.config: {given or 'all defaults'}>"


class Restore:
    """Result of `ren.config.update`: a context manager that restores the changed settings."""

    def __init__(self, config: Config, before: dict[str, Any]) -> None:
        self._config, self._before = config, before

    def __enter__(self) -> Config:
        return self._config

    def __exit__(self, *_: object) -> None:
        self._config.update(**self._before)


SETTINGS = tuple(s for s in vars(Config).values() if isinstance(s, Setting))
_BY_NAME = {setting.name: setting for setting in SETTINGS}


def _named(name: str) -> Setting:
    found = _BY_NAME.get(name)
    if found is not None:
        return found
    if name in _ABSENT:
        raise UnknownSettingError(
            f"ren.config has no setting {name!r}.", _ABSENT[name], "Leave it out."
        )
    near = difflib.get_close_matches(name, _BY_NAME, 1)
    raise UnknownSettingError(
        f"ren.config has no setting {name!r}.",
        "print(ren.config) lists them all.",
        f"Perhaps you mean {near[0]!r}." if near else "Pass one of these names.",
    )


def _check_order(values: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    for low, high in _disordered(values):
        wrong = low if low in given else high
        raise SettingError(
            f"ren.config.{wrong} got {values[wrong]!r}.",
            f"{low} is at most {high}; they would be {values[low]!r} and {values[high]!r}.",
            f"Set both at once: ren.config.update({low}=..., {high}=...).",
        )


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values = {setting.name: setting.default for setting in SETTINGS}
    if _WORDS.get(environment.get("CI", "").strip().lower()) is True:
        values["jit_speculate"] = False
    for setting in SETTINGS:
        text = environment.get(setting.variable)
        if text is None:
            continue
        try:
            values[setting.name] = setting.parsed(text)
        except (TypeError, ValueError, OSError):
            _ignored(f"{setting.variable}={text!r}", setting.needed, values[setting.name])
    for pair in _disordered(values):
        both = [_BY_NAME[name] for name in pair]
        values.update({setting.name: setting.default for setting in both})
        names = " and ".join(setting.variable for setting in both)
        _ignored(names, "the first at most the second", [s.default for s in both])
    return values


def _disordered(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(low, high) for low, high in _ORDERED if values[low] > values[high]]


def _ignored(given: str, needed: str, kept: object) -> None:
    message = f"Ren ignores {given} of the environment. It must be {needed}. {kept!r} stays."
    warnings.warn(message, RuntimeWarning, stacklevel=2)


class _ToStderr(logging.StreamHandler):
    """A handler that writes to what `sys.stderr` is at that moment."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter("ren: %(message)s"))
        self.level_before = logging.NOTSET

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


# The one handler that `jit_log` puts on the logger "ren" and takes off again.
_handler = _ToStderr()


def _log_to_stderr(on: bool) -> None:
    logger = logging.getLogger("ren")
    if on:
        _handler.level_before = logger.level
        logger.addHandler(_handler)
        logger.setLevel(min(logger.level or logging.INFO, logging.INFO))
    else:
        logger.removeHandler(_handler)
        logger.setLevel(_handler.level_before)


config = Config()
