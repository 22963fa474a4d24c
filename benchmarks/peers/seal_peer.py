"""Serves SEAL, through TenSEAL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import tenseal

from benchmarks.peers import circuits
from benchmarks.peers.seal import Seal, chain
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

LARGEST_CHECKED = 1 << 15  # SEAL's own table of bounds ends there


class SealPeer:
    """Its digits are single primes, and it uses one thread."""

    def versions(self) -> dict[str, str]:
        return {"tenseal": version("tenseal")}

    def digits(self, n: int, depth: int, scale_bits: int, bound: int) -> Sequence[int]:
        return [depth + 1] if sum(chain(depth, scale_bits)) <= bound else []

    def setup(self, n: int, depth: int, scale_bits: int, dnum: int) -> dict[str, Any]:
        bits = chain(depth, scale_bits)
        self.seal = Seal(n, bits, scale_bits, is_checked=n <= LARGEST_CHECKED)
        self.n, self.depth, self.scale_bits = n, depth, scale_bits
        self.x, self.y = values(n // 2), values(n // 2, 0.5)
        self.p = self.seal.encode(self.y)
        self.a, self.b = (self.seal.encrypt(self.seal.encode(v)) for v in (self.x, self.y))
        # Primes of so many bits are just under the power of two.
        return {
            "logQ": sum(bits[:-1]), "logQP": sum(bits), "limbs": depth + 1, "dnum": dnum,
            "threads": 1,
        }  # fmt: skip

    def operation(self, name: str) -> Call | None:
        s, a, b, p = self.seal, self.a, self.b, self.p
        if name in POLYNOMIALS:
            return self._polynomial(POLYNOMIALS[name])
        if name in MATRICES:
            return self._matrix(MATRICES[name])
        if name in MIXES:
            return self._mix(MIXES[name])
        if name == "8 rotations":
            return self._with_keys(
                range(1, HOISTED + 1), lambda: [s.rotate(a, i + 1) for i in range(HOISTED)]
            )
        if name == "NTT":
            return self._transform()
        if name == "INTT":
            made = type(a)()
            return lambda: s.evaluator.transform_from_ntt(a, made)
        found: dict[str, Call] = {
            "add": lambda: s.add(a, b),
            "plaintext product": lambda: s.multiply_plain(a, p),
            "product": lambda: s.multiply(a, b),
            "rotation": lambda: s.rotate(a),
            "encode": lambda: s.encode(self.x),
            "encode and encrypt": lambda: s.encrypt(s.encode(self.x)),
            "decrypt and decode": lambda: s.decrypt(a),
        }
        return found.get(name)

    def settled(self, call: Call, with_memory: bool) -> dict[str, Any]:
        return {}

    def _transform(self) -> Call:
        plain, made = type(self.a)(), type(self.a)()
        self.seal.evaluator.transform_from_ntt(self.a, plain)
        return lambda: self.seal.evaluator.transform_to_ntt(plain, made)

    def _with_keys(self, steps: Sequence[int], call: Call) -> Call | None:
        each = 2 * (self.depth + 1) * (self.depth + 2) * self.n * 8
        if each * len(steps) > MOST_KEY_BYTES:
            return None
        self.seal.make_rotation_keys({1, *steps})
        return call

    def _matrix(self, size: int) -> Call | None:
        s = self.seal
        if size * self._plaintext_nbytes > MOST_PLAIN_BYTES:
            return None
        v = s.encrypt(s.encode(values(size) * (self.n // 2 // size)))

        def call() -> Any:
            turned = circuits.product(
                lambda count: [v, *(s.rotate(v, i) for i in range(1, count))],
                encoded, self._multiplied, s.add, s.rotate,
            )  # fmt: skip
            s.evaluator.rescale_to_next_inplace(turned)
            return turned

        found = self._with_keys(circuits.steps(size), call)
        if found is not None:
            encoded = [s.encode(d) for d in circuits.diagonals(matrix(size), self.n // 2)]
        return found

    def _mix(self, size: int) -> Call | None:
        s = self.seal
        if size**2 * self._plaintext_nbytes > MOST_PLAIN_BYTES:
            return None
        vectors = [s.encrypt(s.encode(self.x)) for _ in range(size)]
        encoded = [list(map(s.encode, row)) for row in matrix(size)]

        def call() -> Any:
            made = circuits.mixed(vectors, encoded, self._multiplied, s.add)
            for y in made:
                s.evaluator.rescale_to_next_inplace(y)
            return made

        return call

    @property
    def _plaintext_nbytes(self) -> int:
        return 8 * (self.depth + 1) * self.n

    def _multiplied(self, x: Any, p: Any) -> Any:
        """x * p, not rescaled."""
        made = type(x)()
        self.seal.evaluator.multiply_plain(x, p, made)
        return made

    def _polynomial(self, degree: int) -> Call | None:
        """TenSEAL's own evaluation: all powers, then one product with a number for each."""
        if self.depth < math.ceil(math.log2(degree + 1)) + 1 or self.n > LARGEST_CHECKED:
            return None
        context = tenseal.context(
            tenseal.SCHEME_TYPE.CKKS, self.n, n_threads=1,
            coeff_mod_bit_sizes=chain(self.depth, self.scale_bits),
        )  # fmt: skip
        context.global_scale = 2**self.scale_bits
        vector, numbers = tenseal.ckks_vector(context, self.x), coefficients(degree)
        return lambda: vector.polyval(numbers)


if __name__ == "__main__":
    serve(SealPeer())
