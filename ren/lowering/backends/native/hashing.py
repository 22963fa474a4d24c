"""Functions that the host calls in a library: SHAKE-256, words to residues, residues to floats.

The interpreter lock is not held meanwhile. Nothing of what they read is kept.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ren.lowering.devices.cores import granted

BLOCK = 136  # bytes that SHAKE-256 gives at a time
_LEAST_OF_THREAD = 1 << 17  # bytes: a thread begins in the time that 2^15 of them take
_LEAST_CORES = 2  # for a thread that works while `run` waits: waiting takes the time of a core
_LEAST_PRODUCTS = 1 << 22  # of residues and limbs, of a thread: about 0.3 ms
_SIZE, _WORD, _NUMBER = ctypes.c_size_t, ctypes.c_uint64, ctypes.c_uint32
_POINTER = ctypes.c_void_p


class Functions:
    """The functions of a library that is loaded.

    Attributes:
        vectors: the vectors that its kernels compute with, and their lanes of 32 bits, for people.
        run: what runs bytecode: see `ren.lowering.backends.native.host_call`.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        library.ren_vectors.restype, library.ren_lanes.restype = ctypes.c_char_p, _SIZE
        self.vectors = f"{library.ren_vectors().decode()}, {library.ren_lanes()} lanes of 32 bits"
        self._shake, self._uniform = library.ren_shake256, library.ren_uniform
        self._shake.restype, self._uniform.restype = None, _SIZE
        self._shake.argtypes = [ctypes.c_char_p, _SIZE, _WORD, _SIZE, _SIZE, _POINTER, _SIZE]
        self._uniform.argtypes = [_POINTER, _SIZE, _NUMBER, _NUMBER, _POINTER, _POINTER]
        self.run, self.run.restype = library.ren_run, ctypes.c_char_p
        self.run.argtypes = [_SIZE, _SIZE, *[_POINTER] * 3]
        library.ren_alone.restype = None
        if granted() < _LEAST_CORES:
            library.ren_alone()
        self._floats, self._floats.restype = library.ren_floats, None
        self._floats.argtypes = [_POINTER, *[_SIZE] * 3, *[_POINTER] * 9, _SIZE]

    def squeezed(self, prefix: bytes, first: int, count: int, blocks: int) -> NDArray[np.uint8]:
        """The first blocks of SHAKE-256(prefix, i), for `count` counters i from `first` on.

        Returns:
            uint8 [count * blocks * 136], one stream after the other.
        """
        out = np.empty(count * blocks * BLOCK, np.uint8)
        threads = min(os.cpu_count() or 1, max(out.size // _LEAST_OF_THREAD, 1))
        self._shake(prefix, len(prefix), first, count, blocks, out.ctypes.data, threads)
        return out

    def uniform(
        self, words: NDArray[np.uint32], q: int, largest: int, out: NDArray[np.uint32]
    ) -> NDArray[np.uint32]:
        """Writes words mod q to `out`; returns the positions of the words above `largest`.

        Args:
            words, out: uint32 [count], contiguous.
            q: below 2^32.
            largest: below 2^32.
        """
        above = np.empty(len(words), np.uint32)
        data = words.ctypes.data, len(words), q, largest, out.ctypes.data, above.ctypes.data
        return above[: self._uniform(*data)]

    def floats(
        self, limbs: NDArray[np.uint32], tables: Sequence[NDArray[np.uint32]]
    ) -> NDArray[np.float64]:
        """The centred integers of residues: `floats` in `ren.lowering.kernels.integers`.

        Args:
            limbs: Montgomery residues uint32 [*batch, limb, n], contiguous.
            tables: `float_tables` of the moduli of the limbs.

        Returns:
            float64 [*batch, n].
        """
        *batch, count, n = limbs.shape
        out = np.empty((*batch, n))
        threads = min(os.cpu_count() or 1, max(limbs.size * count // _LEAST_PRODUCTS, 1))
        data = [table.ctypes.data for table in tables]
        size = math.prod(batch), count, n
        self._floats(limbs.ctypes.data, *size, *data, out.ctypes.data, threads)
        return out
