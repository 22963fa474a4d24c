"""The judge of a ciphertext beside its twin, by what the estimate promises."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

import ren
from ren.core import errors
from ren.schemes import ckks
from ren.schemes.ckks.arithmetic.evolve import evolve_layout
from ren.schemes.ckks.encoding.layout import ZEROS
from tests.properties.clear_ciphertext import ClearCiphertext

_ROUNDING = 2.0**-43  # of the twin, relative to its largest number
_BOUND_ROOM = 1 + 1e-5  # bounds are float32
_NO_ACCURACY = ("RecaptureWarning", "TransparentWarning")
_EXPECTED = (
    errors.ContextError, errors.DepthError, errors.DomainError, errors.OperandError,
    errors.ParameterError,
    errors.ScaleError, errors.TracedValueError,
)  # fmt: skip


@attrs.frozen
class Finding:
    """What is wrong with the result `name` of an operation of a kind.

    Attributes:
        what: a short class of defects.
        detail: numbers, for the reader.
        mode: "" eagerly, "jit" or "vmap".
    """

    name: str
    operation: str
    what: str
    detail: str = ""
    mode: str = ""

    @property
    def signature(self) -> tuple[str, str, str]:
        """What two findings of one defect share."""
        return self.mode, self.what, self.operation


def is_of_accuracy(caught: Sequence[warnings.WarningMessage]) -> bool:
    """Whether Ren warned that a result may be off."""
    names = {w.category.__name__ for w in caught if hasattr(errors, w.category.__name__)}
    return bool(names.difference(_NO_ACCURACY))


def is_expected(error: Exception, twin: Any, params: ckks.Parameters) -> bool:
    """Whether an error is of a kind that operations on ciphertexts are documented to raise."""
    if isinstance(error, errors.MessageBoundError) and isinstance(twin, ClearCiphertext):
        return bool(np.abs(twin.values).max() > 2.0 ** (params.integer_bits - 1))  # for sure
    return isinstance(error, _EXPECTED)


def is_vague(made: ckks.Ciphertext, twin: ClearCiphertext) -> bool:
    """Whether the bound of the error is above all numbers: a promise of nothing."""
    return bool(made.estimate.error_bound > 1 + np.abs(twin.values).max())


def judged(
    name: str, operation: str, made: ckks.Ciphertext, twin: ClearCiphertext, is_warned: bool
) -> Finding | None:
    """None where `made` is what the twin says, to its own error bound, or where Ren warned."""

    def finding(what: str, detail: str = "") -> Finding:
        return Finding(name, operation, what, detail)

    if not isinstance(made, ckks.Ciphertext):
        return finding("no ciphertext", type(made).__name__)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            wide = np.result_type(made.dtype, np.float64)  # integers as they are, not rounded
            got, estimate, shape = made.decrypt(dtype=wide), made.estimate, made.shape
    except ren.RenError as error:
        return finding(f"decrypt raises {type(error).__name__}", str(error)[:200])
    except Exception as error:
        return finding(f"decrypt: {type(error).__name__}", str(error)[:200])
    if got.shape != twin.shape or shape != twin.shape:
        return finding("shape", f"{got.shape} and .shape {shape}, NumPy {twin.shape}")
    if got.dtype != twin.values.dtype:
        return finding("kind", f"{got.dtype}, NumPy {twin.values.dtype}")
    if is_warned or is_of_accuracy(caught):
        return None
    if not _repeats(made, estimate.error_bound):
        return finding("period", f"slots do not repeat after {made.layout.tail.period}")
    error, bound, message = _error(got, twin), estimate.error_bound, estimate.message_bound
    if math.isnan(bound) or math.isnan(message):
        return finding("unknown estimate")
    if twin.is_inner:  # the caller stated where the numbers lie; nothing tracks a lower end
        return None
    if not error <= bound * (1 + 1e-9):
        off = f"2^{math.log2(error / bound):.2f} times" if 0 < error < math.inf else str(error)
        return finding("error", f"{error:.3g} is {off} the bound {bound:.3g}")
    largest = float((np.abs(twin.values) - twin.drift).max())
    if not largest <= message * _BOUND_ROOM + 1e-9:
        return finding("message bound", f"{largest:.6g} is above {message:.6g}")
    return None


def _repeats(made: ckks.Ciphertext, bound: float) -> bool:
    """Whether all slots repeat with the period that the layout tells, up to noise."""
    period = made.layout.tail.period
    if period < 2:
        return True
    assert made.layout.blocks == 1 and made.slots % period == 0
    slots = evolve_layout(made, length=made.slots, shape=None, tail=ZEROS).decrypt(dtype=complex)
    copies = slots.reshape(*slots.shape[:-1], -1, period)
    off = np.abs(copies - copies[..., :1, :]).max()
    return bool(off <= 2 * bound + 1e-6 * np.abs(slots).max())


def _error(got: np.ndarray, twin: ClearCiphertext) -> float:
    """The largest error beyond what documentation and rounding allow; NaN counts as infinite."""
    largest = float(np.abs(twin.values).max())
    off = np.abs(got - twin.values) - twin.drift - _ROUNDING * largest
    return math.inf if np.isnan(off).any() else max(float(off.max()), 0.0)
