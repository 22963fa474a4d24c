"""Active and live contexts of a scheme that is not CKKS."""

from __future__ import annotations

import dataclasses
import gc
from typing import Any

import pytest

from ren.core.errors import ContextError
from ren.core.ring import RingSpec
from ren.schemes.rlwe import active_context as active
from ren.schemes.rlwe import encryption
from ren.schemes.rlwe.keychain import Keychain, new_keychain
from ren.schemes.rlwe.keys import SwitchingKey
from tests.schemes.rlwe.test_second_scheme import PARAMS, Parameters


class OtherParameters(Parameters):
    pass


class Context:
    def __init__(self, keys: Keychain) -> None:
        self.params, self._keys = PARAMS, keys
        self.key_id = keys.key_id
        active.register(self)

    def relinearization_key(self) -> SwitchingKey:
        return self._keys.require_relinearization()

    def galois_key(self, galois: int, what: str, ring: RingSpec) -> SwitchingKey:
        return self._keys.galois[galois]

    def decrypt(self, x: Any) -> Any:
        return encryption.decrypt(x, self._keys.require_secret())


@pytest.fixture(scope="module")
def keychains() -> list[Keychain]:
    return [new_keychain(PARAMS) for _ in range(2)]


@pytest.mark.long
def test_context_for_finds_the_most_capable_live_context(keychains):
    keys, _ = keychains
    server, owner = Context(keys.evaluation_only()), Context(keys)
    latest = Context(keys.evaluation_only())
    assert active.context_for(keys.key_id, "a sum") is owner
    del owner
    gc.collect()
    assert active.context_for(keys.key_id, "a sum") is latest is not server


def test_active_context_is_of_the_parameters_asked_for(keychains):
    a, b = map(Context, keychains)
    assert active.active_context(Parameters) is None
    active.push(a)
    try:
        assert active.active_context(Parameters) is a
        assert active.active_context(OtherParameters) is None
        with pytest.raises(ContextError, match="is active"):
            active.context_for(b.key_id, "a sum")
    finally:
        active.pop(a)


def test_admission_refuses_other_keys_of_a_live_key_id(keychains):
    owner, forged = Context(keychains[0]), keychains[1].relinearization
    with (
        pytest.raises(ContextError, match="relinearization"),
        active.admission(dataclasses.replace(owner._keys, relinearization=forged), "from_bytes"),
    ):
        pass
