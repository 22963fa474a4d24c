"""Serves the bootstrap of OpenFHE: its wheel, in the environment .venv-openfhe."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import openfhe

from benchmarks.peers.serving import Call, serve, values

LOG_N = 16
BUDGET = [3, 3]  # levels of CoeffToSlot and SlotToCoeff
MOST_LEVELS = 16


class OpenFHEPeer:
    """A sparse secret for the bootstrap alone, where the wheel has that; most levels that fit."""

    def versions(self) -> dict[str, str]:
        return {"openfhe": version("openfhe")}

    def digits(self, n: int, depth: int, scale_bits: int, bound: int) -> Sequence[int]:
        return []

    def setup(
        self, scale_bits: int, first_bits: int, dnum: int, secret: str = "SPARSE_ENCAPSULATED"
    ) -> dict[str, Any]:
        self.scale_bits, self.first_bits = scale_bits, first_bits
        self.levels = next(k for k in range(MOST_LEVELS, 0, -1) if self._fits(k, secret, dnum))
        cc, slots = self.cc, 1 << (LOG_N - 1)
        for feature in ("PKE", "KEYSWITCH", "LEVELEDSHE", "ADVANCEDSHE", "FHE"):
            cc.Enable(getattr(openfhe, feature))
        start = time.perf_counter()
        cc.EvalBootstrapSetup(BUDGET, [0, 0], slots)
        self.keys = cc.KeyGen()
        cc.EvalMultKeyGen(self.keys.secretKey)
        cc.EvalBootstrapKeyGen(self.keys.secretKey, slots)
        keys_s = time.perf_counter() - start
        self.clear = values(slots)
        plain = cc.MakeCKKSPackedPlaintext(self.clear, 1, self.depth - 1)
        self.x = cc.Encrypt(self.keys.publicKey, plain)
        return {
            "levels": self.levels,
            "dnum": dnum,
            "secret": secret,
            "scale": scale_bits,
            "keys_s": keys_s,
            "threads": int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0)))),
        }

    def _fits(self, levels: int, secret: str, dnum: int) -> bool:
        """Whether so many levels are left at 128 bits, by OpenFHE's own check."""
        kind = getattr(openfhe, secret)
        wanted = openfhe.CCParamsCKKSRNS()
        wanted.SetSecretKeyDist(kind)
        wanted.SetSecurityLevel(openfhe.HEStd_128_classic)
        wanted.SetRingDim(1 << LOG_N)
        wanted.SetScalingTechnique(openfhe.FLEXIBLEAUTO)
        wanted.SetScalingModSize(self.scale_bits)
        wanted.SetFirstModSize(self.first_bits)
        wanted.SetNumLargeDigits(dnum)
        self.depth = levels + openfhe.CryptoContext.GetBootstrapDepth(BUDGET, kind)
        wanted.SetMultiplicativeDepth(self.depth)
        try:
            self.cc = openfhe.GenCryptoContext(wanted)
        except RuntimeError:
            return False
        return self.cc.GetRingDimension() == 1 << LOG_N

    def operation(self, name: str) -> Call | None:
        if name != "bootstrap":
            return None

        def call() -> None:
            self.made = self.cc.EvalBootstrap(self.x)

        return call

    def settled(self, call: Call, with_memory: bool) -> dict[str, Any]:
        plain = self.cc.Decrypt(self.made, self.keys.secretKey)
        plain.SetLength(len(self.clear))
        found = plain.GetRealPackedValue()
        errors = [abs(a - b) for a, b in zip(found, self.clear, strict=True)]
        rms = math.sqrt(sum(e * e for e in errors) / len(errors))
        return {
            "worst_bits": round(-math.log2(max(errors)), 2),
            "rms_bits": round(-math.log2(rms), 2),
        }


if __name__ == "__main__":
    serve(OpenFHEPeer())
