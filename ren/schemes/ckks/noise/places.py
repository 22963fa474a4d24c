"""Places of random sources of noise: sources at one place add up, those at two are independent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

PLACES = 32
_WEIGHTS = (5 * np.arange(PLACES) + 7).astype(np.int32)
_NUMBERS = np.arange(PLACES, dtype=np.int32)


def place_of(serial: int) -> int:
    """The place of the encryption with a serial number."""
    return (serial * 0x9E3779B1 & 0xFFFFFFFF) * PLACES >> 32


def next_place(is_taken: Any) -> Any:
    """The place of a source that depends on others, int [*batch, 1]: the first free one.

    The search begins where the set of the others says, and ends there where no place is free.

    Args:
        is_taken: int32 [*batch, PLACES], 1 or 0; an array of the host or of JAX.
    """
    first = (is_taken * _WEIGHTS).sum(-1, dtype=np.int32, keepdims=True) % PLACES
    distance = (_NUMBERS - first) % PLACES + is_taken * PLACES
    return distance.argmin(-1, keepdims=True).astype(np.int32)


def next_of_one(is_taken: NDArray[np.bool_]) -> int:
    """The same of one set, bool [PLACES], by the bits of an int: each replay asks."""
    first = int(is_taken.dot(_WEIGHTS)) % PLACES
    bits = int.from_bytes(np.packbits(is_taken, bitorder="little").tobytes(), "little")
    free = ~(bits >> first | bits << (PLACES - first)) & ((1 << PLACES) - 1)
    return (first + (free & -free).bit_length() - 1) % PLACES if free else first
