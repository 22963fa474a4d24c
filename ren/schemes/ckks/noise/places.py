"""Places of random sources of noise: sources at one place add up, those at two are independent."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ren.poly.batching import bit_counts, chosen

PLACES = 32
_ALIKE = np.float32(1.5)  # times the least source: sums in other orders round alike
_BITS = np.uint32(1) << np.arange(PLACES, dtype=np.uint32)
# Of the bits of a number from 0 to 31, the places whose numbers have it.
_WITH_BIT = [_BITS[np.arange(PLACES) >> j & 1 == 1].sum(dtype=np.uint32) for j in range(5)]


def place_of(serial: int) -> int:
    """The place of the encryption with a serial number."""
    return (serial * 0x9E3779B1 & 0xFFFFFFFF) * PLACES >> 32


def next_place(sources: Any) -> Any:
    """The place of a source that depends on others, int32 [*batch, 1]: the first free one.

    The search begins where the set of the others says. Where no place is free, it is the first of
    the least sources: long chains then fill all places evenly. Under a trace XLA reduces once for
    the set, as the bits of a number.

    Args:
        sources: float32 [*batch, PLACES], deviations; an array of the host or of JAX.
    """
    is_taken = sources > 0
    first = _first_of_least(sources)[..., None].astype(np.int32)
    if isinstance(is_taken, np.ndarray) and is_taken.all():
        return first
    found = _free_place(is_taken)
    return chosen(is_taken.all(-1, keepdims=True), first, found)


def _first_of_least(sources: Any) -> Any:
    return (sources <= _ALIKE * sources.min(-1, keepdims=True)).argmax(-1)


def _free_place(is_taken: Any) -> Any:
    """The first free place, int32 [*batch, 1], from the set alone."""
    taken = (is_taken.astype(np.uint32) * _BITS).sum(-1, dtype=np.uint32, keepdims=True)
    # The sum of 5 p + 7 over the places p that are taken.
    places = sum(bit_counts(taken & w) << j for j, w in enumerate(_WITH_BIT))
    first = 7 * bit_counts(taken) + 5 * places
    first = first % PLACES
    free = ~(taken >> first | taken << (PLACES - first) % PLACES)
    return ((first + bit_counts((free & (~free + 1)) - 1)) % PLACES).astype(np.int32)


def next_of_one(sources: NDArray[np.float32]) -> int:
    """The same of one array, [PLACES]: each replay asks, as a rule for few sets."""
    is_taken = sources.astype(np.bool_)
    if is_taken.all():
        return int(_first_of_least(sources))
    return _next_of(is_taken.tobytes())


@lru_cache(maxsize=1 << 12)
def _next_of(is_taken: bytes) -> int:
    return int(_free_place(np.frombuffer(is_taken, np.bool_))[0])
