"""How CKKS parameters show themselves: as text, in notebooks, drawn."""

from __future__ import annotations

from typing import Any

from ren.schemes.ckks.parameter_plot import plot
from ren.schemes.ckks.parameter_table import table


class Displayed:
    """Gives `Parameters` the ways to be looked at that are no part of its value."""

    __slots__ = ()

    def __str__(self: Any) -> str:
        return "\n".join(table(self))

    def plot(self: Any, ax: Any = None) -> Any:
        """Draws the modulus chain: the moduli of each level and of the keys, and the scales.

        A row is a level, a box a modulus, as long as it has bits; the red line is log2 of the
        canonical scale of each level, the dashed one the bound on the moduli of the keys.

        Args:
            ax: matplotlib Axes to draw on; None makes a figure.

        Returns:
            The Axes; nothing is shown or saved.

        Raises:
            MissingPackageError: matplotlib is not installed.
        """
        return plot(self, ax)
