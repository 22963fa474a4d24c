"""INSECURE: contexts whose keys and encryptions all come from a seed that you write down.

For tests that have to come out the same every time. The randomness is injected where production
code takes that of the operating system. So such a test runs that very code. All that it makes says
INSECURE, for its parameters have a secret that no bound covers. This shows in reprs, in headers of
bytes and in servers. The digest of the parameters is another one, so it does not mix with secure
data.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import attrs

from ren.core.attributes import unknown_attribute
from ren.core.errors import ParameterError
from ren.poly.calls import check_functions
from ren.sampling import SeedStream
from ren.schemes.ckks.context import Context
from ren.schemes.ckks.parameters.keywords import INSTEAD
from ren.schemes.ckks.parameters.parameters import Parameters
from ren.schemes.rlwe.keychain import new_keychain
from ren.schemes.rlwe.security import KNOWN_SECRET

__all__ = ["context"]

_DOMAIN = b"ren/ckks/testing"


def context(
    seed: bytes, depth: int = 1, *, params: Parameters | None = None, **wishes: Any
) -> Context:
    """INSECURE: an owner's context that is the same for the same seed, and so is what it encrypts.

    The first draw of the stream gives the secret, from which all keys are derived. The order of
    encryptions matters: each draws what follows in the stream. Encryption inside `ren.jit` draws
    from the operating system at each replay. So do the noise of `decrypt_shared` and contexts that
    are loaded from bytes. The same are keys and limbs; `to_bytes` also holds the `estimate`, laid
    out by what a process made before.

    Args:
        seed: at least one byte.
        depth: as in `ckks.Parameters.for_depth`.
        wishes: as there; no bound is kept to unless `security=` is given.
        params: parameters made before, instead.

    Raises:
        RandomnessError: the seed is not a non-empty `bytes`.
        ParameterError: parameters that cannot be met.

    Example:
        >>> import numpy as np
        >>> from ren.schemes import ckks
        >>> a, b = (ckks.testing.context(b"a seed", n=1024) for _ in range(2))
        >>> np.array_equal(a.encrypt([1.0]).decrypt(), b.encrypt([1.0]).decrypt())  # the errors too
        True
        >>> "INSECURE" in repr(a)
        True
    """
    source = SeedStream(seed, _DOMAIN)
    if params is not None and (wishes or depth != 1):
        raise ParameterError(
            f"ckks.testing.context() got params and {', '.join(wishes) or 'depth'}.",
            "The parameters fix the depth and all else.",
            "Leave one of the two out.",
        )
    if params is None:
        params = Parameters.for_depth(depth, **{"security": None, **wishes})
    params = attrs.evolve(params, secret=KNOWN_SECRET, security=None)
    return Context(params, new_keychain(params, source), source)


check_functions(globals(), __all__, "ckks.testing", {**INSTEAD, "+seed": 'seed=b"a seed"'})


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> NoReturn:
    if name.startswith("_"):
        raise AttributeError(name, name=name, obj=sys.modules[__name__])
    raise unknown_attribute("ckks.testing", name, __all__, {})
