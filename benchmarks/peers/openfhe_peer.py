"""Serves OpenFHE: its wheel, in the environment .venv-openfhe, or the build in OPENFHE_PREFIX."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import openfhe

from benchmarks.peers import circuits
from benchmarks.peers.serving import (
    HOISTED,
    MATRICES,
    MIXES,
    MOST_KEY_BYTES,
    MOST_PLAIN_BYTES,
    POLYNOMIALS,
    Call,
    coefficients,
    matrix,
    serve,
    values,
)

FIRST_BITS, SPECIAL_BITS = 60, 60


def digit_primes(depth: int, dnum: int) -> int:
    """How many primes of the chain a digit takes."""
    return math.ceil((depth + 1) / dnum)


def special_primes(depth: int, scale_bits: int, dnum: int) -> int:
    """How many special primes OpenFHE takes: enough for the widest digit, which holds the first."""
    widest = FIRST_BITS + scale_bits * (digit_primes(depth, dnum) - 1)
    return math.ceil(widest / SPECIAL_BITS)


def built(prefix: Path) -> dict[str, str]:
    """What is known of a build: which libraries this process has loaded, what it was built with.

    Raises:
        ImportError: the module that was imported is not in the prefix.
    """
    if prefix not in Path(str(openfhe.__file__)).parents:
        raise ImportError(f"{openfhe.__file__} was found, and nothing in {prefix} for this Python")
    maps, options = Path("/proc/self/maps"), prefix / "include/openfhe/core/config_core.h"
    libraries = maps.read_text(encoding="utf-8") if maps.exists() else ""
    loaded = dict(re.findall(r"/lib(OPENFHEcore|hexl|tcmalloc)\S*\.so\.([\d.]+)$", libraries, re.M))
    found = {"openfhe": f"{loaded.pop('OPENFHEcore', '?')}, built from source", **loaded}
    if options.exists():
        names = re.findall(r"^#define WITH_(\w+)$", options.read_text(encoding="utf-8"), re.M)
        found["built with"] = ", ".join(names)
    return found


class OpenFHEPeer:
    """Hybrid key switching, scales by hand, all the threads that OpenMP gives."""

    def versions(self) -> dict[str, str]:
        prefix = os.environ.get("OPENFHE_PREFIX")
        if prefix:
            return built(Path(prefix))
        try:
            return {"openfhe": version("openfhe")}
        except PackageNotFoundError:
            return {"openfhe": "built from source"}

    def digits(self, n: int, depth: int, scale_bits: int, bound: int) -> Sequence[int]:
        found: dict[int, int] = {}  # by primes a digit, so that none is tried twice
        log_q = FIRST_BITS + depth * scale_bits
        for dnum in range(1, depth + 2):
            primes = digit_primes(depth, dnum)
            is_whole = math.ceil((depth + 1) / primes) == dnum
            log_qp = log_q + SPECIAL_BITS * special_primes(depth, scale_bits, dnum)
            if is_whole and log_qp <= bound:
                found.setdefault(primes, dnum)
        return sorted(found.values())[:4]

    def setup(self, n: int, depth: int, scale_bits: int, dnum: int) -> dict[str, Any]:
        self.n, self.depth, self.dnum = n, depth, dnum
        self.specials = special_primes(depth, scale_bits, dnum)
        openfhe.ClearEvalMultKeys()  # they live in the library, not in the context
        openfhe.CryptoContext.ClearEvalAutomorphismKeys()
        wanted = openfhe.CCParamsCKKSRNS()
        wanted.SetMultiplicativeDepth(depth)
        wanted.SetScalingModSize(scale_bits)
        wanted.SetFirstModSize(FIRST_BITS)
        wanted.SetRingDim(n)
        wanted.SetNumLargeDigits(dnum)
        wanted.SetScalingTechnique(openfhe.FIXEDMANUAL)
        wanted.SetSecurityLevel(openfhe.HEStd_NotSet)  # the bound is checked by `digits`
        self.cc = openfhe.GenCryptoContext(wanted)
        for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE, openfhe.ADVANCEDSHE):
            self.cc.Enable(feature)
        self.keys = self.cc.KeyGen()
        self.cc.EvalMultKeyGen(self.keys.secretKey)
        self.cc.EvalRotateKeyGen(self.keys.secretKey, [1])
        self.x = values(n // 2)
        self.p = self.cc.MakeCKKSPackedPlaintext(values(n // 2, 0.5))
        self.a = self.cc.Encrypt(self.keys.publicKey, self.cc.MakeCKKSPackedPlaintext(self.x))
        self.b = self.cc.Encrypt(self.keys.publicKey, self.p)
        modulus = self.cc.GetModulus()  # a float: infinite beyond 2^1024
        is_told = math.isfinite(modulus)
        log_q = math.log2(modulus) if is_told else FIRST_BITS + scale_bits * depth
        return {
            "logQ": round(log_q, 1), "logQP": round(log_q + SPECIAL_BITS * self.specials, 1),
            "limbs": depth + 1, "dnum": dnum,
            "threads": int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0)))),
        }  # fmt: skip

    def operation(self, name: str) -> Call | None:
        cc, a, b, p = self.cc, self.a, self.b, self.p
        if name in POLYNOMIALS:
            return self._polynomial(POLYNOMIALS[name])
        if name in MATRICES:
            return self._matrix(MATRICES[name])
        if name in MIXES:
            return self._mix(MIXES[name])
        if name == "8 rotations":
            steps = range(1, HOISTED + 1)
            return self._with_keys(steps, lambda: self._hoisted(a, steps))
        found: dict[str, Call] = {
            "add": lambda: cc.EvalAdd(a, b),
            "plaintext product": lambda: cc.Rescale(cc.EvalMult(a, p)),
            "product": lambda: cc.Rescale(cc.EvalMult(a, b)),
            "rotation": lambda: cc.EvalRotate(a, 1),
            "encode": lambda: cc.MakeCKKSPackedPlaintext(self.x),
            "encode and encrypt": self._encrypted,
            "decrypt and decode": self._decrypted,
        }
        return found.get(name)

    def settled(self, call: Call, with_memory: bool) -> dict[str, Any]:
        return {}

    def _encrypted(self) -> Any:
        """With the secret key, as Ren and SEAL do where they hold it."""
        return self.cc.Encrypt(self.keys.secretKey, self.cc.MakeCKKSPackedPlaintext(self.x))

    def _decrypted(self) -> list[float]:
        made = self.cc.Decrypt(self.a, self.keys.secretKey)
        made.SetLength(self.n // 2)
        return made.GetRealPackedValue()

    def _hoisted(self, x: Any, steps: Sequence[int]) -> list[Any]:
        shared = self.cc.EvalFastRotationPrecompute(x)
        return [self.cc.EvalFastRotation(x, i, 2 * self.n, shared) for i in steps]

    def _with_keys(self, steps: Sequence[int], call: Call) -> Call | None:
        each = 2 * self.dnum * (self.depth + 1 + self.specials) * self.n * 8
        if each * len(steps) > MOST_KEY_BYTES:
            return None
        self.cc.EvalRotateKeyGen(self.keys.secretKey, list(steps))
        return call

    def _matrix(self, size: int) -> Call | None:
        cc, slots = self.cc, self.n // 2
        if 8 * (self.depth + 1) * self.n * size > MOST_PLAIN_BYTES:
            return None
        v = cc.Encrypt(
            self.keys.publicKey, cc.MakeCKKSPackedPlaintext(values(size) * (slots // size))
        )
        encoded: list[Any] = []

        def call() -> Any:
            made = circuits.product(
                lambda count: [v, *self._hoisted(v, range(1, count))],
                encoded, cc.EvalMult, cc.EvalAdd, cc.EvalRotate,
            )  # fmt: skip
            return cc.Rescale(made)

        found = self._with_keys(circuits.steps(size), call)
        if found is not None:
            rows = circuits.diagonals(matrix(size), slots)
            encoded += map(cc.MakeCKKSPackedPlaintext, rows)
        return found

    def _mix(self, size: int) -> Call:
        cc, rows = self.cc, matrix(size)
        plain = cc.MakeCKKSPackedPlaintext(self.x)
        vectors = [cc.Encrypt(self.keys.publicKey, plain) for _ in range(size)]
        return lambda: [
            cc.Rescale(y) for y in circuits.mixed(vectors, rows, cc.EvalMult, cc.EvalAdd)
        ]

    def _polynomial(self, degree: int) -> Call | None:
        numbers = coefficients(degree)
        if self.depth < math.ceil(math.log2(degree + 1)) + 1:
            return None
        return lambda: self.cc.EvalPoly(self.a, numbers)


if __name__ == "__main__":
    serve(OpenFHEPeer())
