"""The library of native kernels in this process: built or read, checked, loaded, registered, once.

Whatever goes wrong, XLA runs what the library would; one line of the logger "ren" says why.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

import attrs
import jax
from jax.extend.backend import backends

from ren.config import config
from ren.core.errors import NativeError
from ren.lowering.backends.native import build, self_check
from ren.lowering.backends.native.build import BuildError
from ren.lowering.backends.native.hashing import Functions
from ren.lowering.backends.native.loading import loaded
from ren.lowering.backends.native.overrides import OVERRIDES, PLAN, PLATFORM, has_override, target
from ren.lowering.backends.xla.forking import is_forked
from ren.lowering.program.kernel import Program
from ren.lowering.storage import executable_store as disk

_log = logging.getLogger("ren")


@attrs.frozen
class Outcome:
    """Outcome of loading: the name of the library, or the reason why there is none."""

    name: str = ""
    reason: str = ""


# The outcome in this process, and by name the libraries whose kernels are registered with XLA,
# which drops none.
_outcome: Outcome | None = None
_registered: dict[str, Functions] = {}
_lock = threading.Lock()


def library_for(programs: Iterable[Program]) -> str:
    """The name of the library whose kernels replace XLA's in some programs; empty for none.

    It is empty too where JAX sees devices that are no CPU: XLA runs everything there.

    The name is part of the kernels' names in XLA, and of all keys of what calls them.
    The first time, this takes as long as the compiler does.

    Raises:
        NativeError: there is none, and `ren.config.native` is True.
    """
    return _name() if config.native and any(map(has_override, programs)) else ""


def functions() -> Functions | None:
    """Functions of the library that the host calls; None where `library_for` names none.

    Raises:
        NativeError: as there.
    """
    return _registered.get(_name()) if config.native else None


def _name() -> str:
    if set(backends()) != {PLATFORM}:  # one program serves all platforms, with one set of tables
        return ""
    found = outcome()
    if found.reason and config.native is True:
        raise NativeError(
            f"There are no native kernels: {found.reason}.",
            "ren.config.native is True (REN_NATIVE=1), which forbids to run without them.",
            'Set it to "auto", or install a C++ compiler (g++ or clang++).',
        )
    return found.name


def outcome() -> Outcome:
    """Outcome of loading the library; it is loaded now if it was not."""
    global _outcome
    found = _outcome
    if found is None and is_forked():  # its check would wait for JAX's threads
        return Outcome(reason="this process was forked after JAX had started")
    if found is None:
        with _lock:
            found = _outcome = _outcome or _loaded()
    return found


def _loaded() -> Outcome:
    try:
        return Outcome(_load())
    except Exception as error:  # a compiler, a loader and a runtime that are not ours
        reason = str(error) if isinstance(error, BuildError) else disk.first_line(error)
        _log.warning("No native kernels, XLA runs everything: %s.", reason)
        return Outcome(reason=reason)


def _load() -> str:
    compiler = build.compiler()
    key = build.key(compiler)
    name = key[:16]
    store = disk.store("native")
    kept = None if store is None else store.read(key)
    body = build.library(compiler) if kept is None else kept
    if name not in _registered:
        _registered[name] = _register(body, name)
    if kept is None:
        self_check.check(name)
        self_check.check_functions(_registered[name])
        if store is not None:
            store.write(key, body)
    return name


def _register(body: bytes, name: str) -> Functions:
    handlers = loaded(body)
    for handler in (*(override.handler for override in OVERRIDES.values()), PLAN):
        jax.ffi.register_ffi_target(
            target(name, handler),
            jax.ffi.pycapsule(getattr(handlers, handler)),
            platform=PLATFORM,
        )
    return Functions(handlers)
