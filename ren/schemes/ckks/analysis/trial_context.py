"""The context of a trial: placeholder keys, and a note of those that a function asks for."""

from __future__ import annotations

import dataclasses
import math
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax

from ren.core.ring import RingSpec
from ren.core.spec import Spec
from ren.poly import Poly
from ren.schemes.ckks.ciphertext import Ciphertext
from ren.schemes.ckks.context import Context
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.identity import IDENTITY_BYTES, Identity
from ren.schemes.rlwe.keychain import Keychain, key_of
from ren.schemes.rlwe.keys import SwitchingKey
from ren.schemes.rlwe.keyswitch import gadget_of

MakePoly = Callable[[Spec], Poly]


class TrialContext(Context):
    """A context under trial parameters, which notes the galois keys that are asked for.

    Args:
        params: the parameters.
        poly: makes the polynomials of keys.
        levels: by galois element, the highest level of its key; of others it is the highest.
    """

    def __init__(self, params: Parameters, poly: MakePoly, levels: Mapping[int, int]) -> None:
        identity = Identity.frombytes(params.digest, secrets.token_bytes(IDENTITY_BYTES))
        whole = gadget_of(params)
        super().__init__(params, Keychain(identity, relinearization=key_of(whole, poly)))
        self._poly, self._levels = poly, levels
        self._noted: dict[int, set[int]] = {}
        self._results: list[Ciphertext] = []

    def galois_key(self, galois: int, what: str, ring: RingSpec) -> SwitchingKey:
        """A placeholder for the key of X -> X^galois; `ring` is noted."""
        self._noted.setdefault(galois, set()).update(ring.moduli)
        held = self._keys.galois
        if galois not in held:
            gadget = gadget_of(self.params).cut(self.params.moduli_to(self._levels.get(galois)))
            held = {**held, galois: key_of(gadget, self._poly)}
            self._keys = dataclasses.replace(self._keys, galois=held)
        return held[galois]

    def returned(self, made: Any) -> Any:
        """The result of the function as it is; its ciphertexts are kept."""
        leaves = jax.tree.leaves(made, is_leaf=lambda v: isinstance(v, Ciphertext))
        self._results = [v for v in leaves if isinstance(v, Ciphertext)]
        return made

    def levels(self) -> dict[int, int]:
        """The highest level at which each key was asked for, by galois element."""
        reach = [set(self.params.moduli_to(level)) for level in range(self.params.depth + 1)]
        return {
            g: next(level for level, held in enumerate(reach) if moduli <= held)
            for g, moduli in self._noted.items()
        }

    def left_out(self, sources: Iterable[Any]) -> int:
        """Bytes of these inputs that planned galois keys lack: limbs for higher levels."""
        read, left = {id(source) for source in sources}, 0
        for galois, level in self.levels().items():
            key = self._keys.galois[galois]
            given = sum(4 * math.prod(p.shape) for p in (*key.b, *key.a) if id(p.node.arg) in read)
            left += max(0, given - self.params.key_nbytes(level))
        return left
