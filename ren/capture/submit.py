"""ren.submit: calls that run in the background, each with a future for its result."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

import jax

from ren.capture.pytrees import take_apart
from ren.config import config
from ren.core.errors import JitError, kind_of
from ren.lowering.backends.xla.jax_runtime import check_not_forked
from ren.lowering.devices.devices import is_tracing
from ren.poly.poly import realize_polys
from ren.poly.realization import is_capturing

P = ParamSpec("P")
R = TypeVar("R")

_is_worker: ContextVar[bool] = ContextVar("ren_is_worker", default=False)


def submit(f: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Calls `f(*args, **kwargs)` in another thread, and returns at once.

    `ren.config.submit_workers` calls run at a time, by default as many as there are processors. The
    others wait in order. While `ren.config.submit_max_waiting` are waiting, `submit` itself waits
    until one of them begins. The call sees the context variables of the caller, among them the
    active CKKS context. JAX's own contexts, such as
    `jax.default_device`, are of one thread and must be entered in `f`. A call submitted by a
    submitted call runs at once, in its thread. So no call waits for a thread that waits for it.

    Args:
        f: any function; one under `ren.jit` is captured once, whichever thread comes first.
        args, kwargs: its arguments.

    Returns:
        A future. Its result is ready: the lazy polynomials inside are computed. An exception keeps
        the traceback of `f`. When the program ends, calls that run are awaited, and those that wait
        are cancelled.

    Raises:
        JitError: inside a function that `ren.jit` captures or JAX traces; after the main thread's
            end; `f` is not callable.

    Example:
        >>> import ren
        >>> ring = ren.RingSpec(n=4, moduli=(17,))
        >>> square = ren.jit(lambda x: x * x)
        >>> polys = [ren.Poly([i, 1], ring) for i in range(3)]
        >>> futures = [ren.submit(square, p) for p in polys]
        >>> [future.result().tolist() for future in futures]
        [[0, 0, 1, 0], [1, 2, 1, 0], [4, 4, 1, 0]]
    """
    check_not_forked()
    if not callable(f):
        raise JitError(
            f"ren.submit got {kind_of(f)}.",
            "It takes a function and the arguments to call it with.",
            "Write ren.submit(f, x), not ren.submit(f(x)).",
        )
    if is_capturing() or is_tracing():
        raise JitError(
            "ren.submit was called while a function is captured or traced.",
            "What runs in another thread is no part of the program that is being recorded.",
            "Call f(...) itself there; submit the jitted function from outside.",
        )
    future: Future[R] = Future()
    context = copy_context()
    call = partial(context.run, _ready, f, *args, **kwargs)
    if _is_worker.get():
        _run(future, call)
    else:
        context.run(_is_worker.set, True)
        _pool.put(future, call)
    return future


def _ready(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call, its polynomials computed."""
    result = f(*args, **kwargs)
    apart = take_apart(result)
    if not apart.polys:
        return result
    polys = realize_polys(apart.polys)
    jax.block_until_ready([p.limbs for p in polys if not p.is_constant])
    return apart.rebuild(iter(polys), iter(apart.others))


def _run(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # also what would end the thread
        future.set_exception(error)
        del future, call  # the traceback of the error holds this frame
    else:
        future.set_result(result)


class Pool:
    """Threads that run what waits in a queue, and end when nothing does.

    They are not daemons, so the interpreter awaits what they run. They see the end of the main
    thread, and cancel what still waits. How many there are follows from the settings at each call.
    """

    def __init__(self) -> None:
        self.running = 0
        self.waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._changed = threading.Condition()

    def put(self, future: Future[Any], call: Callable[[], Any]) -> None:
        """Runs a call in a thread, when one is free."""
        with self._changed:
            while len(self.waiting) >= config.submit_max_waiting and _goes_on():
                self._changed.wait()
            if not _goes_on():
                raise JitError(
                    "ren.submit was called after the main thread had ended.",
                    "Nothing new is begun then.",
                    "Wait for the threads that submit calls before the program ends.",
                )
            if self.running < _workers():
                threading.Thread(target=self._work, name="ren.submit").start()
                self.running += 1
            self.waiting.append((future, call))

    def _work(self) -> None:
        while (task := self._next()) is not None:
            future, call = task
            if not _goes_on():
                future.cancel()
            _run(future, call)
            del task, future, call  # the result is not kept while the next call runs

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._changed:
            self._changed.notify_all()
            if self.waiting and self.running <= _workers():
                return self.waiting.popleft()
            self.running -= 1
            return None


def _workers() -> int:
    """The number of calls that may run at a time, one at least."""
    return config.submit_workers or os.cpu_count() or 1


def _goes_on() -> bool:
    """False once the main thread has ended and the interpreter awaits the others."""
    return threading.main_thread().is_alive()


# Threads and what waits for them: state, but of a kind that no result depends on.
_pool = Pool()
