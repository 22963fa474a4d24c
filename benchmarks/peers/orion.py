"""Orion's own library on networks of matrices and squares: Lattigo, as its wheel calls it.

PyPI's `orion-fhe` 1.0.2 wants PyTorch; its calls into Lattigo do not. The wheel is unpacked and not
installed, with a stand-in for the one name of PyTorch that they use. Parameters are those of its
configurations of LoLa and the perceptron: n = 2^13, conjugate invariant, scale 2^26. Q has 29 bits
and five times 26, P twice 29. Their log2 QP of 217 is over the bound of 214 for 128 bits.

A layer is a product with diagonals, as Orion packs it. A layer whose height is a power of two below
the slots has that many diagonals, and rotations that sum its parts. The last has full height.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
import types
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WHEEL = "orion-fhe==1.0.2"
FOLDER = Path(__file__).parents[2] / "build" / "orion"
DEPTH, FIRST_BITS, SCALE_BITS, SPECIAL_BITS = 5, 29, 26, (29, 29)
LOG_N, SLOTS = 13, 1 << 13  # real numbers alone: n slots


@cache
def bindings() -> Path | None:
    """The file with Orion's calls into Lattigo; None where its wheel cannot be had."""
    if not (found := sorted(FOLDER.glob("**/lattigo/bindings.py"))):
        call = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(FOLDER)]
        only = ["--only-binary=:all:", "--python-version", "3.11", WHEEL]
        if subprocess.run([*call, *only], capture_output=True, check=False).returncode:
            return None
        for wheel in FOLDER.glob("*.whl"):
            with zipfile.ZipFile(wheel) as held:
                held.extractall(FOLDER)
        found = sorted(FOLDER.glob("**/lattigo/bindings.py"))
    return found[0] if found else None


class _Parameters:
    """Parameters, by the names that Orion asks for."""

    get_logn = staticmethod(lambda: LOG_N)
    get_logq = staticmethod(lambda: [FIRST_BITS] + [SCALE_BITS] * DEPTH)
    get_logp = staticmethod(lambda: list(SPECIAL_BITS))
    get_logscale = staticmethod(lambda: SCALE_BITS)
    get_hamming_weight = staticmethod(lambda: SLOTS)
    get_ringtype = staticmethod(lambda: "conjugateinvariant")
    get_keys_path = staticmethod(lambda: "")
    get_io_mode = staticmethod(lambda: "none")


class Orion:
    """One owner's keys, and a network of matrices with squares between them."""

    def __init__(self) -> None:
        torch: Any = types.ModuleType("torch")
        torch._dynamo = types.SimpleNamespace(disable=lambda function: function)
        sys.modules.setdefault("torch", torch)
        path = bindings()
        spec = importlib.util.spec_from_file_location("orion_bindings", str(path))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self._lib = lib = module.LattigoLibrary()
        lib.setup_bindings(_Parameters())
        for what in (
            "NewKeyGenerator", "GenerateSecretKey", "GeneratePublicKey",
            "GenerateRelinearizationKey", "GenerateEvaluationKeys", "NewEncoder", "NewEncryptor",
            "NewDecryptor", "NewEvaluator", "NewPolynomialEvaluator",
            "NewLinearTransformEvaluator",
        ):  # fmt: skip
            getattr(lib, what)()
        self.keys: set[int] = set()
        self._layers: list[tuple[int, int]] = []

    def add(self, matrix: NDArray, is_last: bool) -> int:
        """Encode a layer and make its keys; the number of its diagonals."""
        lib, rows = self._lib, len(matrix)
        height = SLOTS if is_last else 1 << (rows - 1).bit_length()
        whole = np.zeros((height, SLOTS), np.float32)
        whole[:rows, : matrix.shape[1]] = matrix
        slot, places = np.arange(SLOTS), np.nonzero(whole)
        used = np.unique((places[1] - places[0]) % height)
        diagonals = [whole[slot % height, (slot + i) % SLOTS] for i in used.tolist()]
        level = DEPTH - 2 * len(self._layers)
        made = lib.GenerateLinearTransform(
            used.tolist(), np.concatenate(diagonals).tolist(), level, 2.0, "none"
        )
        for key in set(lib.GetLinearTransformRotationKeys(made)) - self.keys:
            lib.GenerateLinearTransformRotationKey(key)
            self.keys.add(key)
        folds = (SLOTS // height).bit_length() - 1
        for i in range(1, folds + 1):
            lib.AddRotationKey(SLOTS >> i)
        self._layers.append((made, folds))
        return len(diagonals)

    def encrypt(self, values: NDArray) -> Any:
        """A ciphertext at the top level."""
        padded = np.zeros(SLOTS)
        padded[: values.size] = values
        return self._lib.Encrypt(self._lib.Encode(padded.tolist(), DEPTH, 1 << SCALE_BITS))

    def run(self, x: Any) -> Any:
        """The network on a ciphertext."""
        lib = self._lib
        for i, (made, folds) in enumerate(self._layers):
            if i:
                scale = lib.GetCiphertextScale(x)
                x = lib.RescaleNew(lib.MulRelinCiphertextNew(x, x))
                lib.SetCiphertextScale(x, scale)
            x = lib.RescaleNew(lib.EvaluateLinearTransform(made, x))
            for k in range(1, folds + 1):
                x = lib.AddCiphertextNew(x, lib.RotateNew(x, SLOTS >> k))
        return x

    def decrypt(self, x: Any, count: int) -> NDArray:
        """The first numbers of a ciphertext."""
        return np.array(self._lib.Decode(self._lib.Decrypt(x)))[:count]


def timed(matrices: Sequence[NDArray], images: Sequence[NDArray]) -> dict[str, Any]:
    """Seconds of each run, of the preparation, and the results."""
    start = time.perf_counter()
    orion = Orion()
    diagonals = [orion.add(m, i == len(matrices) - 1) for i, m in enumerate(matrices)]
    prepared, seconds, results = time.perf_counter() - start, [], []
    for image in images:
        x = orion.encrypt(image)
        start = time.perf_counter()
        y = orion.run(x)
        seconds.append(time.perf_counter() - start)
        results.append(orion.decrypt(y, len(matrices[-1])))
    return {
        "prepared": prepared,
        "seconds": seconds,
        "results": results,
        "diagonals": diagonals,
        "keys": len(orion.keys),
    }
