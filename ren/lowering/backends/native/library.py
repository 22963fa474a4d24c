"""The native library in this process: built or read, checked, loaded, registered, once.

Whatever goes wrong, XLA runs what the library would; one line of the logger "ren" says why.
"""

from __future__ import annotations

import logging
import sys
import threading
import time

import attrs
import jax
from jax.extend.backend import backends

from ren.config import config
from ren.core.errors import NativeError
from ren.core.user_frame import is_of_user
from ren.lowering.backends.native import build, self_check
from ren.lowering.backends.native.build import BuildError
from ren.lowering.backends.native.ffi_call import HANDLER, PLATFORM, handler_name
from ren.lowering.backends.native.hashing import Functions
from ren.lowering.backends.native.loading import loaded
from ren.lowering.backends.xla.jax_runtime import is_forked
from ren.lowering.storage import executable_store as disk
from ren.progress import Progress, is_wanted

_log = logging.getLogger("ren")
WORK = "building native kernels, once"


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


def usable() -> Outcome:
    """The library that segments may call now, or why there is none.

    XLA runs all segments where JAX sees devices that are no CPU. One program serves all platforms,
    with one set of tables. The name is part of the handler's name in XLA, and of all keys of what
    calls it. The first time, this takes as long as the compiler does.

    Raises:
        NativeError: there is none, and `ren.config.native` is True.
    """
    if config.native and set(backends()) != {PLATFORM}:
        return Outcome(reason="JAX sees devices that are no CPU")
    return _allowed()


def _allowed() -> Outcome:
    """The library that the host may call, whatever devices there are; raises as `usable` does."""
    if not config.native:
        return Outcome(reason="ren.config.native is False")
    found = outcome()
    if found.reason and config.native is True:
        raise NativeError(
            f"There are no native kernels: {found.reason}.",
            "ren.config.native is True (REN_NATIVE=1), which forbids to run without them.",
            'Set it to "auto", or install a C++ compiler (g++ or clang++).',
        )
    return found


def functions() -> Functions | None:
    """Functions of the library that the host calls, beside GPUs too; None where there is none.

    Raises:
        NativeError: as `usable`.
    """
    return _registered.get(_allowed().name)


def vectors(name: str) -> str:
    """The vectors of the library of a name, and their lanes; empty where it is not loaded."""
    return _registered[name].vectors if name in _registered else ""


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
        if is_of_user(error):
            raise
        reason = str(error) if isinstance(error, BuildError) else disk.first_line(error)
        _log.warning("No native kernels, XLA runs everything: %s.", reason)
        return Outcome(reason=reason)


def _load() -> str:
    compiler = build.compiler()
    key = build.key(compiler)
    name = key[:16]
    store = disk.store("native")
    kept = None if store is None else store.read(key)
    body = _built(compiler) if kept is None else kept
    if name not in _registered:
        _registered[name] = _register(body, name)
    if kept is None:
        self_check.check(name)
        self_check.check_functions(_registered[name])
        if store is not None:
            store.write(key, body)
    return name


def _built(compiler: build.Compiler) -> bytes:
    start = time.monotonic()
    with Progress(1, WORK, delay_s=0.0) as progress:
        if not progress.is_shown and is_wanted():
            print(f"ren: {WORK}", file=sys.stderr, flush=True)
        elif not progress.is_shown:
            _log.info("Now %s.", WORK)
        body = build.library(compiler)
    _log.debug("Native kernels: built once, in %.0f s.", time.monotonic() - start)
    return body


def _register(body: bytes, name: str) -> Functions:
    handlers = loaded(body)
    handler = jax.ffi.pycapsule(getattr(handlers, HANDLER))
    try:
        jax.ffi.register_ffi_target(handler_name(name), handler, platform=PLATFORM)
    except jax.errors.JaxRuntimeError as error:
        # An import of Ren before this one, dropped from sys.modules, registered the same kernels.
        if "Duplicate" not in str(error):
            raise
    return Functions(handlers)
