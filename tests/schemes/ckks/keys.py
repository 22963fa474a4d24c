"""The keys that a context holds, for tests that look into them."""

from __future__ import annotations

import jax

from ren.schemes import ckks
from ren.schemes.rlwe.keychain import Keychain


def keys_of(context: ckks.Context) -> Keychain:
    """The keychain of a context: its one child as a pytree."""
    (keys,) = jax.tree.leaves(context, is_leaf=lambda x: isinstance(x, Keychain))
    return keys
