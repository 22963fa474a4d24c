"""Budget: when a plan is worth compiling as one executable, and how often that may be tried.

Compiling takes a core from the kernels, and lowering holds Python's lock, so a compile has to be
paid for. It has to be small against the time spent in the plan, or the time that it could have
saved. Then a plan that is dropped soon has lost little, and one that stays gains.
"""

from __future__ import annotations

import os
import threading
from collections import deque

import attrs

from ren.config import config
from ren.lowering.plan.plan import Plan
from ren.lowering.program.steps import KernelUnit
from ren.lowering.storage.telemetry import Clock

# Measured on two cores with jax 0.10; later measurements correct the two estimates by a factor.
LOWER_NS, LOWER_NS_A_PROGRAM, LOWER_NS_A_UNIT = 30_000_000, 10_000_000, 200_000
COMPILE_NS, COMPILE_NS_A_UNIT, COMPILE_NS_AN_INSTR = 500_000_000, 20_000_000, 2_000_000
DISPATCH_NS = 15_000  # of a unit, on the calling thread
_MOST_OFF = 4.0
# Slowdown of a running plan by a compile in the background, as a share of the compile's time. First
# of a plan that waits for kernels, then of one that waits for Python.
_STOLEN_FROM_KERNELS, _STOLEN_FROM_DISPATCH = 0.5, 0.2
# A compile starts when it costs this share of the time spent in the plan. The smaller share is for
# plans where a gain is unlikely, since little of the time goes into dispatch.
_LIKELY_GAIN, _SHARE, _SHARE_UNLIKELY = 0.05, 0.2, 0.05
# ... or when the calls so far could have been faster by this multiple of it, and lowering is small.
_MISSED, _SHARE_LOWERING = 1.5, 0.1


@attrs.frozen
class Size:
    """Size of a plan for its compiler: units, distinct programs, instructions of all kernels."""

    units: int
    programs: int
    instrs: int

    @classmethod
    def of(cls, plan: Plan) -> Size:
        """The size of a plan."""
        kernels = [unit.kernel for unit in plan.units if isinstance(unit, KernelUnit)]
        instrs = sum(len(kernel.program.instrs) for kernel in kernels)
        return cls(len(plan.units), len(plan.programs), instrs)


class Estimates:
    """Estimated times of lowering and compiling, in nanoseconds, corrected by measured ones."""

    def __init__(self) -> None:
        self._lower_factor = self._compile_factor = 1.0

    def lower_ns(self, size: Size) -> float:
        """The time on the calling thread."""
        return self._lower_factor * _raw_lower_ns(size)

    def compile_ns(self, size: Size) -> float:
        """The time in the background."""
        return self._compile_factor * _raw_compile_ns(size)

    def observe(self, size: Size, lower_ns: float, compile_ns: float) -> None:
        """Corrects the estimates, half way, by what one plan took."""
        self._lower_factor = _corrected(self._lower_factor, lower_ns / _raw_lower_ns(size))
        self._compile_factor = _corrected(self._compile_factor, compile_ns / _raw_compile_ns(size))

    def is_worth(self, size: Size, calls: int, mean_ns: float) -> bool:
        """Whether a plan that ran so often, for so long each time, should be compiled now."""
        spent = calls * mean_ns
        if not spent or spent < config.jit_speculate_after_ns:
            return False
        gain = min(size.units * DISPATCH_NS / mean_ns, 1.0)
        stolen = gain * _STOLEN_FROM_DISPATCH + (1 - gain) * _STOLEN_FROM_KERNELS
        stolen *= min(1.0, 2 / (os.cpu_count() or 2))
        lower = self.lower_ns(size)
        cost = lower + stolen * self.compile_ns(size)
        if cost <= (_SHARE if gain >= _LIKELY_GAIN else _SHARE_UNLIKELY) * spent:
            return True
        return gain * spent >= _MISSED * cost and lower <= _SHARE_LOWERING * spent


def _raw_lower_ns(size: Size) -> float:
    return LOWER_NS + size.programs * LOWER_NS_A_PROGRAM + size.units * LOWER_NS_A_UNIT


def _raw_compile_ns(size: Size) -> float:
    return COMPILE_NS + size.units * COMPILE_NS_A_UNIT + size.instrs * COMPILE_NS_AN_INSTR


def _corrected(factor: float, seen: float) -> float:
    return min(max((factor + seen) / 2, 1 / _MOST_OFF), _MOST_OFF)


class Budget:
    """The time that background compiles may take together, in each window of the settings."""

    def __init__(self) -> None:
        self._spent: deque[tuple[int, float]] = deque()
        self._lock = threading.Lock()

    def reserve(self, ns: float, now: int) -> bool:
        """Takes `ns` out of the budget of the window that ends now; false where less is left."""
        with self._lock:
            while self._spent and self._spent[0][0] <= now - config.compile_window_ns:
                self._spent.popleft()
            used = sum(spent for _, spent in self._spent)
            if used + ns > config.compile_budget_ns:
                return False
            self._spent.append((now, ns))
            return True

    def settle(self, reserved: float, took: float, now: int) -> None:
        """Replaces the time reserved for a compile by the time that it took."""
        with self._lock:
            self._spent.append((now, took - reserved))


class Cooldown:
    """Pause of a tier that failed: twice as long after each failure in a row."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0
        self.failures = 0

    def fail(self) -> int:
        """Counts a failure; the nanoseconds for which the tier is not tried now."""
        base, most = config.compile_cooldown_base_ns, config.compile_cooldown_max_ns
        wait = min(base << min(self.failures, 60), most)
        self.failures += 1
        self._until = self._clock() + wait
        return wait

    def succeed(self) -> None:
        """Ends the row of failures."""
        self.failures = 0

    @property
    def left_ns(self) -> int:
        """Nanoseconds that the pause still lasts; 0 when it is over."""
        return max(self._until - self._clock(), 0) if self.failures else 0
