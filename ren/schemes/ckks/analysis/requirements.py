"""Requirements of a function of ciphertexts, as `ren.plan` finds them, and specs of arguments."""

from __future__ import annotations

import operator
from typing import Any

import attrs
import numpy as np

from ren.core import html
from ren.core.errors import ParameterError
from ren.core.text_table import columns, duration, size
from ren.schemes.ckks.arithmetic.argument_checks import as_bound
from ren.schemes.ckks.parameters.parameters import Parameters


@attrs.frozen
class VectorSpec:
    """The shape and the kind of values that will be encrypted; see `spec`."""

    shape: tuple[int, ...]
    is_complex: bool
    bound: float = 1.0


def spec(shape: int | tuple[int, ...], dtype: Any = float, bound: float = 1.0) -> VectorSpec:
    """Stands for an encrypted argument of `ren.plan`.

    Args:
        shape: of the array that will be encrypted: a length, [*batch, length], or () for a number.
        dtype: real or complex.
        bound: of the modulus of the values. A plan has integer bits for what follows from it.

    Raises:
        ParameterError: a bound that is not a positive number, a shape that no array of values has.
    """
    try:
        sizes = tuple(operator.index(s) for s in (shape if isinstance(shape, tuple) else (shape,)))
    except TypeError:
        sizes = (0,)
    if any(s < 1 for s in sizes):
        raise ParameterError(
            f"ckks.spec got the shape {shape!r}.",
            "It is the shape of the array that will be encrypted, with no empty axis.",
            "Write for example ckks.spec(1000) or ckks.spec((8, 1000)).",
        )
    return VectorSpec(sizes, np.dtype(dtype).kind == "c", as_bound(bound))


@attrs.frozen
class Requirements:
    """Requirements of a function; `ckks.context(requirements)` makes such a context with its keys.

    Attributes:
        params: the cheapest parameters that suffice.
        rotations: the steps whose keys it uses, ascending, each of the least size.
        needs_conjugation: whether it uses the conjugation key.
        needs_products: whether it uses the relinearization key.
        peak_bytes: planned, of one run: inputs, keys that are read, intermediates and results.
        limb_ntts: transforms of one limb each, in one run.
        seconds: an estimate for two CPU cores, to compare programs by; not a promise.
    """

    params: Parameters
    rotations: tuple[int, ...]
    needs_conjugation: bool
    needs_products: bool
    peak_bytes: int
    limb_ntts: int
    seconds: float

    @property
    def depth(self) -> int:
        """Number of levels that it takes."""
        return self.params.depth

    @property
    def keys(self) -> int:
        """Number of evaluation keys that it uses."""
        return len(self.rotations) + self.needs_conjugation + self.needs_products

    @property
    def key_bytes(self) -> int:
        """Bytes of these in memory; saved, about half."""
        return self.keys * self.params.key_nbytes()

    def __str__(self) -> str:
        return columns(self._rows(), left=(0, 1))

    def _repr_html_(self) -> str:
        warning = "INSECURE" if self.params.is_insecure else ""
        return html.card("What the function needs", html.facts(self._rows()), warning=warning)

    def _rows(self) -> list[tuple[str, str]]:
        rotations = ", ".join(map(str, self.rotations)) or "none"
        kinds = [f"rotations: {rotations}"]
        kinds += ["conjugation"] * self.needs_conjugation
        kinds += ["relinearization"] * self.needs_products
        return [
            ("parameters", repr(self.params)),
            ("depth", str(self.depth)),
            ("keys", f"{self.keys}, {size(self.key_bytes)} in memory ({'; '.join(kinds)})"),
            ("peak memory", f"{size(self.peak_bytes)} with inputs and keys"),
            ("limb-NTTs", f"{self.limb_ntts:,}"),
            ("estimated", duration(self.seconds)),
        ]
