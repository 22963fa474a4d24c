"""SEAL, called through the SEAL-level interface of TenSEAL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tenseal.sealapi as seal

GENERATOR = 3  # of the galois elements of rotations
END_BITS = 60  # of the first and of the special prime, as SEAL's examples have them


def chain(depth: int, scale_bits: int) -> list[int]:
    """The bits of the primes of a chain of `depth` rescales, the special prime last."""
    return [END_BITS, *[scale_bits] * depth, END_BITS]


class Seal:
    """One owner's keys, and the operations on ciphertexts at the top level.

    Args:
        n: the ring degree.
        bits: of the primes, the special one last.
        scale_bits: log2 of the scale.
        steps: the rotations to make keys for.
        is_checked: whether SEAL is to refuse what is below 128 bits; it knows no n above 2^15.
    """

    def __init__(
        self,
        n: int,
        bits: Sequence[int],
        scale_bits: int,
        steps: Iterable[int] = (1,),
        is_checked: bool = True,
    ) -> None:
        self.n, self.scale, self.bits = n, 2.0**scale_bits, list(bits)
        parms = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
        parms.set_poly_modulus_degree(n)
        parms.set_coeff_modulus(seal.CoeffModulus.Create(n, self.bits))
        level = seal.SEC_LEVEL_TYPE.TC128 if is_checked else seal.SEC_LEVEL_TYPE.NONE
        self.context = seal.SEALContext(parms, True, level)
        if not self.context.parameters_set():
            raise ValueError(self.context.parameters_error_message())
        self._maker = seal.KeyGenerator(self.context)
        public = seal.PublicKey()
        self._maker.create_public_key(public)
        self.relin, self.galois = seal.RelinKeys(), seal.GaloisKeys()
        self._maker.create_relin_keys(self.relin)
        self.make_rotation_keys(steps)
        secret = self._maker.secret_key()
        self.encoder = seal.CKKSEncoder(self.context)
        self.evaluator = seal.Evaluator(self.context)
        self._encryptor = seal.Encryptor(self.context, public, secret)
        self._decryptor = seal.Decryptor(self.context, secret)

    def make_rotation_keys(self, steps: Iterable[int]) -> None:
        """Exactly these keys; the ones before are dropped."""
        elements = [pow(GENERATOR, step, 2 * self.n) for step in sorted(set(steps))]
        self.galois = seal.GaloisKeys()
        self._maker.create_galois_keys(elements, self.galois)

    def encode(self, values: Any, like: Any = None) -> Any:
        """A plaintext at the scale; at the level of `like`, the top by default."""
        made, items = seal.Plaintext(), getattr(values, "tolist", lambda: values)()
        where = () if like is None else (like.parms_id(),)
        self.encoder.encode(items, *where, self.scale, made)
        return made

    def encrypt(self, plain: Any, is_public: bool = False) -> Any:
        """With the secret key, or with the public one."""
        made = seal.Ciphertext()
        (self._encryptor.encrypt if is_public else self._encryptor.encrypt_symmetric)(plain, made)
        return made

    def decrypt(self, x: Any) -> list[complex]:
        """All slots."""
        plain = seal.Plaintext()
        self._decryptor.decrypt(x, plain)
        return self.encoder.decode_complex(plain)

    def add(self, x: Any, y: Any) -> Any:
        made = seal.Ciphertext()
        self.evaluator.add(x, y, made)
        return made

    def multiply_plain(self, x: Any, p: Any) -> Any:
        """x * p, rescaled."""
        made = seal.Ciphertext()
        self.evaluator.multiply_plain(x, p, made)
        self.evaluator.rescale_to_next_inplace(made)
        return made

    def multiply(self, x: Any, y: Any) -> Any:
        """x * y, relinearized and rescaled."""
        made = seal.Ciphertext()
        self.evaluator.multiply(x, y, made)
        self.evaluator.relinearize_inplace(made, self.relin)
        self.evaluator.rescale_to_next_inplace(made)
        return made

    def rotate(self, x: Any, step: int = 1) -> Any:
        """result[i] = x[i + step]."""
        made = seal.Ciphertext()
        self.evaluator.rotate_vector(x, step, self.galois, made)
        return made
