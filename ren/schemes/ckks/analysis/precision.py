"""ckks.precision: how many bits of a decrypted result are right."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from ren.core import html
from ren.core.attributes import closed
from ren.core.errors import ParameterError
from ren.lowering.inspect import plots as plotting
from ren.schemes.ckks.arithmetic.argument_checks import check_ciphertext
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.schemes.ckks.encoding.encoder import as_numbers
from ren.schemes.rlwe.active_context import context_for

_FEW = 64  # numbers; more have smaller marks


_INSTEAD = {
    "bits": "ckks.precision(x, values).worst_bits", "error": "ckks.precision(x, values).rms_error",
    "max_error": "ckks.precision(x, values).largest_error",
}  # fmt: skip


@closed(_INSTEAD)
@attrs.frozen
class Precision:
    """The true error of a ciphertext; bits are -log2 of an absolute error.

    Attributes:
        worst_bits: of the largest error.
        median_bits: of the median error.
        rms_error: the root of the mean squared error.
        largest_error: in `worst_slot`.
        worst_slot: its index in the decrypted array, batch axes first.
        level: of the ciphertext.
        estimated_bits: what its tracked noise promises, by `Ciphertext.estimate`; 0 for unknown.
        errors: the absolute error of each number, of the shape that decrypts. They tell of the
            noise: to show them, or a plot of them, to others is to share the decryption.
    """

    worst_bits: float
    median_bits: float
    rms_error: float
    largest_error: float
    worst_slot: tuple[int, ...]
    level: int
    estimated_bits: float
    errors: NDArray[np.float64] = attrs.field(eq=False, repr=False)

    def _rows(self) -> list[tuple[str, str]]:
        slot = ", ".join(map(str, self.worst_slot)) or "every one"
        return [
            ("worst", f"{self.worst_bits:.1f} bits, {self.largest_error:.2e} in slot {slot}"),
            ("median", f"{self.median_bits:.1f} bits"),
            ("rms error", f"{self.rms_error:.2e}"),
            ("estimated", _promised(self.estimated_bits)),
            ("level", str(self.level)),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name:<10} {value}" for name, value in self._rows())

    def _repr_html_(self) -> str:
        return html.card("Precision", html.facts(self._rows()))

    def plot(self, ax: Any = None) -> Any:
        """Draws the absolute error of each number, and the bound that the tracked noise promises.

        Args:
            ax: matplotlib Axes to draw on; None makes a figure.

        Returns:
            The Axes; nothing is shown or saved.

        Raises:
            MissingPackageError: matplotlib is not installed.
        """
        ax = plotting.axes(ax, "precision.plot()")
        errors = self.errors.ravel()
        shown = np.where(errors > 0, errors, np.nan)  # none at all has no place on a log scale
        style = "." if len(errors) > _FEW else "o"
        ax.plot(shown, style, color=plotting.BLUE, ms=3, mew=0, label="error")
        _line(ax, self.rms_error, plotting.GREEN, "--", "root mean square")
        _line(ax, self.largest_error, plotting.ORANGE, "-.", "largest")
        promised = 2.0**-self.estimated_bits if self.estimated_bits else math.inf
        _line(ax, promised, plotting.RED, "-", "promised bound")
        ax.set_yscale("log", base=2)
        ax.set_xlabel("number, batch axes first" if self.errors.ndim > 1 else "number")
        ax.set_ylabel("absolute error")
        worst = f"{self.worst_bits:.1f} bits in the worst slot, level {self.level}"
        ax.set_title(worst, loc="left")
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        return ax


def _line(ax: Any, error: float, colour: str, style: str, label: str) -> None:
    if 0 < error < math.inf:
        bits = f"2^{math.log2(error):.1f}"
        ax.axhline(error, color=colour, ls=style, lw=1, label=f"{label}, {bits}")


def precision(x: Ciphertext, expected: Any) -> Precision:
    """The error of `x` against the values that it should hold.

    Args:
        x: a ciphertext whose context holds the secret.
        expected: real or complex, of the shape that `x.decrypt()` has or one that broadcasts to it.

    Raises:
        ParameterError: `expected` has another shape.
        MissingKeyError: the context does not hold the secret.

    Example:
        >>> from ren.schemes import ckks
        >>> ctx = ckks.context(depth=1)
        >>> x = ctx.encrypt([0.5, 0.25])
        >>> report = ckks.precision(x * x, [0.25, 0.0625])
        >>> report.worst_bits > report.estimated_bits > 15
        True
    """
    check_ciphertext(x, "precision()")
    want = as_numbers(expected)
    if want.dtype.kind not in "biufc":
        raise ParameterError(
            f"precision() got expected values of type {type(expected).__name__}.",
            "They are the numbers that the ciphertext should hold, in the clear.",
            "Pass what the same computation gives in the clear, as a NumPy array.",
        )
    got = context_for(x.key_id, "precision()").decrypt(x, x.default_dtype)
    try:
        error = np.asarray(np.abs(got - np.broadcast_to(want, got.shape)), np.float64)
    except ValueError:
        raise ParameterError(
            f"precision() got expected values of shape {want.shape}.",
            f"The ciphertext decrypts to an array of shape {got.shape}.",
            "Pass what the same computation gives in the clear.",
        ) from None
    largest = float(error.max())
    slot = np.unravel_index(int(error.argmax()), error.shape)
    return Precision(
        _bits(largest),
        _bits(float(np.median(error))),
        math.sqrt(float((error**2).mean())),
        largest,
        tuple(map(int, slot)),
        x.level,
        x.estimate.bits,
        error,
    )


def _promised(bits: float) -> str:
    return f"{bits:.1f} bits at least" if bits else "unknown"


def _bits(error: float) -> float:
    return -math.log2(error) if error else math.inf
