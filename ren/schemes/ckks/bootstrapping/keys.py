"""The keys of a bootstrap, made of the secret: see `parameters.bootstrapping.labels`.

The sparse secret is derived from the secret and forgotten: it is in no keychain and no bytes. The
chain of keys from the secret to it and back rests on circular security, as all bootstrapping does.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ren.core.errors import ParameterError
from ren.core.text_table import size
from ren.lowering.devices.cores import free_bytes
from ren.lowering.runtime.host_arrays import trim
from ren.poly import Poly
from ren.progress import Progress
from ren.sampling import Xof, sparse_ternary
from ren.schemes.ckks.parameters.bootstrapping.above import WEIGHT
from ren.schemes.ckks.parameters.bootstrapping.chain import Chain
from ren.schemes.ckks.parameters.bootstrapping.labels import SQUARE, element_of, gadget_of
from ren.schemes.rlwe.keychain import key_entropy, labelled_label
from ren.schemes.rlwe.keys import (
    Secret,
    SwitchingKey,
    automorphism_of,
    make_switching_key,
    secret_from,
    square_of,
)
from ren.schemes.rlwe.keyswitch import Gadget

_SPARSE_SECRET = b"bootstrapping/sparse secret"
_DOMAIN = b"ren/ckks/bootstrapping/sparse"


def check_memory(needed: int) -> None:
    """Raise ParameterError where less memory is free than keys of so many bytes take."""
    if (free := free_bytes()) < needed:
        raise ParameterError(
            f"The keys of a bootstrap were to be made: {size(needed)}.",
            f"{size(int(free))} of memory are free.",
            "Make them on a larger machine, or ask for fewer levels: "
            "ckks.context(depth=8, bootstrapping=True).",
        )


def made_keys(wanted: Iterable[str], secret: Secret, chain: Chain) -> dict[str, SwitchingKey]:
    """The keys with these labels, computed at once; equal secrets have equal ones."""
    params, made, names = chain.params, dict[str, SwitchingKey](), list(wanted)
    short = sparse_secret(secret, chain)
    dense = dict[Gadget, Secret]()
    with Progress(len(names), "making bootstrapping keys") as progress:
        for label in names:
            gadget, seeds = gadget_of(label, chain), labelled_label(label)
            if gadget not in dense:
                dense[gadget] = secret_from(secret.coefficients, gadget.ring)
            source, target = _ends(label, dense[gadget], short, gadget)
            draws = key_entropy(secret, params.digest, seeds)
            made[label] = make_switching_key(
                source, target, gadget.factors, params.digest, seeds, params.sigma, draws
            )
            progress.step()
    trim()
    return made


def _ends(label: str, dense: Secret, short: NDArray[np.int8], gadget: Gadget) -> tuple[Poly, Poly]:
    """The secret that a key leads from, and that which it leads to."""
    kind = label.split()[0]
    if kind == "sparse":
        return dense.poly, secret_from(short, gadget.ring).poly
    if label == SQUARE:
        return square_of(dense), dense.poly
    element = pow(element_of(label), -1, 2 * gadget.n)
    target = dense.poly if element == 1 else automorphism_of(dense, element)
    return secret_from(short, gadget.ring).poly if kind == "raised" else dense.poly, target


def sparse_secret(secret: Secret, chain: Chain) -> NDArray[np.int8]:
    """The sparse secret of a secret: int8 [n]."""
    draws = key_entropy(secret, chain.params.digest, _SPARSE_SECRET)
    return sparse_ternary(Xof(draws(), _DOMAIN), chain.params.n, WEIGHT)
