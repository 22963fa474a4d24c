"""Values that users give, as arrays of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError


def as_numbers(values: Any) -> NDArray:
    """Values as an array; of a dtype that is not numeric where they are not numbers.

    Raises:
        ParameterError: a masked array, whose hidden entries would be encrypted too; an integer or a
            fraction beyond 2^1024.
    """
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            raise ParameterError(
                f"A masked array with {np.ma.count_masked(values)} masked entries was given.",
                "The slots hold every entry; what stands under the mask would be among them.",
                "Fill them first, values.filled(0.0), and encrypt the mask if it matters.",
            )
        values = values.data
    try:
        z = np.asarray(values)
    except ValueError:  # rows of several lengths
        return np.empty(0, object)
    is_extended = z.dtype.kind == "V" and z.dtype.names is None and z.dtype.type is not np.void
    if (z.dtype == object and None not in z.flat) or is_extended:  # bfloat16, float8, int4 of JAX
        try:
            z = z.astype(np.float64)
        except OverflowError:
            raise beyond_all() from None
        except (TypeError, ValueError):
            return z
    return z


def beyond_all() -> ParameterError:
    """The error for a number that no float64 holds."""
    return ParameterError(
        "A number from 2^1024 on was given.",
        "The numbers in slots are float64, and the largest modulus has far fewer bits.",
        "Divide the numbers by a constant before they are encoded.",
    )
